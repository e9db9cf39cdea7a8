"""Bounds and guarantees hold in simulations, and are exact where they say so."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hdrl.base.errors import WorkloadError
from hdrl.settings.pipelines.analysis.guarantees import (
    PeriodicTask,
    fewest_misses,
    is_dispatch_safe,
    least_misses,
    unavoidable_misses,
)
from hdrl.settings.pipelines.analysis.mapping import best_mapping
from hdrl.settings.pipelines.inputs import generated_load, in_a_row
from hdrl.settings.pipelines.loads.generate import PipelineModel
from hdrl.settings.pipelines.loads.load import PipelineLoad
from hdrl.settings.pipelines.loads.pipeline import NEVER
from hdrl.settings.pipelines.loads.readers import read_period_file
from hdrl.settings.pipelines.loads.releases import Context, hyperperiod_us, release
from hdrl.settings.pipelines.machine import Units, read_machine
from hdrl.settings.pipelines.metrics import compute_metrics
from hdrl.settings.pipelines.simulation.policies import RULES, simulate

from .oracle import World
from .worlds import ADAS, chain, independent, released, worlds

BOTH = read_machine("1cpu+1gpu")


def task(time_us: int, period_us: int, deadline_us: int = 0) -> PeriodicTask:
    return PeriodicTask(time_us, time_us, period_us, deadline_us or period_us, deadline_us or period_us)


def jeffay(tasks: list[tuple[int, int]]) -> bool:
    """The condition as it is published: tasks (time, period) without own deadlines, by period."""
    tasks = sorted(tasks, key=lambda one: one[1])
    if sum(c / t for c, t in tasks) > 1:
        return False
    for i, (c_i, t_i) in enumerate(tasks):
        for length in range(tasks[0][1] + 1, t_i):
            if length < c_i + sum((length - 1) // t * c for c, t in tasks[:i]):
                return False
    return True


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 15)), min_size=1, max_size=4))
def test_the_sufficient_test_is_jeffays(tasks: list[tuple[int, int]]):
    assert is_dispatch_safe([task(*one) for one in tasks]) == jeffay(tasks)


tasks_with_deadlines = st.lists(
    st.tuples(st.integers(1, 5), st.integers(4, 12), st.integers(3, 12), st.integers(0, 9)), min_size=1, max_size=3
)


@hypothesis_settings(max_examples=150)
@given(tasks_with_deadlines)
def test_what_is_safe_misses_nothing(rows: list[tuple[int, int, int, int]]):
    """Whatever the phases."""
    rows = [(c, t, min(d, t), phase) for c, t, d, phase in rows]
    if not is_dispatch_safe([task(c, t, d) for c, t, d, _ in rows]):
        return
    pipelines = tuple(chain(f"p{k}", (c, NEVER), deadline_us=d, phase_us=p) for k, (c, _, d, p) in enumerate(rows))
    periods = tuple(t for _, t, _, _ in rows)
    load = PipelineLoad("x", pipelines, release(pipelines, [Context(periods, 3 * hyperperiod_us(periods))]))
    assert not simulate(read_machine("1cpu"), load, "edf").is_missed.any()


def test_safety_by_hand():
    assert is_dispatch_safe([task(2, 4), task(2, 4)])
    assert not is_dispatch_safe([task(2, 4), task(4, 8)])  # whoever comes just after the long one has begun
    assert is_dispatch_safe([PeriodicTask(4, 2, 8, 8, 8), task(2, 4)])  # unless it is cut into parts
    assert not is_dispatch_safe([task(3, 4), task(2, 4)])
    assert is_dispatch_safe([])
    # Some instances of the first have late deadlines: they may have begun when short ones of the second come.
    assert not is_dispatch_safe([PeriodicTask(4, 4, 9, 4, 9), task(1, 4, 4)])


def brute_force(machine: Units, load: PipelineLoad) -> int:  # noqa: C901
    """Try all sequences of decisions in the plain simulator, waiting included."""
    best = load.n_items

    def late(world: World) -> int:
        due = load.instances["deadline_us"] + load.instances["tolerance_us"]
        return sum(end > due[i] for i, end in world.ended.items())

    def replay(history: list[tuple[int, int, int] | None]) -> World:
        world = World(machine, load)
        for one in history:
            settle(world)
            if one is None:
                world.next_event()
            else:
                world.dispatch(*one)
        settle(world)
        return world

    def settle(world: World) -> None:
        while len(world.ended) < load.n_items and (not world.ready() or None not in world.running):
            world.next_event()

    def go(history: list[tuple[int, int, int] | None]) -> None:
        nonlocal best
        world = replay(history)
        if late(world) >= best:
            return
        if len(world.ended) == load.n_items:
            best = late(world)
            return
        for instance, kernel in world.ready():
            for option in world.choices(instance, kernel):
                group = world.pipeline(instance).options[option]
                for unit in range(machine.n_units):
                    possible = world.startable(instance, group) and world.worst(instance, group, unit) != NEVER
                    if possible and world.running[unit] is None:
                        go([*history, (instance, option, unit)])
        if any(world.running) or world.released < load.n_items:
            go([*history, None])

    go([])
    return best


@hypothesis_settings(max_examples=40)
@given(worlds())
def test_the_search_finds_the_fewest_misses(world: tuple[Units, PipelineLoad]):
    machine, load = world
    load = load.window(0, min(3, load.n_items))
    if load.first_kernels[-1] > 5 or machine.n_units > 3:
        machine, load = read_machine("1cpu+1gpu"), independent((5, 0, 9), (4, 2, 8), (3, 3, 12))
    found = fewest_misses(machine, load)
    assert found.is_exact
    assert found.at_most == brute_force(machine, load)


@hypothesis_settings(max_examples=100)
@given(worlds(), st.sampled_from([name for name in RULES if not name.startswith(("cpu", "gpu", "static"))]))
def test_nobody_misses_fewer_than_the_bound_says(world: tuple[Units, PipelineLoad], policy: str):
    machine, load = world
    found = fewest_misses(machine, load, max_nodes=3000)
    missed = int(simulate(machine, load, policy, seed=1).is_missed.sum())
    assert unavoidable_misses(machine, load) <= found.at_least <= found.at_most
    assert found.at_least <= missed


def test_unavoidable_by_hand():
    one = read_machine("1cpu")
    assert unavoidable_misses(one, independent((5, 0, 4))) == 1
    # Three of four fit between 0 and 9; the two later ones do not fit between 20 and 29.
    load = independent((3, 0, 9), (3, 0, 9), (3, 0, 9), (4, 0, 9), (5, 20, 29), (5, 20, 29))
    assert unavoidable_misses(one, load) == 2
    assert fewest_misses(one, load).at_most == 2
    assert unavoidable_misses(read_machine("2cpu"), load) == 0
    # The demand bound does not see that nothing is preempted; the search does.
    blocked = independent((10, 0, 30), (1, 1, 3), (10, 2, 23))
    assert (unavoidable_misses(one, blocked), fewest_misses(one, blocked).at_least) == (0, 0)
    # Two short ones cut the time into pieces that are too short for the long one; only the search sees it.
    cut = independent((6, 0, 13), (1, 3, 4), (1, 7, 8))
    assert (unavoidable_misses(one, cut), least_misses(one, cut)) == (0, 1)
    assert compute_metrics(simulate(one, cut, "edf"))["n_own_misses"] == simulate(one, cut, "edf").is_missed.sum() - 1
    assert simulate(one, blocked, "edf").is_missed.sum() == 1  # waiting for the short one would have met all


needs_adas = pytest.mark.skipif(not ADAS.is_dir(), reason="rlschedsim's files are not at hand")


@needs_adas
@pytest.mark.parametrize("name", ["period1", "period2", "period3"])
def test_a_static_mapping_meets_every_deadline_of_the_shipped_sets(name: str):
    """All 81 configurations of each, guaranteed and simulated: fused networks, one kind on each unit."""
    found = read_period_file(ADAS / f"{name}.stats")
    for periods in found.configurations():
        load = PipelineLoad(name, found.pipelines, release(found.pipelines, [Context(periods)]))
        mapping = best_mapping(BOTH, load)
        assert mapping.is_guaranteed
        assert mapping.is_exact
        trace = simulate(BOTH, load, "static", plan=mapping.plan)
        assert not trace.is_missed.any()
        assert unavoidable_misses(BOTH, load) == 0


@needs_adas
def test_without_fusion_somebody_must_miss():
    found = read_period_file(ADAS / "period1.stats")
    fastest = PipelineLoad("x", found.pipelines, release(found.pipelines, [Context(found.configuration(0))]))
    assert unavoidable_misses(BOTH, fastest, is_fusing=False) >= 1


@hypothesis_settings(max_examples=40)
@given(st.data())
def test_the_best_mapping_is_the_best_of_all(data: st.DataObject):
    machine = read_machine(data.draw(st.sampled_from(["1cpu+1gpu", "2cpu+1gpu"])))
    n = data.draw(st.integers(1, 4))
    pipelines = tuple(
        chain(f"p{k}", *data.draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=2)))
        for k in range(n)
    )
    periods = tuple(data.draw(st.sampled_from([10, 20, 40])) for _ in range(n))
    load = PipelineLoad("x", pipelines, release(pipelines, [Context(periods)]))
    values = []
    for units in itertools.product(range(machine.n_units), repeat=n):
        tasks: list[list[PeriodicTask]] = [[] for _ in range(machine.n_units)]
        for pipeline, unit, period in zip(pipelines, units, periods, strict=True):
            times = [kernel.times_us[machine.kinds[unit]] for kernel in pipeline.kernels]
            tasks[unit].append(PeriodicTask(sum(times), max(times), period, period, period))
        shares = [sum(one.time_us / one.period_us for one in own) for own in tasks]
        values.append((sum(not is_dispatch_safe(own) for own in tasks), max(shares)))
    mapping = best_mapping(machine, load)
    n_unsafe, utilization = min(values)
    assert mapping.is_guaranteed == (n_unsafe == 0)
    assert mapping.utilization == pytest.approx(utilization)
    trace = simulate(machine, load, "static", plan=mapping.plan)
    assert not (mapping.is_guaranteed and trace.is_missed.any())
    for one in trace.runs:
        assert one["unit"] == mapping.units[load.instances["pipeline"][one["instance"]]]


def test_a_mapping_may_be_cut_where_kernels_do_not_fuse():
    pipeline = chain("a", (5, 9), (5, 9), (5, 9), groups={(1, 2): (6, 9)})
    load = released((pipeline,), (0, 0, 20))
    mapping = best_mapping(BOTH, load)
    assert mapping.plan == {0: {0: (0, 0), 1: (1, 0)}}
    assert simulate(BOTH, load, "static").end_us.tolist() == [11]
    with pytest.raises(WorkloadError, match="pipeline 'b' can run on no single unit"):
        best_mapping(BOTH, released((chain("b", (5, NEVER), (NEVER, 5)),), (0, 0, 20)))
    assert np.isclose(mapping.utilization, 11 / 20)


def test_sets_that_follow_each_other_are_mapped_each_by_itself():
    model = PipelineModel(n_pipelines=3, utilization=0.6, shape="mixed")
    loads = [generated_load(model, seed=seed, length_us=2_000_000) for seed in (1, 2, 3)]
    row = in_a_row(loads, "row")
    alone, together = [best_mapping(BOTH, load) for load in loads], best_mapping(BOTH, row)
    assert together.units == tuple(unit for one in alone for unit in one.units)
    assert together.utilization == max(one.utilization for one in alone)
    assert together.is_guaranteed == all(one.is_guaranteed for one in alone)
    assert together.is_exact
    missed = [simulate(BOTH, load, "static").is_missed.sum() for load in (row, *loads)]
    assert missed[0] == sum(missed[1:])
    second = best_mapping(BOTH, row.window(loads[0].n_items, loads[1].n_items))
    assert second.units[3:6] == alone[1].units  # the others are never released in the window
    assert second.is_exact

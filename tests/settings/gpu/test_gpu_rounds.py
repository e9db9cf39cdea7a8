"""Gavel's rounds and policies of shares: programs solved by hand, and the numbers of Gavel's simulator."""

from __future__ import annotations

import random  # noqa: TID251 - Gavel shuffles types by Python's own generator
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numba
import numpy as np
import pytest

from hdrl.base.errors import SimulationError, UnknownName, WorkloadError
from hdrl.compiled.borrow import borrow
from hdrl.compiled.fields import fields_of, new_arrays
from hdrl.compiled.twister import N_TWISTER, python_twister_state
from hdrl.settings.gpu.cluster.machine import NODE_DTYPE, GpuCluster, GpuType, read_cluster
from hdrl.settings.gpu.cluster.throughputs import Throughputs, read_throughputs
from hdrl.settings.gpu.kernel.rounds import Rounds, _draw_order
from hdrl.settings.gpu.loads.gavel_jobs import gavel_load
from hdrl.settings.gpu.loads.load import GpuLoad, new_jobs
from hdrl.settings.gpu.metrics import compute_metrics
from hdrl.settings.gpu.policies.shares import SHARES
from hdrl.settings.gpu.policies.situation import ShareSituation
from hdrl.settings.gpu.simulation.rounds import mean_jct_s, simulate_rounds

pytest.importorskip("highspy")

TRACES = next(
    (parent / "shared" / "traces" / "gpu" for parent in Path(__file__).parents if (parent / "shared").is_dir()), Path()
)
needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason="the traces are not here")


def situation(rates: list[list[float]], gpus: list[int], **given: list[float]) -> ShareSituation:
    n = len(rates)
    columns = {"sizes": [1] * n, "priorities": [1.0] * n, "steps_left": [1.0] * n, "waited_s": [0.0] * n} | given
    arrays = {name: np.array(column) for name, column in columns.items()}
    return ShareSituation(
        jobs=np.arange(n), rates=np.array(rates), gpus=np.array(gpus), prices=np.array([1.0] * len(gpus)), **arrays
    )


def shares(policy: str, where: ShareSituation) -> np.ndarray:
    return SHARES[policy].make(0)(where)


def test_blind_fairness_gives_equal_time_and_aware_fairness_the_types_that_suit() -> None:
    # The first job is 4 times as fast on the first type, the second as fast on both.
    where = situation([[4.0, 1.0], [1.0, 1.0]], [1, 1])
    blind, aware = shares("gavel-las", where), shares("gavel-las-het", where)
    np.testing.assert_allclose(blind.sum(axis=1), [1, 1], atol=1e-5)
    # An equal part of both types is worth 2.5 to the first and 1 to the second, which can have no more than 1.
    value = (aware * where.rates).sum(axis=1)
    assert value[0] >= 2.5 * (1 - 1e-5)
    assert value[1] == pytest.approx(1.0, abs=1e-5)
    assert aware[0, 0] > aware[1, 0]


def test_fairness_counts_gpus_and_priorities() -> None:
    one = [[1.0], [1.0]]
    found = shares("gavel-las", situation(one, [1], priorities=[1.0, 3.0]))
    np.testing.assert_allclose(found[:, 0], [0.25, 0.75], atol=1e-4)
    found = shares("gavel-las", situation(one, [2], sizes=[1, 2]))
    np.testing.assert_allclose(found[:, 0] * [1, 2], [1, 1], atol=1e-3)  # equal GPU time


def test_makespan_goes_by_the_work_that_is_left() -> None:
    found = shares("gavel-makespan-het", situation([[1.0], [1.0]], [1], steps_left=[30.0, 10.0]))
    np.testing.assert_allclose(found[:, 0], [0.75, 0.25], atol=1e-4)


def test_finish_times_are_fair() -> None:
    where = situation([[1.0], [1.0]], [1], steps_left=[100.0, 100.0], waited_s=[300.0, 0.0])
    found = shares("gavel-ftf-het", where)[:, 0]
    rho = (where.waited_s + 100 / found) / (where.waited_s + 100 / 0.5)
    np.testing.assert_allclose(rho, rho[0], rtol=1e-2)
    assert found.sum() == pytest.approx(1.0, abs=1e-3)


def test_cheap_gpus_are_preferred_where_dollars_count() -> None:
    where = situation([[2.0, 1.0]], [1, 1])
    where = ShareSituation(
        **{**{name: getattr(where, name) for name in where.__slots__}, "prices": np.array([10.0, 1.0])}
    )
    assert shares("gavel-cost-het", where)[0, 0] < 0.01


def test_allox_matches_jobs_with_gpus() -> None:
    where = situation([[10.0, 1.0], [1.0, 1.0]], [1, 1], steps_left=[10.0, 10.0])
    np.testing.assert_array_equal(shares("allox", where), [[1, 0], [0, 1]])
    # All that wait are looked at, not only the oldest; and a GPU that nobody can use stays free.
    where = situation([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], [1, 1], steps_left=[30.0, 20.0, 10.0])
    np.testing.assert_array_equal(shares("allox", where), [[0, 0], [0, 0], [1, 0]])
    with pytest.raises(SimulationError, match="one GPU each"):
        shares("allox", situation([[1.0]], [2], sizes=[2]))


@needs_traces
def test_fifo_gives_the_number_of_gavels_simulator() -> None:
    table = read_throughputs(TRACES / "gavel_simulation_throughputs.json.gz")
    load = gavel_load(table, 3000, jobs_per_hour=2.0)
    trace = simulate_rounds(read_cluster("gavel"), load, "gavel-fifo", window=(1000, 2000))
    assert mean_jct_s(trace, 1000, 2000) == pytest.approx(64_334.487842, rel=1e-5)


@needs_traces
@pytest.mark.parametrize(("multi_gpu", "jobs_per_hour", "expected"), [(True, 2.0, 55_425.8), (False, 4.0, 58_588.8)])
def test_fifo_keeps_the_first_that_waits_as_gavels_current_program_does(multi_gpu, jobs_per_hour, expected) -> None:
    # A head of the queue that did not fit in the place of a job that had ended was left out until the next shares.
    table = read_throughputs(TRACES / "gavel_simulation_throughputs.json.gz")
    load = gavel_load(table, 1200, jobs_per_hour=jobs_per_hour, multi_gpu=multi_gpu)
    trace = simulate_rounds(read_cluster("gavel"), load, "gavel-fifo", window=(0, 400))
    assert mean_jct_s(trace, 0, 400) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("policy", list(SHARES))
def test_every_policy_of_shares_ends_all_jobs_and_repeats(policy: str) -> None:
    table = read_throughputs(TRACES / "gavel_simulation_throughputs.json.gz")
    cluster = read_cluster("gavel")
    load = gavel_load(table, 12, jobs_per_hour=20.0, multi_gpu=policy != "allox")
    trace, again = (simulate_rounds(cluster, load, policy, seed=1) for _ in range(2))
    assert trace.tasks.tobytes() == again.tasks.tobytes()
    tasks, stays = trace.tasks, trace.stays
    assert (tasks["end_s"] > tasks["start_s"]).all()
    done = np.zeros(load.n_items)
    np.add.at(done, stays["task"], (stays["end_s"] - stays["start_s"]) * stays["pace"])
    assert (done >= load.isolated_s(cluster) * (1 - 1e-3)).all()
    for unit in range(cluster.n_units):  # no GPU has two jobs at once, unless they are packed
        mine = [
            (one["start_s"], one["end_s"])
            for one in stays
            if unit in trace.stay_units[one["first_unit"] : one["first_unit"] + one["n_units"]]
        ]
        assert max(Counter(mine).values(), default=0) <= (2 if SHARES[policy].packs else 1)
        assert all(a[1] <= b[0] + 1e-6 for a, b in pairwise(sorted(set(mine))))


def test_what_rounds_cannot_run_is_told() -> None:
    cluster = GpuCluster("c", (GpuType("t"),), np.array([(0, 1, 0, 0)], dtype=NODE_DTYPE))
    jobs = new_jobs(1)
    with pytest.raises(UnknownName, match="gavel-las"):
        simulate_rounds(cluster, GpuLoad("l", jobs), "gavel-lass")
    with pytest.raises(WorkloadError, match=r"policies that pack need load\.throughputs"):
        simulate_rounds(cluster, GpuLoad("l", jobs), "gandiva")
    jobs["gpu_milli"] = 500
    with pytest.raises(WorkloadError, match="only allocate whole GPUs"):
        simulate_rounds(cluster, GpuLoad("l", jobs), "gavel-fifo")


def test_a_log_with_room_for_exactly_one_round_grows() -> None:
    """The simulation asked for room forever: 2 x 2 jobs + 64 entries are 4 x 17 GPUs."""
    cluster = GpuCluster("c", (GpuType("t"),), np.array([(0, 17, 0, 0)], dtype=NODE_DTYPE))
    trace = simulate_rounds(cluster, GpuLoad("l", new_jobs(2)), "gavel-fifo")
    np.testing.assert_allclose(trace.tasks["end_s"], [1.0, 1.0])


def test_throughput_per_dollar_needs_prices() -> None:
    cluster = GpuCluster("c", (GpuType("t"),), np.array([(0, 1, 0, 0)], dtype=NODE_DTYPE))
    with pytest.raises(WorkloadError, match="gavel-cost-het needs the prices of GPUs: c has no usd_per_hour of t"):
        simulate_rounds(cluster, GpuLoad("l", new_jobs(1)), "gavel-cost-het")


def test_fifo_gives_no_job_a_type_with_too_few_gpus() -> None:
    """Blind to types, it takes the last type by name for the one that it drew."""
    cluster = GpuCluster("c", (GpuType("a"), GpuType("b")), np.array([(0, 4, 0, 0), (1, 1, 0, 0)], dtype=NODE_DTYPE))
    jobs = new_jobs(1)
    jobs["n_gpus"] = 3
    assert simulate_rounds(cluster, GpuLoad("l", jobs), "gavel-fifo").tasks["end_s"].tolist() == [1.0]


def packable(rates: list[list[float]], gpus: list[int], together: list[float], **given: list[float]) -> ShareSituation:
    """Return a situation in which any two jobs may share a GPU of any type, with the same speeds."""
    where = situation(rates, gpus, **given)
    n, n_types = where.rates.shape
    pairs = np.broadcast_to(np.array(together), (n, n, n_types, 2))
    return replace(where, profiles=np.arange(n), pair_rates=pairs)


def test_gandiva_packs_where_jobs_are_too_many_and_keeps_its_pairs() -> None:
    policy = SHARES["gandiva"].make(0)
    few = policy(packable([[1.0]] * 2, [2], [0.8, 0.8]))
    assert len(few.pairs) == 0
    np.testing.assert_allclose(few.alone, [[1.0], [1.0]])
    many = packable([[1.0]] * 5, [2], [0.8, 0.8])
    found = policy(many)
    # Two pairs and a job alone share two GPUs.
    assert len(found.pairs) == 2
    np.testing.assert_allclose(found.together, 2 / 3)
    assert sorted(found.alone[:, 0]) == pytest.approx([0.0, 0.0, 0.0, 0.0, 2 / 3])
    assert policy(many).pairs.tolist() == found.pairs.tolist()
    # Pairs that are slower than a job alone are given up, and drawn anew.
    slow = SHARES["gandiva"].make(0)
    drawn = {str(slow(packable([[1.0]] * 6, [2], [0.4, 0.4])).pairs.tolist()) for _ in range(8)}
    assert len(drawn) > 1


def test_gandiva_packs_jobs_of_one_size_alone() -> None:
    found = SHARES["gandiva"].make(0)(packable([[1.0]] * 4, [2], [0.8, 0.8], sizes=[1, 2, 4, 8]))
    assert len(found.pairs) == 0


def test_fairness_packs_where_both_gain() -> None:
    found = SHARES["gavel-las-packed"].make(0)(packable([[1.0], [1.0]], [1], [0.8, 0.8]))
    np.testing.assert_allclose(found.together, [[1.0]], atol=1e-4)
    np.testing.assert_allclose(found.alone, [[0.0], [0.0]], atol=1e-4)
    found = SHARES["gavel-las-packed"].make(0)(packable([[1.0], [1.0]], [1], [0.4, 0.4]))
    np.testing.assert_allclose(found.alone, [[0.5], [0.5]], atol=1e-3)
    # Jobs that are alike are one group, whose pairs are within it.
    alike = replace(packable([[1.0]] * 4, [2], [0.8, 0.8]), profiles=np.zeros(4, dtype=np.int64))
    found = SHARES["gavel-las-packed"].make(0)(alike)
    assert found.pairs.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    np.testing.assert_allclose(found.together, 1 / 3, atol=1e-4)


def test_makespan_packs_as_long_as_two_have_something_to_do() -> None:
    # Together for 12.5 s, until the shorter job has done its 10 steps; then the longer one has 20 left, alone.
    where = packable([[1.0], [1.0]], [1], [0.8, 0.8], steps_left=[30.0, 10.0])
    found = SHARES["gavel-makespan-packed"].make(0)(where)
    np.testing.assert_allclose(found.together, [[12.5 / 32.5]], atol=1e-4)
    np.testing.assert_allclose(found.alone, [[20.0 / 32.5], [0.0]], atol=1e-4)


def test_a_pair_does_its_steps_on_one_gpu() -> None:
    one, other = ("a", 1), ("b", 1)
    rates = {(one, other): (0.5, 0.25), (other, one): (0.25, 0.5), (one, one): (0.0, 0.0), (other, other): (0.0, 0.0)}
    table = Throughputs("t", {"x": {one: 1.0, other: 1.0}}, {}, {"x": rates})
    cluster = GpuCluster("c", (GpuType("x"),), np.array([(0, 1, 0, 0)], dtype=NODE_DTYPE))
    jobs = new_jobs(2)
    jobs["work"], jobs["kind"] = [360, 180], [0, 1]
    load = GpuLoad("l", jobs, kinds=("a", "b"), throughputs=table)
    trace = simulate_rounds(cluster, load, "gandiva")
    # Two rounds of 360 s: in each the first does 180 steps, the second 90.
    np.testing.assert_allclose(trace.tasks["end_s"], [720.0, 720.0])
    assert trace.stays["pace"].tolist() == [0.5, 0.25]
    assert trace.stay_units.tolist() == [0, 0]
    numbers = compute_metrics(trace)
    assert numbers["utilization"] == pytest.approx(1.0)
    assert numbers["n_preemptions"] == 0
    assert numbers["jct_over_bound"] >= 1.0
    assert trace.signals["busy_x"].value.max() == 1.0


@numba.njit
def draw_order(state: Rounds) -> None:
    _draw_order(borrow(state))


@pytest.mark.parametrize("n_types", [1, 2, 3, 5])
def test_orders_of_types_are_those_of_pythons_own_shuffle(n_types: int) -> None:
    sizes = dict.fromkeys((name for one in fields_of(Rounds).values() for name in one.lengths), 1)
    given = {"order_draws": python_twister_state(7)}
    state = new_arrays(Rounds, {**sizes, "n_types": n_types, "n_twister": N_TWISTER}, given)
    state.scalars["is_shuffled"] = 1
    shuffle = random.Random(7)
    for _ in range(700):  # more words than a twister has
        expected = list(range(n_types))[::-1]
        shuffle.shuffle(expected)
        draw_order(state)
        assert state.order.tolist() == expected


def run_in_order(policy: str, speeds: list[list[float]], works: list[float], n_gpus: list[int]) -> np.ndarray:
    """Return the end of each job on two GPUs of the first type and one of the second, all there at date 0."""
    nodes = np.array([(0, 2, 0, 0), (1, 1, 0, 0)], dtype=NODE_DTYPE)
    kinds = [f"k{number}" for number in range(len(speeds))]
    alone = {
        name: {(kind, n): speeds[i][t] for i, (kind, n) in enumerate(zip(kinds, n_gpus, strict=True))}
        for t, name in enumerate(("a", "b"))
    }
    jobs = new_jobs(len(speeds))
    jobs["work"], jobs["kind"], jobs["n_gpus"] = works, range(len(speeds)), n_gpus
    load = GpuLoad("l", jobs, kinds=tuple(kinds), throughputs=Throughputs("t", alone, {}, {}))
    return simulate_rounds(GpuCluster("c", (GpuType("a"), GpuType("b")), nodes), load, policy).tasks["end_s"]


def test_fifo_takes_the_last_type_and_with_throughputs_the_fastest() -> None:
    # Blind, the first job takes the last type; with throughputs the first one, on which it is twice as fast.
    assert run_in_order("gavel-fifo", [[2.0, 1.0]], [360], [1]).tolist() == [360.0]
    assert run_in_order("gavel-fifo-het", [[2.0, 1.0]], [360], [1]).tolist() == [180.0]


def test_fifo_gives_no_job_a_type_on_which_it_cannot_run() -> None:
    # It takes the last type that is left: the second job cannot run there, and would wait for ever.
    assert run_in_order("gavel-fifo", [[1.0, 1.0], [1.0, 0.0]], [100, 200], [1, 1]).tolist() == [100.0, 200.0]


def test_nobody_overtakes_the_first_that_waits() -> None:
    # The second job needs both GPUs of the first type, of which the first job holds one: the third waits behind it.
    ends = run_in_order("gavel-fifo-het", [[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]], [360, 360, 360], [1, 2, 1])
    assert ends[1] > ends[0]
    assert ends[2] >= ends[0] + 360


def test_isolated_jobs_have_equal_parts_of_every_type() -> None:
    # Three jobs on three GPUs: all run at once, and all the time.
    assert run_in_order("gavel-isolated", [[1.0, 1.0]] * 3, [720] * 3, [1] * 3).tolist() == [720.0] * 3
    # Jobs of two GPUs have half the time of one, and run in turns.
    assert sorted(run_in_order("gavel-isolated", [[1.0, 0.0]] * 2, [360] * 2, [2] * 2)) == [360.0, 720.0]

"""The index of pipelines: hand-solved worlds, the formula written anew, and the environment that judges weights."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import env_checker
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError, OptionsError, UnknownName
from hdrl.settings.pipelines.envs.env import PipelinesEnv, PipelinesVectorEnv
from hdrl.settings.pipelines.envs.index import PipelinesIndexEnv, PipelinesIndexPlayer, PipelinesIndexVectorEnv
from hdrl.settings.pipelines.inputs import generated_load, in_a_row
from hdrl.settings.pipelines.kernel import codes, index
from hdrl.settings.pipelines.loads.generate import PipelineModel
from hdrl.settings.pipelines.loads.load import PipelineLoad
from hdrl.settings.pipelines.loads.pipeline import NEVER
from hdrl.settings.pipelines.machine import Units, read_machine
from hdrl.settings.pipelines.named_policies import PipelinePolicies
from hdrl.settings.pipelines.simulation.index import (
    INDEX_CODES,
    NAMES,
    IndexedLoads,
    checked_weights,
    run_index,
    shipped_indices,
    shipped_weights,
    start_weights,
    weights_of,
)
from hdrl.settings.pipelines.simulation.policies import BY_HAND, RULES, index_rule, simulate, simulate_rule
from hdrl.settings.pipelines.simulation.trace import PipelineTrace

from .oracle import World
from .worlds import chain, released, worlds

MACHINE = read_machine("1cpu+1gpu")
MODEL = PipelineModel(utilization=0.9, shape="mixed", n_units=2)
LOADS = [generated_load(MODEL, seed=seed, n_items=30) for seed in range(4)]


def runs(trace: PipelineTrace) -> list[tuple[int, ...]]:
    return [tuple(int(one[name]) for name in ("instance", "unit", "start_us", "end_us")) for one in trace.runs]


def weighed(**weights: float) -> Any:
    found = np.zeros(len(NAMES))
    for name, value in weights.items():
        found[list(NAMES).index(name)] = value
    return found


def played(machine: Units, load: PipelineLoad, weights: Any) -> PipelineTrace:
    return simulate_rule(machine, load, "index", index_rule(weights))


@pytest.mark.parametrize("seed", range(3))
@hypothesis_settings(max_examples=60)
@given(world=worlds())
def test_it_is_the_formula(seed: int, world: tuple[Units, PipelineLoad]) -> None:
    """With weights that are no round numbers, two rows are equal only if they are alike."""
    machine, load = world
    weights = np.random.default_rng(seed).normal(0.0, 1.0, len(NAMES))
    trace = played(machine, load, weights)
    plain = World(machine, load, weights=tuple(weights)).play("index")
    found = [
        tuple(int(one[name]) for name in ("start_us", "unit", "instance", "option", "end_us")) for one in trace.runs
    ]
    assert found == sorted((r.start_us, r.unit, r.instance, r.option, r.end_us) for r in plain.runs)
    assert trace.n_decisions == plain.n_decisions


def test_a_kernel_waits_for_its_better_unit() -> None:
    """b takes the GPU. a would take 90 on the idle CPU and miss its deadline; 10 on the GPU, which is free at 20."""
    load = released((chain("b", (NEVER, 20)), chain("a", (90, 10))), (0, 0, 21), (1, 0, 60))
    late = simulate(MACHINE, load, "edf")
    assert runs(late) == [(1, 0, 0, 90), (0, 1, 0, 20)]
    assert late.is_missed.tolist() == [False, True]
    for weights in (start_weights(), weighed(regret=1.0)):
        trace = played(MACHINE, load, weights)
        assert runs(trace) == [(0, 1, 0, 20), (1, 1, 20, 30)]
        assert not trace.is_missed.any()
    # Idle units always first: it does not wait.
    assert runs(played(MACHINE, load, weighed(regret=1.0, is_idle=-9.0))) == runs(late)


def test_one_kernel_waits_while_another_one_starts() -> None:
    """a waits for the GPU; c, which is less urgent, has the CPU meanwhile."""
    world = chain("b", (NEVER, 20)), chain("a", (90, 10)), chain("c", (15, NEVER))
    load = released(world, (0, 0, 21), (1, 0, 60), (2, 0, 99))
    trace = simulate(MACHINE, load, BY_HAND)
    assert sorted(runs(trace)) == [(0, 1, 0, 20), (1, 1, 20, 30), (2, 0, 0, 15)]


def test_what_is_lost_comes_last() -> None:
    """Plain EDF works for the instance that cannot be saved, and loses the other one, too: the domino."""
    load = released((chain("lost", (30, NEVER)), chain("safe", (30, NEVER))), (0, 0, 20), (1, 0, 35))
    machine = read_machine("1cpu")
    assert simulate(machine, load, "edf_global+fusion").is_missed.tolist() == [True, True]
    assert simulate(machine, load, BY_HAND).is_missed.tolist() == [True, False]
    assert played(machine, load, weighed(is_doomed=1.0)).is_missed.tolist() == [True, False]


def test_what_would_doom_another_one_is_not_started_now() -> None:
    """The long one has time; if it took the CPU first, the short one would be late. Nothing but `kills` says so."""
    load = released((chain("long", (50, NEVER)), chain("short", (10, NEVER))), (0, 0, 200), (1, 0, 40))
    machine = read_machine("1cpu")
    first = weighed(share_done=0.0, log_time=-1.0)  # long ones first
    assert played(machine, load, first).is_missed.tolist() == [False, True]
    assert played(machine, load, first + weighed(kills=9.0)).is_missed.tolist() == [False, False]


def test_a_release_that_would_be_late_is_seen_before() -> None:
    """The short one comes at 10 and must end at 25: the unit had better not be taken for 50 by the other one."""
    world = chain("long", (50, NEVER)), chain("short", (10, NEVER)), chain("brief", (12, NEVER))
    load = released(world, (0, 0, 200), (2, 0, 300), (1, 10, 25))
    machine = read_machine("1cpu")
    ahead = weighed(log_due=1.0, future=50.0)
    assert [one[0] for one in runs(played(machine, load, ahead))] == [1, 2, 0]
    assert not played(machine, load, ahead).is_missed.any()
    sporadic = PipelineLoad(load.name, load.pipelines, load.instances, origin={"spread": 0.5})
    blind = played(machine, sporadic, ahead)
    assert [one[0] for one in runs(blind)] == [0, 2, 1]
    assert blind.is_missed.sum() == 1


def test_candidates_and_loads_are_run_in_one_call_whatever_the_threads() -> None:
    weights = np.array([start_weights(), *np.random.default_rng(1).normal(0, 1, (4, len(NAMES)))])
    found = run_index(MACHINE, LOADS, weights)
    assert found.shape == (5, len(LOADS))
    assert np.array_equal(found, run_index(MACHINE, LOADS, weights, n_threads=3))
    alone = [[played(MACHINE, load, one).is_missed.mean() for load in LOADS] for one in weights]
    assert np.array_equal(found, alone)
    late = run_index(MACHINE, LOADS[:1], weights[:1], objective=codes.MAX_TARDINESS)
    trace = played(MACHINE, LOADS[0], weights[0])
    assert late == max(0, (trace.end_us - LOADS[0].instances["deadline_us"]).max()) / 1e6


def test_windows_of_loads_are_what_the_windows_are_alone() -> None:
    indexed = IndexedLoads(MACHINE, LOADS)
    windows = [one.__class__(one.workload, 3, 10) for one in indexed.whole]
    found = indexed.run(windows, INDEX_CODES, np.array([start_weights()]))[codes.MISS_RATIO, 0]
    assert found.tolist() == [simulate(MACHINE, load.window(3, 10), BY_HAND).is_missed.mean() for load in LOADS]


@pytest.mark.parametrize("weights", [[1.0], np.full(17, np.nan), np.zeros((2, 16)), np.zeros((1, 1, 17))])
def test_other_weights_are_refused(weights: Any) -> None:
    with pytest.raises(OptionsError, match="17 finite numbers"):
        checked_weights(weights)


def test_the_names_are_those_of_the_features() -> None:
    assert [getattr(index, name.upper()) for name in NAMES] == list(range(len(NAMES)))


def test_an_evolved_index_is_a_policy_but_no_opponent() -> None:
    book = PipelinePolicies()
    assert set(shipped_indices()) <= set(book.names())
    groups = book.groups()
    assert BY_HAND in groups["heuristics"]
    assert not set(shipped_indices()) & {name for names in groups.values() for name in names}


# ---------------------------------------------------------------------- what agents see of it


def test_a_kernel_is_held_whose_row_on_a_busy_unit_is_picked() -> None:
    """As by the index: a waits for the GPU, c has the CPU meanwhile; at 15 c ends, and a is held once more."""
    world = chain("b", (NEVER, 20)), chain("a", (90, 10)), chain("c", (15, NEVER))
    load = released(world, (0, 0, 21), (1, 0, 60), (2, 0, 99))
    env = PipelinesEnv(load=load, machine="1cpu+1gpu", lookahead=True, max_ready=3)
    _, info = env.reset(seed=0)
    assert env.observation_space.shape == (3 * 2, 16)

    def pick(position: int, unit: int) -> tuple[NDArray[np.float32], list[int]]:
        action = position * 2 + unit
        assert info["action_mask"][action]
        observation, *_, more = env.step(action)
        info.update(more)
        return observation, np.flatnonzero(info["action_mask"]).tolist()

    # Ready by local deadline: b (21), a (60), c (99).
    observation, legal = pick(0, 1)
    assert legal == [0, 1, 2]  # a on both, c on the CPU
    of_a_on_cpu, of_a_on_gpu = observation[0, 12:], observation[1, 12:]
    # On the GPU, free at 20, a has 60 - 20 - 10 = 30 of 60 left; on the CPU -30, which is 60 less, and c would be late.
    assert of_a_on_cpu.tolist() == [0, 0.5, 1, pytest.approx(1 / 3)]
    assert of_a_on_gpu.tolist() == [0, 0.5, 0, 0]
    _, legal = pick(0, 1)  # held
    assert legal == [2]
    _, legal = pick(1, 0)  # c; a is all that is left, and held
    assert legal == [0, 1]  # at 15, c has ended
    pick(0, 1)  # held again, nothing else is there: it goes on at 20
    pick(0, 1)
    assert sorted(runs(env.trace())) == [(0, 1, 0, 20), (1, 1, 20, 30), (2, 0, 0, 15)]


# ---------------------------------------------------------------------- the environment

SMALL: dict[str, Any] = {"load": LOADS, "n_jobs": 20, "n_windows": 6, "n_threads": 1}


@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric")
def test_gymnasium_accepts_it() -> None:
    env = gymnasium.make("hdrl/PipelinesIndex-v0", **SMALL)
    assert isinstance(env.unwrapped, PipelinesIndexEnv)
    env_checker.check_env(env.unwrapped, skip_render_check=True)


def test_no_change_is_the_index_by_hand() -> None:
    """Its ratio to itself is 1; other weights have that of their misses."""
    envs = PipelinesIndexVectorEnv(3, **SMALL)
    offsets = np.vstack([np.zeros(17), np.random.default_rng(0).normal(0, 2, (2, 17))])
    envs.reset(seed=5)
    _, rewards, ended, _, info = envs.step(offsets)
    assert ended.all()
    assert rewards[0] == -1.0
    windows = envs.draw((5, 0))
    assert len(windows) == 6
    assert sorted({one.workload for one in windows}) == [0, 1, 2, 3]
    cut = [LOADS[one.workload].window(one.start, one.n_jobs) for one in windows]
    misses = [np.mean([played(MACHINE, one, weights_of(row)).is_missed.mean() for one in cut]) for row in offsets]
    assert info["results"]["objective"].tolist() == misses
    assert rewards.tolist() == [-one / misses[0] for one in misses]
    assert envs.draw((5, 1)) != windows


def test_tardiness_counts_beside_the_misses() -> None:
    """Weights by hand lose what both lose: once for the misses, and as often as said for the tardiness."""
    offsets = np.vstack([np.zeros(17), np.random.default_rng(0).normal(0, 2, (2, 17))])
    rewards = {}
    for objective, tardiness in (("miss_ratio", 0.0), ("mean_tardiness_s", 0.0), ("miss_ratio", 0.5)):
        envs = PipelinesIndexVectorEnv(3, **SMALL, objective=objective, tardiness=tardiness)
        envs.reset(seed=5)
        rewards[objective, tardiness] = envs.step(offsets)[1]
    alone = rewards["miss_ratio", 0.0] + 0.5 * rewards["mean_tardiness_s", 0.0]
    assert rewards["miss_ratio", 0.5].tolist() == pytest.approx(alone.tolist())
    assert rewards["miss_ratio", 0.5][0] == -1.5


def test_sets_that_follow_each_other_are_not_mixed() -> None:
    together = in_a_row(LOADS, "four")
    envs = PipelinesIndexVectorEnv(1, **(SMALL | {"load": together, "part": (0.0, 0.75)}))
    windows = [one for number in range(20) for one in envs.draw((0, number))]
    assert {one.start // 30 for one in windows} == {0, 1, 2}
    assert all(one.start // 30 == (one.start + one.n_jobs - 1) // 30 for one in windows)
    assert len({one.start for one in windows}) > 15


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"start": "consecutive"}, OptionsError),
        ({"objective": "mean_lateness_s"}, OptionsError),
        ({"tardiness": -1.0}, OptionsError),
        ({"tardiness": "1"}, OptionsError),
        ({"reference": 5}, OptionsError),
        ({"reference": "static"}, OptionsError),
        ({"reference": "nobody"}, UnknownName),
        ({"n_windows": 0}, OptionsError),
        ({"load": in_a_row(LOADS, "four"), "part": (0, 10)}, OptionsError),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        PipelinesIndexVectorEnv(1, **(SMALL | arguments))


def test_actions_that_are_no_weights_are_refused() -> None:
    envs = PipelinesIndexVectorEnv(2, **SMALL)
    with pytest.raises(DecisionError, match="reset"):
        envs.step(np.zeros((2, 17)))
    envs.reset(seed=0)
    with pytest.raises(DecisionError, match="finite"):
        envs.step(np.full((2, 17), np.inf))
    with pytest.raises(DecisionError, match="expected numbers"):
        envs.step("x")  # type: ignore[arg-type]


def test_seeds_of_all_types() -> None:
    envs = PipelinesIndexVectorEnv(2, **SMALL)
    rewards = []
    for seed in (3, np.int64(3), [3, 4]):
        envs.reset(seed=seed)
        rewards.append(envs.step(np.zeros((2, 17)))[1].tolist())
    assert rewards[0] == rewards[1] == rewards[2]
    for wrong in (-1, 1.5, "x", [3]):
        with pytest.raises(OptionsError, match="seed"):
            envs.reset(seed=wrong)


def test_a_player_does_what_the_policy_does() -> None:
    player = PipelinesIndexPlayer(machine=MACHINE, load=LOADS[0])
    player.reset(seed=0)
    player.step(np.zeros(17))
    assert runs(player.trace()) == runs(simulate(MACHINE, LOADS[0], BY_HAND))


@pytest.mark.parametrize("name", [BY_HAND, *shipped_indices()])
def test_policies_play_alike_everywhere(name: str) -> None:
    """In a simulation, in the environment of the agents, and as weights."""
    weights = np.array(RULES[name].weights)
    if name != BY_HAND:
        assert np.array_equal(weights, shipped_weights(name))
    misses = [simulate(MACHINE, load, name).is_missed.mean() for load in LOADS]
    assert run_index(MACHINE, LOADS, weights)[0].tolist() == misses
    envs = PipelinesVectorEnv(1, load=LOADS, start="consecutive")
    try:
        assert envs.run_policies(name)[name]["miss_ratio"].tolist() == misses
    finally:
        envs.close()

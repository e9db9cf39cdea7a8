"""The index of GPU jobs: hand-solved worlds, nothing known of the future, and the environment that judges weights."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import env_checker

from hdrl.base import elementary
from hdrl.base.errors import DecisionError, OptionsError, UnknownName
from hdrl.settings.gpu.cluster.machine import NODE_DTYPE, GpuCluster, GpuType, read_cluster
from hdrl.settings.gpu.envs.index import GpuIndexEnv, GpuIndexPlayer, GpuIndexVectorEnv
from hdrl.settings.gpu.kernel import index
from hdrl.settings.gpu.loads.load import GpuLoad, new_jobs
from hdrl.settings.gpu.loads.synthetic import Poisson, at_offered_load
from hdrl.settings.gpu.metrics import compute_metrics
from hdrl.settings.gpu.named_policies import GpuPolicies
from hdrl.settings.gpu.policies.names import BY_HAND, read_policy
from hdrl.settings.gpu.policies.rules import Rules
from hdrl.settings.gpu.policies.weights import (
    NAMES,
    checked_weights,
    start_weights,
    weights_of,
)
from hdrl.settings.gpu.simulation.events import simulate
from hdrl.settings.gpu.simulation.index import INDEX, OBJECTIVES, index_policy, play
from hdrl.trace.model import TaskTrace

CLUSTER = read_cluster("drl-gpu")
LOAD = at_offered_load(Poisson(n_users=5, n_names=3), 300, CLUSTER, 1.1, seed=2)
WINDOWS = [LOAD.window(100, 60), LOAD.window(200, 80)]


def weighed(**weights: float) -> Any:
    found = np.zeros(len(NAMES))
    for name, value in weights.items():
        found[list(NAMES).index(name)] = value
    return found


def played(cluster: GpuCluster, load: GpuLoad, weights: Any, **rules: Any) -> TaskTrace:
    return simulate(cluster, load, index_policy(weights), rules=Rules(**rules))


def one_gpu(*flops: float) -> GpuCluster:
    """Return a cluster of a node with a GPU of each type."""
    nodes = np.array([(kind, 1, 0, 0) for kind in range(len(flops))], dtype=NODE_DTYPE)
    return GpuCluster("c", tuple(GpuType(f"t{kind}", flops=each) for kind, each in enumerate(flops)), nodes)


def two_users(*last: tuple[float, float, int]) -> GpuLoad:
    """Return arrivals, work and users of jobs, before which a's jobs took 10 s and b's 1000 s, twenty each."""
    jobs = new_jobs(40 + len(last))
    jobs["user"][:20], jobs["work"][:20] = 0, 10.0
    jobs["user"][20:40], jobs["work"][20:40] = 1, 1000.0
    jobs["arrival_s"][:40] = np.arange(40) * 2000.0
    for name, column in zip(("arrival_s", "work", "user"), zip(*last, strict=True), strict=True):
        jobs[name][40:] = column
    return GpuLoad("l", jobs, users=("a", "b")).window(40, len(last))


def starts_s(trace: TaskTrace) -> list[float]:
    return (trace.tasks["start_s"] - 100_000.0).tolist()


def test_the_user_of_short_jobs_comes_first() -> None:
    load = two_users((100_000.0, 50.0, 1), (100_001.0, 1000.0, 1), (100_002.0, 10.0, 0))
    for weights in (weighed(mean_log=1.0), weighed(mean=1.0), weighed(gittins=1.0), weighed(last_two=1.0)):
        assert starts_s(played(one_gpu(1.0), load, weights, restart_s=(0, 0)))[2] < 50.0
    assert starts_s(played(one_gpu(1.0), load, weighed(age=-1.0))) == [0.0, 50.0, 1050.0]


def test_a_running_job_keeps_its_lead() -> None:
    """b's job runs when a's comes: without a lead it gives way, with one it does not."""
    load = two_users((100_000.0, 500.0, 1), (100_001.0, 10.0, 0))
    assert starts_s(played(one_gpu(1.0), load, weighed(mean_log=1.0))) == [0.0, 1.0]
    assert starts_s(played(one_gpu(1.0), load, weighed(mean_log=1.0, runs=-9.0))) == [0.0, 500.0]
    assert starts_s(played(one_gpu(1.0), load, weighed(mean_log=1.0, stay=50.0))) == [0.0, 500.0]


def test_short_jobs_may_leave_the_fast_type_to_long_ones() -> None:
    """The types are as fast as 1.5 and 0.5. a's job comes first, then b's: by hand both want the fast one."""
    load = two_users((100_000.0, 10.0, 0), (100_001.0, 1000.0, 1))
    trace = played(one_gpu(3.0, 1.0), load, start_weights())
    assert (trace.tasks["end_s"] - trace.tasks["start_s"]).tolist() == pytest.approx([10 / 1.5, 2000.0])
    # Below exp(6) s a type that is slower is the better one, above the faster one.
    trace = played(one_gpu(3.0, 1.0), load, weighed(mean_log=1.0, slower_and_long=1.0))
    assert (trace.tasks["end_s"] - trace.tasks["start_s"]).tolist() == pytest.approx([20.0, 1000 / 1.5])


def test_an_idle_type_may_be_preferred() -> None:
    nodes = np.array([(0, 2, 0, 0), (1, 8, 0, 0)], dtype=NODE_DTYPE)
    cluster = GpuCluster("c", (GpuType("fast", flops=2.0), GpuType("slow", flops=1.0)), nodes)
    load = two_users(*((100_000.0 + n, 5000.0, 1) for n in range(2)))
    fast = played(cluster, load, weighed(slower=1.0))
    spread = played(cluster, load, weighed(slower=0.1, type_idle=-9.0))
    assert [np.unique(one.stay_units).tolist() for one in (fast, spread)] == [[0, 1], [0, 2]]


@pytest.mark.parametrize("seed", range(4))
def test_the_future_changes_nothing(seed: int) -> None:
    """Whatever the weights: jobs that have not ended by a date may as well take longer."""
    load = LOAD.window(100, 200)
    until_s = float(load.jobs["arrival_s"][120])
    weights = weights_of(np.random.default_rng(seed).normal(0, 1, len(NAMES)))
    stays = []
    jobs = load.jobs.copy()
    for _ in range(2):
        changed = GpuLoad("l", jobs, load.kinds, load.users, whole=load.whole, first=load.first)
        trace = played(CLUSTER, changed, weights, restart_s=(10, 60))
        known = trace.stays[trace.stays["start_s"] <= until_s]
        stays.append(sorted(zip(known["start_s"].tolist(), known["task"].tolist(), strict=True)))
        jobs = jobs.copy()
        jobs["work"][trace.tasks["end_s"] > until_s] *= 3.0
    assert stays[0] == stays[1]


def test_jobs_that_gain_by_giving_way_do_not_preempt_each_other_for_ever() -> None:
    weights = start_weights() + weighed(preempted=-9.0, fits=-3.0, runs=5.0)
    trace = played(CLUSTER, LOAD, weights)
    assert (trace.tasks["end_s"] > 0.0).all()
    for one in np.unique(trace.stays["start_s"]):
        tasks = trace.stays["task"][trace.stays["start_s"] == one]
        assert len(np.unique(tasks)) == len(tasks)  # none starts twice at one date


def test_each_weight_says_something() -> None:
    """No feature is dead: in some world each changes what happens."""
    plain = play(CLUSTER, WINDOWS, INDEX, np.array([start_weights()]))
    offsets = np.concatenate([np.eye(len(NAMES)) * 3.0, np.eye(len(NAMES)) * -3.0])
    found = play(CLUSTER, WINDOWS, INDEX, weights_of(offsets))
    differs = [not np.array_equal(row, plain.jct_s[0], equal_nan=True) for row in found.jct_s]
    dead = [name for position, name in enumerate(NAMES) if not (differs[position] or differs[position + len(NAMES)])]
    assert dead == []


def test_the_names_are_those_of_the_features() -> None:
    assert [getattr(index, name.upper()) for name in NAMES] == list(range(index.N_WEIGHTS))


def test_windows_are_played_as_policies_are_whatever_the_threads() -> None:
    rules = Rules(restart_s=(10, 60))
    for name in ("las-2d", "qssf", "srsf+history", BY_HAND, "fifo+random"):
        alone = [compute_metrics(simulate(CLUSTER, one, read_policy(name), rules=rules)) for one in WINDOWS]
        together = [play(CLUSTER, WINDOWS, read_policy(name), rules=rules, n_threads=n) for n in (1, 3)]
        for metric in OBJECTIVES:
            assert together[0].objective(metric).tolist() == [[one[metric] for one in alone]]
            assert together[1].objective(metric).tolist() == together[0].objective(metric).tolist()


@pytest.mark.parametrize("weights", [[1.0], np.full(20, np.nan), np.zeros((2, 16)), np.zeros((1, 1, 20))])
def test_other_weights_are_refused(weights: Any) -> None:
    with pytest.raises(OptionsError, match="20 finite numbers"):
        checked_weights(weights)


def test_the_index_by_hand_is_an_opponent_that_knows_no_durations() -> None:
    groups = GpuPolicies().groups()
    assert BY_HAND in groups["heuristics"]
    assert BY_HAND in groups["blind"]


# ---------------------------------------------------------------------- the environment

SMALL: dict[str, Any] = {"machine": CLUSTER, "load": LOAD, "n_jobs": 40, "n_windows": 2, "n_threads": 1}


@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric")
def test_gymnasium_accepts_it() -> None:
    env = gymnasium.make("hdrl/GpuIndex-v0", **SMALL)
    assert isinstance(env.unwrapped, GpuIndexEnv)
    env_checker.check_env(env.unwrapped, skip_render_check=True)


def test_rewards_are_logarithms_of_ratios_to_the_reference() -> None:
    envs = GpuIndexVectorEnv(2, **SMALL, offered=[0.8, 1.2], part=(0.5, 1.0), restart_s=(10, 60), reference="fifo")
    offsets = np.vstack([np.zeros(20), np.random.default_rng(0).normal(0, 1, 20)])
    envs.reset(seed=5)
    _, rewards, ended, _, info = envs.step(offsets)
    assert ended.all()
    windows = envs.draw((5, 0))
    assert len(windows) == 4
    assert all(one.first >= 150 for one in windows)
    rules = Rules(restart_s=(10, 60))
    jct_s = [
        [compute_metrics(simulate(CLUSTER, one, policy, rules=rules))["mean_jct_s"] for one in windows]
        for policy in (*(index_policy(weights_of(row)) for row in offsets), read_policy("fifo"))
    ]
    expected = elementary.log(np.array(jct_s[:2]) / jct_s[2]).mean(axis=1)
    assert rewards.tolist() == (-expected).tolist()
    assert info["results"]["ratio"].tolist() == elementary.exp(expected).tolist()
    assert envs.draw((5, 1))[0].first != windows[0].first


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"start": "consecutive"}, OptionsError),
        ({"objective": "makespan_s"}, OptionsError),
        ({"reference": "gavel-las"}, OptionsError),
        ({"reference": "nobody"}, UnknownName),
        ({"n_windows": 0}, OptionsError),
        ({"n_jobs": 200, "part": (0.5, 1.0)}, OptionsError),
        ({"restart_s": (5, 1)}, OptionsError),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        GpuIndexVectorEnv(1, **(SMALL | arguments))


def test_actions_that_are_no_weights_are_refused() -> None:
    envs = GpuIndexVectorEnv(2, **SMALL)
    with pytest.raises(DecisionError, match="reset"):
        envs.step(np.zeros((2, 20)))
    envs.reset(seed=0)
    with pytest.raises(DecisionError, match="finite"):
        envs.step(np.full((2, 20), np.inf))


def test_a_player_does_what_the_policy_does() -> None:
    player = GpuIndexPlayer(machine=CLUSTER, load=WINDOWS[0])
    player.reset(seed=0)
    player.step(np.zeros(20))
    assert player.trace().stays.tobytes() == simulate(CLUSTER, WINDOWS[0], read_policy(BY_HAND)).stays.tobytes()

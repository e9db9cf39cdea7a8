"""``hdrl/JobIndex-v0``: what judges weights is the simulation that plays them, whatever the number of threads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import env_checker
from gymnasium.vector import AutoresetMode

import hdrl
from hdrl import compute_metrics
from hdrl.base.errors import DecisionError, HdrlError, OptionsError
from hdrl.settings.batch.environments import JobIndexSpec
from hdrl.settings.batch.envs.job_index import JobIndexEnv, JobIndexPlayer, JobIndexVectorEnv
from hdrl.settings.batch.policies.indexed import IndexKind
from hdrl.settings.batch.workload.lublin import lublin_workload
from hdrl.settings.batch.workload.model import Workload
from hdrl.testing import Node, Processor, small_platform

PLATFORM = small_platform(Node((Processor(16),)))


def load(n_jobs: int = 60, seed: int = 1) -> Workload:
    made = lublin_workload(PLATFORM, n_jobs, seed=seed, load=1.2)
    jobs = made.jobs.copy()
    jobs["user"] = np.arange(n_jobs) % 5
    jobs["memory_mib"] = 0.0
    return replace(made, jobs=jobs)


LOAD = load()
SMALL: dict[str, Any] = {"workload": LOAD, "platform": PLATFORM, "n_jobs": 20, "n_windows": 2, "reference": "fcfs+easy"}


def weights(n: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(0, 0.5, (n, 24))


@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric")
def test_gymnasium_accepts_it() -> None:
    env = gymnasium.make("hdrl/JobIndex-v0", **SMALL)
    assert isinstance(env.unwrapped, JobIndexEnv)
    env_checker.check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("objective", ["mean_bounded_slowdown", "mean_slowdown", "mean_wait_s", "mean_turnaround_s"])
def test_objectives_are_the_metrics_of_their_names(objective: str) -> None:
    envs = JobIndexVectorEnv(1, **(SMALL | {"n_windows": 1, "n_jobs": "all", "objective": objective}))
    envs.reset(seed=4)
    action = weights(1)
    _, rewards, *_, info = envs.step(action)
    added = 1.0 if objective == "mean_wait_s" else 0.0

    def simulated(policy: Any) -> float:
        return float(compute_metrics(hdrl.simulate(PLATFORM, LOAD, policy))[objective])

    found = simulated(IndexKind("linear").policy(action[0]))
    assert info["results"]["objective"] == pytest.approx(found, rel=1e-6)
    assert rewards[0] == pytest.approx(-np.log((found + added) / (simulated("fcfs+easy") + added)), rel=1e-6)


@pytest.mark.parametrize("form", ["additive", "network", "linear"])
def test_rewards_are_those_of_the_simulated_windows(form: str) -> None:
    envs = JobIndexVectorEnv(3, **(SMALL | {"n_windows": 1, "n_jobs": "all", "form": form}))
    envs.reset(seed=4)
    actions = np.random.default_rng(0).normal(0, 0.5, envs.action_space.shape)
    _, rewards, terminated, _, info = envs.step(actions)

    def simulated(policy: Any) -> float:
        return float(compute_metrics(hdrl.simulate(PLATFORM, LOAD, policy))["mean_bounded_slowdown"])

    found = np.array([simulated(IndexKind(form).policy(action)) for action in actions])
    assert info["results"]["objective"] == pytest.approx(found, rel=1e-6)
    assert rewards == pytest.approx(-np.log(found / simulated("fcfs+easy")), rel=1e-6)
    assert terminated.all()
    player = JobIndexPlayer(platform=PLATFORM, workload=LOAD, n_windows=7, form=form)
    player.reset(seed=1)
    player.step(actions[0])
    assert compute_metrics(player.trace())["mean_bounded_slowdown"] == pytest.approx(found[0], rel=1e-9)


def test_all_rows_see_the_same_windows_and_threads_change_nothing() -> None:
    results = []
    for n_threads in (1, 3):
        envs = JobIndexVectorEnv(4, n_threads=n_threads, **SMALL)
        envs.reset(seed=9)
        actions = weights(4)
        actions[3] = actions[0]
        first = envs.step(actions)[1]
        envs.step(actions)  # begins the next episode
        second = envs.step(actions)[1]
        assert first[3] == first[0]
        assert first[0] != second[0]  # other windows
        results.append((first.tobytes(), second.tobytes()))
    assert results[0] == results[1]


def test_both_modes_of_autoreset_and_saving_give_the_same_episodes() -> None:
    told = []
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        envs = JobIndexVectorEnv(2, autoreset_mode=mode, **SMALL)
        envs.reset(seed=3)
        rewards = []
        for _ in range(3):
            rewards.append(envs.step(weights(2))[1])
            if mode is AutoresetMode.NEXT_STEP:
                envs.step(weights(2))
            other = JobIndexVectorEnv(2, autoreset_mode=mode, **SMALL)
            other.load_state_dict(envs.state_dict())
            envs = other
        told.append(np.array(rewards).tobytes())
    assert told[0] == told[1]


def test_the_best_classic_is_the_best_of_the_part() -> None:
    envs = JobIndexVectorEnv(1, **(SMALL | {"reference": "best", "n_jobs": 30}))
    log = envs.logs[0]
    chosen = [log.outcomes(start, [hdrl_pair(log.reference), hdrl_pair("ljf+easy")]) for start in (0, 30)]
    means = np.log([[one.value for one in row] for row in chosen]).mean(0)
    assert means[0] <= means[1]


def hdrl_pair(name: str) -> Any:
    from hdrl.settings.batch.policies.pairs import read_pair

    return read_pair(name)


def test_the_tail_counts_where_it_is_asked_for() -> None:
    plain, tailed = JobIndexVectorEnv(2, **SMALL), JobIndexVectorEnv(2, tail=0.5, **SMALL)
    for envs in (plain, tailed):
        envs.reset(seed=1)
    assert not np.array_equal(plain.step(weights(2))[1], tailed.step(weights(2))[1])


def test_further_logs_have_their_own_machines(tmp_path: Path) -> None:
    from hdrl.settings.batch.workload.swf import write_swf
    from hdrl.settings.batch.workload.swf_jobs import swf_from_workload

    write_swf(swf_from_workload(load(50, seed=2), PLATFORM), tmp_path / "other.swf")
    envs = JobIndexVectorEnv(1, more_logs=[str(tmp_path / "other.swf")], part=(0, 36), **SMALL)
    assert [(one.workload.n_jobs, one.platform.n_cores, one.first, one.last) for one in envs.logs] == [
        (60, 16, 0, 36),
        (50, 16, 0, 30),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"form": "cubic"}, "linear"),
        ({"predictor": "clairvoyant"}, "learns from ended jobs"),
        ({"predictor": "goe"}, "geo"),
        ({"objective": "makespan"}, "mean_bounded_slowdown"),
        ({"objective": "mean_wait"}, "did you mean 'mean_wait_s'"),
        ({"backfilling": "conservative"}, "easy_priority"),
        ({"n_jobs": 61}, "holds 60 jobs"),
        ({"n_jobs": (3, 8)}, "expected one number"),
        ({"start": "consecutive"}, "random"),
        ({"reference": "sjf+eazy"}, "sjf"),
        ({"tail": -1.0}, "at least 0"),
        ({"autoreset_mode": "Disabled"}, "NextStep"),
    ],
)
def test_mistakes_are_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(HdrlError, match=message) as told:
        JobIndexVectorEnv(1, **(SMALL | arguments))
    assert "\n" not in str(told.value)
    assert isinstance(told.value, (OptionsError, HdrlError))


def test_actions_must_be_finite_numbers() -> None:
    envs = JobIndexVectorEnv(1, **SMALL)
    with pytest.raises(DecisionError, match="no episode has begun"):
        envs.step(weights(1))
    envs.reset(seed=0)
    with pytest.raises(DecisionError, match="finite numbers"):
        envs.step(np.full((1, 24), np.nan))
    with pytest.raises(DecisionError, match="shape"):
        envs.step(weights(2))


@pytest.mark.parametrize("form", ["linear", "additive", "network"])
def test_whole_workloads_are_run_as_they_are_played(form: str) -> None:
    spec, arguments = JobIndexSpec(), {"form": form, "objective": "mean_wait_s"}
    index = spec.index(arguments)
    assert len(set(index.names)) == len(index.start) == IndexKind(form).n_weights
    loads = [LOAD, load(40, seed=2)]
    offsets = np.vstack([np.zeros(len(index.names)), np.full(len(index.names), 0.3)])
    found = spec.run_index(PLATFORM, loads, index.start + offsets, arguments, n_threads=2)
    assert found.shape == (2, 2)
    for row, changed in zip(found, offsets, strict=True):
        for value, one in zip(row, loads, strict=True):
            player = spec.player(PLATFORM, one, arguments)
            player.reset(seed=0)
            *_, info = player.step(changed)
            assert value == pytest.approx(info["results"]["objective"], rel=1e-12)

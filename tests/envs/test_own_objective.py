"""Objectives of one's own, in Python and in files: what they pay in both environments, and what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hdrl
from hdrl.base.errors import HdrlError
from hdrl.base.pyfiles import AgentError
from hdrl.envs.own_objective import is_objective_file, load_objective
from hdrl.settings.batch.envs.job_pick import JobPickEnv, JobPickVectorEnv
from hdrl.settings.batch.envs.job_pick_options import OBJECTIVES as POOL_OBJECTIVES
from hdrl.settings.batch.envs.policy_pair import PolicyPairEnv, PolicyPairVectorEnv
from hdrl.settings.batch.envs.rewards import ALIASES, OBJECTIVES, read_objective
from hdrl.settings.batch.identical_cores import codes, entries
from hdrl.testing import frugal_world

PICK: dict[str, Any] = {"n_procs": 32, "n_jobs": 40}

FILE = """\
def objective(metrics):
    return metrics["mean_wait_s"] + 2 * metrics["max_wait_s"]


def served(metrics):
    return metrics["utilization"]


served.lower_is_better = False
"""


def both(metrics: Mapping[str, float]) -> float:
    return metrics["mean_wait_s"] + 2 * metrics["max_wait_s"]


def play(env: Any) -> tuple[list[float], dict[str, float], dict[str, float]]:
    """Play the first legal actions; return the rewards, the results, and the metrics of the trace."""
    _, info = env.reset(seed=3)
    rewards, ended = [], False
    while not ended:
        _, reward, ended, _, info = env.step(int(np.argmax(info["action_mask"])))
        rewards.append(reward)
    return rewards, info["results"], hdrl.compute_metrics(env.trace())


def pairs(**arguments: Any) -> PolicyPairEnv:
    world = frugal_world()
    return PolicyPairEnv(platform=world.platform, workload=world.workload, observation="minimal", **arguments)


@pytest.mark.parametrize("reward", ["end", "shaped"])
def test_a_function_is_an_objective_of_picks(reward: str) -> None:
    rewards, told, metrics = play(JobPickEnv(objective=both, reward=reward, **PICK))
    assert told["objective"] == pytest.approx(both(metrics), rel=1e-9)
    assert sum(rewards) == pytest.approx(-both(metrics), rel=1e-9)
    assert told["r"] == pytest.approx(sum(rewards))
    assert (np.count_nonzero(rewards) == 1) == (reward == "end")


def test_a_function_is_an_objective_of_pairs() -> None:
    rewards, told, metrics = play(pairs(objective=both))
    assert told["objective"] == pytest.approx(both(metrics), rel=1e-9)
    assert sum(rewards) == pytest.approx(-both(metrics), rel=1e-9)
    assert told["r"] == pytest.approx(sum(rewards))
    assert pairs(objective=lambda metrics: metrics["energy_j"]) is not None


def test_one_that_is_a_metric_pays_what_the_metric_pays() -> None:
    def waits(metrics: Mapping[str, float]) -> float:
        return metrics["mean_wait_s"]

    for reward in ("end", "shaped", "relative"):
        own, known = (play(JobPickEnv(objective=one, reward=reward, **PICK)) for one in (waits, "mean_wait_s"))
        assert own[0] == pytest.approx(known[0], rel=1e-12)
        assert own[1] == pytest.approx(known[1], rel=1e-12)


def test_files_define_objectives(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    for text, sign in ((f"{path}", -1), (f"{path}:objective", -1), (f"{path}:served", 1)):
        assert is_objective_file(text)
        assert read_objective(text).sign == sign
    rewards, told, metrics = play(JobPickEnv(objective=f"{path}:served", **PICK))
    assert rewards[-1] == pytest.approx(metrics["utilization"])
    assert told["objective"] == rewards[-1]
    path.write_text("lower_is_better = False\n\n\ndef objective(metrics):\n    return metrics['utilization']\n")
    assert load_objective(str(path)).sign == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def objective(metrics):\n    return metrics['mean_wait']\n", r"mine\.py:2: KeyError"),
        ("def objective(metrics):\n    return float('nan')\n", r"mine\.py: objective returned nan, expected a finite"),
        ("def objective(metrics):\n    return 'much'\n", r"objective returned 'much', expected a finite number"),
        ("def tardiness(metrics):\n    return 1.0\n", r"no function objective\(metrics\); it has tardiness"),
        (
            "def objective():\n    return 1.0\n",
            r"mine\.py:1: objective\(\) takes other arguments, expected objective\(m",
        ),
        ("def objective(metrics) return 1\n", r"mine\.py:1: "),
        ("1 / 0\n", r"mine\.py:1: ZeroDivisionError"),
    ],
)
def test_mistakes_in_a_file_are_told_with_their_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    for make in (lambda: JobPickEnv(objective=str(path), **PICK), lambda: pairs(objective=str(path))):
        with pytest.raises(AgentError, match=message) as caught:
            play(make())
        assert "\n" not in str(caught.value)
    with pytest.raises(HdrlError, match=r"nowhere\.py"):
        load_objective(str(tmp_path / "nowhere.py"))


def test_a_copy_and_a_saved_state_go_on_with_it() -> None:
    world = frugal_world()
    for make in (
        lambda: JobPickVectorEnv.of(2, objective=both, reward="shaped", **PICK),
        lambda: PolicyPairVectorEnv(2, platform=world.platform, workload=world.workload, objective=both),
        lambda: PolicyPairVectorEnv(2, platform=world.platform, workload=world.workload, objective="max_slowdown"),
        lambda: JobPickVectorEnv.of(2, objective="max_slowdown", reward="shaped", **PICK),
    ):
        env, other = make(), make()
        env.reset(seed=1)
        for _ in range(3):
            env.step(env.action_masks().argmax(axis=1))
        other.load_state_dict(env.state_dict())
        for _ in range(60):
            actions = env.action_masks().argmax(axis=1)
            assert np.array_equal(env.step(actions)[1], other.step(actions)[1])


def test_names_are_the_same_everywhere() -> None:
    for alias, metric in ALIASES.items():
        assert read_objective(alias) is OBJECTIVES[metric]
    for name in ("avg_bounded_slowdown", "mean_bounded_slowdown"):
        assert play(JobPickEnv(objective=name, **PICK))[1]["objective"] > 0
    with pytest.raises(HdrlError, match=r"no objective 'mean_wait'; did you mean 'mean_wait_s'|did you mean"):
        read_objective("mean_wait")
    with pytest.raises(HdrlError, match="objective 'energy_j'"):
        JobPickEnv(objective="energy_j", **PICK)


@pytest.mark.parametrize("code", [-2, codes.N_OBJECTIVES, 77])
def test_a_number_of_no_objective_is_no_number_in_a_pool(code: int) -> None:
    env = JobPickVectorEnv.of(1, reward="shaped", **PICK)
    env._pool.settings["objective"] = code
    env.reset(seed=0)
    assert np.isnan(env.step(np.array([0]))[1]).all()


def test_every_number_of_a_pool_is_told() -> None:
    env = JobPickEnv(**PICK)
    _, _, metrics = play(env)
    values = entries.objectives(env.batch._borrowed, np.ones(1, dtype=bool))
    for name, one in POOL_OBJECTIVES.items():
        assert values[one.pool_code, 0] == pytest.approx(metrics[name], rel=1e-9), name

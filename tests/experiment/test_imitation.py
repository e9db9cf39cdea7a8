"""Trainings that begin by imitation, and on windows that are chosen."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hdrl
from hdrl.base.errors import HdrlError
from hdrl.experiment import resumed_options, run_experiment
from hdrl.experiment.run.inputs import read_options
from hdrl.learn.checkpoint import load_checkpoint
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.workload import read_workload

LEARNING: dict[str, Any] = {
    "environment": "job_pick",
    "arguments": {
        "features": ["index"],
        "backfilling": "easy_priority",
        "scaled_columns": False,
        "max_jobs": 16,
        "skip": True,
    },
    "algorithm": "ppo",
    "settings": {"network": "kernel", "n_steps": 32, "lr": 0.005, "n_epochs": 4, "minibatch_size": 128, "gamma": 1.0},
    "imitation": {"policy": "saf+easy_priority@geo~gate", "iterations": 8},
    "n_envs": 8,
    "iterations": 10,
    "tensorboard": False,
    "episodes": {"n_jobs": 32, "test": [0.9, 1.0]},
}


def options_of(folder: Path, **changes: Any) -> Any:
    options = {
        "platform_file_path": "homogeneous:2280",
        "workload_file_path": "lublin_gaia_1000",
        "energy": False,
        "workload": {"memory": "none", "bandwidth": "none"},
        "learning": {**LEARNING, **changes},
    }
    folder.mkdir(exist_ok=True)
    path = folder / "options.json"
    path.write_text(json.dumps(options))
    return read_options(path)


def table_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "training.csv").open() as file:
        return list(csv.DictReader(file))


def test_an_agent_learns_to_choose_as_a_policy_does_and_goes_on_by_itself(tmp_path: Path) -> None:
    run_experiment(options_of(tmp_path), out=tmp_path / "whole")
    table = table_of(tmp_path / "whole")
    losses = [float(row["imitation_loss"]) for row in table[:8]]
    assert losses[-1] < losses[0]  # how often both agree moves by a tenth from one iteration to the next
    assert float(table[7]["agreement"]) > 0.6
    assert [bool(row["imitation_loss"]) for row in table] == [True] * 8 + [False] * 2
    assert [bool(row["policy_loss"]) for row in table] == [False] * 8 + [True] * 2


def test_it_is_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "imitation": {"policy": "sjf+easy_priority", "iterations": 3},
        "checkpoint_every": 1,
        "arguments": {"features": ["index"], "backfilling": "easy_priority", "max_jobs": 16, "may_hold": True},
    }
    run_experiment(options_of(tmp_path, **changes, iterations=5), out=tmp_path / "whole")
    run_experiment(options_of(tmp_path, **changes, iterations=3), out=tmp_path / "parts")
    run_experiment(resumed_options(tmp_path / "parts", ["learning.iterations=5"]), out=tmp_path / "parts", resumes=True)
    for name in ("training.csv", "episodes.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
    one, other = (load_checkpoint(tmp_path / name / "model.pt").agent for name in ("whole", "parts"))
    assert str(one["modules"]) == str(other["modules"])


ADVERSARIAL: dict[str, Any] = {"policy": ["saf+easy_priority", "sjf+easy_priority"], "adversarial": {"weight": 0.1}}


def test_a_discriminator_is_resumed_to_the_same_bytes_and_stops_paying(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "imitation": ADVERSARIAL | {"iterations": 1, "adversarial": {"weight": 0.1, "iterations": 3}},
        "settings": LEARNING["settings"] | {"n_epochs": 1},
        "checkpoint_every": 1,
    }
    run_experiment(options_of(tmp_path, **changes, iterations=5), out=tmp_path / "whole")
    run_experiment(options_of(tmp_path, **changes, iterations=3), out=tmp_path / "parts")
    assert "adversary" in load_checkpoint(tmp_path / "parts" / "checkpoint.pt").training["learner"]
    run_experiment(resumed_options(tmp_path / "parts", ["learning.iterations=5"]), out=tmp_path / "parts", resumes=True)
    for name in ("training.csv", "episodes.csv", "model.pt"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
    table = table_of(tmp_path / "whole")
    assert [bool(row["imitation_loss"]) for row in table] == [True] + [False] * 4
    assert [bool(row["discriminator_loss"]) for row in table] == [False] + [True] * 3 + [False]


def bursts(path: Path) -> Path:
    """Write a log of bursts of six jobs on one processor, of which the shortest should always come first."""
    draws = np.random.default_rng(1)
    drawn = draws.permuted(np.tile([200, 1000, 3000, 6000, 10000, 20000], (100, 1)), axis=1)
    run_s = [int(one) for one in drawn.reshape(-1)]
    jobs = [f"{n + 1} {n // 6 * 10**5} -1 {one} 1 -1 -1 1 {one} -1 1 1 1 1 1 1 -1 -1" for n, one in enumerate(run_s)]
    path.write_text("; MaxProcs: 1\n" + "\n".join(jobs) + "\n")
    return path


def test_an_agent_that_is_paid_for_imitation_alone_finds_the_best_order(tmp_path: Path) -> None:
    """Without discount of the future, the objective, which comes in the last step, teaches nothing about the others."""
    learning: dict[str, Any] = {
        "arguments": {"backfilling": "easy_priority", "max_jobs": 8},
        "imitation": {"policy": ["fcfs+easy_priority", "sjf+easy_priority"], "adversarial": {"weight": 1.0}},
        "settings": LEARNING["settings"] | {"gamma": 0.0, "minibatch_size": 64, "lr": 0.01},
        "episodes": {"n_jobs": 6, "start": "consecutive", "train": [0.0, 0.9], "test": [0.9, 1.0]},
        "iterations": 16,
    }
    platform = read_platform("homogeneous:1")
    log = bursts(tmp_path / "bursts.swf")
    options = options_of(tmp_path, **learning).changed(workload_file_path=str(log), platform_file_path="homogeneous:1")
    result = run_experiment(options, out=tmp_path / "out")
    table = table_of(tmp_path / "out")
    assert float(table[0]["expert_agreement"]) < 0.5
    assert float(table[-1]["expert_agreement"]) > 0.75
    test = read_workload(log, platform, memory="none", bandwidth="none").window(540, 60)
    best, first = (hdrl.simulate(platform, test, policy, energy=False) for policy in ("sjf+easy", "fcfs+easy"))
    assert result.training is not None
    assert result.training.trace is not None
    found_s, best_s, first_s = (
        hdrl.compute_metrics(one)["mean_wait_s"] for one in (result.training.trace, best, first)
    )
    assert found_s < best_s + 0.25 * (first_s - best_s)
    assert first_s > 1.3 * best_s


@pytest.mark.parametrize("algorithm", ["a2c", "reinforce"])
def test_other_agents_are_paid_for_imitation_too(tmp_path: Path, algorithm: str) -> None:
    learning: dict[str, Any] = {
        "arguments": {"backfilling": "easy_priority", "max_jobs": 8},
        "imitation": {"policy": "sjf+easy_priority", "adversarial": {"network": "kernel"}},
        "algorithm": algorithm,
        "settings": {"network": "kernel"},
        "episodes": {"n_jobs": 6, "test": [0.9, 1.0]},
        "iterations": 2,
    }
    log = bursts(tmp_path / "bursts.swf")
    options = options_of(tmp_path, **learning).changed(workload_file_path=str(log), platform_file_path="homogeneous:1")
    run_experiment(options, out=tmp_path / "out")
    assert all(0.0 < float(row["discriminator_loss"]) < 2.0 for row in table_of(tmp_path / "out"))
    assert all(float(row["payment"]) != 0.0 for row in table_of(tmp_path / "out"))


def test_windows_are_filtered_in_training_alone(tmp_path: Path) -> None:
    filtered = {**LEARNING["episodes"], "filter": {"priority": "sjf", "range": [1.2, 40.0]}}
    made = options_of(tmp_path, episodes=filtered, iterations=2, imitation=None, validation_every=2)
    run_experiment(made, out=tmp_path / "out")
    assert json.loads((tmp_path / "out" / "options.resolved.json").read_text())["learning"]["episodes"]["filter"] == {
        "priority": "sjf",
        "range": [1.2, 40.0],
    }


def test_options_without_say_nothing_of_it(tmp_path: Path) -> None:
    told = options_of(tmp_path, imitation=None).model_dump(mode="json")["learning"]
    assert "imitation" not in told
    assert "filter" not in told["episodes"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"imitation": {"policy": "saf+esay", "iterations": 1}}, "saf"),
        ({"imitation": {"policy": "saf+easy", "iterations": 11}}, "iterations is 11, expected at most the 10"),
        ({"imitation": {"policy": "saf+easy", "iterations": 1, "iteration": 1}}, "did you mean 'iterations'"),
        ({"algorithm": "a2c", "settings": {}}, "A2C cannot imitate, expected ppo"),
        ({"environment": "policy_pair", "arguments": {}}, "learning.imitation: hdrl/PolicyPair-v0 has none"),
        (
            {"imitation": None, "episodes": {"n_jobs": 32, "filter": {"priority": "sjf", "range": [3, 2]}}},
            "expected the smaller value first",
        ),
        ({"imitation": None, "episodes": {"n_jobs": 32, "filter": {"priority": "sfj"}}}, "did you mean 'sjf'"),
        ({"imitation": {"policy": "saf+easy"}}, "needs iterations, or adversarial, or both"),
        ({"imitation": {"policy": [], "iterations": 1}}, "policy is empty"),
        (
            {"imitation": ADVERSARIAL, "algorithm": "dqn", "settings": {}},
            "DQN does not learn from steps in their order",
        ),
        ({"imitation": {"policy": "saf+easy", "adversarial": {"network": "kernl"}}}, "did you mean 'kernel'"),
        ({"arguments": {"guide": "saf+easy"}}, "learning.arguments has no key 'guide'"),
        ({"distributed": {"scheme": "sync"}}, "expected no learning.distributed"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(HdrlError, match=told) as caught:
        run_experiment(options_of(tmp_path, **changes), out=tmp_path / "out")
    assert "\n" not in str(caught.value)

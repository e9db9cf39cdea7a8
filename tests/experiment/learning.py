"""Worlds and agents of which the tests of learning know the answer."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdrl.base.errors import HdrlError
from hdrl.experiment import Progress, run_experiment
from hdrl.experiment.experiment import RunResult
from hdrl.experiment.run.inputs import read_options
from hdrl.settings.batch.options import Options

ROOT = Path(__file__).parents[2]

BEST_MAKESPAN_S = 5.25
"""Two jobs of 21 Gflop that want 24 GB/s each, on two processors that have less than 48: apart from each other, the one
on the slower core takes 5 s of a processor that gives 4 Gflop/s; together both run at 3/4 of the speed."""

OPTIONS: dict[str, Any] = {
    "seed": 19021285,
    "nb_resources": 4,
    "nb_jobs": 2,
    "workload_file_path": "",
    "platform_file_path": "learning",
    "workload": {"custom": str(ROOT / "workloads" / "learning.json")},
    "pybatsim": {
        "log_level": "WARNING",
        "env": {
            "objective": "makespan",
            "actions": {
                "selection": [
                    {"shortest": ["high_gflops", "high_mem_bw", "low_power"]},
                    {"first": ["high_gflops", "high_mem_bw"]},
                ],
                "void": False,
            },
            "observation": "minimal",
            "queue_sensitivity": 0.05,
        },
        "agent": {"type": "LEARNING", "run": "train", "hidden": 16, "lr": 0.005, "gamma": 0.99},
    },
    "learning": {"tensorboard": False},
}
"""The learning experiment of HDeepRM's thesis, its two jobs included."""

REINFORCE = """
import torch
from torch import nn
from torch.nn import functional
from hdrl.compat.hdeeprm.bases import PolicyLearningAgent


class Mine(PolicyLearningAgent):
    def __init__(self, gamma, hidden, action_size, observation_size):
        super(Mine, self).__init__(gamma)
        self.first = nn.Linear(observation_size, hidden)
        self.last = nn.Linear(hidden, action_size)

    def forward_policy(self, observation):
        return functional.softmax(self.last(functional.leaky_relu(self.first(observation))), dim=1)

    def forward(self, *inp):
        pass
"""
"""An agent of HDeepRM's API; its forward does nothing, like that of HDeepRM's examples."""

ACTOR_CRITIC = """
import torch
from torch import nn
from torch.nn import functional
from hdrl.compat.hdeeprm.bases import PolicyLearningAgent, ValueLearningAgent


class Mine(PolicyLearningAgent, ValueLearningAgent):
    def __init__(self, gamma, hidden, action_size, observation_size):
        super(Mine, self).__init__(gamma)
        self.first = nn.Linear(observation_size, hidden)
        self.actor = nn.Linear(hidden, action_size)
        self.critic = nn.Linear(hidden, 1)

    def decide(self, observation):
        probs, value = self.process(observation)
        self.save_value(value)
        return self.get_action(probs)

    def loss(self):
        rews = self.transform_rewards()
        advs = [rew - value.item() for rew, value in zip(rews, self.values)]
        return torch.stack(self.policy_loss(advs)).sum() + torch.stack(self.value_loss(rews)).sum()

    def forward_policy(self, observation):
        return functional.softmax(self.actor(functional.leaky_relu(self.first(observation))), dim=1)

    def forward_value(self, observation):
        return self.critic(functional.leaky_relu(self.first(observation)))
"""
"""One that decides itself by process(), which is what HDeepRM 0.1.0 calls forward()."""


def options_file(folder: Path, **changes: Any) -> Path:
    """Write the learning experiment into a folder, with changes to its ``learning`` block."""
    data = copy.deepcopy(OPTIONS)
    data["learning"] |= changes
    path = folder / "options.json"
    path.write_text(json.dumps(data))
    return path


def repeatable_files(folder: Path) -> dict[str, bytes]:
    """Return what must be the same when a training is repeated: all files but those of the wall clock."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "timing.json" and path.parent.name != "tensorboard"
    }


def options(folder: Path, *overrides: str, **changes: Any) -> Options:
    """Return the options of the learning experiment, with changes."""
    return read_options(options_file(folder, **changes), overrides=overrides)


def train(folder: Path, out: str, *overrides: str, progress: Progress | None = None, **changes: Any) -> RunResult:
    """Train in the learning experiment, by REINFORCE in four environments unless changes say otherwise."""
    changes = {"algorithm": "reinforce", "n_envs": 4, "iterations": 12} | changes
    return run_experiment(options(folder, *overrides, **changes), out=folder / out, progress=progress)


def refused(folder: Path, kind: type[HdrlError], text: str, *overrides: str, **changes: Any) -> None:
    """Check that a training ends in one line, and leaves nothing."""
    with pytest.raises(kind, match=text) as caught:
        train(folder, "out", *overrides, **changes)
    assert "\n" not in str(caught.value)
    assert not (folder / "out").exists()


def table_of(path: Path) -> dict[str, np.ndarray]:
    """Return the columns of a CSV file by name."""
    header, *lines = path.read_text().splitlines()
    rows = [[float(value or "nan") for value in line.split(",")] for line in lines]
    return {name: np.array([row[i] for row in rows]) for i, name in enumerate(header.split(","))}

"""Every registered environment passes Gymnasium's checks and ours."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import hdrl.envs
from hdrl.settings.adaptation.load import Jobs, jobs_of
from hdrl.settings.adaptation.models import find_model
from hdrl.settings.adaptation.table import Table
from hdrl.settings.gpu.cluster.machine import read_cluster
from hdrl.settings.gpu.loads.synthetic import Poisson, at_offered_load
from hdrl.testing import check_env


def made_jobs(n_items: int) -> Jobs:
    """Return jobs with a made-up table of 64 sequences, two trainings each."""
    accuracies = np.linspace(0.3, 0.8, 128).reshape(64, 2)
    times_s = np.repeat([60.0, 50.0, 40.0], [1, 4, 16])
    made = Table("made", find_model("convnet2"), "", "", "made", 100.0, 3, accuracies, accuracies, times_s)
    return jobs_of("made", [made], n_items)


JOB_PICK: dict[str, Any] = {"n_jobs": 12, "max_jobs": 10, "n_procs": 64, "reward": "shaped"}

POLICY_PAIR: dict[str, Any] = {"n_jobs": 12, "observation": "small"}

PIPELINES: dict[str, Any] = {"load": ["generated:0.8:1", "generated:0.9:2"]}

GPU_CLUSTER: dict[str, Any] = {
    "load": at_offered_load(Poisson(), 80, read_cluster("drl-gpu"), 1.2, seed=4),
    "n_jobs": 12,
    "max_jobs": 4,
    "max_running": 2,
}

ADAPTATION: dict[str, Any] = {"load": made_jobs(6)}

CASES: dict[str, list[dict[str, Any]]] = {
    "hdrl/Adaptation-v0": [
        ADAPTATION,
        ADAPTATION | {"n_jobs": 2, "reward": "accuracy", "outcome": "mean", "start": "consecutive"},
    ],
    "hdrl/JobPick-v0": [
        JOB_PICK,
        JOB_PICK
        | {"backfilling": "easy_priority", "skip": True, "features": ("is_chosen", "profile", "earliest_start")},
        JOB_PICK | {"compatibility": "rlscheduler", "backfilling": "rlscheduler", "order": "sjf"},
        JOB_PICK | {"commitment": "block", "backfilling": "easy_sjbf", "order": "wfp3", "max_jobs": 3},
        {"compatibility": "dissertation", "n_jobs": 12},
        {
            "compatibility": "dissertation",
            "n_jobs": (3, 9),
            "errors": [],
            "reward": "corrected",
            "backfilling": "expected",
        },
    ],
    "hdrl/PolicyPair-v0": [
        POLICY_PAIR,
        POLICY_PAIR | {"observation": "normal", "objective": "edp", "actions": ["first-random", "sjf+easy"]},
        POLICY_PAIR | {"observation": "minimal", "objective": "avg_utilization", "void": False, "start": "consecutive"},
        POLICY_PAIR | {"compatibility": "hdeeprm-0.3.1", "objective": "makespan"},
    ],
    "hdrl/GpuCluster-v0": [GPU_CLUSTER],
    "hdrl/Pipelines-v0": [
        PIPELINES,
        PIPELINES | {"reward": "slack", "wait": True, "max_ready": 2, "n_depths": 2, "machine": "2x(1cpu+1gpu)"},
        PIPELINES | {"lookahead": True, "machine": "2cpu+1gpu"},
        PIPELINES | {"compatibility": "rlschedsim"},
        PIPELINES | {"objective": "mean_tardiness_s", "n_jobs": 8, "start": "random"},
    ],
}
"""Small arguments of each registered environment: several episodes must fit into 120 steps."""


ELSEWHERE = {"hdrl/AdaptationIndex-v0", "hdrl/GpuIndex-v0", "hdrl/JobIndex-v0", "hdrl/PipelinesIndex-v0"}
"""Environments of another kind, whose actions are numbers: they have tests of their own."""


def test_every_environment_is_tried() -> None:
    assert set(CASES) | ELSEWHERE == set(hdrl.envs.ENVIRONMENTS)
    assert set(CASES) | ELSEWHERE == {name for name in gymnasium.registry if name.startswith("hdrl/")}


@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name, cases in CASES.items() for case in range(len(cases))]
)
def test_it_passes_all_checks(name: str, case: int) -> None:
    check_env(name, n_steps=120, **CASES[name][case])


@pytest.mark.parametrize("name", sorted(CASES))
def test_it_is_made_by_module_and_name(name: str) -> None:
    env = gymnasium.make(f"hdrl.envs:{name}", **CASES[name][0])
    observation, info = env.reset(seed=0)
    assert observation in env.observation_space
    env.step(env.action_space.sample(mask=info["action_mask"]))

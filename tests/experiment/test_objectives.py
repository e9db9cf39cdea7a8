"""Objectives in trainings: validations judge by them, whatever the reward is; a user's own comes with the options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="agents that learn need torch")

import hdrl
from hdrl.base.errors import HdrlError
from hdrl.experiment import evaluate_model, run_experiment
from hdrl.experiment.plan import plans_of
from hdrl.experiment.run.inputs import parse_options
from hdrl.experiment.train.environments import environment_of
from hdrl.experiment.train.run import TrainingRun
from hdrl.learn.checkpoint import load_checkpoint
from hdrl.setting import SETTINGS
from hdrl.settings.batch.workload import lublin_log, write_swf

OWN = """\
def tail(metrics):
    return metrics["max_wait_s"]


def served(metrics):
    return metrics["utilization"]


served.lower_is_better = False
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_swf(lublin_log(80, 8, load=0.9), tmp_path / "log.swf")
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


def options(folder: Path, environment: str = "job_pick", env: dict[str, Any] | None = None, **arguments: Any) -> Any:
    return parse_options(
        {
            "seed": 1,
            "platform_file_path": "homogeneous:8",
            "workload_file_path": "log.swf",
            "pybatsim": {
                "agent": {"type": "LEARNING", "run": "train"},
                "env": {"observation": "minimal"} | (env or {}),
            },
            "learning": {
                "algorithm": "reinforce",
                "environment": environment,
                "arguments": arguments,
                "validation_every": 1,
                "episodes": {"n_jobs": 10, "train": [0.0, 0.5], "validation": [0.5, 0.7], "test": [0.7, 1.0]},
                "tensorboard": False,
            },
        },
        folder=folder,
    )


@pytest.mark.parametrize(
    ("arguments", "sign"),
    [
        ({"objective": "mean_wait_s", "reward": "relative"}, -1),
        ({"objective": "utilization", "reward": "relative"}, 1),
        ({"objective": "throughput_jobs_per_h"}, 1),
        ({}, -1),
    ],
)
def test_a_validation_judges_by_the_objective_not_by_the_return(
    folder: Path, arguments: dict[str, Any], sign: int
) -> None:
    chosen = options(folder, **arguments)
    run = TrainingRun(next(plans_of(chosen, folder / "out")))
    rows = [{"return": 5.0, "objective": 2.0}, {"return": -7.0, "objective": 4.0}]
    assert run.world.score(rows) == sign * 3.0
    run.trainer.interaction.envs.close()


@pytest.mark.parametrize("environment", ["job_pick", "policy_pair"])
@pytest.mark.parametrize("function", ["tail", "served"])
def test_a_training_with_an_objective_of_ones_own(folder: Path, environment: str, function: str) -> None:
    chosen = options(folder, environment, objective=f"own.py:{function}")
    assert environment_of(chosen, SETTINGS["batch"]).objective() == (function, -1 if function == "tail" else 1)
    run_experiment(chosen, out=folder / "out")
    model = folder / "out" / "model.pt"
    assert load_checkpoint(model).environment["arguments"]["objective"] == f"own.py:{function}"
    (folder / "own.py").unlink()
    platform = hdrl.read_platform("homogeneous:8")
    jobs = hdrl.read_workload(folder / "log.swf", platform, n_jobs=20, bandwidth="none")
    assert (evaluate_model(model, platform, jobs).records["run_s"] > 0).all()


def test_options_take_metrics_and_aliases(folder: Path) -> None:
    for name, metric in (("avg_job_slowdown", "mean_slowdown"), ("max_wait_s", "max_wait_s"), ("edp", None)):
        spec = environment_of(options(folder, "policy_pair", env={"objective": name}), SETTINGS["batch"])
        assert spec.objective() == (metric or "energy_delay_product_js", -1)
    with pytest.raises(HdrlError, match="did you mean 'mean_wait_s'"):
        options(folder, "policy_pair", env={"objective": "mean_wait"})


def test_a_mistake_in_an_objective_is_told_with_its_line(folder: Path) -> None:
    (folder / "own.py").write_text("def objective(metrics):\n    return metrics['nothing']\n")
    with pytest.raises(HdrlError, match=r"own\.py:2: KeyError"):
        run_experiment(options(folder, objective="own.py"), out=folder / "out")

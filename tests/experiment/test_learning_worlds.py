"""Agents find the best pair in two small worlds where it is known: slow and frugal cores, and processors to share."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="agents that learn need torch")

pytestmark = pytest.mark.usefixtures("one_thread")

import hdrl  # noqa: E402
from hdrl.experiment import run_experiment  # noqa: E402
from hdrl.experiment.run.inputs import parse_options  # noqa: E402
from hdrl.settings.batch.setting import BatchInputs  # noqa: E402
from hdrl.testing import worlds as small_worlds  # noqa: E402

PAIRS = ["high_gflops", "high_cores", "high_mem_bw", "low_power"]

WORLDS = {
    "frugal": ("frugal_world", "energy_consumption", "energy_j", "first-low_power"),
    "spreading": ("spreading_world", "avg_job_completion", "mean_turnaround_s", "first-high_mem_bw"),
}
"""World, objective, its metric, the best policy."""

REPLAY = {"warm_up": 64, "updates_per_iteration": 8, "batch_size": 32, "capacity": 2000, "target_every": 20}

ALGORITHMS: dict[str, tuple[int, dict[str, Any]]] = {
    "reinforce": (60, {"lr": 0.01}),
    "a2c": (150, {"lr": 0.01}),
    "ppo": (40, {"lr": 0.005, "n_steps": 16, "minibatch_size": 64}),
    "d3qn": (100, {"lr": 0.005, "epsilon_steps": 800, **REPLAY}),
}
"""Iterations and settings."""


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", WORLDS)
def test_the_best_pair_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, algorithm: str, seed: int):
    maker, objective, metric, best = WORLDS[name]
    world = getattr(small_worlds, maker)()
    monkeypatch.setattr(BatchInputs, "machine", lambda self, options: world.platform)
    monkeypatch.setattr(BatchInputs, "load", lambda self, options, machine: world.workload)
    iterations, settings = ALGORITHMS[algorithm]
    options = parse_options(
        {
            "seed": seed,
            "platform_file_path": "learning",
            "workload_file_path": "made by hand",
            "pybatsim": {
                "env": {
                    "objective": objective,
                    "observation": "small",
                    "actions": {"selection": [{"first": PAIRS}], "void": False},
                }
            },
            "learning": {
                "algorithm": algorithm,
                "settings": {"hidden": [16], "gamma": 0.9, **settings},
                "n_envs": 8,
                "iterations": iterations,
                "checkpoint_every": 1000,
                "tensorboard": False,
            },
        }
    )
    found = run_experiment(options, out=tmp_path / "out").runs[0].metrics[metric]
    results = {
        pair: hdrl.compute_metrics(hdrl.simulate(world.platform, world.workload, f"first-{pair}"))[metric]
        for pair in PAIRS
    }
    assert min(results.values()) == results[best.removeprefix("first-")] < 0.99 * max(results.values())
    assert found == pytest.approx(min(results.values()), rel=1e-3)

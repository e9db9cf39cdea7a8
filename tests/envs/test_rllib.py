"""The example for RLlib: its batch always, its training where RLlib is installed."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "rllib_job_pick.py"


@pytest.fixture
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE), run_name="example")


def test_its_batch_has_flat_observations_and_masks(example: dict[str, Any]) -> None:
    env = example["make_batch"]({**example["ARGUMENTS"], "num_envs": 3})
    observations, info = env.reset(seed=0)
    for _ in range(100):
        assert observations["observations"].shape == (3, 32 * 8)
        assert observations in env.observation_space
        assert np.array_equal(observations["action_mask"], info["action_mask"].astype(np.float32))
        observations, _, _, _, info = env.step(observations["action_mask"].argmax(axis=1))


def test_it_trains(example: dict[str, Any]) -> None:
    pytest.importorskip("ray.rllib", reason="ray[rllib] is not installed")
    config = example["make_config"]().training(train_batch_size_per_learner=256, minibatch_size=128, num_epochs=1)
    algorithm = config.build_algo()
    try:
        assert "env_runners" in algorithm.train()
    finally:
        algorithm.stop()

"""RLlib's PPO with action masks on a native batch of hdrl/JobPick-v0.

    pip install 'hdrl[rllib,learn]'
    python examples/rllib_job_pick.py --iterations 10 --out rllib.pt
    hdrl model import rllib.pt examples/job_pick.json -o model.pt --activation tanh

RLlib asks for the batch itself (``gym_env_vectorize_mode="vector_entry_point"``), so that one compiled call steps all
environments of an env runner. Observations are flattened for its default network; the mask is a part of them, where
the action masking module that comes with RLlib looks for it.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
from gymnasium.wrappers.vector import FlattenObservation

from hdrl.batch import JobPickVectorEnv
from hdrl.envs.masks import DictObservationVector

NAME = "hdrl-job-pick"
N_ENVS = 16
ARGUMENTS: dict[str, Any] = {
    **{"platform": "homogeneous:2280", "workload": "lublin_gaia_1000", "part": "train", "n_jobs": 64},
    **{"max_jobs": 32, "reward": "shaped"},
}
"""What ``job_pick.json`` says to ``hdrl model import`` and ``hdrl compare``, in the words of Gymnasium."""


def make_batch(config: dict[str, Any]) -> DictObservationVector:
    """Return a batch for RLlib.

    Parameters
    ----------
    config
        Arguments of `JobPickVectorEnv`; RLlib adds ``num_envs``.
    """
    return DictObservationVector(FlattenObservation(JobPickVectorEnv.of(**config)), np.float32)


def make_config() -> Any:
    """Return the configuration of RLlib's PPO."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec
    from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
    from ray.tune.registry import register_env

    register_env(NAME, make_batch)
    return (
        PPOConfig()
        .environment(NAME, env_config=ARGUMENTS)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=N_ENVS, gym_env_vectorize_mode="vector_entry_point")
        .rl_module(
            rl_module_spec=RLModuleSpec(
                module_class=ActionMaskingTorchRLModule,
                # One activation everywhere, so that `hdrl model import` knows the network.
                model_config={"head_fcnet_hiddens": [64, 64], "head_fcnet_activation": "tanh"},
            )
        )
        .training(gamma=1.0, lambda_=0.97, train_batch_size_per_learner=2048, minibatch_size=256, num_epochs=4)
    )


def main() -> None:
    """Train, and print what an episode returns."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--iterations", type=int, default=10, help="how many times to collect and learn")
    parser.add_argument("--out", help="file to which the weights of the network are written")
    arguments = parser.parse_args()
    algorithm = make_config().build_algo()
    for iteration in range(arguments.iterations):
        result = algorithm.train()
        print(iteration, result["env_runners"].get("episode_return_mean"))  # noqa: T201
    if arguments.out:
        torch.save(algorithm.get_module().state_dict(), arguments.out)
    algorithm.stop()


if __name__ == "__main__":
    main()

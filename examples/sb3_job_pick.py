"""MaskablePPO of Stable-Baselines3 on a loaded machine, with a network over rows: a recipe that learns.

    pip install 'hdrl[sb3,learn]'
    hdrl workload generate lublin -p homogeneous:256 -n 20000 --load 0.8 --estimates exact --seed 1 -o exact.swf.gz
    python examples/sb3_job_pick.py --seed 1 --out sb3.zip
    hdrl model import sb3.zip examples/loaded_job_pick.json --set workload_file_path=$PWD/exact.swf.gz -o model.pt

It prints the learning curve: decisions, seconds of processor time, and the mean return of the last episodes, which is
the logarithm of how many times smaller the mean bounded slowdown is than that of the policy ``reference``.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gymnasium
import numpy as np
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

import hdrl.envs  # noqa: F401 (registers the environments)
from hdrl.envs.sb3 import RowPolicy, as_vec_env

ARGUMENTS: dict[str, Any] = {
    **{"platform": "homogeneous:256", "part": "train", "n_jobs": 256, "max_jobs": 16, "order": "f4"},
    **{"backfilling": "easy_sjbf", "reward": "relative", "reference": "f4"},
    "features": ("log_wait", "log_requested_time", "log_processors", "free_processors"),
}
"""What ``loaded_job_pick.json`` says to ``hdrl model import``, in the words of Gymnasium."""


class Curve(BaseCallback):
    """Prints a line of the learning curve after every fourth batch."""

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        number = self.num_timesteps // (self.model.n_steps * self.training_env.num_envs)
        if number % 4 == 0 and self.model.ep_info_buffer:
            mean = np.mean([episode["r"] for episode in self.model.ep_info_buffer])
            print(f"{self.num_timesteps},{time.process_time():.0f},{mean:.3f}", flush=True)  # noqa: T201


def main() -> None:
    """Train, and save what was learned."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workload", default="exact.swf.gz", help="the log; its first 60 %% are learned from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=400_000, help="decisions of all environments")
    parser.add_argument("--n-steps", type=int, default=128, help="decisions of each environment in a batch")
    parser.add_argument("--out", default="sb3.zip")
    given = parser.parse_args()
    batch: Any = gymnasium.make_vec(
        "hdrl/JobPick-v0", num_envs=64, workload=given.workload, autoreset_mode="SameStep", **ARGUMENTS
    )
    model = MaskablePPO(
        RowPolicy,
        as_vec_env(batch),
        learning_rate=lambda left: 3e-3 * left,
        n_steps=given.n_steps,
        batch_size=2048,
        n_epochs=4,
        gamma=1.0,
        gae_lambda=1.0,
        target_kl=0.02,
        seed=given.seed,
        device="cpu",
        stats_window_size=400,
    )
    print("steps,cpu_s,mean_return")  # noqa: T201
    model.learn(given.steps, callback=Curve())
    model.save(given.out)


if __name__ == "__main__":
    main()

r"""MaskablePPO of Stable-Baselines3 on a loaded machine, with a network over rows: a recipe that learns.

    pip install 'hdrl[sb3,learn]'
    hdrl workload generate lublin -p homogeneous:256 -n 60000 --load 0.8 --estimates exact --seed 1 -o exact.swf.gz
    python examples/sb3_job_pick.py --seed 1 --out sb3-1
    hdrl model import sb3-1/best_model.zip examples/loaded_job_pick.json -o model.pt \
        --set workload_file_path=$PWD/exact.swf.gz

It prints the learning curve: decisions, seconds of processor time, and the mean return of the best actions on windows
of the validation part, which is the logarithm of how many times smaller the mean bounded slowdown is than that of the
policy ``reference``. The best model by these is kept.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gymnasium
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback

import hdrl.envs  # noqa: F401 (registers the environments)
from hdrl.envs.sb3 import as_vec_env
from hdrl.learn.sb3 import RowPolicy

ARGUMENTS: dict[str, Any] = {
    **{"platform": "homogeneous:256", "n_jobs": 256, "max_jobs": 32, "order": "f4"},
    **{"backfilling": "easy_sjbf", "reward": "relative", "reference": "f4"},
    "features": ("log_wait", "log_requested_time", "log_processors", "free_processors"),
}
"""What ``loaded_job_pick.json`` says to ``hdrl model import``, in the words of Gymnasium."""


N_ENVS = 64


class Curve(MaskableEvalCallback):
    """Prints a line of the learning curve after each validation."""

    def _on_step(self) -> bool:
        goes_on: bool = super()._on_step()
        if self.n_calls % self.eval_freq == 0:
            print(f"{self.num_timesteps},{time.process_time():.0f},{self.last_mean_reward:.3f}", flush=True)  # noqa: T201
        return goes_on


def main() -> None:
    """Train, and keep the best model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workload", default="exact.swf.gz", help="the log; its first 60 %% are learned from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=400_000, help="decisions of all environments")
    parser.add_argument("--n-steps", type=int, default=256, help="decisions of each environment in a batch")
    parser.add_argument("--out", default="sb3", help="folder for best_model.zip")
    given = parser.parse_args()
    torch.set_num_threads(1)  # the network is small: more threads wait for each other

    def environments(part: str) -> Any:
        name, more = "hdrl/JobPick-v0", {"part": part, "workload": given.workload, "autoreset_mode": "SameStep"}
        batch: Any = gymnasium.make_vec(name, num_envs=N_ENVS, **more, **ARGUMENTS)
        return as_vec_env(batch)

    model = MaskablePPO(
        RowPolicy,
        environments("train"),
        learning_rate=3e-3,
        n_steps=given.n_steps,
        batch_size=2048,
        n_epochs=6,
        gamma=1.0,
        gae_lambda=1.0,
        target_kl=0.02,
        seed=given.seed,
        device="cpu",
    )
    curve = Curve(
        environments("validation"),
        n_eval_episodes=N_ENVS,
        eval_freq=2 * given.n_steps,
        best_model_save_path=given.out,
        verbose=0,
        warn=False,  # that no Monitor is around it: batches of hdrl say how episodes ended
    )
    print("steps,cpu_s,validation_return")  # noqa: T201
    model.learn(given.steps, callback=curve)


if __name__ == "__main__":
    main()

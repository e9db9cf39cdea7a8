r"""PPO of Stable-Baselines3 on hdrl/JobIndex-v0: a recipe that beats the best classic policy of its log.

    pip install 'hdrl[sb3,learn]'
    hdrl workload generate lublin -p homogeneous:256 -n 60000 --load 0.8 --estimates exact --seed 3 -o exact.swf.gz
    python examples/sb3_job_index.py --seed 1 --out sb3-1
    hdrl model import sb3-1.zip examples/job_index.json -o sb3-1.pt --set workload_file_path=$PWD/exact.swf.gz

An action is 24 weights of an index and a gate, as differences from those by hand; an episode is one action, judged by
whole windows in compiled code. So the policy is a normal distribution, and PPO moves it. The return is the logarithm of
how many times smaller the mean bounded slowdown is than that of the best of 51 classic policies.

It prints the learning curve: actions, seconds of processor time, and the return of the mean on windows of the
validation part; at 0 actions that of the weights by hand. The best mean is kept.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import gymnasium
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

import hdrl.envs  # noqa: F401 (registers the environments)
from hdrl.envs.sb3 import as_vec_env

ARGUMENTS: dict[str, Any] = {"platform": "homogeneous:256", "n_jobs": 256, "autoreset_mode": "SameStep"}
"""What ``job_index.json`` says to ``hdrl model import``, in the words of Gymnasium."""


class Validation(BaseCallback):
    """Prints a line of the learning curve before the training and after every tenth batch, and keeps the best model."""

    def __init__(self, judge: Any, out: str) -> None:
        super().__init__()
        self._judge, self._out, self._best, self._n_batches = judge, out, -math.inf, 0

    def _on_rollout_start(self) -> None:
        if self._n_batches % 10 == 0:
            self._validate()
        self._n_batches += 1

    def _on_training_end(self) -> None:
        self._validate()

    def _on_step(self) -> bool:
        return True

    def _validate(self) -> None:
        seen, _ = self._judge.reset(seed=0)
        found = float(self._judge.step(self.model.predict(seen, deterministic=True)[0])[1][0])
        print(f"{self.num_timesteps},{time.process_time():.0f},{found:.3f}", flush=True)  # noqa: T201
        if found > self._best:
            self._best = found
            self.model.save(self._out)


def main() -> None:
    """Train, and keep the best model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workload", default="exact.swf.gz", help="the log; its first 60 %% are learned from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=960, help="actions of all environments")
    parser.add_argument("--n-envs", type=int, default=48, help="actions that are judged by the same windows")
    parser.add_argument("--out", default="sb3.zip", help="file for the best model")
    given = parser.parse_args()
    torch.set_num_threads(1)  # there is no network

    def environments(part: str, n_envs: int, n_windows: int) -> Any:
        more = {"part": part, "workload": given.workload, "n_windows": n_windows}
        return gymnasium.make_vec("hdrl/JobIndex-v0", num_envs=n_envs, **more, **ARGUMENTS)

    model = PPO(
        "MlpPolicy",
        as_vec_env(environments("train", given.n_envs, 8)),
        n_steps=1,  # a batch is one action of each environment
        batch_size=given.n_envs,
        n_epochs=10,
        learning_rate=0.01,
        policy_kwargs={"net_arch": [], "log_std_init": math.log(0.25)},
        seed=given.seed,
        device="cpu",
    )
    print("steps,cpu_s,validation_return")  # noqa: T201
    model.learn(given.steps, callback=Validation(environments("validation", 1, 64), given.out))


if __name__ == "__main__":
    main()

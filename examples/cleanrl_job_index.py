r"""PPO in one file, as CleanRL's ``ppo_continuous_action.py`` has it, on hdrl/JobIndex-v0: one step is an episode.

    hdrl workload generate lublin -p homogeneous:256 -n 60000 --load 0.8 --estimates exact --seed 3 -o exact.swf.gz
    python examples/cleanrl_job_index.py --seed 1 --out cleanrl-1.pt
    hdrl model import cleanrl-1.pt examples/job_index.json -o mine-1.pt --set workload_file_path=$PWD/exact.swf.gz

After CleanRL (Huang et al., JMLR 23, 2022; MIT License). What differs is marked: NOTHING SEEN, ONE STEP, BATCH,
VALIDATION. ``sb3_job_index.py`` says what an action is, what the return means and what is printed.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import gymnasium
import torch
from torch import nn
from torch.distributions import Normal

import hdrl.envs  # noqa: F401 (registers the environments)

ARGUMENTS: dict[str, Any] = {"platform": "homogeneous:256", "n_jobs": 256, "autoreset_mode": "SameStep"}
"""What ``job_index.json`` says to ``hdrl model import``, in the words of Gymnasium."""


class Agent(nn.Module):
    """NOTHING SEEN: the observation is 0, so that the mean and the value are the biases of layers without weights."""

    def __init__(self, n_weights: int, sigma: float) -> None:
        super().__init__()
        self.critic, self.actor_mean = nn.Linear(1, 1), nn.Linear(1, n_weights)
        for layer in (self.critic, self.actor_mean):
            nn.init.zeros_(layer.bias)
        self.actor_logstd = nn.Parameter(torch.full((1, n_weights), math.log(sigma)))

    def get_action_and_value(self, x: Any, action: Any = None) -> tuple[Any, Any, Any]:
        action_mean = self.actor_mean(x)
        probs = Normal(action_mean, self.actor_logstd.expand_as(action_mean).exp())
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action).sum(1), self.critic(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workload", default="exact.swf.gz")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total-timesteps", type=int, default=960)
    parser.add_argument("--num-envs", type=int, default=48)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--update-epochs", type=int, default=10)
    parser.add_argument("--clip-coef", type=float, default=0.2)
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--out", default="cleanrl.pt")
    args = parser.parse_args()
    vf_coef, max_grad_norm = 0.5, 0.5
    num_iterations = args.total_timesteps // args.num_envs

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # there is no network

    # BATCH: one compiled call judges the actions of all environments by the same windows.
    envs, judge = (
        gymnasium.make_vec(
            *("hdrl/JobIndex-v0", n_envs), part=part, workload=args.workload, n_windows=n_windows, **ARGUMENTS
        )
        for part, n_envs, n_windows in (("train", args.num_envs, 8), ("validation", 1, 64))
    )
    agent = Agent(envs.single_action_space.shape[0], args.sigma)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    obs, best = torch.tensor(envs.reset(seed=args.seed)[0]), -math.inf
    for iteration in range(num_iterations + 1):
        if iteration % 10 == 0 or iteration == num_iterations:  # VALIDATION
            judge.reset(seed=0)
            with torch.no_grad():
                found = judge.step(agent.actor_mean(obs[:1]).numpy())[1][0]
            print(f"{iteration * args.num_envs},{time.process_time():.0f},{found:.3f}", flush=True)
            if found > best:
                best = found
                torch.save(agent.state_dict(), args.out)
        if iteration == num_iterations:
            break

        # ONE STEP: the return of an action is its reward, so that there is nothing to bootstrap.
        with torch.no_grad():
            actions, logprobs, values = agent.get_action_and_value(obs)
        returns = torch.tensor(envs.step(actions.numpy())[1], dtype=torch.float32)
        advantages = returns - values.flatten()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        for _ in range(args.update_epochs):
            _, newlogprob, newvalue = agent.get_action_and_value(obs, actions)
            ratio = (newlogprob - logprobs).exp()
            pg_loss1 = -advantages * ratio
            pg_loss2 = -advantages * ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
            v_loss = 0.5 * ((newvalue.flatten() - returns) ** 2).mean()
            loss = torch.max(pg_loss1, pg_loss2).mean() + vf_coef * v_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), max_grad_norm)
            optimizer.step()


if __name__ == "__main__":
    print("steps,cpu_s,validation_return")
    main()

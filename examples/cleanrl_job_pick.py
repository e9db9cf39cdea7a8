r"""PPO in one file, as CleanRL's ``ppo.py`` has it, on a batch of hdrl/JobPick-v0: masks, and a network over rows.

    hdrl workload generate lublin -p homogeneous:256 -n 60000 --load 0.8 --estimates exact --seed 1 -o exact.swf.gz
    python examples/cleanrl_job_pick.py --seed 1 --out cleanrl.pt
    hdrl model import cleanrl.pt examples/loaded_job_pick.json --set workload_file_path=$PWD/exact.swf.gz \
        --activation relu -o model.pt

After CleanRL (Huang et al., JMLR 23, 2022; MIT License). What differs from ``ppo.py`` is marked:
ROWS, MASK, BATCH, VALIDATION.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import hdrl.envs  # noqa: F401 (registers the environments)

ARGUMENTS: dict[str, Any] = {
    **{"platform": "homogeneous:256", "n_jobs": 256, "max_jobs": 32, "order": "f4"},
    **{"backfilling": "easy_sjbf", "reward": "relative", "reference": "f4"},
    "features": ("log_wait", "log_requested_time", "log_processors", "free_processors"),
}
"""What ``loaded_job_pick.json`` says to ``hdrl model import``, in the words of Gymnasium."""


def layer_init(layer: nn.Linear, std: float = 2**0.5) -> nn.Linear:
    nn.init.orthogonal_(layer.weight, std)
    nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    """ROWS: actor and critic look at each job alone; the value is the mean over the rows."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.actor = self.network(n_features, 0.01)
        self.critic = self.network(n_features, 1.0)

    @staticmethod
    def network(n_features: int, std: float) -> nn.Sequential:
        return nn.Sequential(
            *(layer_init(nn.Linear(n_features, 32)), nn.ReLU()),
            *(layer_init(nn.Linear(32, 16)), nn.ReLU()),
            *(layer_init(nn.Linear(16, 8)), nn.ReLU()),
            layer_init(nn.Linear(8, 1), std),
        )

    def get_value(self, x: Any) -> Any:
        return self.critic(x).mean(1)

    def get_action_and_value(self, x: Any, mask: Any, action: Any = None) -> tuple[Any, Any, Any, Any]:
        logits = self.actor(x).squeeze(-1).masked_fill(~mask, -1e9)  # MASK
        probs = Categorical(logits=logits)
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.get_value(x)


def validate(agent: Agent, envs: Any) -> float:
    """VALIDATION: return the mean return of the best actions, in the first episode of each environment."""
    obs, info = envs.reset(seed=0)
    returns = np.full(envs.num_envs, np.nan)
    while np.isnan(returns).any():
        with torch.no_grad():
            logits = agent.actor(torch.tensor(obs)).squeeze(-1)
        mask = torch.tensor(info["action_mask"], dtype=torch.bool)
        obs, _, terminations, _, info = envs.step(logits.masked_fill(~mask, -1e9).argmax(1).numpy())
        ended = terminations & np.isnan(returns)
        if ended.any():
            returns[ended] = info["final_info"]["results"]["r"][ended]
    return float(returns.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workload", default="exact.swf.gz")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total-timesteps", type=int, default=400_000)
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--num-steps", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--minibatch-size", type=int, default=2048)
    parser.add_argument("--update-epochs", type=int, default=6)
    parser.add_argument("--clip-coef", type=float, default=0.2)
    parser.add_argument("--target-kl", type=float, default=0.03)
    parser.add_argument("--out", default="cleanrl.pt")
    args = parser.parse_args()
    gamma, gae_lambda, ent_coef, vf_coef, max_grad_norm = 1.0, 1.0, 0.0, 0.5, 0.5
    batch_size = args.num_envs * args.num_steps
    num_iterations = args.total_timesteps // batch_size

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # the network is small: more threads wait for each other

    # BATCH: one compiled call steps all environments.
    envs, judge = (
        gymnasium.make_vec(
            *("hdrl/JobPick-v0", args.num_envs),
            **{"part": part, "workload": args.workload, "autoreset_mode": "SameStep", **ARGUMENTS},
        )
        for part in ("train", "validation")
    )
    n_rows, n_features = envs.single_observation_space.shape
    agent = Agent(n_features)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    shape = (args.num_steps, args.num_envs)
    obs = torch.zeros((*shape, n_rows, n_features))
    masks = torch.zeros((*shape, n_rows), dtype=torch.bool)
    actions, logprobs, rewards, dones, values = (torch.zeros(shape) for _ in range(5))

    next_obs, info = envs.reset(seed=args.seed)
    next_obs, next_done = torch.tensor(next_obs), torch.zeros(args.num_envs)
    best = -np.inf
    for iteration in range(num_iterations):
        for step in range(args.num_steps):
            obs[step], dones[step] = next_obs, next_done
            masks[step] = torch.tensor(info["action_mask"], dtype=torch.bool)  # MASK
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs, masks[step])
            actions[step], logprobs[step], values[step] = action, logprob, value.flatten()
            next_obs, reward, terminations, truncations, info = envs.step(action.numpy())
            ended = terminations | truncations
            rewards[step] = torch.tensor(reward)
            next_obs, next_done = torch.tensor(next_obs), torch.tensor(ended, dtype=torch.float32)

        with torch.no_grad():
            next_value = agent.get_value(next_obs).flatten()
            advantages = torch.zeros_like(rewards)
            lastgaelam = torch.zeros(args.num_envs)
            for t in reversed(range(args.num_steps)):
                nextnonterminal = 1.0 - (next_done if t == args.num_steps - 1 else dones[t + 1])
                nextvalues = next_value if t == args.num_steps - 1 else values[t + 1]
                delta = rewards[t] + gamma * nextvalues * nextnonterminal - values[t]
                advantages[t] = lastgaelam = delta + gamma * gae_lambda * nextnonterminal * lastgaelam
            returns = advantages + values

        b_obs, b_masks = obs.flatten(0, 1), masks.flatten(0, 1)
        b_actions, b_logprobs, b_advantages, b_returns = (
            part.flatten() for part in (actions, logprobs, advantages, returns)
        )
        for _ in range(args.update_epochs):
            for mb_inds in torch.randperm(batch_size).split(args.minibatch_size):
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(
                    b_obs[mb_inds], b_masks[mb_inds], b_actions[mb_inds]
                )
                logratio = newlogprob - b_logprobs[mb_inds]
                ratio = logratio.exp()
                with torch.no_grad():
                    approx_kl = ((ratio - 1) - logratio).mean()
                mb_advantages = b_advantages[mb_inds]
                mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
                pg_loss1 = -mb_advantages * ratio
                pg_loss2 = -mb_advantages * ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                v_loss = 0.5 * ((newvalue.flatten() - b_returns[mb_inds]) ** 2).mean()
                loss = torch.max(pg_loss1, pg_loss2).mean() - ent_coef * entropy.mean() + vf_coef * v_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), max_grad_norm)
                optimizer.step()
            if approx_kl > args.target_kl:
                break
        if iteration % 2 == 1:
            found = validate(agent, judge)
            print(f"{(iteration + 1) * batch_size},{time.process_time():.0f},{found:.3f}", flush=True)
            if found > best:
                best = found
                torch.save(agent.state_dict(), args.out)


if __name__ == "__main__":
    print("steps,cpu_s,validation_return")
    main()

"""Returns and advantages over time, for several environments at once.

All functions take tensors of shape ``(n_steps, n_envs)``. ``ended`` is true where an episode ended in that step, by
itself or cut off; nothing is carried over such a step. ``next_values`` are the values of what was seen after each
step: of the episode's last observation where it was cut off, and of no account (it may be anything finite) where it
ended by itself.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hdrl.learn import portable


def gae(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    gamma: float,
    lam: float,
) -> Tensor:
    """Return generalised advantage estimates, shape ``(n_steps, n_envs)``.

    ``A_t = delta_t + gamma lam A_{t+1}`` within an episode, with ``delta_t = r_t + gamma V(s_{t+1}) - V(s_t)``, where
    ``V(s_{t+1})`` is 0 if the episode terminated. ``lam = 1`` gives returns minus values, ``lam = 0`` one-step errors.

    Parameters
    ----------
    gamma
        Discount of later rewards, 0 to 1.
    lam
        Weight of longer estimates, 0 to 1.

    References
    ----------
    Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage Estimation", ICLR 2016.
    """
    deltas = torch.where(terminated, rewards, rewards + gamma * next_values) - values
    goes_on = (~(terminated | truncated)).to(rewards.dtype) * (gamma * lam)
    advantages = torch.empty_like(rewards)
    later = torch.zeros_like(rewards[0])
    for t in range(len(rewards) - 1, -1, -1):
        later = deltas[t] + goes_on[t] * later
        advantages[t] = later
    return advantages


def discounted_returns(rewards: Tensor, terminated: Tensor, truncated: Tensor, gamma: float) -> Tensor:
    """Return the discounted sums of rewards from each step to the end of its episode, shape ``(n_steps, n_envs)``.

    ``G_t = r_t + gamma G_{t+1}``; after a step that ended an episode or cut it off, and after the last, ``G`` is 0.
    """
    has_ended, returns = terminated | truncated, torch.empty_like(rewards)
    later: Tensor = torch.zeros_like(rewards[0])
    for t in range(len(rewards) - 1, -1, -1):
        later = rewards[t] + gamma * torch.where(has_ended[t], 0.0, later)
        returns[t] = later
    return returns


def standardise(numbers: Tensor, valid: Tensor | None = None) -> Tensor:
    """Return numbers shifted and scaled to mean 0 and standard deviation 1 (all zero if they are equal).

    Only ``valid`` ones count for mean and deviation; ``None``: all.
    """
    counted = numbers if valid is None else numbers[valid]
    if counted.numel() < 2:
        return torch.zeros_like(numbers)
    deviation, mean = portable.std_mean(counted)
    return (numbers - mean) / (deviation + 1e-8)


def explained_variance(predicted: Tensor, found: Tensor) -> float:
    """Return ``1 - Var(found - predicted) / Var(found)``; 0 if nothing varies.

    1 is perfect, 0 is no better than a constant.
    """
    if found.numel() < 2:
        return 0.0
    variance = float(portable.var(found))
    return 0.0 if variance == 0.0 else 1.0 - float(portable.var(found - predicted)) / variance

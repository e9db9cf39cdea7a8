"""The unit of rewards: a divisor that makes returns neither large nor small, whatever they are measured in.

Objectives are joules, seconds or ratios; a critic would hardly ever reach a return of -4e9 J, and its gradients
would drown those of the actor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from hdrl.learn import portable
from hdrl.learn.advantages import discounted_returns
from hdrl.learn.config import ValueConfig
from hdrl.learn.memory import Outcome

SEGMENT = 256
"""Steps that are looked at together where they come one by one."""


class RewardScale:
    """Running size of returns: the root of their mean square over all steps so far.

    Of each step two discounted sums are known: of the rewards since the episode began, and of those from the step to
    the end of the episode, or of what is looked at together. The larger of both roots is taken: the first one misses
    rewards that come at the end, the second one what comes later.

    Parameters
    ----------
    gamma
        Discount of later rewards, 0 to 1.

    References
    ----------
    Engstrom et al., "Implementation Matters in Deep Policy Gradients", ICLR 2020 (which divides by the deviation of the
    first sum); Schaul et al., "Return-based Scaling", 2021.
    """

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma
        self.n = 0
        self._squares = [0.0, 0.0]
        self._gathered: Tensor | None = None
        self._recent: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []

    @property
    def value(self) -> float:
        """Divisor of the rewards; 1 as long as there were none."""
        largest = max(self._squares)
        return math.sqrt(largest / self.n) if largest > 0.0 else 1.0

    def see(self, rewards: Tensor, terminated: Tensor, truncated: Tensor, valid: Tensor) -> None:
        """Take in steps that follow the earlier ones; arrays as in `hdrl.learn.rollout.Steps`."""
        before = self._sums_so_far(rewards, terminated | truncated)
        after = discounted_returns(rewards, terminated, truncated, self.gamma)
        for index, sums in enumerate((before, after)):
            self._squares[index] += portable.sum_of_squares(sums[valid])
        self.n += int(valid.sum())

    def add(self, outcome: Outcome) -> None:
        """Take in one step; `SEGMENT` of them are seen together."""
        self._recent.append((outcome.rewards, outcome.terminated, outcome.truncated, outcome.valid))
        if len(self._recent) == SEGMENT:
            self._observe_recent()

    def settle(self) -> None:
        """Make sure that something has been seen before the first use."""
        if self.n == 0 and self._recent:
            self._observe_recent()

    def _observe_recent(self) -> None:
        rewards, terminated, truncated, valid = (torch.stack(column) for column in zip(*self._recent, strict=True))
        self._recent = []
        self.see(rewards, terminated, truncated, valid)

    def _sums_so_far(self, rewards: Tensor, ended: Tensor) -> Tensor:
        """Return the discounted sum of rewards from the beginning of the episode to each step."""
        sums = torch.empty_like(rewards)
        gathered = torch.zeros_like(rewards[0]) if self._gathered is None else self._gathered
        goes_on = (~ended).to(rewards.dtype) * self.gamma
        for t in range(len(rewards)):
            sums[t] = rewards[t] + gathered
            gathered = sums[t] * goes_on[t]
        self._gathered = gathered
        return sums

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, from which `load_state_dict` continues."""
        return {
            "n": self.n,
            "squares": list(self._squares),
            "gathered": self._gathered,
            "recent": [list(step) for step in self._recent],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.n = int(state["n"])
        self._squares = [float(square) for square in state["squares"]]
        self._gathered = state["gathered"]
        self._recent = [(step[0], step[1], step[2], step[3]) for step in state["recent"]]


def scale_of(config: ValueConfig) -> RewardScale | None:
    """Return a new scale, or ``None`` if rewards are to stay as they are."""
    return RewardScale(config.gamma) if config.is_scaled else None

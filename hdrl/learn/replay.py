"""A replay buffer: past steps, drawn at random, uniformly or by how surprising they were, over one step or several.

Each environment has a ring of its own. An episode that ends is followed by one entry that holds its last observation
and is never drawn itself, whatever the mode in which the environment starts over; so the observation after any step
is the next entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from hdrl.base import elementary
from hdrl.base.errors import LearningError
from hdrl.learn.config import ReplayConfig
from hdrl.learn.memory import Finals, Memory, Outcome
from hdrl.learn.scaling import RewardScale, scale_of
from hdrl.learn.sum_tree import SumTree

_KINDS = ("rewards", "terminated", "truncated", "valid")


@dataclass(slots=True)
class Transitions:
    """``n`` transitions, each over up to ``n`` steps.

    Attributes
    ----------
    observations, next_observations
        Before the first and after the last step, shape ``(n, *observation_shape)``.
    next_masks
        Mask of the legal actions then, shape ``(n, n_actions)``, bool, or ``None``: all.
    masks
        Mask of the legal actions at first, likewise.
    actions
        Shape ``(n,)``, int64.
    returns
        Discounted sum of the rewards of the steps, divided by `scale`; shape ``(n,)``.
    discounts
        By how much the value of `next_observations` counts: ``gamma`` to the number of steps, 0 if the episode
        terminated; shape ``(n,)``.
    weights
        Importance-sampling weights, at most 1, shape ``(n,)``; the loss of each transition is multiplied by its weight
        before the mean is taken.
    slots
        Positions of the transitions in the buffer, shape ``(n,)``, int64.
    scale
        Divisor of the rewards.
    errors
        Absolute errors, which learning fills in, shape ``(n,)``, by which priorities are renewed.
    """

    observations: Tensor
    masks: Tensor | None
    actions: Tensor
    returns: Tensor
    discounts: Tensor
    next_observations: Tensor
    next_masks: Tensor | None
    weights: Tensor
    slots: Tensor
    scale: float = 1.0
    errors: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """A number that moves evenly from ``first`` to ``last`` over ``n`` batches, and stays there."""

    first: float
    last: float
    n: int

    def at(self, i: int) -> float:
        """Return the value after ``i`` batches."""
        share = 1.0 if self.n <= 0 else min(1.0, i / self.n)
        return self.first + share * (self.last - self.first)


class Replay(Memory):
    """A replay buffer.

    Parameters
    ----------
    capacity
        Entries of all environments together; at least ``2 * n_envs``.
    gamma
        Discount of later rewards.
    n_steps
        Over how many steps a transition goes, at most; fewer where the episode ends or the buffer does.
    warm_up
        Steps, of all environments together, before the first batch.
    steps_per_batch
        Steps of all environments at once between batches.
    batches_per_iteration
        After how many batches an iteration of the training loop ends.
    alpha
        Exponent of the priorities: 0 draws uniformly, 1 in proportion to the errors.
    beta
        Exponent of the correcting weights, over batches.
    smallest_error
        Added to errors, so that every transition is drawn at times.
    scale
        Divisor of the rewards when they are drawn; ``None``: they stay as they are.
    """

    def __init__(
        self,
        n_envs: int,
        *,
        capacity: int,
        batch_size: int,
        gamma: float,
        generator: torch.Generator,
        n_steps: int = 1,
        warm_up: int = 0,
        steps_per_batch: int = 1,
        batches_per_iteration: int = 1,
        alpha: float = 0.0,
        beta: Schedule = Schedule(1.0, 1.0, 0),
        smallest_error: float = 1e-2,
        scale: RewardScale | None = None,
    ) -> None:
        if capacity < 2 * n_envs:
            raise LearningError(
                f"a replay buffer of {capacity} entries is too small, expected 2 or more for each of {n_envs} "
                "environments"
            )
        self.length = capacity // n_envs
        self.n_envs = n_envs
        self.batch_size = batch_size
        self.gamma = gamma
        self.n_steps = n_steps
        self.warm_up = warm_up
        self.steps_per_batch = steps_per_batch
        self.learns_per_iteration = batches_per_iteration
        self.alpha = alpha
        self.beta = beta
        self.smallest_error = smallest_error
        self.scale = scale
        self.tree = SumTree(n_envs * self.length)
        self._generator = generator
        self._columns: dict[str, Tensor] = {}
        self._all_rows = np.arange(n_envs)
        self._heads = np.zeros(n_envs, dtype=np.int64)  # entries ever written for each environment
        self._largest = 1.0
        self._n_recorded = 0
        self._n_since = 0
        self._n_batches = 0

    @classmethod
    def of(cls, config: ReplayConfig, n_envs: int, generator: torch.Generator, **more: Any) -> Self:
        """Make a buffer as settings say; raise LearningError if the capacity is too small."""
        return cls(
            n_envs,
            capacity=config.capacity,
            batch_size=config.batch_size,
            gamma=config.gamma,
            generator=generator,
            warm_up=config.warm_up,
            steps_per_batch=config.steps_per_update,
            batches_per_iteration=config.updates_per_iteration,
            scale=scale_of(config),
            **more,
        )

    # ------------------------------------------------------------------ writing

    def record_choice(
        self, observations: Tensor, mask: Tensor | None, actions: Tensor, stored: Mapping[str, Tensor]
    ) -> None:
        """Begin an entry for each environment; the entries before it are complete now and may be drawn."""
        del stored
        self._complete(self._all_rows)
        self._write(self._all_rows, {"observations": observations, "masks": mask, "actions": actions})

    def record_outcome(self, outcome: Outcome) -> None:
        """Fill in what the choices led to."""
        if self.scale is not None:
            self.scale.add(outcome)
        kinds = {name: getattr(outcome, name) for name in _KINDS}
        self._write(self._all_rows, kinds)
        self._heads[self._all_rows] += 1
        if outcome.finals is not None:
            self._write_finals(outcome.finals)
        self._n_recorded += int(outcome.valid.sum())
        self._n_since += 1

    def _write_finals(self, finals: Finals) -> None:
        rows = finals.rows.numpy()
        self._complete(rows)
        nothing = torch.zeros(len(rows))
        self._write(rows, {"observations": finals.observations, "masks": finals.masks, "actions": nothing.long()})
        self._write(rows, {"rewards": nothing} | {name: nothing.bool() for name in _KINDS[1:]})
        self._heads[rows] += 1

    def _slots(self, rows: Any, heads: Any) -> Any:
        return rows * self.length + heads % self.length

    def _complete(self, rows: Any) -> None:
        """Let the newest entries be drawn, and the ones that are overwritten next no more."""
        heads = self._heads[rows]
        written = heads > 0
        newest = self._slots(rows[written], heads[written] - 1)
        if len(newest):
            valid = self._columns["valid"][torch.from_numpy(newest)].numpy()
            self.tree.set(newest, np.where(valid, self._largest**self.alpha, 0.0))
        self.tree.set(self._slots(rows, heads), 0.0)

    def _write(self, rows: Any, parts: Mapping[str, Tensor | None]) -> None:
        slots = torch.from_numpy(self._slots(rows, self._heads[rows]))
        for name, tensor in parts.items():
            if tensor is None:
                continue
            if name not in self._columns:
                self._columns[name] = torch.zeros((self.n_envs * self.length, *tensor.shape[1:]), dtype=tensor.dtype)
            self._columns[name].index_copy_(0, slots, tensor)

    # ------------------------------------------------------------------ drawing

    def batch(self, observations: Tensor, mask: Tensor | None) -> Transitions | None:
        """Draw a batch if enough has been recorded since the last one, else return ``None``."""
        del observations, mask
        if self._n_recorded < self.warm_up or self._n_since < self.steps_per_batch or self.tree.total <= 0.0:
            return None
        self._n_since = 0
        if self.scale is not None:
            self.scale.settle()
        slots, weights = self._draw()
        self._n_batches += 1
        return self.transitions(slots, weights)

    def _draw(self) -> tuple[Any, Tensor]:
        """Draw slots, one from each of equal parts of the priorities, and their weights."""
        n = self.batch_size
        uniform = torch.rand(n, generator=self._generator, dtype=torch.float64).numpy()
        total = self.tree.total
        slots = self.tree.find((np.arange(n) + uniform) * (total / n))
        if self.alpha == 0.0:
            return slots, torch.ones(n)
        priorities = self.tree.priorities
        n_drawable = np.count_nonzero(priorities)
        weights = elementary.power(n_drawable * priorities[slots] / total, -self.beta.at(self._n_batches))
        return slots, torch.from_numpy(weights / weights.max()).float()

    def transitions(self, slots: Any, weights: Tensor) -> Transitions:
        """Return the transitions that begin in given slots, int64; each must be complete and valid."""
        columns = self._columns
        rows, positions = slots // self.length, slots % self.length
        # The newest entry is not complete: its observation may be looked at, its outcome may not.
        left = (self._heads[rows] - 1 - positions) % self.length
        returns, discounts = np.zeros(len(slots)), np.ones(len(slots))
        running = np.ones(len(slots), dtype=np.bool_)
        after = np.zeros(len(slots), dtype=np.int64)
        rewards, terminated = columns["rewards"].numpy(), columns["terminated"].numpy()
        truncated = columns["truncated"].numpy()
        for k in range(self.n_steps):
            running = running & (left > k)
            here = rows * self.length + (positions + k) % self.length
            returns = np.where(running, returns + discounts * rewards[here], returns)
            discounts = np.where(running, np.where(terminated[here], 0.0, discounts * self.gamma), discounts)
            after = np.where(running, k + 1, after)
            running = running & ~terminated[here] & ~truncated[here]
        scale = 1.0 if self.scale is None else self.scale.value
        index = torch.from_numpy(slots)
        next_index = torch.from_numpy(rows * self.length + (positions + after) % self.length)
        masks = columns.get("masks")
        return Transitions(
            observations=columns["observations"][index],
            masks=None if masks is None else masks[index],
            actions=columns["actions"][index],
            returns=torch.from_numpy(returns / scale).float(),
            discounts=torch.from_numpy(discounts).float(),
            next_observations=columns["observations"][next_index],
            next_masks=None if masks is None else masks[next_index],
            weights=weights,
            slots=index,
            scale=scale,
        )

    def after_learning(self, batch: Transitions) -> None:
        """Renew the priorities of a batch by its errors."""
        if self.alpha == 0.0 or batch.errors is None:
            return
        errors = batch.errors.abs().double().numpy() + self.smallest_error
        self._largest = max(self._largest, float(errors.max()))
        self.tree.set(batch.slots.numpy(), elementary.power(errors, self.alpha))

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        """Return the whole content."""
        return {
            "columns": dict(self._columns),
            "priorities": self.tree.priorities.copy(),
            "heads": self._heads.copy(),
            "largest": self._largest,
            "counts": [self._n_recorded, self._n_since, self._n_batches],
            "scale": None if self.scale is None else self.scale.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the content of a buffer of the same size."""
        if len(state["priorities"]) != self.tree.size or len(state["heads"]) != self.n_envs:
            raise LearningError("the saved replay buffer is of another size")
        self._columns = {name: tensor.clone() for name, tensor in state["columns"].items()}
        self.tree.set(np.arange(self.tree.size), np.asarray(state["priorities"]))
        self._heads = np.array(state["heads"], dtype=np.int64)
        self._largest = float(state["largest"])
        self._n_recorded, self._n_since, self._n_batches = (int(n) for n in state["counts"])
        if self.scale is not None:
            self.scale.load_state_dict(state["scale"])

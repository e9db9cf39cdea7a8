"""A job that trains under a budget, and is deepened while it does."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from hdrl.base.errors import DecisionError
from hdrl.base.seeding import stream
from hdrl.settings.adaptation.live.data import Data
from hdrl.settings.adaptation.live.network import Norm, accuracy, build, carried
from hdrl.settings.adaptation.ownmodels import read_model

RateRule = Literal["reset", "epochs", "linear"]
"""Learning-rate schedules. ``epochs``: x 0.9 each epoch; ``reset``: the same, and back to its first value at each
adaptation; ``linear``: falls to 0 at the end of the budget (Li et al., "Budgeted Training", ICLR 2020)."""

EPOCH_FACTOR = 0.9


@dataclass(frozen=True, slots=True)
class JobRules:
    """Rules of a job's training."""

    budget_s: float  # training budget of a job, in seconds
    # the first learning rate of Adam, and what becomes of it
    lr: float = 0.01
    rate: RateRule = "reset"
    batch_size: int = 64  # examples of a step
    norm: Norm = "preserving"  # initial state of inserted normalisations
    # costs of a decision, and of a snapshot
    decision_s: float = 0.0
    checkpoint_s: float = 0.0


class LiveJob:
    """A network that trains.

    Parameters
    ----------
    model
        A name of `hdrl.settings.adaptation.models.MODELS`.
    clock
        Measures or counts how long steps take.
    seed
        Seed of first weights and of the order of examples.

    Attributes
    ----------
    spent_s
        Time trained so far, in seconds.
    """

    def __init__(self, model: str, data: Data, rules: JobRules, clock: Any, seed: int) -> None:
        self.data, self.rules, self.clock = data, rules, clock
        self.network = build(read_model(model, data.shape, data.n_classes), seed)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=rules.lr)
        self.spent_s = 0.0
        self._random = stream(seed, "batches")
        self._epochs_since = 0
        self._order: np.ndarray[Any, np.dtype[np.int64]] = np.zeros(0, dtype=np.int64)

    @property
    def left_s(self) -> float:
        """Training time left, in seconds."""
        return max(0.0, self.rules.budget_s - self.spent_s)

    def train_until(self, spent_s: float) -> None:
        """Train until it has trained ``spent_s`` in all; the last step may take a little longer."""
        self.network.train()
        while self.spent_s < min(spent_s, self.rules.budget_s):
            self._step()

    def adapt(self, action: int) -> None:
        """Deepen an original block, or do nothing (one more than the last block); refuse other actions."""
        n_blocks = len(self.network.model.targets)
        if not 0 <= action <= n_blocks:
            raise DecisionError(f"no action {action}, expected 0 to {n_blocks}")
        self.spent_s += self.rules.decision_s
        if action == n_blocks:
            return
        carried(self.optimizer, self.network.deepen(action, self.rules.norm))
        if self.rules.rate == "reset":
            self._epochs_since = 0

    def snapshot(self) -> LiveJob:
        """Return a copy that can go another way."""
        data, clock = self.data, self.clock
        found = copy.deepcopy(self, {id(data): data, id(clock): clock})
        found.spent_s += self.rules.checkpoint_s
        return found

    def validation(self) -> float:
        """Return the accuracy on the validation part."""
        return accuracy(self.network, *self.data.validation)

    def test(self) -> float:
        """Return the accuracy on the test part."""
        return accuracy(self.network, *self.data.test)

    def _rate(self) -> float:
        if self.rules.rate == "linear":
            return self.rules.lr * max(0.0, 1.0 - self.spent_s / self.rules.budget_s)
        return float(self.rules.lr * EPOCH_FACTOR**self._epochs_since)

    def _step(self) -> None:
        examples, labels = self.data.train
        if not len(self._order):
            self._order = self._random.permutation(len(labels))
        chosen = torch.from_numpy(self._order[: self.rules.batch_size])
        self._order = self._order[self.rules.batch_size :]
        if len(self._order) == 1:  # normalisation needs two
            self._order = self._order[:0]
        self.optimizer.param_groups[0]["lr"] = self._rate()

        def run() -> None:
            self.optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(self.network(examples[chosen]), labels[chosen])
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()

        self.spent_s += self.clock.took_s(self.network.model, self.data.shape, len(chosen), run)
        if not len(self._order):
            self._epochs_since += 1

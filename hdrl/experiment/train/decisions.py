"""Reports on the decisions of an agent: insights, and HDeepRM's ``actions.log`` and ``log_probs.log``."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hdrl.base.errors import LearningError
from hdrl.base.files import output_errors
from hdrl.experiment.run.insights import LOGGER

if TYPE_CHECKING:
    from torch import Tensor

    from hdrl.learn.agent import Agent
    from hdrl.learn.memory import Outcome

ACTIONS_FILE, LOG_PROBS_FILE = "actions.log", "log_probs.log"
DECISION_FILES = (ACTIONS_FILE, LOG_PROBS_FILE)
"""``actions.log`` has the number of each action in a line, ``log_probs.log`` a list whenever the agent has learned:
the logarithms of the probabilities that its actions had."""


def write_lines(folder: Path, lines: Mapping[str, Sequence[str]]) -> None:
    """Add lines to files of a folder."""
    for name, more in lines.items():
        path = folder / name
        with output_errors(path), path.open("a", encoding="utf-8", newline="") as out:
            out.writelines(f"{line}\n" for line in more)


class DecisionLog:
    """Listens to an agent, see `hdrl.learn.agent.Listener`.

    ``actions`` names the actions; it is empty if they have no lasting meaning. ``lines`` are those since the last
    `take`, by the name of their file.
    """

    def __init__(self, actions: Sequence[str] = (), files: Sequence[str] = ()) -> None:
        self._names = actions
        self.lines: dict[str, list[str]] = {name: [] for name in DECISION_FILES if name in files}
        self._log_probs: list[float] = []
        self._n_steps = 0
        self._seen = self._chosen = np.zeros(0)
        self._probabilities: list[list[float]] | None = None

    @property
    def is_needed(self) -> bool:
        """True if its notes go into a file or the log."""
        return bool(self.lines) or LOGGER.isEnabledFor(logging.INFO)

    def chose(self, agent: Agent, observations: Tensor, mask: Tensor | None, actions: Tensor) -> None:
        """Remember a choice until its outcome is there."""
        import torch

        from hdrl.learn.device import moved

        self._seen, self._chosen = observations.numpy().copy(), actions.numpy().copy()
        try:
            with torch.no_grad():
                self._probabilities = agent.latest_probabilities(*moved((observations, mask), agent.device)).tolist()
        except LearningError:  # it does not choose by probabilities
            self._probabilities = None

    def happened(self, outcome: Outcome) -> None:
        """Note the decisions of all environments in which one was made."""
        rewards = outcome.rewards if outcome.exact_rewards is None else outcome.exact_rewards
        for row in np.flatnonzero(outcome.valid.numpy()).tolist():
            action = self._chosen[row].tolist()  # a number, or those of a Box
            chances = None if self._probabilities is None else self._probabilities[row]
            if ACTIONS_FILE in self.lines:
                self.lines[ACTIONS_FILE].append(json.dumps(action))
            if isinstance(action, int) and chances is not None and LOG_PROBS_FILE in self.lines:
                self._log_probs.append(math.log(max(chances[action], 1e-45)))
            if LOGGER.isEnabledFor(logging.INFO):
                self._log(row, action, chances, float(rewards[row]))
            self._n_steps += 1

    def learned(self, losses: Mapping[str, float]) -> None:
        """Note that the agent has learned."""
        if LOG_PROBS_FILE in self.lines:
            self.lines[LOG_PROBS_FILE].append(json.dumps(self._log_probs))
            self._log_probs = []
        for name, value in losses.items():
            LOGGER.info("%s %.9g", name, value)

    def take(self) -> dict[str, list[str]]:
        """Return the lines since the last call, by file."""
        taken, self.lines = self.lines, {name: [] for name in self.lines}
        return taken

    def _log(self, row: int, action: Any, chances: list[float] | None, reward: float) -> None:
        where = f"step {self._n_steps}" + (f", environment {row}" if len(self._chosen) > 1 else "")
        seen = np.array2string(self._seen[row].ravel(), threshold=64, precision=4, max_line_width=10**6)
        LOGGER.info("%s: observation %s", where, seen)
        if chances is not None:
            LOGGER.info("%s: probabilities %s", where, " ".join(f"{chance:.4g}" for chance in chances))
        name = f" ({self._names[action]})" if isinstance(action, int) and action < len(self._names) else ""
        LOGGER.info("%s: action %s%s, reward %.9g", where, action, name, reward)

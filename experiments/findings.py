"""Arguments and results of a claimed experiment that is more than one comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hdrl.trace.model import Load, Machine

__all__ = ["Finding", "Place", "Playable", "ReproduceProtocol", "Results", "finding_of_resamples", "without_models"]

Place = tuple[str, str]
"""Row and column of a number that is claimed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A number of an experiment, with what is known of its uncertainty.

    Attributes
    ----------
    value
        The number; NaN where none exists.
    low, high
        Ends of its interval; NaN where it has none.
    trainings
        The same number of each training alone. The number is their mean, or that of a model with their mean weights.
    null
        The number if there were no effect: 1 for a ratio, 0 for a difference, the opponent's number for a mean.
        ``None`` for what is no effect.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    trainings: tuple[float, ...] = ()
    null: float | None = None


def finding_of_resamples(values: NDArray[np.float64], null: float | None) -> Finding:
    """Return a number and its 95 % interval from its value and those of its resamples, in this order."""
    low, high = np.quantile(values[1:], (0.025, 0.975))
    return Finding(float(values[0]), float(low), float(high), null=null)


class Playable(Protocol):
    """A trained model."""

    @property
    def row(self) -> str:
        """The row of the claimed experiment whose options it was trained by."""

    @property
    def agent_state(self) -> Mapping[str, Any]:
        """State of its agent, see `hdrl.learn.agent.Agent.state_dict`."""

    @property
    def environment(self) -> Mapping[str, Any]:
        """The environment that it was trained in, as its file describes it: ``id`` and ``arguments``."""

    def agent(self, envs: Any) -> Any:
        """Return the agent, an `hdrl.learn.agent.Agent`, to decide in a batch like that of its training."""

    def play(self, machine: Machine, load: Load, *, as_trained: bool = False) -> Any:
        """Simulate a load on a machine with the best actions.

        Parameters
        ----------
        as_trained
            True to simulate in the environment of the training, instead of as all candidates are simulated.
        """


Results = Mapping[Place, float | Finding]
"""Findings of an experiment, by row and column; a float is a number without any uncertainty that is no effect."""

ReproduceProtocol = Callable[[Mapping[str, Path], Sequence[Playable]], Results]
"""A claimed experiment that is more than one comparison: given the traces that it needs, by name, and the models of a
training if there was one, it returns numbers by row and column."""


def evolved_weights(models: Sequence[Playable]) -> list[NDArray[np.float64]]:
    """Return the evolved weights of some models, as their agents hold them: the mean first, then each."""
    each = [np.asarray(one.agent_state["weights"], dtype=np.float64) for one in models]
    return [np.mean(each, axis=0), *each]


def without_models(protocol: Callable[[Mapping[str, Path]], Results]) -> ReproduceProtocol:
    """Return the protocol of what is fixed, such as classic policies: a function of the traces alone."""
    return lambda traces, _: protocol(traces)

"""Agents trained for several configurations of a load: the agent of the nearest one decides.

A configuration is a position among others, a point: the logarithms of its periods, for instance. In a model file the
points and what was learned for each stand beside the weights of the agent that learned last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hdrl.base.errors import LearningError
from hdrl.learn.agent import Agent, one_line

KEY = "configurations"
"""Under which name the state of an agent holds what was learned for configurations."""

Point = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Specialist:
    """The weights (``modules``) that were learned for the configuration at ``point``."""

    point: Point
    modules: Mapping[str, Any]


def nearest(point: Sequence[float], points: Sequence[Sequence[float]]) -> int:
    """Return the index of the nearest point, the first of those that are equally near.

    Points of another number of coordinates are farther away than all others.
    """
    distances = [math.dist(point, one) if len(one) == len(point) else np.inf for one in points]
    return int(np.argmin(distances))


def with_specialists(state: Mapping[str, Any], specialists: Sequence[Specialist]) -> dict[str, Any]:
    """Return the state of an agent together with its specialists; the same state if there are none."""
    if not specialists:
        return dict(state)
    return {**state, KEY: [{"point": list(one.point), "modules": dict(one.modules)} for one in specialists]}


def specialists_of(state: Mapping[str, Any], where: str) -> list[Specialist]:
    """Return the specialists in the state of an agent, none if one agent decides about all configurations.

    Raise LearningError if it is damaged; ``where`` names the model file.
    """
    try:
        found = [
            Specialist(tuple(float(x) for x in one["point"]), {str(k): part for k, part in one["modules"].items()})
            for one in state.get(KEY, [])
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LearningError(f"{where}: its configurations are damaged ({one_line(error)})") from None
    return found


class WeightSwitch:
    """Gives an agent the weights of the nearest configuration whenever another one is in force.

    ``point``: says where the configuration that is in force lies.
    """

    def __init__(
        self, agent: Agent, specialists: Sequence[Specialist], point: Callable[[], Sequence[float]], where: str
    ) -> None:
        self._agent, self._specialists, self._point, self._where = agent, specialists, point, where
        self._points = [one.point for one in specialists]
        self._number: int | None = None

    def __call__(self) -> None:
        """Load the weights of the configuration in force; raise LearningError if they do not fit the agent."""
        number = nearest(self._point(), self._points)
        if number != self._number:
            try:
                self._agent.load_weights({"modules": self._specialists[number].modules})
            except LearningError as error:
                raise LearningError(f"{self._where}: configuration {number}: {error}") from None
            self._number = number

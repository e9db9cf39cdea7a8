"""Ratios with their intervals as small pictures within tables, all of a page on one logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from hdrl.figures.numbers import number_words

WIDTH = 200
WIDEST = 1000.0
"""Ratios beyond this, and below its inverse, stand at the border of the scale."""

_TICKS = (
    *(factor * 10.0**power for power in (-3, -2) for factor in (1, 2, 5)),
    *(0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000),
)


@dataclass(frozen=True, slots=True)
class Scale:
    """A logarithmic scale for ratios."""

    # the ratios at its ends
    low: float
    high: float

    @classmethod
    def over(cls, ratios: Iterable[float]) -> Self:
        """Return a scale that holds 1 and all ratios that are finite and positive."""
        limit = math.log(WIDEST)
        logs = [math.log(ratio) for ratio in ratios if math.isfinite(ratio) and ratio > 0]
        within = [0.0, *(max(-limit, min(limit, value)) for value in logs)]
        low, high = min(within), max(within)
        # Both sides of 1 have room for a word.
        room = 0.3 * (high - low)
        low, high = min(low, -room), max(high, room)
        margin = max(0.05, 0.06 * (high - low))
        return cls(math.exp(low - margin), math.exp(high + margin))

    def at(self, ratio: float) -> float:
        """Return the position of a ratio, in pixels from the left."""
        share = math.log(ratio / self.low) / math.log(self.high / self.low)
        return round(WIDTH * min(1.0, max(0.0, share)), 1)

    def ticks(self) -> list[float]:
        """Return a few round ratios on the scale, 1 among them, far enough apart for their texts."""
        shown = [1.0]
        for tick in sorted(_TICKS, key=lambda tick: abs(math.log(tick)), reverse=True):
            if self.low <= tick <= self.high and all(abs(self.at(tick) - self.at(other)) >= 34 for other in shown):
                shown.append(tick)
        return sorted(shown)


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale with the words on either side of 1."""

    scale: Scale
    below: str
    above: str


@dataclass(frozen=True, slots=True)
class DrawnInterval:
    """A ratio with its interval on a scale, in pixels from the left."""

    words: str  # the same in words
    one: float  # where 1 stands
    # positions of the ratio and of the ends of its interval; ``None`` where there is none
    dot: float | None = None
    low: float | None = None
    high: float | None = None
    mark: str = ""  # ``"good"``, ``"bad"`` or nothing
    is_learned: bool = False  # True if it is a model's


def interval(
    scale: Scale, ratio: float, low: float, high: float, *, mark: str = "", is_learned: bool = False
) -> DrawnInterval:
    """Return the picture of a ratio.

    ``mark`` is ``"good"`` if the ratio is shown to be better, ``"bad"`` if worse. NaN stands for what is missing.
    """
    if not ratio > 0:
        return DrawnInterval("no ratio", scale.at(1))
    words = f"{number_words(ratio)} times the baseline"
    if low > 0 and math.isfinite(high):
        words += f", interval from {number_words(low)} to {number_words(high)}"
        return DrawnInterval(words, scale.at(1), scale.at(ratio), scale.at(low), scale.at(high), mark, is_learned)
    return DrawnInterval(words, scale.at(1), scale.at(ratio), mark=mark, is_learned=is_learned)

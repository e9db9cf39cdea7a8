"""Ratios with their intervals as small pictures within a table, all on one logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from hdrl.report.html.markup import Markup, tag
from hdrl.report.html.numbers import ratio_text

WIDTH = 200
HEIGHT = 22
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100)


@dataclass(frozen=True, slots=True)
class Scale:
    """A logarithmic scale for ratios.

    Attributes
    ----------
    low, high
        The ratios at its ends.
    """

    low: float
    high: float

    @classmethod
    def over(cls, ratios: Iterable[float]) -> Self:
        """Return a scale that holds some ratios and 1.

        Parameters
        ----------
        ratios
            The ratios; what is not finite or not positive does not count.
        """
        logs = [0.0, *(math.log(ratio) for ratio in ratios if math.isfinite(ratio) and ratio > 0)]
        low, high = min(logs), max(logs)
        margin = max(0.05, 0.06 * (high - low))
        return cls(math.exp(low - margin), math.exp(high + margin))

    def at(self, ratio: float) -> float:
        """Return where a ratio stands, in pixels from the left.

        Parameters
        ----------
        ratio
            The ratio, positive.
        """
        share = math.log(ratio / self.low) / math.log(self.high / self.low)
        return round(WIDTH * min(1.0, max(0.0, share)), 1)

    def ticks(self) -> list[float]:
        """Return a few round ratios on the scale, 1 among them, far enough apart for their texts."""
        shown = [1.0]
        for tick in sorted(_TICKS, key=lambda tick: abs(math.log(tick)), reverse=True):
            if self.low <= tick <= self.high and all(abs(self.at(tick) - self.at(other)) >= 34 for other in shown):
                shown.append(tick)
        return sorted(shown)


def axis_cell(scale: Scale, baseline: str) -> Markup:
    """Return the header cell above the pictures, with the scale.

    Parameters
    ----------
    scale
        The scale.
    baseline
        What 1 stands for.
    """
    marks = [
        tag("text", f"{tick:g}", x=min(max(scale.at(tick), 10), WIDTH - 10), y=HEIGHT - 6, text_anchor="middle")
        for tick in scale.ticks()
    ]
    picture = _svg(*marks, aria_hidden="true")
    return tag("th", f"ratio to {baseline}", picture, scope="col", class_="forest-axis")


def interval_cell(scale: Scale, ratio: float, low: float, high: float, *, is_baseline: bool) -> Markup:
    """Return the cell with the picture of a ratio.

    Parameters
    ----------
    scale
        The scale.
    ratio, low, high
        The ratio and the ends of its interval; NaN where there is none.
    is_baseline
        Whether this is what ratios refer to.
    """
    middle = HEIGHT / 2
    parts = [tag("line", x1=scale.at(1), x2=scale.at(1), y1=0, y2=HEIGHT, class_="one")]
    words = "the baseline" if is_baseline else "no ratio"
    if not is_baseline and ratio > 0:
        words = f"{ratio_text(ratio)} times the baseline"
        if low > 0 and math.isfinite(high):
            parts.append(tag("line", x1=scale.at(low), x2=scale.at(high), y1=middle, y2=middle, class_="bar"))
            words += f", interval from {ratio_text(low)} to {ratio_text(high)}"
        parts.append(tag("circle", cx=scale.at(ratio), cy=middle, r=4.5, class_="dot"))
    return tag("td", _svg(*parts, role="img", aria_label=words), class_="forest-cell")


def _svg(*parts: Markup, **attributes: object) -> Markup:
    return tag(
        "svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", width=WIDTH, height=HEIGHT, class_="forest", **attributes
    )

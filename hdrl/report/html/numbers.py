"""Numbers for people: units that fit the size, as many digits as mean something, one form within a row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hdrl.settings.batch.metrics import METRICS

MISSING = "\N{EN DASH}"
"""What stands where a number does not exist."""

_LADDERS: dict[str, tuple[tuple[float, float, str], ...]] = {
    # From this size on: divide by, unit.
    "s": ((0, 1, "s"), (600, 60, "min"), (2 * 3600, 3600, "h"), (3 * 86400, 86400, "d")),
    "J": ((0, 1, "J"), (1e4, 1e3, "kJ"), (3.6e6, 3.6e6, "kWh"), (3.6e10, 3.6e9, "MWh")),
    "W": ((0, 1, "W"), (1e4, 1e3, "kW"), (1e7, 1e6, "MW")),
    "J s": ((0, 1, "J s"), (1e7, 3.6e6, "kWh s"), (1e11, 3.6e6 * 3600, "kWh h"), (1e16, 3.6e9 * 86400, "MWh d")),
}

_PERCENTAGES = frozenset({"utilization", "success_rate"})
_JOB_COUNTS = frozenset(
    f"n_{state}"
    for state in (
        "finished", "successful", "failed", "walltime_reached", "killed", "rejected", "unfinished", "not_started",
    )
)  # fmt: skip
_UNIT_SUFFIXES = ("_jobs_per_h", "_js", "_s", "_j", "_w")


@dataclass(frozen=True, slots=True)
class Form:
    """How the numbers of one row are written.

    Attributes
    ----------
    divisor
        What the numbers are divided by first.
    unit
        The unit then, empty for pure numbers.
    decimals
        Digits after the point.
    """

    divisor: float
    unit: str
    decimals: int

    def number(self, value: float | None) -> str:
        """Return a number without its unit.

        Parameters
        ----------
        value
            The number; ``None`` or NaN where there is none.
        """
        if value is None or not math.isfinite(value):
            return MISSING
        scaled = value / self.divisor
        if abs(scaled) >= 1e12:
            return f"{scaled:.4g}"
        return f"{scaled:,.{self.decimals}f}"

    def quantity(self, value: float | None) -> str:
        """Return a number with its unit.

        Parameters
        ----------
        value
            The number; ``None`` or NaN where there is none.
        """
        text = self.number(value)
        return f"{text} {self.unit}" if self.unit and text != MISSING else text


def metric_form(metric: str, values: Iterable[float | None]) -> Form:
    """Return how to write values of one metric beside each other.

    Parameters
    ----------
    metric
        Name of the metric; an unknown one counts as a pure number.
    values
        The values.
    """
    known = [abs(value) for value in values if value is not None and math.isfinite(value)]
    if metric in _PERCENTAGES:
        return Form(0.01, "%", 1)
    unit = METRICS[metric].unit if metric in METRICS else "1"
    top = max(known, default=0.0)
    divisor, unit = 1.0, ("" if unit == "1" else unit)
    for start, step_divisor, step_unit in _LADDERS.get(unit, ()):
        if top >= start:
            divisor, unit = step_divisor, step_unit
    if metric.startswith("n_") and all(value == int(value) for value in known):
        return Form(divisor, unit, 0)
    return Form(divisor, unit, _decimals([value / divisor for value in known]))


def ratio_text(value: float) -> str:
    """Return a ratio with three digits that count.

    Parameters
    ----------
    value
        The ratio.
    """
    if not math.isfinite(value):
        return MISSING
    if value <= 0:
        return "0"
    return f"{value:,.{min(6, max(0, 2 - math.floor(math.log10(value))))}f}"


def metric_label(metric: str) -> str:
    """Return the name of a metric in words, without its unit.

    Parameters
    ----------
    metric
        Its name, for instance ``mean_wait_s``.
    """
    text = metric
    for suffix in _UNIT_SUFFIXES:
        if text.endswith(suffix) and metric in METRICS:
            text = text.removesuffix(suffix)
            break
    text = text.removeprefix("n_").replace("_", " ")
    return f"{text} jobs" if metric in _JOB_COUNTS else text


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return names as a list in a sentence: ``a, b and c``.

    Parameters
    ----------
    names
        The names.
    most
        How many are named; the others are counted.
    """
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else ""


def _decimals(known: Sequence[float]) -> int:
    """Return as many decimals as give the smallest number three digits and the largest four, and none more than six."""
    positive = [value for value in known if value > 0]
    if not positive:
        return 0
    wanted = max(2 - math.floor(math.log10(min(positive))), 3 - math.floor(math.log10(max(positive))))
    room = 5 - math.floor(math.log10(max(positive)))
    return max(0, min(wanted, room, 2 if max(positive) >= 1 else 3))

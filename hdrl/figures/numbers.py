"""Numbers and names for people: units that fit the size, as many digits as mean something, one form within a row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.words import metric_words, number_words

__all__ = [
    "MISSING",
    "Form",
    "axis_number",
    "listed",
    "metric_form",
    "metric_words",
    "number_words",
    "si_unit",
    "time_unit",
]

MISSING = "\N{EN DASH}"
"""Text in place of a missing number."""

_LADDERS: dict[str, tuple[tuple[float, float, str], ...]] = {
    # From this size on: divide by, unit.
    "s": ((0, 1, "s"), (600, 60, "min"), (2 * 3600, 3600, "h"), (3 * 86400, 86400, "d")),
    "J": ((0, 1, "J"), (1e4, 1e3, "kJ"), (3.6e6, 3.6e6, "kWh"), (3.6e10, 3.6e9, "MWh")),
    "W": ((0, 1, "W"), (1e4, 1e3, "kW"), (1e7, 1e6, "MW")),
    "J s": ((0, 1, "J s"), (1e7, 3.6e6, "kWh s"), (1e11, 3.6e6 * 3600, "kWh h"), (1e16, 3.6e9 * 86400, "MWh d")),
}

_SHARES = ("utilization", "_rate", "_share")
"""Suffixes of metrics that are shares of a whole, shown in percent."""

_TIME_UNITS = ((400.0, 1.0, "s"), (4 * 3600.0, 60.0, "min"), (5 * 86400.0, 3600.0, "h"), (math.inf, 86400.0, "days"))


@dataclass(frozen=True, slots=True)
class Form:
    """Format of the numbers of one row."""

    divisor: float  # divisor of the numbers
    unit: str  # the unit then, empty for pure numbers
    decimals: int  # digits after the point

    def number(self, value: float | None) -> str:
        """Return a number without its unit."""
        if value is None or not math.isfinite(value):
            return MISSING
        scaled = value / self.divisor
        if abs(scaled) >= 1e12:
            return f"{scaled:.4g}"
        return f"{scaled:,.{self.decimals}f}"

    def quantity(self, value: float | None) -> str:
        """Return a number with its unit."""
        text = self.number(value)
        return f"{text} {self.unit}" if self.unit and text != MISSING else text


def metric_form(metric: str, info: MetricInfo | None, values: Iterable[float | None]) -> Form:
    """Return the format for values of one metric side by side."""
    known = [abs(value) for value in values if value is not None and math.isfinite(value)]
    if metric.endswith(_SHARES) and (info is None or info.unit == "1"):
        return Form(0.01, "%", 1)
    unit = info.unit if info is not None else "1"
    top = max(known, default=0.0)
    divisor, unit = 1.0, ("" if unit == "1" else unit)
    for start, step_divisor, step_unit in _LADDERS.get(unit, ()):
        if top >= start:
            divisor, unit = step_divisor, step_unit
    if metric.startswith("n_") and all(value == int(value) for value in known):
        return Form(divisor, unit, 0)
    return Form(divisor, unit, _decimals([value / divisor for value in known]))


def time_unit(span_s: float) -> tuple[float, str]:
    """Return a unit of time for an axis, as its seconds and its name."""
    return next((seconds, name) for limit, seconds, name in _TIME_UNITS if span_s <= limit)


def si_unit(largest: float, unit: str) -> tuple[float, str]:
    """Return a decimal multiple of a unit that suits a number, as its factor and its name."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(largest) >= factor:
            return factor, prefix + unit
    return 1.0, unit


def axis_number(value: float) -> str:
    """Return a number for the tick of an axis: 1, 10, 1,000 and so on."""
    sign, size = "\N{MINUS SIGN}" if value < 0 else "", abs(value)
    if size < 1e6:
        return f"{sign}{size:,g}"
    digits, _, power = f"{size:.2e}".partition("e+")
    return f"{sign}{float(digits):g}e{int(power)}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return names as a list in a sentence, ``a, b and c``; those beyond ``most`` are counted."""
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

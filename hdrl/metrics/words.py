"""Metrics and their numbers in sentences."""

from __future__ import annotations

import math


def metric_words(metric: str) -> str:
    """Return a metric's name for sentences: ``"mean bounded slowdown"``."""
    for suffix in ("_jobs_per_h", "_js", "_s", "_j", "_w"):
        if metric.endswith(suffix):
            metric = metric.removesuffix(suffix)
            break
    return metric.removeprefix("n_").replace("_", " ")


def number_words(value: float) -> str:
    """Return a number for sentences and tables with three digits that count; ``"-"`` for NaN."""
    if not math.isfinite(value):
        return "-"
    if value != 0 and (abs(value) >= 1e7 or abs(value) < 1e-3):
        return f"{value:.3g}"
    digits = 0 if value == 0 or abs(value) >= 1000 else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def interval_words(value: float, low: float, high: float) -> str:
    """Return a number with its interval, ``"0.71 [0.58, 0.84]"``; the number alone where there is no interval."""
    return number_words(value) + ("" if math.isnan(low) else f" [{number_words(low)}, {number_words(high)}]")


def confidence_words(confidence: float) -> str:
    """Return the head of a column of intervals: ``"[95 %]"``."""
    return f"[{100 * confidence:.10g} %]"

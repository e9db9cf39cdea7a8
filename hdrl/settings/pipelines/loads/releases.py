"""Release dates of instances: periodic, with periods that switch, or sporadic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import WorkloadError, readable
from hdrl.settings.pipelines.loads.load import INSTANCE_DTYPE
from hdrl.settings.pipelines.loads.pipeline import MAX_US, Pipeline

MAX_INSTANCES = 1_000_000
"""Largest number of instances of a load."""


@dataclass(frozen=True, slots=True)
class Context:
    """A stretch of driving in which each pipeline has its period.

    A length of 0 stands for the least common multiple of the periods.
    """

    periods_us: tuple[int, ...]
    length_us: int = 0


def hyperperiod_us(periods_us: Sequence[int]) -> int:
    """Return the least common multiple of periods, in microseconds.

    Raise WorkloadError if one makes no sense, or more than `MAX_INSTANCES` instances are released within it.
    """
    _check_periods(periods_us)
    hyperperiod = math.lcm(*periods_us)
    n_instances = sum(hyperperiod // period for period in periods_us)
    if n_instances > MAX_INSTANCES:
        shown = ", ".join(f"{period / 1000:g}" for period in sorted(set(periods_us))[:8])
        raise WorkloadError(
            f"periods of {shown} ms: their least common multiple is {hyperperiod / 1e6:.6g} s, within which"
            f" {n_instances:.6g} instances are released, more than {MAX_INSTANCES}; choose periods with common factors,"
            " or a horizon"
        )
    return hyperperiod


def _check_periods(periods_us: Sequence[int]) -> None:
    for period in periods_us:
        if not 1 <= period <= MAX_US:
            raise WorkloadError(f"a period of {readable(str(period))} us, expected 1 to {MAX_US}")


def ends_us(contexts: Sequence[Context]) -> list[int]:
    """Return the ends of successive contexts that begin at date 0, in microseconds.

    Raise WorkloadError if one makes no sense.
    """
    ends: list[int] = []
    for context in contexts:
        _check_periods(context.periods_us)
        length = context.length_us or hyperperiod_us(context.periods_us)
        if not 1 <= length <= MAX_US:
            raise WorkloadError(f"a context lasts {length} us, expected 1 to {MAX_US}")
        ends.append((ends[-1] if ends else 0) + length)
    return ends


def release(
    pipelines: Sequence[Pipeline],
    contexts: Sequence[Context],
    *,
    spread: float = 0.0,
    random: np.random.Generator | None = None,
) -> NDArray[np.void]:
    """Return the instances that are released, array of `INSTANCE_DTYPE`.

    An instance's period is the one in force when it is released; the next one follows a period later, its deadline is
    one period (or the pipeline's own deadline) later. Contexts follow each other without a break.

    Parameters
    ----------
    contexts
        Periods of successive contexts.
    spread
        Largest delay of the next instance beyond the period, as a share of the period: drawn evenly from 0 to it. 0:
        strictly periodic.

    Raises
    ------
    WorkloadError
        If a context makes no sense, or too many instances are released.
    """
    if not contexts:
        raise WorkloadError("no context, expected the periods of at least one")
    if not 0.0 <= spread <= 100.0 or (spread > 0.0 and random is None):
        raise WorkloadError(f"spread of releases is {spread}, expected 0 to 100, and something to draw from")
    for context in contexts:
        if len(context.periods_us) != len(pipelines):
            raise WorkloadError(f"{len(context.periods_us)} periods for {len(pipelines)} pipelines")
    ends = ends_us(contexts)
    n_expected = sum(
        length / period
        for context, length in zip(contexts, np.diff([0, *ends]), strict=True)
        for period in context.periods_us
    )
    if n_expected > MAX_INSTANCES:
        raise WorkloadError(
            f"about {n_expected:.6g} instances are released, more than {MAX_INSTANCES}; shorten the horizon"
        )
    columns = [
        _stretches(number, pipeline, contexts, ends, spread, random) for number, pipeline in enumerate(pipelines)
    ]
    pipeline, date, deadline, tolerance, period, n = np.concatenate(columns).T
    each = np.repeat(np.arange(len(n)), n)
    release_us = date[each] + period[each] * (np.arange(len(each)) - (np.cumsum(n) - n)[each])
    table = np.zeros(len(each), dtype=INSTANCE_DTYPE)
    for name, values in zip(
        table.dtype.names or (),
        (pipeline[each], release_us, release_us + deadline[each], tolerance[each], period[each]),
        strict=True,
    ):
        table[name] = values
    return table[np.lexsort((table["pipeline"], table["release_us"]))]


def _stretches(
    number: int,
    pipeline: Pipeline,
    contexts: Sequence[Context],
    ends: Sequence[int],
    spread: float,
    random: np.random.Generator | None,
) -> NDArray[np.int64]:
    """Return stretches of instances a period apart: pipeline, date, deadline, tolerance, period, and how many."""
    rows: list[tuple[int, ...]] = []
    date, position = pipeline.phase_us, 0
    last = ends[-1] + pipeline.phase_us  # a later phase loses no instance: the last context lasts as much longer
    drawn_by = random if spread > 0.0 else None
    while date < last:
        while position + 1 < len(ends) and date >= ends[position]:
            position += 1
        period = contexts[position].periods_us[number]
        end = last if position + 1 == len(ends) else ends[position]
        n = 1 if drawn_by is not None else -(-(end - date) // period)
        rows.append((number, date, pipeline.deadline_us or period, pipeline.tolerance_us, period, n))
        date += n * period
        if drawn_by is not None:
            date += int(drawn_by.integers(0, round(spread * period), endpoint=True))
    return np.array(rows, dtype=np.int64).reshape(-1, 6)

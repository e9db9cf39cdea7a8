"""Start times of waiting jobs: simulations from the present queue, with intervals that a log calibrates.

At dates of the log, the queue of that date is simulated forward with what a predictor says of run times; how far the
answers were from what happened gives intervals for other queues (conformal prediction).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.platform import Platform
from hdrl.settings.batch.policies import simulate
from hdrl.settings.batch.predict.evaluation import predictions_of
from hdrl.settings.batch.site_rules.columns import SiteColumns
from hdrl.settings.batch.workload.history import LogHistory
from hdrl.settings.batch.workload.swf import SwfLog
from hdrl.settings.batch.workload.swf_jobs import workload_from_swf

FloatArray = NDArray[np.float64]
Rows = NDArray[np.void]

LEVEL = 0.9
"""Share of true waits that intervals are to hold."""

CALIBRATION_SHARE = 0.7
"""Share of the log that sets the first intervals; the rest is what intervals are checked on."""

N_DATES = 600
"""Dates of the log whose queues are simulated."""

MOST_JOBS = 20_000
"""Jobs of the log, its last ones, that dates are taken from."""

_STEP = 0.05
_LEVELS = (0.5, 0.998)
"""Step of the intervals' level for a wholly missed date of mean size, and the bounds of the level."""

LEAST_PAIRS = 100
_N_GROUPS = 8
_LEAST_IN_GROUP = 100

_SCALE_S = 60.0
"""Waits below it differ by seconds, longer ones by factors."""

_SHORTEST_S = 60.0
"""Assumed time left, in seconds, of a job that runs past its request."""

_LATER_S = 1.0
"""By how much waiting jobs come after running ones where a site has rules."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Errors of predicted waits, by groups of similar predictions."""

    edges_s: FloatArray  # predicted waits between the groups, shape ``(n_groups - 1,)``
    # bounds of true over predicted wait, each a minute longer than it is, shape ``(n_groups,)``
    low: FloatArray
    high: FloatArray

    def bounds_of(self, predicted_s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the shortest and the longest wait that jobs with such predictions may have."""
        group = np.searchsorted(self.edges_s, predicted_s, side="right")
        low, high = ((predicted_s + _SCALE_S) * bound[group] - _SCALE_S for bound in (self.low, self.high))
        return np.maximum(low, 0.0), np.maximum(high, 0.0)

    def hold(self, predicted_s: FloatArray, true_s: FloatArray) -> NDArray[np.bool_]:
        """Return whether each wait is within its interval; accounting counts whole seconds."""
        low_s, high_s = self.bounds_of(predicted_s)
        return (true_s >= low_s - 0.5) & (true_s <= high_s + 0.5)


def calibrated(predicted_s: FloatArray, true_s: FloatArray, level: float = LEVEL) -> Intervals:
    """Return intervals that hold a share of true waits, if the next ones are like these.

    Both sides miss equally often. With n waits of a group, the bounds are those order statistics of its errors between
    which the next error lies with at least the probability ``level`` (split conformal prediction).

    Parameters
    ----------
    predicted_s, true_s
        Predicted and true waits of the same jobs, shape ``(n_jobs,)``.
    """
    n_groups = max(1, min(_N_GROUPS, len(predicted_s) // _LEAST_IN_GROUP))
    edges_s = np.unique(np.quantile(predicted_s, np.arange(1, n_groups) / n_groups, method="lower"))
    group = np.searchsorted(edges_s, predicted_s, side="right")
    errors = (true_s + _SCALE_S) / (predicted_s + _SCALE_S)
    low, high = np.zeros(len(edges_s) + 1), np.zeros(len(edges_s) + 1)
    for position in range(len(low)):
        part = np.sort(errors[group == position])
        if len(part) == 0:
            part = np.sort(errors)
        rank = math.floor((len(part) + 1) * (1 - level) / 2)
        # Ranks 0 and n + 1 would be bounds without end: the least and the largest error stand for them.
        low[position], high[position] = part[max(rank, 1) - 1], part[min(len(part) + 1 - rank, len(part)) - 1]
    return Intervals(edges_s, low, high)


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """Running and waiting jobs at one date, all of them in rows of a log that begins there."""

    rows: Rows  # running jobs first, then waiting ones; run times are what is left of predictions
    n_running: int  # number of running jobs


Requests = Mapping[float, Mapping[str, str]]

NO_REQUESTS: Requests = MappingProxyType({})

REQUESTS = ("het_group", "partitions", "nodes", "exclusive", "features", "gpus", "account", "association")
"""Columns beside a log that simulations of a queue obey; the others are of the past, or of dates that have passed."""

LIMITED = {"account", "association"}
"""Those of `REQUESTS` that limits of the site belong to."""


def requests_in(columns: SiteColumns | None) -> Requests:
    """Return the requests of the jobs of a log that simulations of a queue obey."""
    found: dict[float, Mapping[str, str]] = {}
    for _, cells in () if columns is None else columns.rows:
        kept = {name: cells[name] for name in REQUESTS if cells.get(name)}
        if kept:
            found[float(cells["job"])] = kept
    return found


def request_columns(rows: Rows, requests: Requests, n_running: int = 0) -> SiteColumns | None:
    """Return the columns with the requests of a queue; ``None`` if there are none.

    Parameters
    ----------
    requests
        Cells of jobs by their numbers in the log; names of `REQUESTS`.
    n_running
        Number of running jobs, the first rows: they have started, so that nothing starts them together.
    """
    cells = []
    for position, number in enumerate(rows["job_number"].tolist()) if requests else ():
        known = {**requests.get(number, {})}
        if position < n_running:
            known.pop("het_group", None)
        if known:
            cells.append({"job": str(int(number)), **known})
    return SiteColumns(Path("queue"), tuple(enumerate(cells, start=2))) if cells else None


def waits_of(
    queue: QueueSnapshot,
    platform: Platform,
    policy: str,
    header: Mapping[str, str] | None = None,
    requests: Requests = NO_REQUESTS,
) -> FloatArray:
    """Return the wait of each job of a queue from now on, in seconds; NaN of jobs that limits of the site reject.

    Parameters
    ----------
    header
        Header of the log that the queue is from, which names partitions.
    requests
        See `request_columns`. Only for platforms with the rules of a site.
    """
    rows, later_s = queue.rows, 0.0
    if platform.site is not None:  # running jobs start before any other job is looked at, whatever its partition
        later_s = _LATER_S
        rows = rows.copy()
        rows["submit_s"][queue.n_running :] += later_s
    log = SwfLog("queue", rows, dict(header or {}), columns=request_columns(rows, requests, queue.n_running))
    workload = workload_from_swf(log, platform, bandwidth="none", shift=False)
    trace = simulate(platform, workload, policy, energy=False)
    # A workload is in the order of submission, and jobs of one date in that of their rows.
    order = np.argsort(rows["submit_s"], kind="stable")
    started_s = np.empty(len(order))
    started_s[order] = trace.records["start_s"]
    rejected = started_s < 0
    over_limits = [
        position
        for position in np.flatnonzero(rejected[: queue.n_running]).tolist()
        if rows["queue"][position] > -1 or requests.get(rows["job_number"][position], {}).keys() & LIMITED
    ]
    if over_limits:  # running jobs keep their cores, although today's limits would reject them
        free, requests = _without_limits(queue, requests, over_limits)
        return waits_of(free, platform, policy, header, requests)
    wait_s = np.where(rejected, np.nan, np.maximum(np.round(started_s - later_s, 3), 0.0))
    return wait_s[queue.n_running :]


def _without_limits(
    queue: QueueSnapshot, requests: Requests, positions: Sequence[int]
) -> tuple[QueueSnapshot, Requests]:
    """Return a queue and requests in which some jobs have no QOS, account or user."""
    rows, changed = queue.rows.copy(), dict(requests)
    for position in positions:
        number = rows["job_number"][position]
        changed[number] = {name: value for name, value in changed.get(number, {}).items() if name not in LIMITED}
        rows["queue"][position] = -1
    return replace(queue, rows=rows), changed


def queue_of(running: Rows, waiting: Rows, now_s: float, running_s: FloatArray, waiting_s: FloatArray) -> QueueSnapshot:
    """Return the queue of one date.

    A running job that has outrun its prediction is taken to run as long again, one that has outrun its request a
    minute. What waits is in the order of submission.

    Parameters
    ----------
    running, waiting
        Rows of the log.
    running_s, waiting_s
        Predicted run times, from their starts, in seconds.
    """
    begun_s = now_s - (running["submit_s"] + running["wait_s"])
    left_s = np.maximum(running["requested_s"] - begun_s, _SHORTEST_S)
    expected_s = np.where(running_s > begun_s, running_s - begun_s, begun_s)
    order = np.argsort(waiting["submit_s"], kind="stable")
    rows = np.concatenate([running, waiting])
    n_running = len(running)
    rows["submit_s"] = np.maximum(rows["submit_s"] - now_s, 0.0)
    rows["wait_s"] = -1
    rows["requested_s"][:n_running] = left_s
    rows["run_s"][:n_running] = np.clip(expected_s, 1.0, left_s)
    rows["run_s"][n_running:] = np.clip(waiting_s, 1.0, np.maximum(waiting["requested_s"], 1.0))
    for field in ("preceding_job", "think_s"):
        rows[field] = -1
    ranks = np.concatenate([np.arange(n_running), n_running + order])
    return QueueSnapshot(rows[ranks], n_running)


@dataclass(frozen=True, slots=True)
class PastWaits:
    """Predicted and true waits of jobs that waited at dates of a log."""

    # from the date on, shape ``(n_pairs,)``
    predicted_s: FloatArray
    true_s: FloatArray
    date_s: FloatArray  # the date, shape ``(n_pairs,)``, rising
    is_late: NDArray[np.bool_]  # True where the date is in the last part of the log, that intervals are checked on
    n_dates: int  # number of dates


@dataclass(frozen=True, slots=True)
class Adapted:
    """Intervals for the next date of a log, and those that its last part would have had."""

    intervals: Intervals  # for the next date
    # intervals of the waits of the last part, shape ``(n_late,)``; NaN where too few waits were over
    low_s: FloatArray
    high_s: FloatArray
    holds: NDArray[np.bool_]  # True where the wait was within them, shape ``(n_late,)``

    @property
    def coverage(self) -> float:
        """Share of the waits of the last part that were within their intervals, NaN if not all had some."""
        return float(np.mean(self.holds)) if len(self.holds) and np.all(np.isfinite(self.low_s)) else math.nan


def adapted(past: PastWaits) -> Adapted:
    """Return the intervals for the next date.

    Load and rules change, so the next waits are not like those before: wherever more waits than wanted turn out to be
    outside their intervals, the next intervals become wider, and the other way round (adaptive conformal inference,
    Gibbs and Candes, 2021). The first part sets the intervals that the last part begins with. At each date of it, they
    come from the waits that were over by then. A wait that is longer than its interval counts from the end of that on.
    """
    level = LEVEL
    known_s = past.date_s + past.true_s
    mean_size = max(len(past.true_s) / max(past.n_dates, 1), 1.0)
    late = np.flatnonzero(past.is_late)
    predicted_s, true_s, date_s = past.predicted_s[late], past.true_s[late], past.date_s[late]
    low_s, high_s, settled_s = np.full((3, len(late)), np.nan)
    holds, is_open = np.zeros(len(late), dtype=bool), np.zeros(len(late), dtype=bool)

    def level_at(now_s: float) -> float:
        settled = is_open & (settled_s <= now_s)
        is_open[settled] = False
        n_outside, n_waits = np.count_nonzero(~holds[settled]), np.count_nonzero(settled)
        return min(max(level + _STEP * (n_outside - (1 - LEVEL) * n_waits) / mean_size, _LEVELS[0]), _LEVELS[1])

    for now_s in np.unique(date_s).tolist():
        level = level_at(now_s)
        over, here = known_s <= now_s, date_s == now_s
        if np.count_nonzero(over) < LEAST_PAIRS:
            continue
        intervals = calibrated(past.predicted_s[over], past.true_s[over], level)
        low_s[here], high_s[here] = intervals.bounds_of(predicted_s[here])
        holds[here] = intervals.hold(predicted_s[here], true_s[here])
        settled_s[here] = now_s + np.minimum(true_s[here], high_s[here])
        is_open[here] = True
    intervals = calibrated(past.predicted_s, past.true_s, level_at(np.inf))
    return Adapted(intervals, low_s, high_s, holds)


def past_waits(
    rows: Rows,
    run_s: FloatArray,
    platform: Platform,
    policy: str,
    n_dates: int = N_DATES,
    header: Mapping[str, str] | None = None,
    requests: Requests = NO_REQUESTS,
) -> PastWaits:
    """Predict waits at dates of a log, and look at what happened.

    The dates are submissions of jobs that had to wait, spread evenly over them.

    Parameters
    ----------
    rows
        A log with waits, in the order of submission.
    run_s
        Predicted run time of each job when it was submitted, in seconds.
    header
        Header of the log, which names partitions.
    requests
        See `waits_of`.
    """
    submit_s = rows["submit_s"]
    start_s = submit_s + rows["wait_s"]
    end_s = start_s + rows["run_s"]
    waited = np.flatnonzero(rows["wait_s"] > 0)
    chosen = waited[np.unique(np.linspace(0, len(waited) - 1, min(n_dates, len(waited))).astype(int))]
    split = CALIBRATION_SHARE * len(rows)
    predicted, true, dates, late = [np.zeros(0)], [np.zeros(0)], [np.zeros(0)], [np.zeros(0, dtype=bool)]
    for position in chosen.tolist():
        now_s = submit_s[position]
        is_there = submit_s <= now_s
        waiting = np.flatnonzero(is_there & (start_s > now_s))
        running = np.flatnonzero(is_there & (start_s <= now_s) & (end_s > now_s))
        queue = queue_of(rows[running], rows[waiting], now_s, run_s[running], run_s[waiting])
        wait_s = waits_of(queue, platform, policy, header, requests)
        starts = np.isfinite(wait_s)  # the limits of the rules are those of today
        predicted.append(wait_s[starts])
        true.append(start_s[waiting][starts] - now_s)
        dates.append(np.full(np.count_nonzero(starts), now_s))
        late.append(np.full(np.count_nonzero(starts), position >= split))
    return PastWaits(
        np.concatenate(predicted), np.concatenate(true), np.concatenate(dates), np.concatenate(late), len(chosen)
    )


def known_jobs(rows: Rows) -> Rows:
    """Return the jobs of a log that tell all that a simulation needs, in the order of submission."""
    rows = rows[(rows["wait_s"] >= 0) & (rows["run_s"] > 0) & (rows["processors"] > 0) & (rows["submit_s"] >= 0)].copy()
    lacks = rows["requested_s"] <= 0
    rows["requested_s"][lacks] = rows["run_s"][lacks]
    return rows[np.argsort(rows["submit_s"], kind="stable")]


def predicted_run_s(known: Rows, others: Rows, predictor: str) -> tuple[FloatArray, FloatArray]:
    """Return the predicted run times of jobs, by what had ended when each was submitted.

    Parameters
    ----------
    others
        Jobs that wait or run; nothing is learned from them.

    Returns
    -------
    tuple
        Seconds of the known jobs, and of the others.

    Raises
    ------
    UnknownName
        If there is no such predictor.
    """
    rows = np.concatenate([known, others])
    ended_s = rows["submit_s"] + rows["wait_s"] + rows["run_s"]
    ended_s[len(known) :] = np.inf
    columns = (rows[name].astype(np.int32) for name in ("user", "processors"))
    history = LogHistory(rows["submit_s"], ended_s, rows["run_s"], rows["requested_s"], *columns)
    run_s = predictions_of(history, (predictor,))[predictor]
    return run_s[: len(known)], run_s[len(known) :]

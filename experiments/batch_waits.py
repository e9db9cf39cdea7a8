"""How often intervals of predicted waits hold the true ones, on the last 30 % of real logs that are played as sites.

Confidence intervals are over blocks of neighbouring dates, since queues of neighbouring dates hold the same jobs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.seeding import stream
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, without_models
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.waits import LEVEL, adapted, calibrated, known_jobs, past_waits, predicted_run_s
from hdrl.settings.batch.workload.swf import read_swf

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

N_CORES = {"KTH": 100, "CTC": 338, "SDSC-BLUE": 1152}
"""Processors of the machines, as the headers of the logs say."""

POLICY, PREDICTOR = "fcfs+easy", "geo"
"""What `hdrl wait` takes if nothing else is said."""

N_RESAMPLES, TAIL = 10_000, 0.025

ADAPTED, FIXED = "adapted", "fixed after the first 70 %"
HELD, WIDTH = "waits in their 90 % intervals, %", "median width of intervals, h"
ALL = "mean of the logs"


@PROTOCOLS.register("wait-coverage")
@without_models
def wait_coverage(traces: Mapping[str, Path]) -> dict[Place, Finding]:
    """Return which share of the waits intervals held, and how wide these were.

    Parameters
    ----------
    traces
        The logs.
    """
    found: dict[Place, Finding] = {}
    shares: dict[str, list[Floats]] = {ADAPTED: [], FIXED: []}
    for path in traces.values():
        name = next(one for one in N_CORES if path.name.startswith(one))
        known = known_jobs(read_swf(path).rows)
        run_s, _ = predicted_run_s(known, known[:0], PREDICTOR)
        past = past_waits(known, run_s, read_platform(f"homogeneous:{N_CORES[name]}"), POLICY)
        late, checked = past.is_late, adapted(past)
        fixed = calibrated(past.predicted_s[~late], past.true_s[~late])
        dates = np.unique(past.date_s[late], return_inverse=True)[1]
        drawn = _blocks(int(dates.max()) + 1, name)
        for kind, holds in (
            (ADAPTED, checked.holds),
            (FIXED, fixed.hold(past.predicted_s[late], past.true_s[late])),
        ):
            n_held = np.bincount(dates, holds).astype(np.int64)
            shares[kind].append(100 * (drawn @ n_held) / (drawn @ np.bincount(dates)))
            found[f"{name}, {kind}", HELD] = _finding(shares[kind][-1])
        found[f"{name}, {ADAPTED}", WIDTH] = Finding(float(np.median(checked.high_s - checked.low_s)) / 3600)
    for kind, of_logs in shares.items():
        found[f"{ALL}, {kind}", HELD] = _finding(np.mean(of_logs, axis=0))
    return found


def _blocks(n_dates: int, name: str) -> Whole:
    """Return how often each resample holds each date, the dates themselves first: ``(1 + N_RESAMPLES, n_dates)``."""
    length = round(math.sqrt(n_dates))
    firsts = stream(0, f"wait-coverage/{name}").integers(0, n_dates, (N_RESAMPLES, -(-n_dates // length)))
    places = (firsts[:, :, np.newaxis] + np.arange(length)).reshape(N_RESAMPLES, -1)[:, :n_dates] % n_dates
    counts = np.ones((1 + N_RESAMPLES, n_dates), dtype=np.int64)
    for row, of_row in enumerate(places, start=1):
        counts[row] = np.bincount(of_row, minlength=n_dates)
    return counts


def _finding(values: Floats) -> Finding:
    low, high = np.quantile(values[1:], (TAIL, 1 - TAIL))
    return Finding(float(values[0]), float(low), float(high), null=100 * LEVEL)

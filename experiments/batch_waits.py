"""Coverage of intervals of predicted waits, on the last 30 % of real logs that are played as sites.

Confidence intervals are over blocks of neighbouring dates, since queues of neighbouring dates hold the same jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.seeding import stream
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, finding_of_resamples, without_models
from hdrl.metrics.statistics import block_counts
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.waits import LEVEL, adapted, calibrated, known_jobs, past_waits, predicted_run_s
from hdrl.settings.batch.workload.swf import read_swf

Floats = NDArray[np.float64]

N_CORES = {"KTH": 100, "CTC": 338, "SDSC-BLUE": 1152}
"""Processors of the machines, as the headers of the logs say."""

POLICY, PREDICTOR = "fcfs+easy", "geo"
"""Defaults of `hdrl wait`."""

N_RESAMPLES = 10_000

ADAPTED, FIXED = "adapted", "fixed after the first 70 %"
HELD, WIDTH = "waits in their 90 % intervals, %", "median width of intervals, h"
ALL = "mean of the logs"


@PROTOCOLS.register("wait-coverage")
@without_models
def wait_coverage(traces: Mapping[str, Path]) -> dict[Place, Finding]:
    """Return the share of the waits that the intervals held, and the width of the intervals.

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
        drawn = block_counts(int(dates.max()) + 1, stream(0, f"wait-coverage/{name}"), N_RESAMPLES)
        for kind, holds in (
            (ADAPTED, checked.holds),
            (FIXED, fixed.hold(past.predicted_s[late], past.true_s[late])),
        ):
            n_held = np.bincount(dates, holds).astype(np.int64)
            shares[kind].append(100 * (n_held @ drawn) / (np.bincount(dates) @ drawn))
            found[f"{name}, {kind}", HELD] = finding_of_resamples(shares[kind][-1], null=100 * LEVEL)
        found[f"{name}, {ADAPTED}", WIDTH] = Finding(float(np.median(checked.high_s - checked.low_s)) / 3600)
    for kind, of_logs in shares.items():
        found[f"{ALL}, {kind}", HELD] = finding_of_resamples(np.mean(of_logs, axis=0), null=100 * LEVEL)
    return found

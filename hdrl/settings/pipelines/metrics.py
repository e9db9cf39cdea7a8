"""Metrics of pipelines: deadlines, lateness, use of units; what no scheduler could have avoided."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hdrl.metrics.catalogue import MetricInfo, less, neutral
from hdrl.settings.pipelines.analysis.guarantees import least_misses
from hdrl.settings.pipelines.machine import KINDS
from hdrl.settings.pipelines.simulation.trace import PipelineTrace

_REAL_TIME = "common use in real-time scheduling"
_SEED = "rlschedsim"
_WILSON = "Wilson, J. American Statistical Association 22, 1927, 95 %"
_MK = "Hamdaoui and Ramanathan, IEEE Trans. Computers 44(12), 1995, for (m, k) = (4, 5)"
_OWN = "hdrl"

MK = 4, 5
"""(m, k): at least m of k consecutive instances are to meet their deadlines."""

METRICS: Mapping[str, MetricInfo] = MappingProxyType(
    {
        "n_jobs": neutral("1", "instances that were released", _OWN),
        "n_missed": less("1", "instances that ended later than their deadlines and tolerances", _REAL_TIME),
        "miss_ratio": less("1", "n_missed / n_jobs", _REAL_TIME),
        "miss_ratio_low": less("1", "lower end of the interval of miss_ratio", _WILSON),
        "miss_ratio_high": less("1", "upper end of the interval of miss_ratio", _WILSON),
        "n_unavoidable": neutral(
            "1",
            "lower bound on n_missed under any scheduler: demand and latency; up to 12 kernels exact",
            _OWN,
        ),
        "n_own_misses": less("1", "n_missed - n_unavoidable: upper bound on the policy's own misses", _OWN),
        "n_mk_violations": less("1", "sequences of 5 instances of a pipeline with fewer than 4 in time", _MK),
        "mean_lateness_s": less("s", "mean of end - deadline", _REAL_TIME),
        "max_lateness_s": less("s", "maximum of end - deadline", _REAL_TIME),
        "mean_tardiness_s": less("s", "mean of max(0, end - deadline)", _REAL_TIME),
        "max_tardiness_s": less("s", "maximum of max(0, end - deadline)", _REAL_TIME),
        "tardiness_of_late_s": less("s", "mean of end - deadline over instances with end > deadline; 0 if none", _SEED),
        "relative_lateness": less("1", "mean of (end - deadline) / (end - release)", _SEED),
        "mean_response_s": less("s", "mean of end - release", _REAL_TIME),
        "max_response_s": less("s", "maximum of end - release", _REAL_TIME),
        "jitter_s": less("s", "largest over pipelines of (longest response - shortest response)", _REAL_TIME),
        "makespan_s": less("s", "last end - first release", _REAL_TIME),
        "utilization": neutral("1", "time in which units ran / (units * makespan_s)", _REAL_TIME),
        "utilization_cpu": neutral("1", "the same for CPUs; NaN without any", _REAL_TIME),
        "utilization_gpu": neutral("1", "the same for GPUs; NaN without any", _REAL_TIME),
        "n_started": neutral("1", "kernels that were started, fused ones as one", _OWN),
    }
)
"""Every metric that `compute_metrics` gives, by name, in the order in which it gives them."""


def compute_metrics(trace: PipelineTrace) -> dict[str, float]:
    """Return every metric of `METRICS` for one simulation."""
    table = trace.load.instances
    late_s, response_s = trace.late_us / 1e6, (trace.end_us - table["release_us"]) / 1e6
    n, n_missed = len(table), int(trace.is_missed.sum())
    low, high = wilson(n_missed, n)
    is_late = late_s > 0
    n_unavoidable = least_misses(trace.machine, trace.load)
    makespan_s = float(trace.end_us.max() - table["release_us"].min()) / 1e6
    return {
        "n_jobs": float(n),
        "n_missed": float(n_missed),
        "miss_ratio": n_missed / n,
        "miss_ratio_low": low,
        "miss_ratio_high": high,
        "n_unavoidable": float(n_unavoidable),
        "n_own_misses": float(n_missed - n_unavoidable),
        "n_mk_violations": float(mk_violations(trace)),
        "mean_lateness_s": float(late_s.mean()),
        "max_lateness_s": float(late_s.max()),
        "mean_tardiness_s": float(np.maximum(late_s, 0.0).mean()),
        "max_tardiness_s": float(np.maximum(late_s, 0.0).max()),
        "tardiness_of_late_s": float(late_s[is_late].mean()) if is_late.any() else 0.0,
        "relative_lateness": float((late_s / response_s).mean()),
        "mean_response_s": float(response_s.mean()),
        "max_response_s": float(response_s.max()),
        "jitter_s": _jitter_s(table["pipeline"], response_s),
        "makespan_s": makespan_s,
        **_utilizations(trace, makespan_s),
        "n_started": float(len(trace.runs)),
    }


def wilson(n_hits: int, n: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Return the interval of a share at quantile ``z``, by default 95 % confidence (Wilson's score interval)."""
    share, weight = n_hits / n, z * z / n
    middle = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(share * (1 - share) / n + weight / (4 * n))
    return middle - half if n_hits > 0 else 0.0, middle + half if n_hits < n else 1.0


def mk_violations(trace: PipelineTrace, m: int = MK[0], k: int = MK[1]) -> int:
    """Return the number of runs of ``k`` consecutive instances of a pipeline with fewer than ``m`` that were met."""
    n = 0
    for number in range(len(trace.load.pipelines)):
        met = ~trace.is_missed[trace.load.instances["pipeline"] == number]
        if len(met) >= k:
            n += int(np.sum(np.convolve(met, np.ones(k, dtype=np.int64), mode="valid") < m))
    return n


def _jitter_s(pipelines: NDArray[np.int64], response_s: NDArray[np.float64]) -> float:
    return max(float(np.ptp(response_s[pipelines == one])) for one in np.unique(pipelines).tolist())


def _utilizations(trace: PipelineTrace, makespan_s: float) -> dict[str, float]:
    busy_s = (trace.runs["end_us"] - trace.runs["start_us"]) / 1e6
    kinds = np.array(trace.machine.kinds)
    found = {"utilization": float(busy_s.sum()) / (len(kinds) * makespan_s)}
    for kind, name in enumerate(KINDS):
        n_units = int(np.sum(kinds == kind))
        own = busy_s[kinds[trace.runs["unit"]] == kind]
        found[f"utilization_{name}"] = float(own.sum()) / (n_units * makespan_s) if n_units else math.nan
    return found

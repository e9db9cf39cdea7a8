"""What every metric means: unit, formula, source, and whether less is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """What a metric means.

    Attributes
    ----------
    unit
        Its unit; ``"1"`` for a pure number.
    formula
        How it is computed, in words and symbols.
    source
        Where the definition comes from.
    lower_is_better
        ``True`` or ``False``; ``None`` where a comparison says nothing by itself.
    """

    unit: str
    formula: str
    source: str
    lower_is_better: bool | None


_BATSIM = "Batsim 4.2.1, out_schedule.csv"
_OWN = "hdrl"
_HDEEPRM = "HDeepRM 0.3.1, overutilizations.json"
_QUEUEING = "common use in job scheduling"
_JSSPP_1997 = "Feitelson et al., Theory and Practice in Parallel Job Scheduling, JSSPP 1997"
_EDP = "Gonzalez and Horowitz, IEEE J. Solid-State Circuits 31(9), 1996, on a whole run"


def _counts() -> dict[str, MetricInfo]:
    def count(formula: str, *, lower_is_better: bool | None, source: str = _BATSIM) -> MetricInfo:
        return MetricInfo("1", formula, source, lower_is_better)

    return {
        "n_jobs": count("jobs of the workload", lower_is_better=None, source=_OWN),
        "n_finished": count("jobs that ran to an end, whatever end: the four counts below", lower_is_better=False),
        "n_successful": count("finished jobs in COMPLETED_SUCCESSFULLY", lower_is_better=False),
        "n_failed": count("finished jobs in COMPLETED_FAILED", lower_is_better=True, source=_OWN),
        "n_walltime_reached": count("finished jobs in COMPLETED_WALLTIME_REACHED", lower_is_better=True, source=_OWN),
        "n_killed": count("finished jobs in COMPLETED_KILLED", lower_is_better=True, source=_OWN),
        "n_rejected": count("jobs that the policy rejected", lower_is_better=True),
        "n_unfinished": count("jobs still running at the end of the simulation", lower_is_better=True, source=_OWN),
        "n_not_started": count(
            "jobs neither started nor rejected at the end of the simulation", lower_is_better=True, source=_OWN
        ),
        "success_rate": count("n_successful / n_jobs", lower_is_better=False),
    }


def _distributions() -> dict[str, MetricInfo]:
    kinds = (
        ("wait", "_s", "s", "start - submission", _QUEUEING),
        ("turnaround", "_s", "s", "end - submission", _QUEUEING),
        ("slowdown", "", "1", "(wait + run) / run", _QUEUEING),
        ("bounded_slowdown", "", "1", "max(1, (wait + run) / max(run, 10 s))", _JSSPP_1997),
    )
    statistics = (
        ("mean", "mean"),
        ("median", "median"),
        ("p95", "95th percentile (linear interpolation)"),
        ("p99", "99th percentile (linear interpolation)"),
        ("max", "maximum"),
    )
    return {
        f"{statistic}_{kind}{suffix}": MetricInfo(
            unit, f"{words} over finished jobs of {formula}", source, lower_is_better=True
        )
        for kind, suffix, unit, formula, source in kinds
        for statistic, words in statistics
    }


def _machine() -> dict[str, MetricInfo]:
    return {
        "makespan_s": MetricInfo("s", "last end of a job - first submission of a job", _QUEUEING, lower_is_better=True),
        "batsim_makespan_s": MetricInfo(
            "s", "date of the last end of a job; 0 without any", _BATSIM, lower_is_better=True
        ),
        "utilization": MetricInfo(
            "1",
            "sum over finished jobs of (cores * run) / (cores of the platform * makespan_s)",
            _QUEUEING,
            lower_is_better=False,
        ),
        "throughput_jobs_per_h": MetricInfo("1/h", "3600 * n_finished / makespan_s", _QUEUEING, lower_is_better=False),
    }


def _energy() -> dict[str, MetricInfo]:
    return {
        "energy_j": MetricInfo(
            "J", "energy of all hosts from the first submission to the last end of a job", _BATSIM, lower_is_better=True
        ),
        "mean_power_w": MetricInfo("W", "energy_j / makespan_s", _OWN, lower_is_better=True),
        "energy_delay_product_js": MetricInfo("J s", "energy_j * makespan_s", _EDP, lower_is_better=True),
    }


def _overutilization() -> dict[str, MetricInfo]:
    return {
        "n_core_shortages": MetricInfo(
            "1", "times the job chosen next found too few free cores", _HDEEPRM, lower_is_better=True
        ),
        "n_memory_shortages": MetricInfo(
            "1",
            "times the job chosen next found too little memory on the nodes with free cores",
            _HDEEPRM,
            lower_is_better=True,
        ),
        "n_bandwidth_overcommitments": MetricInfo(
            "1", "spans in which the memory bandwidth of a processor was over-committed", _HDEEPRM, lower_is_better=True
        ),
        "bandwidth_overcommitted_s": MetricInfo(
            "s",
            "time in which that held for at least one processor (length of the union of the spans)",
            _OWN,
            lower_is_better=True,
        ),
        "bandwidth_overcommitted_processor_s": MetricInfo(
            "s", "sum of the lengths of these spans over all processors", _OWN, lower_is_better=True
        ),
    }


METRICS: Mapping[str, MetricInfo] = MappingProxyType(
    _counts() | _machine() | _distributions() | _energy() | _overutilization()
)
"""Every metric that `compute_metrics` gives, by name, in the order in which it gives them."""

ENERGY_METRICS = frozenset(_energy())
"""Those of them that only runs with energy have."""


def metrics_table() -> str:
    """Return `METRICS` as a Markdown table, the one in docs/metrics.md."""
    better = {True: "less", False: "more", None: "-"}
    lines = ["| metric | unit | formula | better | source |", "|---|---|---|---|---|"]
    lines += [
        f"| `{name}` | {info.unit} | {info.formula} | {better[info.lower_is_better]} | {info.source} |"
        for name, info in METRICS.items()
    ]
    return "\n".join(lines) + "\n"

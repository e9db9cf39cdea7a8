"""Objectives of agents: metrics that are known from running sums, and custom objectives.

An objective is a metric by the name that it has in `hdrl.metrics`, in both environments, in options and in validations.
HDeepRM's names are aliases. What an episode returns by the rewards of either environment is the metric, with a minus
where less is better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from hdrl.base.errors import UnknownName
from hdrl.envs.own_objective import OwnObjective, is_objective_file, load_objective
from hdrl.settings.batch.identical_cores import codes as pool
from hdrl.settings.batch.kernel import reward
from hdrl.settings.batch.metrics import ENERGY_METRICS, METRICS

GROWTH = "growth"
"""Growth of the objective since the last decision: the undiscounted return is the objective itself."""

INSTANTANEOUS = "hdeeprm"
"""HDeepRM's: a property of the moment of the next message to the scheduler."""

INSTANTANEOUS_0_1 = "hdeeprm-0.1.0"
"""The same by the formulas of HDeepRM 0.1.0b1, all of them positive."""

FORMS = (GROWTH, INSTANTANEOUS, INSTANTANEOUS_0_1)
"""The ways to pay for an objective, in the order of their numbers in `kernel.reward`."""


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective, and its rewards."""

    metric: str  # the metric of `hdrl.settings.batch.metrics` that it is, whose unit is that of the rewards by growth
    so_far: str  # substitute for the metric before the end, in PolicyPair
    pair_code: int  # its number in `kernel.reward`
    pool_code: int  # its number in `identical_cores.codes`; `NO_CODE` where a pool knows nothing of it
    alias: str = ""  # HDeepRM's name, empty without
    instantaneous: str = ""  # HDeepRM's reward, empty without
    instantaneous_0_1: str = ""  # that of HDeepRM 0.1.0b1, empty without

    @property
    def sign(self) -> int:
        """Sign of the metric in the return: -1 where less is better."""
        return -1 if METRICS[self.metric].lower_is_better else 1

    @property
    def needs_energy(self) -> bool:
        """True if it exists only where energy is accounted for."""
        return self.metric in ENERGY_METRICS


NO_CODE = -1
"""The number of what is not known."""

_TABLE = (
    Objective(
        "mean_slowdown",
        "slowdowns of ended jobs, (now - submission) / max(requested time, 1 s) of the others; their sum / jobs",
        reward.SLOWDOWN,
        pool.MEAN_SLOWDOWN,
        "avg_job_slowdown",
        "-sum(1 / requested time) over jobs in the system (requests for 0 s left out)",
        "mean requested time of jobs in the system, running ones once for each core",
    ),
    Objective(
        "mean_turnaround_s",
        "turnaround times of ended jobs, now - submission of the others; their sum / jobs",
        reward.COMPLETION,
        pool.MEAN_TURNAROUND,
        "avg_job_completion",
        "-(jobs in the system)",
        "jobs that have ended",
    ),
    Objective(
        "utilization",
        "core-seconds served until now / (cores * time since the first submission)",
        reward.UTILIZATION,
        pool.UTILIZATION,
        "avg_utilization",
        "busy cores (HDeepRM 0.3.1 fails here; its documentation says this)",
        "busy cores (fails there, too)",
    ),
    Objective(
        "makespan_s",
        "time since the first submission",
        reward.MAKESPAN,
        pool.MAKESPAN,
        "makespan",
        "Gflop/s of all serving cores",
        "Gflop/s of all serving cores",
    ),
    Objective(
        "energy_j",
        "energy since the first submission",
        reward.ENERGY,
        NO_CODE,
        "energy_consumption",
        "-(power of all cores in W)",
        "1 / (power of all cores in W)",
    ),
    Objective(
        "energy_delay_product_js",
        "energy * time since the first submission",
        reward.EDP,
        NO_CODE,
        "edp",
        "-(power of all cores in W) * seconds since the first submission (HDeepRM 0.3.1 gives none here; ours)",
    ),
    Objective(
        "mean_bounded_slowdown",
        "bounded slowdowns of ended jobs, (now - submission) / max(requested time, 10 s) of the others; sum / jobs",
        reward.BOUNDED_SLOWDOWN,
        pool.MEAN_BOUNDED_SLOWDOWN,
        "avg_bounded_slowdown",
        "-sum(1 / max(requested time, 10 s)) over jobs in the system (not in HDeepRM; ours)",
    ),
    Objective(
        "mean_wait_s",
        "waiting times of started jobs, now - submission of the others; their sum / jobs",
        reward.WAIT,
        pool.MEAN_WAIT,
    ),
    Objective("max_wait_s", "longest waiting time of a started job", reward.MAX_WAIT, pool.MAX_WAIT),
    Objective(
        "max_turnaround_s", "longest turnaround time of an ended job", reward.MAX_TURNAROUND, pool.MAX_TURNAROUND
    ),
    Objective("max_slowdown", "largest slowdown of an ended job", reward.MAX_SLOWDOWN, pool.MAX_SLOWDOWN),
    Objective(
        "max_bounded_slowdown",
        "largest bounded slowdown of an ended job",
        reward.MAX_BOUNDED_SLOWDOWN,
        pool.MAX_BOUNDED_SLOWDOWN,
    ),
    Objective(
        "throughput_jobs_per_h", "ended jobs / hours since the first submission", reward.THROUGHPUT, pool.THROUGHPUT
    ),
    Objective("mean_power_w", "energy / time since the first submission", reward.MEAN_POWER, NO_CODE),
)

OBJECTIVES: Mapping[str, Objective] = MappingProxyType({one.metric: one for one in _TABLE})
"""The objectives by the names of their metrics."""

ALIASES: Mapping[str, str] = MappingProxyType({one.alias: one.metric for one in _TABLE if one.alias})
"""The metrics by HDeepRM's names of objectives."""

IRMASIM_NAMES: Mapping[str, str] = MappingProxyType(
    {"slowdown": "mean_slowdown", "bounded_slowdown": "mean_bounded_slowdown", "waiting_time": "mean_wait_s"}
)
"""The metrics by IRMaSim's names of objectives, where HDeepRM has others or none."""

AnyObjective: TypeAlias = Objective | OwnObjective
GivenObjective: TypeAlias = str | Callable[[Mapping[str, float]], float]
"""A name of `OBJECTIVES` or `ALIASES`, a Python file and a function in it (``"my.py:objective"``), or a function."""


def read_objective(given: GivenObjective, known: Mapping[str, Objective] = OBJECTIVES) -> AnyObjective:
    """Return an objective in any form in which it may be given.

    Raises
    ------
    UnknownName
        If there is none of that name.
    HdrlError
        If a Python file defines none.
    """
    if callable(given):
        return OwnObjective(given, getattr(given, "__name__", type(given).__name__))
    if isinstance(given, str) and is_objective_file(given):
        return load_objective(given)
    name = {**ALIASES, **IRMASIM_NAMES}.get(str(given), str(given))
    if name not in known:
        aliases = [alias for alias, metric in ALIASES.items() if metric in known]
        raise UnknownName("objective", str(given), (*known, *aliases))
    return known[name]


def rewards_table() -> str:
    """Return `OBJECTIVES` as a Markdown table, the one in docs/environments.md."""
    lines = [
        "| objective | alias | return = | unit | the objective before the end | HDeepRM's reward | 0.1's | source |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, one in OBJECTIVES.items():
        sign, alias = "-" if one.sign < 0 else "", f"`{one.alias}`" if one.alias else ""
        info = METRICS[one.metric]
        lines.append(
            f"| `{name}` | {alias} | {sign}`{one.metric}` | {info.unit} | {one.so_far} | {one.instantaneous or 'none'} "
            f"| {one.instantaneous_0_1 or 'none'} | {info.source} |"
        )
    return "\n".join(lines) + "\n"

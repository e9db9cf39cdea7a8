"""What an agent that chooses policy pairs can be rewarded for, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hdrl.errors import UnknownName
from hdrl.kernel import reward

GROWTH = "growth"
"""What the objective has grown by since the last decision: the undiscounted return is the objective itself."""

INSTANTANEOUS = "hdeeprm"
"""HDeepRM's: a property of the moment at which the scheduler is told something next, whatever it is."""

FORMS = (GROWTH, INSTANTANEOUS)
"""The two ways to pay for an objective."""

_JSSPP_1997 = "Feitelson et al., JSSPP 1997"
_QUEUEING = "queueing theory"
_EDP = "Horowitz et al., 1994"
_HDEEPRM = "HDeepRM"


@dataclass(frozen=True, slots=True)
class Objective:
    """What an objective means and how it is paid for.

    Attributes
    ----------
    number
        Its number in `hdrl.kernel.reward`.
    metric
        The metric of `hdrl.metrics` that it is.
    unit
        The unit of the metric and of the rewards by growth.
    sign
        Sign of the metric in the return: -1 where less is better.
    so_far
        What stands for the metric before the end.
    instantaneous
        HDeepRM's reward.
    source
        Where the metric comes from.
    needs_energy
        Whether it exists only where energy is accounted for.
    """

    number: int
    metric: str
    unit: str
    sign: int
    so_far: str
    instantaneous: str
    source: str
    needs_energy: bool = False


OBJECTIVES: Mapping[str, Objective] = MappingProxyType(
    {
        "avg_job_slowdown": Objective(
            reward.SLOWDOWN,
            "mean_slowdown",
            "1",
            -1,
            "slowdowns of ended jobs, (now - submission) / max(requested time, 1 s) of the others; their sum / jobs",
            "-sum(1 / requested time) over jobs in the system (requests for 0 s left out)",
            _QUEUEING,
        ),
        "avg_job_completion": Objective(
            reward.COMPLETION,
            "mean_turnaround_s",
            "s",
            -1,
            "turnaround times of ended jobs, now - submission of the others; their sum / jobs",
            "-(jobs in the system)",
            _QUEUEING,
        ),
        "avg_utilization": Objective(
            reward.UTILIZATION,
            "utilization",
            "1",
            1,
            "core-seconds served until now / (cores * time since the first submission)",
            "busy cores (HDeepRM 0.3.1 fails here; its documentation says this)",
            _QUEUEING,
        ),
        "makespan": Objective(
            reward.MAKESPAN,
            "makespan_s",
            "s",
            -1,
            "time since the first submission",
            "Gflop/s of all serving cores",
            _QUEUEING,
        ),
        "energy_consumption": Objective(
            reward.ENERGY,
            "energy_j",
            "J",
            -1,
            "energy since the first submission",
            "-(power of all cores in W)",
            _HDEEPRM,
            needs_energy=True,
        ),
        "edp": Objective(
            reward.EDP,
            "energy_delay_product_js",
            "J s",
            -1,
            "energy * time since the first submission",
            "-(power of all cores in W) * seconds since the first submission (HDeepRM 0.3.1 gives none here; ours)",
            _EDP,
            needs_energy=True,
        ),
        "avg_bounded_slowdown": Objective(
            reward.BOUNDED_SLOWDOWN,
            "mean_bounded_slowdown",
            "1",
            -1,
            "bounded slowdowns of ended jobs, (now - submission) / max(requested time, 10 s) of the others; sum / jobs",
            "-sum(1 / max(requested time, 10 s)) over jobs in the system (not in HDeepRM; ours)",
            _JSSPP_1997,
        ),
    }
)
"""The objectives by their names in options, in the order of their numbers."""


def read_objective(name: str) -> Objective:
    """Return an objective by its name.

    Parameters
    ----------
    name
        One of `OBJECTIVES`.

    Raises
    ------
    UnknownName
        If there is none of that name.
    """
    if name not in OBJECTIVES:
        raise UnknownName("objective", name, OBJECTIVES)
    return OBJECTIVES[name]


def rewards_table() -> str:
    """Return `OBJECTIVES` as a Markdown table, the one in docs/environments.md."""
    lines = [
        "| objective | return = | unit | the objective before the end | HDeepRM's reward | source |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in OBJECTIVES.items():
        sign = "-" if one.sign < 0 else ""
        lines.append(
            f"| `{name}` | {sign}`{one.metric}` | {one.unit} | {one.so_far} | {one.instantaneous} | {one.source} |"
        )
    return "\n".join(lines) + "\n"

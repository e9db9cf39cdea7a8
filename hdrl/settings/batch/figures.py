"""Run folders of batch jobs: what can be drawn of them, and what reports must know."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hdrl.figures.figure import SUMMARY, Figure, OnPage, Run
from hdrl.figures.folders import OPTIONS_FILE, PROVENANCE_FILE, get_nested, read_object
from hdrl.figures.logs import PROBABILITIES_FILE
from hdrl.settings.batch.report import over_time
from hdrl.settings.batch.report.data import JOB_VALUES, power, queue_size
from hdrl.settings.batch.report.distributions import groups, medians, slowdown_cdf
from hdrl.settings.batch.report.gantt import gantt, gantt_no_label, lifecycle, schedule_of
from hdrl.settings.batch.report.groups import GROUPINGS
from hdrl.settings.batch.report.over_time import MAKESPANS, action_preferences, makespans
from hdrl.settings.batch.report.runs import RunData, read_run
from hdrl.settings.batch.report.shortages import core_bubbles, mem_bubbles, mem_bw_overutilization
from hdrl.settings.batch.report.side_by_side import run_metrics
from hdrl.settings.batch.simulators import floor_of
from hdrl.settings.batch.site_rules.metrics import own_infos
from hdrl.settings.batch.workload.statistics import offered_load_of_jobs

LOAD_LIMIT = 1.0
"""Offered load from which on a queue grows as long as jobs arrive."""

TIME, DISTRIBUTIONS, LEARNING = "Over time", "Distributions", "Learning"
ENERGY_FILE, SHORTAGES_FILE = "out_consumed_energy.csv", "overutilizations.json"

_BY = ("job", *GROUPINGS)
_FIGURES = (
    Figure(
        "gantt",
        "cores of each job over time, with ids where there is space",
        gantt,
        max_runs=6,
        choices={"by": _BY, "workload": ()},
    ),
    Figure("gantt_no_label", "the same without ids", gantt_no_label, max_runs=6, choices={"by": _BY, "workload": ()}),
    Figure(
        "utilization",
        "share of the cores in use over time",
        over_time.utilization,
        on_page=(OnPage(TIME, "Utilisation", over_time.means(over_time.percent, "Cores in use (%)")),),
    ),
    Figure(
        "queue_size",
        "waiting jobs over time",
        over_time.queue_size,
        on_page=(OnPage(TIME, "Queue", over_time.means(queue_size, "Waiting jobs")),),
    ),
    Figure(
        "power",
        "power of all hosts over time",
        over_time.power,
        needs=(ENERGY_FILE,),
        on_page=(OnPage(TIME, "Power", over_time.means(power, "Power of all hosts (W)")),),
    ),
    Figure("lifecycle", "waiting time and run time of each job", lifecycle, max_runs=6),
    Figure(
        "core_bubbles", "dates at which the chosen job found too few free cores", core_bubbles, needs=(SHORTAGES_FILE,)
    ),
    Figure(
        "mem_bubbles", "dates at which the chosen job found too little memory", mem_bubbles, needs=(SHORTAGES_FILE,)
    ),
    Figure(
        "mem_bw_overutilization",
        "spans of over-committed memory bandwidth, by processor",
        mem_bw_overutilization,
        max_runs=6,
        needs=(SHORTAGES_FILE,),
    ),
    Figure(
        "slowdown_cdf",
        "cumulative distribution of the bounded slowdown",
        slowdown_cdf,
        choices={"of": tuple(JOB_VALUES)},
        on_page=(
            OnPage(DISTRIBUTIONS, "Bounded slowdown of the jobs", medians("bounded_slowdown")),
            OnPage(DISTRIBUTIONS, "Waiting time of the jobs", medians("wait_s"), {"of": "wait_s"}),
        ),
    ),
    Figure(
        "groups",
        "bounded slowdown by size, user, ...",
        groups,
        max_runs=6,
        choices={"by": GROUPINGS, "of": tuple(JOB_VALUES), "workload": ()},
        on_page=tuple(
            OnPage(
                SUMMARY,
                f"Waiting time by {by} (boxes: half of the jobs; whiskers: 5 % and 95 %; crosses: means)",
                None,
                choices,
            )
            for by in ("size", "user")
            for choices in [{"by": by, "of": "wait_s"}]
        ),
    ),
    Figure(
        "makespans",
        "makespan of each episode of a training",
        makespans,
        "trainings",
        needs=MAKESPANS.files,
        on_page=(OnPage(LEARNING, "Makespan of the episodes"),),
    ),
    Figure(
        "action_preferences",
        "probability of each action during a training",
        action_preferences,
        "trainings",
        1,
        needs=("training.csv", PROBABILITIES_FILE),
    ),
)


def read(folder: Path, name: str | None = None) -> Run:
    """Read a run folder for pictures and reports."""
    data = read_run(folder, name)
    where = data.folder or folder
    options, provenance = read_object(where / OPTIONS_FILE), read_object(where / PROVENANCE_FILE)
    load = offered_load_of_jobs(data.submit_s, data.end_s - data.start_s, data.cores, data.n_cores)
    metrics = run_metrics(data)
    facts: dict[str, float] = {"cores": data.n_cores, "jobs": data.n_jobs + data.n_hidden}
    if load:
        facts["offered load"] = load
    return Run(
        name=data.name,
        folder=where,
        policy=data.policy,
        workload=data.workload,
        platform=data.platform,
        metrics=metrics,
        own_infos=own_infos(metrics),
        n_items=data.n_jobs + data.n_hidden,
        options=options,
        provenance=provenance,
        data=data,
        facts=facts,
        conditions=_conditions(data, options, provenance),
        cautions=_cautions(options, load),
        schedule=functools.partial(schedule_of, data),
    )


def _conditions(data: RunData, options: Mapping[str, Any], provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conditions that runs must share, apart from the policy and the seed."""
    return {
        "platforms": get_nested(provenance, "platform", "sha256") or data.n_cores,
        "workloads": _workload(data, provenance),
        "simulators": options.get("simulator"),
        "compatibility modes": options.get("compatibility"),
        "models of contention": options.get("contention"),
    }


def _workload(data: RunData, provenance: Mapping[str, Any]) -> Any:
    """Return an identity of the workload that ignores the seed of its draws."""
    sha256 = get_nested(provenance, "workload", "sha256")
    if not sha256:  # a folder of another program: what its jobs tell
        return sorted(zip(data.job_id.tolist(), data.submit_s.tolist(), data.cores.tolist(), strict=True))
    origin = get_nested(provenance, "workload", "origin")
    if not isinstance(origin, dict) or "seed" not in origin:
        return sha256
    return [
        get_nested(provenance, "workload", "n_jobs"),
        {key: value for key, value in origin.items() if key != "seed"},
    ]


def _cautions(options: Mapping[str, Any], load: float | None) -> dict[str, str]:
    cautions = {}
    if load is not None and load >= LOAD_LIMIT:
        cautions["load"] = (
            "the offered load is 1 or more: jobs ask for more than the machine has, the queue grows as long as they "
            "arrive, and means depend on how many jobs there are."
        )
    if get_nested(options, "workload", "estimates") == "exact":
        cautions["estimates"] = "requested times are the true run times, which no real scheduler has."
    floor = floor_of(options.get("simulator"))
    if floor:
        cautions["floor"] = floor
    return cautions


FIGURES: Mapping[str, Figure] = MappingProxyType({figure.name: figure for figure in _FIGURES})
"""Figures of batch jobs, by name."""

"""Metrics of a run at a site beyond those of all runs: waits of groups, fair share, missed dates, lost work."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.csvfiles import atomic_table
from hdrl.base.errors import ReadError
from hdrl.base.files import read_json, write_json
from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.formulas import bounded_slowdown, ratio, summary
from hdrl.metrics.tasks import OWN, is_finished
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.site_rules.model import SITE_RECORD_DTYPE, UNLIMITED, SiteRules

JOBS_FILE, METRICS_FILE = "site_jobs.csv", "site_metrics.json"

JOB_COLUMNS = ("job_id", "user", "account", "qos", *(SITE_RECORD_DTYPE.names or ()), "start_s", "end_s")
"""Columns of ``site_jobs.csv``: names of partition, account and QOS; an empty cell where there is none."""

LENGTH_CLASSES = (("requests up to 1 h", 3600.0), ("up to 1 day", 86400.0), ("longer", math.inf))
SIZE_CLASSES = ("1 node or less", "up to a tenth of the machine", "more")

WAITS = ("mean_wait_s", "median_wait_s", "p95_wait_s", "max_wait_s", "mean_bounded_slowdown")
"""Numbers of each group; waits count from eligibility, those after restarts included."""

N_DATES = 100
"""At how many dates of a run used shares are compared with entitled ones."""

_OF_GROUPS = ("mean_wait_s ", "p95_wait_s ")
"""Prefixes of the numbers of groups."""

_CORE_HOUR_S = 3600.0


def _less(unit: str, formula: str) -> MetricInfo:
    return MetricInfo(unit, formula, OWN, lower_is_better=True, is_of_whole_run=True)


NUMBERS = {
    "fair_share_distance": _less(
        "1",
        "half of the sum over accounts with jobs of |share of the decayed usage - entitled share|, mean over 100 "
        "dates: 0 if all have what they are entitled to, 1 if none has",
    ),
    "n_missed_plans": _less("1", "jobs that started later than the first plan with them had said"),
    "mean_plan_delay_s": _less("s", "start - first planned start, mean over jobs that were planned, 0 if earlier"),
    "n_missed_reservations": _less("1", "reservations on whose nodes jobs ran when they began"),
    "n_requeued": _less("1", "times that a job began anew as its node failed"),
    "lost_to_failures_core_h": _less("core h", "work that was lost so"),
    "n_preempted": _less("1", "times that a job was requeued, cancelled or suspended for another one"),
    "lost_to_preemption_core_h": _less("core h", "work that was lost so"),
    "suspended_core_h": _less("core h", "core hours for which jobs were suspended"),
}
"""Numbers of a whole run."""


def length_and_size_classes(jobs: NDArray[np.void], n_cores: int, cores_per_node: int) -> dict[str, NDArray[np.bool_]]:
    """Return the mask of the jobs in each class of requested time and of size.

    Parameters
    ----------
    n_cores, cores_per_node
        The machine that sizes refer to.
    """
    length = np.searchsorted([limit for _, limit in LENGTH_CLASSES[:-1]], jobs["requested_time_s"], side="left")
    size = np.searchsorted([cores_per_node, max(n_cores / 10, cores_per_node)], jobs["cores"], side="left")
    by_length = {name: length == position for position, (name, _) in enumerate(LENGTH_CLASSES)}
    return by_length | {name: size == position for position, name in enumerate(SIZE_CLASSES)}


def _requests_of(trace: BatchTrace, name: str) -> NDArray[np.int32]:
    """Return the user, account or QOS of each job, `UNLIMITED` where there is none."""
    site_requests = trace.workload.site
    return np.full(trace.workload.n_jobs, UNLIMITED, np.int32) if site_requests is None else site_requests.jobs[name]


def _groups(
    trace: BatchTrace, rules: SiteRules, site: NDArray[np.void]
) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Give each group of jobs: what groups them, its name, and which jobs are in it."""
    for by in ("partition", "account", "qos"):
        numbers = site["partition"] if by == "partition" else _requests_of(trace, by)
        for number, name in enumerate(getattr(rules, f"{by}_names")):
            yield by, name, numbers == number
    classes = length_and_size_classes(trace.workload.jobs, trace.platform.n_cores, int(rules.nodes["cores"].max()))
    for name, chosen in classes.items():
        yield "size" if name in SIZE_CLASSES else "length", name, chosen


def group_waits(trace: BatchTrace, rules: SiteRules, site: NDArray[np.void]) -> list[dict[str, Any]]:
    """Return ``by``, ``group``, ``n_jobs`` and the numbers of `WAITS` of each group that has finished jobs."""
    finished = is_finished(trace.records["state"])
    rows = []
    for by, group, chosen in _groups(trace, rules, site):
        kept = chosen & finished
        if not kept.any():
            continue
        waited_s, run_s = site["waited_s"][kept], trace.records["run_s"][kept]
        found = summary(waited_s)
        slowdown = float(np.mean(bounded_slowdown(waited_s, run_s)))
        numbers = (*(found[name] for name in ("mean", "median", "p95", "max")), slowdown)
        rows.append({"by": by, "group": group, "n_jobs": int(np.sum(kept)), **dict(zip(WAITS, numbers, strict=True))})
    return rows


def site_numbers(trace: BatchTrace, rules: SiteRules, site: NDArray[np.void]) -> dict[str, float]:
    """Return the numbers of `NUMBERS`; NaN where one does not exist."""
    records = trace.records
    is_planned = (site["planned_s"] >= 0) & (records["start_s"] >= 0) & (site["n_restarts"] == 0)
    delay_s = np.maximum(records["start_s"] - site["planned_s"], 0.0)[is_planned]
    found = {
        "fair_share_distance": fair_share_distance(trace, rules, site),
        "n_missed_plans": float(np.count_nonzero(delay_s > 1e-6)),
        "mean_plan_delay_s": ratio(float(np.sum(delay_s)), float(len(delay_s))),
        "lost_to_failures_core_h": trace.info["lost_core_s"] / _CORE_HOUR_S,
        "lost_to_preemption_core_h": trace.info["preempted_core_s"] / _CORE_HOUR_S,
        "suspended_core_h": float(np.sum(records["n_cores"] * site["suspended_s"])) / _CORE_HOUR_S,
        **{name: float(trace.info[name]) for name in ("n_missed_reservations", "n_requeued", "n_preempted")},
    }
    return {name: found[name] for name in NUMBERS}


def _entitled(rules: SiteRules) -> NDArray[np.float64]:
    """Return the share of the machine that each account is entitled to."""
    accounts = rules.accounts
    share = np.zeros(len(accounts))
    for account in range(len(accounts)):
        share[account], one = 1.0, account
        while one >= 0:
            siblings = accounts["shares"][accounts["parent"] == accounts["parent"][one]].sum()
            share[account] *= accounts["shares"][one] / siblings if siblings > 0 else 0.0
            one = int(accounts["parent"][one])
    return share


def fair_share_distance(trace: BatchTrace, rules: SiteRules, site: NDArray[np.void]) -> float:
    """Return the distance of the accounts' usage from their shares, NaN without accounts that ran jobs.

    Usage decays with the half-life of the site, as in `kernel.fairshare`.
    """
    records = trace.records
    ran = records["run_s"] > 0
    account = _requests_of(trace, "account")[ran]
    known = np.unique(account[account >= 0])
    entitled = _entitled(rules)[known] if len(known) else np.zeros(0)
    if entitled.sum() <= 0:
        return math.nan
    start_s, run_s = records["start_s"][ran], records["run_s"][ran]
    cores = records["n_cores"][ran] * (1.0 - site["suspended_s"][ran] / run_s)
    rate = math.log(2.0) / rules.weights.half_life_s if rules.weights.half_life_s > 0 else 0.0
    dates_s = np.linspace(start_s.min(), (start_s + run_s).max(), N_DATES + 1)
    usage, distances = np.zeros(len(rules.accounts)), []
    for begin_s, end_s in itertools.pairwise(dates_s.tolist()):
        usage *= elementary.exp(np.array([-rate * (end_s - begin_s)]))[0]
        here = np.flatnonzero((start_s < end_s) & (start_s + run_s > begin_s) & (account >= 0))
        first_s, last_s = np.maximum(start_s[here], begin_s), np.minimum(start_s[here] + run_s[here], end_s)
        used_s = last_s - first_s
        if rate > 0:
            used_s = (elementary.exp(-rate * (end_s - last_s)) - elementary.exp(-rate * (end_s - first_s))) / rate
        np.add.at(usage, account[here], cores[here] * used_s)
        if usage[known].sum() > 0:
            used = usage[known] / usage[known].sum()
            distances.append(float(np.sum(np.abs(used - entitled / entitled.sum()))) / 2)
    return float(np.mean(distances)) if distances else math.nan  # all use has decayed between the dates


def write_site_files(trace: BatchTrace, folder: Path) -> None:
    """Write ``site_jobs.csv`` and ``site_metrics.json`` of a run of simulator `site` under the rules of a site.

    Raises
    ------
    OutputError
        If one cannot be written.
    """
    rules, site, records = trace.platform.site, trace.site, trace.records
    if site is None or rules is None:
        return
    numbers = {name: None if math.isnan(value) else value for name, value in site_numbers(trace, rules, site).items()}
    write_json(folder / METRICS_FILE, {"numbers": numbers, "waits": group_waits(trace, rules, site)})
    end_s = np.where(records["run_s"] >= 0, records["start_s"] + records["run_s"], -1.0)
    columns = [
        trace.workload.job_ids,
        _requests_of(trace, "user").tolist(),
        *(
            [_name(getattr(rules, f"{by}_names"), number) for number in _requests_of(trace, by)]
            for by in ("account", "qos")
        ),
        [_name(rules.partition_names, number) for number in site["partition"]],
        *(site[name].tolist() for name in (SITE_RECORD_DTYPE.names or ())[1:]),
        records["start_s"].tolist(),
        end_s.tolist(),
    ]
    with atomic_table(folder / JOBS_FILE, JOB_COLUMNS) as write_row:
        for row in zip(*columns, strict=True):
            write_row("" if not isinstance(cell, str) and cell < 0 else cell for cell in row)


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if number >= 0 else ""


def read_site_metrics(folder: Path) -> dict[str, float]:
    """Return the numbers of a run at a site and the mean and p95 waits of its groups by name; empty for other runs.

    Raises
    ------
    ReadError
        If the file is damaged.
    """
    path = folder / METRICS_FILE
    if not path.is_file():
        return {}
    try:
        data = read_json(path)
        found = {name: math.nan if (value := data["numbers"][name]) is None else float(value) for name in NUMBERS}
        for row in data["waits"]:
            for name in _OF_GROUPS:
                found[f"{name}{row['by']}={row['group']}"] = float(row[name.strip()])
    except (KeyError, TypeError, ValueError):
        raise ReadError(
            path, "is damaged, expected the numbers and waits that a run of simulator 'site' leaves"
        ) from None
    return found


def own_infos(names: Iterable[str]) -> dict[str, MetricInfo]:
    """Return the definitions of those of some numbers that `read_site_metrics` returns."""
    wait = _less("s", "wait from eligibility, those after restarts included")
    known = (name for name in names if name in NUMBERS or name.startswith(_OF_GROUPS))
    return {name: NUMBERS.get(name, wait) for name in known}

"""Start times of a site's waiting jobs: its queue as accounting has it, with intervals that its own log sets."""

from __future__ import annotations

import contextlib
import json
import math
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.base.errors import OptionsError, OutputError, ReadError, WorkloadError
from hdrl.base.files import atomic_write_bytes
from hdrl.base.hashing import sha256_of, sha256_of_file
from hdrl.batch import Platform, SwfLog, fits, read_swf, unknown_rows, workload_from_swf
from hdrl.settings.batch.site_rules.conf import SiteConf
from hdrl.settings.batch.waits import (
    LEAST_PAIRS,
    LEVEL,
    MOST_JOBS,
    N_DATES,
    NO_REQUESTS,
    REQUESTS,
    Intervals,
    Requests,
    Rows,
    adapted,
    known_jobs,
    past_waits,
    predicted_run_s,
    queue_of,
    request_columns,
    requests_in,
    waits_of,
)
from hdrl.settings.batch.workload.swf_jobs import with_whole_het_jobs
from hdrl.site.folder import COLUMNS, LOG, NAMES, PLATFORM, WAITS, conf_of, zone_of
from hdrl.site.joining import JoinedJobs, every_job, join_components
from hdrl.site.log import FIELDS, UNLIMITED_S, limits_of, longest_times
from hdrl.site.log_requests import requests_of_log
from hdrl.site.machine import keeps_rules, machine_of, n_cores
from hdrl.site.readers import Choices, read_dump
from hdrl.site.records import AttemptState, Dump
from hdrl.site.values import Clock, find_zone
from hdrl.version import VERSION

POLICY = "fcfs+easy"

_MOST_BYTES = 2**29

NOT_ELIGIBLE = "not eligible: held, or waits for another job"
TOO_WIDE = "more cores than the machine has"
NOT_IN_PARTITION = "more cores, nodes, memory or GPUs than their partition has"
UNKNOWN_PARTITIONS = "jobs are in partitions that the site lacks, and count for its default one"
TOO_LONG = "longer than their partition allows"
NO_CORES = "no number of cores"
OVER_LIMIT = "more than a limit of their QOS, partition, account or user allows"


@dataclass(frozen=True, slots=True)
class WaitChoices:
    """Choices for the prediction of waits.

    Attributes
    ----------
    policy
        The policy that stands for the site's own.
    predictor
        Predictor of run times.
    form, zone
        Format of the dump, and time zone of its dates, as for an import; ``None``: that of the import.
    site_rules
        True if the rules of the site count, if its machine has some.
    """

    policy: str = POLICY
    predictor: str = "geo"
    form: str = "auto"
    zone: str | None = None
    site_rules: bool = True


@dataclass(frozen=True, slots=True)
class _Past:
    """History in the log of a site before a date."""

    known: Rows  # the last jobs that had started
    # between which dates of the log these are the jobs that had started
    since_s: float
    until_s: float
    first_s: float  # date 0 of the log in seconds since 1970
    titles: dict[str, str]  # header of the log, which names partitions and queues
    # see `adapted`
    intervals: Intervals
    coverage: float
    # numbers of the waits and of their dates
    n_past: int
    n_dates: int


def predict_waits(
    folder: str | Path,
    dump: str | Path,
    choices: WaitChoices | None = None,
    *,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Predict when each job that waits in a dump will start.

    Parameters
    ----------
    dump
        Accounting data with the jobs that run and wait now; the latest date in it is now.
    progress
        Called with what is done next, if it takes a while.

    Returns
    -------
    dict[str, Any]
        The answer, as JSON.

    Raises
    ------
    OptionsError
        If the log tells of too few waits.
    HdrlError
        If the site or the dump cannot be read, or there is no such policy or predictor.
    """
    folder = Path(folder)
    dump = Path(dump)
    choices = choices or WaitChoices()
    conf = conf_of(folder)
    has_rules = choices.site_rules and keeps_rules(folder / PLATFORM)
    platform = machine_of(conf, conf.name or "site", has_rules=has_rules)
    zone = zone_of(folder) if choices.zone is None else choices.zone
    found = read_dump(dump, Choices(Clock(find_zone(zone))), choices.form)
    date_s = _now(found, dump)
    past = _past(folder, dump.name, date_s, platform, choices, progress)
    first_s, now_s = past.first_s, date_s - past.first_s
    jobs, left_out = _waiting_and_running(found, conf, has_rules=has_rules)
    rows, titles = _rows_of(jobs, found, conf, folder / NAMES, now_s, first_s, past.titles)
    requests, notes = _requests_of(jobs, rows, found, conf) if has_rules else (NO_REQUESTS, [])
    if len(rows):
        jobs, rows = _runnable_jobs(jobs, rows, platform, titles, left_out, requests)
    run_s = predicted_run_s(past.known, rows, choices.predictor)[1]
    is_running = jobs["state"] == AttemptState.RUNNING
    waiting = np.flatnonzero(~is_running)
    # As in a queue: in the order of submission.
    waiting = waiting[np.argsort(rows["submit_s"][waiting], kind="stable")]
    queue = queue_of(rows[is_running], rows[waiting], now_s, run_s[is_running], run_s[waiting])
    wait_s = waits_of(queue, platform, choices.policy, titles, requests) if len(waiting) else np.zeros(0)
    starts = np.isfinite(wait_s)
    if not np.all(starts):
        left_out[OVER_LIMIT] = int(np.count_nonzero(~starts))
        waiting, wait_s = waiting[starts], wait_s[starts]
    low_s, high_s = past.intervals.bounds_of(wait_s)
    # Where past predictions were all too early or too late, the interval corrects this one.
    wait_s = np.clip(wait_s, low_s, high_s)
    partitions = found.names["partition"].texts()
    answers = [
        {
            "id": _id(jobs[position]),
            "partition": partitions[jobs["partition"][position]] if jobs["partition"][position] >= 0 else None,
            "cores": int(jobs["cores"][position]),
            "wait_s": round(float(wait), 1),
            "low_s": round(float(low), 1),
            "high_s": round(float(high), 1),
            "start": _date(first_s + now_s + wait),
            "earliest": _date(first_s + now_s + low),
            "latest": _date(first_s + now_s + high),
        }
        for position, wait, low, high in zip(waiting.tolist(), wait_s, low_s, high_s, strict=True)
    ]
    return {
        "site": conf.name or folder.resolve().name,
        "now": _date(first_s + now_s),
        "policy": choices.policy,
        "predictor": choices.predictor,
        "level": LEVEL,
        "coverage": None if math.isnan(past.coverage) else round(past.coverage, 4),
        "past_waits": past.n_past,
        "past_dates": past.n_dates,
        "running": int(np.count_nonzero(is_running)),
        "left_out": dict(left_out),
        "notes": notes,
        "jobs": answers,
    }


def _runnable_jobs(
    jobs: Rows,
    rows: Rows,
    platform: Platform,
    header: Mapping[str, str],
    left_out: Counter[str],
    requests: Requests,
) -> tuple[Rows, Rows]:
    """Return the jobs that their partitions can run at all, and count the others."""
    log = SwfLog("queue", rows, dict(header), columns=request_columns(rows, requests))
    workload = workload_from_swf(log, platform, bandwidth="none")
    can_run = np.zeros(len(rows), dtype=bool)
    can_run[np.argsort(rows["submit_s"], kind="stable")] = fits(workload, platform)
    if not np.all(can_run):
        left_out[NOT_IN_PARTITION] = int(np.count_nonzero(~can_run))
    return jobs[can_run], rows[can_run]


def _past(
    folder: Path,
    requests: str,
    now_s: float,
    platform: Platform,
    choices: WaitChoices,
    progress: Callable[[str], None] | None,
) -> _Past:
    """Return the history in the log of a site before a date, from a file if that has been found out before.

    Parameters
    ----------
    now_s
        The date in seconds since 1970.

    Raises
    ------
    ReadError
        If there is no log.
    OptionsError
        If too few of its jobs waited.
    """
    facts = [VERSION, choices.policy, choices.predictor, platform.sha256(), N_DATES, MOST_JOBS, *REQUESTS]
    if not (folder / LOG).is_file():
        raise ReadError(folder / LOG, "no such file, expected the log that an import wrote")
    columns = [sha256_of_file(folder / COLUMNS)] if (folder / COLUMNS).is_file() else []
    key = sha256_of((), [*facts, sha256_of_file(folder / LOG), *columns])
    stored = _stored(folder / WAITS, key)
    if stored is not None and stored.since_s <= now_s - stored.first_s < stored.until_s:
        return stored
    log = read_swf(folder / LOG)
    asked = NO_REQUESTS if platform.site is None else requests_in(log.columns)
    log = with_whole_het_jobs(log) if platform.site is None else log
    titles: dict[str, str] = {name: log.header[name] for name in ("Partition", "Queue") if name in log.header}
    known = known_jobs(log.rows)
    start_s = known["submit_s"] + known["wait_s"]
    has_started = start_s <= now_s - log.first_date_s
    since_s = float(np.max(start_s[has_started], initial=-np.inf))
    until_s = float(np.min(start_s[~has_started], initial=np.inf))
    known = known[has_started][-MOST_JOBS:]
    if progress is not None:
        progress(f"simulating queues at up to {N_DATES:,} dates of the log (once for a log)")
    run_s, _ = predicted_run_s(known, known[:0], choices.predictor)
    waits = past_waits(known, run_s, platform, choices.policy, header=titles, requests=asked)
    if len(waits.true_s) < LEAST_PAIRS:
        raise OptionsError(
            f"{folder / LOG}: waits of {len(waits.true_s):,} jobs before the date of {requests} are known, expected at "
            f"least {LEAST_PAIRS}: intervals come from them"
        )
    next_ones = adapted(waits)
    intervals, counts = next_ones.intervals, (len(waits.true_s), waits.n_dates)
    past = _Past(known, since_s, until_s, log.first_date_s, titles, intervals, next_ones.coverage, *counts)
    numbers = (since_s, until_s, past.first_s, past.coverage, *counts)
    with contextlib.suppress(OutputError), atomic_write_bytes(folder / WAITS) as file:  # a folder of others
        np.savez(
            file,
            key=np.array(key),
            known=known,
            titles=np.array(json.dumps(titles)),
            numbers=np.array(numbers),
            intervals=np.stack([np.append(intervals.edges_s, np.inf), intervals.low, intervals.high]),
        )
    return past


def _stored(path: Path, key: str) -> _Past | None:
    """Return the contents of a file, ``None`` if it is of something else, or damaged, or not there."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as packed:
            n_bytes = sum(one.file_size for one in packed.infolist())
        if n_bytes > _MOST_BYTES:
            return None
        with path.open("rb") as file, np.load(file) as found:
            if str(found["key"]) != key:
                return None
            since_s, until_s, first_s, coverage, n_past, n_dates = found["numbers"].tolist()
            edges_s, low, high = found["intervals"]
            intervals, titles = Intervals(edges_s[:-1], low, high), json.loads(str(found["titles"]))
            return _Past(
                found["known"], since_s, until_s, first_s, titles, intervals, coverage, int(n_past), int(n_dates)
            )
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _now(dump: Dump, path: Path) -> float:
    dates = [dump.records[name] for name in ("submit_s", "start_s", "end_s")]
    # Of a job that runs, accounting says for how long.
    dates.append(dump.records["start_s"] + dump.records["run_s"])
    known = np.concatenate(dates)
    known = known[np.isfinite(known)]
    if len(known) == 0:
        raise ReadError(path, "holds no date, expected the dates at which jobs were submitted and started")
    return float(np.max(known))


def _waiting_and_running(dump: Dump, conf: SiteConf, *, has_rules: bool) -> tuple[Rows, Counter[str]]:
    """Return the jobs that wait or run, also the tasks of arrays; where rules obey het jobs, also their components."""
    records = dump.records
    held: set[tuple[int, int]] = set()
    is_pending = records["state"] == AttemptState.PENDING
    if np.any(np.isfinite(records["eligible_s"])):
        part = records[is_pending & ~np.isfinite(records["eligible_s"])]
        held = set(zip(part["job"].tolist(), part["task"].tolist(), strict=True))
    every = every_job(dump)
    if not has_rules:
        join_components(every)
    jobs = every.records
    jobs = jobs[np.isin(jobs["state"], (AttemptState.PENDING, AttemptState.RUNNING))]
    is_pending = jobs["state"] == AttemptState.PENDING
    ids = zip(jobs["job"].tolist(), jobs["task"].tolist(), strict=True)
    reasons = {
        NOT_ELIGIBLE: is_pending & np.fromiter((one in held for one in ids), bool, len(jobs)),
        NO_CORES: jobs["cores"] < 1,
        TOO_WIDE: jobs["cores"] > n_cores(conf),
        TOO_LONG: has_rules
        & is_pending
        & np.isfinite(jobs["limit_s"])
        & (jobs["limit_s"] > longest_times(jobs, dump, conf)),
    }
    left_out: Counter[str] = Counter()
    kept = np.ones(len(jobs), dtype=bool)
    for reason, applies in reasons.items():
        n_jobs = int(np.sum(jobs["n_tasks"][kept & applies]))
        if n_jobs:
            left_out[reason] = n_jobs
        kept &= ~applies
    jobs = jobs[kept]
    n_tasks = np.where(jobs["state"] == AttemptState.PENDING, jobs["n_tasks"], 1)
    if np.sum(n_tasks) > MOST_JOBS:
        raise WorkloadError(f"{int(np.sum(n_tasks)):,} jobs wait and run, expected at most {MOST_JOBS:,}")
    return np.repeat(jobs, n_tasks), left_out


def _requests_of(jobs: Rows, rows: Rows, dump: Dump, conf: SiteConf) -> tuple[Requests, list[str]]:
    """Return the requests of jobs beyond cores and time, and what is to be said of them."""
    joined = JoinedJobs(jobs, np.ones(len(jobs), dtype=np.int64), len(jobs))
    accounts, users = dump.names["account"].texts(), dump.names["user"].texts()
    found = requests_of_log(dump, joined, conf, rows["job_number"], 0.0, accounts, users, by_dependencies=False)
    requests = {float(cells["job"]): {name: cells[name] for name in REQUESTS if name in cells} for cells in found.rows}
    notes = [f"{count:,} {reason}" for reason, count in found.left_out.items()]
    texts = dump.names["partition"].texts()
    n_unknown = 0
    for number, partition in zip(rows["job_number"].tolist(), jobs["partition"].tolist(), strict=True):
        if partition < 0 or texts[partition] in conf.partitions:
            continue
        known = [one for one in texts[partition].split(",") if one in conf.partitions]  # a waiting job may name several
        if known:
            requests[number] = {**requests.get(number, {}), "partitions": ",".join(known)}
        else:
            n_unknown += 1
    return requests, [*notes, *([f"{n_unknown:,} {UNKNOWN_PARTITIONS}"] if n_unknown else [])]


def _rows_of(
    jobs: Rows, dump: Dump, conf: SiteConf, names: Path, now_s: float, first_s: float, header: Mapping[str, str]
) -> tuple[Rows, dict[str, str]]:
    """Return jobs as rows of the log of the site, whose names keep their numbers, and its header with new names."""
    try:
        known = json.loads(names.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        known = None
    if not isinstance(known, dict) or not all(
        isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in known.values()
    ):
        raise ReadError(names, "cannot be read, expected the names that an import wrote")
    titles = dict(header)
    rows = unknown_rows(len(jobs))
    rows["job_number"] = np.arange(1, len(jobs) + 1)
    rows["submit_s"] = np.where(np.isfinite(jobs["eligible_s"]), jobs["eligible_s"] - first_s, now_s)
    is_running = jobs["state"] == AttemptState.RUNNING
    rows["wait_s"] = np.where(is_running, jobs["start_s"] - first_s - rows["submit_s"], -1)
    rows["processors"] = rows["requested_processors"] = jobs["cores"]
    limit_s = limits_of(jobs, dump, conf)
    rows["requested_s"] = np.minimum(np.where(limit_s > 0, limit_s, UNLIMITED_S), UNLIMITED_S)
    if conf.counts_memory:
        rows["requested_memory_kb"] = np.where(jobs["memory_kb"] > 0, jobs["memory_kb"], -1)
    # How long it will run is not known, and no prediction looks at it.
    rows["run_s"] = 1
    for column, field in FIELDS.items():
        number_of = {text: number for number, text in enumerate(known.get(field, ()))}
        texts = dump.names[column].texts()
        numbers = [*(number_of.get(text, len(number_of) + position) for position, text in enumerate(texts)), -1]
        rows[field] = np.array(numbers)[jobs[column]]
        if field in ("queue", "partition"):
            new = [f"{number} {text}" for text, number in zip(texts, numbers, strict=False) if text not in number_of]
            titles[field.title()] = "\n".join(filter(None, [titles.get(field.title(), ""), *new]))
    return rows, titles


def _id(job: np.void) -> str:
    text = str(int(job["job"]))
    if job["component"] >= 0:
        return f"{text}+{int(job['component'])}"
    if job["n_tasks"] > 1:
        return f"{text}_[{int(job['n_tasks'])} tasks]"
    return text if job["task"] < 0 else f"{text}_{int(job['task'])}"


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(round(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def waits_text(answer: Mapping[str, Any]) -> str:
    """Return an answer as text."""
    lines = [f"{answer['site']}, {answer['now']}: {len(answer['jobs']):,} waiting, {answer['running']:,} running"]
    if answer["coverage"] is not None:
        lines.append(
            f"Intervals of {answer['level']:.0%} from {answer['past_waits']:,} past waits; such intervals held "
            f"{answer['coverage']:.1%} of the waits of the last 30% of the log"
        )
    lines += [f"left out: {count:,} {reason}" for reason, count in answer["left_out"].items()]
    lines += answer["notes"]
    lines += ["", f"{'job':<16} {'cores':>7} {'start':<20} {'earliest':<20} {'latest':<20}"]
    lines += [
        f"{job['id']:<16} {job['cores']:>7,} {job['start']:<20} {job['earliest']:<20} {job['latest']:<20}"
        for job in answer["jobs"]
    ]
    return "\n".join(lines) + "\n"

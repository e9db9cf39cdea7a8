"""When will each waiting job start: simulations from the queue as it is, with intervals that the site's own log sets.

At dates of the log, the queue of that date is simulated forward with what a predictor says of run times; how far the
answers were from what happened gives intervals for the queue of today (conformal prediction).
"""

from __future__ import annotations

import contextlib
import json
import math
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, OutputError, ReadError, UnknownName, WorkloadError
from hdrl.base.files import atomic_write_bytes
from hdrl.base.hashing import columns, sha256_of
from hdrl.batch import (
    Platform,
    SwfLog,
    fits,
    predictions_of,
    read_swf,
    simulate,
    unknown_rows,
    workload_from_swf,
)
from hdrl.settings.batch.site_rules.conf import SiteConf, read_conf
from hdrl.site.importing import LOG, NAMES, PLATFORM, SITE
from hdrl.site.joining import every_job
from hdrl.site.log import FIELDS, UNLIMITED_S
from hdrl.site.machine import keeps_rules, machine_of, n_cores
from hdrl.site.readers import Choices, read_dump
from hdrl.site.records import Dump, State
from hdrl.site.replay import STAND_INS
from hdrl.site.values import Clock, find_zone
from hdrl.version import VERSION

FloatArray = NDArray[np.float64]
Rows = NDArray[np.void]

LEVEL = 0.9
"""Share of true waits that intervals are to hold."""

CALIBRATION_SHARE = 0.7
"""Share of the log that sets the first intervals; the rest is what intervals are checked on."""

CALIBRATION = "waits.npz"
"""What is remembered in the folder of a site: past waits as they were and as simulations predict them."""

_MOST_BYTES = 2**29

N_DATES = 600
"""Dates of the log whose queues are simulated."""

MOST_JOBS = 20_000
"""Jobs of the log, its last ones, that dates are taken from."""

_STEP = 0.05
_LEVELS = (0.5, 0.998)
"""How far a wholly missed date of mean size moves the level of intervals, and within which bounds it stays."""

_LEAST_PAIRS = 100
_N_GROUPS = 8
_LEAST_IN_GROUP = 100

_SCALE_S = 60.0
"""Waits below it differ by seconds, longer ones by factors."""

_SHORTEST_S = 60.0
"""What is left, as far as anyone knows, of a job that runs past its request."""

_LATER_S = 1.0
"""By how much waiting jobs come after running ones where a site has rules."""

NOT_ELIGIBLE = "not eligible: held, or waits for another job"
TOO_WIDE = "more cores than the machine has"
NOT_IN_PARTITION = "more cores than their partition has"
NO_CORES = "no number of cores"


@dataclass(frozen=True, slots=True)
class WaitChoices:
    """How waits are predicted.

    Attributes
    ----------
    policy
        The policy that stands for the site's own.
    predictor
        What says how long jobs will run.
    form, zone
        Format of the dump, and time zone of its dates, as for an import.
    site_rules
        Whether the rules of the site count, if its machine has some.
    """

    policy: str = STAND_INS[0]
    predictor: str = "geo"
    form: str = "auto"
    zone: str | None = None
    site_rules: bool = True


@dataclass(frozen=True, slots=True)
class Intervals:
    """How far true waits are from predicted ones, by groups of similar predictions.

    Attributes
    ----------
    edges_s
        Predicted waits between the groups, shape ``(n_groups - 1,)``.
    low, high
        Bounds of the logarithm of true over predicted wait, shape ``(n_groups,)``.
    """

    edges_s: FloatArray
    low: FloatArray
    high: FloatArray

    def bounds_of(self, predicted_s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the shortest and the longest wait that jobs with such predictions may have."""
        group = np.searchsorted(self.edges_s, predicted_s, side="right")
        low, high = ((predicted_s + _SCALE_S) * np.exp(bound[group]) - _SCALE_S for bound in (self.low, self.high))
        return np.maximum(low, 0.0), np.maximum(high, 0.0)


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
    errors = np.log((true_s + _SCALE_S) / (predicted_s + _SCALE_S))
    low, high = np.zeros(len(edges_s) + 1), np.zeros(len(edges_s) + 1)
    for place in range(len(low)):
        part = np.sort(errors[group == place])
        if len(part) == 0:
            part = np.sort(errors)
        rank = math.floor((len(part) + 1) * (1 - level) / 2)
        # Ranks 0 and n + 1 would be bounds without end: the least and the largest error stand for them.
        low[place], high[place] = part[max(rank, 1) - 1], part[min(len(part) + 1 - rank, len(part)) - 1]
    return Intervals(edges_s, low, high)


@dataclass(frozen=True, slots=True)
class Queue:
    """What runs and what waits at one date, all of it in rows of a log that begins there.

    Attributes
    ----------
    rows
        Running jobs first, then waiting ones; run times are what is left of predictions.
    n_running
        How many run.
    """

    rows: Rows
    n_running: int


def waits_of(queue: Queue, platform: Platform, policy: str, header: Mapping[str, str] | None = None) -> FloatArray:
    """Return how long from now each waiting job of a queue waits.

    Parameters
    ----------
    queue, platform, policy
        What is simulated.
    header
        Header of the log that the queue is from, which names partitions.
    """
    rows, later_s = queue.rows, 0.0
    if platform.site is not None:  # what runs does so before any other job is looked at, whatever its partition
        later_s = _LATER_S
        rows = rows.copy()
        rows["submit_s"][queue.n_running :] += later_s
    workload = workload_from_swf(SwfLog("queue", rows, dict(header or {})), platform, bandwidth="none", shift=False)
    trace = simulate(platform, workload, policy, energy=False)
    # A workload is in the order of submission, and jobs of one date in that of their rows.
    order = np.argsort(rows["submit_s"], kind="stable")
    start_s = np.zeros(len(order))
    start_s[order] = np.round(trace.records["start_s"] - later_s, 3)
    return np.maximum(start_s[queue.n_running :], 0.0)


def queue_of(running: Rows, waiting: Rows, now_s: float, running_s: FloatArray, waiting_s: FloatArray) -> Queue:
    """Return the queue of one date.

    A running job that has outrun its prediction is taken to run as long again, one that has outrun its request a
    minute. What waits is in the order of submission.

    Parameters
    ----------
    running, waiting
        Rows of the log.
    now_s
        The date in the time of the log.
    running_s, waiting_s
        How long they are predicted to run, from their starts.
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
    return Queue(rows[ranks], n_running)


@dataclass(frozen=True, slots=True)
class PastWaits:
    """Predicted and true waits of jobs that waited at dates of a log.

    Attributes
    ----------
    predicted_s, true_s
        From the date on, shape ``(n_pairs,)``.
    date_s
        The date, shape ``(n_pairs,)``, rising.
    is_late
        Whether the date is in the last part of the log, that intervals are checked on.
    n_dates
        How many dates there are.
    """

    predicted_s: FloatArray
    true_s: FloatArray
    date_s: FloatArray
    is_late: NDArray[np.bool_]
    n_dates: int


def adapted(past: PastWaits) -> tuple[Intervals, float]:
    """Return the intervals for the next date, and the share of the waits of the last part that such ones held.

    Load and rules change, so the next waits are not like those before: wherever more waits than wanted turn out to be
    outside their intervals, the next intervals become wider, and the other way round (adaptive conformal inference,
    Gibbs and Candes, 2021). The first part sets the intervals that the last part begins with. At each date of it, they
    come from the waits that were over by then.
    """
    level, n_held, n_late = LEVEL, 0, int(np.count_nonzero(past.is_late))
    known_s = past.date_s + past.true_s
    mean_size = max(len(past.true_s) / max(past.n_dates, 1), 1.0)
    # When all waits of a date are over, its job count, and how many of these were outside.
    open_dates: list[tuple[float, int, int]] = []

    def moved(level: float, told: Sequence[tuple[float, int, int]]) -> float:
        for _, n_jobs, n_outside in told:
            step = _STEP * (n_outside - (1 - LEVEL) * n_jobs) / mean_size
            level = min(max(level + step, _LEVELS[0]), _LEVELS[1])
        return level

    for date_s in np.unique(past.date_s[past.is_late]).tolist():
        level = moved(level, [one for one in open_dates if one[0] <= date_s])
        open_dates = [one for one in open_dates if one[0] > date_s]
        over, here = known_s <= date_s, past.date_s == date_s
        if np.count_nonzero(over) < _LEAST_PAIRS:
            return calibrated(past.predicted_s, past.true_s), float("nan")
        low_s, high_s = calibrated(past.predicted_s[over], past.true_s[over], level).bounds_of(past.predicted_s[here])
        # Accounting counts whole seconds.
        holds = (past.true_s[here] >= low_s - 0.5) & (past.true_s[here] <= high_s + 0.5)
        n_held += int(np.count_nonzero(holds))
        open_dates.append((float(np.max(known_s[here])), len(holds), int(np.count_nonzero(~holds))))
    coverage = n_held / n_late if n_late else float("nan")
    return calibrated(past.predicted_s, past.true_s, moved(level, open_dates)), coverage


def past_waits(
    rows: Rows,
    run_s: FloatArray,
    platform: Platform,
    policy: str,
    n_dates: int = N_DATES,
    header: Mapping[str, str] | None = None,
) -> PastWaits:
    """Predict waits at dates of a log, and look at what happened.

    The dates are submissions of jobs that had to wait, spread evenly over them.

    Parameters
    ----------
    rows
        A log with waits, in the order of submission.
    run_s
        How long each job was predicted to run when it was submitted.
    header
        Header of the log, which names partitions.
    """
    submit_s = rows["submit_s"]
    start_s = submit_s + rows["wait_s"]
    end_s = start_s + rows["run_s"]
    waited = np.flatnonzero(rows["wait_s"] > 0)
    chosen = waited[np.unique(np.linspace(0, len(waited) - 1, min(n_dates, len(waited))).astype(int))]
    split = CALIBRATION_SHARE * len(rows)
    predicted, true, dates, late = [np.zeros(0)], [np.zeros(0)], [np.zeros(0)], [np.zeros(0, dtype=bool)]
    for place in chosen.tolist():
        now_s = submit_s[place]
        is_there = submit_s <= now_s
        waiting = np.flatnonzero(is_there & (start_s > now_s))
        running = np.flatnonzero(is_there & (start_s <= now_s) & (end_s > now_s))
        queue = queue_of(rows[running], rows[waiting], now_s, run_s[running], run_s[waiting])
        predicted.append(waits_of(queue, platform, policy, header))
        true.append(start_s[waiting] - now_s)
        dates.append(np.full(len(waiting), now_s))
        late.append(np.full(len(waiting), place >= split))
    return PastWaits(
        np.concatenate(predicted), np.concatenate(true), np.concatenate(dates), np.concatenate(late), len(chosen)
    )


def predict_waits(folder: Path, dump: Path, choices: WaitChoices | None = None) -> dict[str, Any]:
    """Predict when each job that waits in a dump will start.

    Parameters
    ----------
    folder
        The folder of an imported site.
    dump
        Accounting data with the jobs that run and wait now; the latest date in it is now.

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
    choices = choices or WaitChoices()
    conf = read_conf(folder / SITE)
    has_rules = choices.site_rules and keeps_rules(folder / PLATFORM)
    platform = machine_of(conf, conf.name or "site", has_rules=has_rules)
    log = read_swf(folder / LOG)
    known = _known_jobs(log.rows)
    found = read_dump(dump, Choices(Clock(find_zone(choices.zone))), choices.form)
    first_s = log.first_date_s
    now_s = _now(found, dump) - first_s
    known = known[known["submit_s"] + known["wait_s"] <= now_s][-MOST_JOBS:]
    jobs, left_out = _waiting_and_running(found, conf)
    rows = _rows_of(jobs, found, folder / NAMES, now_s, first_s)
    if has_rules and len(rows):
        jobs, rows = _that_fit(jobs, rows, platform, log.header, left_out)
    run_s = _predicted(np.concatenate([known, rows]), platform, choices.predictor)
    past = _remembered(folder / CALIBRATION, known, run_s[: len(known)], platform, choices.policy, log.header)
    if len(past.true_s) < _LEAST_PAIRS:
        raise OptionsError(
            f"{folder / LOG}: waits of {len(past.true_s):,} jobs before the date of {dump.name} are known, expected at "
            f"least {_LEAST_PAIRS}: intervals come from them"
        )
    is_running = jobs["state"] == State.RUNNING
    run_s = run_s[len(known) :]
    waiting = np.flatnonzero(~is_running)
    # As in a queue: in the order of submission.
    waiting = waiting[np.argsort(rows["submit_s"][waiting], kind="stable")]
    queue = queue_of(rows[is_running], rows[waiting], now_s, run_s[is_running], run_s[waiting])
    wait_s = waits_of(queue, platform, choices.policy, log.header) if len(waiting) else np.zeros(0)
    intervals, coverage = adapted(past)
    low_s, high_s = intervals.bounds_of(wait_s)
    partitions = found.names["partition"].texts()
    answers = [
        {
            "id": _id(jobs[place]),
            "partition": partitions[jobs["partition"][place]] if jobs["partition"][place] >= 0 else None,
            "cores": int(jobs["cores"][place]),
            "wait_s": round(float(wait), 1),
            "low_s": round(float(low), 1),
            "high_s": round(float(high), 1),
            "start": _date(first_s + now_s + wait),
            "earliest": _date(first_s + now_s + low),
            "latest": _date(first_s + now_s + high),
        }
        for place, wait, low, high in zip(waiting.tolist(), wait_s, low_s, high_s, strict=True)
    ]
    return {
        "site": conf.name or folder.resolve().name,
        "now": _date(first_s + now_s),
        "policy": choices.policy,
        "predictor": choices.predictor,
        "level": LEVEL,
        "coverage": None if math.isnan(coverage) else round(coverage, 4),
        "past_waits": len(past.true_s),
        "past_dates": past.n_dates,
        "running": int(np.count_nonzero(is_running)),
        "left_out": dict(left_out),
        "jobs": answers,
    }


def _that_fit(
    jobs: Rows, rows: Rows, platform: Platform, header: Mapping[str, str], left_out: Counter[str]
) -> tuple[Rows, Rows]:
    """Return the jobs that their partitions can run at all, and count the others."""
    workload = workload_from_swf(SwfLog("queue", rows, dict(header)), platform, bandwidth="none")
    can_run = np.zeros(len(rows), dtype=bool)
    can_run[np.argsort(rows["submit_s"], kind="stable")] = fits(workload, platform)
    if not np.all(can_run):
        left_out[NOT_IN_PARTITION] = int(np.count_nonzero(~can_run))
    return jobs[can_run], rows[can_run]


def _remembered(
    path: Path, known: Rows, run_s: FloatArray, platform: Platform, policy: str, header: Mapping[str, str]
) -> PastWaits:
    """Return the past waits of a log, from a file if they have been simulated before.

    Parameters
    ----------
    path
        The file; it holds arrays alone, and is made anew when anything that they depend on has changed.
    """
    titles = {name: header.get(name, "") for name in ("Partition", "Queue")}
    facts = [VERSION, policy, platform.sha256(), N_DATES, titles]
    key = sha256_of([*columns(known), ("run_s", run_s)], facts)
    remembered = _stored(path, key)
    if remembered is not None:
        return remembered
    past = past_waits(known, run_s, platform, policy, header=header)
    with contextlib.suppress(OutputError), atomic_write_bytes(path) as file:  # a folder that cannot be written to
        np.savez(file, key=np.array(key), **asdict(past))
    return past


def _stored(path: Path, key: str) -> PastWaits | None:
    """Return the past waits in a file, ``None`` if it holds those of something else, or is damaged or not there."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as packed:
            n_bytes = sum(one.file_size for one in packed.infolist())
        if n_bytes > _MOST_BYTES:
            return None
        with path.open("rb") as file, np.load(file) as found:
            if str(found["key"]) != key:
                return None
            n_dates = int(found["n_dates"])
            return PastWaits(found["predicted_s"], found["true_s"], found["date_s"], found["is_late"], n_dates)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _known_jobs(rows: Rows) -> Rows:
    """Return the jobs of a log that tell all that a simulation needs, in the order of submission."""
    rows = rows[(rows["wait_s"] >= 0) & (rows["run_s"] > 0) & (rows["processors"] > 0) & (rows["submit_s"] >= 0)].copy()
    lacks = rows["requested_s"] <= 0
    rows["requested_s"][lacks] = rows["run_s"][lacks]
    return rows[np.argsort(rows["submit_s"], kind="stable")]


def _now(dump: Dump, path: Path) -> float:
    dates = [dump.records[name] for name in ("submit_s", "start_s", "end_s")]
    # Of a job that runs, accounting says for how long.
    dates.append(dump.records["start_s"] + dump.records["run_s"])
    known = np.concatenate(dates)
    known = known[np.isfinite(known)]
    if len(known) == 0:
        raise ReadError(path, "holds no date, expected when jobs were submitted and started")
    return float(np.max(known))


def _waiting_and_running(dump: Dump, conf: SiteConf) -> tuple[Rows, Counter[str]]:
    """Return the jobs that wait or run; a row of waiting tasks of an array stands for each of them."""
    records = dump.records
    held: set[tuple[int, int]] = set()
    is_pending = records["state"] == State.PENDING
    if np.any(np.isfinite(records["eligible_s"])):
        part = records[is_pending & ~np.isfinite(records["eligible_s"])]
        held = set(zip(part["job"].tolist(), part["task"].tolist(), strict=True))
    jobs = every_job(dump).records
    jobs = jobs[np.isin(jobs["state"], (State.PENDING, State.RUNNING))]
    is_pending = jobs["state"] == State.PENDING
    ids = zip(jobs["job"].tolist(), jobs["task"].tolist(), strict=True)
    reasons = {
        NOT_ELIGIBLE: is_pending & np.fromiter((one in held for one in ids), bool, len(jobs)),
        NO_CORES: jobs["cores"] < 1,
        TOO_WIDE: jobs["cores"] > n_cores(conf),
    }
    left_out: Counter[str] = Counter()
    kept = np.ones(len(jobs), dtype=bool)
    for reason, applies in reasons.items():
        n_jobs = int(np.sum(jobs["n_tasks"][kept & applies]))
        if n_jobs:
            left_out[reason] = n_jobs
        kept &= ~applies
    jobs = jobs[kept]
    n_tasks = np.where(jobs["state"] == State.PENDING, jobs["n_tasks"], 1)
    if np.sum(n_tasks) > MOST_JOBS:
        raise WorkloadError(f"{int(np.sum(n_tasks)):,} jobs wait and run, expected at most {MOST_JOBS:,}")
    return np.repeat(jobs, n_tasks), left_out


def _rows_of(jobs: Rows, dump: Dump, names: Path, now_s: float, first_s: float) -> Rows:
    """Return jobs as rows of the log of the site, whose names keep their numbers."""
    try:
        known = json.loads(names.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        known = None
    if not isinstance(known, dict) or not all(
        isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in known.values()
    ):
        raise ReadError(names, "cannot be read, expected the names that an import wrote")
    rows = unknown_rows(len(jobs))
    rows["job_number"] = np.arange(1, len(jobs) + 1)
    rows["submit_s"] = np.where(np.isfinite(jobs["eligible_s"]), jobs["eligible_s"] - first_s, now_s)
    is_running = jobs["state"] == State.RUNNING
    rows["wait_s"] = np.where(is_running, jobs["start_s"] - first_s - rows["submit_s"], -1)
    rows["processors"] = rows["requested_processors"] = jobs["cores"]
    limit_s = np.where(jobs["limit_s"] > 0, jobs["limit_s"], UNLIMITED_S)
    rows["requested_s"] = np.minimum(limit_s, UNLIMITED_S)
    # How long it will run is not known, and no prediction looks at it.
    rows["run_s"] = 1
    for column, field in FIELDS.items():
        number_of = {text: number for number, text in enumerate(known.get(field, ()))}
        texts = dump.names[column].texts()
        numbers = [*(number_of.get(text, len(number_of) + place) for place, text in enumerate(texts)), -1]
        rows[field] = np.array(numbers)[jobs[column]]
    return rows


def _predicted(rows: Rows, platform: Platform, predictor: str) -> FloatArray:
    """Return how long each job is predicted to run, by what had ended when it was submitted."""
    rows = rows.copy()
    order = np.argsort(rows["submit_s"], kind="stable")
    rows["submit_s"] -= rows["submit_s"].min(initial=0.0)
    # A date of a start that is unknown is also that of an end.
    workload = workload_from_swf(SwfLog("log", rows[order], {}), platform, bandwidth="none", shift=False)
    if workload.history is None or len(workload.history.run_s) != len(rows):
        raise WorkloadError("the log holds jobs that no simulation can run")
    by_name = predictions_of(workload.history)
    if predictor not in by_name:
        raise UnknownName("predictor", predictor, by_name)
    run_s = np.zeros(len(rows))
    run_s[order] = by_name[predictor]
    return run_s


def _id(job: np.void) -> str:
    text = str(int(job["job"]))
    if job["n_tasks"] > 1:
        return f"{text}_[{int(job['n_tasks'])} tasks]"
    return text if job["task"] < 0 else f"{text}_{int(job['task'])}"


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(round(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def waits_text(answer: Mapping[str, Any]) -> str:
    """Return an answer as text."""
    lines = [f"{answer['site']}, {answer['now']}: {len(answer['jobs']):,} jobs wait, {answer['running']:,} run"]
    if answer["coverage"] is not None:
        lines.append(
            f"Intervals of {answer['level']:.0%} from {answer['past_waits']:,} past waits; such intervals held "
            f"{answer['coverage']:.1%} of the waits of the last 30% of the log"
        )
    lines += [f"left out: {count:,} {reason}" for reason, count in answer["left_out"].items()]
    lines += ["", f"{'job':<16} {'cores':>7} {'start':<20} {'earliest':<20} {'latest':<20}"]
    lines += [
        f"{job['id']:<16} {job['cores']:>7,} {job['start']:<20} {job['earliest']:<20} {job['latest']:<20}"
        for job in answer["jobs"]
    ]
    return "\n".join(lines) + "\n"

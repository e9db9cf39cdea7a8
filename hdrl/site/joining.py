"""From attempts to jobs: requeues become one job each, and what never ran is left out and counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.site_rules.columns import MOST_COMPONENTS
from hdrl.site.records import UNKNOWN, AttemptState, Dump

FloatArray = NDArray[np.float64]

PENDING = "pending: it had not started"
CANCELLED = "cancelled before it started"
NEVER_STARTED = "ended without a start"
NO_DATE = "no date of submission"
NO_CORES = "no number of cores"
NO_RUN_TIME = "no run time"
TOO_LARGE = "numbers out of range"

_REUSED_AFTER_S = 7 * 86400
"""A number that comes again so long after its job ended belongs to another job."""

_LARGEST = 1e12

SHORTEST_S = 1.0
"""Accounting counts whole seconds: what ended in the second in which it started gets one."""


@dataclass(slots=True)
class JoinedJobs:
    """The jobs of a dump."""

    # one row per job, in the order of eligibility: submission and eligibility are those of its first attempt, start,
    # end and run time those of its last
    records: NDArray[np.void]
    # rows that each job was joined from, shape ``(n_jobs,)``; components of a het job that were joined count once
    n_attempts: NDArray[np.int64]
    n_ids: int  # different ids in the dump, waiting tasks of arrays that share a row included once
    joined: dict[str, int] = field(default_factory=dict)  # what was joined, by name
    # jobs that were left out, by reason; the tasks of an array count one by one
    left_out: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)  # what was changed to make jobs of rows, a sentence each
    lost_core_s: float = 0.0  # core seconds of attempts that were followed by another

    @property
    def n_jobs(self) -> int:
        """Number of jobs."""
        return len(self.records)


def jobs_of(dump: Dump, *, keeps_components: bool = False) -> JoinedJobs:
    """Return the jobs of a dump that a simulation can replay.

    Parameters
    ----------
    keeps_components
        True if the components of het jobs stay jobs of their own, if there are no more of them than Slurm takes. Pods
        of one group never do: they share nodes.
    """
    jobs = every_job(dump)
    is_het = "kubernetes" not in dump.form and np.all(jobs.records["component"] < MOST_COMPONENTS)
    if not (keeps_components and is_het):
        join_components(jobs)
    _leave_out(jobs)
    return jobs


def every_job(dump: Dump, *, first_attempts: bool = False) -> JoinedJobs:
    """Return all jobs of a dump, also those that wait or never ran, components of het jobs as jobs of their own.

    Parameters
    ----------
    first_attempts
        True if start, end and state are those of the first attempt instead of the last, so that a requeue that comes
        later changes nothing.
    """
    records = dump.records
    if len(records) == 0:
        return JoinedJobs(records, np.zeros(0, dtype=np.int64), 0)
    # Exports that overlap may say of a row what it was earlier: without a start, or still running.
    has_ended = ~np.isin(records["state"], (AttemptState.PENDING, AttemptState.RUNNING))
    start_s = np.where(np.isnan(records["start_s"]), -np.inf, records["start_s"])
    keys = (records["submit_s"], records["component"], records["task"], records["job"], records["cluster"])
    order = np.lexsort((has_ended, start_s, *keys))
    records = _taken(records, order)
    records, n_repeated = _without_repeated(records)
    records, n_resized = _without_resizes(records)
    begins, n_reused = _first_attempts(records)
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(records)) - 1
    found = records[first if first_attempts else last]
    for name in ("submit_s", "eligible_s"):
        found[name] = records[name][first]
    n_attempts = last - first + 1
    used = np.where(records["run_s"] > 0, records["run_s"], 0.0) * np.maximum(records["cores"], 0)
    is_earlier = np.ones(len(records), dtype=bool)
    is_earlier[last] = False
    jobs = JoinedJobs(found, n_attempts, len(found), lost_core_s=float(np.sum(used[is_earlier & np.isfinite(used)])))
    jobs.joined["requeues"] = int(np.sum(n_attempts - 1))
    jobs.joined["array tasks"] = int(np.sum(found["n_tasks"][found["task"] >= 0]))
    if n_repeated:
        jobs.joined["rows that repeat another"] = n_repeated
    if n_resized:
        jobs.joined["rows of jobs that changed their size, which keep the first one"] = n_resized
    if n_reused:
        jobs.notes.append(f"numbers used again for another job: {n_reused:,}")
    _note_het_jobs(jobs)
    _complete(jobs, dump)
    _sort(jobs)
    return jobs


def _sort(jobs: JoinedJobs) -> None:
    order = np.argsort(jobs.records["eligible_s"], kind="stable")
    jobs.records, jobs.n_attempts = _taken(jobs.records, order), jobs.n_attempts[order]


def _taken(records: NDArray[np.void], order: NDArray[np.int64]) -> NDArray[np.void]:
    """Return records in an order; the same ones if they are in it already, as exports mostly are."""
    is_sorted = len(order) == len(records) and np.all(order[1:] > order[:-1])
    return records if is_sorted else records[order]


def _same_id(records: NDArray[np.void]) -> NDArray[np.bool_]:
    """Tell which rows have the id of the row before them."""
    same = np.zeros(len(records), dtype=bool)
    same[1:] = True
    for name in ("cluster", "job", "task", "component"):
        same[1:] &= records[name][1:] == records[name][:-1]
    # Ranges of waiting tasks of one array share the number of no task.
    same[1:] &= (records["n_tasks"][1:] == 1) & (records["n_tasks"][:-1] == 1)
    return same


def _without_repeated(records: NDArray[np.void]) -> tuple[NDArray[np.void], int]:
    """Drop rows that the next one repeats, as in exports that overlap."""
    again = _same_id(records)
    again[1:] &= records["submit_s"][1:] == records["submit_s"][:-1]
    start_s = records["start_s"]
    again[1:] &= (start_s[1:] == start_s[:-1]) | np.isnan(start_s[:-1])
    kept = np.ones(len(records), dtype=bool)
    kept[:-1] = ~again[1:]
    return _taken(records, np.flatnonzero(kept)), int(np.count_nonzero(again))


def _without_resizes(records: NDArray[np.void]) -> tuple[NDArray[np.void], int]:
    """Join the rows of attempts whose size changed: Slurm ends a row with each change and begins another one."""
    is_resized = records["state"] == AttemptState.RESIZED
    if not np.any(is_resized):
        return records, 0
    goes_on = _same_id(records)
    goes_on[1:] &= is_resized[:-1]
    first = np.flatnonzero(~goes_on)
    last = np.append(first[1:], len(records)) - 1
    whole = records[first]
    for name in ("end_s", "state"):
        whole[name] = records[name][last]
    whole["run_s"] = np.add.reduceat(records["run_s"], first)
    whole["state"][whole["state"] == AttemptState.RESIZED] = AttemptState.RUNNING  # the next row is in no export
    return whole, int(np.count_nonzero(goes_on))


def _first_attempts(records: NDArray[np.void]) -> tuple[NDArray[np.bool_], int]:
    """Tell which rows begin a job, and how many do with the number of an earlier one."""
    same = _same_id(records)
    gap_s = np.zeros(len(records))
    gap_s[1:] = records["submit_s"][1:] - records["end_s"][:-1]
    is_other_user = np.zeros(len(records), dtype=bool)
    is_other_user[1:] = records["user"][1:] != records["user"][:-1]
    is_reused = same & (is_other_user | (gap_s > _REUSED_AFTER_S))
    return ~same | is_reused, int(np.count_nonzero(is_reused))


def _note_het_jobs(jobs: JoinedJobs) -> None:
    """Give the components of each het job a number that they share."""
    found = jobs.records
    parts = np.flatnonzero(found["component"] >= 0)
    if len(parts) == 0:
        return
    # A number that was used again has each of its components once more.
    ids = found[["cluster", "job", "component"]][parts]
    first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    again = np.arange(len(parts)) - np.repeat(first, np.diff(np.append(first, len(parts))))
    keys = np.stack([found["cluster"][parts], found["job"][parts], again], axis=1)
    groups, number = np.unique(keys, axis=0, return_inverse=True)
    found["het"][parts] = number.reshape(-1)
    jobs.joined["het jobs"] = len(groups)
    jobs.joined["components of het jobs"] = len(parts)


def join_components(jobs: JoinedJobs) -> None:
    """Make one job of the components of each het job, for simulations that do not know that they start together."""
    found = jobs.records
    is_part = found["het"] >= 0
    if not np.any(is_part):
        return
    order = np.lexsort((found["component"][is_part], found["het"][is_part]))
    parts, attempts = found[is_part][order], jobs.n_attempts[is_part][order]
    first = np.flatnonzero(np.diff(parts["het"], prepend=UNKNOWN))
    whole = parts[first].copy()
    whole["component"] = whole["het"] = UNKNOWN
    for name in ("cores", "requested_cores", "nodes", "gpus"):
        whole[name] = np.add.reduceat(np.maximum(parts[name], 0), first)
    for name, reduce in (("run_s", np.fmax), ("limit_s", np.fmax), ("end_s", np.fmax), ("start_s", np.fmax)):
        whole[name] = reduce.reduceat(parts[name], first)
    other = parts["partition"] != np.repeat(whole["partition"], np.diff(np.append(first, len(parts))))
    if np.any(other):
        jobs.notes.append(
            f"components of het jobs in another partition than the first: {np.count_nonzero(other):,}; that of the "
            "first stands for the job"
        )
    jobs.records = np.concatenate([found[~is_part], whole])
    jobs.n_attempts = np.concatenate([jobs.n_attempts[~is_part], np.maximum.reduceat(attempts, first)])
    _sort(jobs)


def _complete(jobs: JoinedJobs, dump: Dump) -> None:
    """Fill in what follows from other columns."""
    found = jobs.records
    has_started = np.isfinite(found["start_s"])
    lacks = ~np.isfinite(found["run_s"]) & has_started
    found["run_s"][lacks] = found["end_s"][lacks] - found["start_s"][lacks]
    is_running = has_started & (found["state"] == AttemptState.RUNNING)
    if np.any(is_running):
        dates = np.concatenate([dump.records[name] for name in ("submit_s", "start_s", "end_s")])
        latest_s = float(np.nanmax(dates))
        unknown = is_running & ~np.isfinite(found["run_s"])
        found["run_s"][unknown] = latest_s - found["start_s"][unknown]
        n_running = int(np.count_nonzero(is_running))
        jobs.notes.append(f"still running: {n_running:,}, kept with the time run so far")
    is_short = has_started & (found["run_s"] == 0)
    if np.any(is_short):
        found["run_s"][is_short] = SHORTEST_S
        n_short = int(np.count_nonzero(is_short))
        jobs.notes.append(f"ended within the second of the start: {n_short:,}, which run {SHORTEST_S:g} s")
    lacks = ~np.isfinite(found["eligible_s"])
    found["eligible_s"][lacks] = found["submit_s"][lacks]
    is_early = found["start_s"] < found["eligible_s"]
    if np.any(is_early):
        n_early = int(np.count_nonzero(is_early))
        jobs.notes.append(f"started before the date of eligibility: {n_early:,}, which count as eligible at the start")
        found["eligible_s"][is_early] = found["start_s"][is_early]
    is_unknown = found["cores"] < 1
    found["cores"][is_unknown] = found["requested_cores"][is_unknown]
    is_wider = has_started & (found["requested_cores"] > 0) & (found["cores"] > found["requested_cores"])
    if np.any(is_wider):
        n_wider = int(np.count_nonzero(is_wider))
        jobs.notes.append(f"got more cores than requested (whole nodes): {n_wider:,}, which take what they got")


def _leave_out(jobs: JoinedJobs) -> None:
    """Leave out jobs that no simulation can replay, each by its first reason."""
    found = jobs.records
    never = ~np.isfinite(found["start_s"])
    state = found["state"]
    sizes = np.stack([found["cores"], found["nodes"], found["gpus"]]).astype(np.float64)
    reasons = {
        PENDING: state == AttemptState.PENDING,
        CANCELLED: never & (state == AttemptState.CANCELLED),
        NEVER_STARTED: never,
        NO_DATE: ~np.isfinite(found["eligible_s"]),
        NO_CORES: found["cores"] < 1,
        NO_RUN_TIME: ~(found["run_s"] > 0),
        TOO_LARGE: (np.max(sizes, axis=0) > 2**31 - 1) | (found["run_s"] > _LARGEST),
    }
    kept = np.ones(len(found), dtype=bool)
    for reason, applies in reasons.items():
        n_jobs = int(np.sum(found["n_tasks"][kept & applies]))
        if n_jobs:
            jobs.left_out[reason] += n_jobs
        kept &= ~applies
    jobs.records, jobs.n_attempts = _taken(found, np.flatnonzero(kept)), jobs.n_attempts[kept]

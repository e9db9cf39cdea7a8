"""The daemon: looks at the queue, works out what the policy says, and tells Slurm, or only notes what it would tell.

It holds a job by a lease: the job may start a number of seconds from now, and the daemon extends that as long as the
gate holds the job. If the daemon ends, leases end by themselves, and SiteFactors stay as they are.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import HdrlError, OptionsError, OutputError, ReadError
from hdrl.base.files import atomic_write, read_json, write_json
from hdrl.compiled.jit import python_of
from hdrl.deploy.drift import DriftWatch, watch_of
from hdrl.deploy.factor import MOST_WEIGHT, site_factors
from hdrl.deploy.files import GROUPS, LOG, NOW, STATE, UNDONE
from hdrl.deploy.folder import Deployment, read_deployment
from hdrl.deploy.groups import KeyedGroups, read_groups
from hdrl.deploy.promise import log_error, log_slowdown
from hdrl.deploy.ranking import ranked, waiting_rows
from hdrl.deploy.slurm import (
    CHUNK,
    ENDED,
    PENDING,
    RUNNING,
    TIMEOUT_S,
    JobUpdate,
    QueuedJob,
    Slurm,
    SlurmError,
    total_weight,
)
from hdrl.experiment.locks import lock
from hdrl.experiment.run.progress import quiet
from hdrl.settings.batch.kernel.groups import ROOM_DECAY
from hdrl.settings.batch.kernel.keys import holds
from hdrl.settings.batch.site_rules.kernel.site_factor import FIRST, LEASE_INTERVALS, has_changed
from hdrl.settings.batch.workload.history import LEVELS

MOST_MS = 10.0
"""If Slurm takes longer than that for a job, the rest has to wait for the next look."""

MOST_LOG_BYTES = 64 * 2**20
LONGEST_PAUSE_S = 600.0
MOST_PROBLEMS = 20

_UNKNOWN = -1.0
"""Mark for a job that ran before the daemon did, and so has no prediction."""

_holds, _has_changed = python_of(holds), python_of(has_changed)


@dataclass(slots=True)
class DaemonState:
    """State of the daemon, apart from what it has learned.

    Attributes
    ----------
    acts
        True if the numbers were really written.
    since_s
        Date from which each waiting job could start, as it was seen first, in seconds since 1970.
    written
        The SiteFactor that each waiting job has got.
    held
        Jobs that are held by a lease.
    predicted_s
        Predicted run time in seconds of each job that waits or runs, when it was seen first.
    learned
        Jobs that have ended and were learned from, as long as squeue shows them.
    room
        Faded counts of jobs that came, and of those that found no room.
    watches
        State of the alarm.
    """

    acts: bool = False
    since_s: dict[int, float] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)
    predicted_s: dict[int, float] = field(default_factory=dict)
    learned: set[int] = field(default_factory=set)
    room: tuple[float, float] = (0.0, 0.0)
    watches: dict[str, DriftWatch] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "acts": self.acts,
            "since_s": self.since_s,
            "written": self.written,
            "held": sorted(self.held),
            "predicted_s": self.predicted_s,
            "learned": sorted(self.learned),
            "room": list(self.room),
            "watches": {name: one.as_json() for name, one in self.watches.items()},
        }


def read_state(folder: Path, deployment: Deployment) -> DaemonState:
    """Return the state that a daemon left in a folder; a new one if there is none.

    Raises
    ------
    ReadError
        If the file holds something else.
    """
    blocks = deployment.promise.blocks
    path = folder / STATE
    if not path.exists():
        return DaemonState(watches={name: watch_of(means) for name, means in blocks.items()})
    data = read_json(path)
    try:
        n_came, n_without = data["room"]
        return DaemonState(
            acts=bool(data["acts"]),
            since_s={int(job): float(date) for job, date in data["since_s"].items()},
            written={int(job): int(number) for job, number in data["written"].items()},
            held={int(job) for job in data["held"]},
            predicted_s={int(job): float(one) for job, one in data["predicted_s"].items()},
            learned={int(job) for job in data["learned"]},
            room=(float(n_came), float(n_without)),
            watches={name: watch_of(means, data["watches"].get(name)) for name, means in blocks.items()},
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise ReadError(path, "is not what the daemon wrote; delete it to begin anew") from None


@dataclass(slots=True)
class Look:
    """Results of one look at the queue.

    Attributes
    ----------
    n_waiting, n_running, n_free
        Jobs, and free cores.
    factors
        SiteFactors that change.
    held, released
        Jobs whose lease begins or is renewed, and those that are given free.
    beyond
        Jobs that have waited for longer than the bound.
    alarms, problems
        Sentences.
    n_written, spent_ms
        Jobs that were written to Slurm, and how long that took.
    """

    n_waiting: int = 0
    n_running: int = 0
    n_free: int = 0
    factors: dict[int, int] = field(default_factory=dict)
    held: list[int] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    beyond: list[int] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    n_written: int = 0
    spent_ms: float = 0.0


class Daemon:
    """Looks at the queue of a Slurm on behalf of a deployment.

    Parameters
    ----------
    folder
        The folder of the deployment.
    acts
        True to change jobs in Slurm; else changes are only logged.
    slurm
        The commands of Slurm.
    timeout_s
        Time to wait for an answer of theirs, in seconds.

    Raises
    ------
    HdrlError
        If the folder cannot be read, or has been undone.
    """

    def __init__(
        self, folder: str | Path, *, acts: bool = False, slurm: Slurm | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        folder = Path(folder)
        self.folder = folder
        self.deployment = read_deployment(folder)
        self.policy = self.deployment.deployed()
        self.groups: KeyedGroups = read_groups(folder / GROUPS)
        self.slurm = slurm or Slurm(may_act=acts, users=self.deployment.users, timeout_s=timeout_s)
        self.acts = acts
        if acts:
            _check_not_undone(folder)
        self.state = read_state(folder, self.deployment)
        if self.state.acts != acts:  # numbers that were only noted are in no queue
            self.state.written.clear()
            self.state.acts = acts
        self._previous_s = math.nan

    def check_slurm(self) -> None:
        """Refuse a Slurm whose priorities would not follow the numbers.

        Raises
        ------
        OptionsError
            If its priorities are not multifactor, or other terms may come to more than the bound allows.
        SlurmError
            If it does not answer.
        """
        config = self.slurm.config()
        kind = config.get("PriorityType", "")
        if kind != "priority/multifactor":
            raise OptionsError(f"Slurm's PriorityType is {kind[:60]!r}, expected priority/multifactor")
        check_weights(total_weight(config))

    def look(self, now_s: float) -> Look:
        """Look at the queue once.

        Parameters
        ----------
        now_s
            The date, in seconds since 1970.

        Raises
        ------
        SlurmError
            If Slurm does not answer.
        OutputError
            If the folder cannot be written.
        """
        jobs = self.slurm.jobs()
        look = Look(n_free=min(self.slurm.free_cores(), self.deployment.cores))
        if self.slurm.n_odd:
            look.problems.append(f"squeue: {self.slurm.n_odd:,} lines cannot be read, and their jobs do not count")
        waiting = [job for job in jobs if job.state == PENDING]
        look.n_waiting, look.n_running = len(waiting), sum(job.state == RUNNING for job in jobs)
        has_learned = self._learn([job for job in jobs if job.state == ENDED], look)
        here = [(job.user, job.state == PENDING) for job in jobs if job.state != ENDED]
        self.groups.here(here)
        self._note_dates(waiting, now_s)
        self._note_room([job for job in jobs if job.state != ENDED], look)
        self._decide(waiting, now_s, look)
        self._write_tables(here, now_s, look, has_learned=has_learned)
        if self.acts:
            self._act_on(look)
        else:
            self.state.written.update(look.factors)
        self._forget(jobs)
        write_json(self.folder / STATE, self.state.as_json(), indent=None)
        self._log(now_s, look)
        self._previous_s = now_s
        return look

    def _request_s(self, job: QueuedJob) -> float:
        return job.limit_s if math.isfinite(job.limit_s) else self.deployment.unlimited_s

    def _learn(self, ended: Sequence[QueuedJob], look: Look) -> bool:
        """Learn from jobs that have ended since the last look."""
        state, has_learned = self.state, False
        for job in sorted(ended, key=lambda one: (one.end_s, one.id)):
            if job.id in state.learned:
                continue
            state.learned.add(job.id)
            run_s = job.end_s - job.start_s
            if not run_s > 0 or job.start_s < job.submit_s:
                continue
            self.groups.learn(job.user, self._request_s(job), job.cores, run_s)
            has_learned = True
            predicted_s = state.predicted_s.get(job.id)
            if predicted_s is None or predicted_s == _UNKNOWN:
                continue  # it had begun before anybody looked
            since_s = state.since_s.get(job.id, job.eligible_s)
            self._watch("predictions", _one(log_error(np.array([run_s]), np.array([predicted_s]))), look)
            self._watch("results", _one(log_slowdown(np.array([job.start_s - since_s]), np.array([run_s]))), look)
        return has_learned

    def _watch(self, what: str, value: float, look: Look) -> None:
        watch = self.state.watches.get(what)
        side = None if watch is None else watch.add(value)
        if side is not None:
            look.alarms.append(f"{what} {side} what simulation promised")

    def _note_dates(self, waiting: Sequence[QueuedJob], now_s: float) -> None:
        """Note from when on jobs can start; a lease of ours does not count."""
        for job in waiting:
            if job.id not in self.state.since_s and job.eligible_s <= now_s:
                self.state.since_s[job.id] = job.eligible_s

    def _note_room(self, here: Sequence[QueuedJob], look: Look) -> None:
        """Note of jobs that have come whether they found room, and how many waited."""
        state = self.state
        fresh = [job for job in here if job.id not in state.predicted_s]
        if not fresh:
            return
        wanted = sum(job.cores for job in here if job.state == PENDING and job.id in state.since_s)
        n_came, n_without = state.room
        for job in fresh:
            found_none = job.state == PENDING and wanted > look.n_free
            n_came, n_without = n_came * ROOM_DECAY + 1.0, n_without * ROOM_DECAY + found_none
            if not math.isnan(self._previous_s) and job.state == PENDING:
                self._watch("queue", math.log1p(look.n_waiting - 1), look)
        state.room = (n_came, n_without)
        rows, positions = self._rows(fresh, [job.submit_s for job in fresh])
        lengths_s = self._ranked(rows, positions, 0.0, look.n_free).lengths_s
        is_first = math.isnan(self._previous_s)
        for job, length_s in zip(fresh, lengths_s.tolist(), strict=True):
            state.predicted_s[job.id] = _UNKNOWN if is_first and job.state == RUNNING else length_s

    def _rows(self, jobs: Sequence[QueuedJob], since_s: Sequence[float]) -> tuple[Any, Any]:
        first_s = self.deployment.first_s
        requested_s = [self._request_s(job) for job in jobs]
        positions = [
            self.groups.positions(job.user, request_s, job.cores)
            for job, request_s in zip(jobs, requested_s, strict=True)
        ]
        cores = np.array([job.cores for job in jobs], dtype=np.int64)
        rows = waiting_rows(np.array(since_s) - first_s, np.array(requested_s), cores)
        return rows, np.array(positions, dtype=np.int32).reshape(len(jobs), len(LEVELS))

    def _ranked(self, rows: Any, positions: Any, now_s: float, n_free: int) -> Any:
        self.groups.all_jobs["n_came"], self.groups.all_jobs["n_without_room"] = self.state.room
        rule, n_procs = self.policy.pair.rule, self.deployment.cores
        return ranked(
            rows, positions, self.groups.sums, rule, self.policy.key, now_s=now_s, n_procs=n_procs, n_free=n_free
        )

    def _decide(self, waiting: Sequence[QueuedJob], now_s: float, look: Look) -> None:
        state, deployment = self.state, self.deployment
        date_s = now_s - deployment.first_s
        since_s = [min(state.since_s.get(job.id, now_s), now_s) for job in waiting]
        rows, positions = self._rows(waiting, since_s)
        found = self._ranked(rows, positions, date_s, look.n_free)
        keys = found.keys + self.policy.aging_per_s * (now_s - deployment.last_s)
        factors = site_factors(keys, rows["submit_s"], date_s, deployment.bound_s).tolist()
        for job, factor, reserve in zip(waiting, factors, found.reserves.tolist(), strict=True):
            is_beyond = factor >= FIRST
            if is_beyond:
                look.beyond.append(job.id)
            before = state.written.get(job.id)
            if before is None or _has_changed(factor, before):
                look.factors[job.id] = factor
            can_start = job.id in state.since_s and job.reason not in _NOT_OURS
            if can_start and not is_beyond and _holds(reserve, job.cores, look.n_free, deployment.cores):
                look.held.append(job.id)
            elif job.id in state.held:
                look.released.append(job.id)

    def _write_tables(self, here: Sequence[tuple[str, bool]], now_s: float, look: Look, *, has_learned: bool) -> None:
        """Write the tables of the Lua."""
        counts: dict[str, list[int]] = {}
        for user, is_waiting in here:
            one = counts.setdefault(user, [0, 0])
            one[0] += 1
            one[1] += is_waiting
        with atomic_write(self.folder / NOW) as file:
            file.write(f"{int(now_s)}\t{look.n_free}\n")
            for user, (n_here, n_waiting) in sorted(counts.items()):
                file.write(f"{n_here}\t{n_waiting}\t{' '.join(user.split())}\n")
        if has_learned:
            self.groups.write(self.folder / GROUPS)

    def _act_on(self, look: Look) -> None:
        """Tell Slurm what has changed."""
        lease = f"now+{math.ceil(LEASE_INTERVALS * self.deployment.interval_s)}"
        starts = {**dict.fromkeys(look.held, lease), **dict.fromkeys(look.released, "now")}
        jobs = [*starts, *(job for job in look.factors if job not in starts)]
        updates = [JobUpdate(job, look.factors.get(job), starts.get(job)) for job in jobs]
        begun_s = time.perf_counter()
        for at in range(0, len(updates), CHUNK):
            _check_not_undone(self.folder)
            chunk = updates[at : at + CHUNK]
            refused = self.slurm.update(chunk)
            look.problems += list(refused.values())[: max(0, MOST_PROBLEMS - len(look.problems))]
            for one in chunk:
                if one.job in refused:
                    continue
                if one.factor is not None:
                    self.state.written[one.job] = one.factor
                if one.start is not None:
                    (self.state.held.discard if one.start == "now" else self.state.held.add)(one.job)
            look.n_written += len(chunk)
            look.spent_ms = 1000 * (time.perf_counter() - begun_s)
            if look.spent_ms > MOST_MS * look.n_written and at + CHUNK < len(updates):
                rest = len(updates) - look.n_written
                look.problems.append(f"Slurm takes {look.spent_ms / look.n_written:.1f} ms a job: {rest:,} wait")
                break

    def _forget(self, jobs: Sequence[QueuedJob]) -> None:
        """Forget jobs that are no longer there."""
        state = self.state
        waiting = {job.id for job in jobs if job.state == PENDING}
        shown = {job.id for job in jobs}
        ended = {job.id for job in jobs if job.state == ENDED}
        state.written = {job: number for job, number in state.written.items() if job in waiting}
        state.held &= waiting
        state.since_s = {job: date for job, date in state.since_s.items() if job in shown}
        state.predicted_s = {job: one for job, one in state.predicted_s.items() if job in shown}
        state.learned &= ended

    def _log(self, now_s: float, look: Look) -> None:
        note_line(
            self.folder,
            {
                "date": date_text(now_s),
                "acts": self.acts,
                "waiting": look.n_waiting,
                "running": look.n_running,
                "free_cores": look.n_free,
                "factors": {str(job): number for job, number in look.factors.items()},
                "hold": look.held,
                "release": look.released,
                "first": look.beyond,
                "alarms": look.alarms,
                "problems": look.problems,
                "written": look.n_written,
                "ms": round(look.spent_ms, 1),
            },
        )


_NOT_OURS = ("JobHeldUser", "JobHeldAdmin", "Dependency", "BadConstraints")
"""Reasons for which a job waits whatever a gate says."""


def check_weights(weight: float) -> None:
    """Refuse a site whose other terms of the priority could pass a job beyond the bound.

    Raises
    ------
    OptionsError
        If their sum is too large.
    """
    if weight >= MOST_WEIGHT:
        raise OptionsError(
            f"PriorityWeight* of slurm.conf sum to {weight:,.0f}, expected less than {MOST_WEIGHT:,}: "
            "a job beyond the bound must be first"
        )


def _one(values: NDArray[np.float64]) -> float:
    return float(values[0])


def _check_not_undone(folder: Path) -> None:
    path = folder / UNDONE
    if path.exists():
        raise OutputError(f"{path}: exists, so the daemon writes nothing to Slurm; delete it to act again")


def date_text(now_s: float) -> str:
    """Return a date as the log has it."""
    return datetime.fromtimestamp(int(now_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def note_line(folder: Path, line: Mapping[str, Any]) -> None:
    """Add a line to the log of a folder; a log that has grown too long becomes the former one.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    path = folder / LOG
    try:
        if path.exists() and path.stat().st_size > MOST_LOG_BYTES:
            path.replace(path.with_suffix(".1.jsonl"))
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from None


def run(
    folder: str | Path,
    *,
    acts: bool = False,
    once: bool = False,
    timeout_s: float = TIMEOUT_S,
    print_line: Callable[[str], None] = quiet,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Look at the queue again and again, until something stops the process.

    Where Slurm does not answer, the pauses become longer, up to ten minutes.

    Parameters
    ----------
    acts
        True to change jobs in Slurm; else changes are only logged.
    once
        True to look once only.
    timeout_s
        Time to wait for an answer of Slurm, in seconds.
    print_line
        Called with a line about each look.

    Raises
    ------
    OutputError
        If the folder cannot be written, or another daemon works in it.
    SlurmError
        If Slurm does not answer and ``once`` is set.
    HdrlError
        If the folder is no deployment, or Slurm's priorities would not follow.
    """
    folder = Path(folder)
    daemon = Daemon(folder, acts=acts, timeout_s=timeout_s)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if not lock(descriptor):
            raise OutputError(f"{folder}: another daemon works in this folder; stop it first")
        n_failed, is_checked = 0, False
        while True:
            try:
                if not is_checked:
                    daemon.check_slurm()
                    is_checked = True
                look = daemon.look(clock())
            except SlurmError as error:
                if once:
                    raise
                n_failed += 1
                note_line(folder, {"date": date_text(clock()), "error": str(error)})
                print_line(f"{error}; Slurm keeps the present order")
            else:
                n_failed = 0
                print_line(look_text(look, acts=acts))
            if once:
                return
            sleep(min(LONGEST_PAUSE_S, daemon.deployment.interval_s * 2 ** min(n_failed, 10)))
    finally:
        os.close(descriptor)


def look_text(look: Look, *, acts: bool) -> str:
    """Return the results of one look, as a line."""
    parts = [f"{look.n_waiting:,} wait", f"{look.n_running:,} run", f"{look.n_free:,} cores free"]
    parts.append(f"{len(look.factors):,} new numbers")
    if look.held or look.released:
        parts.append(f"{len(look.held):,} held, {len(look.released):,} released")
    if look.beyond:
        parts.append(f"{len(look.beyond):,} beyond the bound")
    if acts:
        per_job = look.spent_ms / look.n_written if look.n_written else 0.0
        parts.append(f"{per_job:.2f} ms a job")
    parts += [f"ALARM: {one}" for one in look.alarms]
    parts += look.problems[:1]
    return ("" if acts else "shadow: ") + ", ".join(parts)


def undo(folder: str | Path, *, print_line: Callable[[str], None] = quiet) -> int:
    """Give the queue back to Slurm: no SiteFactors, no leases; neither daemon nor Lua writes any more.

    Returns
    -------
    int
        Number of jobs that were given back.

    Raises
    ------
    OutputError
        If the folder cannot be written.
    HdrlError
        If it is no deployment, or Slurm does not answer.
    """
    folder = Path(folder)
    deployment = read_deployment(folder)
    try:
        (folder / UNDONE).touch()
    except OSError as error:
        raise OutputError(f"{folder / UNDONE}: cannot be written ({error.strerror or error})") from None
    held: set[int] = set()
    try:
        held = read_state(folder, deployment).held
    except HdrlError as error:
        print_line(f"{error}; jobs that are held become free when their leases end")
    slurm = Slurm(may_act=True)
    waiting = [job.id for job in slurm.jobs() if job.state == PENDING]
    updates = [JobUpdate(job, 0, "now" if job in held else None) for job in waiting]
    refused = slurm.update(updates)
    for line in list(refused.values())[:MOST_PROBLEMS]:
        print_line(line)
    (folder / STATE).unlink(missing_ok=True)
    return len(waiting) - len(refused.keys() & set(waiting))

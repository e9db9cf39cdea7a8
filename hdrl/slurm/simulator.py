"""The simulator `slurm`: jobs of a workload in a real Slurm on this host, and the Trace of what it did with them."""

from __future__ import annotations

import heapq
import logging
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OutputError, SimulationError
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.trace import (
    ENERGY_DTYPE,
    MACHINE_STATE_DTYPE,
    PSTATE_CHANGE_DTYPE,
    RECORD_DTYPE,
    BatchTrace,
    JobState,
    OverUtilization,
)
from hdrl.settings.batch.simulators import SlurmSettings
from hdrl.settings.batch.site_rules.model import PreemptBy, SiteRules, components_of
from hdrl.settings.batch.site_rules.simulator import plain_jobs
from hdrl.settings.batch.workload.model import NO_WALLTIME, Workload
from hdrl.settings.batch.workload.run_times import run_times_at
from hdrl.slurm.accounting import accounting_of, needs_accounting
from hdrl.slurm.cluster import Deployed, RunOutcome, SlurmCluster, Submission
from hdrl.slurm.conf import ONE_PARTITION, scheduling_lines, user_name, without_paths
from hdrl.slurm.jobcomp import BEGINS_ANEW, Completion
from hdrl.slurm.machine import machine_of
from hdrl.slurm.recording import FOLDER, write_run
from hdrl.slurm.requests import NO_REQUESTS, JobRequests, PlannedCommand, events_of, requests_of
from hdrl.slurm.rules import check_nodes, check_rules, node_words, partition_lines, partitions_of, scheduling_of

OWN_POLICY = "slurm"
"""Slurm's own order; all other policies are deployed."""

_LOG = logging.getLogger(__name__)

_STATES = {
    "COMPLETED": JobState.COMPLETED_SUCCESSFULLY,
    "FAILED": JobState.COMPLETED_FAILED,
    "TIMEOUT": JobState.COMPLETED_WALLTIME_REACHED,
    "CANCELLED": JobState.COMPLETED_KILLED,
}
_LONGEST_LIMIT_MIN = 2**31 // 60 // 60
_REPORT_EVERY_S = 60.0
_LEAST_S = 1e-5
"""Run time in seconds that a trace has for a run that took no time."""


class SlurmSimulator:
    """One simulation by a real Slurm.

    Parameters
    ----------
    platform, workload
        The machine and the jobs.
    folder
        Folder in which the record goes into a folder ``slurm``; ``None``: it is deleted.
    settings
        Settings of Slurm.
    deployed
        The policy that orders its queue; ``None``: its own order.

    Raises
    ------
    HdrlError
        If Slurm cannot simulate them, or something that is needed is missing.
    """

    def __init__(
        self,
        platform: Platform,
        workload: Workload,
        *,
        folder: Path | None,
        settings: SlurmSettings,
        deployed: Deployed | None = None,
    ) -> None:
        workload.check_simulated()
        check_rules(platform.site, workload.site)
        self.platform, self.workload = platform, workload
        self._folder, self._settings, self._deployed = folder, settings, deployed
        self._order = workload.submission_order()
        self._machine = machine_of(platform, workload, max_nodes=settings.daemons)
        rules = platform.site
        self._accounting = None
        if rules is not None and needs_accounting(rules):
            if deployed is not None:
                raise SimulationError(
                    "simulator 'slurm' deploys no policy where a site has fair share, accounts or QOS"
                )
            self._accounting = accounting_of(rules, plain_jobs(workload) if workload.site is None else workload.site)
        self._scheduling = [] if rules is None else scheduling_of(rules)
        if settings.conf is not None:
            self._scheduling = scheduling_lines(settings.conf)
        self._partitions: Sequence[str] = ONE_PARTITION
        self._of_nodes: Sequence[str] = ()
        self._requests: Sequence[JobRequests] = [NO_REQUESTS] * workload.n_jobs
        self._events: Sequence[PlannedCommand] = ()
        if rules is not None:
            site_requests = plain_jobs(workload) if workload.site is None else workload.site
            check_nodes(rules, site_requests, self._machine, platform.n_nodes)
            self._partitions = partition_lines(rules, self._machine)
            self._of_nodes = node_words(rules, self._machine)
            self._requests = requests_of(rules, site_requests, workload, self._order)
            self._events = events_of(
                rules, site_requests, self._machine, workload, self._order, self._requests, user_name()
            )
        self._requeues = rules is not None and _requeues(rules)
        self._kills = _kills(workload)
        self._submissions = self._submitted()
        self._trace: BatchTrace | None = None

    def run(self, policy: str, progress: Callable[[int, int], None] | None = None) -> None:
        """Simulate from the first submission to the last end.

        Parameters
        ----------
        policy
            The name of the policy, for the trace.
        progress
            Called with the numbers of finished and of all jobs.

        Raises
        ------
        SimulationError
            If Slurm fails, or this host is too slow for its clock.
        """
        settings, n_jobs = self._settings, self.workload.n_jobs
        self._check_time()
        with SlurmCluster(
            self._machine,
            settings,
            scheduling=self._scheduling,
            partitions=self._partitions,
            of_nodes=self._of_nodes,
            kills=self._kills,
            requeues=self._requeues,
            events=self._events,
            deployed=self._deployed,
            accounting=self._accounting,
        ) as cluster:
            outcome = cluster.run(self._submissions, _watching(n_jobs, progress))
            overhead_s = self._overhead_s(outcome)
            mean_s = statistics.fmean(overhead_s) if overhead_s else 0.0
            if mean_s > settings.max_overhead_s:
                raise SimulationError(
                    f"launching and ending took {mean_s:.1f} simulated s a job on this host, more than "
                    f"{settings.max_overhead_s:g} s (slurm.max_overhead_s): the result would reflect the host; "
                    f"lower slurm.speed below {settings.speed:g}, or stop other programs"
                )
            if self._folder is not None:
                self._record(policy, cluster, outcome, mean_s)
        info = {
            "simulator": "slurm",
            "slurm_version": outcome.version,
            "slurm_speed": settings.speed,
            "slurm_overhead_s": round(mean_s, 3),
            "slurm_late_s": round(outcome.late_s, 3),
            "policy": policy,
        }
        self._trace = self._traced(outcome, info)

    @property
    def trace(self) -> BatchTrace:
        """Trace of the simulation.

        Raises
        ------
        SimulationError
            If nothing has been simulated yet.
        """
        if self._trace is None:
            raise SimulationError("nothing has been simulated yet")
        return self._trace

    def close(self) -> None:
        """Do nothing: a run ends what it has started."""

    def _check_time(self) -> None:
        """Log the time that the run will take.

        Raises
        ------
        SimulationError
            If that is longer than the settings allow.
        """
        jobs, settings = self._submissions, self._settings
        busy_s = self._busy_s()
        takes_s = busy_s / settings.speed
        n_most = int(np.searchsorted(takes_s, 60 * settings.max_minutes, side="right"))
        whole_s = float(busy_s[-1]) if len(jobs) else 0.0
        if n_most < len(jobs):
            raise SimulationError(
                f"{len(jobs):,} jobs over {whole_s / 3600:,.1f} simulated hours at {settings.speed:g} times real time "
                f"would take about {takes_s[-1] / 60:,.0f} min, more than {settings.max_minutes:g} (slurm.max_minutes);"
                f" take the first {n_most:,} jobs (nb_jobs) or a higher limit"
            )
        _LOG.warning(
            "%s jobs over %.1f simulated hours at %g times real time: about %s; its ports are open to everyone on this "
            "host meanwhile (auth/none)",
            f"{len(jobs):,}",
            whole_s / 3600,
            settings.speed,
            _span_text(whole_s / settings.speed),
        )

    def _busy_s(self) -> NDArray[np.float64]:
        """Return the least time in seconds to run the first job, the first two jobs, and so on, shape ``(n_jobs,)``."""
        at_s = np.array([max(job.at_s, job.requests.until_s) for job in self._submissions])
        longest_s = np.array([job.run_s[0] for job in self._submissions])
        cores = np.array([job.cores for job in self._submissions])
        ends_s = np.maximum.accumulate(at_s + longest_s) - [job.at_s for job in self._submissions[:1]]
        busy_s: NDArray[np.float64] = np.maximum(ends_s, np.cumsum(longest_s * cores) / self.platform.n_cores)
        return busy_s

    def _submitted(self) -> list[Submission]:
        jobs = self.workload.jobs[self._order]
        by_speed, codes_of = zip(*(run_times_at(self.workload, one) for one in self._machine.speeds_flops), strict=True)
        run_s, codes = np.stack(by_speed, axis=1), codes_of[0]
        rules, site = self.platform.site, self.workload.site
        wanted: list[tuple[tuple[str, ...], int]] = [((), 0)] * len(jobs)
        firsts: Sequence[int | None] = [None] * len(jobs)
        if rules is not None and site is not None:
            site_requests = site.jobs[self._order]
            wanted = [(partitions_of(rules, int(one["partitions"])), int(one["nice"])) for one in site_requests]
            firsts = _firsts(site_requests["het_group"], run_s[self._order])
        of_user = [("" if self._deployed is None else account_of(int(job["user"])), "") for job in jobs]
        if self._accounting is not None:
            of_user = [self._accounting.submitted_by[job] for job in self._order.tolist()]
        return [
            Submission(
                at_s=float(job["submit_s"]),
                cores=int(job["cores"]),
                limit_min=_limit_min(float(job["walltime_s"] if self._kills else job["requested_time_s"])),
                run_s=tuple(times_s.tolist()),
                exit_code=int(code) & 255 or int(code != 0),
                memory_mib=math.ceil(job["memory_mib"]) if self._machine.counts_memory else None,
                partitions=partitions,
                nice=nice,
                account=account,
                qos=qos,
                first=first,
                requests=request,
            )
            for job, times_s, code, (partitions, nice), (account, qos), first, request in zip(
                jobs, run_s[self._order], codes[self._order], wanted, of_user, firsts, self._requests, strict=True
            )
        ]

    def _overhead_s(self, outcome: RunOutcome) -> list[float]:
        """Return by how much the jobs that ended by themselves ran longer than they had to."""
        number = {key: k for k, key in enumerate(outcome.keys)}
        found = []
        for one in outcome.completions:
            k = number.get(one.key)
            if k in outcome.cpus and one.state in ("COMPLETED", "FAILED") and one.start_s is not None:
                slowest = min(self._kind_of(name) for name in outcome.cpus[k])
                found.append(one.end_s - one.start_s - self._submissions[k].run_s[slowest])
        return found

    def _kind_of(self, name: str) -> int:
        return next(node.kind for node in self._machine.nodes if node.name == name)

    def _record(self, policy: str, cluster: SlurmCluster, outcome: RunOutcome, mean_overhead_s: float) -> None:
        assert self._folder is not None  # noqa: S101 - checked before
        folder = self._folder / FOLDER
        about = {
            "policy": policy,
            "speed": self._settings.speed,
            "node_cores": [len(node.cores) for node in self._machine.nodes],
            "overhead_s": mean_overhead_s,
        }
        jobs = self._submissions
        if self._accounting is None:  # accounts that stand for users
            jobs = [replace(job, account="") for job in jobs]
        conf = without_paths(outcome.conf, cluster.folder)
        folder.mkdir(exist_ok=True)
        write_run(folder, about, jobs, self._events, outcome, conf)
        try:
            cluster.copy_logs(folder)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be written ({error.strerror or error})") from None

    def _traced(self, outcome: RunOutcome, info: dict[str, Any]) -> BatchTrace:
        n_jobs = self.workload.n_jobs
        records = np.zeros(n_jobs, RECORD_DTYPE)
        records["start_s"] = records["run_s"] = records["energy_j"] = -1.0
        number = {key: k for k, key in enumerate(outcome.keys)}
        order: list[int] = []
        for one in outcome.completions:
            if one.state in BEGINS_ANEW and self._requeues:
                continue
            # A line about an array is about all of its tasks that never started.
            about = [number[one.key]] if one.key in number else self._left_of(one.job_id, outcome, order)
            if not about:
                raise SimulationError(f"Slurm ran a job {one.job_id} that hdrl did not submit: someone else used it")
            for k in about:
                job = int(self._order[k])
                self._note(records[job], job, k, one, outcome)
                order.append(job)
        if sorted(order) != list(range(n_jobs)):
            raise SimulationError(f"Slurm ended {len(set(order)):,} of {n_jobs:,} jobs")
        cores = self._allocate(records, {int(self._order[k]): cpus for k, cpus in outcome.cpus.items()})
        n_allocated = np.array([len(one) for one in cores], dtype=np.int64)
        records["n_cores"], records["first_core"] = n_allocated, np.cumsum(n_allocated) - n_allocated
        states = _machine_states(records, self.platform.n_cores)
        none = np.zeros(0)
        spans_s = np.diff(states["time_s"], append=outcome.end_s)
        return BatchTrace(
            platform=self.platform,
            workload=self.workload,
            records=records,
            completion_order=np.array(order, dtype=np.int64),
            allocated_cores=np.concatenate([np.zeros(0, np.int32), *cores]).astype(np.int32),
            machine_states=states,
            pstate_changes=np.zeros(0, PSTATE_CHANGE_DTYPE),
            pstate_cores=np.zeros(0, np.int32),
            energy=np.zeros(0, ENERGY_DTYPE),
            overutilization=OverUtilization(none, none, np.zeros(0, np.int32), none, none),
            consumed_j=0.0,
            end_s=float(np.max(records["start_s"] + records["run_s"], initial=0.0)),
            n_decisions=0,
            n_grouped_switches=0,
            n_machine_switches=0,
            time_in_state_s={
                "computing": float(np.dot(states["computing"], spans_s)),
                "idle": float(np.dot(states["idle"], spans_s)),
            },
            info=info,
        )

    def _left_of(self, array_id: int, outcome: RunOutcome, ended: Sequence[int]) -> list[int]:
        """Return the submissions of the tasks of an array that have not ended."""
        mine = [k for k, (number, task) in enumerate(outcome.keys) if number == array_id and task >= 0]
        return [k for k in mine if int(self._order[k]) not in ended]

    def _note(self, row: np.void, job: int, k: int, one: Completion, outcome: RunOutcome) -> None:
        """Write the outcome of a job into its row."""
        if one.start_s is None and one.state == "CANCELLED":
            row["state"] = JobState.REJECTED
            return
        if one.state not in _STATES or one.start_s is None:
            raise SimulationError(f"Slurm: job {one.job_id} ended as {one.state}, expected {', '.join(_STATES)}")
        if k not in outcome.cpus:
            raise SimulationError(f"Slurm: job {one.job_id} ended as {one.state} without running its script")
        row["state"] = _STATES[one.state]
        # Slurm's dates are whole seconds, so that a job could seem to start before its submission.
        row["start_s"] = max(one.start_s - outcome.epoch_s, float(self.workload.jobs["submit_s"][job]))
        row["run_s"] = max(one.end_s - outcome.epoch_s - row["start_s"], _LEAST_S)
        row["return_code"] = self._submissions[k].exit_code if one.state == "FAILED" else 0

    def _allocate(self, records: NDArray[np.void], cpus: dict[int, dict[str, int]]) -> list[NDArray[np.int64]]:
        """Return cores of each job on its nodes: the free ones with the lowest ids, for Slurm notes no more."""
        free = {node.name: node.cores.tolist() for node in self._machine.nodes}
        for heap in free.values():
            heapq.heapify(heap)
        end_s = records["start_s"] + records["run_s"]
        started = np.flatnonzero(records["start_s"] >= 0).tolist()
        dates = [(float(end_s[job]), 0, job) for job in started]
        dates += [(float(records["start_s"][job]), 1, job) for job in started]
        held: dict[int, list[tuple[str, int]]] = {job: [] for job in range(len(records))}
        for _, starts, job in sorted(dates):
            if starts:
                held[job] = [(name, heapq.heappop(free[name])) for name, n in cpus[job].items() for _ in range(n)]
            else:
                for name, core in held[job]:
                    heapq.heappush(free[name], core)
        return [np.array(sorted(core for _, core in held[job]), dtype=np.int64) for job in range(len(records))]


def _requeues(rules: SiteRules) -> bool:
    """Return whether jobs begin anew that lose their nodes, to others or as these fail."""
    return rules.preemption.by == PreemptBy.QOS or bool(np.any(rules.outages["is_drain"] == 0))


def account_of(user: int) -> str:
    """Return the account by which jobs of a user are submitted, since all of them are submitted by one user."""
    return f"u{user}" if user >= 0 else ""


def _firsts(groups: NDArray[np.int32], run_s: NDArray[np.float64]) -> list[int | None]:
    """Return the position of the first component of the het job of each job, ``None`` if it is no component.

    Parameters
    ----------
    run_s
        Run times in seconds on nodes of each kind, shape ``(n_jobs, n_kinds)``.

    Raises
    ------
    SimulationError
        If components do not all run equally long: in Slurm the end of the first one ends them all.
    """
    first, _ = components_of(groups)
    parts = np.flatnonzero(first >= 0)
    if np.any(run_s[parts] != run_s[first[parts], :1]):
        raise SimulationError(
            "simulator 'slurm' does not support het jobs whose components run for different times, or at different "
            "speeds: the end of the first component ends them all"
        )
    return [position if position >= 0 else None for position in first.tolist()]


def _kills(workload: Workload) -> bool:
    """Return whether all jobs are killed at the time that they ask for, or none is.

    Raises
    ------
    SimulationError
        If it is neither: Slurm has one limit of a job, which it plans by and kills at.
    """
    jobs = workload.jobs
    has_walltime = jobs["walltime_s"] != NO_WALLTIME
    if not np.any(has_walltime):
        return False
    if not np.all(has_walltime & (jobs["walltime_s"] == jobs["requested_time_s"])):
        raise SimulationError(
            "jobs are killed at other times than they request, but Slurm has one limit for both; simulator 'slurm' "
            "supports workload.walltime null, or 'requested' with walltime_factor 1"
        )
    return True


def _span_text(seconds: float) -> str:
    return f"{math.ceil(seconds)} s" if seconds < 100 else f"{math.ceil(seconds / 60)} min"


def _limit_min(limit_s: float) -> int | None:
    if not 0 < limit_s < math.inf:
        return None
    minutes = math.ceil(limit_s / 60)
    return minutes if minutes <= _LONGEST_LIMIT_MIN else None


def _machine_states(records: NDArray[np.void], n_cores: int) -> NDArray[np.void]:
    """Return the number of cores that compute after each start and end of a job."""
    records = records[records["start_s"] >= 0]
    end_s = records["start_s"] + records["run_s"]
    dates = np.concatenate([end_s, records["start_s"]])
    changes = np.concatenate([-records["n_cores"], records["n_cores"]])
    order = np.argsort(dates, kind="stable")
    states = np.zeros(len(dates), MACHINE_STATE_DTYPE)
    states["time_s"], states["computing"] = dates[order], np.cumsum(changes[order])
    states["idle"] = n_cores - states["computing"]
    return states


def _watching(n_jobs: int, progress: Callable[[int, int], None] | None) -> Callable[[dict[str, Any]], None]:
    """Return a function that passes reports to the progress, and logs a line with the simulated date every minute."""
    reported_s = time.monotonic()

    def watch(report: dict[str, Any]) -> None:
        nonlocal reported_s
        if report["kind"] != "progress":
            return
        if progress is not None:
            progress(int(report["ended"]), n_jobs)
        if time.monotonic() - reported_s > _REPORT_EVERY_S:
            reported_s = time.monotonic()
            counts = (report[name] for name in ("submitted", "started", "ended"))
            _LOG.warning(
                "%.2f simulated hours: %d of %d jobs submitted, %d started, %d ended",
                report["now_s"] / 3600,
                next(counts),
                n_jobs,
                *counts,
            )

    return watch


def slurm_simulator(
    platform: Platform,
    workload: Workload,
    *,
    slurm: SlurmSettings | None = None,
    folder: Path | None = None,
    compatibility: str | None = None,
    deployed: Deployed | None = None,
    **others: Any,
) -> SlurmSimulator:
    """Return a real Slurm; it draws nothing at random and measures no energy.

    Raises
    ------
    SimulationError
        If it is to behave like another system.
    """
    del others
    if compatibility is not None:
        raise SimulationError(f"simulator 'slurm' has no compatibility mode {compatibility!r}")
    settings = slurm or SlurmSettings()
    return SlurmSimulator(platform, workload, folder=folder, settings=settings, deployed=deployed)

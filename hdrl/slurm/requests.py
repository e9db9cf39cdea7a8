"""Requests of jobs and commands of administrators, in the words of sbatch, scontrol and scancel.

Words are filled in by `hdrl.slurm.driver`, when Slurm's numbers and date 0 are known: ``{id[3]}`` is the number of the
job of submission 3, with its task in an array; ``{job[3]}`` the number that sbatch gave; ``{date[60]}`` the date 60 s
after date 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import SimulationError
from hdrl.settings.batch.site_rules.model import UNLIMITED, DependencyKind, SiteJobs, SiteRules
from hdrl.settings.batch.workload.model import Workload
from hdrl.slurm.machine import SlurmMachine

KINDS = {
    DependencyKind.AFTER: "after",
    DependencyKind.AFTER_OK: "afterok",
    DependencyKind.AFTER_ANY: "afterany",
    DependencyKind.AFTER_NOT_OK: "afternotok",
    DependencyKind.SINGLETON: "singleton",
}
"""Words of sbatch for dependencies."""

Dependency = tuple[DependencyKind, int, int]
"""The kind, the submission that it is on, and minutes after that."""

LASTING = ("reservation", "failure", "drain")
"""Events of nodes that last until a date."""

_LONGEST_S = 10 * 365 * 86400.0
"""Duration of events without an end."""


class UnsupportedBySlurm(SimulationError):
    """A request or a rule that simulator `slurm` does not support."""

    def __init__(self, what: str) -> None:
        super().__init__(f"simulator 'slurm' does not support {what}; docs/slurm.md lists the rules that it does")


@dataclass(frozen=True, slots=True)
class JobRequests:
    """Requests of a job besides its partitions, niceness, account and QOS.

    Attributes
    ----------
    options
        Options of sbatch for this job or this component of a het job.
    filled
        More options of sbatch, whose words the driver fills in.
    first
        The submission of the first task of its array; ``None``: it is no task.
    namesake
        The submission whose name it has, by which Slurm finds jobs that wait for each other (``singleton``).
    until_s
        Date before which it may not start, in seconds after date 0.
    at_most
        Number of tasks of its array that may run at one time; ``None``: all.
    after
        Dependencies: the kind, the submission, and minutes after it.
    recorded
        Further requests that recordings keep, by key of ``jobs.json``.
    """

    options: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()
    first: int | None = None
    namesake: int | None = None
    until_s: float = 0.0
    at_most: int | None = None
    after: tuple[Dependency, ...] = ()
    recorded: Mapping[str, Any] = field(default_factory=dict)


NO_REQUESTS = JobRequests()


@dataclass(frozen=True, slots=True)
class PlannedCommand:
    """A command of a user or an administrator at a date.

    Attributes
    ----------
    at_s
        Date, in seconds after date 0.
    kind
        ``reservation``, ``failure``, ``drain`` or ``resume`` of nodes, ``release`` or ``cancel`` of a job.
    command
        The program and its arguments.
    job
        The submission that it changes.
    nodes
        The nodes of Slurm that it changes.
    span_s
        Begin and end of its effect, in seconds after date 0; reservations are known long before.
    """

    at_s: float
    kind: str
    command: tuple[str, ...]
    job: int | None = None
    nodes: tuple[str, ...] = ()
    span_s: tuple[float, float] | None = None

    @property
    def until_s(self) -> float:
        """The date until which jobs may wait for its end, in seconds after date 0; its own date if it has no end."""
        return self.at_s if self.span_s is None or self.span_s[1] >= _LONGEST_S else self.span_s[1]


def requests_of(
    rules: SiteRules, site_requests: SiteJobs, workload: Workload, order: NDArray[np.int64]
) -> list[JobRequests]:
    """Return the requests of each job, in the order of submission.

    Parameters
    ----------
    order
        The rows of the workload in the order of submission.

    Raises
    ------
    UnsupportedBySlurm
        If sbatch takes no such request.
    """
    jobs, position = site_requests.jobs[order], np.empty(len(order), np.int64)
    submit_s = workload.jobs["submit_s"][order]
    position[order] = np.arange(len(order))
    after: list[list[Dependency]] = [[] for _ in range(len(order))]
    for job, on, kind, delay_s in site_requests.dependencies.tolist():
        after[position[job]].append((DependencyKind(kind), int(position[on]), math.ceil(delay_s / 60)))
    _check_dependencies(after)
    names = _names(after)
    firsts = _first_tasks(jobs, workload.jobs[order], after)
    found = []
    for number, job in enumerate(jobs):
        options = [] if job["nodes"] == UNLIMITED else [f"--nodes={job['nodes']}-{len(rules.nodes)}"]
        options += ["--exclusive"] if job["is_exclusive"] else []
        features = feature_names(rules, job["features"])
        options += [f"--constraint={'&'.join(features)}"] if features else []
        date_s = float(submit_s[number])
        filled = [f"--begin={{date[{math.ceil(job['begin_s'])}]}}"] if job["begin_s"] > date_s else []
        filled += ["--hold"] if job["held_until_s"] > date_s else []
        if after[number]:
            filled += [f"--dependency={','.join(_dependency_words(after[number]))}", "--kill-on-invalid-dep=yes"]
        found.append(
            JobRequests(
                options=tuple(options),
                filled=tuple(filled),
                first=firsts[number],
                namesake=names[number],
                until_s=max(float(job["begin_s"]), float(job["held_until_s"]), date_s),
                at_most=int(job["array_limit"]) if job["array_limit"] > 0 else None,
                after=tuple(after[number]),
                recorded=_recorded(job, date_s, features),
            )
        )
    return found


def _recorded(job: np.void, submit_s: float, features: Sequence[str]) -> dict[str, Any]:
    dates = {
        "begin_s": float(job["begin_s"]) - submit_s,
        "hold_s": float(job["held_until_s"]) - submit_s,
        "cancel_after_s": float(job["cancelled_s"]) - submit_s,
    }
    return {
        **{name: value for name, value in dates.items() if 0 < value < math.inf},
        "throttle": max(int(job["array_limit"]), 0),
        "exclusive": bool(job["is_exclusive"]),
        "nodes": max(int(job["nodes"]), 0),
        "features": ",".join(features),
    }


def feature_names(rules: SiteRules, bits: int) -> list[str]:
    """Return the names of features of a node or a job."""
    return [name for bit, name in enumerate(rules.feature_names) if int(bits) >> bit & 1]


def _dependency_words(after: Sequence[Dependency]) -> Iterator[str]:
    if any(kind == DependencyKind.SINGLETON for kind, _, _ in after):
        yield KINDS[DependencyKind.SINGLETON]
    for kind, on, minutes in after:
        if kind != DependencyKind.SINGLETON:
            yield f"{KINDS[kind]}:{{id[{on}]}}" + (f"+{minutes}" if minutes else "")


def _check_dependencies(after: Sequence[Sequence[Dependency]]) -> None:
    for number, wanted in enumerate(after):
        for kind, on, minutes in wanted:
            if on >= number:
                raise UnsupportedBySlurm("dependencies on jobs that come later")
            if minutes and kind != DependencyKind.AFTER:
                raise UnsupportedBySlurm(f"delays of {KINDS[kind]}, since only after has them")


def _names(after: Sequence[Sequence[Dependency]]) -> list[int | None]:
    """Return the submission whose name each job has: with ``singleton`` that of the job that it waits for."""
    names: list[int | None] = []
    for wanted in after:
        found = {on if names[on] is None else names[on] for kind, on, _ in wanted if kind == DependencyKind.SINGLETON}
        if len(found) > 1:
            raise UnsupportedBySlurm("jobs that wait for jobs of several names (singleton)")
        names.append(found.pop() if found else None)
    return names


def _first_tasks(
    jobs: NDArray[np.void], of_workload: NDArray[np.void], after: Sequence[Sequence[Dependency]]
) -> list[int | None]:
    """Return the first task of the array of each job.

    Raises
    ------
    UnsupportedBySlurm
        If tasks of one array ask for different things, as sbatch takes one request for all.
    """
    compared = [*(name for name in jobs.dtype.names or () if name != "cancelled_s")]
    wants = ["submit_s", "cores", "requested_time_s", "walltime_s", "memory_mib"]
    first: dict[int, int] = {}
    found: list[int | None] = []
    for number, job in enumerate(jobs):
        if job["array"] < 0:
            found.append(None)
            continue
        one = first.setdefault(int(job["array"]), number)
        same_wants = all(of_workload[name][number] == of_workload[name][one] for name in wants)
        if not same_wants or job[compared] != jobs[compared][one] or after[number] != after[one]:
            raise UnsupportedBySlurm("arrays whose tasks ask for different things or come at different dates")
        if np.isfinite(job["cancelled_s"]) or any(kind == DependencyKind.SINGLETON for kind, _, _ in after[number]):
            raise UnsupportedBySlurm("arrays of which tasks are cancelled, or with singleton")
        found.append(one)
    return found


def events_of(
    rules: SiteRules,
    site_requests: SiteJobs,
    machine: SlurmMachine,
    workload: Workload,
    order: NDArray[np.int64],
    requests: Sequence[JobRequests],
    user: str,
) -> list[PlannedCommand]:
    """Return the commands of users and administrators while the jobs run.

    Parameters
    ----------
    order
        The rows of the workload in the order of submission.
    requests
        The requests of the jobs in that order, from `requests_of`.
    user
        Who may use reservations.
    """
    found = []
    for number, (start_s, end_s) in enumerate(rules.reservations.tolist()):
        begin_s, over_s = max(start_s - site_requests.origin_s, 0.0), min(end_s - site_requests.origin_s, _LONGEST_S)
        nodes = tuple(one.name for one in machine.nodes if rules.reservation_nodes[number, one.like])
        if over_s > begin_s and nodes:
            words = (
                *("scontrol", "create", "reservation", f"reservationname=r{number}", f"nodes={','.join(nodes)}"),
                *(f"starttime={{date[{int(begin_s)}]}}", f"endtime={{date[{math.ceil(over_s)}]}}"),
                *(f"user={user}", "flags=maint,ignore_jobs"),
            )
            found.append(PlannedCommand(0.0, "reservation", words, nodes=nodes, span_s=(begin_s, over_s)))
    found += _outages(rules, site_requests.origin_s, machine)
    jobs, submit_s = site_requests.jobs[order], workload.jobs["submit_s"][order]
    for number, job in enumerate(jobs):
        until_s, at_s = float(job["held_until_s"]), float(submit_s[number])
        if until_s > at_s and requests[number].first in (None, number):  # sbatch submits an array once
            found.append(PlannedCommand(until_s, "release", ("scontrol", "release", f"{{job[{number}]}}"), number))
        if np.isfinite(job["cancelled_s"]):
            cancelled_s = max(float(job["cancelled_s"]), at_s)
            found.append(PlannedCommand(cancelled_s, "cancel", ("scancel", f"{{id[{number}]}}"), number))
    return found


def _outages(rules: SiteRules, origin_s: float, machine: SlurmMachine) -> list[PlannedCommand]:
    """Return when nodes fail or are drained, and when they are back."""
    together: dict[tuple[float, float, int], list[str]] = {}
    for node, start_s, end_s, is_drain in rules.outages[["node", "start_s", "end_s", "is_drain"]].tolist():
        names = [one.name for one in machine.nodes if one.like == node]
        together.setdefault((start_s - origin_s, end_s - origin_s, is_drain), []).extend(names)
    found = []
    for (start_s, end_s, is_drain), names in together.items():
        begin_s, over_s = max(start_s, 0.0), min(end_s, _LONGEST_S)
        if not names or over_s <= begin_s:
            continue
        kind, state = ("drain", "drain") if is_drain else ("failure", "down")
        words = ("scontrol", "update", f"nodename={','.join(names)}")
        down = (*words, f"state={state}", "reason=hdrl")
        found.append(PlannedCommand(begin_s, kind, down, nodes=tuple(names), span_s=(begin_s, over_s)))
        found.append(PlannedCommand(over_s, "resume", (*words, "state=resume")))
    return found

"""Checks that every simulation, and every policy, must pass.

They look at the Trace alone and share no code with the simulators: speeds and powers are integrated anew from the
P-state log and the intervals in which jobs ran. What fails raises an `AssertionError` that says where.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.policies import PolicyFunction, simulate
from hdrl.settings.batch.simulation.hosts import power_without_jobs_w, reported_pstates
from hdrl.settings.batch.simulation.trace import BatchTrace, JobState, OverUtilization
from hdrl.settings.batch.workload.history import LogHistory
from hdrl.settings.batch.workload.model import StepKind, Workload
from hdrl.testing.worlds import World, check_worlds

SHORTEST_RUN_S = 1e-5
"""Run time that is recorded for a job that took no time."""

_ENDED = frozenset(range(JobState.COMPLETED_SUCCESSFULLY, JobState.COMPLETED_KILLED + 1))
_TOLERANCE_S = 1e-8  # internal letters take up to some 1e-9 s each


def _require(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


# ------------------------------------------------------------------ one policy


def check_policy(
    policy: str | PolicyFunction, *, seed: int = 0, worlds: Mapping[str, World] | None = None, starts_all: bool = True
) -> None:
    """Check a policy on small worlds: its simulations are sound, and equal when they are repeated.

    Parameters
    ----------
    policy
        The name of a policy or a function from views to decisions. What it returns must depend on the view
        (and on what it has seen of the same simulation) alone.
    starts_all
        True if all jobs must have run in the end, none being rejected.

    Raises
    ------
    AssertionError
        If a check fails.
    """
    for name, world in (check_worlds() if worlds is None else worlds).items():
        trace = run_policy(policy, world, seed=seed)
        try:
            check_trace(trace)
            if starts_all:
                rejected = np.flatnonzero(trace.records["state"] == JobState.REJECTED)
                _require(not len(rejected), f"jobs {rejected.tolist()} were rejected")
            difference = trace_differences(trace, run_policy(policy, world, seed=seed))
            _require(not difference, f"a second run differs in {', '.join(difference)}")
            _check_without_energy(trace, run_policy(policy, world, seed=seed, energy=False))
        except AssertionError as error:
            raise AssertionError(f"world {name!r}: {error}") from None


def run_policy(policy: str | PolicyFunction, world: World, *, seed: int = 0, energy: bool = True) -> BatchTrace:
    """Simulate a world under a policy."""
    rules = world.platform.rules
    mode = rules.name if rules is not None and rules.name != "default" else None
    return simulate(world.platform, world.workload, policy, seed=seed, energy=energy, compatibility=mode)


def _check_without_energy(trace: BatchTrace, without: BatchTrace) -> None:
    for name in ("state", "start_s", "run_s", "first_core", "n_cores"):
        same = np.allclose(trace.records[name], without.records[name], rtol=0.0, atol=_TOLERANCE_S)
        _require(same, f"without energy, {name!r} differs")
    _require(set(without.records["energy_j"].tolist()) <= {-1.0}, "without energy, jobs have energies")


def trace_differences(left: BatchTrace, right: BatchTrace) -> list[str]:
    """Return the names of the parts in which two traces differ, to the last bit; ``info`` is left out."""
    return [
        field.name
        for field in fields(BatchTrace)
        if field.name != "info" and not _same(getattr(left, field.name), getattr(right, field.name))
    ]


def _same(left: object, right: object) -> bool:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    for kind in (OverUtilization, Workload, LogHistory):
        if isinstance(left, kind):
            return all(_same(getattr(left, f.name), getattr(right, f.name)) for f in fields(kind))
    return bool(left == right)


# ------------------------------------------------------------------ one trace


def check_trace(trace: BatchTrace) -> None:
    """Check that a simulation is sound.

    All jobs have ended, each once; each ran after its submission, on as many distinct cores as it requested; no core
    served two jobs at a time; no node's memory was over-committed; nothing ran longer than its walltime. With energy,
    also: the work of each job equals the integral of the speed of its slowest core, and energies equal the integral
    of power.

    Raises
    ------
    AssertionError
        If a check fails.
    """
    _check_jobs(trace)
    _check_cores(trace)
    _check_memory(trace)
    if trace.has_energy:
        histories = _histories(trace)
        for job in _started(trace):
            _check_work(trace, histories, job)
        _check_energy(trace, histories)


def _started(trace: BatchTrace) -> list[int]:
    return np.flatnonzero(trace.records["run_s"] >= 0).tolist()


def _ends_s(trace: BatchTrace) -> NDArray[np.float64]:
    """Return the end of each job, in seconds; a run time of 1e-5 s stands for none at all."""
    run_s = trace.records["run_s"]
    return np.asarray(trace.records["start_s"] + np.where(run_s == SHORTEST_RUN_S, 0.0, run_s))


def _check_jobs(trace: BatchTrace) -> None:
    jobs, records = trace.workload.jobs, trace.records
    order = sorted(trace.completion_order.tolist())
    _require(order == list(range(trace.workload.n_jobs)), "not every job has ended once")
    for job in range(trace.workload.n_jobs):
        record = records[job]
        if record["state"] == JobState.REJECTED:
            _require(record["run_s"] < 0, f"job {job} was rejected and has a run time")
            continue
        _require(int(record["state"]) in _ENDED, f"job {job} has state {JobState(int(record['state'])).name}")
        cores = trace.cores_of(job)
        _require(len(set(cores.tolist())) == jobs["cores"][job], f"job {job} ran on cores {cores.tolist()}")
        _require(list(cores) == sorted(cores), f"job {job}: its cores are not in order")
        _require(record["start_s"] >= jobs["submit_s"][job], f"job {job} started before it was submitted")
        limit_s = jobs["walltime_s"][job]
        _require(limit_s < 0 or record["run_s"] <= limit_s + SHORTEST_RUN_S, f"job {job} ran past its walltime")


def _check_cores(trace: BatchTrace) -> None:
    ends_s = _ends_s(trace)
    uses: dict[int, list[tuple[float, float, int]]] = {}
    for job in _started(trace):
        for core in trace.cores_of(job).tolist():
            uses.setdefault(core, []).append((float(trace.records["start_s"][job]), float(ends_s[job]), job))
    for core, spans in uses.items():
        for before, after in pairwise(sorted(spans)):
            _require(after[0] >= before[1], f"core {core} serves jobs {before[2]} and {after[2]} at t={after[0]:g} s")


def _check_memory(trace: BatchTrace) -> None:
    platform = trace.platform
    node_of_core = platform.node_of_processor[platform.processor_of_core]
    ends_s = _ends_s(trace)
    events = []
    for job in _started(trace):
        memory_mib = float(trace.workload.jobs["memory_mib"][job])
        for node in node_of_core[trace.cores_of(job)].tolist():
            events.append((float(ends_s[job]), 0, node, -memory_mib))
            events.append((float(trace.records["start_s"][job]), 1, node, memory_mib))
    used_mib = np.zeros(platform.n_nodes)
    momentary = {e[0] for e in events if e[1] == 0} & {e[0] for e in events if e[1] == 1}
    for time_s, _, node, change_mib in sorted(events):
        used_mib[node] += change_mib
        too_much = used_mib[node] > platform.memory_mib[node] * (1 + 1e-12) and time_s not in momentary
        _require(not too_much, f"t={time_s:g} s: node {node} lends {used_mib[node]:g} MiB")


# ------------------------------------------------------------------ speed and power


@dataclass(frozen=True, slots=True)
class _History:
    """P-states of one core: dates at which they began, and which they were."""

    times_s: list[float]
    pstates: list[int]

    def at(self, time_s: float) -> int:
        return self.pstates[max(0, bisect_right(self.times_s, time_s) - 1)]

    def changes_between(self, start_s: float, end_s: float) -> list[float]:
        return [t for t in self.times_s if start_s < t < end_s]


def _histories(trace: BatchTrace) -> list[_History]:
    histories = [_History([0.0], [int(pstate)]) for pstate in trace.platform.initial_pstate]
    times_s, cores, pstates = reported_pstates(trace)
    known = np.flatnonzero(pstates >= 0)
    for row in known[np.argsort(times_s[known], kind="stable")].tolist():
        histories[cores[row]].times_s.append(float(times_s[row]))
        histories[cores[row]].pstates.append(int(pstates[row]))
    return histories


@dataclass(frozen=True, slots=True)
class _Phase:
    """A stretch of a job's life in which no core changes its P-state: ``flops`` is the pace, 0 in a delay."""

    start_s: float
    end_s: float
    flops: float


def _phases(trace: BatchTrace, histories: list[_History], job: int) -> Iterator[_Phase]:
    """Yield the stretches of a job's life, by walking through its steps."""
    cores = trace.cores_of(job).tolist()
    now_s = float(trace.records["start_s"][job])
    end_s = float(_ends_s(trace)[job])
    changes = sorted({t for core in cores for t in histories[core].changes_between(now_s, end_s)})
    for kind, amount in _work_of(trace, job):
        if kind == StepKind.DELAY:
            until_s = min(end_s, now_s + amount)
            yield _Phase(now_s, until_s, 0.0)
            now_s = until_s
            continue
        while amount > 0.0 and now_s < end_s:
            flops = min(float(trace.platform.speed_flops[core, histories[core].at(now_s)]) for core in cores)
            later = bisect_right(changes, now_s)
            until_s = min(changes[later] if later < len(changes) else end_s, now_s + amount / flops)
            yield _Phase(now_s, until_s, flops)
            amount -= flops * (until_s - now_s)
            # Late dates cannot tell short stretches apart: at 1e9 s, the clock's resolution is 1.2e-7 s.
            amount = amount if amount > flops * max(_TOLERANCE_S, np.spacing(until_s)) else 0.0
            now_s = until_s


def _work_of(trace: BatchTrace, job: int) -> Iterator[tuple[int, float]]:
    """Yield kind and amount (seconds, or flop per core) of the steps that a job does if nothing stops it."""
    workload = trace.workload
    profile = int(workload.jobs["profile"][job])
    for step in workload.steps[workload.first_step[profile] : workload.first_step[profile + 1]]:
        kind, amount = int(step["kind"]), float(step["amount"])
        if kind == StepKind.RETURN:
            return
        yield kind, amount / int(trace.records["n_cores"][job]) if kind == StepKind.COMPUTE_TOTAL else amount
        if step["return_code"] != 0:
            return


def _check_work(trace: BatchTrace, histories: list[_History], job: int) -> None:
    """Check that a job's steps take as long as it ran."""
    record = trace.records[job]
    phases = list(_phases(trace, histories, job))
    done_s = phases[-1].end_s if phases else float(record["start_s"])
    end_s = float(_ends_s(trace)[job])
    _require(abs(done_s - end_s) < 2e-7, f"job {job} ended at {end_s!r} s, but its work takes until {done_s!r} s")
    if record["state"] not in (JobState.COMPLETED_SUCCESSFULLY, JobState.COMPLETED_FAILED):
        return
    wanted = sum(amount for kind, amount in _work_of(trace, job) if kind != StepKind.DELAY)
    done = sum(phase.flops * (phase.end_s - phase.start_s) for phase in phases)
    fastest = float(trace.platform.speed_flops.max())
    _require(abs(done - wanted) <= 1e-9 * wanted + fastest * 1e-6, f"job {job} computed {done:g} of {wanted:g} flop")


def energy_of_cores(trace: BatchTrace, start_s: float, end_s: float) -> NDArray[np.float64]:
    """Return joules per core between two dates, from the P-state log and the jobs' intervals alone."""
    histories = _histories(trace)
    idle_w = power_without_jobs_w(trace.platform)
    energy_j = np.zeros(trace.platform.n_cores)
    for core, history in enumerate(histories):
        energy_j[core] = _idle_j(idle_w[core], history, start_s, end_s)
    for job in _started(trace):
        for core, extra_j in _extra_j(trace, histories, job, start_s, end_s):
            energy_j[core] += extra_j
    return energy_j


def _idle_j(idle_w: NDArray[np.float64], history: _History, start_s: float, end_s: float) -> float:
    """Return the energy of a core that does nothing, by its power in each P-state, between two dates, in joules."""
    dates = [start_s, *history.changes_between(start_s, end_s), end_s]
    return sum(float(idle_w[history.at(begin_s)]) * (until_s - begin_s) for begin_s, until_s in pairwise(dates))


def _extra_j(
    trace: BatchTrace, histories: list[_History], job: int, start_s: float, end_s: float
) -> Iterator[tuple[int, float]]:
    """Yield the energy of a job's cores between two dates beyond that of cores that do nothing, in joules."""
    for phase in _phases(trace, histories, job):
        begin_s, until_s = max(phase.start_s, start_s), min(phase.end_s, end_s)
        if phase.flops <= 0.0 or until_s <= begin_s:
            continue
        for core in trace.cores_of(job).tolist():
            yield core, _extra_w(trace, core, histories[core].at(begin_s), phase.flops) * (until_s - begin_s)


def _extra_w(trace: BatchTrace, core: int, pstate: int, flops: float) -> float:
    """Return the power of a core that computes beyond that of one that does nothing, in watts."""
    platform = trace.platform
    load = min(1.0, flops / float(platform.speed_flops[core, pstate] * platform.host_cores[core]))
    epsilon_w, full_w = float(platform.epsilon_w[core, pstate]), float(platform.full_w[core, pstate])
    return epsilon_w + load * (full_w - epsilon_w) - float(platform.idle_w[core, pstate])


def _check_energy(trace: BatchTrace, histories: list[_History]) -> None:
    ends_s = _ends_s(trace)
    started = _started(trace)
    most_w = float(trace.platform.full_w.max()) * trace.platform.n_cores
    idle_w = power_without_jobs_w(trace.platform)
    for job in started:
        span = float(trace.records["start_s"][job]), float(ends_s[job])
        wanted_j = sum(_idle_j(idle_w[core], histories[core], *span) for core in trace.cores_of(job).tolist())
        wanted_j += sum(extra_j for _, extra_j in _extra_j(trace, histories, job, *span))
        found_j = float(trace.records["energy_j"][job])
        close = abs(found_j - wanted_j) <= 1e-8 * wanted_j + most_w * 2e-7
        _require(close, f"job {job} took {found_j!r} J, expected {wanted_j!r} J")
    if started:
        first_s = float(trace.workload.jobs["submit_s"].min())
        wanted_j = float(energy_of_cores(trace, first_s, float(ends_s[started].max())).sum())
        close = abs(trace.consumed_j - wanted_j) <= 1e-8 * wanted_j + most_w * 2e-7
        _require(close, f"the platform took {trace.consumed_j!r} J, expected {wanted_j!r} J")

"""Values of policies of the kernel on windows of logs: many whole simulations, on all cores, without Python between.

Each window of a log is simulated under every candidate and under the log's best classic, on the same jobs and with the
same history; it reports logarithms of ratios, since windows differ by orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import OptionsError, SimulationError, UnknownName
from hdrl.base.seeding import stream
from hdrl.base.windows import PARTS, index_of_share, range_of_shares, side_by_side
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.fields import Role, names_of
from hdrl.envs.episodes import Part
from hdrl.metrics.formulas import bounded_slowdown, percentiles, slowdown
from hdrl.settings.batch.kernel import codes, entries
from hdrl.settings.batch.kernel.beginning import PolicyRule
from hdrl.settings.batch.kernel.state import BatchState, new_state
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.policies.choices import PolicyPair
from hdrl.settings.batch.policies.pairs import heuristic_names, read_pair
from hdrl.settings.batch.site_rules.simulator import SiteSimulator
from hdrl.settings.batch.workload.model import Workload

Floats = NDArray[np.float64]
T = TypeVar("T")
U = TypeVar("U")

N_SELECTION_WINDOWS = 16
"""Number of windows of its part on which the best classic of a log is found."""

_STEPS_PER_CALL = 1 << 40
_CHANGING = names_of(BatchState, Role.OWN, Role.SCRATCH)


OBJECTIVES: Mapping[str, Callable[[Floats, Floats], float]] = MappingProxyType(
    {
        "mean_bounded_slowdown": lambda wait_s, run_s: float(bounded_slowdown(wait_s, run_s).mean()),
        "mean_slowdown": lambda wait_s, run_s: float(slowdown(wait_s, run_s).mean()),
        "mean_wait_s": lambda wait_s, _run_s: float(wait_s.mean()),
        "mean_turnaround_s": lambda wait_s, run_s: float((wait_s + run_s).mean()),
    }
)
"""Objectives of windows, less is better: metrics by their names, of waiting and run times in seconds."""

ADDED: Mapping[str, float] = MappingProxyType({"mean_wait_s": 1.0})
"""Constant added to an objective that may be 0 before logarithms and ratios are taken, in its unit."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Results of each candidate, of shape ``(n_candidates,)`` each; all logs count the same."""

    log_values: Floats  # mean logarithm of the objective, with what `ADDED` adds
    log_ratios: Floats  # the same of that divided by that of the best classic
    log_tail_ratios: Floats  # the same of the 99th percentiles of the waiting times, each plus a minute


@dataclass(frozen=True, eq=False)
class JudgedLog:
    """A log that windows are drawn from."""

    # the machine and all jobs
    platform: Platform
    workload: Workload
    # the part: the position of its first job, and the one after its last
    first: int
    last: int
    n_jobs: int  # jobs of a window
    objective: str  # a name of `OBJECTIVES`
    reference: str  # the policy that ratios refer to

    @classmethod
    def of(
        cls,
        platform: Platform,
        workload: Workload,
        *,
        n_jobs: int | str,
        part: Part,
        first_n_jobs: int,
        objective: str,
        reference: str,
        n_threads: int,
    ) -> JudgedLog:
        """Return a part of a log and its best classic.

        Parameters
        ----------
        n_jobs
            Jobs of a window; ``"all"``: the whole part.
        part
            A name, two shares, or two positions among the jobs of the first log.
        first_n_jobs
            Number of jobs of the first log: the same shares of this one are meant.
        reference
            ``"best"``, or a policy.
        n_threads
            Number of threads that look for the best one.

        Raises
        ------
        OptionsError
            If the part holds no such window.
        UnknownName
            If there is no such objective or policy.
        """
        if objective not in OBJECTIVES:
            raise UnknownName("objective", objective, OBJECTIVES)
        first, last = _window_bounds(part, workload, first_n_jobs)
        length = last - first if n_jobs == "all" else int(n_jobs)
        if not 0 < length <= last - first:
            raise OptionsError(
                f"n_jobs is {n_jobs}, but the part of {workload.name} holds {last - first:,} jobs, expected at most"
                " that many"
            )
        log = cls(platform, workload, first, last, length, objective, reference)
        if reference != "best":
            read_pair(reference)
            return log
        return cls(platform, workload, first, last, length, objective, log.best_classic(n_threads))

    def best_classic(self, n_threads: int, *, suffix: str = "") -> str:
        """Return the best priority x order of EASY on windows of the part, by the mean logarithm of the objective.

        ``suffix``: what follows their names: ``"@geo"`` for those that use predictions.
        """
        names = heuristic_names(suffix)
        values = self.selection_values([read_pair(name) for name in names], n_threads)
        return names[int(np.mean(elementary.log(values), axis=0).argmin())]

    def selection_values(self, policies: Sequence[PolicyPair], n_threads: int) -> Floats:
        """Return the objective on the windows that select the best classic, shape ``(n_windows, n_policies)``."""
        n_windows = min(N_SELECTION_WINDOWS, (self.last - self.first) // self.n_jobs)
        starts = side_by_side((self.first, self.last), self.n_jobs, n_windows)
        outcomes = in_threads(lambda start: self.outcomes(start, policies), starts, n_threads)
        return np.array([[one.value for one in row] for row in outcomes])

    def outcomes(
        self,
        start: int,
        policies: Sequence[PolicyPair],
        *,
        n_jobs: int | None = None,
        warm_up: int = 0,
        follow_up: int = 0,
    ) -> list[WindowOutcome]:
        """Simulate a window under some policies.

        - ``start``: position of its first job that counts.
        - ``n_jobs``: jobs that count; ``None``: as many as a window has.
        - ``warm_up``, ``follow_up``: jobs before and after these that are simulated, too.
        """
        n_jobs = self.n_jobs if n_jobs is None else n_jobs
        window = self.workload.window(start - warm_up, warm_up + n_jobs + follow_up)
        counting = slice(warm_up, warm_up + n_jobs)
        if self.platform.site is not None:
            return [self._outcome_at_site(window, policy, counting) for policy in policies]
        simulations: dict[tuple[PolicyRule, int], _Simulation] = {}
        results = []
        for policy in policies:
            plain, n_weights = replace(policy.rule, weights=()), len(policy.rule.weights)  # what the arrays depend on
            if (plain, n_weights) not in simulations:
                simulations[plain, n_weights] = _Simulation(self.platform, window, plain, n_weights)
            wait_s, run_s = (times[counting] for times in simulations[plain, n_weights].waits_and_runs(policy))
            results.append(WindowOutcome.of(self.objective, wait_s, run_s))
        return results

    def _outcome_at_site(self, window: Workload, policy: PolicyPair, counting: slice) -> WindowOutcome:
        """Simulate a window under the rules of the site; jobs that never started count for nothing."""
        simulator = SiteSimulator(self.platform, window, policy.rule)
        simulator.run_pair(*policy.numbers)
        trace = simulator.trace
        records, submit_s = trace.records[counting], trace.workload.jobs["submit_s"][counting]
        has_run = records["run_s"] >= 0
        if not has_run.any():
            raise SimulationError(f"no job of a window of {self.workload.name} started under the rules of the site")
        return WindowOutcome.of(self.objective, (records["start_s"] - submit_s)[has_run], records["run_s"][has_run])


@dataclass(frozen=True, slots=True)
class WindowOutcome:
    """Result of a window."""

    value: float  # the objective, with what `ADDED` adds
    tail_s: float  # the 99th percentile of the waiting times plus a minute, in seconds
    longest_s: float  # the longest waiting time in seconds

    @classmethod
    def of(cls, objective: str, wait_s: Floats, run_s: Floats) -> WindowOutcome:
        """Return the result of a window from the times of its jobs.

        ``wait_s``, ``run_s``: waiting and run times of the jobs that count, in seconds.
        """
        tail_s = float(percentiles(wait_s, (99,))[0]) + 60.0
        return cls(OBJECTIVES[objective](wait_s, run_s) + ADDED.get(objective, 0.0), tail_s, float(wait_s.max()))


def run_policies(
    platform: Platform, loads: Sequence[Workload], policies: Sequence[PolicyPair], objective: str, *, n_threads: int
) -> Floats:
    """Simulate whole workloads under policies; return the objective, shape ``(n_policies, n_loads)``."""
    if objective not in OBJECTIVES:
        raise UnknownName("objective", objective, OBJECTIVES)
    logs = [JudgedLog(platform, load, 0, load.n_jobs, load.n_jobs, objective, "") for load in loads]
    tasks = [(log, policy) for policy in policies for log in logs]
    values = in_threads(lambda task: task[0].outcomes(0, [task[1]])[0].value, tasks, n_threads)
    return np.reshape(values, (len(policies), len(logs))) - ADDED.get(objective, 0.0)


def judge(
    logs: Sequence[JudgedLog],
    candidates: Sequence[PolicyPair],
    n_windows: int,
    draw: tuple[int, int],
    *,
    n_threads: int,
) -> Judged:
    """Judge candidates on windows that are drawn from logs, the same ones for all.

    ``draw``: seed and number of the draw.
    """
    seed, number = draw
    tasks = []
    for i, log in enumerate(logs):
        random = stream(seed, f"windows of log {i}, {number}")
        tasks += [(log, int(start)) for start in random.integers(log.first, log.last - log.n_jobs + 1, n_windows)]

    def compared(task: tuple[JudgedLog, int]) -> NDArray[np.float64]:
        log, start = task
        reference, *others = log.outcomes(start, [read_pair(log.reference), *candidates])
        ratios = [(one.value, one.value / reference.value, one.tail_s / reference.tail_s) for one in others]
        return elementary.log(ratios)

    means = np.mean(in_threads(compared, tasks, n_threads), axis=0)
    return Judged(means[:, 0], means[:, 1], means[:, 2])


def in_threads(function: Callable[[T], U], tasks: Sequence[T], n_threads: int) -> list[U]:
    """Return the results of a function for each task, in their order; compiled code runs in parallel."""
    if n_threads == 1 or len(tasks) == 1:
        return [function(task) for task in tasks]
    with ThreadPoolExecutor(min(n_threads, len(tasks))) as pool:
        return list(pool.map(function, tasks))


def _window_bounds(part: Part, workload: Workload, first_n_jobs: int) -> tuple[int, int]:
    if isinstance(part, str):
        if part not in PARTS:
            raise UnknownName("part", part, PARTS)
        part = PARTS[part]
    low, high = part
    if isinstance(low, int) and isinstance(high, int):
        if workload.n_jobs == first_n_jobs:
            return low, high
        low, high = low / first_n_jobs, high / first_n_jobs
        return index_of_share(low, workload.n_jobs), index_of_share(high, workload.n_jobs)
    return range_of_shares((float(low), float(high)), workload.n_jobs, what="part", items=f"jobs of {workload.name}")


class _Simulation:
    """Simulate a window under policies that need the same arrays, in the same memory.

    New arrays for each policy would take 15 % longer (0.97 instead of 0.84 s for 600 windows of 256 jobs).
    """

    def __init__(self, platform: Platform, window: Workload, rule: PolicyRule, n_weights: int) -> None:
        initial = new_state(platform, window, energy=False, logging=False, rule=rule)
        initial.scalars["follows_progress"] = 0
        own = {name: getattr(initial, name).copy() for name in _CHANGING}
        self._state = initial._replace(**own, weights=np.zeros(n_weights))
        self._borrowed = Borrowed(self._state)
        self._restored = [(own[name].view(np.uint8), getattr(initial, name).view(np.uint8)) for name in own]

    def waits_and_runs(self, policy: PolicyPair) -> tuple[Floats, Floats]:
        """Return the waiting and run times of the jobs under a policy, in seconds."""
        for target, source in self._restored:
            np.copyto(target, source)
        self._state.weights[:] = policy.rule.weights
        entries.begin(self._borrowed)
        numbers = policy.job_key, policy.core_key, _STEPS_PER_CALL, policy.backfilling
        status = entries.run_pair(self._borrowed, *numbers)
        if status != codes.ENDED:
            raise SimulationError(f"a window ended with status {status}")
        jobs = self._state.jobs
        return jobs["start_s"] - jobs["submit_s"], jobs["run_s"].copy()

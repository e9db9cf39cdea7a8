"""The arrays behind a batch of policy-pair environments, how a row of them begins an episode, and the Trace of one.

Episodes begin often, so that little may happen then in Python: the rows of all jobs are made once, and compiled code
picks from them (`kernel.episodes`). The Trace is of a second simulation, by the actions that were taken, with all logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import WorkloadError
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.counts import new_counts
from hdrl.compiled.fields import alone, copied, for_another_thread, repeated, saved
from hdrl.compiled.serving import RESET, STEP
from hdrl.compiled.team import new_team
from hdrl.compiled.twister import python_twister_state, twister_state
from hdrl.envs.episodes import EpisodePlan, Window
from hdrl.settings.batch.kernel import codes, episodes, observe
from hdrl.settings.batch.kernel.beginning import NO_RULE, PolicyRule
from hdrl.settings.batch.kernel.episodes import EpisodeArrays, Origin, Section, new_origin
from hdrl.settings.batch.kernel.observe import MINIMAL, N_QUEUE_VALUES, N_SUMS, Watch, new_watches
from hdrl.settings.batch.kernel.state import BatchState, new_state
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.answer import grown_for, with_room_for_decisions
from hdrl.settings.batch.simulation.collect import collect_trace
from hdrl.settings.batch.simulation.embedded import first_state
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.simulators import HDEEPRM
from hdrl.settings.batch.workload.model import Workload

SWITCHING = PolicyRule(node_rule=codes.NODES_BY_NUMBER, decides_idle=True)
"""Rule of a simulation in which actions say which nodes are on."""


def window_workload(workloads: Sequence[Workload], window: Window) -> Workload:
    """Return the jobs of an episode as a workload.

    A window that is all of a workload is the workload itself; the first job of any other is submitted at date 0.
    """
    workload = workloads[window.workload]
    if window.start == 0 and window.n_jobs == workload.n_jobs:
        return workload
    return workload.window(window.start, window.n_jobs)


def watches_of(
    sizes: tuple[int, int, int],
    scalars: dict[str, float],
    *,
    pairs: NDArray[np.int64],
    off_after_s: NDArray[np.float64],
    limits: NDArray[np.float64],
    shares: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> Watch:
    """Return the watches of a batch.

    ``sizes``: number of environments, of jobs of each, and of actions that are kept; the rest as in `PairRows`.
    """
    watches = new_watches(*sizes, len(pairs))._replace(
        pairs=np.ascontiguousarray(pairs),
        off_after_s=off_after_s,
        limits=limits,
        speed_share=shares[0],
        power_share=shares[1],
    )
    for name, value in scalars.items():
        watches.rows[name] = value
    return watches


class JobTable:
    """The jobs of some workloads at date 0, as the kernel keeps them.

    Of each workload there are two sections: its jobs in their own order, for episodes of all of them, and by date, for
    windows.

    Attributes
    ----------
    steps
        The steps of all profiles, one workload's after the other's.

    Raises
    ------
    WorkloadError
        If the numbers of sources differ.
    """

    def __init__(self, platform: Platform, workloads: Sequence[Workload]) -> None:
        for one in workloads:
            one.check_simulated()
            if len(one.sources) != len(workloads[0].sources):
                raise WorkloadError(
                    f"{one.name} has {len(one.sources)} sources and {workloads[0].name} {len(workloads[0].sources)};"
                    " workloads of one environment must have the same number"
                )
        states = [new_state(platform, one, logging=False) for one in workloads]
        self.steps = np.concatenate([state.steps for state in states])
        self._sections: list[Section] = []
        n_steps = 0
        for one, state in zip(workloads, states, strict=True):
            state.jobs["first_step"] += n_steps
            state.jobs["end_step"] += n_steps
            n_steps += len(state.steps)
            whole = Section(state.jobs, one.jobs["source"], one.submission_order())
            self._sections += whole, _by_date(whole)
        self._begins = np.cumsum([0, *(len(section.jobs) for section in self._sections)])

    def n_allocated(self, plan: EpisodePlan) -> int:
        """Return the largest number of cores that the jobs of a window request altogether."""
        cores = (np.sort(section.jobs["n_requested"].astype(np.int64)) for section in self._sections)
        return max(int(of_section[-plan.max_jobs :].sum()) for of_section in cores)

    def origin(self, n_environments: int) -> Origin:
        """Return the initial data of environments with these jobs."""
        return new_origin(self._sections, n_environments)

    def choose(self, origin: Origin, environment: int, window: Window) -> None:
        """Choose the initial jobs of an environment.

        ``window``: which jobs. If these are not all of a workload, the first one is to be submitted at date 0.
        """
        section = 2 * window.workload
        is_shifted = window.n_jobs < len(self._sections[section].jobs)
        begin = int(self._begins[section + is_shifted])
        origin.windows[environment] = begin, window.start, window.n_jobs, is_shifted


def _by_date(section: Section) -> Section:
    """Return the same jobs by date of submission."""
    chosen = np.argsort(section.jobs["submit_s"], kind="stable")
    position = np.argsort(chosen)
    return Section(section.jobs[chosen], section.sources[chosen], position[section.by_rank])


class PairRows:
    """The arrays of a batch.

    Parameters
    ----------
    energy, compatible
        As in `kernel.state.new_state`.
    watch
        Scalars of `WATCH_DTYPE` that never change, by name.
    switches
        True if the agent decides which nodes are on, and so without waiting jobs, too.
    pairs, off_after_s, limits, shares
        ``pairs``, ``off_after_s``, ``limits``, and ``speed_share`` with ``power_share`` of `kernel.observe.Watch`.
    objectives, observations
        Where `kernel.episodes.EpisodeArrays` are to write what is handed out.

    Attributes
    ----------
    batch, watches
        The arrays of the environments, and what accompanies them, with a leading axis.
    borrowed
        The same with what they begin with, for compiled code, and for each thread.
    origin
        The jobs that they begin with.
    """

    def __init__(
        self,
        platform: Platform,
        workloads: Sequence[Workload],
        plan: EpisodePlan,
        n_rows: int,
        n_threads: int,
        *,
        energy: bool,
        compatible: bool,
        watch: dict[str, float],
        switches: bool,
        pairs: NDArray[np.int64],
        off_after_s: NDArray[np.float64],
        limits: NDArray[np.float64],
        shares: tuple[NDArray[np.float64], NDArray[np.float64]],
        objectives: NDArray[np.float64],
        observations: NDArray[Any],
    ) -> None:
        self._jobs = JobTable(platform, workloads)
        self._compatible = compatible
        longest = max(workloads, key=lambda one: one.n_jobs)
        sample = longest if longest.n_jobs == plan.max_jobs else longest.window(0, plan.max_jobs)
        initial = new_state(platform, sample, energy=energy, compatible=compatible, logging=False)._replace(
            steps=self._jobs.steps,
            allocated=np.zeros(self._jobs.n_allocated(plan), dtype=np.int32),
        )
        # Following what is left of each job is a tenth of all work, and one observation alone shows it.
        initial.scalars["follows_progress"] = watch["detail"] == observe.NORMAL and not compatible
        initial.scalars["decides_idle"] = switches
        initial.scalars["node_rule"] = codes.NODES_BY_NUMBER if switches else codes.NODES_LEFT_ALONE
        self.batch = repeated(initial, n_rows)
        # Besides jobs that come and end, voids and nodes that have booted call for decisions.
        n_kept = 2 * plan.max_jobs + 2 + (episodes.MAX_VOIDS if compatible or switches else 0)
        self.watches = watches_of(
            (n_rows, plan.max_jobs, n_kept), watch, pairs=pairs, off_after_s=off_after_s, limits=limits, shares=shares
        )
        self.origin = self._jobs.origin(n_rows)
        others = (for_another_thread(self.batch) for _ in range(n_threads - 1))
        beginning = copied(initial)
        self.borrowed = [
            Borrowed(EpisodeArrays(batch, self.watches, beginning, self.origin, objectives, observations))
            for batch in (self.batch, *others)
        ]

    def begin(self, row: int, window: Window, seed: int, *, has_random: bool) -> None:
        """Choose the initial state of a row: `hdrl.compiled.serving.RESET` brings it back to date 0."""
        self._jobs.choose(self.origin, row, window)
        self.watches.rows["n_jobs"][row] = window.n_jobs
        if has_random:
            twister = python_twister_state(seed) if self._compatible else twister_state(seed, "policy")
            self.batch.twister[row] = twister

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all arrays that change, by name; the structured ones as bytes."""
        watches = saved(self.watches)
        return saved(self.batch) | {f"watch_{name}": watches[name] for name in ("rows", "ordered", "history")}


class _Replay:
    """One environment with logs, stepped as a batch of one row."""

    def __init__(self, platform: Platform, workload: Workload, state: BatchState, watch: Watch, n_actions: int) -> None:
        self.platform, self.workload, self.state, self.watch = platform, workload, state, watch
        jobs = JobTable(platform, [workload])
        origin = jobs.origin(1)
        jobs.choose(origin, 0, Window(0, 0, workload.n_jobs))
        observations = np.zeros((1, N_QUEUE_VALUES), dtype=np.float32)
        self._borrowed = Borrowed(
            EpisodeArrays(alone(state), watch, copied(state), origin, np.zeros((1, 1)), observations)
        )
        counts = new_counts(1, n_actions)
        counts.masks[:] = 1  # the actions were legal
        self._counts = Borrowed(counts)

    def play(self, request: int, action: int) -> None:
        """Carry out one request, enlarging the logs as often as it takes."""
        self._go_on_with(with_room_for_decisions(self.state, self.platform, self.workload))
        one = np.ones(1, dtype=np.bool_)
        if request == RESET:
            episodes.SERVED.reset(self._borrowed, new_team(1), one, self._counts)
        else:
            episodes.SERVED.step(self._borrowed, self._counts, new_team(1), one, np.array([action]))
        while int(self.watch.rows["status"][0, 0]) == codes.GROW:
            self._go_on_with(grown_for(self.state, self.platform, self.workload))
            episodes.SERVED.call(self._borrowed, episodes.RESUME, one, counts=self._counts)

    def _go_on_with(self, state: BatchState) -> None:
        if state is not self.state:
            self.state, self._borrowed = state, Borrowed(self._borrowed.arrays._replace(state=alone(state)))


def replay(
    platform: Platform,
    workload: Workload,
    actions: NDArray[np.int16],
    watches: Watch,
    row: int,
    *,
    seed: int,
    energy: bool,
    compatibility: str | None,
) -> BatchTrace:
    """Return the Trace of an episode."""
    n_kept = watches.history.shape[1]
    switches = np.any(watches.pairs[:, 3] >= 0) or np.any(watches.off_after_s < np.inf)
    rule = SWITCHING if switches else NO_RULE
    state = first_state(platform, workload, seed=seed, energy=energy, compatibility=compatibility, rule=rule)
    if compatibility == HDEEPRM:
        state = state._replace(pool=np.zeros(len(state.pool) + platform.n_cores, dtype=np.int32))
    rows = watches.rows[row : row + 1].copy()
    rows["detail"] = MINIMAL
    rows["n_jobs"] = workload.n_jobs
    watch = watches._replace(
        rows=rows,
        ordered=np.zeros((1, watches.ordered.shape[1], workload.n_jobs)),
        history=np.zeros((1, n_kept), dtype=np.int16),
        sums=np.zeros((1, N_SUMS)),
    )
    again = _Replay(platform, workload, state, watch, len(watches.pairs) + 1)
    again.play(RESET, 0)
    for action in actions.tolist():
        again.play(STEP, action)
    return collect_trace(platform, workload, again.state, compatibility)

"""``hdrl/JobPick-v0``: pick waiting jobs on a machine of identical processors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.counts import ALL_LEGAL
from hdrl.compiled.fields import Role, names_of
from hdrl.envs.arguments import EpisodeArguments, Stepping, defaults_of, taken
from hdrl.envs.episodes import Length, Window, plan_episodes
from hdrl.envs.hooks import BoolArray, Options, StateDict
from hdrl.envs.requests import check_render_mode
from hdrl.envs.row_pick import RowPickEnv, RowPickVectorEnv
from hdrl.envs.windowed import Windowed
from hdrl.settings.batch.envs.guides import JobPickGuides
from hdrl.settings.batch.envs.job_pick_options import COMPATIBILITY, RELATIVE, PickChoices
from hdrl.settings.batch.envs.job_pick_rewards import PickRewards
from hdrl.settings.batch.envs.job_pick_windows import JobPickPools, WindowFilter
from hdrl.settings.batch.envs.machines import PoolSource, check_choices, unpoolable_reason
from hdrl.settings.batch.envs.pool_trace import EndedEpisodes, pool_trace
from hdrl.settings.batch.identical_cores import entries
from hdrl.settings.batch.identical_cores.state import OrderState
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.workload.model import Workload

DEFAULT_N_JOBS = 256
"""Jobs of an episode unless chosen, as in RLScheduler's training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PickEpisodes(EpisodeArguments):
    """Arguments that select the jobs of an episode, and the windows that are drawn."""

    n_jobs: Length = DEFAULT_N_JOBS
    keeps: Sequence[Any] | None = None


ARGUMENTS = {**defaults_of(PoolSource(), PickEpisodes(), PickChoices(), Stepping()), "render_mode": None}
"""The arguments of a batch by name, and their defaults."""


def grouped(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments by name in the groups that constructors take.

    Raises
    ------
    OptionsError
        If one is unknown.
    """
    given = dict(arguments)
    groups = {"source": taken(PoolSource(), given), "episodes": taken(PickEpisodes(), given)}
    groups |= {"choices": taken(PickChoices(), given), "stepping": taken(Stepping(), given)}
    check_choices(given, ["num_envs", *ARGUMENTS])
    return groups | {"reading": given}


class JobPickVectorEnv(Windowed, RowPickVectorEnv):
    """A batch of environments in which waiting jobs are picked on a machine of identical processors.

    **Description.** Jobs are submitted to a machine of ``n_procs`` identical processors. Whenever a decision is due,
    the agent picks one of the jobs that wait. Agents see requested times; how long jobs really run they do not see.

    **Action space.** ``Discrete(max_jobs)``: the row of the job; with ``may_hold`` as many more, which hold the job of
    their row until the next event; with ``skip`` one more, last, that starts nothing until the next event.
    ``info["row_mask"]`` says which rows hold a job, ``info["action_mask"]`` which actions are legal.

    **Observation space.** ``Box(0, 1, (max_jobs, n_features), float32)``: a row for each waiting job, in ``order``. If
    more wait than there are rows, the first are seen. Values end at 1 - 1e-5; a row without a job is
    0 1 1 1 1 1 1 0 (and 0 in further columns).

    ======  =================================================================================
    column  meaning
    ======  =================================================================================
    0       time waited / 12 h
    1       requested time x as x / (x + 1 h)
    2       processors / processors of the machine
    3       memory of each core x as x / (x + 1 GiB) (1 if absent)
    4-6     numbers x of user, group, executable as x / (x + 100) (1 if absent)
    7       1 - 1e-5 if the job can start now, 1e-5 if not
    8...    further ``features``, in the order in which they are named
    ======  =================================================================================

    **Rewards.** Minus the objective (plus where more is better): ``"end"``: 0 until the last step, which gets all;
    ``"shaped"``: each step what it adds to the objective over the jobs that have been started, so that the sum is
    the same; ``"relative"``: the last step minus the logarithm of the objective divided by what the priority
    ``reference`` makes of the same jobs (both at least 1; plus, without the bound, where more is better), since windows
    of jobs differ by orders of magnitude.

    **Starting state.** The first job of the episode has just been submitted to the empty machine.

    **Episode end.** When the last job has been started: everything is known then.

    Parameters
    ----------
    source, episodes, choices, stepping
        The following arguments, in groups; `of` takes all by their names.
    reading
        Choices for reading logs, see `workload.workload_from_swf`; `of` takes that by name, too.
    workload
        A workload, a file, the name of a shipped one, or several of these; ``None``: 4,096 jobs of the
        Lublin-Feitelson model.
    platform
        The machine, its file or its name; all cores must be equally fast. Memory and bandwidth are not modelled.
    n_procs
        The number of processors instead of a platform; ``None``: what the header of a log says.
    n_jobs
        Jobs of an episode; ``"all"``: all of the part.
    start, part
        Windows of the workload, see `hdrl.envs.episodes.plan_episodes`.
    commitment
        ``"block"``: the picked job is the next to start; if it does not fit, time passes until it does, without
        further decisions. ``"repick"`` (the default): it is the first of the queue until the next event, then another
        may be picked: the agent is the priority function of EASY.
    backfilling
        Jobs that may overtake a picked job that does not fit: ``"none"``; ``"easy"`` (the default), ``"easy_sjbf"``:
        those that do not delay it, tried in the order of submission or of requested time; ``"easy_priority"``: of
        those, the agent picks (only they are legal then); ``"rlscheduler"``: RLScheduler's rule, with ``"block"`` only.
    objective
        A name of `envs.job_pick_options.OBJECTIVES`, or a custom one: `hdrl.envs.own_objective`.
    reward
        ``"end"``, ``"shaped"`` or ``"relative"``.
    reference
        The priority that a relative reward refers to.
    order
        In which order waiting jobs are shown: a priority such as ``"fcfs"`` or ``"f4"``.
    features
        Names of further features, see `envs.job_pick_options.FEATURES`.
    guide
        A policy of EASY whose choices `guide_actions` tells: what agents may imitate. Of several, in each episode that
        which is best in its jobs, by the objective.
    keeps
        A priority, and from which to which value of the objective under it: other windows are not drawn. Without the
        two values, from the median to twice the mean of 100 windows.
    skip
        True if there is an action that starts nothing.
    may_hold
        True if each job that may be picked may be held instead, unless nothing runs: until the next event it is neither
        the first of the queue nor may it overtake. The holds of one event are decisions of their own.
    predictor
        Predictor of run times where features use predictions: a name of `hdrl.batch.PREDICTORS` that learns from ended
        jobs. Windows of a log begin with what was known of earlier jobs by then.
    scaled_columns
        True if columns 1 to 6 say anything; otherwise all are 1.
    scales
        Scales of columns 1 and 3 to 6 and of ``log_requested_time``: ``"fixed"`` (the default), constants, so that what
        is seen of a job depends on no other one; ``"largest"`` (the default of the compatibility mode, and how models
        of older versions see), the largest values of all jobs of ``workload`` and ``more_logs``, those included that
        are still to come: the same job looks different in another workload or window.
    more_logs
        Further logs that windows are drawn from as well, each on as many identical processors as its header says, and
        from the same shares of its jobs as ``part`` is of the first one.
    kill
        Kept for options of older versions: jobs are killed at the walltimes that the workload gives them. ``False`` is
        refused where that happens.
    compatibility
        ``"rlscheduler"``: as RLScheduler has it. Blocking, simultaneous events looked at one after the other, dates as
        in the log, and its inverted WFP3 and UNICEF in `run_priorities`.

    Raises
    ------
    OptionsError
        If an argument is wrong.
    PlatformError
        If the cores of the platform are not equally fast.
    WorkloadError
        If the machine can never run a job.
    ReadError
        If a file cannot be read.

    Notes
    -----
    Version 0.

    References
    ----------
    D. Zhang, D. Dai, Y. He, F. Bao, B. Xie, "RLScheduler: An Automated HPC Batch Job Scheduler Using Reinforcement
    Learning", SC'20 (features, blocking, its backfilling).
    """

    _option_names: ClassVar[frozenset[str]] = frozenset({"start"})

    def __init__(
        self,
        num_envs: int = 1,
        *,
        source: PoolSource = PoolSource(),  # noqa: B008 (frozen, as all groups)
        reading: Mapping[str, Any] = MappingProxyType({}),
        episodes: PickEpisodes = PickEpisodes(),
        choices: PickChoices = PickChoices(),  # noqa: B008
        stepping: Stepping = Stepping(),  # noqa: B008
    ) -> None:
        self.options = choices.checked().check_world(has_rules=False)
        keeps_dates = choices.compatibility == COMPATIBILITY
        self.inputs, part = source.inputs(episodes.part, keeps_dates=keeps_dates, **reading)
        self.platform = self.inputs.platform
        super().__init__(num_envs, self.options.layout, **defaults_of(stepping))
        self._plan_windows(self.inputs.workloads, episodes.n_jobs, episodes.start, part)
        self._pools = JobPickPools(self.options, self.inputs)
        self._pool = self._pools.new(
            self.num_envs,
            self.plan.max_jobs,
            observations=self._observations,
            masks=self._masks,
            row_masks=self._row_masks,
        )
        self._borrowed = Borrowed(self._pool)
        self._ended = EndedEpisodes(self.num_envs)
        self._pay = PickRewards(self.options, self.num_envs)
        keeps = episodes.keeps
        self._filter = None if keeps is None else WindowFilter(self.plan, keeps, self.run_priorities)
        self._guides = JobPickGuides(self.options, self._pay, self._pools, self._pool)

    @classmethod
    def of(cls, num_envs: int = 1, *, render_mode: None = None, **arguments: Any) -> JobPickVectorEnv:
        """Make a batch of arguments by their names, as options, model files and Gymnasium have them.

        Raises
        ------
        HdrlError
            If one is unknown or wrong.
        """
        check_render_mode(render_mode)
        return cls(num_envs, **grouped(arguments))

    @classmethod
    def unsupported_reason(cls, machine: Platform, load: Workload) -> str | None:
        """Return why a machine and jobs are not simulated exactly here; ``None`` if they are."""
        return unpoolable_reason(machine, load)

    # ------------------------------------------------------------------ hooks of the batch

    def _begin(self, row: int, episode: int, seed: int, options: Options) -> None:
        draw = self.plan.window if self._filter is None else self._filter.drawn
        window = options["start"][row] if "start" in options else draw(episode, seed)
        self._note_window(row, window)
        self._pay.begin(row)
        self._pools.set_window(self._pool, row, window)

    def _read_options(self, options: Options, rows: list[int]) -> Options:
        return {"start": self._requested_windows(options["start"], rows)} if "start" in options else {}

    def _requested_windows(self, start: object, rows: list[int]) -> dict[int, Window]:
        """Return the window of each of some rows; requests for other rows are ignored."""
        starts = np.asarray(start)
        if starts.dtype.kind not in "iu" or starts.shape not in ((), (self.num_envs,)):
            raise OptionsError(f"start is {start!r}, expected a number, or one for each of {self.num_envs} rows")
        positions = np.broadcast_to(starts, self.num_envs)[rows].tolist()
        first, n_jobs = self.inputs.workloads[0], self.plan.max_jobs
        windows = plan_episodes([first.n_jobs], n_jobs=n_jobs, start=positions, names=[first.name]).windows
        return dict(zip(rows, windows, strict=True))

    def _reset_rows(self, chosen: BoolArray) -> None:
        entries.SERVED.reset(self._borrowed, self._team, chosen)

    def _step_rows(self, chosen: BoolArray, actions: NDArray[np.int64]) -> tuple[int, int]:
        illegal, n_ended = entries.SERVED.step(self._borrowed, self._counts, self._team, chosen, actions)
        paid = self._pay.due(chosen, self._terminations) if illegal == ALL_LEGAL else None
        if paid is not None:
            self._pay.add_own_reward(paid, entries.objectives(self._borrowed, paid), self._rewards, self._returns)
        if n_ended > 0 and self.options.reward == RELATIVE:
            rows = np.flatnonzero(self._terminations & chosen)
            windows = [self.window(row) for row in rows.tolist()]
            self._pay.compare(rows, windows, self.run_priorities, self._rewards, self._returns)
        return illegal, n_ended

    def _help(self, number: int) -> None:
        entries.SERVED.help(self._borrowed, self._counts, self._team, number, self._chosen)

    def _episode_infos(self, ended: BoolArray) -> dict[str, NDArray[np.float64]]:
        for row in np.flatnonzero(ended).tolist():
            window = self.window(row)
            self._ended.keep(row, window, self._pool.start_s[row, : window.n_jobs].copy(), int(self._lengths[row]))
        return self._pay.episode_info(entries.objectives(self._borrowed, ended), ended)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # A view, which does not stay one when it is copied together with what it shows.
        self._observations = self._pool.observations.reshape(self._observations.shape)

    def _after_load(self) -> None:
        self._row_masks[:] = np.arange(self.layout.n_rows) < self._pool.scalars["n_shown"]

    def _state_arrays(self) -> StateDict:
        arrays = {name: getattr(self._pool, name) for name in names_of(OrderState, Role.OWN, is_output=False)}
        own = {name: array for name, array in arrays.items() if array.size or self.options.predicts}
        scalars = own.pop("scalars")
        n_machines = len({one.n_cores for one in self.inputs.platforms})
        changes = {"n_held": self.options.may_hold, "n_procs": n_machines > 1, "is_weighed": bool(self.options.guides)}
        constant = self._pay.unused | {name for name, does_change in changes.items() if not does_change}
        own |= {f"scalars.{name}": scalars[name] for name in scalars.dtype.names if name not in constant}
        return own | {"windows": self._windows} | self._pay.arrays()

    # ------------------------------------------------------------------ more than Gymnasium asks for

    def trace(self, row: int = 0) -> BatchTrace:
        """Return the trace of the last episode of a row that has ended, for metrics, pictures and reports.

        Raises
        ------
        OptionsError
            If none has ended (in this process: it is not part of `state_dict`).
        """
        window, start_s, n_decisions = self._ended.last(row)
        first = self.inputs.first_jobs[window.workload] + window.start
        positions = slice(first, first + window.n_jobs)
        order = self.inputs.orders[window.workload]
        return pool_trace(
            self.inputs.platforms[window.workload],
            self.inputs.workloads[window.workload].take(order[window.start : window.start + window.n_jobs]),
            start_s,
            self.inputs.columns.run_s[positions],
            is_killed=self.inputs.is_killed[positions],
            n_decisions=n_decisions,
        )

    def guide_actions(self) -> NDArray[np.int64]:
        """Return the action of the policy ``guide`` in each row now, shape ``(num_envs,)``; 0 after an end.

        Of several policies, it is in each row that which is best in the jobs of its episode.

        Raises
        ------
        OptionsError
            If there is none.
        """
        if not self.options.guides:
            raise OptionsError("guide is missing: expected a policy whose choices the agent imitates")
        return self._guides.actions([self.window(row) for row in range(self.num_envs)])

    def run_priorities(
        self, priorities: str | Sequence[str], windows: Sequence[Window] | None = None
    ) -> dict[str, dict[str, NDArray[np.float64]]]:
        """Run whole episodes under fixed priorities in the same simulator: what an agent is compared with.

        Among all waiting jobs, also those that do not fit into the observation, the first by the priority is picked.

        Parameters
        ----------
        priorities
            Names of priorities such as ``"sjf"`` or ``"f4"``, or one of them.
        windows
            The episodes; ``None``: the episodes of the plan, if they are not drawn.

        Returns
        -------
        dict
            For each priority, all objectives by name, and what the environment rewards as ``objective``, each of shape
            ``(n_windows,)``.

        Raises
        ------
        OptionsError
            If there is no such priority, or no windows are given though the plan draws them.
        """
        names = [priorities] if isinstance(priorities, str) else list(priorities)
        keys = [self.options.priority(name) for name in names]
        chosen = list(self.plan.windows if windows is None else windows)
        if not chosen:
            raise OptionsError("windows is missing: the plan of episodes draws them, so there is no list of them")
        rows = np.arange(len(chosen))
        results = self._pools.run_keys(keys, chosen)
        return {name: self._pay.named(values, rows) for name, values in zip(names, results, strict=True)}


class JobPickEnv(RowPickEnv):
    """One environment in which waiting jobs are picked: see `JobPickVectorEnv`."""

    batch: JobPickVectorEnv
    batch_class = JobPickVectorEnv.of

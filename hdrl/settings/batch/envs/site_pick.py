"""``hdrl/JobPick-v0`` on a machine with the rules of a site: pick waiting jobs, and the site's simulator does the rest.

A pass of the main scheduler goes down the queue in the order of the picks: a job that fits starts, one that does not
stops its partition and has its reservation there. Then others may overtake them. The agent is thus the priority of the
policies that `site` simulates: one that always picks the shortest job makes the schedule of ``sjf+easy``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import OptionsError, SimulationError
from hdrl.compiled.counts import ALL_LEGAL
from hdrl.envs.arguments import Stepping
from hdrl.envs.episodes import Window
from hdrl.envs.hooks import BoolArray, FloatArray, Options, StateDict
from hdrl.envs.own_objective import OwnObjective
from hdrl.envs.requests import check_render_mode
from hdrl.envs.row_pick import RowPickEnv, RowPickVectorEnv
from hdrl.envs.windowed import Windowed
from hdrl.settings.batch.envs.job_pick import PickEpisodes, grouped
from hdrl.settings.batch.envs.job_pick_options import (
    BACKFILLINGS,
    OBJECTIVES,
    RELATIVE,
    REPORTED,
    SKIP,
    JobPickOptions,
    PickChoices,
)
from hdrl.settings.batch.envs.machines import PoolInputs, PoolSource, pool_inputs
from hdrl.settings.batch.identical_cores.observe import CAP, LONGEST_S, PER_LONGEST_WAIT
from hdrl.settings.batch.identical_cores.table import row_templates
from hdrl.settings.batch.metrics import compute_metrics
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.policies.simulation import simulate
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.site_rules import codes
from hdrl.settings.batch.site_rules.kernel.state import SiteState
from hdrl.settings.batch.site_rules.simulator import (
    has_het_jobs,
    set_backfilling,
    stepwise_simulation,
    trace_of,
    world_of,
)
from hdrl.settings.batch.workload.model import Workload

_FIT_COLUMN = 7
_ABSENT_ROW = (0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0)
_HALF_GPUS = 8.0
"""Number of GPUs of a node that is observed as one half."""

PICKS_PER_JOB = 16
"""Largest number of decisions for each job of an episode that can be saved with it."""


class SiteEpisode:
    """A simulation of a site that stops at each pick.

    Parameters
    ----------
    inputs
        The workload of the episode alone.
    """

    def __init__(self, inputs: PoolInputs, options: JobPickOptions) -> None:
        self.world = world_of(inputs.platform, inputs.workloads[0])
        self.simulation = stepwise_simulation(self.world)
        self.options = options
        set_backfilling(self.simulation.state.settings, BACKFILLINGS[options.backfilling])
        templates = row_templates(inputs.columns, inputs.n_procs, is_scaled=options.scaled_columns)
        self._templates = np.empty_like(templates)
        self._templates[inputs.orders[0]] = templates
        self._requested_s = np.maximum(self.world.workload.jobs["requested_time_s"], 1.0)
        self._cores = self.world.workload.jobs["cores"]
        self._fits = np.zeros(0, dtype=np.int8)
        self.shown = np.zeros(0, dtype=np.int32)
        self.legal = np.zeros(options.layout.n_actions, dtype=np.int8)
        self.n_decisions = 0
        self._is_picking, self._n_preempted = False, 0
        self._to_decision()

    @property
    def is_over(self) -> bool:
        """True if the simulation has ended."""
        return self.simulation.is_over

    @property
    def state(self) -> SiteState:
        """The arrays of the simulation."""
        return self.simulation.state

    def act(self, action: int) -> None:
        """Carry out a legal action, and go on to the next decision or to the end."""
        self.n_decisions += 1
        if action >= self.options.max_jobs:
            self._end_picks(codes.SKIP)
        else:
            self._pick(int(self.shown[action]))
        self._to_decision()

    def trace(self) -> BatchTrace:
        """Return the trace of the simulation."""
        return replace(trace_of(self.world, self.state), n_decisions=self.n_decisions)

    # ------------------------------------------------------------------ picks

    def _to_decision(self) -> None:
        """Go on until a job is to be picked, or to the end; find out what is shown and legal."""
        while not self.is_over:
            if self._is_picking and self._finds_pick():
                return
            if not self._is_picking:
                self.simulation.go_on()
                self._begin_picks()
        self.shown = self.shown[:0]
        self.legal[:] = 0
        self.legal[0] = 1  # is ignored; a mask without any legal action has no distribution

    def _finds_pick(self) -> bool:
        """Return whether the agent must pick a job now; else the picks of this pass end, or a job without a row is."""
        if self.simulation.decide(codes.MARK_PICKS) == 0:
            self._end_picks(codes.SKIP)
            return False
        state = self.state
        rows = state.entries[state.queue[: self.simulation.n_waiting]]
        rows = rows[np.argsort(state.jobs["rank"][rows["job"]], kind="stable")]
        jobs, may_be_picked = rows["job"], rows["may_be_picked"]
        if not may_be_picked.any():
            self._end_picks(codes.END_PICKS)
            return False
        first = np.flatnonzero(np.diff(jobs, prepend=-1))  # a job has an entry for each of its partitions
        self.shown = jobs[first[: self.options.max_jobs]]
        self._fits = np.maximum.reduceat(rows["fits"], first)[: self.options.max_jobs]
        legal = np.maximum.reduceat(may_be_picked, first)[: self.options.max_jobs]
        if not legal.any():  # those that may be picked have no row: the first of them is
            self._pick(int(jobs[may_be_picked.argmax()]))
            return False
        self.legal[:] = 0
        self.legal[: len(legal)] = legal
        if self.options.has_skip:
            self.legal[self.options.layout.action(SKIP)] = int(state.scalars["n_events"][0] > 0)
        return True

    def _pick(self, job: int) -> None:
        """Try a job in those of its partitions that are due."""
        state = self.state
        row = state.jobs[job]
        for entry in range(row["first_entry"], row["first_entry"] + row["n_entries"]):
            if row["is_queued"] != 0 and state.entries["may_be_picked"][entry] != 0:
                self.simulation.decide(codes.PICK, entry)

    def _begin_picks(self) -> None:
        """Begin a pass if jobs wait."""
        self._is_picking = not self.is_over and self.simulation.n_waiting > 0
        if self._is_picking:
            self._n_preempted = self.state.scalars["n_preempted"][0]
            self.simulation.decide(codes.BEGIN_PICKS)

    def _end_picks(self, request: int) -> None:
        """End a pass; the next one begins at once if more may start."""
        more = self.simulation.decide(request) != 0 or self.state.scalars["n_preempted"][0] > self._n_preempted
        self.simulation.end_decisions()
        self._is_picking = False
        if more:
            self._begin_picks()

    # ------------------------------------------------------------------ what is seen

    def observe(self, out: NDArray[np.float32]) -> None:
        """Write the observation of the agent."""
        n, shown, state = len(self.shown), self.shown, self.state
        out[:] = 0.0
        out[n:, : len(_ABSENT_ROW)] = _ABSENT_ROW
        if n == 0:
            return
        wait_s = float(state.scalars["message_s"][0]) - state.jobs["eligible_s"][shown]
        out[:n, : len(_ABSENT_ROW)] = self._templates[shown]
        out[:n, 0] = np.minimum(wait_s * PER_LONGEST_WAIT, CAP)
        out[:n, _FIT_COLUMN] = np.where(self._fits != 0, CAP, 1.0 - CAP)
        for column, name in enumerate(self.options.features, start=len(_ABSENT_ROW)):
            out[:n, column] = np.clip(getattr(self, f"_observe_{name}")(shown, wait_s), 0.0, 1.0)

    def _observe_free_processors(self, jobs: NDArray[np.int64], wait_s: FloatArray) -> Any:
        del jobs, wait_s
        return 1.0 - self.state.scalars["n_busy_cores"][0] / self.state.settings["n_cores"][0]

    def _observe_queue_length(self, jobs: NDArray[np.int64], wait_s: FloatArray) -> Any:
        del jobs, wait_s
        n = self.simulation.n_waiting
        return n / (n + self.options.max_jobs)

    def _observe_log_wait(self, jobs: NDArray[np.int64], wait_s: FloatArray) -> Any:
        del jobs
        return elementary.log(1.0 + wait_s) / math.log1p(LONGEST_S)

    def _observe_log_requested_time(self, jobs: NDArray[np.int64], wait_s: FloatArray) -> Any:
        del wait_s
        return elementary.log(1.0 + self._requested_s[jobs]) / math.log1p(LONGEST_S)

    def _observe_log_processors(self, jobs: NDArray[np.int64], wait_s: FloatArray) -> Any:
        del wait_s
        return elementary.log(self._cores[jobs].astype(np.float64)) / math.log(
            max(int(self.state.settings["n_cores"][0]), 2)
        )

    def _observe_expected_slowdown(self, jobs: NDArray[np.int64], wait_s: FloatArray) -> Any:
        requested_s = self._requested_s[jobs]
        slowdown = np.maximum(1.0, (wait_s + requested_s) / np.maximum(requested_s, 10.0))
        return elementary.log(slowdown) / math.log(1e6)

    def _observe_partition(self, jobs: NDArray[np.int64], wait_s: FloatArray) -> Any:
        del wait_s
        first = self.state.entries["partition"][self.state.jobs["first_entry"][jobs]]
        return (first + 1) / (len(self.state.partitions) + 1)

    def _observe_partition_free(self, jobs: NDArray[np.int64], wait_s: FloatArray) -> Any:
        del wait_s
        state = self.state
        one = state.partitions[state.entries["partition"][state.jobs["first_entry"][jobs]]]
        return one["free_cores"] / np.maximum(one["n_cores"], 1)

    def _observe_account_share(self, jobs: NDArray[np.int64], wait_s: FloatArray) -> Any:
        del wait_s
        held = np.append(self.state.accounts["cores"], 0)[self.state.jobs["account"][jobs]]
        return held / self.state.settings["n_cores"][0]

    def _observe_qos(self, jobs: NDArray[np.int64], wait_s: FloatArray) -> Any:
        del wait_s
        return np.append(self.state.qos["factor"], 0.0)[self.state.jobs["qos"][jobs]]

    def _observe_gpus(self, jobs: NDArray[np.int64], wait_s: FloatArray) -> Any:
        del wait_s
        gpus = self.state.jobs["gpus"][jobs]
        return gpus / (gpus + _HALF_GPUS)

    def _observe_nodes(self, jobs: NDArray[np.int64], wait_s: FloatArray) -> Any:
        del wait_s
        return np.maximum(self.state.jobs["nodes"][jobs], 0) / len(self.state.nodes)


class SitePickVectorEnv(Windowed, RowPickVectorEnv):
    """A batch of environments in which waiting jobs are picked under the rules of a site.

    It is what ``hdrl/JobPick-v0`` makes of a platform with rules; arguments, actions and the first eight columns are
    those of `JobPickVectorEnv`. Rows are the eligible jobs, in the order of submission. Legal are the jobs that are due
    in the highest partition tier: neither limits of QOS and accounts nor a stopped partition keep them from starting.
    The wait in column 0 counts from eligibility, and column 7 says whether the job fits now by all rules.

    **Further features**: ``partition`` (number of the job's first one / (partitions + 1)), ``partition_free`` (share of
    its cores that are free), ``account_share`` (cores that the jobs of its account hold / all cores), ``qos`` (Priority
    of its QOS / the largest), ``gpus`` (x on each node as x / (x + 8)), ``nodes`` (that it asks for / all nodes), and
    those of `AT_SITES` that machines without rules have, too.

    **Rewards.** In the last step, by the metric of the whole simulation, as comparisons compute it.

    Raises
    ------
    HdrlError
        If an argument is wrong or does not exist under rules, or the simulator of sites does not simulate the jobs.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        source: PoolSource = PoolSource(),  # noqa: B008 (frozen, as all groups)
        reading: Mapping[str, Any] = MappingProxyType({}),
        episodes: PickEpisodes = PickEpisodes(),  # noqa: B008
        choices: PickChoices = PickChoices(),  # noqa: B008
        stepping: Stepping = Stepping(),  # noqa: B008
    ) -> None:
        if source.more_logs or episodes.keeps is not None:
            name = "more_logs" if source.more_logs else "keeps"
            raise OptionsError(f"{name}: expected none on a machine with the rules of a site")
        self.options = choices.checked().check_world(has_rules=True)
        self.inputs, part = source.inputs(episodes.part, keeps_dates=False, **reading)
        self.platform = self.inputs.platform
        for load in self.inputs.workloads:
            why = self.unsupported_reason(self.platform, load)
            if why is not None:
                raise OptionsError(why)
        super().__init__(
            num_envs, self.options.layout, autoreset_mode=stepping.autoreset_mode, copy=stepping.copy, n_threads=1
        )
        self._plan_windows(self.inputs.workloads, episodes.n_jobs, episodes.start, part)
        self._rows: list[SiteEpisode | None] = [None] * self.num_envs
        self._traces: list[BatchTrace | None] = [None] * self.num_envs
        self._taken = np.full((self.num_envs, PICKS_PER_JOB * self.plan.max_jobs), -1, dtype=np.int16)
        self._values: dict[int, dict[str, float]] = {}
        self._references: dict[Window, float] = {}

    @classmethod
    def of(cls, num_envs: int = 1, *, render_mode: None = None, **arguments: Any) -> SitePickVectorEnv:
        """Make a batch of arguments by their names, as `JobPickVectorEnv.of`."""
        check_render_mode(render_mode)
        return cls(num_envs, **grouped(arguments))

    @classmethod
    def unsupported_reason(cls, machine: Platform, load: Workload) -> str | None:
        """Return why jobs cannot be picked on a machine; ``None`` if they can."""
        if has_het_jobs(world_of(machine, load).site_requests):
            return f"{load.name} has heterogeneous jobs, which agents do not pick (site_rules=false joins them)"
        return None

    def trace(self, row: int = 0) -> BatchTrace:
        """Return the trace of the last episode of a row that has ended.

        Raises
        ------
        OptionsError
            If none has ended (in this process: it is not part of `state_dict`).
        """
        found = self._traces[row]
        if found is None:
            raise OptionsError(f"row {row}: no episode has ended yet, so there is no trace")
        return found

    def guide_actions(self) -> NDArray[np.int64]:
        """Raise an error: there are no policies to imitate under rules."""
        raise OptionsError("guide is missing: there is none on a machine with the rules of a site")

    # ------------------------------------------------------------------ hooks of the batch

    def _begin(self, row: int, episode: int, seed: int, options: Options) -> None:
        del options
        self._next_window(row, episode, seed)
        self._taken[row] = -1
        self._rows[row] = None

    def _reset_rows(self, chosen: BoolArray) -> None:
        for row in np.flatnonzero(chosen).tolist():
            self._rows[row] = self._new_episode(self.window(row))
            self._show(row)

    def _step_rows(self, chosen: BoolArray, actions: NDArray[np.int64]) -> tuple[int, int]:
        self._actions[:] = actions
        for row in np.flatnonzero(chosen).tolist():
            if not 0 <= actions[row] < self.n_actions or not self._masks[row, actions[row]]:
                return row, 0
        for row in np.flatnonzero(chosen).tolist():
            episode = self._episode(row)
            if not episode.is_over:
                if episode.n_decisions < self._taken.shape[1]:
                    self._taken[row, episode.n_decisions] = actions[row]
                episode.act(int(actions[row]))
            self._lengths[row] += 1
            self._rewards[row], self._terminations[row] = 0.0, episode.is_over
            if episode.is_over:
                self._end(row, episode)
            self._show(row)
        self._has_ended |= self._terminations & chosen
        return ALL_LEGAL, int(np.count_nonzero(self._has_ended))

    def _help(self, number: int) -> None:
        del number  # one thread steps all rows

    def _episode_infos(self, ended: BoolArray) -> dict[str, FloatArray]:
        rows = np.flatnonzero(ended).tolist()
        names = dict.fromkeys(("objective", *REPORTED, self.options.objective.metric))
        found = {name: np.zeros(self.num_envs) for name in names if name in self._values[rows[0]]}
        for row in rows:
            for name, values in found.items():
                values[row] = self._values[row][name]
        return found

    def _state_arrays(self) -> StateDict:
        return {"windows": self._windows, "taken": self._taken}

    def state_dict(self) -> StateDict:
        """Return where the episodes are: their windows, and the actions taken in them.

        Raises
        ------
        SimulationError
            If an episode has had more decisions than can be saved.
        """
        for row, episode in enumerate(self._rows):
            if episode is not None and episode.n_decisions > self._taken.shape[1]:
                raise SimulationError(
                    f"row {row}: {episode.n_decisions} decisions cannot be saved, expected {self._taken.shape[1]}"
                )
        return super().state_dict()

    def _after_load(self) -> None:
        """Repeat the actions of the episodes."""
        for row in range(self.num_envs):
            if self._windows[row, 0] < 0:
                continue
            self._rows[row] = episode = self._new_episode(self.window(row))
            taken = self._taken[row]
            for action in taken[taken >= 0].tolist():
                episode.act(action)
            self._show(row)

    # ------------------------------------------------------------------ parts

    def _new_episode(self, window: Window) -> SiteEpisode:
        workload = self._workload_of(window)
        inputs = pool_inputs(workload, self.platform, None, needs_identical=False)
        return SiteEpisode(inputs, self.options)

    def _workload_of(self, window: Window) -> Workload:
        whole = self.inputs.workloads[window.workload]
        is_all = window.n_jobs == whole.n_jobs
        return whole if is_all else whole.window(window.start, window.n_jobs)

    def _episode(self, row: int) -> SiteEpisode:
        episode = self._rows[row]
        if episode is None:
            raise SimulationError(f"row {row}: no episode has begun")
        return episode

    def _show(self, row: int) -> None:
        episode = self._episode(row)
        episode.observe(self._observations[row])
        self._masks[row] = episode.legal
        self._row_masks[row] = np.arange(self.layout.n_rows) < len(episode.shown)

    def _end(self, row: int, episode: SiteEpisode) -> None:
        """Pay an episode that has ended."""
        self._traces[row] = trace = episode.trace()
        values = self._values_of(trace)
        self._values[row] = values
        sign = self.options.objective.sign
        self._rewards[row] = reward = sign * values["objective"]
        if self.options.reward == RELATIVE:
            reference = self._reference(self.window(row))
            floor = 1.0 if sign < 0 else 0.0
            self._rewards[row] = reward = sign * math.log(max(values["objective"], floor) / max(reference, floor))
        self._returns[row] += reward

    def _values_of(self, trace: BatchTrace) -> dict[str, float]:
        metrics, objective = compute_metrics(trace), self.options.objective
        values = {name: float(metrics[name]) for name in OBJECTIVES}
        if isinstance(objective, OwnObjective):
            return {"objective": objective.value(values), **values}
        return {"objective": values[objective.metric], **values}

    def _reference(self, window: Window) -> float:
        """Return the objective of a window under the reference priority and the same backfilling."""
        if window not in self._references:
            suffix = "" if self.options.backfilling == "none" else f"+{self.options.backfilling}"
            trace = simulate(
                self.platform, self._workload_of(window), f"{self.options.reference}{suffix}", energy=False
            )
            self._references[window] = self._values_of(trace)["objective"]
        return self._references[window]


class SitePickEnv(RowPickEnv):
    """One environment in which waiting jobs are picked under the rules of a site: see `SitePickVectorEnv`."""

    batch: SitePickVectorEnv
    batch_class = SitePickVectorEnv.of

"""``hdrl/GpuCluster-v0``: start waiting jobs on GPUs, let running ones give way, or wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, UnknownName
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.fields import doubled, saved
from hdrl.envs.arguments import EpisodeArguments, Stepping, defaults_of, taken
from hdrl.envs.episodes import Window
from hdrl.envs.hooks import BoolArray, Options, StateDict
from hdrl.envs.requests import (
    check_choice,
    check_flags,
    check_render_mode,
    check_texts,
    checked_count,
    checked_numbers,
)
from hdrl.envs.row_pick import RowLayout, RowPickEnv, RowPickVectorEnv
from hdrl.envs.seeds import checked_seed
from hdrl.envs.windowed import Windowed
from hdrl.settings.gpu.cluster.machine import GpuCluster, cluster_of
from hdrl.settings.gpu.envs.loads import joined, loads_of
from hdrl.settings.gpu.kernel import acting, codes
from hdrl.settings.gpu.kernel.state import N_RUNNING, N_STAYS, N_UNITS, GpuState, StayLog, new_world
from hdrl.settings.gpu.loads.load import GpuLoad
from hdrl.settings.gpu.metrics import compute_metrics
from hdrl.settings.gpu.policies.names import ORDERS, PLACEMENTS, Policy, read_policy
from hdrl.settings.gpu.policies.rules import TIES, NodeOrder, Rules, Tie, draw_restarts, levels_of, order_nodes
from hdrl.settings.gpu.policies.shares import SHARES
from hdrl.settings.gpu.simulation.events import (
    classes_of,
    columns_of,
    machine_arrays,
    no_classes,
    put_jobs,
    rank_types,
    simulate,
    trace_of,
)
from hdrl.trace.model import TaskTrace

OBJECTIVES: Mapping[str, int] = MappingProxyType(
    {
        "mean_jct_s": acting.MEAN_JCT,
        "mean_queueing_s": acting.MEAN_QUEUEING,
        "mean_slowdown": acting.MEAN_SLOWDOWN,
        "priority_jct_s": acting.PRIORITY_JCT,
        "makespan_s": acting.MAKESPAN,
    }
)
"""Objectives of an episode, the same names as metrics; less is better."""

WAIT, NEXT_PAGE = "wait", "next_page"
"""Extra actions."""

Loads: TypeAlias = GpuLoad | str | Path | Sequence[GpuLoad | str | Path] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoices:
    """Observation, actions and objective of an agent, see `GpuClusterVectorEnv`."""

    max_jobs: int = 16
    max_pages: int | None = None
    max_running: int = 0
    may_wait: bool = True
    order: str = "fifo"
    reference: str | None = None
    placements: Sequence[str] = ("consolidated",)
    objective: str = "mean_jct_s"
    sees_durations: bool = True

    def check(self) -> None:
        """Check the choices; raise OptionsError if one of the names is unknown, or a number too small."""
        check_choice("objective", self.objective, OBJECTIVES)
        check_flags(may_wait=self.may_wait, sees_durations=self.sees_durations)
        check_texts(order=self.order, **({} if self.reference is None else {"reference": self.reference}))
        if isinstance(self.placements, str) or not isinstance(self.placements, Sequence):
            raise OptionsError(f"placements is {self.placements!r}, expected a list of {', '.join(PLACEMENTS)}")
        for one in self.placements:
            if one not in PLACEMENTS:
                raise UnknownName("placement", one, PLACEMENTS)
        if not self.placements or len(set(self.placements)) < len(self.placements):
            raise OptionsError(f"placements is {list(self.placements)}, expected one at least, each once")
        if self.max_running != 0:
            checked_count("max_running", self.max_running, or_else=", or 0")

    def sizes(self) -> NDArray[np.int64]:
        """Return them as compiled code takes them."""
        most = np.iinfo(np.int64).max if self.max_pages is None else checked_count("max_pages", self.max_pages)
        objective = OBJECTIVES[self.objective]
        sizes = [self.max_jobs, self.max_running, len(self.placements), objective, int(self.sees_durations), most]
        return np.array([*sizes, int(self.may_wait)], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRules:
    """Fields of `hdrl.settings.gpu.policies.rules.Rules` that concern agents, as JSON has them."""

    restart_s: Sequence[float] = Rules().restart_s
    checkpoint_s: float = Rules().checkpoint_s
    tie: Tie = Rules().tie
    node_order: NodeOrder = Rules().node_order
    levels: Sequence[float] = Rules().levels

    def rules(self) -> Rules:
        """Return the rules."""
        restart_s = checked_numbers("restart_s", self.restart_s)
        if len(restart_s) != 2:
            raise OptionsError(f"restart_s is {self.restart_s!r}, expected two numbers")
        return Rules(
            restart_s=(restart_s[0], restart_s[1]),
            checkpoint_s=checked_numbers("checkpoint_s", [self.checkpoint_s])[0],
            tie=self.tie,
            node_order=self.node_order,
            levels=checked_numbers("levels", self.levels),
        )


ARGUMENTS: Mapping[str, Any] = {
    **{"machine": "drl-gpu", "load": None, "seed_of_rules": 0, "records": False, "render_mode": None},
    **defaults_of(EpisodeArguments(), ClusterChoices(), NamedRules(), Stepping()),
}
"""The arguments of a batch by name, and their defaults."""


class GpuClusterVectorEnv(Windowed, RowPickVectorEnv):
    """A batch of GPU clusters in which waiting jobs are started, and running ones preempted.

    **Description.** Jobs arrive at a cluster of GPUs of several types; how long they take follows from the type, and
    from whether a gang lies on more nodes than it would need. Whenever a waiting job could start, the agent decides,
    again and again at the same date, until it waits or nothing can be done.

    **Action space.** ``Discrete(max_jobs * n_placements + max_running + 2)``: start a waiting job of the page (in the
    ``order`` of the queue) by a placement; let a running job give way; ``wait`` for the next event; turn to the next
    page of the queue. Only what can be done is legal. If the order preempts, a job that does not fit starts by its
    first placement where running jobs behind it in that order give way, as few of the last as it needs: an agent that
    always takes the first legal action decides like the policy of that name. A job that the agent has let give way by
    itself has run for a while, and does not start again before something else happens.

    **Observation space.** ``Box(0, 1, (max_jobs * n_placements + max_running, 16), float32)``: a row for each action
    but the last two. Times ``t`` are shown as ``t / (t + 1 h)``. Columns 2, 9 and 13 are 0 without ``sees_durations``.

    ======  =================================================================================
    column  meaning
    ======  =================================================================================
    0       1: the row holds something
    1       time since the arrival of the job
    2       time that is left to it alone on the fastest type, as it is estimated
    3       its GPUs, as a share of all
    4       what it takes of each of them
    5       its priority p as p / (p + 1), 0 if it is negative
    6       its speed there relative to its best, 0: it cannot start by this placement now
    7       1: it would lie on more nodes than it needs
    8       idle share of the GPUs of the type that it would get
    9       share of its work that is done, as it is estimated
    10      1: it runs, and the action preempts it
    11      idle share of all GPUs
    12      waiting jobs n as n / (n + 16)
    13      time until the first running job ends, as it is estimated; 1: none runs
    14      time that the job has run
    15      1: running jobs give way to it
    ======  =================================================================================

    **Rewards.** Minus what the step adds to the objective, so that the return is minus the objective; with a
    ``reference`` in units of what that policy reaches with the same jobs, so that all windows count alike.

    **Starting state.** The first job of the episode has arrived at an empty cluster.

    **Episode end.** When all jobs are done.

    Parameters
    ----------
    episodes, choices, stepping
        The following arguments, in groups; `of` takes all by their names.
    load
        Loads, trace files, or several of these; ``None``: 4096 generated jobs with an offered load of 0.85.
    n_jobs
        Jobs of an episode; ``"all"``: all of a load.
    start, part
        Windows of the loads, see `hdrl.envs.episodes.plan_episodes`.
    max_pages
        Pages of the queue that can be looked at; ``None``: all. Jobs behind them wait until they come forward.
    max_running
        Running jobs that can be preempted; 0: none.
    may_wait
        True if ``wait`` is legal where a job of the page could start.
    order
        In which order jobs wait, ``order[+preempt]`` as in names of policies (all but ``drf`` and ``gittins``).
    reference
        Name of a policy in whose objective rewards are counted; ``None``: in the objective's own unit.
    placements
        Names of `hdrl.settings.gpu.policies.names.PLACEMENTS`.
    sees_durations
        True if the agent sees how long jobs take: what users requested, and the truth in traces where they did not.
    restart_s, checkpoint_s, tie, node_order, levels
        See `hdrl.settings.gpu.policies.rules.Rules`; in code, ``rules``.
    seed_of_rules
        Seed of what `hdrl.settings.gpu.policies.rules.Rules` draw.
    autoreset_mode, copy, n_threads
        See `hdrl.envs.NativeVectorEnv`.
    records
        True if stays are logged for `trace`, which batches of one row alone do.

    Raises
    ------
    OptionsError
        If an argument is wrong.
    WorkloadError
        If a job can never run on the cluster.

    Notes
    -----
    Version 0.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        machine: GpuCluster | str | Path = "drl-gpu",
        load: Loads = None,
        episodes: EpisodeArguments = EpisodeArguments(),  # noqa: B008 (frozen, as all groups)
        choices: ClusterChoices = ClusterChoices(),
        rules: Rules = Rules(),  # noqa: B008
        seed_of_rules: int = 0,
        stepping: Stepping = Stepping(),  # noqa: B008
        records: bool = False,
    ) -> None:
        self.machine = cluster_of(machine)
        self.loads = loads_of(load, self.machine)
        choices.check()
        check_flags(records=records)
        if choices.objective == "priority_jct_s" and any((one.jobs["priority"] < 0).any() for one in self.loads):
            raise OptionsError("objective 'priority_jct_s' weights jobs by priority, and some are negative")
        self.objective, self.rules = choices.objective, rules
        self.order = _order_of(choices.order, sees_durations=choices.sees_durations)
        self.reference = None if choices.reference is None else policy_without_shares(choices.reference)
        n_rows = checked_count("max_jobs", choices.max_jobs) * len(choices.placements) + choices.max_running
        layout = RowLayout(n_rows, acting.N_COLUMNS, (WAIT, NEXT_PAGE))
        super().__init__(num_envs, layout, **defaults_of(stepping))
        self._plan_windows(self.loads, episodes.n_jobs, episodes.start, episodes.part)
        self._sizes = choices.sizes()
        self._placements = np.array([PLACEMENTS[name] for name in choices.placements], dtype=np.int64)
        self._found_units: dict[Window, float] = {}
        self._records = records and self.num_envs == 1
        self._trace: TaskTrace | None = None
        self._seed_of_rules = checked_seed(seed_of_rules)
        self._columns, self._state = self._new_world(self._seed_of_rules, "fgd" in choices.placements)
        self._borrowed = Borrowed(self._state)

    @classmethod
    def of(cls, num_envs: int = 1, *, render_mode: None = None, **arguments: Any) -> GpuClusterVectorEnv:
        """Make a batch from arguments by name, as options, model files and Gymnasium have them.

        Raise HdrlError if one is unknown or wrong.
        """
        check_render_mode(render_mode)
        return cls(
            num_envs,
            episodes=taken(EpisodeArguments(), arguments),
            choices=taken(ClusterChoices(), arguments),
            rules=taken(NamedRules(), arguments).rules(),
            stepping=taken(Stepping(), arguments),
            **arguments,
        )

    def _new_world(self, seed: int, with_classes: bool) -> tuple[dict[str, NDArray[Any]], GpuState]:  # noqa: FBT001
        """Return the columns of all jobs of all loads, and the world."""
        cluster, whole = self.machine, joined(self.loads)
        _, rates = whole.profiles(cluster)
        columns = columns_of(cluster, whole)
        columns["arrival_s"] = np.concatenate([one.jobs["arrival_s"] for one in self.loads])  # each load's own dates
        columns["restart_s"] = draw_restarts(self.rules, whole.n_items, seed)
        job_class, classes = np.zeros(whole.n_items, dtype=np.int64), no_classes()
        if with_classes:
            job_class, classes = classes_of(cluster, whole)
        columns["job_class"] = job_class
        rules = np.zeros(codes.N_RULES, dtype=np.int64)
        rules[codes.TIE], rules[codes.RECORDS] = TIES[self.rules.tie], self._records
        rules[codes.ORDER], rules[codes.PREEMPTS] = ORDERS[self.order.order].code, self.order.preempts
        rules[codes.PLACEMENT] = self._placements[0]
        bounds, keys = levels_of(self.rules, self.order.order, cluster, whole)
        rules[codes.NEEDS_GPUS] = bool((whole.jobs["n_gpus"] > 0).all())
        shared = machine_arrays(cluster, order_nodes(cluster, self.rules.node_order, seed)) | classes
        shared |= {
            "rules": rules,
            "rates": rates,
            "type_rank": rank_types(rates),
            "round_s": np.zeros(1),
            "checkpoint_s": np.array([self.rules.checkpoint_s], dtype=np.float64),
            "level_bounds": bounds,
            "level_keys": keys,
            "sizes": self._sizes,
            "placements": self._placements,
            "observations": self._observations,
            "row_masks": self._row_masks,
        }
        sums = np.concatenate([[0], np.cumsum(whole.jobs["n_gpus"])])
        width = min(self.plan.max_jobs, whole.n_items)
        n_units = int((sums[width:] - sums[:-width]).max())
        room = (width + 64, n_units + cluster.n_units + 64) if self._records else (1, 1)
        world = new_world(shared, self.num_envs, width, n_units, int(whole.jobs["user"].max()) + 2, *room)
        return columns, world

    # ------------------------------------------------------------------ hooks of the batch

    def _begin(self, row: int, episode: int, seed: int, options: Options) -> None:
        del options
        window = self._next_window(row, episode, seed)
        put_jobs(self._state, row, self._columns, self._first_of(window), window.n_jobs)
        self._state.random[row] = 1 + seed % 2147483645
        self._state.agent.unit[row] = self._unit_of(window)

    def _first_of(self, window: Window) -> int:
        """Return the position of the first job of a window among the jobs of all loads."""
        return sum(one.n_items for one in self.loads[: window.workload]) + window.start

    def _unit_of(self, window: Window) -> float:
        """Return the objective that the reference policy reaches with the jobs of a window; 1 without one."""
        if self.reference is None:
            return 1.0
        if window not in self._found_units:
            load = self.loads[window.workload].window(window.start, window.n_jobs)
            first = self._first_of(window)
            trace = simulate(
                self.machine,
                load,
                self.reference,
                seed=self._seed_of_rules,
                rules=self.rules,
                restart_s=self._columns["restart_s"][first : first + window.n_jobs],
            )
            value = compute_metrics(trace)[self.objective]
            self._found_units[window] = value if value > 0.0 else 1.0
        return self._found_units[window]

    def _reset_rows(self, chosen: BoolArray) -> None:
        acting.SERVED.reset(self._borrowed, self._team, chosen, self._counts)

    def _step_rows(self, chosen: BoolArray, actions: NDArray[np.int64]) -> tuple[int, int]:
        while self._records and not self._has_room():
            self._grow()
        return acting.SERVED.step(self._borrowed, self._counts, self._team, chosen, actions)

    def _has_room(self) -> bool:
        """Return whether the log has room for all stays that could end in a step: the running ones, and a new one."""
        counts, log = self._state.counts[0], self._state.log
        n_stays = counts[N_STAYS] + counts[N_RUNNING] + 1
        # Running jobs hold all GPUs, or one each that they share; the new job may take the GPUs of those it preempts.
        n_units = counts[N_UNITS] + 2 * self.machine.n_units + counts[N_RUNNING]
        return bool(n_stays <= log.stay_job.shape[1] and n_units <= log.stay_units.shape[1])

    def _grow(self) -> None:
        """Double the log; compiled code cannot allocate."""
        self._state = doubled(self._state)
        self._borrowed = Borrowed(self._state)

    def _help(self, number: int) -> None:
        acting.SERVED.help(self._borrowed, self._counts, self._team, number, self._chosen)

    def _episode_infos(self, ended: BoolArray) -> dict[str, NDArray[np.float64]]:
        if self._records:
            window = self.window()
            load = self.loads[window.workload].window(window.start, window.n_jobs)
            self._trace = trace_of(self.machine, load, self._state)
        values = acting.SERVED.call(self._borrowed, acting.REPORT, ended)
        found = {name: values[number] for name, number in OBJECTIVES.items()}
        return {"objective": found[self.objective].copy(), **found}

    def _state_arrays(self) -> StateDict:
        return {**saved(self._state), "windows": self._windows}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from where another environment was, see `hdrl.envs.NativeVectorEnv`; the lengths of logs may differ."""
        given = {name: np.asarray(array) for name, array in state.items()}
        for name in StayLog._fields if self._records else ():
            found = given.get(f"episode.{name}")
            while found is not None and found.ndim == 2 and found.shape[1] != getattr(self._state.log, name).shape[1]:
                missing = getattr(self._state.log, name).shape[1] - found.shape[1]
                if missing < 0:
                    self._grow()
                else:
                    given[f"episode.{name}"] = found = np.pad(found, ((0, 0), (0, missing)))
        super().load_state_dict(given)

    # ------------------------------------------------------------------ beyond the interface of Gymnasium

    def trace(self) -> TaskTrace:
        """Return the trace of the last episode that has ended, of a batch of one row with ``records=True``.

        Raise OptionsError if stays were not recorded, or none has ended (in this process: no `state_dict` holds it).
        """
        if not self._records:
            raise OptionsError("stays were not recorded: make a batch of one row with records=True")
        if self._trace is None:
            raise OptionsError("no episode has ended")
        return self._trace


def _order_of(text: str, *, sees_durations: bool) -> Policy:
    """Return the order of the queue as a policy; refuse those that are no order of jobs by themselves."""
    policy = read_policy(text)
    plain = Policy(policy.order, rule=ORDERS[policy.order].rule, preempts=policy.preempts)
    if policy != plain:
        raise OptionsError(f"order is {text!r}, expected an order alone: placements and rules are the agent's choice")
    if policy.order in ("drf", "gittins") or policy.learns:
        known = [name for name in ORDERS if name not in ("drf", "gittins") and not read_policy(name).learns]
        raise OptionsError(f"order is {text!r}, which is not one of single jobs; expected one of {', '.join(known)}")
    if policy.needs_durations and not sees_durations:
        raise OptionsError(f"order is {text!r}, which needs job durations, but sees_durations is false")
    return policy


def policy_without_shares(text: str) -> Policy:
    """Read the policy that a reference is; refuse those that share out GPUs in rounds of their own."""
    if text in SHARES:
        raise OptionsError(f"reference is {text!r}, which runs in rounds of its own: expected a policy without shares")
    return read_policy(text)


class GpuClusterEnv(RowPickEnv):
    """One GPU cluster: see `GpuClusterVectorEnv`."""

    batch: GpuClusterVectorEnv
    batch_class = GpuClusterVectorEnv.of

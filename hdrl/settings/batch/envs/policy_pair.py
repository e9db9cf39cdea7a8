"""`hdrl/PolicyPair-v0`: choose how jobs are chosen and placed, decision by decision, on a heterogeneous cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from hdrl.base.errors import SimulationError, UnknownName
from hdrl.compiled.counts import ALL_LEGAL
from hdrl.compiled.team import LEADER
from hdrl.envs.episodes import Length, Part, Start, Window
from hdrl.envs.hooks import BoolArray, Options, StateDict
from hdrl.envs.native import NativeVectorEnv
from hdrl.envs.own_objective import OwnObjective, OwnRewards
from hdrl.envs.requests import check_flags, check_render_mode
from hdrl.envs.single import SingleEnv
from hdrl.envs.windowed import Windowed
from hdrl.settings.batch.envs.policy_pair_arguments import (
    Actions,
    action_names,
    job_limits,
    largest_fractions,
    observation_space,
    off_after_s,
    pair_numbers,
    platform_of,
    pstate_shares,
    site_rules_reason,
    watch_scalars,
    workloads_of,
)
from hdrl.settings.batch.envs.policy_pair_rows import PairRows, replay, window_workload
from hdrl.settings.batch.envs.rewards import ALIASES, OBJECTIVES, GivenObjective, read_objective
from hdrl.settings.batch.kernel import codes, episodes
from hdrl.settings.batch.kernel.beginning import NO_RULE
from hdrl.settings.batch.kernel.reward import N_OBJECTIVES
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.policies.pairs import VOID, read_pair
from hdrl.settings.batch.simulation.embedded import check_platform, check_switches
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.simulators import COMPATIBILITY_MODES, HDEEPRM
from hdrl.settings.batch.workload import read_workload
from hdrl.settings.batch.workload.model import Workload

_REPORTED = tuple(ALIASES.values())
"""Contents of ``info["results"]`` at every end, the metrics of HDeepRM's objectives; others are there if rewarded."""

DEFAULT_PLATFORM = "gaia"
DEFAULT_WORKLOAD = "lublin_gaia_1000"


class PolicyPairVectorEnv(Windowed, NativeVectorEnv):
    """A batch of environments in which an agent chooses policy pairs.

    Description
        Jobs arrive at a cluster of cores that differ in speed, power, memory and memory bandwidth. Whenever jobs were
        submitted or have ended, and jobs wait, the agent chooses a *policy pair*: which job is next, and which cores it
        gets. Jobs are started by that pair, one after the other, until the next one does not fit. Everything else is
        as in `hdrl.simulate`: an agent that always chooses the same pair gives the same trace.

    Action Space
        ``Discrete(n)``: the policies of `actions` in their order, HDeepRM's 36 pairs by default, and *void* last if it
        is on: start nothing and wait for news. Void is legal as long as news can come: while a job runs, or while
        jobs are still to be submitted; the mask says so. (In the compatibility mode void counts as action 0 otherwise.)
        Where nodes can be switched off, policies may also say how many are on (``fcfs+easy~on0.5``) or after which time
        without a job they are switched off (``fcfs+easy~off600``), until another one says something else.

    Observation Space
        ``Box(0, 1, (size,), float32)``; see `observation_names` for every value, in order. Of each node its free
        memory, of each of its processors its free memory bandwidth (0 if over-committed), and of each of its cores
        present speed and power, and the part of the requested work of its job that is left, all as fractions
        (``normal``); minimum, quartiles and maximum over the waiting jobs of requested time, cores, memory and memory
        bandwidth, as fractions of the largest of all jobs; the change of the queue's length since the last decision,
        relative to the smaller of both lengths: 0.5 is none, 0 and 1 are a change by `queue_sensitivity` or more (1
        also if it was empty). ``small`` leaves out the cores, ``minimal`` all of the platform. Sizes:
        ``nodes + processors + 3 cores + 21``, ``nodes + processors + 21`` and 21.

    Rewards
        At the next decision point, for the last action. By ``"growth"`` it is what the objective has grown by since
        then, negative where less is better: the rewards of an episode add up to the metric of `hdrl.metrics`. By
        ``"hdeeprm"`` it is what HDeepRM pays, a property of the moment of the next message to the scheduler.
        `envs.rewards.OBJECTIVES` has the formulas.

    Starting State
        The first decision point: the whole cluster is free, the first job waits.

    Episode End
        Terminated when all jobs have ended; never truncated.

    Parameters
    ----------
    workload
        The jobs, or the name or file of a workload, or several of either, among which episodes are chosen.
    n_jobs, start, part
        Jobs of an episode, see `hdrl.envs.episodes.plan_episodes`; by default a whole workload. The first job
        of a window is submitted at date 0.
    observation
        ``"normal"``, ``"small"`` or ``"minimal"``.
    objective
        A name of `envs.rewards.OBJECTIVES` or of its aliases, or a custom one: `hdrl.envs.own_objective`.
    reward
        ``"growth"``, ``"hdeeprm"`` or ``"hdeeprm-0.1.0"``; ``None``: the second in the compatibility mode.
    queue_sensitivity
        Relative change of the queue's length that saturates its observation, above 0.
    energy
        True if energy is accounted for.
    compatibility
        ``None``, or ``"hdeeprm-0.3.1"``: decide, observe and reward as HDeepRM 0.3.1 does. Fractions are then of the
        99th percentiles of the workload and exceed 1, the part of work left is 1 for every busy core, and after a void
        the agent decides again at once when no more jobs come, up to 10,000 times. A platform or a workload
        that is given as an object must have been read in the same mode. ``"irmasim"`` only says how a platform is
        read that is given by its name.

    Attributes
    ----------
    platform, workloads
        The machine and the jobs that are simulated.
    actions
        The names of the actions.

    Raises
    ------
    HdrlError
        If an argument is wrong; one line says which, what was found and what was expected.

    Notes
    -----
    At the end ``info["results"]`` holds the return ``r``, the length ``l``, the ``objective``, and all objectives of
    HDeepRM by the names of their metrics.

    Version History
    ---------------
    v0: first version.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        platform: Platform | str | Path = DEFAULT_PLATFORM,
        workload: Workload | str | Path | Sequence[Workload | str | Path] = DEFAULT_WORKLOAD,
        n_jobs: Length = None,
        start: Start = None,
        part: Part = "all",
        actions: Actions | None = None,
        void: bool = True,
        observation: str = "normal",
        objective: GivenObjective = "avg_job_slowdown",
        reward: str | None = None,
        queue_sensitivity: float = 0.05,
        energy: bool = True,
        compatibility: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        n_threads: int = 1,
        render_mode: None = None,
    ) -> None:
        check_render_mode(render_mode)
        check_flags(void=void, energy=energy)
        if compatibility not in (None, *COMPATIBILITY_MODES):
            raise UnknownName("compatibility mode", str(compatibility), COMPATIBILITY_MODES)
        self._compatibility = compatibility
        self._energy = energy
        is_compatible = compatibility == HDEEPRM
        self.platform = platform_of(platform, compatibility)
        self.workloads = workloads_of(workload, self.platform, compatibility)
        why = site_rules_reason(self.platform)
        if why is not None:
            raise SimulationError(why)
        check_platform(self.platform, energy=energy)
        self.actions = action_names(actions, void=void)
        limits = job_limits(self.workloads, compatible=is_compatible)
        largest = largest_fractions(self.workloads, limits) if is_compatible else None
        policies = [read_pair(name) for name in self.actions if name != VOID]
        self._switches = any(one.rule != NO_RULE for one in policies)
        if self._switches:
            deepest = max(one.rule.sleep_state for one in policies)
            check_switches(self.platform, energy=energy, sleep_state=deepest)
        space = observation_space(self.platform, observation, largest, with_nodes=self._switches)
        super().__init__(
            num_envs,
            space,
            spaces.Discrete(len(self.actions)),
            autoreset_mode=autoreset_mode,
            copy=copy,
            n_threads=n_threads,
        )
        self._plan_windows(self.workloads, n_jobs, start, part)
        self._has_random = any(one.job_key == codes.JOB_RANDOM or one.core_key == codes.CORE_RANDOM for one in policies)
        self._void = len(policies) if void else -1
        self._objective = read_objective(objective)
        self._results = np.zeros((self.num_envs, N_OBJECTIVES))
        self._rows = PairRows(
            self.platform,
            self.workloads,
            self.plan,
            self.num_envs,
            self.n_threads,
            energy=energy,
            compatible=is_compatible,
            watch=watch_scalars(
                self._void, observation, self._objective, reward, queue_sensitivity, compatibility, energy
            ),
            pairs=pair_numbers(policies, self.platform),
            off_after_s=off_after_s(policies),
            switches=self._switches,
            limits=limits,
            shares=pstate_shares(self.platform),
            objectives=self._results,
            observations=self._observations,
        )
        self._policy_seeds = np.zeros(self.num_envs, dtype=np.uint64)
        self._own_rewards = (
            OwnRewards(self._objective, self.num_envs) if isinstance(self._objective, OwnObjective) else None
        )
        self._finished: list[tuple[Window, int, NDArray[np.int16], int] | None] = [None] * self.num_envs

    @classmethod
    def unsupported_reason(cls, machine: Platform, load: Workload) -> str | None:
        """Return why a machine and jobs are not simulated exactly here; ``None`` if they are."""
        del load
        why = site_rules_reason(machine)
        if why is not None:
            return why
        try:
            check_platform(machine, energy=False)
        except SimulationError as error:
            return str(error)
        return None

    # ------------------------------------------------------------------ the hooks of the base

    def _begin(self, row: int, episode: int, seed: int, options: Options) -> None:
        del options
        window = self._next_window(row, episode, seed)
        self._policy_seeds[row] = seed
        if self._own_rewards is not None:
            self._own_rewards.value[row] = 0.0
        self._rows.begin(row, window, seed, has_random=self._has_random)

    def _reset_rows(self, chosen: BoolArray) -> None:
        episodes.SERVED.reset(self._rows.borrowed[LEADER], self._team, chosen, self._counts)
        self._check_same_action(chosen)

    def _step_rows(self, chosen: BoolArray, actions: NDArray[np.int64]) -> tuple[int, int]:
        illegal, n_ended = episodes.SERVED.step(self._rows.borrowed[LEADER], self._counts, self._team, chosen, actions)
        if n_ended > 0:
            self._check_same_action(chosen)
        if illegal == ALL_LEGAL and self._own_rewards is not None:
            self._own_rewards.pay(np.flatnonzero(chosen), self._known(), self._rewards, self._returns)
        return illegal, n_ended

    def _help(self, number: int) -> None:
        episodes.SERVED.help(self._rows.borrowed[number], self._counts, self._team, number, self._chosen)

    def _check_same_action(self, chosen: BoolArray) -> None:
        stopped = episodes.first_stopped_row(self._rows.borrowed[LEADER].arrays, chosen)
        if stopped is not None:
            raise SimulationError(f"row {stopped}: deadlock: jobs are waiting and none can start")

    def _episode_infos(self, ended: BoolArray) -> dict[str, NDArray[np.float64]]:
        for row in np.flatnonzero(ended).tolist():
            n_actions = int(self._rows.watches.rows["n_actions"][row, 0])
            history = self._rows.watches.history[row, :n_actions].copy()
            self._finished[row] = (self.window(row), int(self._policy_seeds[row]), history, n_actions)
        known = {name: np.where(ended, column, 0.0) for name, column in self._known().items()}
        reported = [name for name in dict.fromkeys((*_REPORTED, self._objective.metric)) if name in known]
        own = None if self._own_rewards is None else np.where(ended, self._own_rewards.value, 0.0)
        objective = known[self._objective.metric].copy() if own is None else own
        return {"objective": objective, **{name: known[name] for name in reported}}

    def _known(self) -> dict[str, NDArray[np.float64]]:
        """Return the values that compiled code has computed for all rows, by the names of the metrics."""
        codes_of = {name: one.pair_code for name, one in OBJECTIVES.items() if self._energy or not one.needs_energy}
        return {name: self._results[:, code] for name, code in codes_of.items()}

    def _state_arrays(self) -> StateDict:
        own = {
            "windows": self._windows,
            "policy_seeds": self._policy_seeds,
            "results": self._results[:, : len(_REPORTED)],
        }
        if self._objective.metric not in _REPORTED:
            own |= {"more_results": self._results[:, len(_REPORTED) :], "sums": self._rows.watches.sums}
        if self._own_rewards is not None:
            own["own_value"] = self._own_rewards.value
        return own | self._rows.arrays()

    # ------------------------------------------------------------------ what happened

    def policy_seed(self, row: int = 0) -> int:
        """Return the seed of the random policies in the present episode of a row.

        ``hdrl.simulate`` with this seed makes the same draws.
        """
        return int(self._policy_seeds[row])

    def trace(self, row: int = 0) -> BatchTrace:
        """Return everything that happened in the last episode of a row that has ended.

        The episode is simulated again, by the actions that were taken, with all logs.

        Raises
        ------
        SimulationError
            If no episode of the row has ended since the environment was made, or it took more actions than are kept.
        """
        finished = self._finished[row] if 0 <= row < self.num_envs else None
        if finished is None:
            raise SimulationError(f"row {row}: no episode has ended yet, so there is no trace")
        window, seed, actions, n_actions = finished
        if n_actions > len(actions):
            raise SimulationError(
                f"row {row}: the episode took {n_actions:,} actions, of which {len(actions):,} are kept"
            )
        return replay(
            self.platform,
            window_workload(self.workloads, window),
            actions,
            self._rows.watches,
            row,
            seed=seed,
            energy=self._energy,
            compatibility=self._compatibility,
        )


class PolicyPairEnv(SingleEnv):
    """One environment in which an agent chooses policy pairs: see `PolicyPairVectorEnv`."""

    batch: PolicyPairVectorEnv
    batch_class = PolicyPairVectorEnv

    @property
    def actions(self) -> list[str]:
        """The names of the actions."""
        return self.batch.actions


def warm_up(message: Callable[[str], None]) -> None:
    """Compile these environments if they have never been compiled here; later processes load them from the cache."""
    from hdrl.compiled.cache import compile_once
    from hdrl.settings.batch.kernel.jit import CACHE_FOLDER

    def play() -> None:
        platform = read_platform("learning")
        workload = read_workload("learning", platform, custom=True)
        env = PolicyPairEnv(platform=platform, workload=workload, observation="minimal")
        env.reset(seed=0)
        env.step(0)

    text = "compiling the environment (the first time only, about half a minute)"
    compile_once(CACHE_FOLDER, "policy-pair", text, play, message)

"""``hdrl/Pipelines-v0``: give ready kernels of pipelines to units, fused with those that follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.fields import Role, names_of
from hdrl.envs.episodes import Length, Part, Start, Window
from hdrl.envs.native import BoolArray, Info, Options, StateDict
from hdrl.envs.requests import check_flags, check_render_mode
from hdrl.envs.row_pick import RowPickEnv, RowPickVectorEnv
from hdrl.envs.windowed import Windowed
from hdrl.settings.pipelines.envs.options import OBJECTIVES, pipelines_options
from hdrl.settings.pipelines.inputs import LoadLike, read_loads
from hdrl.settings.pipelines.kernel import entries
from hdrl.settings.pipelines.kernel.state import INDEXING, PipelinesState, new_state, set_episode
from hdrl.settings.pipelines.loads.load import PipelineLoad, check_runs_on
from hdrl.settings.pipelines.machine import Units, machine_of
from hdrl.settings.pipelines.simulation.policies import RULES, read_policy
from hdrl.settings.pipelines.simulation.tables import shared_tables
from hdrl.settings.pipelines.simulation.trace import PipelineTrace, trace_of

MAX_DRAWN = 2**62
"""Seeds of execution times are below it."""


class PipelinesVectorEnv(Windowed, RowPickVectorEnv):
    """A batch of environments in which ready kernels are given to CPU and GPU units.

    **Description.** Instances of pipelines are released again and again, each with a deadline. Whenever a kernel is
    ready and a unit is idle, the agent gives a ready kernel to a unit, alone or fused with kernels that follow it: it
    starts if the unit is idle, else it waits in the unit's queue. Agents see worst-case times.

    **Action space.** ``Discrete(max_ready * n_units * n_depths)``: ready kernel (by local deadline), unit, and how much
    is fused with it (by size, 0: nothing); with ``wait`` one more, last, that starts nothing until the next event. Only
    what can be started is legal (``info["action_mask"]``; ``info["row_mask"]`` says which rows hold something).

    **Observation space.** ``Box(-1, 1, (max_ready * n_units * n_depths, 12), float32)``, with ``lookahead`` 16 columns:
    a row for each action but the waiting one, zeros where there is nothing to start. Times are in periods of the
    pipeline and end at -1 and 1.

    ======  =================================================================================
    column  meaning
    ======  =================================================================================
    0       1: the row holds something
    1       time to the deadline of the instance, tolerance included
    2       time to the local deadline of the kernel
    3       slack that is left if this is done, and the rest without a break on its best units
    4       time that it takes on the unit
    5       time until the unit has done all that it has to do
    6       time of the longest path that follows, on best units
    7       what fusing saves, as a share of the kernels one by one
    8       kind of the unit: -1 CPU, 1 GPU
    9       1: the unit is idle
    10      from -1 (far slower than on the other kind) to 1 (far faster, or nowhere else)
    11      share of the instance's kernels that are left which it does
    12      with ``lookahead``: 1 if no row of the kernel has slack, so that its instance is lost
    13      slack of the kernel's best row
    14      slack that the best row has more than this one
    15      on an idle unit: share of three other instances that would be lost by taking it now
    ======  =================================================================================

    **Rewards.** By ``reward``. ``"shaped"``: minus what the step adds to the objective, so that the return is minus the
    objective. ``"slack"``: for each instance that has ended its slack in periods, from -1 to 1. ``"outcome"``: +1 for
    each that ended in time, -1 for the others. ``"rlschedsim"``: the same times the decisions that it took: what
    rlschedsim credits all of them with. ``info["instance"]`` says which instance the last action was about (-1: none)
    and `outcomes` how instances ended, for agents that credit decisions themselves.

    **Starting state.** The first instances of the episode have just been released, all units are idle.

    **Episode end.** When every instance has ended.

    Parameters
    ----------
    machine
        The units, or a text such as ``"1cpu+1gpu"``, see `hdrl.settings.pipelines.machine.read_machine`.
    load
        Loads, files of pipelines (all configurations of their periods), ``"generated:0.8:7"``, or several of these;
        ``None``: 16 generated sets of four pipelines that need 0.8 of two units.
    n_jobs
        Instances of an episode; ``"all"``: all of a load.
    start, part
        Windows of the loads, see `hdrl.envs.episodes.plan_episodes`. All of each load, one load after the other, by
        default.
    n_depths
        Number of visible sizes of fused groups, the kernel alone included; ``None``: all.
    wait
        True if there is an action that waits for the next event.
    lookahead
        True if rows have four numbers more (see above), and a kernel whose row on a busy unit is picked is *held* until
        the next event instead of queued: others may start meanwhile; if all that are seen are held, nothing does.
    objective
        A name of `hdrl.settings.pipelines.envs.options.OBJECTIVES`.
    reward
        A name of `hdrl.settings.pipelines.envs.options.REWARDS`; ``None``: ``"slack"``, which is learned from fastest.
    compatibility
        ``"rlschedsim"``: its state (``Box((2 + 2 * pipelines,))`` in milliseconds: time until CPU and GPU have
        done what they have to do, longest path that each pipeline has left by worst times, time to its deadline), its
        actions (kind of unit and depth for the kernel with the earliest local deadline; too large a depth means the
        largest) and its reward.
    errors
        Errors of rlschedsim to reproduce, names of `hdrl.settings.pipelines.envs.options.ERRORS`; ``None``: all of them
        in its compatibility mode.
    redraw
        True if execution times below the worst case are drawn anew for every episode; else they are those of the load.
    autoreset_mode, copy, n_threads
        See `hdrl.envs.NativeVectorEnv`.

    Raises
    ------
    OptionsError
        If an argument is wrong.
    WorkloadError
        If a load can never run on the machine.
    ReadError
        If a file cannot be read.

    Notes
    -----
    Version 0.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        machine: Units | str | Path = "1cpu+1gpu",
        load: LoadLike | Sequence[LoadLike] | None = None,
        n_jobs: Length = "all",
        start: Start = None,
        part: Part = "all",
        max_ready: int = 8,
        n_depths: int | None = None,
        wait: bool = False,
        lookahead: bool = False,
        objective: str = "miss_ratio",
        reward: str | None = None,
        compatibility: str | None = None,
        errors: Iterable[str] | None = None,
        redraw: bool = True,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        n_threads: int = 1,
        render_mode: None = None,
    ) -> None:
        check_render_mode(render_mode)
        check_flags(wait=wait, lookahead=lookahead, redraw=redraw)
        self.machine = machine_of(machine)
        self.loads = read_loads(load, self.machine)
        for one in self.loads:
            check_runs_on(one, self.machine)
        self.options = pipelines_options(
            self.machine,
            self.loads,
            max_ready=max_ready,
            n_depths=n_depths,
            wait=wait,
            lookahead=lookahead,
            objective=objective,
            reward=reward,
            compatibility=compatibility,
            errors=errors,
        )
        self.redraw = redraw
        super().__init__(
            num_envs,
            self.options.layout(self.machine.n_units),
            autoreset_mode=autoreset_mode,
            copy=copy,
            n_threads=n_threads,
        )
        self._plan_windows(self.loads, n_jobs, start, part)
        self._shared = shared_tables(self.machine, self.loads)
        self._shared["settings"] = self.options.settings()
        self._firsts = np.cumsum([0, *(one.n_items for one in self.loads)])
        self._state = new_state(
            self.num_envs,
            self.plan.max_jobs,
            self._max_kernels(),
            self._shared,
            observations=self._observations,
            masks=self._masks,
            row_masks=self._row_masks,
        )
        self._borrowed = Borrowed(self._state)
        self._seeds_of_times = np.zeros(self.num_envs, dtype=np.int64)
        self._finished: dict[int, tuple[Window, dict[str, NDArray[Any]]]] = {}

    def _max_kernels(self) -> int:
        """Return the most kernels that the instances of a window may have together."""
        n = self.plan.max_jobs
        most = 1
        for load in self.loads:
            firsts, width = load.first_kernels, min(n, load.n_items)
            most = max(most, int((firsts[width:] - firsts[:-width]).max()))
        return most

    # ------------------------------------------------------------------ hooks of the batch

    def _begin(self, row: int, episode: int, seed: int, options: Options) -> None:
        del options
        window = self._next_window(row, episode, seed)
        self._seeds_of_times[row] = seed % MAX_DRAWN
        load = self._load(window)
        set_episode(
            self._state, row, int(self._firsts[window.workload]) + window.start, window.n_jobs, self._shares(row, load)
        )

    def _load(self, window: Window) -> PipelineLoad:
        return self.loads[window.workload].window(window.start, window.n_jobs)

    def _shares(self, row: int, load: PipelineLoad) -> NDArray[np.int64]:
        if not self.redraw:
            return load.shares()
        return load.times.shares(int(load.first_kernels[-1]), int(self._seeds_of_times[row]))

    def _reset_rows(self, chosen: BoolArray) -> None:
        entries.SERVED.reset(self._borrowed, self._team, chosen)

    def _step_rows(self, chosen: BoolArray, actions: NDArray[np.int64]) -> tuple[int, int]:
        return entries.SERVED.step(self._borrowed, self._counts, self._team, chosen, actions)

    def _help(self, number: int) -> None:
        entries.SERVED.help(self._borrowed, self._counts, self._team, number, self._chosen)

    def _mask_info(self, chosen: BoolArray) -> Info:
        info = super()._mask_info(chosen)
        return info | {"instance": self._state.scalars["decided"][:, 0].copy(), "_instance": chosen.copy()}

    def _episode_infos(self, ended: BoolArray) -> dict[str, NDArray[np.float64]]:
        for row in np.flatnonzero(ended).tolist():
            self._finished[row] = (
                self.window(row),
                {name: getattr(self._state, name)[row].copy() for name in ("scalars", "stays", "progress")},
            )
        values = entries.objectives(self._borrowed, ended)
        found = {name: values[number] for name, number in OBJECTIVES.items()}
        return {"objective": found[self.options.objective].copy(), **found}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # A view, which does not stay one when it is copied together with what it shows.
        self._observations = self._state.observations.reshape(self._observations.shape)

    def _state_arrays(self) -> StateDict:
        found: StateDict = {"windows": self._windows, "seeds_of_times": self._seeds_of_times}
        for name in names_of(PipelinesState, Role.OWN, is_output=False):
            array = getattr(self._state, name)
            if name in INDEXING:
                continue
            if array.dtype.names is None:
                found[name] = array
            else:
                found |= {f"{name}.{part}": array[part] for part in array.dtype.names}
        return found

    # ------------------------------------------------------------------ beyond the interface of Gymnasium

    def n_released(self, row: int = 0) -> int:
        """Return the number of released instances of a row's episode."""
        window = self.window(row)
        first = int(self._firsts[window.workload]) + window.start
        return int(self._state.scalars["next_instance"][row, 0]) - first

    def outcomes(self, row: int = 0) -> NDArray[np.int8]:
        """Return the outcome of each instance of a row's episode so far: 1 in time, -1 too late, 0 not yet."""
        window = self.window(row)
        first = int(self._firsts[window.workload]) + window.start
        table = self._shared["instances"][first : first + window.n_jobs]
        n_released = self.n_released(row)
        found = np.zeros(window.n_jobs, dtype=np.int8)
        ends = self._state.progress["end_us"][row, :n_released]
        due = (table["deadline_us"] + table["tolerance_us"])[:n_released]
        found[:n_released] = np.where(ends < 0, 0, np.where(ends > due, -1, 1))
        return found

    def trace(self, row: int = 0) -> PipelineTrace:
        """Return the trace of the last episode of a row that has ended.

        Raise OptionsError if none has ended (in this process: it is not part of `state_dict`).
        """
        if row not in self._finished:
            raise OptionsError(f"row {row}: no episode has ended; there are rows 0 to {self.num_envs - 1}")
        window, arrays = self._finished[row]
        state = self._state._replace(**{name: array[np.newaxis] for name, array in arrays.items()})
        return trace_of(state, 0, self.machine, self._load(window))

    def run_policies(
        self, policies: str | Sequence[str], windows: Sequence[Window] | None = None
    ) -> dict[str, dict[str, NDArray[np.float64]]]:
        """Run whole episodes under policies in the same simulator: what an agent is compared with.

        Parameters
        ----------
        policies
            Names of policies (but ``static``), or one of them; ``random`` draws by the number of the window.
        windows
            The episodes, with the loads' own execution times; ``None``: those of the plan, if they are not drawn.
        """
        names = [policies] if isinstance(policies, str) else list(policies)
        chosen = list(self.plan.windows if windows is None else windows)
        if not chosen:
            raise OptionsError("windows is missing: the plan of episodes draws them, so there is no list of them")
        state = new_state(len(chosen), max(one.n_jobs for one in chosen), self._max_kernels(), self._shared)
        for row, window in enumerate(chosen):
            first = int(self._firsts[window.workload]) + window.start
            set_episode(state, row, first, window.n_jobs, self._load(window).shares())
        results = {}
        for name in names:
            rule = RULES[read_policy(name)]
            if name == "static":
                raise OptionsError("policy 'static' follows a plan of each load; simulate it load by load")
            state.weights[:, : len(rule.weights)] = rule.weights
            state.scalars["random"] = 1 + np.arange(len(chosen))[:, np.newaxis]
            values = entries.run_policy(Borrowed(state), rule.codes)
            results[name] = {objective: values[number] for objective, number in OBJECTIVES.items()}
        return results


class PipelinesEnv(RowPickEnv):
    """One environment in which ready kernels are given to units: see `PipelinesVectorEnv`."""

    batch: PipelinesVectorEnv
    batch_class = PipelinesVectorEnv

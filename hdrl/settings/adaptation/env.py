"""``hdrl/Adaptation-v0``: deepen a network here, there or not at all while its budget runs out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.arguments import check_type, listed
from hdrl.base.errors import OptionsError, UnknownName
from hdrl.compiled.counts import ALL_LEGAL
from hdrl.envs.episodes import Part, Start
from hdrl.envs.hooks import BoolArray, FloatArray, Options, StateDict
from hdrl.envs.native import NativeVectorEnv
from hdrl.envs.requests import check_render_mode, checked_count
from hdrl.envs.single import SingleEnv
from hdrl.envs.windowed import Windowed
from hdrl.settings.adaptation.inputs import find_tables
from hdrl.settings.adaptation.load import Jobs, check_device, jobs_of
from hdrl.settings.adaptation.machine import EXPECTED, Device, read_device
from hdrl.settings.adaptation.models import N_IDS
from hdrl.settings.adaptation.simulation import OUTCOME_DTYPE, AdaptingJob, outcome, trace_of
from hdrl.settings.adaptation.table import Table, n_states
from hdrl.trace.model import OutcomeTrace

REWARDS = ("tangent", "accuracy")
"""``tangent``: 100 tan(pi/2 accuracy), that of ChamiLamelas' advisor; ``accuracy``: the accuracy."""

OUTCOMES = ("drawn", "mean")
"""Sources of a job's accuracy: one training, drawn at random, or the mean of all that were measured."""

JOBS_WITHOUT_LOAD = 256
"""Jobs of the load that is taken where none is given."""

Loads = Jobs | str | Path | Sequence["Jobs | str | Path"] | None


class AdaptationVectorEnv(Windowed, NativeVectorEnv):
    """A batch of devices on which networks are deepened while they train.

    **Description.** Jobs come one after the other. Each is a network, data and a budget of time; from some moment on it
    may be deepened behind one of its original blocks, or left as it is, a few times. What becomes of it was measured
    (`hdrl.settings.adaptation.table.Table`).

    **Action space.** ``Discrete(n_blocks + 1)``: deepen behind an original block; the last action is nothing. All are
    legal.

    **Observation space.** ``Box(0, 63, (1 + max_layers,), float32)``: the time left as a share of the budget, then the
    id of each layer of the network as it is now (`hdrl.settings.adaptation.models.layer_ids`), 0 behind the last one.

    **Rewards.** At the end of each job what its *validation* accuracy is worth, otherwise 0.

    **Starting state.** The first decision of the first job of the episode.

    **Episode end.** Behind the last decision of the last job.

    Parameters
    ----------
    machine
        The device; ``None``: the device of the first table.
    load
        Jobs, table files, folders or names of shipped tables, or several of these; ``None``: all shipped tables.
    n_jobs
        Jobs of an episode; ``"all"``: all of a load.
    start, part
        Windows of the loads, see `hdrl.envs.episodes.plan_episodes`.
    autoreset_mode, copy, n_threads
        See `hdrl.envs.NativeVectorEnv`; more threads than one bring nothing here.

    Raises
    ------
    OptionsError
        If an argument is wrong, or a network has more layers.
    WorkloadError
        If jobs were not measured on the device.

    Notes
    -----
    Version 0.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        machine: Device | str | None = None,
        load: Loads = None,
        n_jobs: int | str | None = 1,
        start: Start = None,
        part: Part = "all",
        reward: str = "tangent",
        outcome: str = "drawn",
        max_layers: int = 32,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        n_threads: int = 1,
        render_mode: None = None,
    ) -> None:
        check_render_mode(render_mode)
        for given, what, known in ((reward, "reward", REWARDS), (outcome, "outcome", OUTCOMES)):
            if given not in known:
                raise UnknownName(what, given, known)
        self.loads = loads_of(load)
        self.machine = device_of(machine, self.loads[0])
        check_loads(self.loads, self.machine)
        self.reward, self.outcome = reward, outcome
        first = self.loads[0]
        self.n_steps = first.n_steps
        super().__init__(
            num_envs,
            spaces.Box(0.0, N_IDS - 1.0, (1 + checked_count("max_layers", max_layers),), np.float32),
            spaces.Discrete(first.n_actions),
            autoreset_mode=autoreset_mode,
            copy=copy,
            n_threads=n_threads,
        )
        self._plan_windows(self.loads, n_jobs, start, part)
        tables = [table for one in self.loads for table in one.tables]
        self._seen = np.stack([_seen(table, max_layers) for table in tables])
        self._worth = worth_of(tables, mean=outcome == "mean")
        self._offsets = np.cumsum([0] + [len(one.tables) for one in self.loads])
        width = min(self.plan.max_jobs, max(one.n_items for one in self.loads))
        self._table = np.zeros((self.num_envs, width), dtype=np.int64)
        self._draw = np.zeros((self.num_envs, width), dtype=np.int64)
        self._sequence = np.zeros((self.num_envs, width), dtype=np.int64)
        # Of each row: which of its jobs it is at, its decision, and the state and the sequence of the job so far.
        self._place = np.zeros((self.num_envs, 4), dtype=np.int64)
        self._validation = np.zeros(self.num_envs)

    # ------------------------------------------------------------------ hooks of the batch

    def _begin(self, row: int, episode: int, seed: int, options: Options) -> None:
        del options
        window = self._next_window(row, episode, seed)
        load, part = self.loads[window.workload], slice(window.start, window.start + window.n_jobs)
        self._table[row, : window.n_jobs] = load.table[part] + self._offsets[window.workload]
        self._draw[row, : window.n_jobs] = load.draw[part]

    def _reset_rows(self, chosen: BoolArray) -> None:
        self._place[chosen] = 0
        self._validation[chosen] = 0.0
        self._masks[chosen] = 1
        self._show(np.flatnonzero(chosen))

    def _step_rows(self, chosen: BoolArray, actions: NDArray[np.int64]) -> tuple[int, int]:
        self._actions[:] = actions
        wrong = chosen & ((actions < 0) | (actions >= self.n_actions))
        if wrong.any():
            return int(np.argmax(wrong)), 0
        rows, n = np.flatnonzero(chosen), self.n_actions
        place, taken = self._place[rows], actions[rows]
        place[:, 1] += 1
        place[:, 2] = place[:, 2] * n + 1 + taken
        place[:, 3] = place[:, 3] * n + taken
        self._rewards[rows] = 0.0
        done = place[:, 1] == self.n_steps
        self._end_jobs(rows[done], place[done])
        place[done, 0] += 1
        place[done, 1:] = 0
        self._place[rows] = place
        ends = done & (place[:, 0] == self._windows[rows, 2])
        self._lengths[rows] += 1
        self._returns[rows] += self._rewards[rows]
        self._terminations[rows] = self._has_ended[rows] = ends
        self._show(rows[~ends])
        over = rows[ends]
        self._masks[over] = 0
        self._masks[over, 0] = 1
        return ALL_LEGAL, len(over)

    def _end_jobs(self, rows: NDArray[np.int64], place: NDArray[np.int64]) -> None:
        """Record the sequences and values of the finished jobs of some rows."""
        jobs, sequences = place[:, 0], place[:, 3]
        self._sequence[rows, jobs] = sequences
        accuracy = self._worth[self._table[rows, jobs], sequences, self._draw[rows, jobs]]
        self._validation[rows] += accuracy
        self._rewards[rows] = 100.0 * elementary.tan(accuracy * math.pi / 2) if self.reward == "tangent" else accuracy

    def _show(self, rows: NDArray[np.int64]) -> None:
        place = self._place[rows]
        self._observations[rows] = self._seen[self._table[rows, place[:, 0]], place[:, 2]]

    def _help(self, number: int) -> None:
        """Do nothing: a batch takes some microseconds."""

    def _episode_infos(self, ended: BoolArray) -> dict[str, FloatArray]:
        accuracy = np.where(ended, self._validation / np.maximum(self._windows[:, 2], 1), 0.0)
        return {"objective": accuracy, "mean_validation_accuracy": accuracy.copy()}

    def _state_arrays(self) -> StateDict:
        names = ("windows", "table", "draw", "sequence", "place", "validation")
        return {name: getattr(self, f"_{name}") for name in names}

    def trace(self) -> OutcomeTrace:
        """Return the outcomes of the first row's episode, which must have ended."""
        window = self.window()
        load = self.loads[window.workload].window(window.start, window.n_jobs)
        outcomes = np.zeros(load.n_items, OUTCOME_DTYPE)
        for number in range(load.n_items):
            job = AdaptingJob(load.tables[load.table[number]], int(load.draw[number]), 0)
            outcomes[number] = outcome(job, int(self._sequence[0, number]))
        return trace_of(self.machine, load, outcomes, int(self._lengths[0]))


class AdaptationEnv(SingleEnv):
    """One device: see `AdaptationVectorEnv`."""

    batch: AdaptationVectorEnv
    batch_class = AdaptationVectorEnv


def loads_of(load: Loads) -> list[Jobs]:
    """Return loads, tables as jobs that take turns."""
    several = ["tables"] if load is None else listed("load", load, (Jobs, str, Path), "tables, or hdrl.adaptation.Jobs")
    return [one if isinstance(one, Jobs) else _jobs(str(one)) for one in several]


def _jobs(name: str) -> Jobs:
    tables = find_tables(name, Path(name), "load")
    return jobs_of(Path(name).stem, tables, JOBS_WITHOUT_LOAD)


def device_of(machine: Device | str | None, load: Jobs) -> Device:
    """Return the device that jobs run on: by default the device of their first table."""
    if machine is None:
        return read_device(load.tables[0].device)
    check_type("machine", machine, (Device, str), EXPECTED)
    return read_device(machine, "machine") if isinstance(machine, str) else machine


def check_loads(loads: Sequence[Jobs], device: Device) -> None:
    """Refuse loads of other devices, or that differ in their actions or decisions."""
    first = loads[0]
    for load in loads:
        check_device(load, device)
        if (load.n_actions, load.n_steps) != (first.n_actions, first.n_steps):
            raise OptionsError(f"{load.name} and {first.name} differ in their actions or decisions")


def _seen(table: Table, max_layers: int) -> NDArray[np.float32]:
    """Return the observation of each state of a table, shape ``(n_states, 1 + max_layers)``."""
    found = np.zeros((n_states(table.n_actions, table.n_steps), 1 + max_layers), dtype=np.float32)
    found[:, 0] = table.time_left_s / table.budget_s
    for state, ids in enumerate(table.layers):
        if len(ids) > max_layers:
            raise OptionsError(
                f"{table.name}: its network can have {len(ids)} layers, more than max_layers {max_layers}"
            )
        found[state, 1 : 1 + len(ids)] = ids
    return found


def worth_of(tables: Sequence[Table], *, mean: bool) -> FloatArray:
    """Return validation accuracies by table, sequence and draw; for means, all draws are the mean."""
    width = max(table.n_draws for table in tables)
    found = np.zeros((len(tables), tables[0].n_sequences, width))
    for number, table in enumerate(tables):
        values = table.expected_validation[:, np.newaxis] if mean else table.validation
        found[number, :, : table.n_draws] = values
    return found

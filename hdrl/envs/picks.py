"""Environments of simulations that are generators: they yield what waits whenever there is a choice, and take a place.

One such generator serves policies (`follow`) and agents (`PickEnv`), so that both live in the same world. It steps one
episode at a time in Python; `hdrl.envs.NativeVectorEnv` is for compiled simulations.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, ClassVar, Generic

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from numpy.typing import ArrayLike, NDArray

from hdrl.base.errors import DecisionError
from hdrl.envs.episodes import Length, Part, Start, plan_episodes
from hdrl.metrics.tasks import task_metrics
from hdrl.setting.environments import Arguments, EnvironmentSpec
from hdrl.setting.kinds import LoadT, MachineT, OptionsT, SweepT, TraceT

Decisions = Generator[Sequence[int], int, TraceT]
"""A simulation: yields the items that wait, is sent the position of one of them, and returns what has happened."""

Info = dict[str, object]


def follow(decisions: Decisions[TraceT], choose: Callable[[Sequence[int]], int]) -> TraceT:
    """Return the trace of a simulation in which a rule chooses.

    Parameters
    ----------
    choose
        Returns the position of one of the items that wait.
    """
    try:
        waiting = next(decisions)
        while True:
            waiting = decisions.send(choose(waiting))
    except StopIteration as end:
        trace: TraceT = end.value
        return trace


class PickEnv(gymnasium.Env[NDArray[np.float32], np.int64], Generic[MachineT, LoadT, TraceT]):
    """One of the first items that wait is picked at each decision; the return is the objective of the episode.

    Parameters
    ----------
    n_jobs, start, part
        Windows of the load, see `hdrl.envs.episodes.plan_episodes`.

    Attributes
    ----------
    n_rows, n_features
        Number of visible items, and of features of each.
    objective, sign
        The metric that an episode is for, and 1 where more of it is better, else -1.
    """

    n_rows: ClassVar[int] = 8
    n_features: ClassVar[int]
    objective: ClassVar[str]
    sign: ClassVar[int] = -1

    def __init__(
        self, machine: MachineT, load: LoadT, n_jobs: Length = "all", start: Start = None, part: Part = "all"
    ) -> None:
        self._machine, self._load, self._episode = machine, load, 0
        self._plan = plan_episodes([load.n_items], n_jobs=n_jobs, start=start, part=part, names=[load.name])
        self.observation_space = spaces.Box(-np.inf, np.inf, (self.n_rows, self.n_features), np.float32)
        self.action_space = spaces.Discrete(self.n_rows)

    @abstractmethod
    def decisions(self, machine: MachineT, load: LoadT) -> Decisions[TraceT]:
        """Begin to simulate a load on a machine."""

    @abstractmethod
    def features(self, load: LoadT, items: Sequence[int]) -> ArrayLike:
        """Return the features of waiting items, shape ``(len(items), n_features)``."""

    def measure(self, trace: TraceT) -> Mapping[str, float]:
        """Return metrics of an episode, the objective among them; usually those of all tasks."""
        return task_metrics(trace)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[NDArray[np.float32], Info]:
        """Begin an episode."""
        super().reset(seed=seed, options=options)
        self._episode = 0 if seed is not None else self._episode + 1
        window = self._plan.window(self._episode, int(self.np_random.integers(2**64, dtype=np.uint64)))
        self._part, self._length = self._load.window(window.start, window.n_jobs), 0
        self._waiting: Sequence[int] = ()
        self._trace: TraceT | None = None
        self._play = self.decisions(self._machine, self._part)
        self._advance(None)
        return self._seen()

    def step(self, action: int | np.int64) -> tuple[NDArray[np.float32], float, bool, bool, Info]:
        """Pick an item.

        Raises
        ------
        DecisionError
            If nothing waits in that row.
        """
        if self._trace is None:  # else there was nothing to decide from the beginning
            if not 0 <= action < min(len(self._waiting), self.n_rows):
                raise DecisionError(f"row {action} was picked, but {len(self._waiting)} items wait")
            self._advance(int(action))
        self._length += 1
        observation, info = self._seen()
        if self._trace is None:
            return observation, 0.0, False, False, info
        found = self.measure(self._trace)[self.objective]
        reward = self.sign * found
        info["results"] = {"r": reward, "l": self._length, "objective": found, self.objective: found}
        return observation, reward, True, False, info

    def trace(self) -> TraceT:
        """Return the trace of the episode that has ended.

        Raises
        ------
        DecisionError
            If none has.
        """
        if self._trace is None:
            raise DecisionError("the episode has not ended")
        return self._trace

    def _advance(self, position: int | None) -> None:
        try:
            self._waiting = next(self._play) if position is None else self._play.send(position)
        except StopIteration as end:
            self._trace, self._waiting = end.value, ()

    def _seen(self) -> tuple[NDArray[np.float32], Info]:
        rows, mask = np.zeros((self.n_rows, self.n_features), np.float32), np.zeros(self.n_rows, np.int8)
        shown = self._waiting[: self.n_rows]
        if shown:
            rows[: len(shown)] = self.features(self._part, shown)
        mask[: max(1, len(shown))] = 1
        return rows, {"action_mask": mask}


class PickSpec(EnvironmentSpec[OptionsT, SweepT, MachineT, LoadT]):
    """A `PickEnv` as trainings and model files ask for it; it is registered with Gymnasium."""

    id = ""

    def __init__(self, name: str, env: type[PickEnv[MachineT, LoadT, Any]]) -> None:
        self.id, self._env = name, env
        gymnasium.register(name, entry_point=self._single, vector_entry_point=self._batch)

    def objective(self, arguments: Arguments) -> tuple[str, int]:
        """Return its objective, and its sign."""
        del arguments
        return self._env.objective, self._env.sign

    def player(
        self, machine: MachineT, load: LoadT, arguments: Arguments, options: OptionsT | SweepT | None = None
    ) -> PickEnv[MachineT, LoadT, Any]:
        """Return an environment in which a model decides about all items."""
        del arguments, options
        return self._env(machine, load)

    def _single(self, **arguments: Any) -> PickEnv[MachineT, LoadT, Any]:
        return self._env(**arguments)

    def _batch(self, num_envs: int = 1, **arguments: Any) -> SyncVectorEnv:
        return SyncVectorEnv([lambda: self._env(**arguments)] * num_envs)

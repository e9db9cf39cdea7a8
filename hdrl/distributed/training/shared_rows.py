"""A batch of environments whose rows several workers step: for agents that share environments, but no gradients.

Agents that evolve need nothing else: each row judges one candidate of a generation, and the trainer of one process
moves them all. Which worker has a row changes nothing about it, so the bytes are those of one process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hdrl.base.errors import LearningError, OptionsError
from hdrl.distributed.training.pool import RoleDied, WorkerPool, open_pool
from hdrl.distributed.training.sharing import shared_envs
from hdrl.distributed.training.worker import MakeEnvs
from hdrl.learn.agent import Agent
from hdrl.learn.train import Trainer
from hdrl.options.distributed import DistributedOptions

MAX_DEATHS = 3
"""Number of deaths of workers in one step before the training is given up."""


def row_trainer(
    agent: Agent,
    make_envs: MakeEnvs,
    n_envs: int,
    options: DistributedOptions,
    *,
    seed: int,
    on: str,
    where: str,
) -> Trainer:
    """Return a trainer of one process whose environments are stepped by several workers.

    Raises
    ------
    OptionsError
        If the options say more than how many workers there are, or the environments cannot be shared.
    """
    name = type(agent).__name__
    if options.scheme != "sync":
        raise OptionsError(
            f"{where}: learning.distributed.scheme is {options.scheme!r}, but {name} has no gradients, expected 'sync'"
        )
    for key, field in DistributedOptions.model_fields.items():
        usual = field.get_default(call_default_factory=True)
        if key not in ("scheme", "workers") and getattr(options, key) != usual:
            raise OptionsError(
                f"{where}: learning.distributed.{key} means nothing to {name}, whose workers share environments alone;"
                " expected scheme and workers"
            )
    like = make_envs(shared_envs(n_envs, options.workers, where))
    return Trainer(agent, SharedRows(like, make_envs, options.workers, on), seed=seed)


class RowWorker:
    """The part of the rows that one worker steps; ``first`` is the number of its first row."""

    def __init__(self, make_envs: MakeEnvs, n_rows: int, first: int) -> None:
        self._envs = make_envs(n_rows)
        self._first = first

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> tuple[None, Any]:
        """Begin episodes with the seeds that these rows have in one batch of all."""
        own: Any = seed
        if seed is not None and not getattr(self._envs, "rows_share_draws", False):
            own = [seed + self._first + row for row in range(self._envs.num_envs)]
        return None, (*self._envs.reset(seed=own, options=options), self._state())

    def step(self, actions: NDArray[Any]) -> tuple[None, Any]:
        """Carry out one action in each row, and return the state of the episodes, too."""
        return None, (*self._envs.step(actions), self._state())

    def load_state_dict(self, state: Any) -> tuple[None, None]:
        """Continue from the state of another worker; raise LearningError if environments cannot."""
        load = getattr(self._envs, "load_state_dict", None)
        if state is None or not callable(load):
            raise LearningError("a worker died, and its environments cannot go on where they were")
        load(state)
        return None, None

    def close(self) -> tuple[None, None]:
        """Close the environments."""
        self._envs.close()
        return None, None

    def _state(self) -> Any:
        offered = getattr(self._envs, "state_dict", None)
        return offered() if callable(offered) else None


class SharedRows(VectorEnv[Any, Any, Any]):
    """Environments of several workers as one batch.

    No worker is started before the first episode. If a worker dies, others take over all rows from their state before
    the step.

    Parameters
    ----------
    like
        A batch of one worker's size, for its spaces; it is closed with this one.
    make_envs
        Makes a number of environments. On Ray it is sent to the workers.
    n_workers
        Number of workers that share the rows evenly.
    on
        ``"local"``: all in this process; ``"ray"`` or ``"ray:<address>"``: each in its own.
    """

    def __init__(self, like: VectorEnv[Any, Any, Any], make_envs: MakeEnvs, n_workers: int, on: str) -> None:
        self.num_envs = like.num_envs * n_workers
        self.metadata = like.metadata
        self.render_mode = None
        self.single_observation_space = like.single_observation_space
        self.single_action_space = like.single_action_space
        self.observation_space = batch_space(like.single_observation_space, self.num_envs)
        self.action_space = batch_space(like.single_action_space, self.num_envs)
        self._like, self._make_envs, self._on = like, make_envs, on
        self._n_workers, self._n_each = n_workers, like.num_envs
        self._states: list[Any] = []
        self._workers: list[Any] = []
        self._pool: WorkerPool | None = None
        self._open = contextlib.ExitStack()

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in each row, with one seed for all together: see `gymnasium.vector.VectorEnv.reset`."""
        observations, infos = self._all("reset", [(seed, options)] * self._n_workers)
        return np.concatenate(observations), _joined(infos)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Carry out one action in each row of all workers: see `gymnasium.vector.VectorEnv.step`."""
        *arrays, infos = self._all("step", [(part,) for part in np.split(np.asarray(actions), self._n_workers)])
        observations, rewards, terminated, truncated = (np.concatenate(one) for one in arrays)
        return observations, rewards, terminated, truncated, _joined(infos)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the episodes of all workers."""
        return {"workers": list(self._states)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was called."""
        self._states = list(state["workers"])
        self._release()

    def close_extras(self, **_: Any) -> None:
        """End all workers."""
        self._release()
        self._like.close()

    def _all(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Call a method of all workers, and return their answers part by part."""
        for _ in range(MAX_DEATHS):
            try:
                pool = self._started()
                handles = [
                    pool.call(worker, method, *given) for worker, given in zip(self._workers, arguments, strict=True)
                ]
                *report, states = zip(*(pool.result_of(handle) for handle in handles), strict=True)
            except RoleDied as error:
                died = error
                self._release()
            else:
                self._states = list(states)
                return report
        raise LearningError(f"workers died {MAX_DEATHS} times ({died}); what was saved before still holds")

    def _started(self) -> WorkerPool:
        """Return the workers; start them in the last known state if there are none."""
        if self._pool is None:
            self._pool = self._open.enter_context(open_pool(self._on, self._n_workers))
        if not self._workers:
            self._workers = [
                self._pool.start_role(RowWorker, self._make_envs, self._n_each, number * self._n_each)
                for number in range(self._n_workers)
            ]
            for worker, state in zip(self._workers, self._states, strict=bool(self._states)):
                self._pool.result_of(self._pool.call(worker, "load_state_dict", state))
        return self._pool

    def _release(self) -> None:
        self._workers, self._pool = [], None
        self._open.close()


def _joined(infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the infos of several batches joined into that of one batch of all their rows."""
    joined = {}
    for name, value in infos[0].items():
        parts = [one[name] for one in infos]
        joined[name] = _joined(parts) if isinstance(value, dict) else np.concatenate(parts)
    return joined

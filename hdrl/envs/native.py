"""Base of all environments: batches that live in compiled code, seeds, autoreset, masks, and saving.

There is one implementation of each environment, the batch (`NativeVectorEnv`); a single environment
(`SingleEnv`) is a batch of one. A batch holds its rows in flat arrays with a leading axis and steps all of them in one
compiled call, or in one call for each thread.

Seeds follow Gymnasium: a batch seeded ``s`` seeds its row ``i`` with ``s + i``, and a row does what a single
environment with its seed does, whatever the batch and the number of threads. What is random in an episode depends on
the seed of its row and on the number of the episode alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError, OptionsError
from hdrl.base.hashing import sha256_of
from hdrl.compiled.backends import IS_FAST
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.counts import ALL_LEGAL, new_counts
from hdrl.compiled.team import new_team
from hdrl.envs.helpers import Helpers
from hdrl.envs.hooks import BoolArray, FloatArray, Hooks, Info, Options, StateDict
from hdrl.envs.masks import ACTION_MASK, LegalMultiDiscrete
from hdrl.envs.requests import (
    check_flags,
    check_reset_options,
    checked_count,
    episode_of_each_row,
    read_autoreset_mode,
    rows_to_reset,
    seed_of_each_row,
)
from hdrl.envs.seeds import episode_seed, fresh_seed, seed_key

__all__ = ["BoolArray", "FloatArray", "Info", "NativeVectorEnv", "Options", "StateDict"]


class NativeVectorEnv(Hooks, VectorEnv[NDArray[Any], NDArray[Any], NDArray[Any]]):
    """A batch of environments with masked discrete actions, stepped by compiled code.

    A subclass gives the spaces to this constructor, makes its own arrays, and fills in `hdrl.envs.hooks.Hooks`:
    `_begin` (Python, at the beginning of each episode of a row), `_reset_rows`, `_step_rows` and `_help` (compiled, for
    all rows) and `_episode_infos` (Python, for the rows whose episodes have ended). The hooks write into
    ``_observations``, ``_masks``, ``_rewards``, ``_terminations`` and, if need be, ``_truncations``.

    Parameters
    ----------
    num_envs
        Number of rows, at least 1.
    observation_space
        The space of one row's observation, a `gymnasium.spaces.Box`.
    action_space
        The space of one row's action, a `gymnasium.spaces.Discrete` that begins with 0.
    autoreset_mode
        Date at which a row whose episode has ended begins the next one: ``NEXT_STEP`` at the next step, whose action is
        ignored (reward 0); ``SAME_STEP`` at once, what the episode ended with is in ``info["final_obs"]`` and
        ``info["final_info"]`` then; ``DISABLED`` by `reset` with ``options={"reset_mask": ...}``.
    copy
        True if `reset` and `step` return copies. Without, they return the batch's own buffers, which the next step
        overwrites.
    n_threads
        Number of threads that share the rows. Results do not depend on it. The threads that help keep a core each busy
        for some milliseconds after a step, waiting for the next one, before they go to sleep.

    Attributes
    ----------
    num_envs, single_observation_space, single_action_space, observation_space, action_space
        As in `gymnasium.vector.VectorEnv`.

    Notes
    -----
    ``info["action_mask"]`` (int8, shape ``(num_envs, n_actions)``) says which actions are legal; the mask of a row
    whose episode has ended allows action 0 alone, which is ignored. ``info["results"]`` holds, for the rows that
    ``info["_results"]`` marks, the return ``r`` and the length ``l`` of an episode that has ended, and its
    results by name.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int,
        observation_space: spaces.Box,
        action_space: spaces.Discrete,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        n_threads: int = 1,
    ) -> None:
        check_flags(copy=copy)
        self.num_envs = checked_count("num_envs", num_envs)
        self.autoreset_mode = read_autoreset_mode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = None
        self.single_observation_space = observation_space
        self.single_action_space = action_space
        self.observation_space = batch_space(observation_space, self.num_envs)
        self.copy = copy
        self.n_threads = min(checked_count("n_threads", n_threads), self.num_envs)
        self.n_actions = int(action_space.n)

        self._observations = np.zeros((self.num_envs, *observation_space.shape), dtype=observation_space.dtype)
        counts = new_counts(self.num_envs, self.n_actions)
        self._counts = Borrowed(counts)
        self._actions, self._masks = counts.actions, counts.masks
        self._rewards, self._terminations, self._truncations = counts.rewards, counts.terminations, counts.truncations
        self._returns, self._lengths, self._has_ended = counts.returns, counts.lengths, counts.has_ended
        self._n_ended = self.num_envs
        self.action_space = LegalMultiDiscrete(self._masks)
        self._seeds = np.zeros(self.num_envs, dtype=np.int64)
        self._keys = [0] * self.num_envs
        self._next_episodes = np.zeros(self.num_envs, dtype=np.int64)
        self._is_seeded = False

        self._all = np.ones(self.num_envs, dtype=np.bool_)
        self._chosen = self._all.copy()
        self._team = new_team(self.num_envs, self.n_threads)

    _helpers: Helpers | None = None  # of the class: Gymnasium closes what the constructor refused, too

    # ------------------------------------------------------------------ Gymnasium

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Options | None = None
    ) -> tuple[NDArray[Any], Info]:
        """Begin an episode in every row, or in those of a mask.

        Parameters
        ----------
        seed
            Seed of the first row (the others follow: ``seed + i``), or one of each row. ``None``: continue with the
            next episodes of the present seeds, or begin with seeds of the operating system.
        options
            ``reset_mask``, boolean array: which rows; ``episode``, a number or an array of numbers: which episodes to
            begin with instead of the next ones.

        Returns
        -------
        tuple
            The observations of all rows, shape ``(num_envs, ...)``, and the info.

        Raises
        ------
        OptionsError
            If a seed or an option is wrong.
        """
        given = dict(options or {})
        chosen = rows_to_reset(given.pop("reset_mask", None), self.num_envs)
        rows = np.flatnonzero(chosen).tolist()
        check_reset_options(given, self._option_names)
        episodes = episode_of_each_row(given.pop("episode"), self.num_envs) if "episode" in given else None
        given = self._read_options(given, rows)
        self._seed(seed, rows)
        if episodes is not None:
            self._next_episodes[rows] = episodes[rows]
        self._begin_next(rows, given)
        self._reset_rows(self._with_help(chosen))
        return self._shown(self._observations), self._mask_info(chosen)

    def step(self, actions: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], Info]:
        """Carry out one action in each row.

        Parameters
        ----------
        actions
            Shape ``(num_envs,)``; each must be legal by the mask. The actions of rows that begin an episode in
            this step are ignored.

        Returns
        -------
        tuple
            Observations, rewards (float64), terminations, truncations and the info.

        Raises
        ------
        DecisionError
            If an action is illegal; nothing has happened then.
        """
        if self._n_ended > 0 and (self.autoreset_mode is not AutoresetMode.NEXT_STEP or not self._is_seeded):
            row = int(np.argmax(self._has_ended))
            raise DecisionError(f"row {row}: its episode has ended, or none has begun; reset it first")
        given = self._checked(actions)
        fresh = self._has_ended.copy() if self._n_ended > 0 else None
        illegal, n_ended = self._step_rows(self._with_help(self._all if fresh is None else ~fresh), given)
        if illegal != ALL_LEGAL:
            raise DecisionError(self._illegal_reason(illegal))
        self._n_ended = n_ended
        if fresh is not None:
            self._begin_next(np.flatnonzero(fresh).tolist(), {})
            self._rewards[fresh] = 0.0
            self._reset_rows(self._with_help(fresh))
        # Copied before `_endings`, which may begin the next episodes.
        found = self._rewards.copy(), self._terminations.copy(), self._truncations.copy()
        endings = self._endings() if self._n_ended > 0 else {}
        info = self._mask_info(self._all)
        info.update(endings)
        return self._shown(self._observations), *found, info

    def legal_actions(self, row: int) -> NDArray[np.int8]:
        """Return the mask of a row, as the array itself, which is kept up to date: it must not be written to."""
        return np.asarray(self._masks[row])

    def action_masks(self) -> BoolArray:
        """Return the mask of legal actions, shape ``(num_envs, n_actions)``; the interface of sb3-contrib."""
        return np.not_equal(self._masks, 0)

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads."""
        del kwargs
        if self._helpers is not None:
            self._helpers.close()
            self._helpers = None

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> StateDict:
        """Return the whole state, from which `load_state_dict` continues, as copies of arrays.

        It holds numbers alone: what the environment was made of must be given again to make an equal one.
        """
        return {name: array.copy() for name, array in self._all_arrays().items()}

    def state_layout(self) -> str:
        """Return a hash of the names, types and shapes in `state_dict`, by which states of other versions are known."""
        found = {name: (array.dtype.descr, array.shape) for name, array in sorted(self._all_arrays().items())}
        return sha256_of((), found)

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from where another environment, made of the same arguments, was.

        Raises
        ------
        OptionsError
            If it is of another kind of environment, of another size, or of another version of hdrl; nothing has been
            changed then.
        """
        arrays = self._all_arrays()
        for name in sorted(arrays.keys() ^ state.keys()):
            raise OptionsError(f"state_dict: {name!r} is {'missing' if name in arrays else 'unknown here'}")
        for name, array in arrays.items():
            found = np.asarray(state[name])
            if found.shape != array.shape or found.dtype != array.dtype:
                raise OptionsError(
                    f"state_dict: {name!r} is of {found.dtype} and shape {found.shape},"
                    f" expected {array.dtype} and {array.shape}"
                )
        for name, array in arrays.items():
            array[...] = state[name]
        self._is_seeded = True
        self._n_ended = int(np.count_nonzero(self._has_ended))
        self._keys = [seed_key(seed) for seed in self._seeds.tolist()]
        self._after_load()

    def __getstate__(self) -> dict[str, Any]:
        """Return the contents of a copy: all but the threads, which help this batch alone."""
        state = dict(self.__dict__)
        state.pop("_helpers", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._team = new_team(self.num_envs, self.n_threads)

    def _all_arrays(self) -> StateDict:
        own = {
            "observations": self._observations,
            "masks": self._masks,
            "rewards": self._rewards,
            "terminations": self._terminations,
            "truncations": self._truncations,
            "returns": self._returns,
            "lengths": self._lengths,
            "has_ended": self._has_ended,
            "seeds": self._seeds,
            "next_episodes": self._next_episodes,
        }
        return own | {f"episode.{name}": array for name, array in self._state_arrays().items()}

    # ------------------------------------------------------------------ parts

    def _seed(self, seed: int | Sequence[int | None] | None, rows: list[int]) -> None:
        seeds = seed_of_each_row(seed, self.num_envs)
        for row in range(self.num_envs):
            chosen = seeds[row] if row in rows else None
            if chosen is None and self._is_seeded:
                continue
            self._seeds[row] = fresh_seed() if chosen is None else chosen
            self._keys[row] = seed_key(int(self._seeds[row]))
            self._next_episodes[row] = 0
        self._is_seeded = True

    def _begin_next(self, rows: Iterable[int], options: Options) -> None:
        """Choose the contents of the next episodes of rows."""
        for row in rows:
            episode = int(self._next_episodes[row])
            self._next_episodes[row] = episode + 1
            self._begin(row, episode, episode_seed(self._keys[row], episode), options)
            self._returns[row] = 0.0
            self._lengths[row] = 0
            self._terminations[row] = self._truncations[row] = self._has_ended[row] = False
        self._n_ended = int(np.count_nonzero(self._has_ended))

    def _checked(self, actions: NDArray[Any]) -> NDArray[np.int64]:
        """Return actions as contiguous whole numbers, one for each row; whether they are legal is not looked at."""
        array = np.asarray(actions)
        if array.shape != (self.num_envs,) or array.dtype.kind not in "iu":
            raise DecisionError(
                f"actions are of {array.dtype} and shape {array.shape},"
                f" expected whole numbers of shape {(self.num_envs,)}"
            )
        return np.ascontiguousarray(array, dtype=np.int64)

    def _illegal_reason(self, row: int) -> str:
        action = int(self._actions[row])
        if not 0 <= action < self.n_actions:
            return f"row {row}: no action {action}, expected 0 to {self.n_actions - 1}"
        legal = np.flatnonzero(self._masks[row])
        shown = ", ".join(str(one) for one in legal[:8].tolist())
        more = ", ..." if len(legal) > 8 else ""
        return (
            f"row {row}: action {action} is illegal here, legal: {shown}{more}"
            " (for algorithms without masks: hdrl.envs.masks.NearestLegal)"
        )

    def _with_help(self, chosen: BoolArray) -> BoolArray:
        """Call the threads that help, and return the chosen rows where these look for them."""
        if self.n_threads == 1 or not IS_FAST:
            return chosen
        if self._helpers is None:
            self._helpers = Helpers(self.n_threads - 1, self._help)
        self._chosen[:] = chosen
        self._helpers.call()
        return self._chosen

    def _endings(self) -> Info:
        """Return the info about episodes that have ended; begin the next ones if that is due at once."""
        ended = self._has_ended.copy()
        returns, lengths = np.where(ended, self._returns, 0.0), np.where(ended, self._lengths, 0)
        found = _of_rows({"r": returns, "l": lengths, **self._episode_infos(ended)}, ended)
        found = _of_rows({"results": found}, ended)
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            return found
        found |= _of_rows({ACTION_MASK: self._masks * ended[:, np.newaxis]}, ended)
        rows = np.flatnonzero(ended).tolist()
        observations = np.full(self.num_envs, None, dtype=object)
        for row in rows:
            observations[row] = self._observations[row].copy()
        self._begin_next(rows, {})
        self._reset_rows(self._with_help(ended))
        return _of_rows({"final_obs": observations, "final_info": found}, ended)

    def _mask_info(self, chosen: BoolArray) -> Info:
        """Return the masks of all rows, and the rows that are new; a subclass with more masks adds them."""
        return {ACTION_MASK: self._shown(self._masks), "_action_mask": chosen.copy()}

    def _shown(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy() if self.copy else array


def _of_rows(info: Info, rows: BoolArray) -> Info:
    """Return an info with a mask for each entry that says for which rows it holds, as Gymnasium does."""
    return info | {f"_{name}": rows.copy() for name in info}

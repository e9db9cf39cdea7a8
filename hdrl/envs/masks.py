"""Action masks, offered the ways in which libraries look for them.

================================  ===================================================================================
who                               where
================================  ===================================================================================
Gymnasium, our own agents         ``info["action_mask"]``, int8
sb3-contrib                       the method ``action_masks()``, bool; `hdrl.envs.sb3` passes it on from batches
RLlib                             a Dict observation ``{"observations", "action_mask"}``: `DictObservation`
TorchRL                           a Dict observation with a bool mask: ``DictObservation(env, dtype=bool)``
loops that know nothing of masks  ``env.action_space.sample()`` draws legal actions: `LegalDiscrete`
================================  ===================================================================================
"""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import DTypeLike, NDArray

from hdrl.base.errors import OptionsError

OBSERVATIONS = "observations"
ACTION_MASK = "action_mask"


class LegalDiscrete(spaces.Discrete):
    """A `gymnasium.spaces.Discrete` whose samples are legal at the moment.

    A copy of it is a plain `gymnasium.spaces.Discrete`: it could not follow the environment.

    ``mask``: which actions are legal, shape ``(n_actions,)``: an array that the environment keeps up to date.
    """

    def __init__(self, mask: NDArray[np.int8]) -> None:
        super().__init__(len(mask))
        self._legal = mask

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """Draw an action, by default a legal one."""
        if mask is None and probability is None and self._legal.any():
            mask = self._legal.copy()
        return super().sample(mask, probability)

    def __reduce__(self) -> tuple[type[spaces.Discrete], tuple[int]]:
        return spaces.Discrete, (int(self.n),)

    def __deepcopy__(self, memo: dict[int, Any]) -> spaces.Discrete:
        return spaces.Discrete(int(self.n))


class LegalMultiDiscrete(spaces.MultiDiscrete):
    """A `gymnasium.spaces.MultiDiscrete` whose samples are legal at the moment: `LegalDiscrete` for a batch.

    ``masks``: which actions are legal, shape ``(num_envs, n_actions)``: an array that the environment keeps up to date.
    """

    def __init__(self, masks: NDArray[np.int8]) -> None:
        super().__init__([masks.shape[1]] * masks.shape[0])
        self._legal = masks

    def sample(self, mask: Any = None, probability: Any = None) -> NDArray[Any]:
        """Draw an action for each row, by default legal ones."""
        if mask is None and probability is None and self._legal.any(axis=1).all():
            mask = tuple(row.copy() for row in self._legal)
        return super().sample(mask, probability)

    def __reduce__(self) -> tuple[type[spaces.MultiDiscrete], tuple[list[int]]]:
        return spaces.MultiDiscrete, (self.nvec.tolist(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> spaces.MultiDiscrete:
        return spaces.MultiDiscrete(self.nvec.tolist())


def _dict_space(observations: spaces.Space[Any], n_actions: int, dtype: DTypeLike) -> spaces.Dict:
    """Return the space of observations with a mask."""
    kind = np.dtype(dtype)
    if kind not in (np.dtype(np.int8), np.dtype(np.bool_), np.dtype(np.float32)):
        raise OptionsError(f"dtype is {kind}, expected int8, bool or float32")
    mask: spaces.Space[Any] = spaces.MultiBinary(n_actions)
    if kind != np.dtype(np.int8):
        mask = spaces.Box(0, 1, (n_actions,), kind.type)
    return spaces.Dict({ACTION_MASK: mask, OBSERVATIONS: observations})


class DictObservation(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Puts the mask into the observation: ``{"action_mask": ..., "observations": ...}``.

    Parameters
    ----------
    env
        An environment with ``info["action_mask"]``.
    dtype
        Type of the mask: int8 (RLlib), bool (TorchRL) or float32.

    Raises
    ------
    OptionsError
        If the type is another one.
    """

    def __init__(self, env: gymnasium.Env[NDArray[Any], Any], dtype: DTypeLike = np.int8) -> None:
        RecordConstructorArgs.__init__(self, dtype=dtype)
        gymnasium.Wrapper.__init__(self, env)
        self._dtype = np.dtype(dtype)
        n_actions = int(env.action_space.n)  # type: ignore[attr-defined]
        self.observation_space = _dict_space(env.observation_space, n_actions, dtype)

    def _with_mask(self, observations: NDArray[Any], info: dict[str, Any]) -> dict[str, NDArray[Any]]:
        return {ACTION_MASK: info[ACTION_MASK].astype(self._dtype), OBSERVATIONS: observations}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode: see `gymnasium.Env.reset`."""
        observations, info = self.env.reset(seed=seed, options=options)
        return self._with_mask(observations, info), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Carry out an action: see `gymnasium.Env.step`."""
        observations, reward, terminated, truncated, info = self.env.step(action)
        return self._with_mask(observations, info), reward, terminated, truncated, info


class DictObservationVector(VectorWrapper):
    """`DictObservation` for a batch."""

    def __init__(self, env: VectorEnv[Any, Any, Any], dtype: DTypeLike = np.int8) -> None:
        super().__init__(env)
        self._dtype = np.dtype(dtype)
        n_actions = int(env.single_action_space.n)  # type: ignore[attr-defined]
        self.single_observation_space = _dict_space(env.single_observation_space, n_actions, dtype)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)

    def _with_mask(self, observations: NDArray[Any], info: dict[str, Any]) -> dict[str, NDArray[Any]]:
        endings = info.get("final_obs")
        if endings is not None:
            for row in np.flatnonzero(info["_final_obs"]).tolist():
                mask = info["final_info"][ACTION_MASK][row].astype(self._dtype)
                endings[row] = {ACTION_MASK: mask, OBSERVATIONS: endings[row]}
        return {ACTION_MASK: info[ACTION_MASK].astype(self._dtype), OBSERVATIONS: observations}

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin episodes: see `gymnasium.vector.VectorEnv.reset`."""
        observations, info = self.env.reset(seed=seed, options=options)
        return self._with_mask(observations, info), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Carry out an action in each row: see `gymnasium.vector.VectorEnv.step`."""
        observations, rewards, terminations, truncations, info = self.env.step(actions)
        return self._with_mask(observations, info), rewards, terminations, truncations, info


def nearest_legal(actions: NDArray[Any], masks: NDArray[Any]) -> NDArray[np.int64]:
    """Return the nearest legal action to each, by number; the lower one of two equally near ones.

    For algorithms that know nothing of masks.

    - ``actions``: shape ``(n_rows,)``.
    - ``masks``: which actions are legal, shape ``(n_rows, n_actions)``, at least one in each row.
    """
    distances = np.abs(np.arange(masks.shape[1]) - np.asarray(actions).reshape(-1, 1))
    return np.asarray(np.where(masks != 0, distances, masks.shape[1] + 1).argmin(axis=1), dtype=np.int64)


class NearestLegal(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Takes the nearest legal action instead of an illegal one, for algorithms that know nothing of masks.

    ``env``: an environment with ``action_masks()``.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Carry out an action: see `gymnasium.Env.step`."""
        masks = self.env.get_wrapper_attr("action_masks")().reshape(1, -1)
        return self.env.step(nearest_legal(np.asarray(action).reshape(1), masks)[0])

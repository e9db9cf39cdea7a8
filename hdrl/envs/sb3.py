"""Our batches as a VecEnv of Stable-Baselines3 and sb3-contrib.

>>> batch = gymnasium.make_vec("hdrl/JobPick-v0", num_envs=64, autoreset_mode="SameStep")  # doctest: +SKIP
>>> model = MaskablePPO("MlpPolicy", as_vec_env(batch))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from hdrl.base.errors import MissingExtra, OptionsError, suggest
from hdrl.envs.index import IndexVectorEnv
from hdrl.envs.masks import nearest_legal
from hdrl.envs.native import NativeVectorEnv

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError:
    raise MissingExtra("stable-baselines3 and sb3-contrib", "sb3") from None

ILLEGAL = ("error", "nearest")
"""Ways to treat illegal actions."""


class NativeVecEnv(VecEnv):
    """A batch as a VecEnv.

    - ``env``: a batch that begins the next episode in the step that ends one (`AutoresetMode.SAME_STEP`).
    - ``illegal``: ``"error"``: an illegal action is an error. ``"nearest"``: the nearest legal one is taken.
    """

    def __init__(self, env: NativeVectorEnv | IndexVectorEnv, illegal: str) -> None:
        self.env = env
        self._illegal = illegal
        self._actions = np.zeros(env.num_envs, dtype=np.int64)
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> NDArray[Any]:
        """Begin an episode in each row, with the seeds given to `seed`, and return the observations."""
        options = _options_of_batch(self._options)
        seeds = None if all(one is None for one in self._seeds) else self._seeds
        observations, info = self.env.reset(seed=seeds, options=options)
        if "action_mask" in info:
            self.reset_infos = [{"action_mask": mask} for mask in info["action_mask"]]
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take the actions of the next step."""
        self._actions = np.asarray(actions)
        if self._illegal == "nearest":
            self._actions = nearest_legal(self._actions, self._masks())

    def step_wait(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], list[dict[str, Any]]]:
        """Carry out the actions; return observations, rewards, which episodes have ended, and an info for each row."""
        observations, rewards, terminations, truncations, info = self.env.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = terminations | truncations
        for row in np.flatnonzero(ended).tolist():
            episode = info["final_info"]["results"]
            infos[row] = {
                "terminal_observation": info["final_obs"][row],
                "TimeLimit.truncated": bool(truncations[row] and not terminations[row]),
                "episode": {name: episode[name][row].item() for name in episode if not name.startswith("_")},
            }
        return observations, rewards.astype(np.float32), ended, infos

    def close(self) -> None:
        """End the threads of the batch."""
        self.env.close()

    def _masks(self) -> NDArray[np.bool_]:
        if isinstance(self.env, IndexVectorEnv):
            raise OptionsError("an action is weights, which have no masks; use an algorithm without, such as PPO")
        return self.env.action_masks()

    def _rows(self, indices: int | Iterable[int] | None) -> list[int]:
        return [int(index) for index in self._get_indices(indices)]

    def has_attr(self, attr_name: str) -> bool:
        """Tell whether the batch has an attribute."""
        return hasattr(self.env, attr_name)

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """Return an attribute of the batch, once for each row."""
        return [getattr(self.env, attr_name)] * len(self._rows(indices))

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:
        """Raise `OptionsError`: the rows of a batch have no attributes of their own."""
        del value, indices
        raise OptionsError(f"set_attr: {attr_name!r} cannot be set, rows of a batch have no attributes of their own")

    def env_method(
        self, method_name: str, *method_args: Any, indices: int | Iterable[int] | None = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each row: ``"action_masks"``, or one of the batch whose first argument is the row."""
        rows = self._rows(indices)
        if method_name == "action_masks":
            masks = self._masks()
            return [masks[row] for row in rows]
        method = getattr(self.env, method_name)
        return [method(row, *method_args, **method_kwargs) for row in rows]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: int | Iterable[int] | None = None) -> list[bool]:
        """Tell of each row whether it is wrapped: they are not."""
        del wrapper_class
        return [False] * len(self._rows(indices))


def _options_of_batch(options: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Return the options of a reset of the batch from the options of each row."""
    given = [one or {} for one in options]
    if any(one.keys() != given[0].keys() for one in given):
        raise OptionsError("set_options: the rows of a batch are reset together, expected the same options for each")
    return {name: np.array([one[name] for one in given]) for name in given[0]} or None


def as_vec_env(env: NativeVectorEnv | IndexVectorEnv, *, illegal: str = "error") -> NativeVecEnv:
    """Return a batch as a VecEnv of Stable-Baselines3.

    Parameters
    ----------
    env
        A batch of ``gymnasium.make_vec("hdrl/...", num_envs=..., autoreset_mode="SameStep")``.
    illegal
        Treatment of illegal actions: ``"error"`` suits algorithms that know masks (MaskablePPO); ``"nearest"`` takes
        the nearest legal action, for those that do not (PPO, A2C, DQN).

    Raises
    ------
    OptionsError
        If the batch begins episodes otherwise or hands out its own buffers, or ``illegal`` is unknown.
    """
    if env.autoreset_mode is not AutoresetMode.SAME_STEP:
        raise OptionsError(f"autoreset_mode is {env.autoreset_mode.value!r}, Stable-Baselines3 needs 'SameStep'")
    if isinstance(env, NativeVectorEnv) and not env.copy:
        raise OptionsError("copy is False, Stable-Baselines3 needs True: it keeps the observations that it is given")
    if illegal not in ILLEGAL:
        raise OptionsError(f"illegal is {illegal!r}; {suggest(str(illegal), ILLEGAL)}")
    return NativeVecEnv(env, illegal)

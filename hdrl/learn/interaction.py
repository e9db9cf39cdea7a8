"""Stepping a vector environment: masks, ends of episodes and both modes of autoreset, turned into tensors.

What Gymnasium leaves to the reader is settled here, once for all algorithms. With NEXT_STEP the step after an end
ignores its action and returns the first observation of the next episode: it is no transition. With SAME_STEP the
observation that is returned with an end belongs to the next episode already, and the last one of the episode is in
``info["final_obs"]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

from hdrl.base.errors import LearningError
from hdrl.learn.memory import Finals, Outcome
from hdrl.learn.spaces import action_size_of, observation_shape_of

Episode = dict[str, Any]
"""An episode that has ended.

``return``, ``length``, ``env`` (its index), and what the environment says in ``info["results"]``.
"""


class Interaction:
    """A vector environment and where its episodes are.

    Parameters
    ----------
    envs
        Any `gymnasium.vector.VectorEnv` with Box observations and Discrete or Box actions. Which actions are legal is
        read in ``info["action_mask"]``, shape ``(num_envs, n_actions)``; without it all of them are.

    Attributes
    ----------
    observations
        Present observations, shape ``(num_envs, *observation_shape)``, float32. Valid until the next step.
    mask
        Mask of the legal actions, shape ``(num_envs, n_actions)``, bool, at least one in each row; or ``None``: all.
    episodes
        Episodes that have ended since the list was emptied, in the order of time, then of environments.

    Raises
    ------
    LearningError
        If the environment has other spaces, or does not start over by itself.
    """

    def __init__(self, envs: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        mode = envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        if AutoresetMode(mode) is AutoresetMode.DISABLED:
            raise LearningError(
                "the vector environment has autoreset_mode 'Disabled', expected 'NextStep' or 'SameStep'"
            )
        self.envs = envs
        self.is_same_step = AutoresetMode(mode) is AutoresetMode.SAME_STEP
        self.n_envs = envs.num_envs
        self.observation_shape = observation_shape_of(envs.single_observation_space)
        self.n_actions = action_size_of(envs.single_action_space)
        self.observations = torch.zeros((self.n_envs, *self.observation_shape))
        self.mask: Tensor | None = None
        self.episodes: list[Episode] = []
        self._has_ended = np.zeros(self.n_envs, dtype=np.bool_)
        self._returns = np.zeros(self.n_envs)
        self._lengths = np.zeros(self.n_envs, dtype=np.int64)

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode in every environment; ``None`` as seed continues their own random streams."""
        observations, infos = self.envs.reset(seed=seed)
        self.observations = self._tensor(observations)
        self.mask = self._mask(infos)
        self._has_ended[:] = False
        self._returns[:] = 0.0
        self._lengths[:] = 0

    def step(self, actions: Tensor) -> Outcome:
        """Carry out one action in each environment.

        ``actions``: shape ``(num_envs,)``, int64; of a Box, shape ``(num_envs, n_actions)``, floating point.
        """
        observations, rewards, terminations, truncations, infos = self.envs.step(actions.numpy())
        valid = ~self._has_ended
        ended = np.logical_or(terminations, truncations)
        exact = np.array(rewards, dtype=np.float64)
        self._count(exact, valid, ended, infos)
        finals = self._finals(infos, ended) if self.is_same_step and ended.any() else None
        self.observations = self._tensor(observations)
        self.mask = self._mask(infos)
        self._has_ended = np.zeros_like(ended) if self.is_same_step else ended
        # A copy of each: environments may hand out their own buffers.
        return Outcome(
            rewards=torch.from_numpy(np.array(rewards, dtype=np.float32)),
            terminated=torch.from_numpy(np.array(terminations, dtype=np.bool_)),
            truncated=torch.from_numpy(np.logical_and(truncations, np.logical_not(terminations))),
            valid=torch.from_numpy(valid),
            finals=finals,
            exact_rewards=torch.from_numpy(exact),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the episodes, and of the environments if they offer it (``state_dict()``)."""
        offered = getattr(self.envs, "state_dict", None)
        return {
            "observations": self.observations.clone(),
            "mask": None if self.mask is None else self.mask.clone(),
            "has_ended": self._has_ended.copy(),
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
            "envs": offered() if callable(offered) else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> bool:
        """Go on where `state_dict` was called, or return ``False`` if the environments cannot.

        Raise LearningError if it is of another number of environments.
        """
        if len(state["has_ended"]) != self.n_envs:
            raise LearningError(f"the saved state is of {len(state['has_ended'])} environments, not of {self.n_envs}")
        load = getattr(self.envs, "load_state_dict", None)
        if state["envs"] is None or not callable(load):
            return False
        load(state["envs"])
        self.observations = state["observations"].clone()
        self.mask = None if state["mask"] is None else state["mask"].clone()
        self._has_ended = np.array(state["has_ended"], dtype=np.bool_)
        self._returns = np.array(state["returns"], dtype=np.float64)
        self._lengths = np.array(state["lengths"], dtype=np.int64)
        return True

    def _tensor(self, observations: Any) -> Tensor:
        return torch.from_numpy(np.asarray(observations, dtype=np.float32))

    def _mask(self, infos: Mapping[str, Any]) -> Tensor | None:
        given = infos.get("action_mask")
        return None if given is None else self._legal(np.asarray(given))

    def _legal(self, given: np.ndarray[Any, Any]) -> Tensor:
        if given.shape[-1:] != (self.n_actions,):
            raise LearningError(f"info['action_mask'] has shape {given.shape}, expected (.., {self.n_actions})")
        mask = np.not_equal(given, 0)
        # After an end nothing may be legal; the action is ignored then, but something must be chosen.
        mask[:, 0] |= ~mask.any(-1)
        return torch.from_numpy(mask)

    def _count(self, rewards: Any, valid: Any, ended: Any, infos: Mapping[str, Any]) -> None:
        self._returns += np.where(valid, rewards, 0.0)
        self._lengths += valid
        if not ended.any():
            return
        infos_of_ends = infos.get("final_info", infos) if self.is_same_step else infos
        for row in np.flatnonzero(ended & valid).tolist():
            self.episodes.append(
                {
                    "return": float(self._returns[row]),
                    "length": int(self._lengths[row]),
                    "env": row,
                    **_episode_of(infos_of_ends if "results" in infos_of_ends else infos, row),
                }
            )
        self._returns[ended] = 0.0
        self._lengths[ended] = 0

    def _finals(self, infos: Mapping[str, Any], ended: np.ndarray[Any, Any]) -> Finals:
        rows = np.flatnonzero(ended)
        if "final_obs" not in infos:
            raise LearningError("the vector environment is 'SameStep' but gives no info['final_obs'] at an end")
        observations = np.stack([np.asarray(infos["final_obs"][row], dtype=np.float32) for row in rows])
        masks = infos.get("final_info", {}).get("action_mask") if isinstance(infos.get("final_info"), dict) else None
        if masks is None and self.mask is not None:
            masks = np.ones((self.n_envs, self.n_actions), dtype=np.bool_)
        return Finals(
            rows=torch.from_numpy(rows),
            observations=torch.from_numpy(observations),
            masks=None if masks is None else self._legal(np.asarray(masks)[rows]),
        )


def _episode_of(infos: Mapping[str, Any], row: int) -> dict[str, Any]:
    """Return the entries of ``infos["results"]`` for one environment, as plain numbers."""
    results = infos.get("results")
    if not isinstance(results, Mapping):
        return {}
    result = {}
    for name, column in results.items():
        if name.startswith("_"):
            continue
        value = column[row]
        result[name] = value.item() if isinstance(value, np.generic) else value
    return result

"""Stable-Baselines3 and sb3-contrib: our batches as a VecEnv, and a policy that looks at each row of a table alike.

>>> batch = gymnasium.make_vec("hdrl/JobPick-v0", num_envs=64, autoreset_mode="SameStep")  # doctest: +SKIP
>>> model = MaskablePPO(RowPolicy, as_vec_env(batch))  # doctest: +SKIP
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from hdrl.base.errors import MissingExtra, OptionsError, suggest
from hdrl.base.rowspace import n_per_row_of
from hdrl.envs.masks import nearest_legal
from hdrl.envs.native import NativeVectorEnv

try:
    from sb3_contrib.common.maskable.distributions import MaskableCategoricalDistribution
    from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
    from stable_baselines3.common.vec_env import VecEnv
    from torch import Tensor, nn
except ImportError:
    raise MissingExtra("stable-baselines3 and sb3-contrib", "sb3") from None

ILLEGAL = ("error", "nearest")
"""What may happen to illegal actions."""


class NativeVecEnv(VecEnv):
    """A batch as a VecEnv.

    Parameters
    ----------
    env
        A batch that begins the next episode in the step that ends one (`AutoresetMode.SAME_STEP`).
    illegal
        ``"error"``: an illegal action is an error. ``"nearest"``: the nearest legal one is taken.
    """

    def __init__(self, env: NativeVectorEnv, illegal: str) -> None:
        self.env = env
        self._illegal = illegal
        self._actions = np.zeros(env.num_envs, dtype=np.int64)
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> NDArray[Any]:
        """Begin an episode in each row, with the seeds given to `seed`, and return the observations."""
        options = _options_of_batch(self._options)
        seeds = None if all(one is None for one in self._seeds) else self._seeds
        observations, info = self.env.reset(seed=seeds, options=options)
        self.reset_infos = [{"action_mask": mask} for mask in info["action_mask"]]
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take the actions of the next step."""
        self._actions = np.asarray(actions)
        if self._illegal == "nearest":
            self._actions = nearest_legal(self._actions, self.env.action_masks())

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
            masks = self.env.action_masks()
            return [masks[row] for row in rows]
        method = getattr(self.env, method_name)
        return [method(row, *method_args, **method_kwargs) for row in rows]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: int | Iterable[int] | None = None) -> list[bool]:
        """Tell of each row whether it is wrapped: they are not."""
        del wrapper_class
        return [False] * len(self._rows(indices))


def _options_of_batch(options: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Return the options of a reset of the batch from those of each row."""
    given = [one or {} for one in options]
    if any(one.keys() != given[0].keys() for one in given):
        raise OptionsError("set_options: the rows of a batch are reset together, expected the same options for each")
    return {name: np.array([one[name] for one in given]) for name in given[0]} or None


def as_vec_env(env: NativeVectorEnv, *, illegal: str = "error") -> NativeVecEnv:
    """Return a batch as a VecEnv of Stable-Baselines3.

    Parameters
    ----------
    env
        A batch of ``gymnasium.make_vec("hdrl/...", num_envs=..., autoreset_mode="SameStep")``.
    illegal
        What happens to illegal actions: ``"error"`` suits algorithms that know masks (MaskablePPO); ``"nearest"``
        takes the nearest legal action, for those that do not (PPO, A2C, DQN).

    Raises
    ------
    OptionsError
        If the batch begins episodes otherwise or hands out its own buffers, or ``illegal`` is unknown.
    """
    if env.autoreset_mode is not AutoresetMode.SAME_STEP:
        raise OptionsError(f"autoreset_mode is {env.autoreset_mode.value!r}, Stable-Baselines3 needs 'SameStep'")
    if not env.copy:
        raise OptionsError("copy is False, Stable-Baselines3 needs True: it keeps the observations that it is given")
    if illegal not in ILLEGAL:
        raise OptionsError(f"illegal is {illegal!r}; {suggest(str(illegal), ILLEGAL)}")
    return NativeVecEnv(env, illegal)


class RowLayers(nn.Module):
    """The hidden layers of a `RowPolicy`: every row of an observation passes them by itself.

    Parameters
    ----------
    observation_shape
        ``(n_rows, n_features)``.
    widths
        Units of the layers.
    activation_fn
        What follows each of them.
    """

    def __init__(self, observation_shape: tuple[int, ...], widths: Sequence[int], activation_fn: type[nn.Module]):
        super().__init__()
        self.observation_shape = observation_shape
        self.policy_net, self.value_net = (_layers(observation_shape[1], widths, activation_fn) for _ in range(2))
        self.latent_dim_pi = self.latent_dim_vf = widths[-1]

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return what actor and critic go on with, from flat observations, shape ``(n, n_rows * n_features)``."""
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: Tensor) -> Tensor:
        """Return the last hidden layer of each row, shape ``(n, n_rows, widths[-1])``."""
        hidden: Tensor = self.policy_net(features.view(-1, *self.observation_shape))
        return hidden

    def forward_critic(self, features: Tensor) -> Tensor:
        """Return the mean of the last hidden layers of all rows, shape ``(n, widths[-1])``."""
        hidden: Tensor = self.value_net(features.view(-1, *self.observation_shape))
        return hidden.mean(1)


class _RowDistribution(MaskableCategoricalDistribution):
    """A distribution over the actions of rows, whose logits come from the last hidden layer of each row."""

    def __init__(self, n_actions: int, n_per_row: int) -> None:
        super().__init__(n_actions)
        self._n_per_row = n_per_row

    def proba_distribution_net(self, latent_dim: int) -> nn.Module:
        """Return the layer that gives a row its logits."""
        return nn.Linear(latent_dim, self._n_per_row)

    def proba_distribution(self, action_logits: Tensor) -> Self:
        """Take the logits, shape ``(n, n_rows, n_per_row)``; the first actions of all rows come before the second."""
        return super().proba_distribution(action_logits.transpose(1, 2).flatten(1))


class RowPolicy(MaskableActorCriticPolicy):
    """A policy of MaskablePPO for tables: one small network gives each row its logit, whatever stands in the others.

    A permutation of the rows permutes the logits, so what is learned of a job holds in every row. `hdrl model import`
    reads what ``model.save`` writes of it.

    Parameters
    ----------
    net_arch
        Units of the hidden layers that each row passes, ``[32, 16, 8]`` by default; the critic has layers of its own
        of the same widths, and takes the mean of the rows.
    activation_fn
        What follows them, ``torch.nn.ReLU`` by default.

    Raises
    ------
    OptionsError
        If observations are no table, or there are actions that belong to no row.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Any,
        net_arch: Sequence[int] | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        **others: Any,
    ) -> None:
        n_actions = int(getattr(action_space, "n", 0))
        shape = observation_space.shape or ()
        if len(shape) != 2 or n_actions != shape[0] * n_per_row_of(action_space):
            raise OptionsError(
                f"RowPolicy: observations have the shape {shape} and there are {n_actions} actions, expected a table"
                " and actions for its rows alone, as of JobPick without skip; use 'MlpPolicy'"
            )
        widths = [32, 16, 8] if net_arch is None else list(net_arch)
        self._rows, self._n_per_row = (shape, widths), n_per_row_of(action_space)
        super().__init__(observation_space, action_space, lr_schedule, widths, activation_fn, **others)

    def _build(self, lr_schedule: Any) -> None:
        (n_rows, _), _ = self._rows
        self.action_dist = _RowDistribution(n_rows * self._n_per_row, self._n_per_row)
        super()._build(lr_schedule)

    def _build_mlp_extractor(self) -> None:
        layers: Any = RowLayers(*self._rows, self.activation_fn)
        self.mlp_extractor = layers


def _layers(n_in: int, widths: Sequence[int], activation_fn: type[nn.Module]) -> nn.Sequential:
    sizes = [n_in, *widths]
    pairs = itertools.pairwise(sizes)
    return nn.Sequential(*(part for before, after in pairs for part in (nn.Linear(before, after), activation_fn())))

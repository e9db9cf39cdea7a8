"""A policy of sb3-contrib's MaskablePPO that looks at each row of a table alike.

>>> model = MaskablePPO(RowPolicy, as_vec_env(batch))  # doctest: +SKIP
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Self

from gymnasium import spaces
from torch import Tensor, nn

from hdrl.base.errors import MissingExtra, OptionsError
from hdrl.base.rowspace import n_per_row_of

try:
    from sb3_contrib.common.maskable.distributions import MaskableCategoricalDistribution
    from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
except ImportError:
    raise MissingExtra("stable-baselines3 and sb3-contrib", "sb3") from None


class RowLayers(nn.Module):
    """The hidden layers of a `RowPolicy`: every row of an observation passes them by itself."""

    def __init__(self, observation_shape: tuple[int, ...], widths: Sequence[int], activation_fn: type[nn.Module]):
        super().__init__()
        self.observation_shape = observation_shape
        self.policy_net, self.value_net = (_layers(observation_shape[1], widths, activation_fn) for _ in range(2))
        self.latent_dim_pi = self.latent_dim_vf = widths[-1]

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inputs of actor and critic, from flat observations, shape ``(n, n_rows * n_features)``."""
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
        Activation after them, ``torch.nn.ReLU`` by default.

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

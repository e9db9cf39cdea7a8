"""Networks by name: what maps an observation to a number for each action, and to one for the observation.

``mlp`` takes any observation; ``kernel``, ``rows`` and ``attention`` take tables with a row for each job; ``sequence``
takes a share of time and ids of layers; ``hdeeprm_reinforce`` and ``hdeeprm_actor_critic`` are the networks of
HDeepRM's example agents; ``dissertation_small``, ``..._deep`` and ``..._large`` those of a dissertation, by their
critics, and ``dissertation_attention`` the one with attention; ``normalized_mlp`` and ``normalized_rows`` are imported
with the statistics of another library.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from hdrl.base.errors import LearningError
from hdrl.base.registry import Registry
from hdrl.learn.config import NetworkConfig
from hdrl.learn.networks.attention import AttentionActorCritic
from hdrl.learn.networks.base import ActorCritic
from hdrl.learn.networks.dissertation import CRITICS, DissertationActorCritic
from hdrl.learn.networks.kernel import KernelActorCritic
from hdrl.learn.networks.mlp import MlpActorCritic
from hdrl.learn.networks.normalized import NormalizedActorCritic
from hdrl.learn.networks.sequence import SequenceActorCritic

__all__ = ["NETWORKS", "ActorCritic", "build_network"]


Builder: TypeAlias = Callable[..., ActorCritic]
"""Builder of a network: ``build(config, observation_shape, n_actions, generator, has_critic=True)``.

``n_atoms`` and ``n_per_row`` are given only where they are not 1.
"""

NETWORKS: Registry[Builder] = Registry("network")
"""All networks; register a custom function by ``@NETWORKS.register("name")``."""


def build_network(
    config: NetworkConfig,
    observation_shape: tuple[int, ...],
    n_actions: int,
    generator: torch.Generator,
    *,
    has_critic: bool = True,
    n_atoms: int = 1,
    n_per_row: int = 1,
) -> ActorCritic:
    """Make the network that settings name.

    Parameters
    ----------
    n_atoms
        Numbers for each action, and of the critic.
    n_per_row
        Number of actions of each row of a table.

    Raises
    ------
    UnknownName
        If there is no such network.
    LearningError
        If the network cannot take such observations, or has one number for each action, or one action for each row,
        alone.
    """
    builder, name = NETWORKS[config.network], config.network
    more: dict[str, Any] = {}
    if n_per_row > 1 and name == "attention":
        raise LearningError(
            f"network 'attention' has one action for each row, but here each row has {n_per_row}; expected 'kernel',"
            " 'rows' or 'mlp'"
        )
    if n_per_row > 1 and name in ("kernel", "rows", "normalized_rows"):
        more["n_per_row"] = n_per_row
    if n_atoms != 1:  # networks of users need not know of atoms
        more["n_atoms"] = n_atoms
        try:
            inspect.signature(builder).bind_partial(n_atoms=n_atoms)
        except TypeError:
            raise LearningError(
                f"network {name!r} gives one number for each action, not {n_atoms} atoms: its function must accept "
                "n_atoms"
            ) from None
    return builder(config, observation_shape, n_actions, generator, has_critic=has_critic, **more)


# Below, ``sizes`` are what all networks are made of: the shape of observations, the number of actions, the generator;
# ``named`` are has_critic, n_atoms and n_per_row, if given.


@NETWORKS.register("kernel")
def _kernel(config: NetworkConfig, *sizes: Any, **named: Any) -> ActorCritic:
    return KernelActorCritic(*sizes, sees_all_rows=config.visible_rows == "all", **named)


@NETWORKS.register("mlp")
def _mlp(config: NetworkConfig, *sizes: Any, has_critic: bool, **named: Any) -> ActorCritic:
    return MlpActorCritic(
        *sizes,
        hidden=config.hidden,
        heads=config.heads,
        activation=config.activation,
        is_shared=config.is_shared and has_critic,
        has_critic=has_critic,
        **named,
    )


@NETWORKS.register("rows")
def _rows(config: NetworkConfig, *sizes: Any, **named: Any) -> ActorCritic:
    if not config.hidden:
        raise LearningError("network 'rows' needs at least one layer in 'hidden'")
    return _kernel(config, *sizes, hidden=config.hidden, activation=config.activation, **named)


@NETWORKS.register("normalized_mlp")
def _normalized_mlp(config: NetworkConfig, *sizes: Any, **named: Any) -> ActorCritic:
    return NormalizedActorCritic(_mlp(config, *sizes, **named), sizes[0])


@NETWORKS.register("normalized_rows")
def _normalized_rows(config: NetworkConfig, *sizes: Any, **named: Any) -> ActorCritic:
    return NormalizedActorCritic(_rows(config, *sizes, **named), sizes[0])


@NETWORKS.register("attention")
def _attention(config: NetworkConfig, *sizes: Any, **named: Any) -> ActorCritic:
    return AttentionActorCritic(
        *sizes,
        width=config.attention_width,
        n_heads=config.attention_heads,
        hidden=config.hidden,
        activation=config.activation,
        sees_all_rows=config.visible_rows == "all",
        **named,
    )


@NETWORKS.register("sequence")
def _sequence(config: NetworkConfig, *sizes: Any, **named: Any) -> ActorCritic:
    del config  # its sizes are those of the advisor that it is after
    return SequenceActorCritic(*sizes, **named)


def _dissertation(critic: str, *, has_attention: bool = False) -> Builder:
    """Return a builder of a network of the dissertation with one of its critics."""

    def build(config: NetworkConfig, *sizes: Any, has_critic: bool) -> ActorCritic:
        del config  # its layers are those of the dissertation
        return DissertationActorCritic(*sizes, critic=critic, has_attention=has_attention, has_critic=has_critic)

    return build


for _critic in CRITICS:
    NETWORKS.register(f"dissertation_{_critic}")(_dissertation(_critic))
NETWORKS.register("dissertation_attention")(_dissertation("small", has_attention=True))

_as_hdeeprm = functools.partial(MlpActorCritic, activation="leaky_relu", has_plain_init=True)
"""As HDeepRM's examples make layers."""


@NETWORKS.register("hdeeprm_reinforce")
def _hdeeprm_reinforce(config: NetworkConfig, *sizes: Any, **named: Any) -> ActorCritic:
    """Return four hidden layers of equal width, as the REINFORCE example of HDeepRM; a critic, if any, likewise."""
    return _as_hdeeprm(*sizes, hidden=(_width(config),) * 4, **named)


@NETWORKS.register("hdeeprm_actor_critic")
def _hdeeprm_actor_critic(config: NetworkConfig, *sizes: Any, **named: Any) -> ActorCritic:
    """Return a shared first layer, then three hidden layers each, as the actor-critic example of HDeepRM."""
    width = _width(config)
    return _as_hdeeprm(*sizes, hidden=(width,), heads=(width,) * 3, is_shared=True, **named)


def _width(config: NetworkConfig) -> int:
    return config.hidden[0] if config.hidden else 64

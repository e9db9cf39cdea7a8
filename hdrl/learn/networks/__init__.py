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
from typing import Any, Protocol

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


class Builder(Protocol):
    """What makes a network of settings."""

    def __call__(
        self,
        config: NetworkConfig,
        observation_shape: tuple[int, ...],
        n_actions: int,
        generator: torch.Generator,
        /,
        *,
        has_critic: bool,
        n_atoms: int = 1,
    ) -> ActorCritic:
        """Make a network; ``n_atoms`` is given only where it is not 1."""


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
        How many actions each row of a table has.

    Raises
    ------
    UnknownName
        If there is no such network.
    LearningError
        If the network cannot take such observations, or has one number for each action, or one action for each row,
        alone.
    """
    builder = NETWORKS[config.network]
    more: dict[str, Any] = {}
    if n_per_row > 1 and config.network == "attention":
        raise LearningError(
            f"network 'attention' knows one action for each row, but here each has {n_per_row}; expected 'kernel',"
            " 'rows' or 'mlp'"
        )
    if n_per_row > 1 and config.network in ("kernel", "rows", "normalized_rows"):
        more["n_per_row"] = n_per_row
    if n_atoms != 1:  # networks of users need not know of atoms
        if "n_atoms" not in inspect.signature(builder).parameters:
            raise LearningError(
                f"network {config.network!r} gives one number for each action, not {n_atoms} atoms: its function would"
                " have to take n_atoms"
            )
        more["n_atoms"] = n_atoms
    return builder(config, observation_shape, n_actions, generator, has_critic=has_critic, **more)


# Below, ``sizes`` are what all networks are made of: the shape of observations, the number of actions, the generator.


def _mlp_of(config: NetworkConfig, *sizes: Any, has_critic: bool, n_atoms: int = 1) -> MlpActorCritic:
    return MlpActorCritic(
        *sizes,
        hidden=config.hidden,
        heads=config.heads,
        activation=config.activation,
        is_shared=config.is_shared and has_critic,
        has_critic=has_critic,
        n_atoms=n_atoms,
    )


@NETWORKS.register("kernel")
def _kernel(config: NetworkConfig, *sizes: Any, has_critic: bool, n_atoms: int = 1, n_per_row: int = 1) -> ActorCritic:
    sees_all_rows = config.visible_rows == "all"
    return KernelActorCritic(
        *sizes, has_critic=has_critic, sees_all_rows=sees_all_rows, n_atoms=n_atoms, n_per_row=n_per_row
    )


def _rows_of(
    config: NetworkConfig, *sizes: Any, has_critic: bool, n_atoms: int = 1, n_per_row: int = 1
) -> KernelActorCritic:
    if not config.hidden:
        raise LearningError("network 'rows' needs at least one layer in 'hidden'")
    return KernelActorCritic(
        *sizes,
        has_critic=has_critic,
        sees_all_rows=config.visible_rows == "all",
        n_atoms=n_atoms,
        n_per_row=n_per_row,
        hidden=config.hidden,
        activation=config.activation,
    )


@NETWORKS.register("mlp")
def _mlp(config: NetworkConfig, *sizes: Any, has_critic: bool, n_atoms: int = 1) -> ActorCritic:
    return _mlp_of(config, *sizes, has_critic=has_critic, n_atoms=n_atoms)


@NETWORKS.register("rows")
def _rows(config: NetworkConfig, *sizes: Any, has_critic: bool, n_atoms: int = 1, n_per_row: int = 1) -> ActorCritic:
    return _rows_of(config, *sizes, has_critic=has_critic, n_atoms=n_atoms, n_per_row=n_per_row)


@NETWORKS.register("normalized_mlp")
def _normalized_mlp(config: NetworkConfig, *sizes: Any, has_critic: bool, n_atoms: int = 1) -> ActorCritic:
    return NormalizedActorCritic(_mlp_of(config, *sizes, has_critic=has_critic, n_atoms=n_atoms), sizes[0])


@NETWORKS.register("normalized_rows")
def _normalized_rows(
    config: NetworkConfig, *sizes: Any, has_critic: bool, n_atoms: int = 1, n_per_row: int = 1
) -> ActorCritic:
    rows = _rows_of(config, *sizes, has_critic=has_critic, n_atoms=n_atoms, n_per_row=n_per_row)
    return NormalizedActorCritic(rows, sizes[0])


@NETWORKS.register("attention")
def _attention(config: NetworkConfig, *sizes: Any, has_critic: bool, n_atoms: int = 1) -> ActorCritic:
    return AttentionActorCritic(
        *sizes,
        width=config.attention_width,
        n_heads=config.attention_heads,
        hidden=config.hidden,
        activation=config.activation,
        has_critic=has_critic,
        sees_all_rows=config.visible_rows == "all",
        n_atoms=n_atoms,
    )


@NETWORKS.register("sequence")
def _sequence(config: NetworkConfig, *sizes: Any, has_critic: bool, n_atoms: int = 1) -> ActorCritic:
    del config  # its sizes are those of the advisor that it is after
    return SequenceActorCritic(*sizes, has_critic=has_critic, n_atoms=n_atoms)


def _dissertation(name: str, critic: str, *, has_attention: bool = False) -> Builder:
    """Return what makes a network of the dissertation with one of its critics."""

    def build(config: NetworkConfig, *sizes: Any, has_critic: bool, n_atoms: int = 1) -> ActorCritic:
        del config  # its layers are those of the dissertation
        if n_atoms != 1:
            raise LearningError(f"network 'dissertation_{name}' has one number for each action, not {n_atoms}")
        return DissertationActorCritic(*sizes, critic=critic, has_attention=has_attention, has_critic=has_critic)

    return build


for _critic in CRITICS:
    NETWORKS.register(f"dissertation_{_critic}")(_dissertation(_critic, _critic))
NETWORKS.register("dissertation_attention")(_dissertation("attention", "small", has_attention=True))


@NETWORKS.register("hdeeprm_reinforce")
def _hdeeprm_reinforce(config: NetworkConfig, *sizes: Any, has_critic: bool, n_atoms: int = 1) -> ActorCritic:
    """Return four hidden layers of equal width, as the REINFORCE example of HDeepRM; a critic, if any, likewise."""
    return _plain(*sizes, hidden=(_width(config),) * 4, has_critic=has_critic, n_atoms=n_atoms)


@NETWORKS.register("hdeeprm_actor_critic")
def _hdeeprm_actor_critic(config: NetworkConfig, *sizes: Any, has_critic: bool, n_atoms: int = 1) -> ActorCritic:
    """Return a shared first layer, then three hidden layers each, as the actor-critic example of HDeepRM."""
    width = _width(config)
    return _plain(*sizes, hidden=(width,), heads=(width,) * 3, is_shared=True, has_critic=has_critic, n_atoms=n_atoms)


_plain = functools.partial(MlpActorCritic, activation="leaky_relu", has_plain_init=True)
"""As HDeepRM's examples make layers."""


def _width(config: NetworkConfig) -> int:
    return config.hidden[0] if config.hidden else 64

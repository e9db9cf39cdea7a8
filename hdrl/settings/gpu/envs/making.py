"""Constructors of ``hdrl/GpuCluster-v0``: the current environment, or by ``compatibility`` that of the original."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from hdrl.base.errors import OptionsError, suggest
from hdrl.envs.arguments import signature_of
from hdrl.envs.native import NativeVectorEnv
from hdrl.envs.requests import check_choice
from hdrl.envs.single import SingleEnv
from hdrl.settings.gpu.envs.env import ARGUMENTS, GpuClusterEnv, GpuClusterVectorEnv

DRL_GPU = "drl-gpu"

_WORLDS = {DRL_GPU: "hdrl.compat.drl_gpu.env"}
"""Worlds of other systems by the name of their compatibility mode; each is loaded on first use."""


def gpu_cluster(*, compatibility: str | None = None, **arguments: Any) -> SingleEnv:
    """Return a single environment.

    Parameters
    ----------
    compatibility
        ``"drl-gpu"``: the environment of the DRL scheduler for GPU clusters, `compat.drl_gpu.env.GpuSecondsVectorEnv`;
        ``None``: `GpuClusterVectorEnv`.

    Raises
    ------
    OptionsError
        If there is no such mode, or an argument belongs to the other environment.
    """
    _check_arguments(compatibility, arguments)
    if compatibility is None:
        return GpuClusterEnv(**arguments)
    made: SingleEnv = import_module(_WORLDS[compatibility]).GpuSecondsEnv(**arguments)
    return made


def gpu_cluster_vector(num_envs: int = 1, *, compatibility: str | None = None, **arguments: Any) -> NativeVectorEnv:
    """Return a batch of environments."""
    _check_arguments(compatibility, arguments)
    return (GpuClusterVectorEnv.of if compatibility is None else _original_environment(compatibility))(
        num_envs, **arguments
    )


def _original_environment(compatibility: str) -> type[NativeVectorEnv]:
    found: type[NativeVectorEnv] = import_module(_WORLDS[compatibility]).GpuSecondsVectorEnv
    return found


def _check_arguments(compatibility: str | None, arguments: dict[str, Any]) -> None:
    """Refuse arguments that do not belong to the requested environment."""
    if compatibility is not None:
        check_choice("compatibility", compatibility, tuple(_WORLDS))
    known = ARGUMENTS if compatibility is None else _SECONDS_DEFAULTS
    for name in arguments:
        if name not in known:
            where = "without compatibility" if compatibility is None else f"with compatibility {compatibility!r}"
            raise OptionsError(f"GpuCluster {where} has no argument {name!r}; {suggest(name, known)}")


_SECONDS_DEFAULTS = {
    name: one.default for name, one in inspect.signature(_original_environment(DRL_GPU)).parameters.items()
}

# inspect.signature, which lists the arguments of an environment, finds those of both.
gpu_cluster_vector.__signature__ = signature_of(  # type: ignore[attr-defined]
    {**ARGUMENTS, **_SECONDS_DEFAULTS, "compatibility": None}
)

"""What makes ``hdrl/GpuCluster-v0``: the environment of today, or by ``compatibility`` that of the original."""

from __future__ import annotations

import inspect
from typing import Any

from hdrl.base.errors import OptionsError, suggest
from hdrl.envs.arguments import signature_of
from hdrl.envs.requests import check_choice
from hdrl.settings.gpu.envs.env import ARGUMENTS, GpuClusterEnv, GpuClusterVectorEnv
from hdrl.settings.gpu.seconds import COMPATIBILITY
from hdrl.settings.gpu.seconds_env import GpuSecondsEnv, GpuSecondsVectorEnv

AnyEnv = GpuClusterEnv | GpuSecondsEnv
AnyVectorEnv = GpuClusterVectorEnv | GpuSecondsVectorEnv


def gpu_cluster(*, compatibility: str | None = None, **arguments: Any) -> AnyEnv:
    """Return a single environment.

    Parameters
    ----------
    compatibility
        ``"drl-gpu"``: the environment of the DRL scheduler for GPU clusters, `GpuSecondsVectorEnv`; ``None``:
        `GpuClusterVectorEnv`.
    **arguments
        Its arguments.

    Raises
    ------
    OptionsError
        If there is no such mode, or an argument belongs to the other environment.
    """
    _check_arguments(compatibility, arguments)
    return GpuClusterEnv(**arguments) if compatibility is None else GpuSecondsEnv(**arguments)


def gpu_cluster_vector(num_envs: int = 1, *, compatibility: str | None = None, **arguments: Any) -> AnyVectorEnv:
    """Return a batch of environments.

    Parameters
    ----------
    num_envs
        Number of rows of the batch.
    compatibility, **arguments
        See `gpu_cluster`.
    """
    _check_arguments(compatibility, arguments)
    return (GpuClusterVectorEnv.of if compatibility is None else GpuSecondsVectorEnv)(num_envs, **arguments)


def _check_arguments(compatibility: str | None, arguments: dict[str, Any]) -> None:
    """Raise if an argument does not belong to the environment that is asked for."""
    if compatibility is not None:
        check_choice("compatibility", compatibility, (COMPATIBILITY,))
    known = ARGUMENTS if compatibility is None else _OF_SECONDS
    for name in arguments:
        if name not in known:
            where = "without compatibility" if compatibility is None else f"with compatibility {compatibility!r}"
            raise OptionsError(f"GpuCluster {where} has no argument {name!r}; {suggest(name, known)}")


_OF_SECONDS = {name: one.default for name, one in inspect.signature(GpuSecondsVectorEnv).parameters.items()}

# What asks for the arguments of an environment finds those of both.
gpu_cluster_vector.__signature__ = signature_of(  # type: ignore[attr-defined]
    {**ARGUMENTS, **_OF_SECONDS, "compatibility": None}
)

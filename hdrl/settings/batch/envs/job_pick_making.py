"""What makes ``hdrl/JobPick-v0``: the environment of today, or by ``compatibility`` that of a dissertation."""

from __future__ import annotations

import inspect
from typing import Any

from hdrl.base.errors import OptionsError, suggest
from hdrl.envs.arguments import signature_of
from hdrl.settings.batch.envs.dissertation import COMPATIBILITY as DISSERTATION
from hdrl.settings.batch.envs.dissertation_env import DissertationEnv, DissertationVectorEnv
from hdrl.settings.batch.envs.job_pick import ARGUMENTS, JobPickEnv, JobPickVectorEnv

AnyEnv = JobPickEnv | DissertationEnv
AnyVectorEnv = JobPickVectorEnv | DissertationVectorEnv


def job_pick(*, compatibility: str | None = None, **arguments: Any) -> AnyEnv:
    """Return a single environment.

    Parameters
    ----------
    compatibility
        ``"dissertation"``: the environment of a dissertation, `DissertationVectorEnv`; everything else:
        `JobPickVectorEnv`, which knows ``None`` and ``"rlscheduler"``.
    **arguments
        Its arguments.

    Raises
    ------
    OptionsError
        If an argument belongs to the other environment alone.
    """
    if compatibility != DISSERTATION:
        return JobPickEnv(compatibility=compatibility, **arguments)
    _check_arguments(arguments)
    return DissertationEnv(**arguments)


def job_pick_vector(num_envs: int = 1, *, compatibility: str | None = None, **arguments: Any) -> AnyVectorEnv:
    """Return a batch of environments.

    Raises
    ------
    OptionsError
        If an argument belongs to the other environment alone.
    """
    if compatibility != DISSERTATION:
        return JobPickVectorEnv.of(num_envs, compatibility=compatibility, **arguments)
    _check_arguments(arguments)
    return DissertationVectorEnv(num_envs, **arguments)


def _check_arguments(arguments: dict[str, Any]) -> None:
    known = inspect.signature(DissertationVectorEnv).parameters
    for name in arguments:
        if name not in known:
            raise OptionsError(
                f"JobPick with compatibility {DISSERTATION!r} has no argument {name!r}; {suggest(name, known)}"
            )


# What asks for the arguments of an environment finds those of both, with the defaults of today's where they differ.
_THEIRS = {name: one.default for name, one in inspect.signature(DissertationVectorEnv).parameters.items()}
job_pick_vector.__signature__ = signature_of({**_THEIRS, **ARGUMENTS})  # type: ignore[attr-defined]

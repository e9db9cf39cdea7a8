"""What makes ``hdrl/JobPick-v0``: the environment of today, or by ``compatibility`` that of a dissertation."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from hdrl.base.errors import OptionsError, suggest
from hdrl.envs.arguments import signature_of
from hdrl.envs.native import NativeVectorEnv
from hdrl.envs.single import SingleEnv
from hdrl.settings.batch.envs.job_pick import ARGUMENTS, JobPickEnv, JobPickVectorEnv

DISSERTATION = "dissertation"

_WORLDS = {DISSERTATION: "hdrl.compat.dissertation.env"}
"""Worlds of other systems, by the compatibility that stands for them; each is loaded when it is asked for."""


def job_pick(*, compatibility: str | None = None, **arguments: Any) -> SingleEnv:
    """Return a single environment.

    Parameters
    ----------
    compatibility
        ``"dissertation"``: the environment of a dissertation, `compat.dissertation.env.DissertationVectorEnv`;
        everything else: `JobPickVectorEnv`, which knows ``None`` and ``"rlscheduler"``.

    Raises
    ------
    OptionsError
        If an argument belongs to the other environment alone.
    """
    if compatibility != DISSERTATION:
        return JobPickEnv(compatibility=compatibility, **arguments)
    _check_arguments(arguments)
    made: SingleEnv = import_module(_WORLDS[DISSERTATION]).DissertationEnv(**arguments)
    return made


def job_pick_vector(num_envs: int = 1, *, compatibility: str | None = None, **arguments: Any) -> NativeVectorEnv:
    """Return a batch of environments.

    Raises
    ------
    OptionsError
        If an argument belongs to the other environment alone.
    """
    if compatibility != DISSERTATION:
        return JobPickVectorEnv.of(num_envs, compatibility=compatibility, **arguments)
    _check_arguments(arguments)
    made: NativeVectorEnv = _theirs()(num_envs, **arguments)
    return made


def _theirs() -> type[NativeVectorEnv]:
    found: type[NativeVectorEnv] = import_module(_WORLDS[DISSERTATION]).DissertationVectorEnv
    return found


def _check_arguments(arguments: dict[str, Any]) -> None:
    known = inspect.signature(_theirs()).parameters
    for name in arguments:
        if name not in known:
            raise OptionsError(
                f"JobPick with compatibility {DISSERTATION!r} has no argument {name!r}; {suggest(name, known)}"
            )


# What asks for the arguments of an environment finds those of both, with the defaults of today's where they differ.
_THEIRS = {name: one.default for name, one in inspect.signature(_theirs()).parameters.items()}
job_pick_vector.__signature__ = signature_of({**_THEIRS, **ARGUMENTS})  # type: ignore[attr-defined]

"""Constructors of ``hdrl/JobPick-v0``: the current environment, by ``compatibility`` that of a dissertation.

On a machine with the rules of a site, it is that of `envs.site_pick`.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from hdrl.base.errors import OptionsError, suggest
from hdrl.envs.arguments import signature_of
from hdrl.envs.native import NativeVectorEnv
from hdrl.envs.single import SingleEnv
from hdrl.settings.batch.envs.job_pick import ARGUMENTS, JobPickEnv, JobPickVectorEnv
from hdrl.settings.batch.envs.site_pick import SitePickEnv, SitePickVectorEnv
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.reader import given_platform

DISSERTATION = "dissertation"

_WORLDS = {DISSERTATION: "hdrl.compat.dissertation.env"}
"""Worlds of other systems, by the compatibility that stands for them; each is loaded on request."""


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
        given = {"compatibility": compatibility, **_with_platform(arguments)}
        return SitePickEnv(**given) if _has_rules(given) else JobPickEnv(**given)
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
        given = {"compatibility": compatibility, **_with_platform(arguments)}
        return (SitePickVectorEnv if _has_rules(given) else JobPickVectorEnv).of(num_envs, **given)
    _check_arguments(arguments)
    made: NativeVectorEnv = _env_class()(num_envs, **arguments)
    return made


def _with_platform(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments in which a platform has been read."""
    platform = arguments.get("platform")
    return arguments if platform is None else {**arguments, "platform": given_platform(platform)}


def _has_rules(arguments: dict[str, Any]) -> bool:
    """Tell whether the machine has the rules of a site."""
    platform = arguments.get("platform")
    return isinstance(platform, Platform) and platform.site is not None


def _env_class() -> type[NativeVectorEnv]:
    found: type[NativeVectorEnv] = import_module(_WORLDS[DISSERTATION]).DissertationVectorEnv
    return found


def _check_arguments(arguments: dict[str, Any]) -> None:
    known = inspect.signature(_env_class()).parameters
    for name in arguments:
        if name not in known:
            raise OptionsError(
                f"JobPick with compatibility {DISSERTATION!r} has no argument {name!r}; {suggest(name, known)}"
            )


# What asks for the arguments of an environment finds those of both, with the defaults of today's where they differ.
_ENV_DEFAULTS = {name: one.default for name, one in inspect.signature(_env_class()).parameters.items()}
job_pick_vector.__signature__ = signature_of({**_ENV_DEFAULTS, **ARGUMENTS})  # type: ignore[attr-defined]

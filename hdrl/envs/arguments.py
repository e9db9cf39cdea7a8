"""Arguments of environments: a few small objects in code, one list of names in options, model files and Gymnasium."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from gymnasium.vector import AutoresetMode

from hdrl.envs.episodes import Length, Part, Start

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Group = TypeVar("Group", bound=DataclassInstance)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeArguments:
    """Arguments that select the items of an episode, see `hdrl.envs.episodes.plan_episodes`."""

    n_jobs: Length = None
    start: Start = None
    part: Part = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepping:
    """Arguments for stepping the rows of a batch, see `hdrl.envs.NativeVectorEnv`."""

    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP
    copy: bool = True
    n_threads: int = 1


def defaults_of(*groups: DataclassInstance) -> dict[str, Any]:
    """Return the arguments of groups by name, with what they are in these."""
    return {one.name: getattr(group, one.name) for group in groups for one in fields(group)}


def taken(group: Group, arguments: dict[str, Any]) -> Group:
    """Return a group with those of its arguments that are given, which are taken out of the others."""
    return replace(group, **{one.name: arguments.pop(one.name) for one in fields(group) if one.name in arguments})


def signature_of(defaults: Mapping[str, Any]) -> inspect.Signature:
    """Return the signature of what makes a batch of arguments with these defaults."""
    rows = inspect.Parameter("num_envs", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=1)
    named = (
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in defaults.items()
        if name != rows.name
    )
    return inspect.Signature([rows, *named])

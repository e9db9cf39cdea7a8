"""Whether actions and observations of two environments mean the same: else no model of one can decide in the other."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from hdrl.base.errors import OptionsError
from hdrl.experiment.train.environments import Environment, creator

CHANGES_NEITHER = ("objective", "reward", "reference", "n_threads", "more_logs")
"""Arguments that change neither actions nor observations: what is rewarded, and how fast it is."""


def check_same_meaning(trained: Environment, now: Environment, path: Path) -> None:
    """Refuse a model whose actions or observations mean something else here.

    Parameters
    ----------
    trained
        Where it was trained.
    now
        Where it is to decide.
    path
        The model file, for messages.

    Raises
    ------
    OptionsError
        If it is so.
    """
    if trained.id != now.id:
        raise OptionsError(f"{path}: was trained in {trained.id}, not in {now.id}")
    before, after = meaning_of(trained), meaning_of(now)
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            raise OptionsError(f"{path}: was trained with {key} = {before.get(key)!r}, not {after.get(key)!r}")


def meaning_of(environment: Environment) -> dict[str, Any]:
    """Return the arguments that actions and observations depend on, with the defaults filled in."""
    spec = environment.spec
    defaults = {
        name: one.default
        for name, one in inspect.signature(creator(spec.id, "vector_entry_point")).parameters.items()
        if name not in spec.given and one.kind is inspect.Parameter.KEYWORD_ONLY
    }
    values = defaults | environment.arguments
    values |= spec.meaning(values)
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if name not in CHANGES_NEITHER
    }

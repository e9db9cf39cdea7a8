"""Whether actions and observations of two environments mean the same: else no model of one can decide in the other."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from hdrl.errors import OptionsError
from hdrl.experiment.train.environments import GIVEN, IDS, EnvironmentSpec

CHANGES_NEITHER = ("objective", "reward", "reference", "n_threads")
"""Arguments that change neither actions nor observations: what is rewarded, and how fast it is."""


def check_same_meaning(trained: EnvironmentSpec, now: EnvironmentSpec, path: Path) -> None:
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


def meaning_of(spec: EnvironmentSpec) -> dict[str, Any]:
    """Return the arguments that actions and observations depend on, with the defaults filled in."""
    import gymnasium
    from gymnasium.envs.registration import load_env_creator

    import hdrl.envs  # noqa: F401 (registers them)

    entry: Any = gymnasium.spec(spec.id).vector_entry_point
    parameters = inspect.signature(load_env_creator(entry) if isinstance(entry, str) else entry).parameters
    defaults = {
        name: one.default
        for name, one in parameters.items()
        if name not in GIVEN and one.kind is inspect.Parameter.KEYWORD_ONLY
    }
    values = defaults | spec.arguments
    if spec.id == IDS["job_pick"]:
        values |= _job_pick_choices(values)
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if name not in CHANGES_NEITHER
    }


def _job_pick_choices(values: dict[str, Any]) -> dict[str, Any]:
    """Return the choices of a JobPick whose defaults depend on other arguments."""
    from hdrl.envs.job_pick_options import job_pick_options

    known = inspect.signature(job_pick_options).parameters
    options = job_pick_options(**{name: value for name, value in values.items() if name in known})
    return {"commitment": options.commitment, "backfilling": options.backfilling, "features": options.features}

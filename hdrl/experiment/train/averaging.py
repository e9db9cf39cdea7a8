"""Models made of several models of agents that evolve: their mean, and the start of one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.base.errors import LearningError, OptionsError
from hdrl.base.files import check_new
from hdrl.base.hashing import sha256_of_file
from hdrl.experiment.train.learning import require_torch
from hdrl.experiment.train.modelfile import AVERAGED, IS_UNTRAINED, read_checkpoint

if TYPE_CHECKING:
    from hdrl.learn.checkpoint import Checkpoint

_SAME = ("algorithm", "observation_space", "action_space", "environment")


def average_models(models: Sequence[str | Path], out: str | Path, *, force: bool = False) -> Path:
    """Write a model file with the mean of the weights of several, for instance of trainings that differ in their seed.

    The models are of one algorithm, trained in one environment and on the same jobs. A file that is there is replaced
    only with ``force``.
    """
    require_torch()
    from hdrl.learn.checkpoint import save_checkpoint
    from hdrl.learn.evolution import averaged_state

    out = Path(out)
    if len(models) < 2:
        raise OptionsError(f"{len(models)} model, expected at least two to average")
    check_new(out, force=force)
    read = [read_checkpoint(path) for path in models]
    for path, one in zip(models[1:], read[1:], strict=True):
        _check_same(read[0], one, models[0], path)
    try:
        state = averaged_state([one.agent for one in read])
    except LearningError as error:
        raise OptionsError(f"{', '.join(map(str, models))}: {error}") from None
    notes = {name: value for name, value in read[0].notes.items() if name in _KEPT}
    if "trained_on" in notes:  # all their entries: older versions wrote fewer
        notes["trained_on"] = {key: value for one in read for key, value in one.notes["trained_on"].items()}
    notes |= {"n_averaged": len(read), AVERAGED: [sha256_of_file(Path(path)) for path in models]}
    save_checkpoint(out, replace(read[0], agent=state, training={}, notes=notes))
    return out


def untrained_model(model: str | Path, out: str | Path) -> Path:
    """Write a model file with the weights that an agent began to evolve from; a file that is there is replaced."""
    require_torch()
    from hdrl.learn.checkpoint import save_checkpoint
    from hdrl.learn.evolution import untrained_state

    read = read_checkpoint(model)
    try:
        state = untrained_state(read.agent)
    except LearningError as error:
        raise OptionsError(f"{model}: {error}") from None
    notes = {name: value for name, value in read.notes.items() if name in _KEPT} | {IS_UNTRAINED: True}
    save_checkpoint(Path(out), replace(read, agent=state, training={}, notes=notes))
    return Path(out)


_KEPT = ("api", "agent_sha256", "trained_on")


def _check_same(first: Checkpoint, other: Checkpoint, first_path: str | Path, other_path: str | Path) -> None:
    for name in _SAME:
        _check_equal(name, getattr(first, name), getattr(other, name), first_path, other_path)
    for name in _KEPT:
        one, two = first.notes.get(name), other.notes.get(name)
        if isinstance(one, Mapping) and isinstance(two, Mapping):
            shared = one.keys() & two.keys()
            one, two = ({key: each[key] for key in sorted(shared)} for each in (one, two))
        _check_equal(name, one, two, first_path, other_path)


def _check_equal(name: str, first: Any, other: Any, first_path: str | Path, other_path: str | Path) -> None:
    if first != other:
        text = f"{name.replace('_', ' ')} is {other!r:.60}, expected that of {first_path}: {first!r:.60}"
        raise OptionsError(f"{other_path}: {text}")

"""Messages as what a checkpoint can hold: tensors, numbers, texts, lists and dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from hdrl.distributed.training.replay import Chunk
from hdrl.distributed.training.worker import Told
from hdrl.learn.memory import Finals, Outcome


def told_as_plain(told: Told) -> dict[str, Any]:
    """Return what a worker has told by name."""
    named = {one.name: getattr(told, one.name) for one in fields(told)}
    return {**named, "episodes": list(told.episodes), "losses": None if told.losses is None else dict(told.losses)}


def told_from_plain(plain: Mapping[str, Any]) -> Told:
    """Make what `told_as_plain` was given."""
    return Told(**{**plain, "episodes": tuple(plain["episodes"])})


def chunk_as_plain(chunk: Chunk) -> dict[str, Any]:
    """Return the steps of an actor by name."""
    return {
        "number": chunk.number,
        "choices": [list(choice) for choice in chunk.choices],
        "outcomes": [_outcome_as_plain(outcome) for outcome in chunk.outcomes],
        "errors": chunk.errors,
    }


def chunk_from_plain(plain: Mapping[str, Any]) -> Chunk:
    """Make what `chunk_as_plain` was given."""
    choices = tuple((seen, mask, actions) for seen, mask, actions in plain["choices"])
    return Chunk(int(plain["number"]), choices, tuple(_outcome(one) for one in plain["outcomes"]), plain["errors"])


def _outcome_as_plain(outcome: Outcome) -> dict[str, Any]:
    named = {one.name: getattr(outcome, one.name) for one in fields(outcome)}
    finals = outcome.finals
    return {**named, "finals": None if finals is None else [finals.rows, finals.observations, finals.masks]}


def _outcome(plain: Mapping[str, Any]) -> Outcome:
    finals = plain["finals"]
    return Outcome(**{**plain, "finals": None if finals is None else Finals(*finals)})

"""Sequences of actions in words: ``010``, and the policies that follow one, ``fixed-010``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hdrl.base.errors import OptionsError

EXAMPLE = "fixed-010"
"""A policy that follows a sequence."""

_FIXED = re.compile(r"fixed-([0-9]{1,12}|[0-9]{1,4}(?:-[0-9]{1,4})+)")


def words_of(actions: Sequence[int], n_actions: int) -> str:
    """Return a digit for each action; numbers with ``-`` between them where more than ten actions are possible."""
    return ("" if n_actions <= 10 else "-").join(map(str, actions))


def is_fixed(policy: str) -> bool:
    """Return whether a text names a policy that follows a sequence."""
    return _FIXED.fullmatch(policy) is not None


def fixed_actions(policy: str, n_steps: int, n_actions: int, where: str) -> list[int]:
    """Return the actions of a policy that follows a sequence.

    Parameters
    ----------
    where
        Name of the policy's jobs for messages.

    Raises
    ------
    OptionsError
        If jobs have other decisions.
    """
    words = policy.removeprefix("fixed-")
    parts = words.split("-") if n_actions > 10 else list(words)
    if len(parts) != n_steps or not all(part.isdecimal() and int(part) < n_actions for part in parts):
        example = words_of([n_actions - 1] * n_steps, n_actions)
        raise OptionsError(
            f"{policy}: {where} has {n_steps} decisions among {n_actions} actions, expected one like fixed-{example}"
        )
    return [int(part) for part in parts]

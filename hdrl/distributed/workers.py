"""What all kinds of workers have in common: how many there are, how often they try, whom they tell."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from hdrl.cores import usable_cores

MAX_ATTEMPTS = 3
"""How often a task is tried whose worker dies."""

OnResult = Callable[[int, Any], None]
"""Told the index of a task and its result as soon as it is there."""

Starting = Callable[[], AbstractContextManager[object]]
"""What is entered while workers start."""


def default_workers() -> int:
    """Return how many workers there are by default: as many as cores that this process may use."""
    return usable_cores()

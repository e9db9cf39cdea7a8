"""What all kinds of workers have in common: how many there are, how often they try, whom they tell."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

MAX_ATTEMPTS = 3
"""How often a task is tried whose worker dies."""

OnResult = Callable[[int, Any], None]
"""Told the index of a task and its result as soon as it is there."""


def default_workers() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

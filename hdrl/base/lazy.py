"""Public names that are loaded when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


def load_name(module: str, homes: Mapping[str, tuple[str, ...]], name: str) -> Any:
    """Return a public name of a module from where it lives.

    Raises
    ------
    AttributeError
        If there is no such name.
    """
    for home, names in homes.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")

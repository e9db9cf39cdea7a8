"""Public names that are loaded when they are first used."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hdrl.base.moved import load_moved


def load_name(module: str, homes: Mapping[str, tuple[str, ...]], name: str) -> Any:
    """Return a public name of a module from where it lives; a former name warns."""
    for home, names in homes.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    return load_moved(module, name, stacklevel=2)


def lazy_names(module: str, file: str) -> tuple[list[str], Callable[[str], Any]]:
    """Return the ``__all__`` and the ``__getattr__`` of a module whose names its stub file (``.pyi``) imports."""
    text = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    homes = {home: tuple(re.findall(r"\w+", names)) for home, names in _IMPORT.findall(text)}

    def load(name: str) -> Any:
        return load_name(module, homes, name)

    return sorted(name for names in homes.values() for name in names), load


_IMPORT = re.compile(r"^from (\S+) import (\([^)]*\)|.*)$", re.MULTILINE)

"""Checks of users' arguments in Python: types, lists of objects, paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hdrl.base.errors import OptionsError, quoted


def check_type(what: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Refuse an argument that has none of some types."""
    if not isinstance(value, kinds):
        raise OptionsError(f"{what} is {quoted(value)}, expected {expected}")


def listed(what: str, value: Any, kinds: type | tuple[type, ...], expected: str) -> list[Any]:
    """Return one object, or several, as a list.

    Raises
    ------
    OptionsError
        If one has none of some types, or there is none.
    """
    several = [value] if isinstance(value, kinds) or not isinstance(value, Iterable) else list(value)
    for one in several:
        check_type(what, one, kinds, expected)
    if not several:
        raise OptionsError(f"{what} is empty, expected at least one")
    return several


def paths_of(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return one path, or several, as a list."""
    return [Path(paths)] if isinstance(paths, (str, Path)) else [Path(one) for one in paths]


def convert_paths(choices: object, one: Sequence[str], several: Sequence[str] = ()) -> None:
    """Turn text into paths in fields of a frozen dataclass: those of one path, and those of several."""
    for name in one:
        value = getattr(choices, name)
        object.__setattr__(choices, name, None if value is None else Path(value))
    for name in several:
        object.__setattr__(choices, name, tuple(paths_of(getattr(choices, name))))

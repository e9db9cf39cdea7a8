"""Folders of runs: which there are in a folder, what they are called, and what they say of themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hdrl.base.errors import ReadError
from hdrl.base.files import read_json

OPTIONS_FILE, PROVENANCE_FILE, NUMBERS_FILE = "options.resolved.json", "provenance.json", "metrics.json"


def run_folders(folder: str | Path, main_file: str) -> list[Path]:
    """Return the runs that a folder stands for: itself, or the ``run_<i>`` in it, in their order."""
    folder = Path(folder)
    if not folder.is_dir():
        problem = "is a file, expected the folder of a run" if folder.exists() else "no such folder"
        raise ReadError(folder, problem)
    if (folder / main_file).is_file():
        return [folder]
    inside = [path for path in folder.glob("run_*") if (path / main_file).is_file()]
    if not inside:
        raise ReadError(folder, f"is not a run: it has no {main_file}, and no run_0 that has one")
    return sorted(inside, key=lambda path: (len(path.name), path.name))


def distinct_names(folders: Sequence[Path]) -> list[str]:
    """Return a short name per folder: as many last parts of the paths as it takes to tell them apart."""
    parts = [folder.resolve().parts for folder in folders]
    for depth in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(set(parts)):
            break
    return names if folders else []


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one if there is no such file."""
    if not path.is_file():
        return {}
    value = read_json(path)
    if not isinstance(value, dict):
        raise ReadError(path, "must be a JSON object")
    return value


def read_numbers(folder: Path) -> dict[str, float]:
    """Return the metrics of a run by name, NaN where there is no number; none if it has no file of them."""
    path = folder / NUMBERS_FILE
    if not path.is_file():
        return {}
    data = read_json(path)
    if not isinstance(data, dict) or not all(value is None or type(value) in (int, float) for value in data.values()):
        raise ReadError(path, "must be an object of numbers by name")
    return {name: math.nan if value is None else float(value) for name, value in data.items()}


def get_nested_text(value: Any, *keys: str) -> str | None:
    """Return the text that stands in blocks within blocks under some keys; ``None`` where there is none."""
    found = get_nested(value, *keys)
    return found if isinstance(found, str) else None


def get_nested(value: Any, *keys: str) -> Any:
    """Return the value in nested blocks under some keys; ``None`` where there is no such block or key."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value

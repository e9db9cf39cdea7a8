"""Tables as options name them."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hdrl.errors import OptionsError, quoted, suggest
from hdrl.settings.adaptation.load import Jobs, check_alike, check_device, jobs_of
from hdrl.settings.adaptation.machine import Device
from hdrl.settings.adaptation.table import Table, read_table

_SHIPPED = Path(__file__).parent / "data"

ALL = "tables"
"""The workload that consists of all shipped tables."""


@cache
def shipped_tables() -> dict[str, Path]:
    """Return the tables that come with hdrl, by name."""
    return {path.stem: path for path in sorted(_SHIPPED.glob("*.json"))}


def find_tables(text: str, path: Path, where: str) -> list[Table]:
    """Return tables by what options say.

    Parameters
    ----------
    text
        The path of a table, a folder of them, or the name of shipped ones, in which ``*`` stands for anything;
        ``tables``: all that are shipped.
    path
        The text as a path.
    where
        Name of the source for messages.

    Raises
    ------
    OptionsError
        If there are no such tables.
    ReadError
        If one is damaged.
    """
    if path.is_dir():
        files: Sequence[Path] = sorted(path.glob("*.json"))
        if not files:
            raise OptionsError(f"{where}: the folder {quoted(str(path))} holds no table, expected files *.json")
        return [read_table(file) for file in files]
    if path.is_file() or path.suffix or len(Path(text).parts) > 1:
        return [read_table(path)]
    shipped = shipped_tables()
    names = list(shipped) if text == ALL else fnmatch.filter(shipped, text)
    if not names:
        raise OptionsError(
            f"{where}: no shipped table {quoted(text)}, and no such file; {suggest(text, [*shipped, ALL])}"
        )
    return [read_table(shipped[name]) for name in names]


def load_of(options: Any, text: str, device: Device) -> Jobs:
    """Return the jobs of a workload.

    Parameters
    ----------
    options
        Options or a sweep.
    text
        A workload of it.
    device
        The device.

    Raises
    ------
    HdrlError
        If there are no such tables, or they are not of the device.
    """
    tables = find_tables(text, options.path_of(text), options.where)
    name = Path(text).stem if len(tables) == 1 else Path(text).name
    check_alike(name, tables)
    load = jobs_of(name, tables, options.nb_jobs, {"tables": [table.name for table in tables]})
    check_device(load, device)
    return load

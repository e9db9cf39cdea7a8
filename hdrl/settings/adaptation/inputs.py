"""Tables as options name them."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hdrl.base.errors import OptionsError, quoted, suggest
from hdrl.settings.adaptation.load import Jobs, check_alike, check_device, jobs_of
from hdrl.settings.adaptation.machine import Device
from hdrl.settings.adaptation.table import Table, read_table

_SHIPPED = Path(__file__).parent / "data"

ALL = "tables"
"""The workload that consists of all shipped tables, but those in folders."""

FAMILIES = "families"
"""The shipped folder of tables in families, one for each kind of data: they share no data, networks or starts."""

NOT = "!"
"""Prefix of a pattern that selects the tables which do not match it."""


@cache
def shipped_tables(folder: str = "") -> dict[str, Path]:
    """Return tables that come with hdrl, by name.

    Parameters
    ----------
    folder
        A shipped folder of tables; empty: those in none.
    """
    return {path.stem: path for path in sorted((_SHIPPED / folder).glob("*.json"))}


def family_of(name: str) -> str:
    """Return the family of a table in `FAMILIES`: the data that it learns, the first word of its name."""
    return name.partition("_")[0]


def find_tables(text: str, path: str | Path, where: str) -> list[Table]:
    """Return tables by what options say.

    Parameters
    ----------
    text
        The path of a table, a folder of them, or the name of shipped ones, in which ``*`` stands for anything;
        ``tables``: all that are shipped in no folder; ``families/digits_*``: some of a shipped folder;
        ``families/!digits_*``: all others of it.
    where
        Name of the source for messages.

    Raises
    ------
    OptionsError
        If there are no such tables.
    ReadError
        If one is damaged.
    """
    path = Path(path)
    if not text.strip():
        raise OptionsError(f"{where}: the name of a table is empty; {suggest(text, [*shipped_tables(), ALL])}")
    if path.is_dir():
        files: Sequence[Path] = sorted(path.glob("*.json"))
        if not files:
            raise OptionsError(f"{where}: the folder {quoted(str(path))} holds no table, expected files *.json")
        return [read_table(file) for file in files]
    folder, _, pattern = text.rpartition("/") if text != FAMILIES else (FAMILIES, "", "*")
    is_shipped = folder in ("", FAMILIES) and not path.is_file()
    if not is_shipped or path.suffix:
        return [read_table(path)]
    shipped = shipped_tables(folder)
    names = list(shipped) if text == ALL else _matching(shipped, pattern)
    if not names:
        known = [*shipped, ALL] if not folder else [f"{folder}/{name}" for name in shipped]
        raise OptionsError(f"{where}: no shipped table {quoted(text)}, and no such file; {suggest(text, known)}")
    return [read_table(shipped[name]) for name in names]


def _matching(names: Collection[str], pattern: str) -> list[str]:
    wanted = fnmatch.filter(names, pattern.removeprefix(NOT))
    return [name for name in names if name not in wanted] if pattern.startswith(NOT) else wanted


def load_of(options: Any, text: str, device: Device) -> Jobs:
    """Return the jobs of a workload.

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

"""Readers of accounting data, one file per format."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from hdrl.base.errors import OptionsError, ReadError, UnknownName
from hdrl.base.files import open_bytes
from hdrl.site.readers.sacct import is_sacct, read_sacct
from hdrl.site.records import Dump
from hdrl.site.values import Clock


@dataclass(frozen=True, slots=True)
class Choices:
    """What a reader may need besides the file.

    Attributes
    ----------
    clock
        Reads dates.
    mapping
        File that says what the columns of a table mean.
    nodes_field
        Field of a log in SWF that holds the number of nodes.
    """

    clock: Clock
    mapping: Path | None = None
    nodes_field: int | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """A format of accounting data.

    Attributes
    ----------
    help
        What it is.
    matches
        Tells whether the first line that is not blank begins such a file.
    read
        Reads it.
    """

    help: str
    matches: Callable[[str], bool]
    read: Callable[[Path, Choices], Dump]


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "sacct": Format("sacct -P", is_sacct, lambda path, choices: read_sacct(path, choices.clock)),
    }
)
"""All formats by name, in the order in which a file is tried."""

_MOST_CHARACTERS = 2**16


def read_dump(path: Path, choices: Choices, form: str = "auto") -> Dump:
    """Read accounting data.

    Parameters
    ----------
    path
        The file, packed by gzip or not.
    choices
        What the reader may need.
    form
        A name of `FORMATS`; ``"auto"``: by the first line.

    Raises
    ------
    ReadError
        If it cannot be read, or is of no known format.
    UnknownName
        If there is no such format.
    OptionsError
        If a mapping is given for another format than CSV.
    """
    if form == "auto":
        form = "csv" if choices.mapping is not None else _form_of(path)
    elif form not in FORMATS:
        raise UnknownName("format of accounting data", form, FORMATS)
    if choices.mapping is not None and form != "csv":
        raise OptionsError(f"--mapping is for tables in CSV alone, {path} is read as {form}")
    dump = FORMATS[form].read(path, choices)
    if dump.n_rows == 0:
        raise ReadError(path, "holds no rows")
    return dump


def _form_of(path: Path) -> str:
    with open_bytes(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace")
        first = ""
        while (line := text.readline(_MOST_CHARACTERS)) and not first:
            first = line.strip()
    for name, form in FORMATS.items():
        if first and form.matches(first):
            return name
    known = ", ".join(f"{form.help} ({name})" for name, form in FORMATS.items())
    raise ReadError(path, f"is of no known format, expected one of: {known}", line=1)

"""Readers of accounting data, one file per format."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from hdrl.base.errors import OptionsError, ReadError, UnknownName
from hdrl.base.files import open_bytes
from hdrl.site.readers.keyvalues import is_jobcomp, is_pbs, read_jobcomp, read_pbs
from hdrl.site.readers.kubernetes import is_kubernetes, read_kubernetes
from hdrl.site.readers.lsf import is_lsf, read_lsf
from hdrl.site.readers.sacct import is_sacct, read_sacct
from hdrl.site.readers.swf import is_swf, read_swf_dump
from hdrl.site.readers.table import read_csv
from hdrl.site.records import Dump
from hdrl.site.values import Clock


@dataclass(frozen=True, slots=True)
class Choices:
    """Inputs of a reader besides the file."""

    clock: Clock  # reads dates
    mapping: Path | None = None  # file with the meaning of the columns of a table
    nodes_field: int | None = None  # field of a log in SWF that holds the number of nodes
    has_lines: bool = False  # True to keep the programs that submit lines run


@dataclass(frozen=True, slots=True)
class DumpFormat:
    """A format of accounting data."""

    help: str  # its description
    matches: Callable[[str], bool]  # tells whether the first line that is not blank begins such a file
    read: Callable[[Path, Choices], Dump]  # reads it


def _read_sacct(path: Path, choices: Choices) -> Dump:
    return read_sacct(path, choices.clock, has_lines=choices.has_lines)


def _read_lsf(path: Path, choices: Choices) -> Dump:
    del choices
    return read_lsf(path)


def _never_matches(first_line: str) -> bool:
    del first_line
    return False


FORMATS: Mapping[str, DumpFormat] = MappingProxyType(
    {
        "sacct": DumpFormat("sacct -P", is_sacct, _read_sacct),
        "slurm-jobcomp": DumpFormat(
            "Slurm's jobcomp/filetxt", is_jobcomp, lambda path, choices: read_jobcomp(path, choices.clock)
        ),
        "pbs": DumpFormat("accounting of PBS", is_pbs, lambda path, choices: read_pbs(path, choices.clock)),
        "lsf": DumpFormat("LSF's lsb.acct", is_lsf, _read_lsf),
        "kubernetes": DumpFormat(
            "kubectl get ... -o json", is_kubernetes, lambda path, choices: read_kubernetes(path, choices.clock)
        ),
        "swf": DumpFormat(
            "Standard Workload Format", is_swf, lambda path, choices: read_swf_dump(path, choices.nodes_field)
        ),
        "csv": DumpFormat(
            "a table with --mapping",
            _never_matches,
            lambda path, choices: read_csv(path, choices.mapping, choices.clock),
        ),
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
        Further inputs of the reader.
    form
        A name of `FORMATS`; ``"auto"``: by the first line.

    Raises
    ------
    ReadError
        If it cannot be read, or has none of the known formats.
    UnknownName
        If there is no such format.
    OptionsError
        If a mapping is given for another format than CSV, or a field of nodes for another one than SWF.
    """
    if form == "auto":
        form = "csv" if choices.mapping is not None else _form_of(path)
    elif form not in FORMATS:
        raise UnknownName("format of accounting data", form, FORMATS)
    if choices.mapping is not None and form != "csv":
        raise OptionsError(f"--mapping is for tables in CSV alone, {path} is read as {form}")
    if choices.nodes_field is not None and form != "swf":
        raise OptionsError(f"--nodes-field is for logs in SWF alone, {path} is read as {form}")
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
    raise ReadError(path, f"has an unknown format, expected one of: {known}", line=1)

"""Traces of GPU clusters in the formats in which they were published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from hdrl.base.errors import ReadError, UnknownName, WorkloadError
from hdrl.base.files import open_bytes
from hdrl.base.hashing import sha256_of_file
from hdrl.settings.gpu.cluster.throughputs import Throughputs
from hdrl.settings.gpu.loads import alibaba, gavel_trace, google, philly, table
from hdrl.settings.gpu.loads.gavel_trace import GAVEL_STEPS
from hdrl.settings.gpu.loads.load import GpuLoad, Speeds
from hdrl.settings.gpu.loads.source import TOO_LARGE, Row, Source, TraceFormat, cells_of, describe_dropped, load_of

FORMATS: Mapping[str, TraceFormat] = MappingProxyType(
    {**philly.FORMATS, **alibaba.FORMATS, **google.FORMATS, **gavel_trace.FORMATS, **table.FORMATS}
)
"""All formats by name."""


def read_trace(
    path: str | Path,
    *,
    form: str = "auto",
    speeds: Speeds | None = None,
    gpus_per_machine: int = 8,
    scale_time: float = 1.0,
    throughputs: Throughputs | None = None,
    columns: Mapping[str, str] | None = None,
) -> GpuLoad:
    """Read a trace, packed by gzip or not.

    Parameters
    ----------
    form
        A name of `FORMATS`; ``"auto"``: by its first line.
    speeds
        Speeds of types; ``None``: the speeds of the format.
    gpus_per_machine
        GPUs that a machine of a trace without GPUs (Google's) stands for.
    scale_time
        Factor of all arrival dates.
    throughputs
        Steps per second of kinds of jobs, which Gavel's traces need; others have no use for it.
    columns
        Names of the columns in the file, by the names of the format: for a user's own table.

    Raises
    ------
    ReadError
        If it cannot be read, or is of another form.
    UnknownName
        If there is no such format.
    WorkloadError
        If no job is left, or throughputs are missing.
    """
    path = Path(path)
    try:
        with open_bytes(path, by_content=True) as file:
            text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ReadError(path, "is not text in UTF-8") from None
    text = table.from_json(text)
    if columns:
        text = table.renamed(text, columns, str(path))
    source = Source(path, text, gpus_per_machine=gpus_per_machine)
    if form == "auto":
        found = [name for name, one in FORMATS.items() if one.matches(source.first_line)]
        if not found:
            raise ReadError(path, _unknown(source.first_line), line=1)
        form = found[0]
    elif form not in FORMATS:
        raise UnknownName("format of GPU traces", form, FORMATS)
    if form == GAVEL_STEPS and throughputs is None:
        raise WorkloadError(f"{path}: counts the work of jobs in steps, which take load.throughputs to become times")
    rows = [row for row in FORMATS[form].rows(source) if _makes_sense(source, row)]
    if not rows:
        left_out = (
            f"no job is left; left out: {describe_dropped(source.dropped)}" if source.dropped else "holds no jobs"
        )
        raise WorkloadError(f"{path}: {left_out}")
    sha256 = sha256_of_file(path)
    load = load_of(
        source,
        form,
        rows,
        speeds=speeds or FORMATS[form].speeds,
        scale=scale_time,
        sha256=sha256,
        has_calendar_dates=FORMATS[form].has_calendar_dates,
    )
    return replace(load, throughputs=throughputs) if form == GAVEL_STEPS else load


_SIA_JOBS = {"name", "time", "application", "num_replicas"}


def _unknown(first_line: str) -> str:
    """Say that a file has none of the known formats, and what it lacks of the most similar one."""
    names = set(cells_of(first_line))
    if names >= _SIA_JOBS:
        return (
            "says no durations: Sia's simulator takes them from measured profiles of applications, which hdrl has not"
        )
    shares = {form: len(names & set(one.columns)) / len(one.columns) for form, one in FORMATS.items() if one.columns}
    nearest = max(shares, key=shares.__getitem__)
    if shares[nearest] < 0.5:
        return f"has an unknown format, expected one of {', '.join(FORMATS)}"
    lacking = [name for name in FORMATS[nearest].columns if name not in names]
    return f"is like {nearest!r}, but has no column {', '.join(map(repr, lacking))}"


LARGEST = 1e12
"""Sizes, dates and times of a job beyond this are mistakes, as in options."""

_NUMBERS = ("arrival_s", "duration_s", "n_gpus", "cpu_milli", "memory_mib", "priority")


def _makes_sense(source: Source, row: Row) -> bool:
    if row["arrival_s"] < 0:
        source.drop("jobs that arrive before date 0")
    elif row["duration_s"] < 0:
        source.drop("jobs that end before they start")
    elif row["duration_s"] == 0:
        source.drop("jobs that take no time")
    elif row.get("cpu_milli", 0) < 0 or row.get("memory_mib", 0) < 0:
        source.drop("jobs that ask for fewer than 0 cores, or less than no memory")
    elif not all(abs(row.get(name, 0)) <= LARGEST for name in _NUMBERS):
        source.drop(TOO_LARGE)
    else:
        return True
    return False

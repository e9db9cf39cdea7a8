"""Gavel's own trace files: a job in a line, its cells apart by tabs, its work in steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from hdrl.settings.gpu.loads.source import Row, Source, TraceFormat, gpus, kept, number

GAVEL_STEPS = "gavel"
"""The name of the format."""

_LAYOUTS: Mapping[int, tuple[str, ...]] = MappingProxyType(
    {
        6: ("kind", "command", "argument", "steps", "arrival", "gpus"),
        7: ("kind", "command", "argument", "needs_data", "steps", "arrival", "gpus"),
        9: ("kind", "command", "argument", "needs_data", "steps", "gpus", "priority", "slo", "arrival"),
        10: ("kind", "command", "folder", "argument", "needs_data", "steps", "gpus", "priority", "slo", "arrival"),
    }
)
"""Cells of a line, by how many there are: its program has had several forms, oldest first."""


def _job(line: dict[str, str]) -> Row:
    return {
        "kind": line["kind"],
        "arrival_s": number(line["arrival"], "a date"),
        "duration_s": number(line["steps"], "steps"),
        "priority": number(line.get("priority", "1"), "a priority"),
        **gpus(line["gpus"]),
    }


def _rows(source: Source) -> Iterator[Row]:
    columns = _LAYOUTS[len(source.first_line.split("\t"))]
    yield from kept(source, source.table(columns, has_header=False), _job)


def _matches(line: str) -> bool:
    cells = line.split("\t")
    layout = _LAYOUTS.get(len(cells))
    return layout is not None and cells[layout.index("steps")].strip().isdecimal()


FORMATS: Mapping[str, TraceFormat] = MappingProxyType(
    {GAVEL_STEPS: TraceFormat("job traces of Gavel's simulator", _rows, "equal", _matches)}
)

"""A table of an operator's own: a line for each job, whose columns ``load.columns`` names."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hdrl.base.csvfiles import delimiter_of
from hdrl.base.errors import OptionsError, ReadError, suggest
from hdrl.base.textnumbers import float_of
from hdrl.settings.gpu.loads.philly import date_s
from hdrl.settings.gpu.loads.source import (
    Faulty,
    Row,
    TraceFormat,
    cells_of,
    gpus,
    kept,
    name_prefix,
    number,
)

TABLE = "table"
NEEDED = ("submit_time", "gpus")
COLUMNS = (*NEEDED, "duration", "start_time", "end_time", "time_limit", "user", "group", "name", "priority")
"""All columns of the format; ``duration``, or ``start_time`` and ``end_time``, must be there, too."""


def _date_s(text: str) -> float:
    """Return a date in seconds: a number as it is, or one of the calendar."""
    try:
        return float_of(text)
    except ValueError:
        return date_s(text)


def _job(line: dict[str, str]) -> Row:
    submit_s = _date_s(line["submit_time"])
    start_s = _date_s(line["start_time"]) if line.get("start_time") else None
    if line.get("duration"):
        duration_s = number(line["duration"], "a duration")
    elif start_s is not None and line.get("end_time"):
        duration_s = _date_s(line["end_time"]) - start_s
    else:
        raise Faulty("jobs without a duration")
    row: Row = {
        "arrival_s": submit_s,
        "duration_s": duration_s,
        **gpus(line["gpus"]),
        "user": line.get("user", ""),
        "group": line.get("group", ""),
        "name": name_prefix(line.get("name", "")),
    }
    if start_s is not None:
        row["wait_s"] = max(0.0, start_s - submit_s)
    for key, column in (("requested_s", "time_limit"), ("priority", "priority")):
        if line.get(column):
            row[key] = number(line[column], f"a {column.replace('_', ' ')} that is a number")
    if row.get("requested_s", 1.0) <= 0.0:  # as files say that a job has no limit
        del row["requested_s"]
    return row


def _is_table(line: str) -> bool:
    names = set(cells_of(line))
    return names >= {*NEEDED} and ("duration" in names or names >= {"start_time", "end_time"})


FORMATS: Mapping[str, TraceFormat] = MappingProxyType(
    {
        TABLE: TraceFormat(
            "a table of one's own, by load.columns",
            lambda source: kept(source, source.table(NEEDED), _job),
            "equal",
            _is_table,
            NEEDED,
            has_calendar_dates=True,
        )
    }
)


_PHILLY = '"attempts"'
"""Text near the beginning of Philly's log; its objects are no rows of a table."""


def from_json(text: str) -> str:
    """Return objects of plain values, one in a line or all in a list, as a CSV table; any other text as it is."""
    begin = text.lstrip()[:1]
    if begin not in ("[", "{") or _PHILLY in text[:100_000]:
        return text
    try:
        rows = json.loads(text) if begin == "[" else [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return text
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return text
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def renamed(text: str, columns: Mapping[str, str], where: str) -> str:
    """Return a table whose columns have the names that a format gives them.

    ``columns`` has the name in the table by the format's name. Raise ReadError if the table lacks a column,
    OptionsError if one column has two names.
    """
    lines = text.splitlines(keepends=True)
    position = next((i for i, line in enumerate(lines) if line.strip()), None)
    names = [] if position is None else cells_of(lines[position].rstrip("\r\n"))
    for theirs in columns.values():
        if theirs not in names:
            raise ReadError(where, f"has no column {theirs!r} of load.columns; {suggest(theirs, names)}", line=1)
    ours = {theirs: name for name, theirs in columns.items()}
    if len(ours) < len(columns):
        raise OptionsError(f"{where}: load.columns gives one column two names, expected another column for each")
    # What has one of these names already, and is not meant, steps aside.
    found = [ours.get(name, f"{name} (unmapped)" if name in columns else name) for name in names]
    first = io.StringIO()
    csv.writer(first, delimiter=delimiter_of(lines[position or 0]), lineterminator="\n").writerow(found)
    lines[position or 0] = first.getvalue()
    return "".join(lines)

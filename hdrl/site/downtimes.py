"""Downtimes of a site's nodes: ``scontrol show res``, or a table in CSV."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from hdrl.base.csvfiles import csv_rows
from hdrl.base.errors import ReadError, quoted, suggest
from hdrl.base.files import read_text
from hdrl.settings.batch.site_rules.conf import Downtime, SiteConf
from hdrl.settings.batch.site_rules.hostlist import node_names
from hdrl.site.values import Clock

COLUMNS = ("start", "end", "nodes", "kind")
_REPEATED = frozenset(("HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY"))
"""Flags of reservations that Slurm repeats; it shows the next one."""

KINDS = ("reservation", "failure", "drain")


def with_downtimes(conf: SiteConf, path: Path, clock: Clock) -> SiteConf:
    """Return a site with what a file says of maintenance, failures and drains of its nodes.

    Parameters
    ----------
    path
        What ``scontrol show res`` prints, of which the reservations for maintenance count; or a table with the columns
        ``start``, ``end``, ``nodes`` and ``kind`` (`KINDS`; a reservation if there is none).

    Raises
    ------
    ReadError
        If it is neither, or makes no sense.
    """
    text = read_text(path)
    if text.lstrip().startswith("ReservationName="):
        found, n_others, repeated = _reservations(path, text, clock)
        notes = []
        if n_others:
            notes.append(f"{path.name}: {n_others:,} reservations are for users, not for maintenance, and left out")
        if repeated:
            notes.append(f"{path.name}: of reservations that repeat, only the date shown counts: {', '.join(repeated)}")
    else:
        found, notes = _table(path, text, clock), []
    return replace(conf, downtimes=(*conf.downtimes, *found), notes=(*conf.notes, *notes))


def _reservations(path: Path, text: str, clock: Clock) -> tuple[list[Downtime], int, list[str]]:
    """Return those for maintenance, the number of the others, and the names of those that repeat."""
    found, n_others, repeated = [], 0, []
    line = 1
    for part in re.split(r"(?=ReservationName=)", text):
        values = dict(re.findall(r"(\w+)=(\S*)", part))
        if "ReservationName" in values:
            flags = values.get("Flags", "").split(",")
            if "MAINT" in flags:
                if not _REPEATED.isdisjoint(flags):
                    repeated.append(quoted(values["ReservationName"]))
                nodes = values.get("Nodes", "").replace("(null)", "")
                found.append(_downtime(path, line, values.get("StartTime"), values.get("EndTime"), nodes, clock=clock))
            else:
                n_others += 1
        line += part.count("\n")
    return found, n_others, repeated


def _table(path: Path, text: str, clock: Clock) -> list[Downtime]:
    lines = csv_rows(path, text)
    _, header = next(lines, (1, []))
    for name in header:
        if name not in COLUMNS:
            raise ReadError(path, f"has the column {quoted(name)}; {suggest(name, COLUMNS)}", line=1)
    if not {"start", "end"} <= set(header):
        raise ReadError(path, f"has no columns start and end, expected columns among {', '.join(COLUMNS)}", line=1)
    found = []
    for line, cells in lines:
        if len(cells) != len(header):
            raise ReadError(path, f"has {len(cells)} cells, expected {len(header)}", line=line)
        row = dict(zip(header, cells, strict=True))
        kind = row.get("kind", "") or KINDS[0]
        if kind not in KINDS:
            raise ReadError(path, f"has the kind {quoted(kind)}; {suggest(kind, KINDS)}", line=line)
        one = _downtime(path, line, row["start"], row["end"], row.get("nodes", ""), clock=clock)
        found.append(replace(one, kind=kind))
    return found


def _downtime(path: Path, line: int, start: str | None, end: str | None, nodes: str, *, clock: Clock) -> Downtime:
    seconds = []
    for text in (start, end):
        try:
            seconds.append(clock.second(text or ""))
        except ValueError:
            seconds.append(np.nan)
        if not np.isfinite(seconds[-1]):
            raise ReadError(
                path, f"has {quoted(text or '')} for a date, expected such as 2026-01-01T12:00:00", line=line
            )
    if seconds[1] <= seconds[0]:
        raise ReadError(path, f"ends at {end}, expected a date after {start}", line=line)
    try:
        node_names(nodes)
    except ValueError as error:
        raise ReadError(path, f"nodes {error}", line=line) from None
    first, last = (datetime.fromtimestamp(one, UTC).isoformat() for one in seconds)
    return Downtime(first, last, nodes)

"""Downtimes of a site's nodes: ``scontrol show res``, or a table in CSV."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
KINDS = ("reservation", "failure", "drain")

_HOURLY, _WEEKLY = "HOURLY", "WEEKLY"
_ON_WEEKDAYS: Mapping[str, Sequence[int]] = {"DAILY": range(7), "WEEKDAY": range(5), "WEEKEND": range(5, 7)}
"""Flags of reservations that Slurm repeats, and the days of the week (0 is Monday) on which they begin."""

_HOUR_S, _DAY_S, _DAYS_OF_A_WEEK = 3600, 86400, 7

MOST = 20_000
"""Repetitions of a reservation, which are two years of hours or 54 years of days."""

AFTER_S = 28 * _DAY_S
"""Time after the end of a log in which reservations still repeat, as simulations end later than the log."""


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A reservation that Slurm repeats; it shows the one that goes on or comes next."""

    name: str
    flag: str  # `_HOURLY`, `_WEEKLY` or one of `_ON_WEEKDAYS`
    shown: Downtime

    def within(self, begin_s: float, end_s: float, clock: Clock) -> list[Downtime]:
        """Return the one that is shown, and all others that overlap a time, earlier ones included.

        One that lasts longer than its period, and so overlaps itself, has no others. Of too many, the last ones count.
        """
        if self.is_too_long:
            return [self.shown]
        begin_s = max(begin_s, end_s - MOST * self.period_s)
        spans = self._hours(begin_s, end_s) if self.flag == _HOURLY else self._days(begin_s, end_s, clock)
        others = [span for span in spans if span[0] < end_s and begin_s < span[1] and span[0] < span[1]]
        return [_dated(span, self.shown.nodes) for span in sorted({*others, self.shown.span_s})]

    @property
    def period_s(self) -> float:
        """Least time between two of them."""
        return {_HOURLY: _HOUR_S, _WEEKLY: _DAYS_OF_A_WEEK * _DAY_S}.get(self.flag, _DAY_S)

    @property
    def is_too_long(self) -> bool:
        """True if one lasts until after the begin of the next one."""
        from_s, to_s = self.shown.span_s
        return to_s - from_s > self.period_s

    def _hours(self, begin_s: float, end_s: float) -> Iterator[tuple[float, float]]:
        from_s, to_s = self.shown.span_s
        for hour in range(math.floor((begin_s - to_s) / _HOUR_S), math.ceil((end_s - from_s) / _HOUR_S) + 1):
            yield from_s + hour * _HOUR_S, to_s + hour * _HOUR_S

    def _days(self, begin_s: float, end_s: float, clock: Clock) -> Iterator[tuple[float, float]]:
        """Yield the dates at which clocks show what they show at those of the reservation, with days of 23 to 25 h."""
        from_s, to_s = self.shown.span_s
        first, last = math.floor((begin_s - to_s) / _DAY_S) - 1, math.ceil((end_s - from_s) / _DAY_S) + 1
        weekday = clock.weekday(from_s)
        allowed = _ON_WEEKDAYS.get(self.flag, (weekday,))
        for days in range(first, last + 1):
            if (weekday + days) % _DAYS_OF_A_WEEK in allowed:
                yield clock.days_later(from_s, days), clock.days_later(to_s, days)


@dataclass(frozen=True, slots=True)
class Downtimes:
    """Contents of a file about maintenance, failures and drains."""

    name: str  # of the file
    found: tuple[Downtime, ...]
    repeated: tuple[_Repeated, ...] = ()
    n_others: int = 0  # reservations for users

    def joined_to(self, conf: SiteConf, begin_s: float, end_s: float, clock: Clock) -> SiteConf:
        """Return a site with these downtimes as well.

        Parameters
        ----------
        begin_s, end_s
            First and last date of the log, in seconds since 1970: reservations repeat between them, and for `AFTER_S`.
        """
        found, notes = [*self.found], []
        if self.n_others:
            notes.append(
                f"{self.name}: {self.n_others:,} reservations are for users, not for maintenance, and left out"
            )
        for one in self.repeated:
            dates = one.within(begin_s, end_s + AFTER_S, clock)
            found += dates
            which = f"{self.name}: reservation {quoted(one.name)} repeats ({one.flag})"
            if one.is_too_long:
                notes.append(f"{which}, but lasts longer than that: only the date shown counts")
            else:
                notes.append(
                    f"{which}: simulations have {len(dates):,} of them, from {dates[0].start} to {dates[-1].end}, also "
                    "before the one that Slurm shows"
                )
        return replace(conf, downtimes=(*conf.downtimes, *found), notes=(*conf.notes, *notes))


def read_downtimes(path: Path, clock: Clock) -> Downtimes:
    """Read maintenance, failures and drains of nodes.

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
        return _reservations(path, text, clock)
    return Downtimes(path.name, tuple(_table(path, text, clock)))


def _reservations(path: Path, text: str, clock: Clock) -> Downtimes:
    found, repeated, n_others = [], [], 0
    line = 1
    for part in re.split(r"(?=ReservationName=)", text):
        values = dict(word.partition("=")[::2] for word in part.split() if "=" in word)
        if "ReservationName" in values:
            flags = values.get("Flags", "").split(",")
            if "MAINT" in flags:
                nodes = values.get("Nodes", "").replace("(null)", "")
                one = _downtime(path, line, values.get("StartTime"), values.get("EndTime"), nodes, clock=clock)
                flag = next((flag for flag in (_HOURLY, *_ON_WEEKDAYS, _WEEKLY) if flag in flags), None)
                if flag is None:
                    found.append(one)
                else:
                    repeated.append(_Repeated(values["ReservationName"], flag, one))
            else:
                n_others += 1
        line += part.count("\n")
    return Downtimes(path.name, tuple(found), tuple(repeated), n_others)


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
    return _dated((seconds[0], seconds[1]), nodes)


def _dated(span_s: tuple[float, float], nodes: str) -> Downtime:
    first, last = (datetime.fromtimestamp(one, UTC).isoformat() for one in span_s)
    return Downtime(first, last, nodes)

"""Dates as accounting writes them, with and without zones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, UnknownName
from hdrl.settings.batch.site_rules.values import ABSENT

FloatArray = NDArray[np.float64]

_LATEST_S = 253_370_764_800.0  # the year 9999, the last that `datetime` has
_EARLIEST_S = -2_208_988_800.0  # 1900
_SLICE_S = 900
"""Clocks change at whole quarters of an hour only."""

_SLICES_OF_A_DAY = 96
"""Clocks that show the same offset at both ends of a day have not changed on it."""


def find_zone(name: str | None) -> ZoneInfo | None:
    """Return a time zone by its name, ``None`` for UTC.

    Raises
    ------
    OptionsError
        If there is no such zone.
    """
    if name is None or name == "UTC":
        return None
    zones = available_timezones()
    if name not in zones:
        raise OptionsError(f"--zone: {UnknownName('time zone', name, zones)}")
    return ZoneInfo(name)


class Clock:
    """Turns dates of a file into seconds since 1970 in UTC.

    Parameters
    ----------
    zone
        Time zone of dates without one; ``None``: UTC.
    """

    def __init__(self, zone: ZoneInfo | None) -> None:
        self.n_ambiguous = 0
        """Dates of the hour that a clock repeats in autumn, or skips in spring: read as the first one."""
        self.n_local = 0
        """Dates that say no zone."""
        self._zone = zone
        self._offsets: dict[int, tuple[float, bool]] = {}

    def seconds(self, texts: Sequence[str]) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return dates in seconds, NaN where there is none, and which texts are neither.

        Parameters
        ----------
        texts
            Dates in ISO 8601, with or without a zone, or seconds since 1970.
        """
        is_date = np.fromiter(map(len, texts), np.int64, len(texts)) == len("2026-01-01T00:00:00")
        words: Sequence[str] = texts
        others: Iterable[str] = ()
        if not np.all(is_date):
            words, others = (list(itertools.compress(texts, chosen.tolist())) for chosen in (is_date, ~is_date))
        # NumPy also takes words such as "now" for dates. From a list it reads them ten times as fast as from an array.
        if not ABSENT.issuperset(others) or (words and not "0" <= min(words) <= max(words) < ":"):
            return self._one_by_one(texts)
        local = np.full(len(texts), "NaT", dtype="datetime64[s]")
        try:
            local[is_date] = np.array(words, dtype=local.dtype)
        except ValueError:
            return self._one_by_one(texts)
        is_known = ~np.isnat(local)
        values = np.where(is_known, local.astype(np.int64), 0).astype(np.float64)
        is_bad = is_known & ((values > _LATEST_S) | (values < _EARLIEST_S))
        is_known &= ~is_bad
        seconds = np.where(is_known, self._to_utc(np.where(is_known, values, 0.0), is_known), np.nan)
        return seconds, is_bad

    def put_in_order(self, columns: Sequence[FloatArray]) -> None:
        """Take dates in an hour that clocks repeat for the second one where the first is before another of the job.

        Parameters
        ----------
        columns
            Dates of jobs as `seconds` returns them, such as submissions, starts and ends: later ones come later.
        """
        if self._zone is None:
            return
        latest_s = np.array(columns[0])
        for column in columns[1:]:
            early = np.flatnonzero(column < latest_s)
            if len(early):
                slices, place = np.unique(np.floor(column[early] / _SLICE_S).astype(np.int64), return_inverse=True)
                column[early] += np.array([self._repeated_s(number) for number in slices.tolist()])[place]
            latest_s = np.fmax(latest_s, column)

    def _repeated_s(self, number: int) -> float:
        """Return the time after which clocks repeat a quarter of an hour, in seconds; 0 if they do not."""
        date = datetime.fromtimestamp(number * _SLICE_S, self._zone)
        first, second = (date.replace(fold=fold).utcoffset() or timedelta() for fold in (date.fold, 1))
        return (first - second).total_seconds()

    def second(self, text: str) -> float:
        """Return one date in seconds, NaN if there is none.

        Raises
        ------
        ValueError
            If the text is no date.
        """
        values, is_bad = self._one_by_one([text])
        if is_bad[0]:
            raise ValueError(f"no date: {text!r}")
        return float(values[0])

    def weekday(self, second: float) -> int:
        """Return the day of the week at a date, 0 for Monday."""
        return datetime.fromtimestamp(second, self._zone or UTC).weekday()

    def days_later(self, second: float, days: int) -> float:
        """Return the date on another day at which a clock shows the same time, in seconds."""
        if days == 0:  # even if a clock shows this time twice on that day
            return second
        return (datetime.fromtimestamp(second, self._zone or UTC) + timedelta(days=days)).timestamp()

    def _one_by_one(self, texts: Sequence[str]) -> tuple[FloatArray, NDArray[np.bool_]]:
        seconds = np.full(len(texts), np.nan)
        is_bad = np.zeros(len(texts), dtype=bool)
        is_local = np.zeros(len(texts), dtype=bool)
        for place, text in enumerate(texts):
            if text in ABSENT:
                continue
            try:
                seconds[place], is_local[place] = _date(text)
                is_bad[place] = not _EARLIEST_S <= seconds[place] <= _LATEST_S
            except (ValueError, OverflowError):
                is_bad[place] = True
        seconds[is_bad] = np.nan
        is_local &= ~is_bad
        if np.any(is_local):
            seconds[is_local] = self._to_utc(seconds[is_local], np.ones(np.count_nonzero(is_local), dtype=bool))
        return seconds, is_bad

    def _to_utc(self, local_s: FloatArray, counts: NDArray[np.bool_]) -> FloatArray:
        self.n_local += int(np.count_nonzero(counts))
        if self._zone is None:
            return local_s
        slices, place = np.unique(np.floor(local_s / _SLICE_S).astype(np.int64), return_inverse=True)
        days, day = np.unique(slices // _SLICES_OF_A_DAY, return_inverse=True)
        offsets = np.array([self._offset_of_day(number) for number in days.tolist()])[day]
        is_double = np.zeros(len(slices), dtype=bool)
        for i in np.flatnonzero(np.isnan(offsets)).tolist():
            offsets[i], is_double[i] = self._offset(int(slices[i]))
        self.n_ambiguous += int(np.count_nonzero(is_double[place] & counts))
        return np.asarray(local_s - offsets[place], dtype=np.float64)

    def _offset_of_day(self, number: int) -> float:
        """Return the seconds by which the zone is ahead of UTC on a day, NaN if clocks change on it."""
        ends = [self._offset(one * _SLICES_OF_A_DAY) for one in (number, number + 1)]
        return ends[0][0] if ends[0] == ends[1] and not ends[0][1] else math.nan

    def _offset(self, number: int) -> tuple[float, bool]:
        """Return the seconds by which the zone is ahead of UTC in a quarter of an hour, and whether it is ambiguous."""
        found = self._offsets.get(number)
        if found is None:
            begin = datetime(1970, 1, 1, tzinfo=self._zone) + timedelta(seconds=number * _SLICE_S)
            first, second = (begin.replace(fold=fold).utcoffset() or timedelta() for fold in (0, 1))
            found = self._offsets[number] = (first.total_seconds(), first != second)
        return found


def _date(text: str) -> tuple[float, bool]:
    """Return a date in seconds as if it were UTC, and whether it is local."""
    if text.isascii() and text.replace(".", "", 1).isdigit() and not _is_day(text):
        return float(text), False
    found = datetime.fromisoformat(text.replace("/", "-"))
    if found.tzinfo is None:
        return found.replace(tzinfo=UTC).timestamp(), True
    return found.timestamp(), False


def _is_day(text: str) -> bool:
    return len(text) == 8 and text.startswith(("19", "20"))

"""Values as accounting writes them: dates with and without zones, durations, memory, resources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, quoted, suggest
from hdrl.base.textnumbers import float_of, int_of

FloatArray = NDArray[np.float64]

ABSENT = frozenset(("", "None", "Unknown", "N/A", "NONE", "UNKNOWN", "none", "unknown", "null"))
"""How accounting writes that there is no date or number."""

_LATEST_S = 253_370_764_800.0  # the year 9999, the last that `datetime` has
_EARLIEST_S = -2_208_988_800.0  # 1900
_SLICE_S = 900
"""Clocks change at whole quarters of an hour only."""


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
        raise OptionsError(f"--zone: no time zone {quoted(name)}; {suggest(name, zones)}")
    return ZoneInfo(name)


class Clock:
    """Turns dates of a file into seconds since 1970 in UTC.

    Parameters
    ----------
    zone
        Where dates without a zone are local; ``None``: they are UTC.
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
        words = np.array(texts, dtype=np.str_)
        is_absent = np.isin(words, list(ABSENT))
        begins = words.astype("U1")
        # NumPy also takes words such as "now" for dates.
        if not np.all(is_absent | ((begins >= "0") & (begins <= "9") & (np.char.str_len(words) == 19))):
            return self._one_by_one(texts)
        try:
            local = np.where(is_absent, "NaT", words).astype("datetime64[s]")
        except ValueError:
            return self._one_by_one(texts)
        is_known = ~np.isnat(local)
        values = np.where(is_known, local.astype(np.int64), 0).astype(np.float64)
        is_bad = is_known & ((values > _LATEST_S) | (values < _EARLIEST_S))
        is_known &= ~is_bad
        seconds = np.where(is_known, self._to_utc(np.where(is_known, values, 0.0), is_known), np.nan)
        return seconds, is_bad

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
        found = [self._offset(number) for number in slices.tolist()]
        self.n_ambiguous += int(np.count_nonzero(np.array([is_double for _, is_double in found])[place] & counts))
        return np.asarray(local_s - np.array([offset for offset, _ in found])[place], dtype=np.float64)

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


_DURATION = re.compile(r"(?:(\d{1,7})-)?(\d{1,9})(?::(\d{1,2}))?(?::(\d{1,2}(?:\.\d+)?))?")


def duration_s(text: str) -> float:
    """Return a duration of Slurm or PBS in seconds: ``1-02:03:04``, ``02:03:04``, ``03:04``.

    Parameters
    ----------
    text
        The duration; no limit is infinite, none that is said NaN.

    Raises
    ------
    ValueError
        If it is none.
    """
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return np.inf
    if text in ABSENT or text in ("Partition_Limit", "INVALID"):
        return np.nan
    found = _DURATION.fullmatch(text)
    if found is None or not text.isascii():
        raise ValueError(f"no duration: {text!r}")
    days, *rest = found.groups()
    numbers = [float(one) for one in rest if one is not None]
    if days is not None:  # days-hours:minutes:seconds, from the left
        numbers += [0.0] * (3 - len(numbers))
    return float(days or 0) * 86400 + sum(one * 60.0**place for place, one in enumerate(reversed(numbers)))


def minutes_s(text: str) -> float:
    """Return a limit of Slurm in seconds: plain numbers are minutes, all else as of `duration_s`."""
    return float_of(text) * 60 if text.isascii() and text.isdigit() else duration_s(text)


_MEMORY_KB = {"": 1024.0, "K": 1.0, "M": 2.0**10, "G": 2.0**20, "T": 2.0**30, "P": 2.0**40}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[B]?([cn]?)")


def memory_of(text: str) -> tuple[float, str]:
    """Return memory as Slurm writes it in KiB, and what it is for: ``c`` a core, ``n`` a node, else the whole job.

    Raises
    ------
    ValueError
        If it is none.
    """
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise ValueError(f"no memory: {text!r}")
    return float(found[1]) * _MEMORY_KB[found[2]], found[3]


def memory_kb(text: str) -> float:
    """Return memory with a suffix in KiB, NaN if it is not said."""
    if text in ABSENT:
        return np.nan
    return memory_of(text)[0]


def resource(text: str, name: str) -> float:
    """Return an amount in a list of trackable resources such as ``cpu=8,gres/gpu:a100=2,mem=4G``, NaN if not there.

    Parameters
    ----------
    name
        ``cpu``, ``node``, ``mem`` (KiB) or ``gres/gpu``, of which the types are summed up where there is no total.

    Raises
    ------
    ValueError
        If the amount is none.
    """
    total, of_types = np.nan, np.nan
    for part in text.split(","):
        key, _, amount = part.partition("=")
        if key == name:
            total = memory_kb(amount) if name == "mem" else float_of(amount)
        elif key.startswith(f"{name}:"):
            of_types = float_of(amount) + (0.0 if np.isnan(of_types) else of_types)
    return of_types if np.isnan(total) else total


def gres_gpus(text: str) -> float:
    """Return the GPUs of a list of generic resources such as ``gpu:a100:2(S:0),gpu:1``, NaN if there is none.

    Raises
    ------
    ValueError
        If a number is none.
    """
    total = np.nan
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        kind, *rest = part.removeprefix("gres/").replace("=", ":").split(":")
        if kind == "gpu":
            last = rest[-1] if rest and rest[-1].isdigit() else "1"
            total = int_of(last) + (0.0 if np.isnan(total) else total)
    return total

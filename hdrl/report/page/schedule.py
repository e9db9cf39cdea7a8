"""Schedules as arrays for the browser, which draws them so that one can zoom in.

Arrays are text inside the page: quantised, differences where that is shorter, compressed, base64. The browser undoes it
(``assets/data.js``) when a figure is looked at.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdrl.figures.figure import ScheduleChart, Span
from hdrl.figures.numbers import time_unit
from hdrl.report.page.parts import Schedules

MOST_BARS = 40_000
"""A schedule with more rectangles has the gaps within items closed, the narrowest first."""

IntArray = NDArray[np.int64]


class Packed:
    """Schedules as the page holds them.

    Attributes
    ----------
    model
        Data for the browser: JSON.
    packs
        Arrays by the id of the element that holds them.
    """

    def __init__(self, schedules: Sequence[tuple[int, str, ScheduleChart]]) -> None:
        """Pack schedules, each with position and name of its run."""
        spans = [float(np.ptp([*one.start_s, *one.end_s])) for _, _, one in schedules if len(one.ids)]
        self._seconds, unit = time_unit(max(spans, default=0.0))
        self.packs: dict[str, str] = {}
        self.model: dict[str, Any] = {
            "time": {"seconds": self._seconds, "unit": unit},
            "schedules": {str(position): self._add(position, name, one) for position, name, one in schedules},
        }

    def _add(self, position: int, name: str, schedule: ScheduleChart) -> dict[str, Any]:
        item, first, n_held, closed = closed_gaps(schedule.item, schedule.first_unit, schedule.n_held)
        pack = Pack()
        pack.add("start", schedule.start_s / self._seconds)
        pack.add("end", schedule.end_s / self._seconds)
        for index, number in enumerate(schedule.numbers):
            pack.add(f"number{index}", number.values)
        pack.add("item", item)
        pack.add("first", first)
        pack.add("n", n_held)
        self.packs[f"schedule-{position}"] = pack.text()
        self.packs[f"schedule-{position}-ids"] = packed_text(json.dumps(list(schedule.ids)))
        return {
            "name": name,
            "item": schedule.item_word,
            "unit": schedule.unit_word,
            "n_units": schedule.n_units,
            "numbers": [{"words": number.words, "unit": number.unit} for number in schedule.numbers],
            "groups": _spans(schedule.groups),
            "parts": _spans(schedule.parts),
            "closed": closed,
            "arrays": pack.arrays,
        }


def part_of(schedules: Sequence[tuple[int, str, ScheduleChart]]) -> Schedules:
    """Return the part of the page that shows schedules."""
    first = schedules[0][2]
    return Schedules(
        title=f"Which {first.item_word} ran when on which {first.unit_word}s",
        runs=[(position, name) for position, name, _ in schedules],
        numbers=[number.title for number in first.numbers],
        item_word=first.item_word,
    )


def closed_gaps(item: IntArray, first: IntArray, n_held: IntArray) -> tuple[IntArray, IntArray, IntArray, int]:
    """Return few enough rectangles, and how many free units between two of one item were drawn as its own for that."""
    closed = 0
    most = max(MOST_BARS, 2 * len(np.unique(item)))
    while len(item) > most and closed < 2**30:
        closed = max(1, 2 * closed)
        order = np.lexsort((first, item))
        item, first, last = item[order], first[order], (first + n_held)[order]
        begins = np.ones(len(item), dtype=bool)
        begins[1:] = (item[1:] != item[:-1]) | (first[1:] - last[:-1] > closed)
        where = np.flatnonzero(begins)
        stop = np.append(where[1:], len(item)) - 1
        item, first, n_held = item[where], first[where], last[stop] - first[where]
    return item, first, n_held, closed


def _spans(spans: Sequence[Span]) -> list[list[Any]]:
    return [[span.name, span.first, span.n_units] for span in spans]


_UNSIGNED = (np.dtype("<u1"), np.dtype("<u2"), np.dtype("<u4"))
_STEPS = 2**32 - 1


@dataclass(slots=True)
class Pack:
    """Arrays that one figure or one run needs, as one compressed piece of text.

    ``arrays`` says where each array is and how to undo its coding: JSON for the page.
    """

    arrays: dict[str, dict[str, Any]] = field(default_factory=dict)
    _bytes: bytearray = field(default_factory=bytearray)

    def add(self, name: str, values: ArrayLike) -> None:
        """Add an array of finite numbers.

        Whole numbers stay exact as long as they span less than 2**32; others are rounded to the span of the array
        divided by 2**32, which no screen shows.
        """
        numbers = np.asarray(values, dtype=np.float64)
        if name in self.arrays or not np.all(np.isfinite(numbers)):
            raise ValueError(f"array {name!r} is there already, or holds numbers that are not finite")
        offset, scale, steps = _quantised(numbers)
        is_rising = len(steps) > 1 and bool(np.all(steps[1:] >= steps[:-1]))
        if is_rising:
            steps = np.diff(steps, prepend=0)
        coded = steps.astype(_smallest(steps))
        while len(self._bytes) % coded.itemsize:
            self._bytes.append(0)
        self.arrays[name] = {
            "at": len(self._bytes),
            "n": len(coded),
            "bytes": coded.itemsize,
            "offset": offset,
            "scale": scale,
            "rising": is_rising,
        }
        self._bytes += coded.tobytes()

    def text(self) -> str:
        """Return all arrays, gzip-compressed, in base64; the same arrays give the same text."""
        return base64.b64encode(gzip.compress(bytes(self._bytes), compresslevel=6, mtime=0)).decode("ascii")


def packed_text(text: str) -> str:
    """Return a text, gzip-compressed, in base64."""
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode("ascii")


def _quantised(numbers: NDArray[np.float64]) -> tuple[float, float, NDArray[np.int64]]:
    """Return offset, scale and whole numbers with ``offset + scale * number`` near the given ones."""
    if not len(numbers):
        return 0.0, 1.0, np.zeros(0, dtype=np.int64)
    low, high = float(numbers.min()), float(numbers.max())
    if high - low <= _STEPS and bool(np.all(numbers == np.rint(numbers))):
        return low, 1.0, (numbers - low).astype(np.int64)
    scale = (high - low) / _STEPS
    if scale == 0:
        return low, 1.0, np.zeros(len(numbers), dtype=np.int64)
    return low, scale, np.rint((numbers - low) / scale).clip(0, _STEPS).astype(np.int64)


def _smallest(steps: NDArray[np.int64]) -> np.dtype[Any]:
    top = int(steps.max(initial=0))
    return next(dtype for dtype in _UNSIGNED if top <= np.iinfo(dtype).max)

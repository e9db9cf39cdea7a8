"""Schedules as arrays for the browser, which draws them so that one can zoom in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.figures.figure import Schedule, Span
from hdrl.figures.numbers import time_unit
from hdrl.report.page.packing import Pack, packed_text
from hdrl.report.page.parts import Schedules

MOST_BARS = 40_000
"""A schedule with more rectangles has the gaps within items closed, the narrowest first."""

IntArray = NDArray[np.int64]


class Packed:
    """Schedules as the page holds them.

    Attributes
    ----------
    model
        What the browser must know: JSON.
    packs
        Arrays by the id of the element that holds them.
    """

    def __init__(self, schedules: Sequence[tuple[int, str, Schedule]]) -> None:
        """Pack schedules, each with position and name of its run."""
        spans = [float(np.ptp([*one.start_s, *one.end_s])) for _, _, one in schedules if len(one.ids)]
        self._seconds, unit = time_unit(max(spans, default=0.0))
        self.packs: dict[str, str] = {}
        self.model: dict[str, Any] = {
            "time": {"seconds": self._seconds, "unit": unit},
            "schedules": {str(place): self._add(place, name, one) for place, name, one in schedules},
        }

    def _add(self, place: int, name: str, schedule: Schedule) -> dict[str, Any]:
        item, first, n_held, closed = closed_gaps(schedule.item, schedule.first_unit, schedule.n_held)
        pack = Pack()
        pack.add("start", schedule.start_s / self._seconds)
        pack.add("end", schedule.end_s / self._seconds)
        for index, number in enumerate(schedule.numbers):
            pack.add(f"number{index}", number.values)
        pack.add("item", item)
        pack.add("first", first)
        pack.add("n", n_held)
        self.packs[f"schedule-{place}"] = pack.text()
        self.packs[f"schedule-{place}-ids"] = packed_text(json.dumps(list(schedule.ids)))
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


def part_of(schedules: Sequence[tuple[int, str, Schedule]]) -> Schedules:
    """Return the part of the page that shows schedules."""
    first = schedules[0][2]
    return Schedules(
        title=f"Which {first.item_word} ran when on which {first.unit_word}s",
        runs=[(place, name) for place, name, _ in schedules],
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

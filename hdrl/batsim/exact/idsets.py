"""Sets of machine ids as Batsim writes them: ``"0-3 5"``."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RANGE = re.compile(r"(\d{1,9})-(\d{1,9})")


def parse_ids(text: str, n_machines: int) -> list[int]:
    """Return the ids of a set such as ``0 2-4``, ascending; raise ValueError for anything else."""
    parts = text.split()
    if text.isascii() and "".join(parts).isdecimal() and max(map(len, parts)) < 10:
        single = sorted({*map(int, parts)})
        if single[-1] < n_machines:
            return single
    ids: set[int] = set()
    for part in parts:
        if part.isdecimal() and len(part) < 10:
            first = last = int(part)
        else:
            first, last = _range_of(part)
        if last >= n_machines:
            raise ValueError(f"machine {last} does not exist; ids are 0 to {n_machines - 1}")
        if first == last:
            ids.add(first)
        else:
            ids.update(range(first, last + 1))
    if not ids:
        raise ValueError("no machine is named")
    return sorted(ids)


def _range_of(part: str) -> tuple[int, int]:
    match = _RANGE.fullmatch(part)
    if match is None:
        raise ValueError(f"{part!r} is neither an id nor a range of ids such as '0-3'")
    first, last = int(match[1]), int(match[2])
    if last < first:
        raise ValueError(f"range {part!r} is empty")
    return first, last


def format_ids(ids: Iterable[int]) -> str:
    """Write a set of ids, runs of consecutive ones as ranges."""
    ordered = sorted(ids)
    if not ordered:
        return ""
    parts = []
    first = last = ordered[0]
    if ordered[-1] - first == len(ordered) - 1:
        return _range(first, ordered[-1])
    for machine in ordered[1:]:
        if machine == last + 1:
            last = machine
        else:
            parts.append(_range(first, last))
            first = last = machine
    parts.append(_range(first, last))
    return " ".join(parts)


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"

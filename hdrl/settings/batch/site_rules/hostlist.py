"""Lists of nodes as Slurm writes them: ``n[1-6,08],gpu3`` and ``rack[1-2]n[1-4]``."""

from __future__ import annotations

import itertools
import math
import re

MAX_NODES = 2**17
"""Nodes that a list may name: what brackets multiply out is counted before names are made."""

_PART = re.compile(r"[^\[\],]*(?:\[[^\[\]]*\][^\[\],]*)*")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")


def node_names(text: str, most: int = MAX_NODES) -> list[str]:
    """Return the names in a list of nodes, in its order.

    Raises
    ------
    ValueError
        If it is no such list, or names too many nodes.
    """
    names: list[str] = []
    for part in _parts(text):
        fixed = _BRACKET.split(part)
        texts, ranges = fixed[::2], [_Ranges(one) for one in fixed[1::2]]
        n_names = math.prod(one.n_numbers for one in ranges)
        if n_names + len(names) > most:
            raise ValueError(f"names {n_names + len(names):,} nodes, more than {most:,}")
        names.extend(
            "".join(itertools.chain(*zip(texts, [*numbers, ""], strict=True)))
            for numbers in itertools.product(*(one.numbers() for one in ranges))
        )
    return names


def n_of_ranges(text: str) -> int:
    """Return the number of numbers in ranges such as ``1-4,7,10-20:2``.

    Raises
    ------
    ValueError
        If they are no ranges.
    """
    return _Ranges(text).n_numbers


class _Ranges:
    """Numbers in brackets: ``1-4,08``."""

    def __init__(self, text: str) -> None:
        self._parts: list[tuple[int, int, int, int]] = []
        for part in text.split(","):
            found = re.fullmatch(r"([0-9]{1,12})(?:-([0-9]{1,12})(?::([0-9]{1,6}))?)?", part)
            if found is None:
                raise ValueError(f"holds {part[:40]!r}, expected numbers such as 1-4")
            first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
            if last < first or step < 1:
                raise ValueError(f"holds {part[:40]!r}, expected a range that rises")
            self._parts.append((first, last, step, len(found[1])))

    @property
    def n_numbers(self) -> int:
        return sum((last - first) // step + 1 for first, last, step, _ in self._parts)

    def numbers(self) -> list[str]:
        return [
            str(number).zfill(width)
            for first, last, step, width in self._parts
            for number in range(first, last + 1, step)
        ]


def _parts(text: str) -> list[str]:
    """Split at the commas that are not in brackets."""
    parts, position = [], 0
    while position <= len(text):
        found = _PART.match(text, position)
        end = position if found is None else found.end()
        if end < len(text) and text[end] != ",":
            raise ValueError(f"has a bracket that is not closed: {text[position : position + 40]!r}")
        if text[position:end].strip():
            parts.append(text[position:end].strip())
        position = end + 1
    return parts

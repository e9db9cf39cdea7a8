"""Selection of items of a sequence: parts, windows side by side, warm-up. All callers round alike.

Items are whatever a load consists of, counted from 0 in their order. A *range* is the position of its first item and
that of the one after its last. Parts are given as shares of all items. Where one part ends with the share that
the next one begins with, they never hold the same item: `index_of_share` alone turns shares into positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from hdrl.base.errors import OptionsError, WorkloadError

Shares: TypeAlias = tuple[float, float]
"""Bounds of a part, as shares of all items from 0 to 1."""

Span: TypeAlias = tuple[int, int]
"""A range: the position of the first item, and of the one after the last."""

PARTS: Mapping[str, Shares] = MappingProxyType(
    {"all": (0.0, 1.0), "train": (0.0, 0.6), "validation": (0.6, 0.7), "test": (0.7, 1.0)}
)
"""The parts that have names: agents learn on ``train``, are chosen by ``validation`` and measured on ``test``."""


def index_of_share(share: float, n_items: int) -> int:
    """Return the number of items before a share of them, from 0 to 1."""
    return round(share * n_items)


def range_of_shares(shares: Shares, n_items: int, *, what: str, items: str) -> Span:
    """Return the range that two shares of all items amount to.

    Messages call the shares ``what`` and the items ``items`` (``"jobs of log"``).

    Raises
    ------
    OptionsError
        If these are no shares, or no item lies between them.
    """
    low, high = shares
    if not 0.0 <= low < high <= 1.0:
        raise OptionsError(f"{what} is [{low:g}, {high:g}], expected two fractions from 0 to 1, the smaller one first")
    first, last = index_of_share(low, n_items), index_of_share(high, n_items)
    if first == last:
        raise OptionsError(
            f"{what} is [{low:g}, {high:g}], which holds none of the {n_items:,} {items}, expected a wider range"
        )
    return first, last


def check_window(name: str, start: int, n_items: int, n_known: int, *, items: str = "jobs") -> None:
    """Check that a load has a window of some items after its first ones.

    Raises
    ------
    WorkloadError
        If it has not.
    """
    if n_items < 1:
        raise WorkloadError(f"{name}: a window has {n_items:,} {items}, expected at least 1")
    if start < 0 or start + n_items > n_known:
        raise WorkloadError(
            f"{name}: no window of {n_items:,} {items} after the first {start:,}: it has {n_known:,} {items}"
        )


def after_warm_up(positions: Span, warm_up: int) -> Span:
    """Return the part of a range that leaves room for warm-up items before its first one.

    Warm-up items may lie before the range.
    """
    return max(positions[0], warm_up), positions[1]


def n_side_by_side(positions: Span, length: int) -> int:
    """Return the number of windows that fit into a range without sharing an item."""
    return max(0, positions[1] - positions[0]) // length


def side_by_side(positions: Span, length: int, count: int | None = None) -> list[int]:
    """Return the starts of windows that share no item.

    ``count`` windows, at most `n_side_by_side`, are spread evenly over the range; by default all that fit follow one
    another.
    """
    first, last = positions
    if count is None:
        return [first + number * length for number in range(n_side_by_side(positions, length))]
    spare = last - first - count * length
    return [first + number * length + (number * spare) // max(1, count - 1) for number in range(count)]


def is_inside(window: Span, positions: Span) -> bool:
    """Return whether a window holds at least one item and lies in a range."""
    return positions[0] <= window[0] < window[1] <= positions[1]


def overlap(one: Span, other: Span) -> bool:
    """Return whether two ranges share an item."""
    return max(one[0], other[0]) < min(one[1], other[1])

"""The order in which a C++ hash table holds texts (libstdc++'s unordered_map on 64-bit machines)."""

from __future__ import annotations

from collections.abc import Iterable

_MASK = 2**64 - 1
_MULTIPLIER = 0xC6A4A7935BD1E995
_SEED = 0xC70F6907
_N_BUCKETS = (
    1,
    13,
    29,
    59,
    127,
    257,
    541,
    1109,
    2357,
    5087,
    10273,
    20753,
    42043,
    85229,
    172933,
    351061,
    712697,
    1447153,
)


def hash_order(texts: Iterable[str]) -> list[str]:
    """Return texts in the order of a table into which they were put one after the other."""
    buckets: dict[int, list[tuple[int, str]]] = {}
    size = 0
    for n, text in enumerate(texts, start=1):
        if (n > _N_BUCKETS[size] or size == 0) and size + 1 < len(_N_BUCKETS):
            size += 1
            buckets = _spread(_walk(buckets), _N_BUCKETS[size])
        number = _hash(text.encode())
        buckets.setdefault(number % _N_BUCKETS[size], []).append((number, text))
    return [text for _, text in _walk(buckets)]


def _walk(buckets: dict[int, list[tuple[int, str]]]) -> list[tuple[int, str]]:
    """Return all entries: the latest bucket comes first, and in it the latest entry."""
    return [entry for bucket in reversed(buckets.values()) for entry in reversed(bucket)]


def _spread(entries: Iterable[tuple[int, str]], n_buckets: int) -> dict[int, list[tuple[int, str]]]:
    buckets: dict[int, list[tuple[int, str]]] = {}
    for number, text in entries:
        buckets.setdefault(number % n_buckets, []).append((number, text))
    return buckets


def _hash(data: bytes) -> int:
    """Return MurmurHash64A of some bytes, as libstdc++ has it."""
    value = _SEED ^ (len(data) * _MULTIPLIER & _MASK)
    whole = len(data) & ~7
    for start in range(0, whole, 8):
        part = int.from_bytes(data[start : start + 8], "little") * _MULTIPLIER & _MASK
        part = (part ^ (part >> 47)) * _MULTIPLIER & _MASK
        value = (value ^ part) * _MULTIPLIER & _MASK
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ (value >> 47)) * _MULTIPLIER & _MASK
    return value ^ (value >> 47)

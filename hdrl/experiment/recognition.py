"""Items known again by what they are, whatever their dates: a sketch of those that a model was trained on.

A log that was cut, renamed, read with other memory or scaled to another offered load has another hash, but the same
jobs one after the other. So a model file keeps hashes of runs of `LENGTH` items that follow each other, those that are
smallest: of the same items under other names or dates, the same runs are among the smallest.

Source: A. Z. Broder, "On the resemblance and containment of documents", SEQUENCES 1997.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from hdrl.setting import Fingerprints, Load

ItemFingerprints = NDArray[np.int64]
"""Fingerprint of each item, as one number, in the order of release: equal items have equal fingerprints."""

Runs = NDArray[np.uint64]
"""Hashes of runs of items, each once, ascending."""

LENGTH = Fingerprints.run_length
"""Items of a run, unless environments say otherwise."""

FEWEST_KINDS = 4
"""Different marks of a run of several items at least: a user's equal jobs, sent together, look alike in all logs."""

SIZE = 2048
"""Hashes that are kept, 24 kB in a model file: of up to 50,000 jobs all windows of 256 are known again, of 116,000 jobs
(SDSC BLUE) 99 % and of 224,000 (RICC) 84 % of them."""

DIGITS = 12
"""Hexadecimal digits of a hash in a sketch: two of a million different runs agree once in some thousand sketches."""

KNOWN_SHARE = 0.1
"""Share of the runs of a window from which on it counts as known. By chance it is below 0.03 in each window of 256 jobs
of the second halves of nine public logs, for what was trained on the first one."""

_STEP, _MIX_1, _MIX_2 = (np.uint64(one) for one in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def sketch_of(fingerprints: ItemFingerprints, length: int = LENGTH) -> str:
    """Return the sketch of items.

    It is the `SIZE` smallest hashes of their runs, ascending, `DIGITS` hexadecimal digits each.
    """
    return "".join(f"{one:0{DIGITS}x}" for one in runs_of(fingerprints, length)[:SIZE].tolist())


def is_sketch(text: str) -> bool:
    """Return whether a text could be a sketch; an empty one holds no hashes."""
    return len(text) % DIGITS == 0 and set(text) <= set("0123456789abcdef")


def known_share(sketch: str, runs: Runs) -> float:
    """Return the share of the runs of items that a sketch holds, 0 to 1; of many items this is an estimate."""
    known = _read(sketch)
    if len(known) >= SIZE:  # larger ones were left out
        runs = runs[runs <= known.max()]
    return float(np.isin(runs, known).mean()) if len(runs) else 0.0


@functools.lru_cache(maxsize=64)
def _read(sketch: str) -> NDArray[np.uint64]:
    return np.array([int(sketch[at : at + DIGITS], 16) for at in range(0, len(sketch), DIGITS)], dtype=np.uint64)


def runs_of(fingerprints: ItemFingerprints, length: int = LENGTH) -> Runs:
    """Return the hashes of all different runs of some length that say something, ascending."""
    if len(fingerprints) < length:
        return np.zeros(0, dtype=np.uint64)
    runs = np.lib.stride_tricks.sliding_window_view(np.asarray(fingerprints, dtype=np.int64), length)
    n_kinds = 1 + np.count_nonzero(np.diff(np.sort(runs, axis=1), axis=1), axis=1)
    runs = runs[n_kinds >= min(FEWEST_KINDS, length)]
    found = np.zeros(len(runs), dtype=np.uint64)
    for column in runs.T:
        found = _mixed(found + _STEP + column.astype(np.uint64))
    return np.unique(found >> np.uint64(64 - 4 * DIGITS))


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers that look as if drawn (the finaliser of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * _MIX_1
    values = (values ^ (values >> np.uint64(27))) * _MIX_2
    return values ^ (values >> np.uint64(31))


def generator_seed(load: Load) -> int | None:
    """Return the seed by which a model made all of a load; ``None`` if that was read, whatever was drawn for it."""
    origin = load.origin
    return int(origin["seed"]) if {"model", "seed"} <= set(origin) and "file" not in origin else None

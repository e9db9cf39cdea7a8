"""Arrays as text inside a page: quantised, differences where that is shorter, compressed, base64.

The browser undoes it (``assets/data.js``) when a figure is looked at.
"""

from __future__ import annotations

import base64
import gzip
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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

"""Eigenvalues of symmetric matrices with the same bits on every processor, which LAPACK does not give.

The cyclic Jacobi method: G. Golub, C. Van Loan, "Matrix Computations", 4th edition, section 8.5. Each number is
computed by itself, and no sum depends on the width of vectors.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.cache import cache_folder
from hdrl.compiled.jit import entry_in

Floats = NDArray[np.float64]

MOST_SWEEPS = 60
"""Sweeps over all pairs; six to ten are enough unless a number is not finite."""

_entry = entry_in(
    cache_folder("hdrl-eigen", [Path(__file__)]), "compiling eigenvalues (the first time only, some seconds)"
)


def eigh(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the eigenvalues of a symmetric matrix, in no order, and the eigenvectors as rows."""
    turned, vectors = np.array(matrix, dtype=np.float64, order="C"), np.eye(len(matrix))
    _diagonalise(turned, vectors)
    return np.diagonal(turned).copy(), vectors


@_entry
def _diagonalise(a: Any, v: Any) -> None:
    """Turn a symmetric matrix until only its diagonal is left, and the rows of another one alike."""
    n = len(a)
    for _ in range(MOST_SWEEPS):
        is_diagonal = True
        for p in range(n - 1):
            for q in range(p + 1, n):
                off = a[p, q]
                # Where it changes no digit of either diagonal element, it is 0 for all purposes.
                if abs(a[p, p]) + abs(off) == abs(a[p, p]) and abs(a[q, q]) + abs(off) == abs(a[q, q]):
                    a[p, q] = a[q, p] = 0.0
                    continue
                is_diagonal = False
                theta = (a[q, q] - a[p, p]) / (2.0 * off)
                t = math.copysign(1.0, theta) / (abs(theta) + math.sqrt(theta * theta + 1.0))
                c = 1.0 / math.sqrt(t * t + 1.0)
                s = t * c
                first, second = a[p, p] - t * off, a[q, q] + t * off
                for k in range(n):  # rows, which lie in a piece; the columns are the same numbers
                    above, below = a[p, k], a[q, k]
                    a[p, k], a[q, k] = c * above - s * below, s * above + c * below
                    above, below = v[p, k], v[q, k]
                    v[p, k], v[q, k] = c * above - s * below, s * above + c * below
                for k in range(n):
                    a[k, p], a[k, q] = a[p, k], a[q, k]
                a[p, p], a[q, q] = first, second
                a[p, q] = a[q, p] = 0.0
        if is_diagonal:
            return

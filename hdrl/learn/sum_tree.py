"""A binary tree of sums: draws indices with probabilities proportional to their priorities, in logarithmic time.

Schaul et al., "Prioritized Experience Replay", ICLR 2016, appendix B.2.1. Every node is recomputed as the sum of its
two children, so that rounding errors do not accumulate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class SumTree:
    """Priorities of at least one slot, all 0 at first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._depth = max(size - 1, 0).bit_length()
        self._first_leaf = 1 << self._depth
        self._nodes: FloatArray = np.zeros(2 * self._first_leaf)

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._nodes[1])

    @property
    def priorities(self) -> FloatArray:
        """A view of all priorities, shape ``(size,)``."""
        return self._nodes[self._first_leaf : self._first_leaf + self.size]

    def set(self, slots: IntArray, priorities: FloatArray | float) -> None:
        """Set the priorities (not negative, finite) of some slots; the last one counts where a slot comes twice."""
        nodes = slots + self._first_leaf
        self._nodes[nodes] = priorities
        for _ in range(self._depth):
            nodes = nodes >> 1
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def find(self, sums: FloatArray) -> IntArray:
        """Return the slots in which cumulated priorities reach given sums, each at least 0 and below `total`.

        Uniform numbers give slots with probabilities proportional to their priorities; a slot of priority 0 never comes
        while another has more.
        """
        nodes: IntArray = np.ones(len(sums), dtype=np.int64)
        left_over = sums.astype(np.float64)
        for _ in range(self._depth):
            nodes = 2 * nodes
            left = self._nodes[nodes]
            # Rounding may leave a sum that no slot reaches: an empty right side is never entered.
            is_right = (left_over >= left) & (self._nodes[nodes + 1] > 0.0)
            left_over = left_over - np.where(is_right, left, 0.0)
            nodes = nodes + is_right
        return nodes - self._first_leaf

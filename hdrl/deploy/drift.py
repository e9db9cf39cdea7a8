"""The alarm: whether queue, predictions and results are still those that simulation promised.

What is watched is averaged over blocks of `BLOCK` jobs. The rank of a block among the blocks of the simulation gives a
two-sided conformal p-value; these feed a Shiryaev-Roberts procedure with the bets e p^(e-1), averaged over e. As long
as blocks are alike, it rings on average once in `BLOCKS_BETWEEN` blocks at most. Load that changes makes blocks unlike,
so that the alarm rings then, too, as it should: no promise was made about such a load.

References
----------
D. Volkhonskiy, E. Burnaev, I. Nouretdinov, A. Gammerman, V. Vovk, "Inductive conformal martingales for change-point
detection", COPA 2017.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

BLOCK = 50
BLOCKS_BETWEEN = 1000
LEAST_BLOCKS = 10
"""With fewer blocks of the simulation, nothing is said."""

_BETS = (0.1, 0.3, 0.5, 0.7, 0.9)
_LARGEST = 1e12

WATCHED = {
    "queue": "log(1 + jobs that wait) when a job comes",
    "predictions": "log(run time / predicted) of a job that ends",
    "results": "log(bounded slowdown) of a job that ends",
}
"""Watched quantities of each job."""


def block_means(values: Sequence[float]) -> list[float]:
    """Return the means of blocks of jobs; an incomplete last one is left out."""
    return [math.fsum(values[at : at + BLOCK]) / BLOCK for at in range(0, len(values) - BLOCK + 1, BLOCK)]


@dataclass(slots=True)
class DriftWatch:
    """Watches one thing.

    Attributes
    ----------
    promised
        Means of the blocks of the simulation, sorted.
    total, n
        Sum and number of the jobs of the block that is not complete.
    evidence
        The statistic of each bet.
    n_rung
        Number of alarms.
    """

    promised: Sequence[float]
    total: float = 0.0
    n: int = 0
    evidence: list[float] = field(default_factory=lambda: [0.0] * len(_BETS))
    n_rung: int = 0

    def add(self, value: float) -> str | None:
        """Take in a job; return where its block lies if it makes the alarm ring: ``"above"`` or ``"below"``."""
        if not math.isfinite(value) or len(self.promised) < LEAST_BLOCKS:
            return None
        self.total += value
        self.n += 1
        if self.n < BLOCK:
            return None
        mean, self.total, self.n = self.total / BLOCK, 0.0, 0
        return self._block(mean)

    def _block(self, mean: float) -> str | None:
        n = len(self.promised)
        n_above = n - bisect.bisect_left(self.promised, mean)
        n_below = bisect.bisect_right(self.promised, mean)
        p = min(1.0, 2.0 * (1 + min(n_above, n_below)) / (n + 1))
        self.evidence = [
            min(_LARGEST, (1.0 + before) * bet * p ** (bet - 1.0))
            for before, bet in zip(self.evidence, _BETS, strict=True)
        ]
        if sum(self.evidence) / len(_BETS) < BLOCKS_BETWEEN:
            return None
        self.evidence = [0.0] * len(_BETS)
        self.n_rung += 1
        return "above" if n_above < n_below else "below"

    def as_json(self) -> dict[str, Any]:
        """Return its state."""
        return {"total": self.total, "n": self.n, "evidence": self.evidence, "n_rung": self.n_rung}


def watch_of(promised: Sequence[float], state: Mapping[str, Any] | None = None) -> DriftWatch:
    """Return a watch, where `DriftWatch.as_json` left it."""
    watch = DriftWatch(sorted(promised))
    if state is not None:
        watch.total, watch.n, watch.n_rung = float(state["total"]), int(state["n"]), int(state["n_rung"])
        watch.evidence = [float(one) for one in state["evidence"]]
        if len(watch.evidence) != len(_BETS):
            raise ValueError("evidence")
    return watch


def rings(first: Sequence[float], then: Sequence[float]) -> bool:
    """Tell whether the alarm rings on some jobs if others have made the promise."""
    watch = watch_of(block_means(first))
    return any(watch.add(value) is not None for value in then)

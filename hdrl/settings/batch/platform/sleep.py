"""Sleep states: what hosts can be switched to, and what that makes of their P-states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

COMPUTES, SLEEPS, FALLS_ASLEEP, WAKES = range(4)
USES = (COMPUTES, SLEEPS, FALLS_ASLEEP, WAKES)
"""Uses of a P-state: a host that is on, one that sleeps, one on its way to that, and one on its way back."""


class SleepState(NamedTuple):
    """Sleep state of a node: the P-state of its hosts there, on the way to it, and on the way back."""

    off: int
    down: int
    up: int

    @property
    def ways(self) -> tuple[int, int]:
        """The P-states of the ways to it and back, which take as long as one flop."""
        return self.down, self.up


def _is_number(text: str) -> bool:
    return text.strip().isdecimal() and len(text.strip()) < 10


def read_states(text: str) -> tuple[SleepState, ...]:
    """Return the sleep states of a host, in the order of its ``sleep_pstates``.

    ``text``: for instance ``"4:5:6, 7:8:9"``. A P-state that has two parts, asleep and on a way, or on a way to and
    from, makes that there are none, and so does what cannot be read.
    """
    parts = [part.split(":") for part in text.split(",")]
    if not all(len(part) == len(SleepState._fields) and all(map(_is_number, part)) for part in parts):
        return ()
    states = tuple(SleepState(*map(int, part)) for part in parts)
    off, down, up = ({state[k] for state in states} for k in range(len(SleepState._fields)))
    return states if len(off) == len(states) and len(off | down | up) == len(off) + len(down) + len(up) else ()


def uses_of(states: tuple[SleepState, ...], n_pstates: int) -> NDArray[np.int8]:
    """Return the use of each P-state of a host, one of `USES`, shape ``(n_pstates,)``."""
    uses = np.full(n_pstates, COMPUTES, dtype=np.int8)
    for state in states:
        uses[list(state)] = SLEEPS, FALLS_ASLEEP, WAKES
    return uses

"""Requests of a scheduler: Batsim's, as small immutable values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Start:
    """Start a waiting job.

    Attributes
    ----------
    job
        Index of the job.
    cores
        Ids of the cores it gets, as many as it asks for, all free, with memory for it.
    """

    job: int
    cores: Sequence[int]


@dataclass(frozen=True, slots=True)
class Reject:
    """Turn a waiting job away for good."""

    job: int


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill running jobs; one that ends by itself meanwhile is left alone."""

    jobs: Sequence[int]


@dataclass(frozen=True, slots=True)
class SetPState:
    """Give cores another P-state.

    The heterogeneity layer asks for P-states by itself; asking for others is for platforms without it. Where nodes can
    be switched off, a P-state in which they sleep, and others for cores that sleep, switch all nodes that they make up
    by one request: `News.NODE_SWITCHED` tells the first of them when all are there. Of the cores that are given another
    P-state some may be on, which have it at once, and others asleep.
    """

    cores: Sequence[int]
    pstate: int


@dataclass(frozen=True, slots=True)
class SwitchOff:
    """Shut nodes down that are on and run no job; `View.node_status` tells what became of them.

    Attributes
    ----------
    nodes
        Numbers of the nodes.
    sleep_state
        To which of its sleep states each goes: a position in `Platform.sleep_states_of_node`.
    """

    nodes: Sequence[int]
    sleep_state: int = 0


@dataclass(frozen=True, slots=True)
class SwitchOn:
    """Boot nodes that are off.

    Attributes
    ----------
    nodes
        Numbers of the nodes.
    """

    nodes: Sequence[int]


@dataclass(frozen=True, slots=True)
class CallAt:
    """Request another decision at a date in the future, whatever happens."""

    time_s: float


@dataclass(frozen=True, slots=True)
class Annotate:
    """Attach a text to a job, for the last column of out_jobs.csv; a later one replaces it."""

    job: int
    text: str


@dataclass(frozen=True, slots=True)
class AskEnergy:
    """Ask for the energy consumed so far; the answer comes as news."""


@dataclass(frozen=True, slots=True)
class At:
    """Carry out a decision at a later date than now; what follows it in the same answer waits as well.

    Attributes
    ----------
    time_s
        The date in seconds.
    decision
        Decision to carry out then.
    """

    time_s: float
    decision: Start | Reject | Kill | SetPState | SwitchOff | SwitchOn | CallAt | Annotate | AskEnergy


Decision: TypeAlias = Start | Reject | Kill | SetPState | SwitchOff | SwitchOn | CallAt | Annotate | AskEnergy | At

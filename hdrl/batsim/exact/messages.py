"""Internal messages of Batsim's actors to its server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hdrl.batsim.exact.jobs import ExactJob, ExactTask
from hdrl.batsim.exact.protocol import SchedulerRequest


@dataclass(slots=True, eq=False, repr=False)
class Hello:
    """A submitter has started."""


@dataclass(slots=True, eq=False, repr=False)
class Submitted:
    """Jobs have been submitted."""

    jobs: list[ExactJob]


@dataclass(slots=True, eq=False, repr=False)
class ExternalEvents:
    """Events of an events file have happened."""

    events: list[Mapping[str, Any]]


@dataclass(slots=True, eq=False, repr=False)
class Goodbye:
    """A submitter of jobs, or of external events, has nothing more to submit."""

    of_jobs: bool


@dataclass(slots=True, eq=False, repr=False)
class RequestArrived:
    """A request of the scheduler has come."""

    request: SchedulerRequest


@dataclass(slots=True, eq=False, repr=False)
class Registered:
    """The scheduler has registered a job."""

    job: ExactJob


@dataclass(slots=True, eq=False, repr=False)
class Ready:
    """The scheduler's reply has been applied."""


@dataclass(slots=True, eq=False, repr=False)
class Completed:
    """A job has ended."""

    job: ExactJob


@dataclass(slots=True, eq=False, repr=False)
class Killed:
    """Kills have been carried out: the requested jobs, and what those that were running were doing."""

    jobs: list[ExactJob]
    tasks: list[tuple[ExactJob, ExactTask]] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Called:
    """A date that the scheduler wanted to be called at has come."""


@dataclass(slots=True, eq=False, repr=False)
class Switched:
    """A machine has gone to, or come back from, a sleep state."""

    machine_id: int
    pstate: int


@dataclass(slots=True, eq=False, repr=False)
class FromJob:
    """A job has a message (any JSON value) for the scheduler."""

    job: ExactJob
    message: Any


Message = (
    Hello
    | Submitted
    | ExternalEvents
    | Goodbye
    | RequestArrived
    | Registered
    | Ready
    | Completed
    | Killed
    | Called
    | Switched
    | FromJob
)

"""Public names of Batsim without Batsim: the exact engine, and a handler of its simulations as in batsim-py."""

from hdrl.batsim.exact import BatsimOptions, ExactBatsim, Result, Scheduler
from hdrl.batsim.handled import (
    Host,
    HostEvent,
    HostState,
    Job,
    JobEvent,
    JobState,
    Reservation,
    SimulatorEvent,
)
from hdrl.batsim.handler import SimulatorHandler

__all__ = [
    "BatsimOptions",
    "ExactBatsim",
    "Host",
    "HostEvent",
    "HostState",
    "Job",
    "JobEvent",
    "JobState",
    "Reservation",
    "Result",
    "Scheduler",
    "SimulatorEvent",
    "SimulatorHandler",
]

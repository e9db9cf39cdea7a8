"""One call from a platform, a workload and a scheduler of PyBatsim to a Trace."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hdrl.base.errors import UnknownName
from hdrl.batsim.embedded_server import EmbeddedServer, ProtocolServer
from hdrl.batsim.exact.context import Scheduler
from hdrl.batsim.pybatsim.host import HostedScheduler
from hdrl.batsim.simulators import ExactSimulator
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.workload.model import Workload

SIMULATORS = ("embedded", "exact")
"""Names of the simulators that PyBatsim's schedulers run on."""


def run_scheduler(
    scheduler: str | Path,
    platform: Platform,
    workload: Workload,
    *,
    simulator: str = "embedded",
    options: Mapping[str, Any] | None = None,
    energy: bool = True,
    platform_file: Path | None = None,
) -> BatchTrace:
    """Simulate a workload on a platform under a scheduler of PyBatsim, in this process.

    Parameters
    ----------
    scheduler
        The name of a scheduler that PyBatsim brings, or the path of a Python file with one.
    platform, workload
        Machine and jobs. Memory is accounted for, which PyBatsim's own schedulers know nothing of.
    platform_file
        SimGrid file of the platform; the exact simulator needs it if hdrl did not describe the platform itself.

    Raises
    ------
    MissingPyBatsim
        If PyBatsim is not installed.
    UnknownName, ReadError
        If there is no such scheduler, simulator or file.
    BatsimError
        If the scheduler fails, or a request of it is not supported.
    DecisionError
        If the simulated cluster cannot do what it requests.
    SimulationError
        If the platform or the workload has what the simulator does not know, or the scheduler lets jobs wait forever.
    """
    if simulator not in SIMULATORS:
        raise UnknownName("simulator", simulator, SIMULATORS)
    began_s = time.perf_counter()
    with contextlib.ExitStack() as stack:
        hosted = stack.enter_context(HostedScheduler(scheduler, options))
        timed = _Timed(hosted)
        if simulator == "exact":
            exact = ExactSimulator(platform, workload, energy=energy, platform_file=platform_file)
            server = ProtocolServer(stack.enter_context(exact), energy=energy)
        else:
            server = EmbeddedServer(platform, workload, energy=energy)
        trace = server.run(timed)
    trace.info.update(
        policy=f"pybatsim {hosted.name}",
        scheduling_time_s=timed.spent_s,
        simulation_time_s=time.perf_counter() - began_s,
    )
    return trace


class _Timed:
    """A scheduler with a stop-watch."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.spent_s = 0.0
        self._scheduler = scheduler

    def exchange(self, message: str) -> str:
        """Answer a message, and add up the wall-clock time that it takes."""
        began_s = time.perf_counter()
        reply = self._scheduler.exchange(message)
        self.spent_s += time.perf_counter() - began_s
        return reply

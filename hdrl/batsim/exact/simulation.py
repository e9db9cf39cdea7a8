"""A whole simulation: read the files, run all actors, write the files."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdrl.base.errors import BatsimError
from hdrl.batsim.exact.context import BatsimOptions, ExactContext, Scheduler
from hdrl.batsim.exact.jobs import ExactWorkload, read_workload
from hdrl.batsim.exact.machines import BatsimMachine
from hdrl.batsim.exact.outputs import Outputs
from hdrl.batsim.exact.server import Server
from hdrl.batsim.exact.submission import read_events, submit_events, submit_jobs
from hdrl.settings.batch.simgrid.file import SimGridPlatform


@dataclass(slots=True, eq=False, repr=False)
class Result:
    """Result of a simulation.

    Attributes
    ----------
    outputs
        The lines of the output files.
    schedule
        Columns and values of the schedule file.
    end_s
        The date of the end.
    deadlocked
        True if the simulation got stuck: jobs wait that the scheduler has not started, or registration of
        dynamic jobs was left open. Batsim then writes its files and exits with code 0, without SIMULATION_ENDS.
    waiting
        Full ids of the jobs that have not ended.
    trace, hosts
        The trace of the schedule and the text of the table of hosts, if they are kept.
    """

    outputs: Outputs
    schedule: dict[str, str]
    end_s: float
    deadlocked: bool
    waiting: list[str]
    trace: str | None = None
    hosts: str | None = None

    def deadlock(self) -> str:
        """Say why the simulation got stuck."""
        what = "registration of dynamic jobs was never finished"
        if self.waiting:
            shown = ", ".join(self.waiting[:5]) + (", ..." if len(self.waiting) > 5 else "")
            what = f"{len(self.waiting)} jobs never ended ({shown})"
        return (
            f"deadlock at {self.end_s:f}: nothing is left to happen but {what}; "
            "Batsim would write its files, exit with code 0, and leave the scheduler waiting"
        )


class ExactBatsim:
    """A simulation as Batsim 4.2.1 does it.

    Raises
    ------
    ReadError, PlatformError, WorkloadError
        If a file is wrong, or needs what is not simulated.
    """

    def __init__(self, options: BatsimOptions) -> None:
        self.options = options
        platform = SimGridPlatform(options.platform)
        workloads = [read_workload(path, f"w{k}") for k, path in enumerate(options.workloads)]
        self.context = ExactContext(options, platform, workloads)
        self._events = [
            read_events(path, n_machines=len(self.context.machines), forward_unknown=options.forward_unknown_events)
            for path in options.events
        ]

    def begins(self) -> dict[str, Any]:
        """Return the data of SIMULATION_BEGINS."""
        options, machines = self.options, self.context.machines
        workloads = self.context.workloads
        return {
            "nb_resources": len(machines),
            "nb_compute_resources": machines.n_compute,
            "nb_storage_resources": len(machines.storage),
            "allow_compute_sharing": options.compute_sharing,
            "allow_storage_sharing": options.storage_sharing,
            "config": {
                "redis-enabled": False,
                "redis-hostname": "127.0.0.1",
                "redis-port": 6379,
                "redis-prefix": "default",
                "profiles-forwarded-on-submission": options.forward_profiles,
                "dynamic-jobs-enabled": options.dynamic_jobs,
                "dynamic-jobs-acknowledged": options.acknowledge_dynamic_jobs,
                "profile-reuse-enabled": options.profile_reuse,
                "sched-config": options.scheduler_config,
                "forward-unknown-events": options.forward_unknown_events,
            },
            "compute_resources": [self._described(machine) for machine in machines.all[: machines.n_compute]],
            "storage_resources": [self._described(machine) for machine in machines.storage],
            "workloads": {name: str(_absolute(workload)) for name, workload in workloads.items()},
            "profiles": {name: workload.described_profiles() for name, workload in workloads.items()},
        }

    def run(self, scheduler: Scheduler) -> Result:
        """Simulate; raise BatsimError at a request that Batsim would refuse by stopping."""
        began_s = time.perf_counter()
        context = self.context
        server = Server(context, scheduler, len(self._events))
        for workload in list(context.workloads.values()):
            context.kernel.spawn(submit_jobs(context, workload), context.master)
        for events in self._events:
            context.kernel.spawn(submit_events(context, events), context.master)
        if self.options.energy:
            self._note_first_pstates()
        context.kernel.spawn(server.run(self.begins()), context.master)
        try:
            context.kernel.run()
        except RecursionError:
            raise BatsimError("a job, a profile or a reply is nested too deeply") from None
        ledger = context.ledger
        waiting = [job.id for workload in context.workloads.values() for job in workload.jobs.values()]
        return Result(
            outputs=context.outputs,
            schedule=context.outputs.schedule_columns(
                context.machines, server.scheduling_s, time.perf_counter() - began_s
            ),
            end_s=context.now_s,
            deadlocked=not server.finished,
            waiting=[] if server.finished else waiting,
            trace=None if context.trace is None else context.trace.text(context.now_s),
            hosts=None if ledger is None else ledger.text(context.now_s),
        )

    def _described(self, machine: BatsimMachine) -> dict[str, Any]:
        spec = machine.cpu.spec
        role = self.context.machines.roles[spec.name]
        return {
            "id": machine.id,
            "name": spec.name,
            "state": "idle",
            "properties": {**spec.properties, "role": role},
            "zone_properties": spec.zone_properties,
        }

    def _note_first_pstates(self) -> None:
        by_pstate: dict[int, list[int]] = {}
        for machine in self.context.machines.all:
            by_pstate.setdefault(machine.cpu.pstate, []).append(machine.id)
        for pstate in sorted(by_pstate):
            self.context.outputs.add_pstate_change(0.0, by_pstate[pstate], pstate)


def _absolute(workload: ExactWorkload) -> Path:
    return (workload.path or Path()).absolute()

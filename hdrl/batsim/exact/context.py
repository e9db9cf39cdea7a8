"""State that all actors of a simulation share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hdrl.base.arguments import convert_paths
from hdrl.base.errors import BatsimError, suggest
from hdrl.batsim.exact.activities import Mailbox
from hdrl.batsim.exact.actors import ActorKernel, Do, MachineUpdate, Steps
from hdrl.batsim.exact.energy import EnergyMeter
from hdrl.batsim.exact.engine import Engine
from hdrl.batsim.exact.extended import Extended
from hdrl.batsim.exact.jobs import ExactJob, ExactWorkload
from hdrl.batsim.exact.machines import Machines
from hdrl.batsim.exact.outputs import Outputs
from hdrl.batsim.exact.sharing import SharedNetwork
from hdrl.settings.batch.simgrid.file import SimGridPlatform
from hdrl.settings.batch.simulation.paje import ScheduleTrace

if TYPE_CHECKING:
    from hdrl.batsim.exact.flows import Cpu
    from hdrl.batsim.exact.hosts import HostLedger


class Scheduler(Protocol):
    """The scheduler: it gets the text of each message and answers with the text of a reply."""

    def exchange(self, message: str) -> str:
        """Answer a message of Batsim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatsimOptions:
    """Options of Batsim's command line that change the simulation.

    Attributes
    ----------
    platform
        SimGrid XML file.
    workloads
        Batsim JSON files, in order: they are called ``w0``, ``w1``, ...
    events
        Files of external events, one JSON object per line.
    master_host
        The host that Batsim itself runs on.
    roles
        Roles of hosts, beyond those in the platform file: compute_node, storage or master.
    energy
        True if energy is measured (``-E``).
    compute_sharing, storage_sharing
        True if several jobs may use one machine at a time.
    dynamic_jobs, acknowledge_dynamic_jobs, profile_reuse
        True if the scheduler may register jobs; whether it gets their submissions as events; whether profiles
        outlive the first job that completes with them.
    forward_profiles, forward_unknown_events
        True if profiles come with each submission; whether events of unknown types are passed on.
    scheduler_config
        A text for the scheduler.
    max_machines
        The largest number of compute machines; 0 for no limit.
    max_machines_of_workload
        True if ``nb_res`` of the workloads is such a limit.
    schedule_trace, host_table
        True if a trace of the schedule is kept, and a table of what each machine did.
    """

    platform: Path
    workloads: tuple[Path, ...] = ()
    events: tuple[Path, ...] = ()
    master_host: str = "master_host"
    roles: dict[str, str] = field(default_factory=dict)
    energy: bool = False
    compute_sharing: bool = False
    storage_sharing: bool = True
    dynamic_jobs: bool = False
    acknowledge_dynamic_jobs: bool = False
    profile_reuse: bool = False
    forward_profiles: bool = False
    forward_unknown_events: bool = False
    scheduler_config: str = ""
    max_machines: int = 0
    max_machines_of_workload: bool = False
    schedule_trace: bool = False
    host_table: bool = False

    def __post_init__(self) -> None:
        convert_paths(self, ("platform",), ("workloads", "events"))


class ExactContext:
    """The state of a simulation.

    Attributes
    ----------
    workloads
        All workloads by name, those made by the scheduler included.
    machines, meter, outputs, kernel
        The parts.
    trace
        The trace of the schedule, if one is kept.
    server
        The mailbox of the server.
    master
        The host that Batsim itself runs on.
    n_polling
        Number of jobs without a walltime that poll for a message of the scheduler.
    """

    def __init__(self, options: BatsimOptions, platform: SimGridPlatform, workloads: Sequence[ExactWorkload]) -> None:
        self.options = options
        self.workloads = {workload.name: workload for workload in workloads}
        network = SharedNetwork(platform)
        limit = options.max_machines
        if options.max_machines_of_workload:
            wanted = max((workload.n_machines for workload in workloads), default=0)
            limit = min(limit, wanted) if limit and wanted else limit or wanted
        self.machines = Machines(
            platform,
            network,
            master=options.master_host,
            energy=options.energy,
            limit=limit,
            roles=options.roles,
        )
        self.meter = EnergyMeter([machine.cpu for machine in self.machines.all], on=options.energy)
        self.ledger: HostLedger | None = None
        if options.host_table:
            from hdrl.batsim.exact.hosts import HostLedger

            self.machines.watcher = self.ledger = HostLedger(self.machines.all, self.meter)
        self.outputs = Outputs(energy=options.energy)
        names = [machine.name for machine in self.machines.all]
        self.trace = ScheduleTrace(names) if options.schedule_trace else None
        self.network = network
        self._engine = Engine(network, self.meter)
        self.kernel = ActorKernel(self._engine)
        self.master = self.machines.master
        self.server = Mailbox(self.kernel)
        self.n_polling = 0

    @property
    def now_s(self) -> float:
        """The date, in seconds."""
        return self._engine.now_s

    def job(self, job_id: str, where: str) -> ExactJob:
        """Return a job by its full id; raise `BatsimError` if Batsim does not know it (any more)."""
        parts = job_id.split("!")
        workload = self.workloads.get(parts[0])
        if len(parts) != 2 or workload is None:
            raise BatsimError(f"{where}: {job_id!r} is not a job id; workloads: {', '.join(self.workloads) or 'none'}")
        job = workload.jobs.get(job_id)
        if job is None:
            if workload.has_met(job_id):
                raise BatsimError(
                    f"{where}: job {job_id!r} does not exist any more: the scheduler has its completion "
                    "(Batsim would stop here: 'Cannot get job')"
                )
            raise BatsimError(f"{where}: no job {job_id!r}; {suggest(job_id, workload.jobs)}")
        return job

    def only_polls(self) -> bool:
        """Return whether nothing is going on but jobs that poll without end."""
        return self.kernel.engine.n_actions + self.kernel.n_running == self.n_polling

    def read_energy(self, machines: Sequence[int] | None = None) -> Steps[Extended]:
        """Return the energy of machines (of all, if ``None``); each one that is out of date takes a round."""
        meter, kernel, now_s = self.meter, self.kernel, self._engine.now_s
        while True:
            # where no other actor can run before this is over: all rounds at once. A reader of the energy of some
            # machines reads that of all at once.
            if kernel.all_sweeping if machines is None else kernel.n_running == 1:
                meter.update_all(now_s)
                return meter.sum_j(machines)
            machine = meter.first_outdated(machines, now_s)
            if machine < 0:
                return meter.sum_j(machines)
            yield MachineUpdate(machine, of_all=machines is None)

    def note_energy(self, event: str) -> Steps[Extended]:
        """Write a line of the energy file; return the energy of all machines."""
        total_j = yield from self.read_energy()
        self.outputs.add_energy(self.now_s, total_j, event, self.meter.epsilon_w())
        return total_j

    def note_machine_states(self) -> None:
        """Write a line of the machine states file."""
        self.outputs.add_machine_states(self.now_s, self.machines.counts)

    def set_pstate(self, cpu: Cpu, pstate: int) -> Do:
        """Return the call that changes the P-state of a machine, at the end of the round."""

        def change() -> None:
            self.network.set_pstate(cpu, pstate)
            self.meter.pstate_changes(cpu.machine, self.now_s)
            if self.ledger is not None:
                self.ledger.reach(self.machines[cpu.machine])

        return Do(change)

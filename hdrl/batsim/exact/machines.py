"""Batsim's machines: their states, their sleep states, and requests to change P-states."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from hdrl.base.errors import PlatformError
from hdrl.batsim.exact.extended import EXTENDED_BITS, rounded
from hdrl.batsim.exact.flows import Cpu
from hdrl.batsim.exact.sharing import SharedNetwork
from hdrl.settings.batch.simgrid.file import HostSpec, SimGridPlatform

if TYPE_CHECKING:
    from hdrl.batsim.exact.jobs import ExactJob

STATES = ("sleeping", "switching_on", "switching_off", "idle", "computing", "unavailable")
"""States of a machine; the first five are columns of the machine states file, in this order."""

COMPUTATION, SLEEP, VIRTUAL = "computation", "sleep", "virtual"
"""Kinds of P-states; a virtual one is that of a machine on its way to or from a sleep state."""

_DOUBLE_BITS = 53

_ROLES = {"": "compute", "compute_node": "compute", "storage": "storage", "master": "master"}


class BatsimMachine:
    """A host that Batsim runs jobs on, or keeps data on.

    Parameters
    ----------
    sleep_pstates
        For each sleep P-state, those of the ways to it and back from it.

    Attributes
    ----------
    since, spent
        Date of the last change of its state, and its time in each state; `Machines` has the unit.
    """

    def __init__(
        self, machine_id: int, cpu: Cpu, *, is_storage: bool, sleep_pstates: dict[int, tuple[int, int]]
    ) -> None:
        self.id = machine_id
        self.cpu = cpu
        cpu.machine = machine_id
        self.is_storage = is_storage
        self.state = "idle"
        self.jobs: list[ExactJob] = []
        self.sleep_pstates = sleep_pstates
        self.since = 0
        self.spent = dict.fromkeys(STATES, 0)
        virtual = {pstate for pair in sleep_pstates.values() for pstate in pair}
        self.kinds = [
            SLEEP if pstate in sleep_pstates else VIRTUAL if pstate in virtual else COMPUTATION
            for pstate in range(len(cpu.spec.speeds_flops))
        ]

    @property
    def name(self) -> str:
        """The name of the host."""
        return self.cpu.spec.name

    @property
    def kind(self) -> str:
        """The kind of its present P-state."""
        return self.kinds[self.cpu.pstate]


class MachineWatcher(Protocol):
    """Observer of the states of machines."""

    def leave(self, machine: BatsimMachine, now_s: float) -> None:
        """Note that a machine is about to leave its state."""


@dataclass(slots=True, eq=False, repr=False)
class Switch:
    """A request to change the P-state of machines that is not finished yet."""

    machines: list[int]
    pstate: int
    waiting: set[int] = field(default_factory=set)


class Machines:
    """All machines, compute hosts first, in the order of their ids.

    Parameters
    ----------
    master
        The name of the host that Batsim itself runs on; it is no machine.
    energy
        True if sleep states are read and powers needed.
    limit
        The largest number of compute machines, 0 for no limit: the first ones are kept.
    roles
        Roles given on the command line, by host; others are in the platform file.
    """

    def __init__(
        self,
        platform: SimGridPlatform,
        network: SharedNetwork,
        *,
        master: str,
        energy: bool,
        limit: int = 0,
        roles: dict[str, str] | None = None,
    ) -> None:
        self.platform = platform
        given = dict(roles or {})
        for name in given:
            platform.host_named(name)
        self.roles = {host.name: given.get(host.name, host.properties.get("role", "")) for host in platform.hosts}
        if master not in self.roles:
            # a host may also say by its role that it is the one
            master = next((name for name, role in self.roles.items() if role == "master"), master)
        self.master = network.cpus[platform.host_named(master).index]
        compute: list[HostSpec] = []
        storage: list[HostSpec] = []
        # ids follow the names as text: h10 comes before h2
        for host in sorted(platform.hosts, key=lambda host: host.name):
            role = self._role(host)
            if host.name != master and role != "master":
                (storage if role == "storage" else compute).append(host)
        if limit > 0:
            compute = compute[:limit]
        self.n_compute = len(compute)
        self.all = [
            BatsimMachine(
                k,
                network.cpus[host.index],
                is_storage=k >= len(compute),
                sleep_pstates=self._sleep_pstates(host) if energy else {},
            )
            for k, host in enumerate(compute + storage)
        ]
        if energy:
            self._check_power()
        self.counts = dict.fromkeys(STATES, 0)
        self.counts["idle"] = len(compute)
        self.switches: list[Switch] = []
        self.n_grouped_switches = 0
        self.n_machine_switches = 0
        self.watcher: MachineWatcher | None = None
        """Observer of the states of machines, if there is one."""
        self._units_per_s = 0  # of dates in `BatsimMachine`

    def __len__(self) -> int:
        """Return the number of machines, storage hosts included."""
        return len(self.all)

    def __getitem__(self, machine_id: int) -> BatsimMachine:
        """Return a machine by its id."""
        return self.all[machine_id]

    @property
    def storage(self) -> list[BatsimMachine]:
        """The storage hosts."""
        return self.all[self.n_compute :]

    def set_state(self, machines: Iterable[BatsimMachine], state: str, now_s: float) -> None:
        """Change the state of some machines."""
        counts, watcher, now = self.counts, self.watcher, self._in_units(now_s)
        since, stay = now, 0
        for machine in machines:
            if watcher is not None:
                watcher.leave(machine, now_s)
            before = machine.state
            if machine.since != since:
                since = machine.since
                # in 80 bits, as the sum is: the difference of two doubles may need them
                stay = rounded(now - since)
            spent = machine.spent[before] + stay
            machine.spent[before] = spent if spent.bit_length() <= EXTENDED_BITS else rounded(spent)
            counts[before] -= 1
            counts[state] += 1
            machine.state = state
            machine.since = now

    def _in_units(self, now_s: float) -> int:
        """Return a date as a whole number of units: all later ones are multiples of what the first needs."""
        if not self._units_per_s and now_s > 0:
            self._units_per_s = 1 << max(0, _DOUBLE_BITS - math.frexp(now_s)[1])
        numerator, denominator = now_s.as_integer_ratio()
        return numerator * (self._units_per_s // denominator)

    def begin_job(self, job: ExactJob, now_s: float) -> None:
        """Note that a job has started on its machines."""
        machines = [self.all[machine_id] for machine_id in job.allocation]
        self.set_state(machines, "computing", now_s)
        for machine in machines:
            machine.jobs.append(job)

    def end_job(self, job: ExactJob, now_s: float) -> None:
        """Note that a job has left its machines; unavailable ones stay so."""
        free = []
        for machine_id in job.allocation:
            machine = self.all[machine_id]
            machine.jobs.remove(job)
            if not machine.jobs and machine.state != "unavailable":
                free.append(machine)
        self.set_state(free, "idle", now_s)

    def request_switch(self, machines: list[int], pstate: int) -> None:
        """Note a request to change P-states."""
        self.switches.append(Switch(machines, pstate, set(machines)))
        self.n_grouped_switches += 1
        self.n_machine_switches += len(machines)

    def finish_switch(self, machine_id: int, pstate: int) -> list[int] | None:
        """Note that a machine has reached a P-state; return the machines of the request if it was the last one."""
        for switch in self.switches:
            if switch.pstate == pstate and machine_id in switch.waiting:
                switch.waiting.discard(machine_id)
                if switch.waiting:
                    return None
                self.switches.remove(switch)
                return switch.machines
        return None

    def time_in_states_s(self) -> dict[str, float]:
        """Return the seconds that all machines spent in each state, until the last change of each machine."""
        total = dict.fromkeys(STATES, 0)
        for machine in self.all:
            for state in STATES:
                total[state] = rounded(total[state] + machine.spent[state])
        return {state: spent / (self._units_per_s or 1) for state, spent in total.items()}

    def _role(self, host: HostSpec) -> str:
        role = self.roles[host.name]
        if role not in _ROLES:
            raise PlatformError(
                f"{self.platform.path}: host {host.name!r} has role {role!r}, expected one of "
                "compute_node, storage, master"
            )
        return _ROLES[role]

    def _sleep_pstates(self, host: HostSpec) -> dict[int, tuple[int, int]]:
        result = {}
        n = len(host.speeds_flops)
        for part in host.properties.get("sleep_pstates", "").split(","):
            if not part.strip():
                continue
            numbers = [int(text) for text in part.split(":") if text.strip().isdecimal() and len(text) < 9]
            if len(numbers) != 3 or part.count(":") != 2 or len(set(numbers)) != 3 or max(numbers) >= n:
                raise PlatformError(
                    f"{self.platform.path}: host {host.name!r}: sleep_pstates {part.strip()!r}, expected "
                    f"three different P-states below {n}, sleep:to_sleep:from_sleep"
                )
            result[numbers[0]] = (numbers[1], numbers[2])
        return result

    def _check_power(self) -> None:
        for machine in self.all:
            if machine.cpu.spec.watts is None:
                renamed = "watt_per_state" in machine.cpu.spec.properties
                raise PlatformError(
                    f"{self.platform.path}: host {machine.name!r} has no property wattage_per_state, "
                    "which energy (-E) needs"
                    + ("; rename watt_per_state: SimGrid ignores this old name" if renamed else "")
                )
            if len(machine.cpu.spec.watts) != len(machine.kinds):
                raise PlatformError(
                    f"{self.platform.path}: host {machine.name!r}: wattage_per_state has "
                    f"{len(machine.cpu.spec.watts)} P-states, speed has {len(machine.kinds)}, "
                    "and energy (-E) needs as many"
                )

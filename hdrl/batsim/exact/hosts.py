"""Times of each machine in each state, noted when its state changes; nothing else is touched by it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.batsim.exact.energy import EnergyMeter
from hdrl.batsim.exact.machines import STATES, VIRTUAL, BatsimMachine
from hdrl.settings.batch.simulation.hosts import WASTING_STATES, format_hosts


class HostLedger:
    """Seconds and joules of each machine by state, and its switches."""

    def __init__(self, machines: list[BatsimMachine], meter: EnergyMeter) -> None:
        self._machines = machines
        self._meter = meter
        n = len(machines)
        self._since_s = np.zeros(n)
        self._noted_j = np.zeros(n)
        self._spent_s = {state: np.zeros(n) for state in STATES}
        self._drawn_j = {state: np.zeros(n) for state in STATES}
        self._pstate = [machine.cpu.pstate for machine in machines]
        self._n_switches = np.zeros(n, dtype=np.int64)

    def leave(self, machine: BatsimMachine, now_s: float) -> None:
        """Note that a machine is about to leave its state."""
        k = machine.id
        total_j = self._meter.peek_j(k, now_s)
        self._spent_s[machine.state][k] += now_s - self._since_s[k]
        self._drawn_j[machine.state][k] += total_j - self._noted_j[k]
        self._since_s[k], self._noted_j[k] = now_s, total_j

    def reach(self, machine: BatsimMachine) -> None:
        """Note that a machine has a P-state; those of the ways to sleep and back are no aims."""
        pstate = machine.cpu.pstate
        if machine.kind != VIRTUAL and pstate != self._pstate[machine.id]:
            self._pstate[machine.id] = pstate
            self._n_switches[machine.id] += 1

    def text(self, end_s: float) -> str:
        """Return the text of the table at the end of a simulation."""
        return format_hosts(self.columns(end_s))

    def columns(self, end_s: float) -> dict[str, NDArray[Any]]:
        """Return the columns of `simulation.hosts.hosts_arrays` at the end of a simulation."""
        for machine in self._machines:
            self.leave(machine, end_s)
        columns: dict[str, NDArray[Any]] = {
            "host": np.array([machine.name for machine in self._machines], dtype=object),
            **{f"{state}_s": spent_s for state, spent_s in self._spent_s.items()},
            "n_switches": self._n_switches,
        }
        drawn_j = self._drawn_j if self._meter.on else {state: np.full(len(self._machines), np.nan) for state in STATES}
        columns["energy_j"] = np.sum(list(drawn_j.values()), axis=0)
        columns["wasted_j"] = np.sum([drawn_j[state] for state in WASTING_STATES], axis=0)
        return columns

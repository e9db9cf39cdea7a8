"""Energy: the integral of each machine's power, brought up to date only when someone needs it.

SimGrid integrates lazily: a machine's energy is updated when an action on it ends, when its P-state changes and
when it is read, each time with the load of the interval that ends and with the P-state of the last update. Doing
it at other dates would change the last digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.batsim.exact.flows import Cpu

LongDouble = np.longdouble
"""Batsim adds energies and dates up in 80 bits; where numpy has no such type the last digits may differ."""

_ZERO_J = LongDouble(0.0)


class EnergyMeter:
    """The energy of all machines.

    Parameters
    ----------
    cpus
        The CPU of each machine, in the order of the machine ids.
    on
        Whether energy is measured at all.
    """

    def __init__(self, cpus: Sequence[Cpu], *, on: bool) -> None:
        self.on = on
        self._cpus = cpus
        n = len(cpus)
        self._total_j = np.zeros(n)
        self._last_s = np.zeros(n)
        self._power_w = np.zeros(n)
        # the same numbers, one by one: several times as fast as through arrays
        self._total_of_j = _one_by_one(self._total_j)
        self._last_of_s = _one_by_one(self._last_s)
        self._power_of_w = _one_by_one(self._power_w)
        # the plugin believes in P-state 0 until its first update, whatever the platform file says
        self._pstate = [0] * n
        self._stale = set(range(n))
        self._watts = [cpu.spec.watts or ((0.0, 0.0, 0.0),) * len(cpu.spec.speeds_flops) for cpu in cpus]
        self._near_idle_w = np.array([self._watts[k][cpu.pstate][1] if on else 0.0 for k, cpu in enumerate(cpus)])
        self._epsilon_w: np.longdouble | None = None
        self._updated_s = 0.0  # when all machines were up to date for the last time

    def load_changes(self, machines: Sequence[int]) -> None:
        """Note that the power of machines is no longer what it was."""
        if machines and self.on:
            self._stale.update(machines)

    def pstate_changes(self, machine: int, now_s: float) -> None:
        """Note a change of P-state that has just been made."""
        if self.on:
            self._near_idle_w[machine] = self._watts[machine][self._cpus[machine].pstate][1]
            self._epsilon_w = None
            self.update(machine, now_s)

    def touch(self, machines: Sequence[int], now_s: float) -> None:
        """Bring machines up to date that are not."""
        if not self.on:
            return
        if len(machines) > 8:
            self._update_many(np.array(machines), self._stale.intersection(machines), now_s)
            return
        for machine in machines:
            if self._last_of_s[machine] < now_s:
                self.update(machine, now_s)

    def update(self, machine: int, now_s: float) -> None:
        """Bring a machine up to date and believe in its P-state."""
        if not self.on:
            return
        last_s = self._last_of_s[machine]
        if last_s < now_s:
            if machine in self._stale:
                self._power_of_w[machine] = self._power_now_w(machine)
                self._stale.discard(machine)
            self._total_of_j[machine] += self._power_of_w[machine] * (now_s - last_s)
            self._last_of_s[machine] = now_s
        if self._pstate[machine] != self._cpus[machine].pstate:
            self._believe(machine)

    def peek_j(self, machine: int, now_s: float) -> float:
        """Return the energy of a machine as if it were brought up to date, which would change the last digits."""
        elapsed_s = now_s - self._last_of_s[machine]
        power_w = self._power_now_w(machine) if machine in self._stale else self._power_of_w[machine]
        return self._total_of_j[machine] + (power_w * elapsed_s if elapsed_s > 0 else 0.0)

    def update_all(self, now_s: float) -> None:
        """Bring all machines up to date."""
        if self._updated_s < now_s:
            self._update_many(slice(None), list(self._stale), now_s)
            self._updated_s = now_s

    def first_outdated(self, machines: Sequence[int] | None, now_s: float) -> int:
        """Return the first machine (of all, if ``None``) that is not up to date, or -1."""
        if machines is None:
            if self._updated_s == now_s:
                return -1
            outdated = self._last_s < now_s
            first = int(outdated.argmax()) if len(outdated) else 0
            if len(outdated) and outdated[first]:
                return first
            self._updated_s = now_s
            return -1
        for machine in machines:
            if self._last_of_s[machine] < now_s:
                return machine
        return -1

    def sum_j(self, machines: Sequence[int] | None = None) -> np.longdouble:
        """Return the energy of machines (of all, if ``None``) as of their last updates, in joules."""
        if machines is None:
            return _sum(self._total_j)
        total_j = _ZERO_J
        for machine in machines:
            total_j = total_j + self._total_of_j[machine]
        return total_j

    def epsilon_w(self) -> np.longdouble:
        """Return the power of all machines at nearly no load in their present P-states, in watts."""
        if self._epsilon_w is None:
            self._epsilon_w = _sum(self._near_idle_w)
        return self._epsilon_w

    def _update_many(self, rows: NDArray[np.intp] | slice, stale: Iterable[int], now_s: float) -> None:
        for machine in stale:
            if self._last_of_s[machine] < now_s:
                self._power_of_w[machine] = self._power_now_w(machine)
                self._stale.discard(machine)
                if self._pstate[machine] != self._cpus[machine].pstate:
                    self._believe(machine)
        self._total_j[rows] += self._power_w[rows] * (now_s - self._last_s[rows])
        self._last_s[rows] = now_s

    def _power_now_w(self, machine: int) -> float:
        cpu, pstate = self._cpus[machine], self._pstate[machine]
        idle_w, epsilon_w, full_w = self._watts[machine][pstate]
        speed = cpu.spec.speeds_flops[pstate]
        if not cpu.users and speed > 0:
            return idle_w
        load = 1.0 if speed <= 0 else min(1.0, cpu.load() / speed / cpu.spec.cores)
        return epsilon_w + load * (full_w - epsilon_w) if load > 0 else idle_w

    def _believe(self, machine: int) -> None:
        self._pstate[machine] = self._cpus[machine].pstate
        self._stale.add(machine)


def _one_by_one(values: NDArray[np.float64]) -> memoryview[float]:
    """Return a view of the numbers of an array that gives plain floats."""
    return cast("memoryview[float]", values.data)


def _sum(values: NDArray[np.float64]) -> np.longdouble:
    """Add numbers in 80 bits, one after the other in the order of the ids: numpy's own sum adds in pairs."""
    return LongDouble(np.add.accumulate(values.astype(LongDouble))[-1] if len(values) else 0.0)

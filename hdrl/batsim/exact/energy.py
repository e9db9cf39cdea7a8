"""Energy: the integral of each machine's power, brought up to date only when someone needs it.

SimGrid integrates lazily: a machine's energy is updated when an action on it ends, when its P-state changes and
when it is read, each time with the load of the interval that ends and with the P-state of the last update. Doing
it at other dates would change the last digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from hdrl.batsim.exact.extended import Extended, add_up
from hdrl.batsim.exact.flows import Cpu

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_IN_LISTS = 128
"""Up to this many machines, lists save 0.04 s of 0.48 s for 2,000 jobs: arrays are faster, but need NumPy."""


class _Lists:
    """Energy and power of each machine, as lists.

    Parameters
    ----------
    near_idle_w
        Power at nearly no load in its present P-state.

    Attributes
    ----------
    total_j, last_s, power_w
        Energy, date of the last update and power until the next.
    near_idle_w
        As given; P-states change it.
    """

    def __init__(self, near_idle_w: list[float]) -> None:
        n = len(near_idle_w)
        self.total_j = [0.0] * n
        self.last_s = [0.0] * n
        self.power_w = [0.0] * n
        self.near_idle_w = near_idle_w

    def advance(self, now_s: float, since_s: float, apart: Iterable[int]) -> None:
        """Bring all machines up to date: some one by one, all others from the same date on."""
        before_j, power_w, last_s = self.total_j, self.power_w, self.last_s
        elapsed_s = now_s - since_s
        after_j = [total_j + watts * elapsed_s for total_j, watts in zip(before_j, power_w)]  # noqa: B905 - faster
        for machine in apart:
            after_j[machine] = before_j[machine] + power_w[machine] * (now_s - last_s[machine])
        before_j[:] = after_j
        last_s[:] = [now_s] * len(last_s)

    def first_before(self, now_s: float) -> int:
        """Return the first machine whose last update was before a date, or -1."""
        return next((machine for machine, last_s in enumerate(self.last_s) if last_s < now_s), -1)

    def sum_j(self) -> Extended:
        """Return the energy of all machines."""
        return add_up(self.total_j)

    def sum_near_idle_w(self) -> Extended:
        """Return the power of all machines at nearly no load."""
        return add_up(self.near_idle_w)


class _Arrays:
    """The same for many machines."""

    def __init__(self, near_idle_w: list[float]) -> None:
        import numpy as np

        self._add = np.add.accumulate  # one after the other: NumPy's own sum adds in pairs
        self._long_double = np.longdouble
        self._near_idle_w = np.array(near_idle_w)
        self._total_j, self._last_s, self._power_w = np.zeros((3, len(near_idle_w)))
        # the same numbers, one by one: several times as fast as through arrays
        self.total_j, self.last_s, self.power_w, self.near_idle_w = (
            cast("memoryview[float]", values.data)
            for values in (self._total_j, self._last_s, self._power_w, self._near_idle_w)
        )

    def advance(self, now_s: float, since_s: float, apart: Iterable[int]) -> None:  # noqa: ARG002 - as for lists
        self._total_j += self._power_w * (now_s - self._last_s)
        self._last_s[:] = now_s

    def first_before(self, now_s: float) -> int:
        is_before = self._last_s < now_s
        first = int(is_before.argmax())
        return first if is_before[first] else -1

    def sum_j(self) -> Extended:
        return self._sum(self._total_j)

    def sum_near_idle_w(self) -> Extended:
        return self._sum(self._near_idle_w)

    def _sum(self, values: NDArray[np.float64]) -> Extended:
        total = self._add(values.astype(self._long_double))[-1]
        nearest = float(total)
        return nearest, float(total - nearest)


class EnergyMeter:
    """The energy of all machines."""

    def __init__(self, cpus: Sequence[Cpu], *, on: bool) -> None:
        self.on = on
        self._cpus = cpus
        n = len(cpus)
        self._watts = [cpu.spec.watts or ((0.0, 0.0, 0.0),) * len(cpu.spec.speeds_flops) for cpu in cpus]
        near_idle_w = [self._watts[k][cpu.pstate][1] if on else 0.0 for k, cpu in enumerate(cpus)]
        self._all = (_Arrays if n > MOST_IN_LISTS else _Lists)(near_idle_w)
        self._total_j, self._last_s, self._power_w = self._all.total_j, self._all.last_s, self._all.power_w
        # the plugin believes in P-state 0 until its first update, whatever the platform file says
        self._pstate = [0] * n
        self._stale = set(range(n))
        self._epsilon_w: Extended | None = None
        self._updated_s = 0.0  # date at which all machines were up to date for the last time
        self._apart: list[int] = []  # those that were brought up to date since then

    def load_changes(self, machines: Iterable[int]) -> None:
        """Note that the power of machines is no longer what it was."""
        if self.on:
            self._stale.update(machines)

    def pstate_changes(self, machine: int, now_s: float) -> None:
        """Note a change of P-state that has just been made."""
        if self.on:
            self._all.near_idle_w[machine] = self._watts[machine][self._cpus[machine].pstate][1]
            self._epsilon_w = None
            self.update(machine, now_s)

    def touch(self, machines: Iterable[int], now_s: float) -> None:
        """Bring machines up to date that are not."""
        if not self.on:
            return
        last_s, power_w, total_j, stale = self._last_s, self._power_w, self._total_j, self._stale
        for machine in machines:
            before_s = last_s[machine]
            if before_s < now_s:
                if machine in stale:
                    power_w[machine] = self._power_now_w(machine)
                    stale.discard(machine)
                    if self._pstate[machine] != self._cpus[machine].pstate:
                        self._note_standby_power(machine)
                total_j[machine] += power_w[machine] * (now_s - before_s)
                last_s[machine] = now_s
                self._apart.append(machine)

    def update(self, machine: int, now_s: float) -> None:
        """Bring a machine up to date and believe in its P-state."""
        if not self.on:
            return
        self.touch((machine,), now_s)
        if self._pstate[machine] != self._cpus[machine].pstate:
            self._note_standby_power(machine)

    def peek_j(self, machine: int, now_s: float) -> float:
        """Return the energy of a machine as if it were brought up to date, which would change the last digits."""
        elapsed_s = now_s - self._last_s[machine]
        power_w = self._power_now_w(machine) if machine in self._stale else self._power_w[machine]
        return self._total_j[machine] + (power_w * elapsed_s if elapsed_s > 0 else 0.0)

    def update_all(self, now_s: float) -> None:
        """Bring all machines up to date."""
        if self._updated_s >= now_s:
            return
        if self._stale:
            last_s, power_w, stale = self._last_s, self._power_w, self._stale
            self._stale = set()
            for machine in stale:
                if last_s[machine] < now_s:
                    power_w[machine] = self._power_now_w(machine)
                    if self._pstate[machine] != self._cpus[machine].pstate:
                        self._note_standby_power(machine)
                else:
                    self._stale.add(machine)
        self._all.advance(now_s, self._updated_s, self._apart)
        self._apart.clear()
        self._updated_s = now_s

    def first_outdated(self, machines: Iterable[int] | None, now_s: float) -> int:
        """Return the first machine (of all, if ``None``) that is not up to date, or -1."""
        if machines is None:
            if self._updated_s == now_s:
                return -1
            first = self._all.first_before(now_s) if self._cpus else -1
            if first < 0:
                self._updated_s = now_s
                self._apart.clear()
            return first
        for machine in machines:
            if self._last_s[machine] < now_s:
                return machine
        return -1

    def sum_j(self, machines: Iterable[int] | None = None) -> Extended:
        """Return the energy of machines (of all, if ``None``) as of their last updates, in joules."""
        if machines is None:
            return self._all.sum_j()
        total_j = self._total_j
        return add_up([total_j[machine] for machine in machines])

    def epsilon_w(self) -> Extended:
        """Return the power of all machines at nearly no load in their present P-states, in watts."""
        if self._epsilon_w is None:
            self._epsilon_w = self._all.sum_near_idle_w()
        return self._epsilon_w

    def _power_now_w(self, machine: int) -> float:
        cpu, pstate = self._cpus[machine], self._pstate[machine]
        idle_w, epsilon_w, full_w = self._watts[machine][pstate]
        spec, load = cpu.spec, 1.0
        speed = spec.speeds_flops[pstate]
        if speed > 0:
            if not cpu.users:
                return idle_w
            load = cpu.load() / speed / spec.cores
            if load > 1.0:
                load = 1.0
        return epsilon_w + load * (full_w - epsilon_w) if load > 0 else idle_w

    def _note_standby_power(self, machine: int) -> None:
        self._pstate[machine] = self._cpus[machine].pstate
        self._stale.add(machine)

"""The clock: actions that take time, advanced all together from one end of an action to the next.

An action is a flow (an amount of work of 1 at a rate, after a latency) or a timer. Each step advances by the
shortest remaining time of any of them; then *all* actions are updated, so that rounding accumulates exactly as it
does in SimGrid; those that end wake their activities in the order of their creation.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.batsim.exact.energy import EnergyMeter
from hdrl.settings.batch.batsim.exact.flows import Activity, Flow
from hdrl.settings.batch.batsim.exact.sharing import Network

TIME_PRECISION_S = 1e-9
"""What remains of a duration or a latency counts as nothing below this."""

WORK_PRECISION = 1e-14
"""What remains of a unit of work counts as nothing below this."""

_FIRST_CAPACITY = 64


class Timer:
    """A duration that someone waits for.

    Parameters
    ----------
    machine
        The machine on which it is slept, or -1.
    owner
        What ends with it.
    """

    __slots__ = ("machine", "machines", "owner", "serial")

    def __init__(self, machine: int, owner: Activity) -> None:
        self.machines = (machine,) if machine >= 0 else ()
        self.owner: Activity | None = owner
        self.serial = -1


A = TypeVar("A", Flow, Timer)


class _Table(Generic[A]):
    """Actions in the order of their creation, with columns of numbers beside them."""

    def __init__(self, n_columns: int) -> None:
        self.actions: list[A] = []
        self._serials: list[int] = []
        self.columns = [np.zeros(_FIRST_CAPACITY) for _ in range(n_columns)]

    def index(self, action: A) -> int:
        """Return the row of an action, or -1 if it is not (or no longer) there."""
        row = bisect_left(self._serials, action.serial)
        return row if row < len(self._serials) and self._serials[row] == action.serial else -1

    def append(self, action: A, *values: float) -> None:
        row = len(self.actions)
        if row == len(self.columns[0]):
            self.columns = [np.concatenate((column, np.zeros(row))) for column in self.columns]
        self.actions.append(action)
        self._serials.append(action.serial)
        for column, value in zip(self.columns, values, strict=True):
            column[row] = value

    def remove(self, row: int) -> None:
        n = len(self.actions)
        del self.actions[row], self._serials[row]
        for column in self.columns:
            column[row : n - 1] = column[row + 1 : n]


class Engine:
    """Simulated time, and everything that takes some.

    Parameters
    ----------
    network
        The resources that flows share.
    meter
        What measures energy; it is told before the load of a host changes.

    Attributes
    ----------
    now_s
        The date, in seconds.
    """

    def __init__(self, network: Network, meter: EnergyMeter) -> None:
        self.now_s = 0.0
        self.network = network
        self.meter = meter
        self._flows: _Table[Flow] = _Table(2)  # what remains, rate
        self._timers: _Table[Timer] = _Table(1)  # what remains
        self._paying: list[Flow] = []  # flows whose latency is being paid
        self._n_created = 0

    @property
    def n_actions(self) -> int:
        """Number of actions under way."""
        return len(self._flows.actions) + len(self._timers.actions)

    def start_flow(self, flow: Flow) -> None:
        """Let a flow begin."""
        flow.serial = self._next_serial()
        self._flows.append(flow, 0.0 if flow.work.nothing else 1.0, 0.0)
        self.network.add(flow)
        if not flow.flowing:
            self._paying.append(flow)

    def start_timer(self, timer: Timer, duration_s: float) -> None:
        """Let a timer begin."""
        timer.serial = self._next_serial()
        self._timers.append(timer, duration_s)

    def progress(self, flow: Flow) -> float:
        """Return the part of a flow's work that is done, from 0 to 1."""
        row = self._flows.index(flow)
        return 1.0 - float(self._flows.columns[0][row]) if row >= 0 else 1.0

    def stop_flow(self, flow: Flow) -> bool:
        """Take a flow out before its end; tell whether it was still there."""
        row = self._flows.index(flow)
        if row < 0:
            return False
        self.meter.touch(flow.machines, self.now_s)
        self._drop_flow(row, flow)
        return True

    def drop_timer(self, timer: Timer) -> bool:
        """Forget a timer; tell whether it was still there."""
        row = self._timers.index(timer)
        if row < 0:
            return False
        self._timers.remove(row)
        return True

    def step(self) -> bool:
        """Advance to the next end of anything; tell whether there was anything left to wait for."""
        self._set_rates()
        delta_s = min(self._next_flow_s(), self._next_timer_s(), self._next_latency_s())
        if delta_s == math.inf:
            return False
        self.now_s += delta_s
        # what ends is found with the rates of the interval, before any latency paid in this step counts
        flows = self._advance_flows(delta_s)
        timers = self._advance_timers(delta_s)
        self._advance_latencies(delta_s)
        self._finish(flows, timers)
        return True

    def _next_serial(self) -> int:
        self._n_created += 1
        return self._n_created

    def _drop_flow(self, row: int, flow: Flow) -> None:
        self._flows.remove(row)
        self.network.remove(flow)
        self.meter.load_changes(flow.machines)
        if not flow.flowing:
            self._paying.remove(flow)

    def _set_rates(self) -> None:
        rates = self._flows.columns[1]
        for flow in self.network.solve():
            row = self._flows.index(flow)
            if rates[row] != flow.rate:
                rates[row] = flow.rate
                self.meter.load_changes(flow.machines)

    def _next_flow_s(self) -> float:
        n = len(self._flows.actions)
        if n == 0:
            return math.inf
        remains, rates = (column[:n] for column in self._flows.columns)
        left_s = np.full(n, math.inf)
        np.divide(remains, rates, out=left_s, where=rates > 0)
        return float(left_s.min())

    def _next_timer_s(self) -> float:
        n = len(self._timers.actions)
        return float(self._timers.columns[0][:n].min()) if n else math.inf

    def _next_latency_s(self) -> float:
        return min((flow.latency_s for flow in self._paying), default=math.inf)

    def _advance_flows(self, delta_s: float) -> list[Flow]:
        n = len(self._flows.actions)
        if n == 0:
            return []
        remains, rates = (column[:n] for column in self._flows.columns)
        remains -= rates * delta_s
        ended = _rows_below(remains, WORK_PRECISION)
        return [self._flows.actions[row] for row in ended if self._flows.actions[row].flowing]

    def _advance_timers(self, delta_s: float) -> list[Timer]:
        n = len(self._timers.actions)
        if n == 0:
            return []
        left_s = self._timers.columns[0][:n]
        left_s -= delta_s
        return [self._timers.actions[row] for row in _rows_below(left_s, TIME_PRECISION_S)]

    def _advance_latencies(self, delta_s: float) -> None:
        still = []
        for flow in self._paying:
            flow.latency_s -= delta_s
            if flow.latency_s < TIME_PRECISION_S:
                flow.latency_s = 0.0
                self.network.awake(flow)
            else:
                still.append(flow)
        self._paying = still

    def _finish(self, flows: list[Flow], timers: list[Timer]) -> None:
        ended: list[Flow | Timer] = [*flows, *timers]
        for action in ended:
            self.meter.touch(action.machines, self.now_s)
        for flow in flows:
            self._drop_flow(self._flows.index(flow), flow)
        for timer in timers:
            self._timers.remove(self._timers.index(timer))
        if flows and timers:
            ended.sort(key=lambda action: action.serial)
        for action in ended:
            if action.owner is not None:
                action.owner.end()


def _rows_below(values: NDArray[np.float64], precision: float) -> list[int]:
    """Set to zero what is below the precision; return the rows."""
    low = np.flatnonzero(values < precision)
    if len(low):
        values[low] = 0.0
    return low.tolist()

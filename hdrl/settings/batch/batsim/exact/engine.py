"""The clock: actions that take time, advanced all together from one end of an action to the next.

An action is a flow (an amount of work of 1 at a rate, after a latency) or a timer. Each step advances by the
shortest remaining time of any of them; then *all* actions are updated, so that rounding accumulates exactly as it
does in SimGrid; those that end wake their activities in the order of their creation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hdrl.settings.batch.batsim.exact.energy import EnergyMeter
from hdrl.settings.batch.batsim.exact.flows import Activity, Flow, Work
from hdrl.settings.batch.batsim.exact.sharing import Network

TIME_PRECISION_S = 1e-9
"""What remains of a duration or a latency counts as nothing below this."""

WORK_PRECISION = 1e-14
"""What remains of a unit of work counts as nothing below this."""

_FIRST_CAPACITY = 64
_ROUNDED_DOWN = 1.0 - 2.0**-49
"""More than the rounding of a step takes away from what is left, relative to that."""


class Timer:
    """A duration that someone waits for.

    Parameters
    ----------
    machine
        The machine on which it is slept, or -1.
    owner
        What ends with it.
    """

    __slots__ = ("machines", "owner", "row", "serial")

    def __init__(self, machine: int, owner: Activity) -> None:
        self.machines = (machine,) if machine >= 0 else ()
        self.owner: Activity | None = owner
        self.serial = -1
        self.row = -1


class _Message(NamedTuple):
    """A message that shares nothing: who waits for it, its place in the order of creation, and how long it takes."""

    work: Work
    owner: Activity
    serial: int
    duration_s: float


class _Table:
    """What remains of each action that comes nearer to its end, and how fast, with all columns as long as ever needed.

    A timer is an action of rate 1. Rows without an action never end: of them an infinity remains.

    Attributes
    ----------
    sure_s
        So many seconds go by before the first end, at least: known without a look at every row. It saves a tenth of
        the time of a simulation on 64 hosts, where most steps are those of messages, far from the end of anything.
    """

    def __init__(self) -> None:
        self.actions: list[Flow | Timer | None] = []
        self.remains = self.rates = self.precisions = np.zeros(0)
        self.sure_s = math.inf
        self._slack_s = 0.0  # an action ends when it is nearer to its end than this, at most
        self._free: list[int] = []
        self._grow(_FIRST_CAPACITY)

    def put(self, action: Flow | Timer, remains: float, rate: float, precision: float) -> None:
        """Give an action a row."""
        if not self._free:
            self._grow(2 * len(self.actions))
        row = action.row = self._free.pop()
        self.actions[row] = action
        self.remains[row] = remains
        self.precisions[row] = precision
        self._set_rate(row, remains, rate, precision)

    def change_rate(self, row: int, rate: float) -> None:
        """Let an action go on at another rate."""
        self._set_rate(row, float(self.remains[row]), rate, float(self.precisions[row]))

    def take(self, action: Flow | Timer) -> None:
        """Take an action out."""
        row, action.row = action.row, -1
        self.actions[row] = None
        self.remains[row] = math.inf
        self.rates[row] = 1.0
        self._free.append(row)

    def left_s(self) -> float:
        """Return the seconds until the next end of an action, infinity if there is none."""
        np.divide(self.remains, self.rates, self._seconds)
        self.sure_s = self._seconds.item(self._seconds.argmin())
        return self.sure_s

    def advance(self, delta_s: float) -> list[Flow | Timer]:
        """Bring all actions nearer to their ends; return those of which nothing remains, in no order."""
        np.multiply(self.rates, delta_s, self._seconds)
        np.subtract(self.remains, self._seconds, self.remains)
        self.sure_s = self.sure_s * _ROUNDED_DOWN - delta_s
        if self.sure_s > self._slack_s:
            return []
        rows = np.less(self.remains, self.precisions, self._low).nonzero()[0].tolist()
        ended = [self.actions[row] for row in rows]
        return [action for action in ended if action is not None]

    def _set_rate(self, row: int, remains: float, rate: float, precision: float) -> None:
        self.rates[row] = rate
        self.sure_s = min(self.sure_s, remains / rate)
        self._slack_s = max(self._slack_s, 2.0 * precision / rate)

    def _grow(self, capacity: int) -> None:
        n = len(self.actions)
        self._free = list(range(capacity - 1, n - 1, -1))
        self.actions += [None] * (capacity - n)
        self.remains = np.append(self.remains, np.full(capacity - n, math.inf))
        self.rates, self.precisions = (
            np.append(column, np.ones(capacity - n)) for column in (self.rates, self.precisions)
        )
        self._seconds = np.zeros(capacity)
        self._low = np.zeros(capacity, dtype=bool)


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
    n_actions
        Number of actions under way.
    """

    def __init__(self, network: Network, meter: EnergyMeter) -> None:
        self.now_s = 0.0
        self.n_actions = 0
        self.network = network
        self.meter = meter
        self._table = _Table()
        self._paying: list[Flow] = []  # flows whose latency is being paid
        self._message: _Message | None = None  # one that has just begun
        self._n_created = 0

    def start_flow(self, flow: Flow) -> None:
        """Let a flow begin."""
        if flow.work.crosses_links:
            self._make_flow_of_message()
        flow.serial = self._next_serial()
        self.network.add(flow)
        if not flow.flowing:
            self._paying.append(flow)

    def send(self, work: Work, owner: Activity) -> None:
        """Let a message begin; most share nothing and arrive before anything else happens, so no flow is made yet."""
        self._make_flow_of_message()  # of the one before
        is_shared = False
        for resource, _ in work.demands:
            if resource.users:
                is_shared = True
        if is_shared or not work.rate_alone or work.latency_s > 0 or work.nothing:
            self.start_flow(Flow(work, owner))
        else:
            self._message = _Message(work, owner, self._next_serial(), 1.0 / work.rate_alone)

    def start_timer(self, timer: Timer, duration_s: float) -> None:
        """Let a timer begin."""
        timer.serial = self._next_serial()
        self._table.put(timer, duration_s, 1.0, TIME_PRECISION_S)

    def progress(self, flow: Flow) -> float:
        """Return the part of a flow's work that is done, from 0 to 1."""
        if flow.serial < 0:
            return 1.0
        return 1.0 - (float(self._table.remains[flow.row]) if flow.row >= 0 else flow.remains)

    def stop_flow(self, flow: Flow) -> bool:
        """Take a flow out before its end; tell whether it was still there."""
        if flow.serial < 0:
            return False
        self.meter.touch(flow.machines, self.now_s)
        self._drop_flow(flow)
        return True

    def drop_timer(self, timer: Timer) -> bool:
        """Forget a timer; tell whether it was still there."""
        if timer.serial < 0:
            return False
        timer.serial = -1
        self.n_actions -= 1
        self._table.take(timer)
        return True

    def step(self) -> bool:
        """Advance to the next end of anything; tell whether there was anything left to wait for."""
        if self.network.dirty:
            self._set_rates()
        if self._message is not None:
            if self._arrives(self._message):
                return True
            self._make_flow_of_message()
            self._set_rates()
        delta_s = self._table.left_s()
        for flow in self._paying:
            delta_s = min(delta_s, flow.latency_s)
        if delta_s == math.inf:
            return False
        self.now_s += delta_s
        # what ends is found with the rates of the interval, before any latency paid in this step counts
        ended = self._table.advance(delta_s)
        if self._paying:
            self._advance_latencies(delta_s)
        self._finish(ended)
        return True

    def _next_serial(self) -> int:
        self.n_actions += 1
        self._n_created += 1
        return self._n_created

    def _make_flow_of_message(self) -> list[Flow]:
        """Let the message that has just begun be a flow like others; return it, if there is one."""
        if self._message is None:
            return []
        flow = Flow(self._message.work, self._message.owner)
        flow.serial = self._message.serial
        self._message = None
        self.network.add(flow)
        return [flow]

    def _arrives(self, message: _Message) -> bool:
        """Do the step in which the message that has just begun arrives, if it is sure to be the next to end."""
        table, duration_s = self._table, message.duration_s
        if self._paying or (duration_s >= table.sure_s and duration_s >= table.left_s()):
            return False
        work, owner = message.work, message.owner
        self.meter.load_changes(work.machines)
        self.now_s += duration_s
        ended = table.advance(duration_s)
        if ended:  # so little remained of them that they end, too
            self._finish([*ended, *self._make_flow_of_message()])
            return True
        self._message = None
        self.n_actions -= 1
        if work.machines:
            self.meter.touch(work.machines, self.now_s)
            self.meter.load_changes(work.machines)
        owner.end()
        return True

    def _drop_flow(self, flow: Flow) -> None:
        flow.serial = -1
        self.n_actions -= 1
        if flow.row >= 0:
            self._table.take(flow)
        self.network.remove(flow)
        self.meter.load_changes(flow.machines)
        if not flow.flowing:
            self._paying.remove(flow)

    def _set_rates(self) -> None:
        """Give every flow whose rate has changed its new one; those that stand still have no row."""
        table = self._table
        for flow in self.network.solve():
            rate, row = flow.rate, flow.row
            if row < 0:
                if rate == 0:
                    continue
                table.put(flow, flow.remains, rate, WORK_PRECISION)
            elif rate == table.rates[row]:
                continue
            elif rate > 0:
                table.change_rate(row, rate)
            else:
                flow.remains = float(table.remains[row])
                table.take(flow)
            self.meter.load_changes(flow.machines)

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

    def _finish(self, ended: list[Flow | Timer]) -> None:
        if len(ended) > 1:
            ended.sort(key=lambda action: action.serial)
        for action in ended:
            if action.machines:
                self.meter.touch(action.machines, self.now_s)
        for action in ended:
            if isinstance(action, Flow):
                self._drop_flow(action)
            else:
                self.drop_timer(action)
        for action in ended:
            if action.owner is not None:
                action.owner.end()

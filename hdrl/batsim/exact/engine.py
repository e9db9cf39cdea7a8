"""The clock: actions that take time, advanced all together from one end of an action to the next.

An action is a flow (an amount of work of 1 at a rate, after a latency) or a timer. Each step advances by the
shortest remaining time of any of them; then *all* actions are updated, so that rounding accumulates exactly as it
does in SimGrid; those that end wake their activities in the order of their creation.
"""

from __future__ import annotations

import math

from hdrl.batsim.exact.energy import EnergyMeter
from hdrl.batsim.exact.flows import Activity, Flow, Work
from hdrl.batsim.exact.rows import MOST_IN_LISTS, ActionRows, ListRows, Timer
from hdrl.batsim.exact.sharing import SharedNetwork

TIME_PRECISION_S = 1e-9
"""Threshold below which the rest of a duration or a latency counts as zero, in seconds."""

WORK_PRECISION = 1e-14
"""Threshold below which the rest of a unit of work counts as zero."""


class Engine:
    """Simulated time, and everything that takes some.

    Parameters
    ----------
    meter
        Measures energy; it is called before the load of a host changes.

    Attributes
    ----------
    now_s
        The date, in seconds.
    n_actions
        Number of actions under way.
    """

    def __init__(self, network: SharedNetwork, meter: EnergyMeter) -> None:
        self.now_s = 0.0
        self.n_actions = 0
        self.network = network
        self.meter = meter
        self._rows: ActionRows = ListRows()
        self._paying: list[Flow] = []  # flows whose latency is being paid
        self._message: Work | None = None  # one that has just begun and shares nothing
        self._message_owner: Activity | None = None  # the activity that waits for it
        self._message_serial = -1
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
        if self._message is not None:
            self._make_flow_of_message()  # of the one before
        if work.latency_s > 0 or not work.rate_alone or work.nothing:
            self.start_flow(Flow(work, owner))
            return
        for resource, _ in work.demands:
            if resource.users:
                self.start_flow(Flow(work, owner))
                return
        self.n_actions += 1
        self._n_created += 1
        self._message, self._message_owner, self._message_serial = work, owner, self._n_created

    def start_timer(self, timer: Timer, duration_s: float) -> None:
        """Let a timer begin."""
        timer.serial = self._next_serial()
        self._put(timer, duration_s, 1.0, TIME_PRECISION_S)

    def progress(self, flow: Flow) -> float:
        """Return the part of a flow's work that is done, from 0 to 1."""
        if flow.serial < 0:
            return 1.0
        return 1.0 - (self._rows.remains(flow) if flow.row >= 0 else flow.remains)

    def stop_flow(self, flow: Flow) -> bool:
        """Take a flow out before its end; return whether it was still there."""
        if flow.serial < 0:
            return False
        self.meter.touch(flow.machines, self.now_s)
        self._drop_flow(flow)
        return True

    def drop_timer(self, timer: Timer) -> bool:
        """Forget a timer; return whether it was still there."""
        if timer.serial < 0:
            return False
        timer.serial = -1
        self.n_actions -= 1
        self._rows.take(timer)
        return True

    def step(self) -> bool:
        """Advance to the next end of anything; return whether there was anything left to wait for."""
        if self.network.dirty:
            self._set_rates()
        if self._message is not None:
            if not self._paying and self._arrives(self._message):
                return True
            self._make_flow_of_message()
            self._set_rates()
        delta_s = self._rows.left_s()
        for flow in self._paying:
            delta_s = min(delta_s, flow.latency_s)
        if delta_s == math.inf:
            return False
        self.now_s += delta_s
        # what ends is found with the rates of the interval, before any latency paid in this step counts
        ended = self._rows.advance(delta_s)
        if self._paying:
            self._advance_latencies(delta_s)
        self._finish(ended)
        return True

    def _next_serial(self) -> int:
        self.n_actions += 1
        self._n_created += 1
        return self._n_created

    def _put(self, action: Flow | Timer, remains: float, rate: float, precision: float) -> None:
        rows = self._rows
        if len(rows.actions) == MOST_IN_LISTS and isinstance(rows, ListRows):
            rows = self._rows = rows.in_arrays()
        rows.put(action, remains, rate, precision)

    def _make_flow_of_message(self) -> list[Flow]:
        """Let the message that has just begun be a flow like others; return it, if there is one."""
        if self._message is None:
            return []
        flow = Flow(self._message, self._message_owner)
        flow.serial = self._message_serial
        self._message = self._message_owner = None
        self.network.add(flow)
        return [flow]

    def _arrives(self, work: Work) -> bool:
        """Do the step in which the message that has just begun arrives, if it is sure to be the next to end."""
        rows, owner, rate = self._rows, self._message_owner, work.rate_alone
        if owner is None or not rate:
            return False
        duration_s = 1.0 / rate
        if duration_s >= rows.sure_s and duration_s >= rows.left_s():
            return False
        machines = work.machines
        if machines:
            self.meter.load_changes(machines)
        self.now_s += duration_s
        ended = rows.advance(duration_s)
        if ended:  # so little remained of them that they end, too
            self._finish([*ended, *self._make_flow_of_message()])
            return True
        self._message = self._message_owner = None
        self.n_actions -= 1
        if machines:
            self.meter.touch(machines, self.now_s)
            self.meter.load_changes(machines)
        owner.end()
        return True

    def _drop_flow(self, flow: Flow) -> None:
        flow.serial = -1
        self.n_actions -= 1
        if flow.row >= 0:
            self._rows.take(flow)
        self.network.remove(flow)
        self.meter.load_changes(flow.machines)
        if not flow.flowing:
            self._paying.remove(flow)

    def _set_rates(self) -> None:
        """Give every flow whose rate has changed its new one; those that stand still have no row."""
        for flow in self.network.solve():
            rate = flow.rate
            if flow.row < 0:
                if rate == 0:
                    continue
                self._put(flow, flow.remains, rate, WORK_PRECISION)
            elif rate == self._rows.rate(flow):
                continue
            elif rate > 0:
                self._rows.change_rate(flow, rate)
            else:
                flow.remains = self._rows.remains(flow)
                self._rows.take(flow)
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

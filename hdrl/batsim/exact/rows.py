"""Actions under way: what remains of each, and its rate."""

from __future__ import annotations

import abc
import math
from operator import truediv
from typing import TYPE_CHECKING

from hdrl.batsim.exact.flows import Activity, Flow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_IN_LISTS = 64
"""With more actions than that at a time, NumPy's arrays are used: they are faster, but NumPy has to be loaded."""

_ROUNDED_DOWN = 1.0 - 2.0**-49
"""More than the rounding of a step takes away from what is left, relative to that."""


class Timer:
    """A duration that an actor waits for; of a machine, or of none (-1)."""

    __slots__ = ("machines", "owner", "row", "serial")

    def __init__(self, machine: int, owner: Activity) -> None:
        self.machines = (machine,) if machine >= 0 else ()
        self.owner: Activity | None = owner
        self.serial = -1
        self.row = -1


class ActionRows(abc.ABC):
    """A row for each action, and columns of what is known of it. A timer is an action of rate 1.

    Attributes
    ----------
    actions
        The action of each row.
    sure_s
        No action ends before this many seconds: a bound that needs no look at every row. It saves a tenth of
        the time of a simulation on 64 hosts, where most steps are those of messages, far from the end of anything.
    """

    def __init__(self) -> None:
        self.actions: list[Flow | Timer | None] = []
        self.sure_s = math.inf
        self._slack_s = 0.0  # an action ends when it is nearer to its end than this, at most

    @abc.abstractmethod
    def put(self, action: Flow | Timer, remains: float, rate: float, precision: float) -> None:
        """Give an action a row."""

    @abc.abstractmethod
    def take(self, action: Flow | Timer) -> None:
        """Take an action out."""

    @abc.abstractmethod
    def remains(self, action: Flow | Timer) -> float:
        """Return the remaining work of an action."""

    @abc.abstractmethod
    def rate(self, action: Flow | Timer) -> float:
        """Return the rate of an action, its share of work done in a second."""

    @abc.abstractmethod
    def change_rate(self, action: Flow | Timer, rate: float) -> None:
        """Let an action go on at another rate."""

    @abc.abstractmethod
    def left_s(self) -> float:
        """Return the seconds until the next end of an action, infinity if there is none."""

    @abc.abstractmethod
    def advance(self, delta_s: float) -> list[Flow | Timer]:
        """Bring all actions nearer to their ends; return the finished ones, in no order."""

    def _note(self, remains: float, rate: float, precision: float) -> None:
        left_s, slack_s = remains / rate, 2.0 * precision / rate
        if left_s < self.sure_s:
            self.sure_s = left_s
        if slack_s > self._slack_s:
            self._slack_s = slack_s


class ListRows(ActionRows):
    """Rows in lists without gaps."""

    def __init__(self) -> None:
        super().__init__()
        self._remains: list[float] = []
        self._rates: list[float] = []
        self._precisions: list[float] = []

    def put(self, action: Flow | Timer, remains: float, rate: float, precision: float) -> None:
        """Give an action a row."""
        action.row = len(self.actions)
        self.actions.append(action)
        self._remains.append(remains)
        self._rates.append(rate)
        self._precisions.append(precision)
        self._note(remains, rate, precision)

    def take(self, action: Flow | Timer) -> None:
        """Take an action out; the last one gets its row."""
        row, action.row = action.row, -1
        last = self.actions.pop()
        remains, rate, precision = self._remains.pop(), self._rates.pop(), self._precisions.pop()
        if last is not None and last is not action:
            last.row = row
            self.actions[row] = last
            self._remains[row], self._rates[row], self._precisions[row] = remains, rate, precision

    def remains(self, action: Flow | Timer) -> float:
        """Return the remaining work of an action."""
        return self._remains[action.row]

    def rate(self, action: Flow | Timer) -> float:
        """Return the rate of an action, its share of work done in a second."""
        return self._rates[action.row]

    def change_rate(self, action: Flow | Timer, rate: float) -> None:
        """Let an action go on at another rate."""
        row = action.row
        self._rates[row] = rate
        self._note(self._remains[row], rate, self._precisions[row])

    def left_s(self) -> float:
        """Return the seconds until the next end of an action, infinity if there is none."""
        self.sure_s = min(map(truediv, self._remains, self._rates)) if self.actions else math.inf
        return self.sure_s

    def advance(self, delta_s: float) -> list[Flow | Timer]:
        """Bring all actions nearer to their ends; return the finished ones, in no order."""
        # to let zip compare lengths would take a third of the time
        self._remains = [remains - rate * delta_s for remains, rate in zip(self._remains, self._rates)]  # noqa: B905
        self.sure_s = self.sure_s * _ROUNDED_DOWN - delta_s
        if self.sure_s > self._slack_s:
            return []
        rows = zip(self.actions, self._remains, self._precisions)  # noqa: B905
        return [action for action, remains, precision in rows if action is not None and remains < precision]

    def in_arrays(self) -> ArrayRows:
        """Return the same actions in arrays."""
        result = ArrayRows()
        rows = zip(self.actions, self._remains, self._rates, self._precisions, strict=True)
        for action, remains, rate, precision in rows:
            if action is not None:
                result.put(action, remains, rate, precision)
        return result


class ArrayRows(ActionRows):
    """Rows in arrays as long as ever needed. One without an action never ends: of it an infinity remains."""

    def __init__(self) -> None:
        import numpy as np

        super().__init__()
        self._np = np
        self._remains = self._rates = self._precisions = np.zeros(0)
        self._free: list[int] = []
        self._grow(2 * MOST_IN_LISTS)

    def put(self, action: Flow | Timer, remains: float, rate: float, precision: float) -> None:
        """Give an action a row."""
        if not self._free:
            self._grow(2 * len(self.actions))
        row = action.row = self._free.pop()
        self.actions[row] = action
        self._remains[row] = remains
        self._rates[row] = rate
        self._precisions[row] = precision
        self._note(remains, rate, precision)

    def take(self, action: Flow | Timer) -> None:
        """Take an action out."""
        row, action.row = action.row, -1
        self.actions[row] = None
        self._remains[row] = math.inf
        self._rates[row] = 1.0
        self._free.append(row)

    def remains(self, action: Flow | Timer) -> float:
        """Return the remaining work of an action."""
        return self._remains.item(action.row)

    def rate(self, action: Flow | Timer) -> float:
        """Return the rate of an action, its share of work done in a second."""
        return self._rates.item(action.row)

    def change_rate(self, action: Flow | Timer, rate: float) -> None:
        """Let an action go on at another rate."""
        row = action.row
        self._rates[row] = rate
        self._note(self._remains.item(row), rate, self._precisions.item(row))

    def left_s(self) -> float:
        """Return the seconds until the next end of an action, infinity if there is none."""
        self._np.divide(self._remains, self._rates, self._seconds)
        self.sure_s = self._seconds.item(self._seconds.argmin())
        return self.sure_s

    def advance(self, delta_s: float) -> list[Flow | Timer]:
        """Bring all actions nearer to their ends; return the finished ones, in no order."""
        self._np.multiply(self._rates, delta_s, self._seconds)
        self._np.subtract(self._remains, self._seconds, self._remains)
        self.sure_s = self.sure_s * _ROUNDED_DOWN - delta_s
        if self.sure_s > self._slack_s:
            return []
        rows = self._np.less(self._remains, self._precisions, self._low).nonzero()[0].tolist()
        ended = [self.actions[row] for row in rows]
        return [action for action in ended if action is not None]

    def _grow(self, capacity: int) -> None:
        append, n = self._np.append, len(self.actions)
        self._free = list(range(capacity - 1, n - 1, -1))
        self.actions += [None] * (capacity - n)
        self._remains = append(self._remains, [math.inf] * (capacity - n))
        self._rates, self._precisions = (append(c, [1.0] * (capacity - n)) for c in (self._rates, self._precisions))
        self._seconds: NDArray[np.float64] = self._np.zeros(capacity)
        self._low: NDArray[np.bool_] = self._np.zeros(capacity, dtype=bool)

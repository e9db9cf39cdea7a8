"""The order of messages: by virtual time, which is drawn and can be repeated, or by their real arrival."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from hdrl.base.seeding import stream
from hdrl.options.distributed import DelayOptions


class VirtualClock:
    """Time that passes as fast as the work is done, and always in the same way.

    Each role draws its times from a stream of its own, so its delays do not depend on how many others there are. Two
    roles that are ready at once come in the order in which they began. The last workers are the slow ones.
    """

    def __init__(self, delays: DelayOptions, n_workers: int, seed: int) -> None:
        self._delays = delays
        self._n_workers = n_workers
        self._seed = seed
        self._now_s = 0.0
        self._n_begun = 0
        self._events: list[tuple[float, int, str, int]] = []
        self._n_drawn: dict[str, int] = {}
        self._deaths = sorted(delays.deaths)
        self._n_dead = 0

    @property
    def now_s(self) -> float:
        """Virtual seconds since the training began."""
        return self._now_s

    def begin(self, name: str, number: int, handle: Any) -> None:
        """Note that a worker or the learner has begun a task; virtual time does not look at its handle."""
        del handle
        heapq.heappush(self._events, (self._now_s + self._takes_s(name, number), self._n_begun, name, number))
        self._n_begun += 1

    def resume(self, name: str, number: int, handle: Any) -> None:
        """Note that a role was at work when the state was saved, which holds when it is ready."""
        del name, number, handle

    def next(self) -> tuple[str, int]:
        """Return ``"worker"``, ``"learner"`` or, of a worker whose work is lost, ``"death"``, and its number."""
        if self._n_dead < len(self._deaths) and self._deaths[self._n_dead][0] <= self._events[0][0]:
            when_s, number = self._deaths[self._n_dead]
            self._n_dead += 1
            self._now_s = max(self._now_s, when_s)
            self._events = [event for event in self._events if event[2:] != ("worker", number)]
            heapq.heapify(self._events)
            return "death", number
        self._now_s, _, name, number = heapq.heappop(self._events)
        return name, number

    def _takes_s(self, name: str, number: int) -> float:
        delays = self._delays
        if name == "learner":
            return delays.update_s
        key = f"{name} {number}"
        computing_s = delays.compute_s
        if delays.spread:
            n = self._n_drawn.get(key, 0)
            self._n_drawn[key] = n + 1
            # A draw of its own for each message: nothing but its number has to be saved.
            computing_s *= math.exp(delays.spread * stream(self._seed, f"delay of {key}, {n}").standard_normal())
        if number >= self._n_workers - delays.stragglers:
            computing_s *= delays.slowdown
        return computing_s + 2.0 * delays.network_s

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, from which `load_state_dict` continues."""
        return {
            "now_s": self._now_s,
            "n_begun": self._n_begun,
            "events": [list(event) for event in self._events],
            "n_drawn": dict(self._n_drawn),
            "n_dead": self._n_dead,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self._now_s, self._n_begun = float(state["now_s"]), int(state["n_begun"])
        self._events = [(float(e[0]), int(e[1]), str(e[2]), int(e[3])) for e in state["events"]]
        heapq.heapify(self._events)
        self._n_drawn = {str(name): int(n) for name, n in state["n_drawn"].items()}
        self._n_dead = int(state["n_dead"])


class ArrivalClock:
    """The wall clock: the message that is there first is next (``wait`` returns its index)."""

    def __init__(self, wait: Callable[[list[Any]], int]) -> None:
        self._wait = wait
        self._began_s = time.perf_counter()
        self._waiting: list[tuple[str, int, Any]] = []

    @property
    def now_s(self) -> float:
        """Seconds since the training began or was resumed."""
        return time.perf_counter() - self._began_s

    def begin(self, name: str, number: int, handle: Any) -> None:
        """Note that a role has begun a task."""
        self._waiting.append((name, number, handle))

    def resume(self, name: str, number: int, handle: Any) -> None:
        """Take notice of a message that had been written before the state was saved."""
        self.begin(name, number, handle)

    def next(self) -> tuple[str, int]:
        """Wait until a role is ready, and return its kind and number."""
        index = self._wait([handle for _, _, handle in self._waiting])
        name, number, _ = self._waiting.pop(index)
        return name, number

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: what was under way is begun again."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over nothing."""
        del state


Clock = VirtualClock | ArrivalClock
"""Decides which role is ready next."""

"""Schemes by which workers wait for each other: a class for each kind, and their names in options.

A scheme orders the calls of roles, and never looks into a gradient; so it is the same whether
all roles run in this process or each in its own, and whether time is virtual or real.

References
----------
Chen et al., "Revisiting Distributed Synchronous SGD", 2016 (``sync_backup``); Dean et al., "Large Scale Distributed
Deep Networks", NIPS 2012 (``async``, Downpour); Ong et al., "Distributed Deep Q-Learning", 2015 (``ong``); Nair et al.,
"Massively Parallel Methods for Deep Reinforcement Learning", 2015 (``gorila``); Horgan et al., "Distributed Prioritized
Experience Replay", ICLR 2018 (``apex``).
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from hdrl.distributed.training.group import TrainingGroup, WorkerGroup
from hdrl.distributed.training.pool import Handle
from hdrl.distributed.training.worker import Report


class Scheme(abc.ABC):
    """Directs workers and servers."""

    def __init__(self, group: WorkerGroup) -> None:
        self.group = group

    @abc.abstractmethod
    def iterate(self, n_batches: int) -> None:
        """Let the workers learn from a number of batches, which all of them share."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state to save between iterations, besides the group."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        del state


class Sync(Scheme):
    """All gradients of a round are summed up, and all workers go on with the same weights."""

    group: TrainingGroup

    def iterate(self, n_batches: int) -> None:
        """Go through rounds."""
        for _ in range(n_batches):
            self._round()

    def _round(self) -> None:
        group = self.group
        handles = self._gathered()
        given: list[int] = list(range(group.n_workers))
        while given:
            report = {number: group.take(handles[number]) for number in given}
            given = [number for number in given if not report[number].is_done]
            if given:
                # The largest norm is a setting of the agent, the same for all.
                group.update([handles[number] for number in given], report[given[0]].max_norm)
                group.record.staleness += [0] * len(given)
                weights = group.weights()
                for number in given:
                    handles[number] = group.pool.call(group.workers[number], "go_on", weights)
        group.record.n_batches += group.n_workers

    def _gathered(self) -> list[Handle]:
        """Let all workers gather, and replace those that die over it."""
        group = self.group
        weights = group.weights()
        handles = []
        for number, worker in enumerate(group.workers):
            handles.append(group.pool.call(worker, "gather", weights))
            group.clock.begin("worker", number, handles[number])
        out = set(range(group.n_workers))
        while out:
            event, number = group.clock.next()
            out.discard(number)
            if event == "death":  # its gradient is lost with it, even if its report had come
                group.replace(number)
                handles[number] = group.pool.call(group.workers[number], "gather", weights)
                group.clock.begin("worker", number, handles[number])
                out.add(number)
        return handles


class UnderWay(Scheme):
    """The base of schemes in which workers are under way while others are waited for."""

    _counted = "n_pushed"
    """Key in saved states of the number of messages of each worker since its start."""

    def __init__(self, group: WorkerGroup) -> None:
        super().__init__(group)
        self._under_way: dict[int, Handle] = {}
        self._fetched = [0] * group.n_workers
        self._n_messages = [0] * group.n_workers

    @abc.abstractmethod
    def _call(self, number: int, weights: list[Handle] | None) -> Handle:
        """Let a worker do its part, with new weights if there are any."""

    @property
    def _per_message(self) -> int:
        """Share of `DistributedOptions.fetch_every` that a message stands for."""
        return 1

    def _begin(self, number: int) -> None:
        """Send a worker off, with new weights if it is time for them."""
        group = self.group
        is_fresh = self._n_messages[number] * self._per_message % group.options.fetch_every == 0
        if is_fresh:
            self._fetched[number] = group.version
        handle = self._call(number, group.weights() if is_fresh else None)
        self._under_way[number] = handle
        group.clock.begin("worker", number, handle)

    def _begin_all(self) -> None:
        """Send off all workers that are not under way."""
        for number in range(self.group.n_workers):
            if number not in self._under_way:
                self._begin(number)

    def _next(self) -> tuple[str, int]:
        """Wait for the next event and return it with its number; successors of workers that have died are sent off."""
        while True:
            event, number = self.group.clock.next()
            if event != "death":
                return event, number
            self.group.replace(number)
            self._n_messages[number] = 0  # it has no weights yet
            self._begin(number)

    def _taken(self, number: int) -> tuple[Handle, Report]:
        """Take in the message of a worker."""
        handle = self._under_way.pop(number)
        self._n_messages[number] += 1
        return handle, self.group.take(handle)

    def _as_plain(self, content: Any) -> Any:
        """Return the content of a message as it is saved."""
        return content

    def _from_plain(self, plain: Any) -> Any:
        """Return the content of a message that was saved."""
        return plain

    def state_dict(self) -> dict[str, Any]:
        """Return the messages that are under way: they have been written, and have not come yet."""
        pool = self.group.pool
        messages = {
            str(number): {"content": self._as_plain(pool.content(one)), "told": pool.result_of(one).as_plain()}
            for number, one in sorted(self._under_way.items())
        }
        return {"messages": messages, "fetched": list(self._fetched), self._counted: list(self._n_messages)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self._under_way = {
            int(number): self.group.pool.keep(self._from_plain(one["content"]), Report.from_plain(one["told"]))
            for number, one in state["messages"].items()
        }
        self._fetched = [int(n) for n in state["fetched"]]
        self._n_messages = [int(n) for n in state[self._counted]]
        for number, handle in self._under_way.items():
            self.group.clock.resume("worker", number, handle)


class Loose(UnderWay):
    """The base of schemes in which workers push gradients while others are waited for."""

    group: TrainingGroup

    def _call(self, number: int, weights: list[Handle] | None) -> Handle:
        group, options = self.group, self.group.options
        return group.pool.call(
            group.workers[number],
            "contribute",
            weights,
            options.push_every,
            is_alone=max(options.push_every, options.fetch_every) > 1,
            is_clipped=self._is_clipped,
        )

    @property
    def _per_message(self) -> int:
        return self.group.options.push_every

    @property
    @abc.abstractmethod
    def _is_clipped(self) -> bool:
        """True if workers scale down their gradients themselves."""

    def _taken(self, number: int) -> tuple[Handle, Report]:
        self.group.record.n_batches += self.group.options.push_every
        return super()._taken(number)


class SyncBackup(Loose):
    """The first n gradients of a round count; those of the others are dropped when they come."""

    _is_clipped = False

    def iterate(self, n_batches: int) -> None:
        """Go through rounds."""
        group = self.group
        for _ in range(n_batches):
            self._begin_all()
            arrived: dict[int, tuple[Handle, Report]] = {}
            while len(arrived) < group.options.workers:
                _, number = self._next()
                message = self._taken(number)
                if self._fetched[number] == group.version:
                    arrived[number] = message
                else:
                    group.record.n_dropped += 1
                    self._begin(number)
            # The order of workers, not of messages: so the sum does not depend on who was first.
            ordered = [arrived[number] for number in sorted(arrived)]
            group.update([handle for handle, _ in ordered], ordered[0][1].max_norm)
            group.record.staleness += [0] * len(ordered)
        self._begin_all()


class Async(Loose):
    """Each gradient is used when it arrives, however old its weights are."""

    _is_clipped = True

    def iterate(self, n_batches: int) -> None:
        """Take messages, as many as workers would send in that many rounds."""
        group = self.group
        self._begin_all()
        n_left = n_batches * group.n_workers
        while n_left > 0:
            _, number = self._next()
            handle, _ = self._taken(number)
            n_left -= group.options.push_every
            staleness = group.version - self._fetched[number]
            limit = group.options.max_staleness
            if limit is not None and staleness > limit:
                group.record.n_dropped += 1
            else:
                group.update([handle], None)
                group.record.staleness.append(staleness)
            self._begin(number)


SCHEMES: dict[str, type[Scheme]] = {
    "sync": Sync,
    "sync_backup": SyncBackup,
    "async": Async,
    "ong": Async,
    "gorila": Async,
}
"""Schemes by name; those that share a class differ in how servers use gradients, see `RULES_OF`."""

RULES_OF = {"ong": "rmsprop"}
"""Default rule of the servers, where it is not the agent's own optimiser."""

STALENESS_OF = {"gorila": 100}
"""From which age on gradients are dropped by default."""

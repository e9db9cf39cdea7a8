"""Flows, and what they take: CPUs and links.

A flow is a parallel task or a message: one unit of work, done at one rate by all of its parts. Each of its demands
takes ``weight * rate`` of a resource.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from hdrl.settings.batch.simgrid.file import HostSpec, SimGridPlatform
from hdrl.settings.batch.simgrid.zones import ZoneLink

WINDOW_BYTES = 4194304.0
"""TCP's window: a flow gets at most this much per round trip."""


class Activity(Protocol):
    """Activity of an action of the engine."""

    def end(self) -> None:
        """React to the end of the action."""


class Resource:
    """A CPU or a link.

    Parameters
    ----------
    capacity
        Flop/s (all cores) or bytes/s.
    fatpipe
        True if flows do not share it.
    """

    __slots__ = ("capacity", "fatpipe", "users")

    def __init__(self, capacity: float, *, fatpipe: bool = False) -> None:
        self.capacity = capacity
        self.fatpipe = fatpipe
        self.users: dict[Flow, tuple[float, ...]] = {}
        """Weights (positive) of the demands of each flow that works, in the order in which they began to work."""

    def load(self) -> float:
        """Return the load by its flows, in the unit of its capacity."""
        users = self.users
        if len(users) == 1:
            ((flow, weights),) = users.items()
            if len(weights) == 1:
                return weights[0] * flow.rate
        total = 0.0
        for flow, weights in reversed(users.items()):
            for weight in reversed(weights):
                total += weight * flow.rate
        return total

    def taken(self, steps: Mapping[Flow, float]) -> list[float]:
        """Return the load of each demand when rates rise by some steps; the newest first, as SimGrid adds them up."""
        return [weight * steps[flow] for flow, weights in reversed(self.users.items()) for weight in reversed(weights)]


class Cpu(Resource):
    """The CPU of a host.

    Attributes
    ----------
    spec
        The host.
    pstate, speed_flops
        Its P-state, and the speed of one core in it, flop/s.
    machine
        The id of Batsim's machine on this host, or -1.
    """

    __slots__ = ("machine", "pstate", "spec", "speed_flops")

    def __init__(self, host: HostSpec) -> None:
        self.spec = host
        self.machine = -1
        super().__init__(0.0)
        self.set_pstate(host.pstate)

    def set_pstate(self, pstate: int) -> None:
        """Change the P-state, and the speed with it."""
        self.pstate = pstate
        self.speed_flops = self.spec.speeds_flops[pstate]
        self.capacity = self.spec.cores * self.speed_flops


class Links(Protocol):
    """The links of a platform as resources."""

    platform: SimGridPlatform

    def resource(self, link: ZoneLink) -> Resource:
        """Return a link as a resource."""


class Work:
    """Work of a flow: flop on hosts, and bytes between them.

    Parameters
    ----------
    cpus
        The host of each executor; a host may come more than once.
    transfers
        ``(from, to, bytes)`` for each pair of executors that exchange something.

    Attributes
    ----------
    machines
        The machines involved, those without work included.
    demands
        Weights (positive) on each shared resource.
    latency_s
        The latency of the longest route: it is waited for before any work is done.
    latency_limit
        The largest rate that latencies allow.
    crosses_links, nothing
        True if links are crossed, and whether there is nothing to do at all.
    rate_alone
        The rate of a flow that shares nothing with others, once it is known; speeds of hosts change it.
    """

    __slots__ = (
        "_speed_limit",
        "cpus",
        "crosses_links",
        "demands",
        "flops",
        "latency_limit",
        "latency_s",
        "machines",
        "nothing",
        "rate_alone",
    )

    def __init__(
        self, network: Links, cpus: Sequence[Cpu], flops: Sequence[float], transfers: Sequence[tuple[int, int, float]]
    ) -> None:
        self.cpus = cpus
        self.flops = flops
        self.machines = tuple({cpu.machine: None for cpu in cpus if cpu.machine >= 0})
        self.demands = _on_cpus(cpus, flops)
        self.latency_s = 0.0
        self.latency_limit = math.inf
        self.crosses_links = bool(transfers) and self._cross(network, transfers) > 0
        self.nothing = not self.crosses_links and not self.demands
        self.rate_alone: float | None = None
        self._speed_limit: float | None = None

    def invalidate_speeds(self) -> None:
        """Note that the speed of a host has changed."""
        self._speed_limit = self.rate_alone = None

    def limit(self) -> float:
        """Return the largest rate of the flow if it were alone on shared resources."""
        if self._speed_limit is None:
            lowest = math.inf
            for cpu, flops in zip(self.cpus, self.flops, strict=True):
                if flops > 0:
                    limit = cpu.speed_flops / flops
                    if limit < lowest:
                        lowest = limit
            self._speed_limit = lowest
        return min(self._speed_limit, self.latency_limit)

    def _cross(self, network: Links, transfers: Iterable[tuple[int, int, float]]) -> int:
        """Collect the demands on links; return how many are crossed."""
        on_links: dict[Resource, float] = {}
        worst = 0.0
        n_links = 0
        for source, target, size in transfers:
            route = network.platform.route(self.cpus[source].spec, self.cpus[target].spec)
            self.latency_s = max(self.latency_s, route.latency_s)
            worst = max(worst, route.latency_s * size)
            n_links += len(route.links)
            for link in route.links:
                resource = network.resource(link)
                before = on_links.get(resource, 0.0)
                on_links[resource] = max(before, size) if link.fatpipe else before + size
        self.demands += [(resource, (size,)) for resource, size in on_links.items()]
        if worst > 0:
            self.latency_limit = WINDOW_BYTES / (2.0 * worst)
        return n_links


class Flow:
    """Work that is being done: a parallel task or a message.

    Attributes
    ----------
    latency_s
        Latency still to wait before any work is done.
    flowing
        True if it can work: its latency is paid.
    rate
        Work per second, of the one unit that it has to do.
    demands, machines
        Demands and machines of its work.
    serial
        Its position in the order of creation of all actions, -1 before it begins and after its end.
    row
        Its row in the engine's table, -1 while it stands still.
    remains
        Remaining work while it stands still.
    """

    __slots__ = (
        "demands",
        "flowing",
        "latency_s",
        "machines",
        "owner",
        "rate",
        "remains",
        "row",
        "serial",
        "work",
    )

    def __init__(self, work: Work, owner: Activity | None = None) -> None:
        self.work = work
        self.owner = owner
        self.demands = work.demands
        self.machines = work.machines
        self.latency_s = work.latency_s
        self.flowing = self.latency_s <= 0
        self.rate = 0.0
        self.remains = 0.0 if work.nothing else 1.0
        self.row = -1
        self.serial = -1


def _on_cpus(cpus: Sequence[Cpu], flops: Sequence[float]) -> list[tuple[Resource, tuple[float, ...]]]:
    """Return the demands on each host that has something to compute."""
    if len(set(cpus)) == len(cpus):
        return [(cpu, (amount,)) for cpu, amount in zip(cpus, flops, strict=True) if amount > 0]
    weights: dict[Resource, list[float]] = {}
    for cpu, amount in zip(cpus, flops, strict=True):
        if amount > 0:
            weights.setdefault(cpu, []).append(amount)
    return [(cpu, tuple(amounts)) for cpu, amounts in weights.items()]


def transfers_of_matrix(n: int, sizes: Sequence[float]) -> list[tuple[int, int, float]]:
    """Return ``(from, to, bytes)`` of an ``n x n`` matrix, row by row, without the zeros."""
    return [(k // n, k % n, float(size)) for k, size in enumerate(sizes) if size > 0]

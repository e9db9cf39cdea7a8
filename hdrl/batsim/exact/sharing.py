"""How flows share CPUs and links: the fair bottleneck of SimGrid's model of parallel tasks (ptask_L07).

A flow is a parallel task or a one-byte transfer: one unit of work, done at one rate by all of its parts. Each of
its demands takes ``weight * rate`` of a resource. Rates rise together until, one after the other, resources are
used up and flows reach their own limit.

Flows that share nothing do not influence each other, so only what is connected to a change is solved again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from hdrl.batsim.exact.platform import HostSpec, Link, SimGridPlatform

USAGE_PRECISION = 1e-5
"""What is left of a resource counts as nothing below this (flop/s or bytes/s)."""

WINDOW_BYTES = 4194304.0
"""TCP's window: a flow gets at most this much per round trip."""


class Activity(Protocol):
    """What stands behind an action of the engine."""

    def end(self) -> None:
        """Do what has to be done when the action is over."""


class Resource:
    """A CPU, or a link whose flows share it.

    Parameters
    ----------
    capacity
        Flop/s (all cores) or bytes/s.
    """

    __slots__ = ("capacity", "users")

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        self.users: dict[Flow, tuple[float, ...]] = {}
        """Weights (positive) of the demands of each flow, in the order in which the flows came."""

    def load(self) -> float:
        """Return what its flows take of it, in the unit of its capacity."""
        total = 0.0
        for flow, weights in self.users.items():
            if flow.flowing:
                for weight in weights:
                    total += weight * flow.rate
        return total


class Cpu(Resource):
    """The CPU of a host.

    Parameters
    ----------
    host
        The host.

    Attributes
    ----------
    spec
        The host.
    pstate
        Its P-state.
    machine
        The id of Batsim's machine on this host, or -1.
    """

    __slots__ = ("machine", "pstate", "spec")

    def __init__(self, host: HostSpec) -> None:
        self.spec = host
        self.machine = -1
        self.pstate = host.pstate
        super().__init__(host.cores * host.speeds_flops[host.pstate])

    @property
    def speed_flops(self) -> float:
        """Speed of one core, flop/s."""
        return self.spec.speeds_flops[self.pstate]


class Work:
    """What a flow has to do: flop on hosts, and bytes between them.

    Parameters
    ----------
    network
        The shared resources.
    cpus
        The host of each executor; a host may come more than once.
    flops
        The work of each executor.
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
    network_limit
        The largest rate that latencies and fat pipes allow.
    nothing
        Whether there is nothing to do at all.
    """

    __slots__ = ("cpus", "demands", "flops", "latency_s", "machines", "network_limit", "nothing")

    def __init__(
        self, network: Network, cpus: Sequence[Cpu], flops: Sequence[float], transfers: Iterable[tuple[int, int, float]]
    ) -> None:
        self.cpus = cpus
        self.flops = flops
        self.machines = tuple({cpu.machine: None for cpu in cpus if cpu.machine >= 0})
        on_cpus: dict[Resource, list[float]] = {}
        for cpu, amount in zip(cpus, flops, strict=True):
            if amount > 0:
                on_cpus.setdefault(cpu, []).append(amount)
        self.demands = [(resource, tuple(weights)) for resource, weights in on_cpus.items()]
        self.latency_s = 0.0
        self.network_limit = math.inf
        n_links = self._cross(network, transfers)
        self.nothing = n_links == 0 and not on_cpus

    def _cross(self, network: Network, transfers: Iterable[tuple[int, int, float]]) -> int:
        """Collect what is asked of links; return how many are crossed."""
        shared: dict[Resource, float] = {}
        piped: dict[Link, float] = {}
        worst = 0.0
        n_links = 0
        for source, target, size in transfers:
            route = network.platform.route(self.cpus[source].spec, self.cpus[target].spec)
            self.latency_s = max(self.latency_s, route.latency_s)
            worst = max(worst, route.latency_s * size)
            n_links += len(route.links)
            for link in route.links:
                if link.fatpipe:
                    piped[link] = max(piped.get(link, 0.0), size)
                else:
                    resource = network.resource(link)
                    shared[resource] = shared.get(resource, 0.0) + size
        self.demands += [(resource, (size,)) for resource, size in shared.items()]
        if worst > 0:
            self.network_limit = WINDOW_BYTES / (2.0 * worst)
        for link, size in piped.items():
            self.network_limit = min(self.network_limit, link.bandwidth_bytes_per_s / size)
        return n_links


class Flow:
    """Work that is being done: a parallel task or a message.

    Parameters
    ----------
    work
        What there is to do.

    Attributes
    ----------
    latency_s
        What is left to wait before any work is done.
    flowing
        Whether it can work, that is whether its latency is paid.
    rate
        Work per second, of the one unit that it has to do.
    demands, machines
        Those of its work.
    owner
        What ends with it.
    serial
        Its place in the order of creation of all actions.
    """

    __slots__ = (
        "_speed_limit",
        "_speeds_stale",
        "demands",
        "flowing",
        "latency_s",
        "machines",
        "owner",
        "rate",
        "serial",
        "work",
    )

    def __init__(self, work: Work) -> None:
        self.work = work
        self.demands = work.demands
        self.machines = work.machines
        self.latency_s = work.latency_s
        self.flowing = self.latency_s <= 0
        self.rate = 0.0
        self.serial = -1
        self.owner: Activity | None = None
        self._speed_limit = math.inf
        self._speeds_stale = True

    def enter(self) -> None:
        """Register with the resources."""
        for resource, weights in self.demands:
            resource.users[self] = weights

    def leave(self) -> None:
        """Take the flow out of the resources."""
        for resource, _ in self.demands:
            resource.users.pop(self, None)

    def forget_speeds(self) -> None:
        """Note that the speed of a host has changed."""
        self._speeds_stale = True

    def limit(self) -> float:
        """Return the largest rate that the flow could have if it were alone on shared resources."""
        if self._speeds_stale:
            self._speeds_stale = False
            self._speed_limit = math.inf
            for cpu, flops in zip(self.work.cpus, self.work.flops, strict=True):
                if flops > 0:
                    self._speed_limit = min(self._speed_limit, cpu.speed_flops / flops)
        return min(self._speed_limit, self.work.network_limit)


class Network:
    """The shared resources of a platform, and the flows whose rates have to be found again.

    Parameters
    ----------
    platform
        The platform.

    Attributes
    ----------
    cpus
        The CPU of each host, in the order of the platform's hosts.
    """

    def __init__(self, platform: SimGridPlatform) -> None:
        self.platform = platform
        self.cpus = [Cpu(host) for host in platform.hosts]
        self._links: dict[Link, Resource] = {}
        self._messages: dict[tuple[Cpu, Cpu, float], Work] = {}
        self._dirty: dict[Flow, None] = {}

    def message(self, source: Cpu, target: Cpu, n_bytes: float) -> Work:
        """Return the work of sending some bytes from one host to another."""
        key = (source, target, n_bytes)
        found = self._messages.get(key)
        if found is None:
            found = self._messages[key] = Work(self, (source, target), (0.0, 0.0), ((0, 1, n_bytes),))
        return found

    def resource(self, link: Link) -> Resource:
        """Return the resource of a link that is shared."""
        found = self._links.get(link)
        if found is None:
            found = self._links[link] = Resource(link.bandwidth_bytes_per_s)
        return found

    def add(self, flow: Flow) -> None:
        """Let a flow take part."""
        flow.enter()
        if flow.flowing:
            self._dirty[flow] = None

    def awake(self, flow: Flow) -> None:
        """Let a flow work: its latency is paid."""
        flow.flowing = True
        self._dirty[flow] = None

    def remove(self, flow: Flow) -> None:
        """Take a flow out; those that shared something with it are solved again."""
        flow.leave()
        self._dirty.pop(flow, None)
        for resource, _ in flow.demands:
            for other in resource.users:
                self._dirty[other] = None

    def set_pstate(self, cpu: Cpu, pstate: int) -> None:
        """Change the speed of a host; the work already done is kept."""
        cpu.pstate = pstate
        cpu.capacity = cpu.spec.cores * cpu.speed_flops
        for flow in cpu.users:
            flow.forget_speeds()
            self._dirty[flow] = None

    def solve(self) -> list[Flow]:
        """Find the rates again where something has changed; return the flows concerned."""
        if not self._dirty:
            return []
        concerned = [flow for flow in self._dirty if flow.flowing]
        self._dirty.clear()
        seen = set(concerned)
        for flow in concerned:  # grows while it is walked
            for resource, _ in flow.demands:
                if len(resource.users) > 1:
                    for other in resource.users:
                        if other.flowing and other not in seen:
                            seen.add(other)
                            concerned.append(other)
        share_out(concerned)
        return concerned


def share_out(flows: Iterable[Flow]) -> None:
    """Set the rates of flows that share resources with no other flow.

    Parameters
    ----------
    flows
        All flows of some resources, in any order.
    """
    live = []
    left: dict[Resource, float] = {}
    limits: dict[Flow, float] = {}
    for flow in flows:
        flow.rate = 0.0
        limit = limits[flow] = flow.limit()
        if flow.demands:
            live.append(flow)
            for resource, _ in flow.demands:
                left[resource] = resource.capacity
        else:
            flow.rate = 1.0 if limit == math.inf else limit
    while live:
        steps = _raise(live, _shares(left, set(live)), limits)
        closed = _use(left, steps)
        live = [flow for flow in live if flow.rate != limits[flow] and flow not in closed]


def _shares(left: dict[Resource, float], live: set[Flow]) -> dict[Resource, float]:
    """Share what is left of each resource between the demands on it; forget resources that nobody wants."""
    shares = {}
    for resource in list(left):
        n_demands = 0
        for flow, weights in resource.users.items():
            if flow in live:
                n_demands += len(weights)
        if n_demands:
            shares[resource] = left[resource] / n_demands
        else:
            del left[resource]
    return shares


def _raise(live: list[Flow], shares: dict[Resource, float], limits: dict[Flow, float]) -> dict[Flow, float]:
    """Raise each rate by what its scarcest resource gives; return the increments."""
    steps = {}
    for flow in live:
        step = limits[flow] - flow.rate
        for resource, weights in flow.demands:
            share = shares.get(resource, 0.0)
            for weight in weights:
                step = min(step, share / weight)
        flow.rate += step
        steps[flow] = step
    return steps


def _use(left: dict[Resource, float], steps: dict[Flow, float]) -> set[Flow]:
    """Take the increments from the resources; return the flows on those that are used up."""
    closed: set[Flow] = set()
    for resource in list(left):
        rest = left[resource]
        for flow, weights in resource.users.items():
            step = steps.get(flow)
            if step is not None:
                for weight in weights:
                    rest -= weight * step
                    if rest < USAGE_PRECISION:
                        rest = 0.0
        if rest > 0:
            left[resource] = rest
        else:
            del left[resource]
            closed.update(resource.users)
    return closed


def transfers_of_matrix(n: int, sizes: Sequence[float]) -> list[tuple[int, int, float]]:
    """Return ``(from, to, bytes)`` of an ``n x n`` matrix, row by row, without the zeros."""
    matrix = np.asarray(sizes, dtype=np.float64)
    return [(int(k) // n, int(k) % n, float(matrix[k])) for k in np.flatnonzero(matrix > 0)]

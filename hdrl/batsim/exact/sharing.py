"""Sharing of CPUs and links among flows: the fair bottleneck of SimGrid's model of parallel tasks (ptask_L07).

Rates rise together until, one after the other, resources are used up and flows reach their own limit. Flows that share
nothing do not influence each other, so only what is connected to a change is solved again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from hdrl.batsim.exact.flows import Cpu, Flow, Resource, Work
from hdrl.settings.batch.simgrid.file import SimGridPlatform
from hdrl.settings.batch.simgrid.zones import ZoneLink

USAGE_PRECISION = 1e-5
"""Threshold below which the rest of a resource counts as zero (flop/s or bytes/s)."""

_MOST_ROUNDS = 10_000
"""Of the solver, so that it ends in any case."""

_ROUNDS_ONE_BY_ONE = 100
"""Rounds of the solver before it looks for many that are alike. In SimGrid the rate of a flow on a fat pipe grows
beyond the pipe while slower flows are on it too, for millions of rounds if they are much slower."""


class SharedNetwork:
    """The shared resources of a platform, and the flows whose rates have to be found again."""

    def __init__(self, platform: SimGridPlatform) -> None:
        self.platform = platform
        self.cpus = [Cpu(host) for host in platform.hosts]
        self._links: dict[ZoneLink, Resource] = {}
        self._messages: dict[tuple[Cpu, Cpu, float], Work] = {}
        self.dirty: dict[Flow, None] = {}
        """Flows that have begun to work, or shared a resource with one that has begun or ended."""

    def message(self, source: Cpu, target: Cpu, n_bytes: float) -> Work:
        """Return the work of sending some bytes from one host to another."""
        key = (source, target, n_bytes)
        found = self._messages.get(key)
        if found is None:
            found = self._messages[key] = Work(self, (source, target), (0.0, 0.0), ((0, 1, n_bytes),))
        return found

    def resource(self, link: ZoneLink) -> Resource:
        """Return the resource of a link."""
        found = self._links.get(link)
        if found is None:
            found = self._links[link] = Resource(link.bandwidth_bytes_per_s, fatpipe=link.fatpipe)
        return found

    def add(self, flow: Flow) -> None:
        """Let a flow take part."""
        if flow.flowing:
            self.awake(flow)

    def awake(self, flow: Flow) -> None:
        """Let a flow work: its latency is paid."""
        flow.flowing = True
        for resource, weights in flow.demands:
            resource.users[flow] = weights
        self.dirty[flow] = None

    def remove(self, flow: Flow) -> None:
        """Take a flow out; those that shared something with it are solved again."""
        self.dirty.pop(flow, None)
        for resource, _ in flow.demands:
            users = resource.users
            users.pop(flow, None)
            for other in users:
                self.dirty[other] = None

    def set_pstate(self, cpu: Cpu, pstate: int) -> None:
        """Change the speed of a host; the work already done is kept."""
        cpu.set_pstate(pstate)
        for flow in cpu.users:
            flow.work.invalidate_speeds()
            self.dirty[flow] = None

    def solve(self) -> list[Flow]:
        """Find the rates again where something has changed; return the flows concerned."""
        alone, sharing = [], []
        for flow in self.dirty:
            for resource, _ in flow.demands:
                if len(resource.users) > 1:
                    sharing.append(flow)
                    break
            else:
                _solve_alone(flow)
                alone.append(flow)
        self.dirty.clear()
        if sharing:
            self._solve_together(sharing)
        return alone + sharing

    def _solve_together(self, concerned: list[Flow]) -> None:
        """Find the rates of flows, and of all that share something with them; add these to the list."""
        seen = set(concerned)
        for flow in concerned:  # grows while it is walked
            for resource, _ in flow.demands:
                if len(resource.users) > 1:
                    for other in resource.users:
                        if other not in seen:
                            seen.add(other)
                            concerned.append(other)
        share_out(concerned)


def _solve_alone(flow: Flow) -> None:
    """Set the rate of a flow that shares nothing: all messages of one way have the same, as if solved anew."""
    work = flow.work
    if work.rate_alone is None:
        work.rate_alone = _rate_after_one_round(work)
        if work.rate_alone is None:
            share_out((flow,))
            work.rate_alone = flow.rate
    flow.rate = work.rate_alone


def _rate_after_one_round(work: Work) -> float | None:
    """Return the rate that `share_out` gives a flow that shares nothing, `None` if it takes more than one round."""
    limit = rate = work.limit()
    for resource, weights in work.demands:
        if len(weights) > 1:
            return None
        share = resource.capacity / weights[0]
        if share < rate:
            rate = share
    if not work.demands:
        return 1.0
    if rate == limit:
        return rate
    is_used_up = (resource.capacity - weights[0] * rate < USAGE_PRECISION for resource, weights in work.demands)
    return rate if any(is_used_up) else None


def share_out(flows: Iterable[Flow]) -> None:
    """Set the rates of all flows of some resources, which no other flow shares."""
    live = []
    left: dict[Resource, float] = {}
    limits: dict[Flow, float] = {}
    for flow in flows:
        flow.rate = 0.0
        limits[flow] = flow.work.limit()
        if flow.demands:
            live.append(flow)
            for resource, _ in flow.demands:
                left[resource] = resource.capacity
        else:
            flow.rate = 1.0
    steps: dict[Flow, float] = {}
    for n_rounds in range(_MOST_ROUNDS):
        if not live:
            return
        if n_rounds == _ROUNDS_ONE_BY_ONE:
            _skip_rounds(live, left, limits, steps)
        shares = _shares(left, set(live))
        _raise(live, shares, limits, steps)
        closed = _use(left, shares, steps)
        live = [flow for flow in live if flow.rate != limits[flow] and flow not in closed]


def _skip_rounds(
    live: list[Flow], left: dict[Resource, float], limits: dict[Flow, float], steps: dict[Flow, float]
) -> None:
    """Do at once the rounds in which a flow that has a fat pipe for itself takes the same less of it each time."""
    if len(live) != 1 or len(live[0].demands) != 1 or limits[live[0]] != math.inf:
        return
    flow = live[0]
    pipe, (weight, *more) = flow.demands[0]
    others = [amount for amount in pipe.taken({**steps, flow: math.inf}) if amount < math.inf]
    if more or not pipe.fatpipe or not others or min(others) <= 0 or pipe not in left:
        return
    used = min(others)
    n_rounds = math.floor(left[pipe] / used) - 1
    if n_rounds > 0:
        flow.rate += (n_rounds * left[pipe] - used * n_rounds * (n_rounds - 1) / 2) / weight
        left[pipe] -= n_rounds * used


def _shares(left: dict[Resource, float], live: set[Flow]) -> dict[Resource, float]:
    """Share the rest of each resource between the demands on it; forget resources without demands."""
    shares = {}
    for resource in list(left):
        n_demands = 0
        for flow, weights in resource.users.items():
            if flow in live:
                n_demands += len(weights)
        if n_demands:
            shares[resource] = left[resource] if resource.fatpipe else left[resource] / n_demands
        else:
            del left[resource]
    return shares


def _raise(
    live: list[Flow], shares: dict[Resource, float], limits: dict[Flow, float], steps: dict[Flow, float]
) -> None:
    """Raise each rate by what its scarcest resource gives, and note by how much."""
    for flow in live:
        step = limits[flow] - flow.rate
        for resource, weights in flow.demands:
            share = shares.get(resource, 0.0)
            for weight in weights:
                step = min(step, share / weight)
        flow.rate += step
        steps[flow] = step


def _use(left: dict[Resource, float], shares: dict[Resource, float], steps: dict[Flow, float]) -> set[Flow]:
    """Take the last step of every flow from its resources; return the flows on those that are used up.

    Flows whose rate is final are counted again, with their last step: SimGrid's solver does so.
    """
    closed: set[Flow] = set()
    for resource in list(left):
        rest = left[resource]
        used = resource.taken(steps)
        for amount in (min(shares[resource], *used),) if resource.fatpipe else used:
            rest -= amount
            if rest < USAGE_PRECISION:
                rest = 0.0
        if rest > 0:
            left[resource] = rest
        else:
            del left[resource]
            closed.update(resource.users)
    return closed

"""A SimGrid platform file as it stands: hosts, links, zones, and the routes between hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from hdrl.settings.batch.platform.build import message_time_s

MASTER_HOST = "master_host"
"""The host on which Batsim runs its server."""

SHARED = "SHARED"
SPLITDUPLEX = "SPLITDUPLEX"
FATPIPE = "FATPIPE"
SHARING_POLICIES = (SHARED, SPLITDUPLEX, FATPIPE)

DIRECTIONS = ("NONE", "UP", "DOWN")
OPPOSITE = {"NONE": "NONE", "UP": "DOWN", "DOWN": "UP"}

Hop = tuple[str, str]
"""A link on a route: its name and the direction (``"NONE"`` unless the link is split)."""


@dataclass(frozen=True, slots=True)
class SimgridHost:
    """A host.

    Attributes
    ----------
    name
        Its name.
    speeds_flops
        Speed of one of its cores in each P-state, flop/s.
    pstate
        P-state at date 0.
    cores
        Number of its cores.
    properties
        Its properties, as written.
    """

    name: str
    speeds_flops: tuple[float, ...]
    pstate: int
    cores: int
    properties: dict[str, str]

    @property
    def role(self) -> str:
        """Batsim's role of the host: empty, ``"compute_node"``, ``"storage"`` or ``"master"``."""
        return self.properties.get("role", "")


@dataclass(frozen=True, slots=True)
class SimgridLink:
    """A link: bandwidth in bytes per second, latency in seconds, one of `SHARING_POLICIES`."""

    name: str
    bandwidth_bytes_per_s: float
    latency_s: float
    sharing_policy: str


@dataclass(frozen=True, slots=True)
class SimgridZone:
    """A zone with full routing.

    Attributes
    ----------
    name
        Its name.
    ancestors
        Indices of the zones around it, outermost first, itself last.
    routes
        Hops by the names of both ends.
    zone_routes
        Gateways of both sides and hops, by the names of both zones.
    properties
        Its properties, as written.
    """

    name: str
    ancestors: tuple[int, ...]
    routes: dict[tuple[str, str], tuple[Hop, ...]] = field(default_factory=dict)
    zone_routes: dict[tuple[str, str], tuple[str, str, tuple[Hop, ...]]] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SimgridNetwork:
    """All of a platform file.

    Attributes
    ----------
    hosts, links
        By name, in the order of the file.
    zones
        The zones, outer ones before inner ones.
    zone_of
        Index of the zone of each host and router.
    """

    hosts: dict[str, SimgridHost]
    links: dict[str, SimgridLink]
    zones: tuple[SimgridZone, ...]
    zone_of: dict[str, int]

    def compute_hosts(self) -> list[SimgridHost]:
        """Return the hosts that run jobs, in Batsim's order: by name, as text."""
        chosen = [host for host in self.hosts.values() if host.name != MASTER_HOST and host.role != "storage"]
        return sorted(chosen, key=lambda host: host.name)

    def route(self, source: str, target: str) -> tuple[Hop, ...]:
        """Return the hops from one host to another.

        Raises
        ------
        ValueError
            If there is no route; the message is one line.
        """
        start, end = self.zones[self.zone_of[source]].ancestors, self.zones[self.zone_of[target]].ancestors
        if start == end:
            hops = self.zones[start[-1]].routes.get((source, target))
            if hops is None:
                raise ValueError(f"no route from {source!r} to {target!r}")
            return hops
        depth = sum(1 for a, b in zip(start, end, strict=False) if a == b)
        if depth in (0, len(start), len(end)):
            raise ValueError(f"no route from {source!r} to {target!r}: their zones are not side by side")
        common, left, right = self.zones[start[depth - 1]], self.zones[start[depth]], self.zones[end[depth]]
        found = common.zone_routes.get((left.name, right.name))
        if found is None:
            raise ValueError(f"no zoneRoute from {left.name!r} to {right.name!r}")
        way_out, way_in, hops = found
        return self._within(source, way_out, start[depth]) + hops + self._within(way_in, target, end[depth])

    def _within(self, source: str, target: str, zone: int) -> tuple[Hop, ...]:
        """Return the hops between two points of a zone; none if they are the same one."""
        for point in (source, target):
            if zone not in self.zones[self.zone_of[point]].ancestors:
                raise ValueError(f"gateway {point!r} is not in zone {self.zones[zone].name!r}")
        return () if source == target else self.route(source, target)

    def message(self, hops: Iterable[Hop]) -> tuple[float, float]:
        """Return time and latency of one byte on an idle route, in seconds."""
        hops = list(hops)
        bandwidths = []
        for (name, _), times in Counter(hops).items():
            link = self.links[name]
            # a flow that crosses a link twice gets half of it
            bandwidths.append(link.bandwidth_bytes_per_s / (1 if link.sharing_policy == FATPIPE else times))
        latency_s = 0.0
        for name, _ in hops:
            latency_s += self.links[name].latency_s
        return message_time_s(bandwidths, latency_s), latency_s

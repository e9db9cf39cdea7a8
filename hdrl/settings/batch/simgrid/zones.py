"""Links, and the routing zones of a platform: which links a route within a zone crosses."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False, repr=False)
class ZoneLink:
    """A link, or one direction of a split-duplex link."""

    name: str  # its name, with ``_UP`` or ``_DOWN`` for a direction
    # bandwidth, and latency
    bandwidth_bytes_per_s: float
    latency_s: float
    fatpipe: bool = False  # True if every flow has the whole bandwidth for itself


@dataclass(slots=True, eq=False, repr=False)
class Route:
    """The links between two hosts, and the sum of their latencies in seconds."""

    links: tuple[ZoneLink, ...]
    latency_s: float


@dataclass(slots=True, eq=False, repr=False)
class Zone:
    """A routing zone: routes between its own points, and between its child zones through gateways."""

    # its name, and the zone that it is in
    name: str
    parent: Zone | None
    routes: dict[tuple[str, str], tuple[ZoneLink, ...]] = field(default_factory=dict)  # links from one point to another
    # gateway, entrance and links between them, from one child zone to another
    zone_routes: dict[tuple[str, str], tuple[str, str, tuple[ZoneLink, ...]]] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)  # its own properties

    def ancestry(self) -> list[Zone]:
        """Return the zones from the outermost one to this one."""
        return [*(self.parent.ancestry() if self.parent else []), self]

    def all_properties(self) -> dict[str, str]:
        """Return its properties, and those of the zones around it that it does not have itself."""
        result: dict[str, str] = {}
        for zone in self.ancestry():
            result |= zone.properties
        return result

    def links(self, source: str, target: str) -> tuple[ZoneLink, ...] | None:
        """Return the links from one of its points to another, ``None`` if there is no route."""
        return self.routes.get((source, target))

    def extra_latency_s(self, source: str, target: str) -> float:  # noqa: ARG002 - for zones that know of it
        """Return the latency between two of its points beyond that of the links."""
        return 0.0


@dataclass(slots=True, eq=False, repr=False)
class ClusterZone(Zone):
    """A cluster: each host has a link, and all share a backbone."""

    # link of each host to the backbone, and back; its router has none
    up: dict[str, ZoneLink] = field(default_factory=dict)
    down: dict[str, ZoneLink] = field(default_factory=dict)
    backbone: ZoneLink | None = None  # the backbone, if there is one
    loopback: dict[str, ZoneLink] = field(default_factory=dict)  # link of each host to itself, if there is one

    def links(self, source: str, target: str) -> tuple[ZoneLink, ...] | None:
        """Return the links up from one point and down to another."""
        if source == target and source in self.loopback:
            return (self.loopback[source],)
        crossed = (self.up.get(source), self.backbone, self.down.get(target))
        return tuple(dict.fromkeys(link for link in crossed if link is not None))


@dataclass(slots=True, eq=False, repr=False)
class VivaldiZone(Zone):
    """Hosts in a space: latencies are distances, and no link is crossed."""

    # coordinates of each host, in milliseconds; the last one is a height
    positions: dict[str, tuple[float, float, float]] = field(default_factory=dict)

    def links(self, source: str, target: str) -> tuple[ZoneLink, ...] | None:
        """Return no link, if both have coordinates."""
        return () if source in self.positions and target in self.positions else None

    def extra_latency_s(self, source: str, target: str) -> float:
        """Return the distance of two hosts in the plane, with the heights of both."""
        (x, y, height), (other_x, other_y, other_height) = self.positions[source], self.positions[target]
        return (math.hypot(x - other_x, y - other_y) + abs(height) + abs(other_height)) / 1000.0

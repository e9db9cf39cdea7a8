"""SimGrid platforms as Batsim uses them: hosts, links and the routes between hosts.

Zones with full routing, flat clusters and Vivaldi zones are read, of versions 3 to 4.1; what has no influence on jobs
(configuration, disks, storages, actors) is let through, and everything else is refused by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hdrl.base.errors import PlatformError, ReadError, suggest
from hdrl.base.files import read_text
from hdrl.base.textnumbers import float_of
from hdrl.settings.batch.simgrid.quantities import BANDWIDTH_UNITS, SPEED_UNITS, TIME_UNITS, quantity
from hdrl.settings.batch.simgrid.zones import ClusterZone, Route, VivaldiZone, Zone, ZoneLink

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MASTER_HOST = "master_host"
"""The host on which Batsim runs its server, unless the caller names another."""

SPLITDUPLEX = "SPLITDUPLEX"

LOOPBACK_BYTES_PER_S = 1e10
"""Bandwidth of the loopback that SimGrid adds where a host has no route to itself."""

_WITHOUT_INFLUENCE = (
    "config",
    "disk",
    "storage",
    "storage_type",
    "mount",
    "actor",
    "process",
    "trace",
    "trace_connect",
)
"""Elements that say nothing about hosts, links or routes of jobs."""

_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "platform": ("version",),
    "zone": ("id", "routing"),
    "host": (
        *("id", "speed", "power", "pstate", "core", "coordinates", "availability", "state"),
        *("availability_file", "state_file", "speed_file"),
    ),
    "cluster": (
        *("id", "prefix", "suffix", "radical", "speed", "power", "pstate", "core", "bw", "lat", "sharing_policy"),
        *("topology", "topo_parameters", "bb_bw", "bb_lat", "bb_sharing_policy", "router_id", "limiter_link"),
        *("loopback_bw", "loopback_lat", "availability", "state", "availability_file", "state_file", "speed_file"),
    ),
    "router": ("id", "coordinates"),
    "link": ("id", "bandwidth", "latency", "sharing_policy", "state", "bandwidth_file", "latency_file", "state_file"),
    "route": ("src", "dst", "symmetrical"),
    "zoneRoute": ("src", "dst", "gw_src", "gw_dst", "symmetrical"),
    "link_ctn": ("id", "direction"),
    "prop": ("id", "value"),
}
"""Attributes that elements may have."""

_CHILDREN: Mapping[str, tuple[str, ...]] = {
    "host": ("prop",),
    "router": ("prop",),
    "link": ("prop",),
    "cluster": ("prop",),
    "route": ("link_ctn",),
    "zoneRoute": ("link_ctn",),
    "link_ctn": (),
    "prop": (),
}
"""Elements inside others than zones, besides those without influence."""

_ZONE_TAGS = ("prop", "host", "router", "link", "zone", "cluster", "route", "zoneRoute")
_NEW_TAGS = {"AS": "zone", "ASroute": "zoneRoute"}
_ROUTINGS = {"Full": Zone, "None": Zone, "Vivaldi": VivaldiZone}
_POLICIES = ("SHARED", "FATPIPE", SPLITDUPLEX)
_VERSIONS = ("3", "4", "4.1")
_DEEPEST_ZONE = 50
_MOST_CORES = 1_000_000
_MOST_HOSTS = 1_000_000


@dataclass(slots=True, eq=False, repr=False)
class HostSpec:
    """A host as the platform file describes it."""

    index: int  # its position in the file, from 0
    name: str  # its name
    speeds_flops: tuple[float, ...]  # speed of one of its cores in each P-state, flop/s
    pstate: int  # p-state at date 0
    cores: int  # its number of cores
    # power at no load, at nearly no load and at full load in each P-state, or ``None`` if not given
    watts: tuple[tuple[float, float, float], ...] | None
    # its own properties, and those of its zone
    properties: dict[str, str]
    zone_properties: dict[str, str]


class SimGridPlatform:
    """Hosts in the order of the file, and the routes between them.

    Parameters
    ----------
    path
        A SimGrid XML file, version 4 or 4.1.

    Raises
    ------
    ReadError
        If the file cannot be read or is no well-formed XML.
    PlatformError
        If it describes what is not simulated, or makes no sense.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.hosts: list[HostSpec] = []
        self.loopback = ZoneLink("__loopback__", LOOPBACK_BYTES_PER_S, 0.0, fatpipe=True)
        self._links: dict[str, ZoneLink] = {}
        self._zone_of: dict[str, Zone] = {}
        self._cache: dict[tuple[int, int], Route] = {}
        self._children: dict[str, dict[str, None]] = {}  # names of the zones in each zone, in the order of the file
        self._zone_names: set[str] = set()
        self._warned: set[tuple[str | None, ...]] = set()
        root = _parse(self.path)
        if root.tag != "platform":
            raise self._error(f"<{root.tag[:40]}> is the outermost element, expected <platform>")
        self._check(root)
        if self._need(root, "version") not in _VERSIONS:
            raise self._error(f"<platform>: version is {root.get('version')!r}, expected {', '.join(_VERSIONS)}")
        for element in root:
            if element.tag in ("zone", "AS"):
                self._read_zone(element, None)
            elif element.tag not in _WITHOUT_INFLUENCE:
                raise self._error(f"<{element.tag}> is not simulated outside of a zone")
        if not self.hosts:
            raise self._error("has no host")

    def host_named(self, name: str) -> HostSpec:
        """Return a host by its name; raise `PlatformError` if there is none."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise self._error(f"no host {name!r}; {suggest(name, (host.name for host in self.hosts))}")

    def master(self, name: str = MASTER_HOST) -> HostSpec:
        """Return the host that runs no jobs: the one of that name, else the one whose role is ``master``.

        Raises
        ------
        PlatformError
            If there is none.
        """
        named = [host for host in self.hosts if host.name == name]
        named = named or [host for host in self.hosts if host.properties.get("role") == "master"]
        if not named:
            near = suggest(name, (host.name for host in self.hosts))
            raise self._error(f"no host {name!r}, on which Batsim runs, and none with the role 'master'; {near}")
        return named[0]

    def route(self, source: HostSpec, target: HostSpec) -> Route:
        """Return the route from one host to another; raise `PlatformError` if there is none."""
        key = (source.index, target.index)
        found = self._cache.get(key)
        if found is None:
            links = self._links_between(source.name, target.name)
            latency_s = self._extra_latency_s(source.name, target.name)
            for link in links:
                latency_s += link.latency_s
            found = self._cache[key] = Route(links, latency_s)
        return found

    def _extra_latency_s(self, source: str, target: str) -> float:
        zone = self._zone_of[source]
        return zone.extra_latency_s(source, target) if zone is self._zone_of[target] else 0.0

    def _links_between(self, source: str, target: str) -> tuple[ZoneLink, ...]:
        here, there = self._zone_of[source], self._zone_of[target]
        if here is there:
            links = here.links(source, target)
            if links is None and source == target:
                links = (self.loopback,)
            return links or ()  # without a route SimGrid crosses no link: messages take no time
        ours, theirs = here.ancestry(), there.ancestry()
        depth = 0
        while depth < min(len(ours), len(theirs)) and ours[depth] is theirs[depth]:
            depth += 1
        if depth in (0, len(ours), len(theirs)):
            raise self._error(f"no route from {source!r} to {target!r}: their zones are not beside each other")
        between = ours[depth - 1].zone_routes.get((ours[depth].name, theirs[depth].name))
        if between is None:
            raise self._error(f"zone {ours[depth - 1].name!r} has no route from {source!r} to {target!r}")
        gateway, entrance, middle = between
        head = () if gateway == source else self._links_between(source, gateway)
        tail = () if entrance == target else self._links_between(entrance, target)
        return head + middle + tail

    def _read_zone(self, element: Element, parent: Zone | None) -> None:
        self._check(element)
        name, routing = self._need(element, "id"), element.get("routing", "Full")
        if routing not in _ROUTINGS:
            raise self._error(
                f"zone {name!r}: routing {routing!r} is not simulated, expected one of {', '.join(_ROUTINGS)}"
            )
        zone = _ROUTINGS[routing](name, parent)
        self._nest(name, parent)
        if len(zone.ancestry()) > _DEEPEST_ZONE:
            raise self._error(f"zones are nested more than {_DEEPEST_ZONE} deep")
        definitions = {
            "prop": lambda child: zone.properties.update({self._need(child, "id"): child.get("value", "")}),
            "host": lambda child: self._read_host(child, zone),
            "router": lambda child: self._add_point(self._need(child, "id"), zone),
            "link": self._read_link,
            "zone": lambda child: self._read_zone(child, zone),
            "cluster": lambda child: self._read_cluster(child, zone),
        }
        # routes last: they may name links that are written below them
        routes = {
            "route": lambda child: self._read_route(child, zone),
            "zoneRoute": lambda child: self._read_zone_route(child, zone),
        }
        self._read_children(element, {"prop": definitions["prop"]})
        self._read_children(element, {tag: read for tag, read in definitions.items() if tag != "prop"})
        self._read_children(element, routes)

    def _read_children(self, element: Element, readers: Mapping[str, Callable[[Element], object]]) -> None:
        for child in element:
            tag = _NEW_TAGS.get(child.tag, child.tag)
            if tag in _WITHOUT_INFLUENCE:
                continue
            if tag not in _ZONE_TAGS:
                raise self._error(f"<{child.tag}> in {_label(element)} is not simulated; {suggest(tag, _ZONE_TAGS)}")
            self._check(child)
            if tag in readers:
                readers[tag](child)

    def _check(self, element: Element) -> None:
        """Refuse attributes that SimGrid does not know, and elements where it expects none."""
        tag = _NEW_TAGS.get(element.tag, element.tag)
        allowed = _ATTRIBUTES.get(tag)
        for name in element.attrib:
            if allowed is not None and name not in allowed:
                raise self._error(f"{_label(element)}: attribute {name!r} is not known; {suggest(name, allowed)}")
        inside = _CHILDREN.get(tag)
        if inside is None:
            return
        for child in element:
            if child.tag not in inside and child.tag not in _WITHOUT_INFLUENCE:
                near = suggest(child.tag, inside)
                raise self._error(f"<{child.tag[:40]}> in {_label(element)} is not simulated; {near}")
            self._check(child)

    def _add_point(self, name: str, zone: Zone) -> None:
        if name in self._zone_of:
            raise self._error(f"two hosts or routers are called {name!r}")
        self._zone_of[name] = zone

    def _nest(self, name: str, parent: Zone | None) -> None:
        if name in self._zone_names:
            raise self._error(f"two zones are called {name!r}")
        self._zone_names.add(name)
        self._children.setdefault("" if parent is None else parent.name, {})[name] = None

    def _read_cluster(self, element: Element, parent: Zone) -> None:
        zone = ClusterZone(self._need(element, "id"), parent)
        self._nest(zone.name, parent)
        where = f"cluster {zone.name!r}"
        self._refuse(element, where, ("limiter_link", "state_file", "speed_file", "availability_file"))
        if element.get("topology", "FLAT") != "FLAT":
            raise self._error(f"{where}: topology {element.get('topology')!r} is not simulated, expected 'FLAT'")
        prefix, suffix = element.get("prefix", ""), element.get("suffix", "")
        zone.properties = {self._need(prop, "id"): prop.get("value", "") for prop in element if prop.tag == "prop"}
        if "bb_bw" in element.attrib:
            self._add_links(f"{zone.name}_backbone", element, ("bb_bw", "bb_lat", "bb_sharing_policy"), "SHARED")
            zone.backbone = self._links[f"{zone.name}_backbone"]
        for k in self._radical(element, where):
            host, link = f"{prefix}{k}{suffix}", f"{zone.name}_link_{k}"
            policy = self._add_links(link, element, ("bw", "lat", "sharing_policy"), "SPLITDUPLEX")
            duplex = policy == "SPLITDUPLEX"
            zone.up[host], zone.down[host] = (self._links[link + (end * duplex)] for end in ("_UP", "_DOWN"))
            if "loopback_bw" in element.attrib:
                self._add_links(f"{link}_loopback", element, ("loopback_bw", "loopback_lat", ""), "FATPIPE")
                zone.loopback[host] = self._links[f"{link}_loopback"]
            self._read_host(element, zone, host)
        self._add_point(element.get("router_id") or f"{prefix}{zone.name}_router{suffix}", zone)

    def _radical(self, element: Element, where: str) -> list[int]:
        """Return the numbers of a cluster's hosts, as in ``0-3,7``."""
        result: list[int] = []
        text, n_hosts = self._need(element, "radical"), len(self.hosts)
        for part in text.split(","):
            match = re.fullmatch(r"\s*(\d{1,7})(?:-(\d{1,7}))?\s*", part)
            if match is None or int(match[2] or match[1]) < int(match[1]):
                raise self._error(f"{where}: radical holds {part[:40]!r}, expected numbers and ranges such as '0-3,7'")
            numbers = range(int(match[1]), int(match[2] or match[1]) + 1)
            n_hosts += len(numbers)
            if n_hosts > _MOST_HOSTS:
                raise self._error(f"{where}: radical {text[:40]!r} makes {n_hosts} hosts; at most {_MOST_HOSTS}")
            result += numbers
        return result

    def _read_host(self, element: Element, zone: Zone, name: str = "") -> None:
        name = name or self._need(element, "id")
        where = f"host {name!r}"
        self._add_point(name, zone)
        if isinstance(zone, VivaldiZone):
            zone.positions[name] = self._place(element, where)
        self._refuse(element, where, ("availability_file", "state_file", "speed_file"))
        if element.get("state", "ON") != "ON":
            raise self._error(f"{where}: state is {element.get('state')!r}, expected 'ON'")
        speeds = tuple(
            self._quantity(text, SPEED_UNITS, f"{where}: speed")
            for text in self._need(element, "speed" if "power" not in element.attrib else "power").split(",")
        )
        pstate = self._integer(element, "pstate", 0, where)
        cores = self._integer(element, "core", 1, where)
        if not 1 <= cores <= _MOST_CORES:
            raise self._error(f"{where}: {cores} cores, expected 1 to {_MOST_CORES}")
        if not 0 <= pstate < len(speeds):
            raise self._error(f"{where}: P-state {pstate}, but only {len(speeds)} speeds are given")
        properties = {self._need(prop, "id"): prop.get("value", "") for prop in element if prop.tag == "prop"}
        watts = self._watts(properties["wattage_per_state"], where) if "wattage_per_state" in properties else None
        around = zone.all_properties()
        self.hosts.append(HostSpec(len(self.hosts), name, speeds, pstate, cores, watts, properties, around))

    def _place(self, element: Element, where: str) -> tuple[float, float, float]:
        try:
            x, y, height = map(float_of, element.get("coordinates", "").split())
        except ValueError:
            x = y = height = math.nan
        if not all(map(math.isfinite, (x, y, height))):
            raise self._error(f"{where}: coordinates are {element.get('coordinates')!r}, expected three numbers")
        return x, y, height

    def _watts(self, text: str, where: str) -> tuple[tuple[float, float, float], ...]:
        result = []
        for part in text.split(","):
            try:
                values = [float_of(value) for value in part.split(":")]
            except ValueError:
                values = []
            if len(values) not in (2, 3) or not all(0 <= value < math.inf for value in values):
                raise self._error(
                    f"{where}: wattage_per_state holds {part.strip()[:40]!r}, expected idle:full or idle:epsilon:full"
                )
            result.append((values[0], values[-2], values[-1]))
        return tuple(result)

    def _read_link(self, element: Element) -> None:
        name = self._need(element, "id")
        where = f"link {name!r}"
        self._refuse(element, where, ("bandwidth_file", "latency_file", "state_file"))
        if element.get("state", "ON") != "ON":
            raise self._error(f"{where}: state is {element.get('state')!r}, expected 'ON'")
        self._add_links(name, element, ("bandwidth", "latency", "sharing_policy"), "SHARED")

    def _add_links(self, name: str, element: Element, attributes: tuple[str, str, str], default: str) -> str:
        """Add a link, or both directions of one, whose attributes may have other names; return how it is shared."""
        where = f"link {name!r}"
        bandwidth_name, latency_name, policy_name = attributes
        bandwidth = self._quantity(self._need(element, bandwidth_name), BANDWIDTH_UNITS, f"{where}: {bandwidth_name}")
        latency_s = self._quantity(element.get(latency_name, "0s"), TIME_UNITS, f"{where}: {latency_name}")
        policy = element.get(policy_name, default)
        if policy not in _POLICIES:
            raise self._error(f"{where}: sharing_policy is {policy!r}; {suggest(policy, _POLICIES)}")
        if bandwidth == 0:
            raise self._error(f"{where}: {bandwidth_name} is 0, expected more")
        for suffix in ("_UP", "_DOWN") if policy == "SPLITDUPLEX" else ("",):
            if name + suffix in self._links:
                raise self._error(f"two links are called {name!r}")
            self._links[name + suffix] = ZoneLink(name + suffix, bandwidth, latency_s, policy == "FATPIPE")
        return policy

    def _read_route(self, element: Element, zone: Zone) -> None:
        source, target = self._need(element, "src"), self._need(element, "dst")
        for point in (source, target):
            if self._zone_of.get(point) is not zone:
                raise self._error(f"{_label(element)}: {point[:40]!r} is not a host or router of zone {zone.name!r}")
        self._refuse_again(element, zone)
        links = tuple(self._crossed(element))
        zone.routes[source, target] = links
        if element.get("symmetrical", "YES").upper() != "NO":
            zone.routes.setdefault((target, source), tuple(self._reverse(links)))

    def _read_zone_route(self, element: Element, zone: Zone) -> None:
        source, target = self._need(element, "src"), self._need(element, "dst")
        gateway, entrance = self._need(element, "gw_src"), self._need(element, "gw_dst")
        for inner, point in ((source, gateway), (target, entrance)):
            if inner not in self._children.get(zone.name, ()):
                near = suggest(inner, self._children.get(zone.name, ()))
                raise self._error(f"{_label(element)}: {inner[:40]!r} is not a zone in {zone.name!r}; {near}")
            if point not in self._zone_of:
                raise self._error(f"{_label(element)}: gateway {point[:40]!r} is not a host or router")
            if inner not in [around.name for around in self._zone_of[point].ancestry()]:
                raise self._error(f"{_label(element)}: gateway {point!r} is not in zone {inner!r}")
        self._refuse_again(element, zone)
        links = tuple(self._crossed(element))
        zone.zone_routes[source, target] = (gateway, entrance, links)
        if element.get("symmetrical", "YES").upper() != "NO":
            zone.zone_routes.setdefault((target, source), (entrance, gateway, tuple(self._reverse(links))))

    def _refuse_again(self, element: Element, zone: Zone) -> None:
        """Refuse a second route between the same ends."""
        ends = zone.name, _NEW_TAGS.get(element.tag, element.tag), element.get("src"), element.get("dst")
        if ends in self._warned:
            raise self._error(f"{_label(element)}: there is a route from {ends[2]!r} to {ends[3]!r} already")
        self._warned.add(ends)

    def _crossed(self, element: Element) -> Iterator[ZoneLink]:
        if len(element) == 0:
            raise self._error(f"{_label(element)}: crosses no link")
        for child in element:
            name = self._need(child, "id")
            direction = child.get("direction", "NONE")
            full = name if direction == "NONE" else f"{name}_{direction}"
            if full not in self._links:
                where = _label(element)
                if f"{name}_UP" in self._links:
                    raise self._error(f"{where}: link {name!r} is {SPLITDUPLEX}, expected direction UP or DOWN")
                raise self._error(f"{where}: no link {full[:40]!r}; {suggest(full, self._links)}")
            yield self._links[full]

    def _reverse(self, links: tuple[ZoneLink, ...]) -> Iterator[ZoneLink]:
        """Yield the links of the way back; a split-duplex link is crossed in its other direction."""
        for link in reversed(links):
            name = link.name
            if name.endswith("_UP") and name[:-3] + "_DOWN" in self._links:
                yield self._links[name[:-3] + "_DOWN"]
            elif name.endswith("_DOWN") and name[:-5] + "_UP" in self._links:
                yield self._links[name[:-5] + "_UP"]
            else:
                yield link

    def _need(self, element: Element, attribute: str) -> str:
        value = element.get(attribute)
        if not value:
            raise self._error(f"<{element.tag}> has no {attribute!r}")
        return value

    def _refuse(self, element: Element, where: str, attributes: tuple[str, ...]) -> None:
        for attribute in attributes:
            if element.get(attribute):
                raise self._error(f"{where}: {attribute} is not simulated")

    def _integer(self, element: Element, attribute: str, default: int, where: str) -> int:
        text = element.get(attribute, str(default))
        if not re.fullmatch(r"[+-]?\d{1,9}", text, re.ASCII):
            raise self._error(f"{where}: {attribute} is {text!r}, expected an integer")
        return int(text)

    def _quantity(self, text: str, units: dict[str, float], where: str) -> float:
        try:
            return quantity(text, units)
        except ValueError as error:
            raise self._error(f"{where}: {error}") from None

    def _error(self, problem: str) -> PlatformError:
        return PlatformError(f"{self.path}: {problem}")


def _label(element: Element) -> str:
    """Return an element as ``<host id="cor_0">``, for messages."""
    if "id" in element.attrib:
        return f"<{element.tag} id={element.attrib['id'][:40]!r}>"
    if "src" in element.attrib:
        return f"<{element.tag} {element.attrib['src'][:40]!r} to {element.attrib.get('dst', '')[:40]!r}>"
    return f"<{element.tag}>"


def _parse(path: Path) -> Element:
    import defusedxml
    from defusedxml import ElementTree

    text = read_text(path)
    # SimGrid does not mind blank lines above the XML declaration
    start = text.lstrip()
    if not start:
        raise ReadError(path, "is empty, expected SimGrid XML")
    n_blank = text.count("\n") - start.count("\n")
    try:
        root: Element = ElementTree.fromstring(start, forbid_dtd=False, forbid_entities=True, forbid_external=True)
    except ElementTree.ParseError as error:
        problem = str(error).split(":")[0]
        raise ReadError(path, f"is not XML: {problem}", line=error.position[0] + n_blank) from None
    except defusedxml.DefusedXmlException:
        raise ReadError(path, "declares XML entities or loads other files, which is refused") from None
    except (ValueError, RecursionError) as error:
        raise ReadError(path, f"is not XML: {error}") from None
    return root

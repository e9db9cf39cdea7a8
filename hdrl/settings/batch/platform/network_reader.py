"""Parsing SimGrid 4.1 platform files whose zones have full routing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hdrl.errors import PlatformError, ReadError, suggest
from hdrl.files import read_text
from hdrl.settings.batch.platform.network import (
    DIRECTIONS,
    MASTER_HOST,
    OPPOSITE,
    SHARED,
    SHARING_POLICIES,
    SPLITDUPLEX,
    Hop,
    SimgridHost,
    SimgridLink,
    SimgridNetwork,
    SimgridZone,
)
from hdrl.settings.batch.platform.quantities import BANDWIDTH_UNITS, SPEED_UNITS, TIME_UNITS, quantity

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

R = TypeVar("R")

VERSIONS = ("4", "4.1")
MAX_ZONE_DEPTH = 50
ROLES = ("", "compute_node", "storage", "master")

REQUIRED = {
    "platform": ("version",),
    "zone": ("id", "routing"),
    "host": ("id", "speed"),
    "router": ("id",),
    "link": ("id", "bandwidth"),
    "route": ("src", "dst"),
    "zoneRoute": ("src", "dst", "gw_src", "gw_dst"),
    "link_ctn": ("id",),
    "prop": ("id", "value"),
}
"""Elements that are understood, with the attributes that they must have."""

OPTIONAL = {
    "host": ("pstate", "core"),
    "link": ("latency", "sharing_policy"),
    "route": ("symmetrical",),
    "zoneRoute": ("symmetrical",),
    "link_ctn": ("direction",),
}

CHILDREN = {
    "platform": ("zone",),
    "zone": ("zone", "host", "router", "link", "route", "zoneRoute", "prop"),
    "host": ("prop",),
    "link": ("prop",),
    "route": ("link_ctn",),
    "zoneRoute": ("link_ctn",),
}


def read_network(path: str | Path) -> SimgridNetwork:
    """Read a SimGrid platform file.

    Entities are refused and nothing outside the file is ever loaded; the usual DOCTYPE line is accepted.

    Raises
    ------
    ReadError
        If it is no XML.
    PlatformError
        If it uses what is not supported (clusters, routings other than Full, traces), or contradicts itself.
    """
    return parse_network(read_text(path), path)


def parse_network(text: str, path: str | Path) -> SimgridNetwork:
    """Return what the text of a SimGrid platform file describes.

    Raises
    ------
    ReadError, PlatformError
        As `read_network`.
    """
    root = _root(text, path)
    try:
        return _Builder().build(root)
    except ValueError as error:
        raise PlatformError(f"{path}: {error}") from None


def _root(text: str, path: str | Path) -> Element:
    import defusedxml
    from defusedxml import ElementTree

    if not text.strip():
        raise ReadError(path, "is empty, expected SimGrid XML")
    try:
        root: Element = ElementTree.fromstring(text, forbid_dtd=False, forbid_entities=True, forbid_external=True)
    except ElementTree.ParseError as error:
        raise ReadError(path, f"is no XML: {str(error).split(':')[0]}", line=error.position[0]) from None
    except defusedxml.DefusedXmlException:
        raise ReadError(path, "declares XML entities or loads other files, which is refused") from None
    except (ValueError, RecursionError) as error:
        raise ReadError(path, f"is no XML: {error}") from None
    return root


def _label(element: Element) -> str:
    """Return an element as ``<host id="cor_0">``, for messages."""
    if "id" in element.attrib:
        return f"<{element.tag} id={element.attrib['id'][:40]!r}>"
    if "src" in element.attrib:
        return f"<{element.tag} {element.attrib['src'][:40]!r} to {element.attrib.get('dst', '')[:40]!r}>"
    return f"<{element.tag}>"


def _check(element: Element) -> None:
    """Refuse unknown elements and attributes, and missing attributes."""
    tag = element.tag
    required, allowed = REQUIRED[tag], REQUIRED[tag] + OPTIONAL.get(tag, ())
    for name in element.attrib:
        if name not in allowed:
            raise ValueError(f"{_label(element)}: attribute {name!r} is not supported; {suggest(name, allowed)}")
    for name in required:
        if name not in element.attrib:
            raise ValueError(f"{_label(element)}: attribute {name!r} is missing")
    children = CHILDREN.get(tag, ())
    for child in element:
        if child.tag not in children:
            raise ValueError(
                f"<{child.tag}> in {_label(element)} is not supported; {suggest(str(child.tag), children)}"
            )
        if child.tag != "zone":
            _check(child)


def _choice(element: Element, name: str, default: str, choices: tuple[str, ...]) -> str:
    value = element.get(name, default)
    if value not in choices:
        raise ValueError(f"{_label(element)}: {name} is {value[:40]!r}; {suggest(value, choices)}")
    return value


def _integer(element: Element, name: str, default: int, least: int) -> int:
    text = element.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 8 and int(text) >= least):
        raise ValueError(f"{_label(element)}: {name} is {text[:40]!r}, expected a whole number of at least {least}")
    return int(text)


def _quantity(element: Element, name: str, units: dict[str, float], text: str, *, may_be_zero: bool = False) -> float:
    try:
        value = quantity(text, units)
    except ValueError as error:
        raise ValueError(f"{_label(element)}: {name} {error}") from None
    if value == 0 and not may_be_zero:
        raise ValueError(f"{_label(element)}: {name} is {text[:40]!r}, expected more than 0")
    return value


MAX_LATENCY_S = 1e9
"""A byte that takes longer than thirty years to arrive is a mistake."""


def _latency_s(element: Element) -> float:
    value = _quantity(element, "latency", TIME_UNITS, element.get("latency", "0"), may_be_zero=True)
    if value > MAX_LATENCY_S:
        raise ValueError(f"{_label(element)}: latency is {value:g} s, expected at most {MAX_LATENCY_S:g} s")
    return value


def _properties(element: Element) -> dict[str, str]:
    return {prop.attrib["id"]: prop.attrib["value"] for prop in element.iterfind("prop")}


def _host(element: Element) -> SimgridHost:
    speeds = tuple(_quantity(element, "speed", SPEED_UNITS, part) for part in element.attrib["speed"].split(","))
    pstate = _integer(element, "pstate", 0, 0)
    if pstate >= len(speeds):
        raise ValueError(f"{_label(element)}: pstate is {pstate}, but it has {len(speeds)} speeds")
    host = SimgridHost(element.attrib["id"], speeds, pstate, _integer(element, "core", 1, 1), _properties(element))
    if host.role not in ROLES:
        raise ValueError(f"{_label(element)}: role is {host.role[:40]!r}; {suggest(host.role, ROLES)}")
    return host


def _link(element: Element) -> SimgridLink:
    return SimgridLink(
        name=element.attrib["id"],
        bandwidth_bytes_per_s=_quantity(element, "bandwidth", BANDWIDTH_UNITS, element.attrib["bandwidth"]),
        latency_s=_latency_s(element),
        sharing_policy=_choice(element, "sharing_policy", SHARED, SHARING_POLICIES),
    )


class _Builder:
    """Collects a network from the elements of a file: first the things, then the routes, which name them."""

    def __init__(self) -> None:
        self.hosts: dict[str, SimgridHost] = {}
        self.links: dict[str, SimgridLink] = {}
        self.zones: list[SimgridZone] = []
        self.parents: dict[str, tuple[int, ...]] = {}
        self.zone_of: dict[str, int] = {}

    def build(self, root: Element) -> SimgridNetwork:
        if root.tag != "platform":
            raise ValueError(f"<{root.tag}> is the outermost element, expected <platform>")
        _check(root)
        _choice(root, "version", "", VERSIONS)
        elements: list[Element] = []
        for element in root:
            self._things(element, (), elements)
        for zone, element in zip(self.zones, elements, strict=True):
            self._routes(zone, element)
        return SimgridNetwork(self.hosts, self.links, tuple(self.zones), self.zone_of)

    def _things(self, element: Element, ancestors: tuple[int, ...], elements: list[Element]) -> None:
        _check(element)
        routing = element.attrib["routing"]
        if routing != "Full":
            raise ValueError(f"{_label(element)}: routing is {routing[:40]!r}, only 'Full' is supported")
        if len(ancestors) >= MAX_ZONE_DEPTH:
            raise ValueError(f"zones are nested more than {MAX_ZONE_DEPTH} deep")
        index = len(self.zones)
        name = element.attrib["id"]
        if name in self.parents or name in self.zone_of:
            raise ValueError(f"{_label(element)}: the id is taken")
        self.parents[name] = ancestors
        self.zones.append(SimgridZone(name, (*ancestors, index), properties=_properties(element)))
        elements.append(element)
        for child in element:
            if child.tag == "zone":
                self._things(child, (*ancestors, index), elements)
            elif child.tag in ("host", "router"):
                self._point(child, index)
            elif child.tag == "link":
                if child.attrib["id"] in self.links:
                    raise ValueError(f"{_label(child)}: the id is taken")
                self.links[child.attrib["id"]] = _link(child)

    def _point(self, element: Element, zone: int) -> None:
        name = element.attrib["id"]
        if name in self.zone_of:
            raise ValueError(f"{_label(element)}: the id is taken")
        self.zone_of[name] = zone
        if element.tag == "host":
            self.hosts[name] = _host(element)

    def _routes(self, zone: SimgridZone, element: Element) -> None:
        for child in element.iterfind("route"):
            self._route(zone, child)
        for child in element.iterfind("zoneRoute"):
            self._zone_route(zone, child)

    def _route(self, zone: SimgridZone, element: Element) -> None:
        ends = element.attrib["src"], element.attrib["dst"]
        for end in ends:
            if self.zone_of.get(end) != zone.ancestors[-1]:
                raise ValueError(f"{_label(element)}: {end[:40]!r} is no host or router of zone {zone.name!r}")
        hops = self._hops(element)
        self._add(zone.routes, ends, hops, element)
        if self._symmetrical(element) and ends[0] != ends[1]:
            self._add(zone.routes, ends[::-1], _reverse(hops), element)

    def _zone_route(self, zone: SimgridZone, element: Element) -> None:
        ends = element.attrib["src"], element.attrib["dst"]
        for end in ends:
            if self.parents.get(end) != zone.ancestors:
                inner = [name for name, parents in self.parents.items() if parents == zone.ancestors]
                raise ValueError(f"{_label(element)}: {end[:40]!r} is no zone in {zone.name!r}; {suggest(end, inner)}")
        gateways = element.attrib["gw_src"], element.attrib["gw_dst"]
        for gateway in gateways:
            if gateway not in self.zone_of:
                raise ValueError(f"{_label(element)}: gateway {gateway[:40]!r} is no host or router")
        hops = self._hops(element)
        self._add(zone.zone_routes, ends, (*gateways, hops), element)
        if self._symmetrical(element):
            self._add(zone.zone_routes, ends[::-1], (*gateways[::-1], _reverse(hops)), element)

    @staticmethod
    def _symmetrical(element: Element) -> bool:
        return _choice(element, "symmetrical", "YES", ("YES", "NO", "yes", "no")).upper() == "YES"

    @staticmethod
    def _add(table: dict[tuple[str, str], R], ends: tuple[str, str], route: R, element: Element) -> None:
        if ends in table:
            raise ValueError(f"{_label(element)}: there is a route from {ends[0]!r} to {ends[1]!r} already")
        table[ends] = route

    def _hops(self, element: Element) -> tuple[Hop, ...]:
        hops = []
        for child in element:
            name, direction = child.attrib["id"], _choice(child, "direction", "NONE", DIRECTIONS)
            if name not in self.links:
                raise ValueError(f"{_label(element)}: no link {name[:40]!r}; {suggest(name, self.links)}")
            split = self.links[name].sharing_policy == SPLITDUPLEX
            if split and direction == "NONE":
                raise ValueError(f"{_label(element)}: link {name!r} is SPLITDUPLEX, expected direction UP or DOWN")
            hops.append((name, direction if split else "NONE"))
        if not hops:
            raise ValueError(f"{_label(element)}: holds no link_ctn")
        return tuple(hops)


def _reverse(hops: tuple[Hop, ...]) -> tuple[Hop, ...]:
    return tuple((name, OPPOSITE[direction]) for name, direction in reversed(hops))


def require_master(network: SimgridNetwork) -> None:
    """Refuse a network without the host on which Batsim runs its server.

    Raises
    ------
    ValueError
        If there is no such host, or another host has its role.
    """
    if MASTER_HOST not in network.hosts:
        raise ValueError(f"no host {MASTER_HOST!r}, on which Batsim runs; {suggest(MASTER_HOST, network.hosts)}")
    for host in network.hosts.values():
        if host.role == "master" and host.name != MASTER_HOST:
            raise ValueError(f"host {host.name!r} has the role 'master', expected {MASTER_HOST!r} to be the only one")

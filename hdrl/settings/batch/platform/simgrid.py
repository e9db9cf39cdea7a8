"""SimGrid XML for Batsim, and platforms from it.

What hdrl writes holds the description of the platform in a comment, which SimGrid and Batsim do not see, so that
the whole tree comes back when the file is read again.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.base.errors import HdrlError, PlatformError, suggest
from hdrl.base.files import atomic_write, read_text
from hdrl.settings.batch.contention import ContentionModel
from hdrl.settings.batch.node_power import NodePower
from hdrl.settings.batch.platform.build import frozen, message_time_s
from hdrl.settings.batch.platform.conversion import build_platform, describe_platform
from hdrl.settings.batch.platform.model import IntArray, Platform
from hdrl.settings.batch.platform.pstates import PStateRules
from hdrl.settings.batch.simgrid.file import MASTER_HOST, SPLITDUPLEX, HostSpec, SimGridPlatform
from hdrl.settings.batch.simgrid.zones import Route

DOCTYPE = '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
STORED = re.compile(r"<!--hdrl-platform (\{.*?\})-->", re.DOTALL)
HOST_FIELDS = ("core_names", "speed_flops", "idle_w", "epsilon_w", "full_w", "initial_pstate", "host_cores")
MESSAGE_FIELDS = ("message_s", "message_latency_s", "loopback_s", "loopback_latency_s")

MAX_DECIMALS = 15
MAX_LEVELS = 1000


def write_simgrid(platform: Platform, path: str | Path) -> None:
    """Write a platform as SimGrid 4.1 XML that Batsim loads.

    Zone ``main`` holds zone ``master`` with the host on which Batsim runs, and a zone per cluster: a router, a
    SPLITDUPLEX link per node, and a host per core with all its P-states. Numbers have full precision, so that Batsim
    computes with the same doubles as hdrl.

    Raises
    ------
    PlatformError
        If the platform has no tree (it was read from SimGrid XML that hdrl did not write: use that file), or a
        contention model that P-states cannot express.
    OutputError
        If the file cannot be written.
    """
    if len(platform.curves):
        raise PlatformError(
            f"platform {platform.name!r}: its contention model gives each core a speed of its own, which P-states of "
            "SimGrid cannot express; expected simulator 'embedded', or another contention"
        )
    from lxml import etree

    root = etree.Element("platform", version="4.1")
    main = etree.SubElement(root, "zone", id="main", routing="Full")
    main.append(etree.Comment(f"hdrl-platform {_stored_text(platform)}"))
    master = etree.SubElement(main, "zone", id="master", routing="Full")
    host = etree.SubElement(master, "host", id=MASTER_HOST, speed="1Gf")
    etree.SubElement(host, "prop", id="wattage_per_state", value="0.0:0.0")
    for cluster in range(len(platform.clusters)):
        _cluster_zone(main, platform, cluster)
    for cluster in range(len(platform.clusters)):
        _link(main, f"glob_lnk_{cluster}", platform.global_link)
    for cluster in range(len(platform.clusters)):
        down = {"src": "master", "dst": f"clu_{cluster}", "gw_src": MASTER_HOST, "gw_dst": f"rou_{cluster}"}
        up = {"src": f"clu_{cluster}", "dst": "master", "gw_src": f"rou_{cluster}", "gw_dst": MASTER_HOST}
        for ends, direction in ((down, "DOWN"), (up, "UP")):
            route = etree.SubElement(main, "zoneRoute", **ends, symmetrical="NO")
            etree.SubElement(route, "link_ctn", id=f"glob_lnk_{cluster}", direction=direction)
    text = etree.tostring(root, pretty_print=True, encoding="unicode")
    with atomic_write(path) as out:
        out.write(f'<?xml version="1.0" encoding="utf-8"?>\n{DOCTYPE}\n{text}')


def _cluster_zone(main: Any, platform: Platform, cluster: int) -> None:
    from lxml import etree

    zone = etree.SubElement(main, "zone", id=f"clu_{cluster}", routing="Full")
    etree.SubElement(zone, "router", id=f"rou_{cluster}")
    nodes = np.flatnonzero(platform.cluster_of_node == cluster).tolist()
    for node in nodes:
        _link(zone, f"udl_{node}", platform.clusters[cluster].local_link)
    cores = [
        (core, node)
        for node in nodes
        for processor in range(platform.first_processor_of_node[node], platform.first_processor_of_node[node + 1])
        for core in range(platform.first_core_of_processor[processor], platform.first_core_of_processor[processor + 1])
    ]
    for core, _ in cores:
        speed = ", ".join(f"{value!r}f" for value in platform.speed_flops[core].tolist())
        pstate = str(platform.initial_pstate[core])
        host = etree.SubElement(zone, "host", id=platform.core_names[core], speed=speed, pstate=pstate)
        for name in ("wattage_per_state", "sleep_pstates"):
            if name in platform.properties[core]:
                etree.SubElement(host, "prop", id=name, value=platform.properties[core][name])
    for core, node in cores:
        name = platform.core_names[core]
        for source, target, direction in ((f"rou_{cluster}", name, "DOWN"), (name, f"rou_{cluster}", "UP")):
            route = etree.SubElement(zone, "route", src=source, dst=target, symmetrical="NO")
            etree.SubElement(route, "link_ctn", id=f"udl_{node}", direction=direction)


def _link(parent: Any, name: str, link: Any) -> None:
    from lxml import etree

    bandwidth, latency = f"{link.bandwidth_gbit_per_s!r}Gbps", f"{link.latency_s!r}s"
    etree.SubElement(parent, "link", id=name, bandwidth=bandwidth, latency=latency, sharing_policy=SPLITDUPLEX)


def _stored_text(platform: Platform) -> str:
    """Return the text of the comment: ASCII without two hyphens in a row, as a comment must be."""
    stored = {
        "name": platform.name,
        "rules": None if platform.rules is None else _stored_rules(platform.rules),
        "platform": describe_platform(platform),
    }
    return json.dumps(stored, allow_nan=False, indent=1).replace("--", "-\\u002d")


def _stored_rules(rules: PStateRules) -> dict[str, Any]:
    """Return rules as they are stored; where nodes are always on, as files have always said it."""
    stored = asdict(rules)
    del stored["contention"]["follows_curves"]  # such a platform is not written
    del stored["node_power"]
    return stored if rules.node_power is None else stored | {"node_power": rules.node_power.stored()}


def read_simgrid(path: str | Path) -> Platform:
    """Read a platform from SimGrid XML.

    A file that hdrl wrote gives the platform back as it was. Any other one becomes a platform without
    tree and rules: each host is a node with one processor, whose memory and memory bandwidth have no limit.
    P-states without an entry in ``wattage_per_state`` have NaN as power; hosts with fewer P-states than others have
    their last one in place of those that they lack. Hosts with the role ``storage`` run no jobs.

    Returns
    -------
    Platform
        The platform; core ids follow the order of the host names as text, as Batsim's do.

    Raises
    ------
    ReadError
        If it is no XML, or holds entities.
    PlatformError
        If it uses what is not supported, or has no host ``master_host`` and none with the role ``master``; or if it was
        written by hdrl and changed since.
    """
    path = Path(path)
    network = SimGridPlatform(path)
    try:
        found = _foreign(path.stem, network)
    except ValueError as error:
        raise PlatformError(f"{path}: {error}") from None
    text = read_text(path)
    stored = STORED.search(text)
    return found if stored is None else _restored(stored[1], found, path)


def _restored(text: str, found: Platform, path: Path) -> Platform:
    """Return the platform of a stored description after comparing it with the hosts of the file."""
    try:
        stored = json.loads(text)
        platform = build_platform(stored["platform"], name=str(stored["name"]), rules=_rules(stored["rules"]))
    except (HdrlError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        raise PlatformError(f"{path}: the comment in which hdrl stored the platform is damaged") from None
    for name in HOST_FIELDS + MESSAGE_FIELDS:
        if not np.array_equal(getattr(platform, name), getattr(found, name)):
            raise PlatformError(
                f"{path}: the hosts were changed ({name}) and differ from the platform that hdrl stored in a comment; "
                "write the file anew, or delete the comment to use the hosts as they are"
            )
    return platform


def _rules(stored: dict[str, Any]) -> PStateRules:
    contention = stored["contention"]
    model = ContentionModel(str(contention["name"]), tuple(float(f) for f in contention["speed_factors"]))
    power, believed = stored["power_factors"], stored["decision_power_factors"]
    decimals = stored["decimals"]
    if (decimals is not None and not 0 <= decimals <= MAX_DECIMALS) or len(model.speed_factors) > MAX_LEVELS:
        raise ValueError("rules that pstate_rules never makes")
    return PStateRules(
        name=str(stored["name"]),
        contention=model,
        power_factors=_four(power),
        decision_power_factors=_four(believed),
        decimals=None if decimals is None else int(decimals),
        mib_per_gb=int(stored["mib_per_gb"]),
        node_power=NodePower.read(stored["node_power"]) if "node_power" in stored else None,
    )


def _four(values: list[float]) -> tuple[float, float, float, float]:
    serving, contended, free, idle = (float(value) for value in values)
    return serving, contended, free, idle


_ROLES = ("", "compute_node", "storage", "master")


def _foreign(name: str, network: SimGridPlatform) -> Platform:
    """Return the platform of a network: one node and one processor per host."""
    master = network.master()
    hosts = _compute_hosts(network, master)
    n_hosts, n_pstates = len(hosts), max(len(host.speeds_flops) for host in hosts)
    messages = [_message(network.route(host, master)) for host in hosts]
    loopback_s, loopback_latency_s = _message(network.route(master, master))
    speeds = [(*host.speeds_flops, *host.speeds_flops[-1:] * (n_pstates - len(host.speeds_flops))) for host in hosts]
    speed_flops = frozen(np.array(speeds))
    watts = np.array([_watts(host, n_pstates) for host in hosts])
    each = _indices(range(n_hosts))
    cores = [host.cores for host in hosts]
    return Platform(
        name=name,
        clusters=(),
        global_link=None,
        rules=None,
        core_names=tuple(host.name for host in hosts),
        cluster_of_node=_indices([0] * n_hosts),
        node_of_processor=each,
        processor_of_core=each,
        first_core_of_processor=_indices(range(n_hosts + 1)),
        first_processor_of_node=_indices(range(n_hosts + 1)),
        memory_mib=frozen(np.full(n_hosts, np.inf)),
        bandwidth_gbps=frozen(np.full(n_hosts, np.inf)),
        peak_flops=frozen(speed_flops[:, 0]),
        peak_power_w=frozen(watts[:, 0, 2]),
        speed_flops=speed_flops,
        idle_w=frozen(watts[:, :, 0]),
        epsilon_w=frozen(watts[:, :, 1]),
        full_w=frozen(watts[:, :, 2]),
        initial_pstate=_indices([host.pstate for host in hosts]),
        host_cores=_indices(cores),
        message_s=frozen(np.array([time for time, _ in messages])),
        message_latency_s=frozen(np.array([latency for _, latency in messages])),
        properties=tuple({"role": "", **host.properties} for host in hosts),
        loopback_s=loopback_s,
        loopback_latency_s=loopback_latency_s,
    )


def _compute_hosts(network: SimGridPlatform, master: HostSpec) -> list[HostSpec]:
    """Return the hosts that run jobs, in Batsim's order: by name, as text."""
    for host in network.hosts:
        role = host.properties.get("role", "")
        if role not in _ROLES:
            raise ValueError(f"host {host.name!r}: role is {role[:40]!r}; {suggest(role, _ROLES)}")
        if role == "master" and host is not master:
            raise ValueError(f"host {host.name!r} has the role 'master', but {master.name!r} is the master already")
    hosts = [host for host in network.hosts if host is not master and host.properties.get("role") != "storage"]
    if not hosts:
        raise ValueError(f"no host but {master.name!r} runs jobs, expected at least one")
    for host in hosts:
        if host.speeds_flops[0] == 0:
            raise ValueError(f"host {host.name!r}: its speed is 0, expected more in its first P-state")
        if len(host.watts or ()) > len(host.speeds_flops):
            raise ValueError(
                f"host {host.name!r}: wattage_per_state has {len(host.watts or ())} P-states, speed has "
                f"{len(host.speeds_flops)}, expected as many"
            )
        _check_sleep(host)
    return sorted(hosts, key=lambda host: host.name)


def _message(route: Route) -> tuple[float, float]:
    """Return time and latency of one byte on an idle route, in seconds; none where no link is crossed."""
    # a flow that crosses a link twice gets half of it
    crossed = Counter(route.links)
    rates = [link.bandwidth_bytes_per_s / (1 if link.fatpipe else times) for link, times in crossed.items()]
    if not rates and not route.latency_s:
        return 0.0, 0.0
    return message_time_s(rates or [math.inf], route.latency_s), route.latency_s


def _watts(host: HostSpec, n_pstates: int) -> list[tuple[float, float, float]]:
    """Return power at no, nearly no and full load in each P-state; NaN where it is not given."""
    given = list(host.watts or ())[: len(host.speeds_flops)]
    given += [(np.nan, np.nan, np.nan)] * (len(host.speeds_flops) - len(given))
    return given + given[-1:] * (n_pstates - len(given))


def _check_sleep(host: HostSpec) -> None:
    """Refuse sleep P-states that do not exist."""
    text = host.properties.get("sleep_pstates")
    for part in text.split(",") if text is not None else ():
        numbers = [number.strip() for number in part.split(":")]
        known = [str(pstate) for pstate in range(len(host.speeds_flops))]
        if len(numbers) != 3 or len(set(numbers)) != 3 or any(number not in known for number in numbers):
            raise ValueError(
                f"host {host.name!r}: sleep_pstates holds {part[:40]!r}, expected sleep:off:on, three different ones "
                f"of the P-states 0 to {len(known) - 1}"
            )


def _indices(values: list[int] | range) -> IntArray:
    array = np.array(values, dtype=np.int32)
    array.flags.writeable = False
    return array

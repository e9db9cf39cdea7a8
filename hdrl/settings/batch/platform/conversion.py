"""From a description (HDeepRM's JSON, or the same as Python values) to a Platform, and back."""

from __future__ import annotations

from dataclasses import asdict, astuple

from hdrl.base.errors import PlatformError
from hdrl.options.problems import path_step
from hdrl.settings.batch.platform.build import platform_from_tree
from hdrl.settings.batch.platform.description import (
    POWER_KEYS,
    PROCESSOR_KEYS,
    ClusterEntry,
    LinkUse,
    PlatformDescription,
    validated,
)
from hdrl.settings.batch.platform.library import TypeLibrary, extended, require, type_library
from hdrl.settings.batch.platform.model import Cluster, Link, NodeGroup, Platform, ProcessorType
from hdrl.settings.batch.platform.pstates import PStateRules, pstate_rules
from hdrl.settings.batch.simgrid.quantities import TIME_UNITS, quantity
from hdrl.settings.batch.simulators import COMPATIBILITY_MODES


def build_platform(description: object, *, name: str = "platform", rules: PStateRules | None = None) -> Platform:
    """Return the platform of a description.

    Parameters
    ----------
    description
        Contents of a JSON description: ``clusters``, ``global_links`` and possibly custom ``types`` (see
        docs/platforms.md).
    rules
        P-state rules, `pstate_rules` without arguments unless given.

    Raises
    ------
    PlatformError
        If the description is wrong: the position in it, what was found, what was expected.
    """
    try:
        checked = validated(PlatformDescription, description)
    except ValueError as error:
        raise PlatformError(str(error)) from None
    library = extended(type_library(is_hdeeprm_0_1=checked.job_limits is not None), checked.types)
    clusters = tuple(_cluster(i, entry, library) for i, entry in enumerate(checked.clusters))
    ids = [cluster.id for cluster in clusters]
    for i, identifier in enumerate(ids):
        if identifier in ids[:i]:
            raise PlatformError(f"clusters[{i}].id: {identifier!r} is the id of another cluster already")
    global_link = _link(checked.global_links, library, "global_links")
    rules = rules or pstate_rules()
    switched = [group.type.name for cluster in clusters for group in cluster.groups if group.type.node_power]
    if switched and rules.name in COMPATIBILITY_MODES:
        where = f"types.nodes{path_step(switched[0])}"
        raise PlatformError(f"{where} has node_power, but under compatibility {rules.name!r} nodes are always on")
    return platform_from_tree(name, clusters, global_link, rules)


def describe_platform(platform: Platform) -> dict[str, object]:
    """Return the description of a platform, with all its types; the reverse of `build_platform`.

    Raises
    ------
    PlatformError
        If it has none (it was read from SimGrid XML that hdrl did not write).
    """
    if not platform.clusters or platform.global_link is None:
        raise PlatformError(f"platform {platform.name!r} was read from SimGrid XML and has no description")
    nodes = {group.type.name: group.type for cluster in platform.clusters for group in cluster.groups}
    processors = {kind.name: kind for node in nodes.values() for kind, _ in node.processors}
    links = [platform.global_link, *(cluster.local_link for cluster in platform.clusters)]
    return {
        "clusters": [
            {
                "id": cluster.id,
                "nodes": [{"type": group.type.name, "number": group.number} for group in cluster.groups],
                "local_links": _link_use(cluster.local_link),
            }
            for cluster in platform.clusters
        ],
        "global_links": _link_use(platform.global_link),
        "types": {
            "nodes": {
                node.name: {
                    "processors": [{"type": kind.name, "number": number} for kind, number in node.processors],
                    "memory": {"capacity": node.memory_gb},
                    "source": node.source,
                    **({} if node.node_power is None else {"node_power": node.node_power.stored()}),
                }
                for node in nodes.values()
            },
            "processors": {
                kind.name: {
                    **{key: getattr(kind, name) for name, key in PROCESSOR_KEYS.items()},
                    **_parts(kind),
                }
                for kind in processors.values()
            },
            "networks": {link.name: {"bandwidth": f"{link.bandwidth_gbit_per_s!r}Gbps"} for link in links},
        },
    }


def _parts(kind: ProcessorType) -> dict[str, float]:
    """Return the numbers of a processor type beyond HDeepRM's keys."""
    numbers: dict[str, float] = {}
    if kind.split_power is not None:
        numbers |= zip(POWER_KEYS, astuple(kind.split_power), strict=True)
    for part in (kind.curve, kind.fit):
        if part is not None:
            numbers |= asdict(part)
    return numbers


def _cluster(index: int, entry: ClusterEntry, library: TypeLibrary) -> Cluster:
    where = f"clusters[{index}]"
    for i, use in enumerate(entry.nodes):
        require(use.type, library.nodes, "node type", f"{where}.nodes[{i}].type")
    return Cluster(
        id=entry.id,
        groups=tuple(NodeGroup(library.nodes[use.type], use.number) for use in entry.nodes),
        local_link=_link(entry.local_links, library, f"{where}.local_links"),
    )


def _link(use: LinkUse, library: TypeLibrary, where: str) -> Link:
    require(use.type, library.networks, "network type", f"{where}.type")
    return Link(use.type, library.networks[use.type], quantity(use.latency, TIME_UNITS))


def _link_use(link: Link) -> dict[str, str]:
    return {"type": link.name, "latency": f"{link.latency_s!r}s"}

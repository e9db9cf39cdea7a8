"""Platform files of IRMaSim: several platforms in one file, and HDeepRM's types with more keys.

::

    {"platform": {"name": {"clusters": [...], "model_name": "modelV1"}}, "node": {...}, "processor": {...}}

Clusters, nodes and processors are HDeepRM's; numbers default to 1, and ids, links and memory may be missing. What the
further keys of processors mean is said in `description.ProcessorEntry`. A node with ``cores`` is one of modelV2 or
modelV1_1, which know no processors: it gets one with all that the node says. modelV1_1 is modelV1 for whole nodes,
whose ``min_power`` is in W.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from hdrl.base.errors import PlatformError, suggest
from hdrl.options.problems import shown
from hdrl.settings.batch.contention import MODEL_V1, MODEL_V1_1, MODEL_V2
from hdrl.settings.batch.platform.homogeneous import ENDLESS_GB

MODELS = (MODEL_V1, MODEL_V1_1, MODEL_V2)
"""Models that a platform may follow."""

GROUPS = {"node": "nodes", "processor": "processors", "network": "networks"}
"""Types by IRMaSim's word and by HDeepRM's."""

USUAL_LINK = {"type": "InfiniBand QDR", "latency": "0us"}
"""The network of IRMaSim's examples; messages are the only thing that it carries."""


def hdeeprm_description(content: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Return one of the platforms of a file as HDeepRM would describe it.

    Raise PlatformError if there is no such platform, or several and no name, or it follows a model that is not known.

    ``name``: which of its platforms; empty: the only one.
    """
    unknown = sorted(set(content) - {"platform", *GROUPS})
    if unknown:
        raise PlatformError(f"unknown key {unknown[0]!r}; {suggest(unknown[0], ('platform', *GROUPS))}")
    platforms: Mapping[str, Any] = content["platform"]
    chosen = name or (next(iter(platforms)) if len(platforms) == 1 else "")
    if chosen not in platforms:
        found = f"no platform {name!r}" if name else f"holds {len(platforms)} platforms, expected #NAME after the file"
        raise PlatformError(f"{found}; {suggest(name, platforms)}")
    described, where = _object(platforms[chosen], f"platform.{chosen}"), f"platform.{chosen}"
    model = described.get("model_name", MODELS[0])
    if model not in MODELS:
        raise PlatformError(f"{where}.model_name is {shown(model)}; {suggest(str(model), MODELS)}")
    clusters = _clusters(described, where)
    rest = {key: value for key, value in described.items() if key not in ("id", "model_name", "clusters")}
    types = {ours: _object(content.get(theirs, {}), theirs) for theirs, ours in GROUPS.items()}
    whole = {key: value for key, value in types["nodes"].items() if isinstance(value, Mapping) and "cores" in value}
    types["nodes"] = {key: _node(value, f"node.{key}") for key, value in types["nodes"].items() if key not in whole}
    if model == MODEL_V1_1:
        whole = {key: _with_share(value, f"node.{key}") for key, value in whole.items()}
    for key, value in whole.items():
        types["processors"][f"{key} (whole)"] = _processor_of(value)
        memory = {"memory": value["memory"]} if "memory" in value else {}
        types["nodes"][key] = _node({"processors": [{"type": f"{key} (whole)"}], **memory}, f"node.{key}")
    types["processors"] = {key: _without_version(value) for key, value in types["processors"].items()}
    if model == MODEL_V1_1:
        _check_whole(clusters, whole, types["nodes"])
    return {"clusters": clusters, "global_links": USUAL_LINK, **rest, "types": types}


def _clusters(described: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the clusters, each as often as it is there."""
    clusters: list[dict[str, Any]] = []
    for i, one in enumerate(_list(described.get("clusters"), f"{where}.clusters")):
        cluster = {"local_links": USUAL_LINK, **_object(one, f"{where}.clusters[{i}]")}
        number = cluster.pop("number", 1)
        if not isinstance(number, int) or not 1 <= number <= 2**24:
            raise PlatformError(f"{where}.clusters[{i}].number is {shown(number)}, expected a whole number from 1 on")
        cluster["nodes"] = _counted(cluster.get("nodes"), f"{where}.clusters[{i}].nodes")
        for _ in range(number):
            named = {"id": f"cluster{len(clusters)}", **cluster}
            clusters.append({**named, "id": f"{named['id']}.{len(clusters)}"} if number > 1 else named)
    return clusters


def _node(value: object, where: str) -> dict[str, Any]:
    """Return a node type with what IRMaSim lets one leave out."""
    node = {"memory": {"capacity": ENDLESS_GB}, **_object(value, where)}
    return {**node, "processors": _counted(node.get("processors"), f"{where}.processors")}


def _processor_of(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the only processor of a node that is described as a whole, as those of modelV2 are."""
    return {"dpflops_per_cycle": 1, **{key: value for key, value in node.items() if key != "memory"}}


def _with_share(node: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a node of modelV1_1 as one of modelV1: ``min_power`` as a share, and an operation per cycle."""
    node_keys = {**node, "dpflops_per_cycle": 1}
    static_w, least_w = (node.get(key) for key in ("static_power", "min_power"))
    if not (_is_number(static_w) and _is_number(least_w)):
        return node_keys  # the reader of types refuses it
    if not 0 <= least_w <= static_w:
        raise PlatformError(
            f"{where}.min_power is {shown(least_w)}, expected W of the node without a task: 0 to its static_power,"
            f" {shown(static_w)}"
        )
    return {**node_keys, "min_power": least_w / static_w if static_w else 0.0}


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e100


def _check_whole(
    clusters: Sequence[Mapping[str, Any]], whole: Mapping[str, object], nodes: Mapping[str, object]
) -> None:
    """Refuse nodes of processors, which modelV1_1 does not have."""
    for name in (use.get("type") for cluster in clusters for use in cluster["nodes"]):
        if name in nodes and name not in whole:
            raise PlatformError(f"node.{name}.cores is missing, which {MODEL_V1_1} needs instead of processors")


def _without_version(processor: object) -> object:
    """Return a processor without the key by which older files say that it follows modelV2."""
    if isinstance(processor, Mapping):
        return {key: value for key, value in processor.items() if key != "profile_version"}
    return processor


def _counted(uses: object, where: str) -> list[dict[str, Any]]:
    """Return the number of each type, without the labels that IRMaSim allows."""
    described = [{"number": 1, **_object(use, f"{where}[{i}]")} for i, use in enumerate(_list(uses, where))]
    return [{key: value for key, value in use.items() if key != "id"} for use in described]


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise PlatformError(f"{where} is {'missing' if value is None else shown(value)}, expected a list")
    return value


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise PlatformError(f"{where} is {shown(value)}, expected an object")
    return dict(value)

"""The type library: processors, nodes, networks and memories by name.

The library is data (``data/*.json``): the types of HDeepRM's example platforms with its numbers, and current machines
with the data sheet that each number is from.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hdrl.base.errors import PlatformError, suggest
from hdrl.base.files import read_json
from hdrl.options.problems import path_step
from hdrl.settings.batch.node_power import NodePower
from hdrl.settings.batch.platform.description import (
    CURVE_KEYS,
    POWER_KEYS,
    PROCESSOR_KEYS,
    NodeEntry,
    ProcessorEntry,
    Types,
    validated,
)
from hdrl.settings.batch.platform.model import FittedCurve, NodeType, ProcessorType, SpeedCurve, SplitPower
from hdrl.settings.batch.simgrid.quantities import gbit_per_s

P = TypeVar("P", SplitPower, SpeedCurve)

DATA_FOLDER = Path(__file__).parent / "data"
DATA_FILES = {kind: f"{kind}_types.json" for kind in ("node", "processor", "network", "memory")}
HDEEPRM_0_1_FILE = "hdeeprm_0_1.json"
"""The types that had other numbers in HDeepRM 0.1."""

PLURALS = {"node": "nodes", "processor": "processors", "network": "networks", "memory": "memories"}


@dataclass(frozen=True, slots=True)
class TypeLibrary:
    """Types by name."""

    # the types
    processors: dict[str, ProcessorType]
    nodes: dict[str, NodeType]
    networks: dict[str, float]  # bandwidth of one link in Gbit/s
    memories: frozenset[str]  # names of the memory types


@functools.cache
def type_library(*, is_hdeeprm_0_1: bool = False) -> TypeLibrary:
    """Return the library that comes with hdrl.

    ``is_hdeeprm_0_1``: whether the types that HDeepRM 0.1 had other numbers for have those.
    """
    entries = {PLURALS[kind]: read_json(DATA_FOLDER / name) for kind, name in DATA_FILES.items()}
    older = read_json(DATA_FOLDER / HDEEPRM_0_1_FILE) if is_hdeeprm_0_1 else {}
    entries = {kind: types | older.get(kind, {}) for kind, types in entries.items()}
    try:
        types = validated(Types, entries)
    except ValueError as error:
        raise PlatformError(f"{DATA_FOLDER}: {error}") from None
    return extended(TypeLibrary({}, {}, {}, frozenset()), types)


def extended(library: TypeLibrary, own: Types) -> TypeLibrary:
    """Return a library with types added; an own type hides the library's of the same name."""
    memories = library.memories | own.memories.keys()
    processors = library.processors | {name: _processor_type(name, entry) for name, entry in own.processors.items()}
    nodes = {name: _node_type(name, entry, processors, memories) for name, entry in own.nodes.items()}
    networks = {name: gbit_per_s(entry.bandwidth) for name, entry in own.networks.items()}
    return TypeLibrary(processors, library.nodes | nodes, library.networks | networks, memories)


def require(name: str, known: Iterable[str], what: str, where: str) -> None:
    """Raise an error unless a name is known.

    Parameters
    ----------
    what
        The kind of thing, for instance ``"node type"``.
    where
        The position in the description, for instance ``"clusters[0].nodes[2].type"``.
    """
    if name not in known:
        raise PlatformError(f"{where}: no {what} {name!r}; {suggest(name, known)}")


def _processor_type(name: str, entry: ProcessorEntry) -> ProcessorType:
    return ProcessorType(
        name=name,
        **{name: getattr(entry, key) for name, key in PROCESSOR_KEYS.items()},
        split_power=_part(SplitPower, entry, POWER_KEYS),
        curve=_part(SpeedCurve, entry, CURVE_KEYS),
        fit=None if entry.fit is None else FittedCurve(**entry.fit),
    )


def _part(part: type[P], entry: ProcessorEntry, keys: tuple[str, ...]) -> P | None:
    """Return the object that some keys of an entry describe, ``None`` if it has none of them."""
    values = [getattr(entry, key) for key in keys]
    return None if None in values else part(*values)


def _node_type(name: str, entry: NodeEntry, processors: dict[str, ProcessorType], memories: Iterable[str]) -> NodeType:
    where = f"types.nodes{path_step(name)}"
    for i, use in enumerate(entry.processors):
        require(use.type, processors, "processor type", f"{where}.processors[{i}].type")
    if entry.memory.type is not None:
        require(entry.memory.type, memories, "memory type", f"{where}.memory.type")
    return NodeType(
        name=name,
        processors=tuple((processors[use.type], use.number) for use in entry.processors),
        memory_gb=entry.memory.capacity,
        source=entry.source,
        node_power=None if entry.node_power is None else NodePower.read(entry.node_power.model_dump()),
    )

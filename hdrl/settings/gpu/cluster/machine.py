"""The machine: nodes with GPUs of several types, cores and memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hdrl.base.arguments import check_type
from hdrl.base.csvfiles import named_rows
from hdrl.base.errors import PlatformError, ReadError, quoted, suggest
from hdrl.base.files import expanded, read_json, read_text
from hdrl.base.textnumbers import int_of
from hdrl.options.block import Block
from hdrl.options.reading import validated
from hdrl.trace.model import repr_of_machine

SHIPPED = Path(__file__).parents[1] / "data"
"""Folder of the clusters that have names."""

MAX_TYPES = 32
"""The most types of GPUs that a cluster may have."""

MAX_GPUS = 1_000_000
"""The most GPUs that a cluster may have."""

MOST_TIMES_FASTER = 1e6
"""Largest ratio of the speeds of two GPU types of one cluster."""

PLENTY = 1 << 40
"""Cores (in thousandths) and memory of nodes whose file says nothing about them."""

NODE_DTYPE = np.dtype([("gpu_type", np.int64), ("n_gpus", np.int64), ("cpu_milli", np.int64), ("memory_mib", np.int64)])
"""A node: the number of its type of GPUs, how many it has, thousandths of a core, and memory."""


@dataclass(frozen=True, slots=True)
class GpuType:
    """A type of GPUs.

    Attributes
    ----------
    name
        Its name, as jobs and throughput tables call it.
    usd_per_hour
        Price of a GPU for an hour.
    """

    name: str
    flops: float = 1.0
    usd_per_hour: float = 0.0


@dataclass(frozen=True)
class GpuCluster:
    """Nodes with GPUs.

    Attributes
    ----------
    nodes
        Its nodes, array of `NODE_DTYPE`; their order is that of the file.
    """

    name: str
    types: tuple[GpuType, ...]
    nodes: NDArray[np.void]

    def __repr__(self) -> str:
        """Return one line, see `repr_of_machine`."""
        return repr_of_machine(self)

    def __post_init__(self) -> None:
        if not 1 <= len(self.types) <= MAX_TYPES:
            raise PlatformError(f"{self.name}: {len(self.types)} types of GPUs, expected 1 to {MAX_TYPES}")
        if not len(self.nodes) or not 1 <= self.n_units <= MAX_GPUS:
            raise PlatformError(f"{self.name}: {self.n_units} GPUs, expected 1 to {MAX_GPUS}")
        for one in self.types:
            if not (one.flops > 0 and np.isfinite(one.flops)):
                raise PlatformError(f"{self.name}: type {one.name!r} has flops {one.flops}, expected more than 0")
        slowest, fastest = (pick(self.types, key=lambda one: one.flops) for pick in (min, max))
        if fastest.flops > MOST_TIMES_FASTER * slowest.flops:
            raise PlatformError(
                f"{self.name}: type {slowest.name!r} has flops {slowest.flops:g}, expected at least a millionth of "
                f"those of {fastest.name!r}, {fastest.flops:g}"
            )

    @property
    def n_units(self) -> int:
        """Number of GPUs."""
        return int(self.nodes["n_gpus"].sum())

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    @cached_property
    def gpus_of_type(self) -> NDArray[np.int64]:
        """Number of GPUs of each type, shape ``(n_types,)``."""
        return np.bincount(self.nodes["gpu_type"], weights=self.nodes["n_gpus"], minlength=len(self.types)).astype(
            np.int64
        )

    @property
    def unit_kinds(self) -> Mapping[str, int]:
        """Number of GPUs of each type, by its name."""
        return {one.name: int(count) for one, count in zip(self.types, self.gpus_of_type, strict=True)}

    @cached_property
    def largest_node(self) -> NDArray[np.int64]:
        """The most GPUs that a node of each type has, shape ``(n_types,)``."""
        found = np.zeros(len(self.types), dtype=np.int64)
        np.maximum.at(found, self.nodes["gpu_type"], self.nodes["n_gpus"])
        return found

    @cached_property
    def type_of_gpu(self) -> NDArray[np.int64]:
        """The type of each GPU, shape ``(n_units,)``; those of a node follow each other."""
        return np.repeat(self.nodes["gpu_type"], self.nodes["n_gpus"])

    @cached_property
    def node_of_gpu(self) -> NDArray[np.int64]:
        """The node of each GPU, shape ``(n_units,)``."""
        return np.repeat(np.arange(self.n_nodes), self.nodes["n_gpus"])

    @cached_property
    def speeds(self) -> NDArray[np.float64]:
        """FLOPS of each type relative to the mean over all GPUs, shape ``(n_types,)``."""
        flops = np.array([one.flops for one in self.types])
        return np.asarray(flops / np.average(flops, weights=self.gpus_of_type))

    def sha256(self) -> str:
        """Return the SHA-256 of types and nodes."""
        digest = hashlib.sha256(json.dumps([[one.name, one.flops, one.usd_per_hour] for one in self.types]).encode())
        digest.update(np.ascontiguousarray(self.nodes).tobytes())
        return digest.hexdigest()

    def facts(self) -> dict[str, Any]:
        """Return its name and size."""
        counts = {f"n_{name}": count for name, count in self.unit_kinds.items()}
        return {"name": self.name, "n_gpus": self.n_units, "n_nodes": self.n_nodes, **counts}


def shipped_clusters() -> list[str]:
    """Return the names of the clusters that come with hdrl."""
    return sorted(path.stem for path in SHIPPED.glob("*.json"))


EXPECTED = "the name of a cluster, a file, or what hdrl.gpu.read_cluster returns"


def cluster_of(machine: GpuCluster | str | Path) -> GpuCluster:
    """Return the cluster of an argument; raise HdrlError if it cannot be read, or stands for no cluster."""
    check_type("machine", machine, (GpuCluster, str, Path), EXPECTED)
    return machine if isinstance(machine, GpuCluster) else read_cluster(str(machine))


def read_cluster(text: str, folder: str | Path = Path()) -> GpuCluster:
    """Read a cluster.

    Parameters
    ----------
    text
        The name of a shipped cluster, or a file: JSON with ``types`` and ``nodes``, or the node list of Alibaba's
        gpu-v2023 (CSV), packed by gzip or not.
    folder
        Folder that relative paths start from.

    Raises
    ------
    ReadError
        If the file cannot be read, or is of another form.
    PlatformError
        If there is no such cluster, or it makes no sense.
    """
    folder = Path(folder)
    if text in shipped_clusters():
        return _from_json(SHIPPED / f"{text}.json")
    path = folder / expanded(text)
    suffix = Path(path.name.removesuffix(".gz")).suffix  # of what is packed
    if suffix not in (".json", ".csv"):
        raise PlatformError(
            f"no cluster {quoted(text)}; {suggest(text, shipped_clusters())}, or a file that ends in .json or .csv"
        )
    return _from_json(path) if suffix == ".json" else _from_openb(path)


def _name_of(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).stem


class _TypeInFile(Block):
    """A type of GPUs in a file."""

    flops: Annotated[float, Field(gt=0, le=1e30)] = 1.0
    usd_per_hour: Annotated[float, Field(ge=0, le=1e9)] = 0.0


class _NodeInFile(Block):
    """Nodes that are alike in a file."""

    type: str
    count: Annotated[int, Field(ge=1, le=MAX_GPUS)] = 1
    gpus: Annotated[int, Field(ge=0, le=MAX_GPUS)] = 1
    cpu_milli: Annotated[int, Field(ge=0, le=PLENTY)] = PLENTY
    memory_mib: Annotated[int, Field(ge=0, le=PLENTY)] = PLENTY


class _ClusterInFile(Block):
    """Contents of a cluster file."""

    name: str = ""
    types: dict[str, _TypeInFile]
    nodes: list[_NodeInFile]


def _from_json(path: Path) -> GpuCluster:
    found = validated(_ClusterInFile, read_json(path), str(path))
    types = [GpuType(name, one.flops, one.usd_per_hour) for name, one in found.types.items()]
    names = [one.name for one in types]
    rows: list[tuple[int, ...]] = []
    for number, node in enumerate(found.nodes):
        if node.type not in names:
            raise ReadError(path, f"nodes[{number}]: type is {quoted(node.type)}; {suggest(node.type, names)}")
        if len(rows) + node.count > MAX_GPUS:
            raise ReadError(path, f"nodes[{number}]: more than {MAX_GPUS} nodes")
        rows += [(names.index(node.type), node.gpus, node.cpu_milli, node.memory_mib)] * node.count
    return GpuCluster(found.name or _name_of(path), tuple(types), np.array(rows, dtype=NODE_DTYPE))


_OPENB = ("sn", "cpu_milli", "memory_mib", "gpu", "model")


def _from_openb(path: Path) -> GpuCluster:
    names: list[str] = []
    rows = []
    for number, line in named_rows(path, read_text(path), _OPENB):
        _, *texts, model = (line[name] for name in _OPENB)
        try:
            cpu, memory, count = map(int_of, texts)
            if min(cpu, memory, count) < 0 or count > MAX_GPUS or max(cpu, memory) > PLENTY:
                raise ValueError
        except ValueError:
            text = f"has {quoted(','.join(texts))}, expected whole numbers: cores, memory, at most {MAX_GPUS} GPUs"
            raise ReadError(path, text, number) from None
        if model not in names:
            names.append(model)
        rows.append((names.index(model), count, cpu, memory))
    return GpuCluster(_name_of(path), tuple(GpuType(name) for name in names), np.array(rows, dtype=NODE_DTYPE))

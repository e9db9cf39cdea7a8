"""The platform: a tree for people, flat arrays for the kernel, both immutable.

Core ids are Batsim's host ids. Arrays are read-only; "core" is Batsim's host (its property
``host_cores`` says how many SimGrid cores a host has; it is 1 on every platform that hdrl itself describes).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.hashing import sha256_of
from hdrl.settings.batch.node_power import NodePower
from hdrl.settings.batch.platform.pstates import PStateRules
from hdrl.settings.batch.platform.sleep import SleepState, read_states, uses_of
from hdrl.settings.batch.site_rules.model import SiteRules

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float64]

LOOPBACK_S = 1e-10
"""Time of one internal byte from the master host to itself: SimGrid's own loopback of 10 GB/s."""


@dataclass(frozen=True, slots=True)
class SplitPower:
    """Power of a processor in parts, as IRMaSim gives it."""

    static_w: float  # power of the processor, whatever its cores do, while at least one serves a job; in watts
    dynamic_w: float  # additional power of each core that serves a job, in watts
    idle_share: float  # share of ``static_w`` that the processor draws while no core serves a job

    def unused_w(self, n_cores: int) -> tuple[float, float]:
        """Return the watts of a core without a job while another one of its processor has one, and while none has."""
        static_w = self.static_w / n_cores
        return static_w, self.idle_share * static_w


@dataclass(frozen=True, slots=True)
class SpeedCurve:
    """Speed of a core beside others that use the same memory: the parameters of IRMaSim's modelV1.

    `kernel.energy.pace_on_curve` has the formula.
    """

    b: float  # slope of the speed beyond ``c``, as a share of the peak per MB/s, below 0
    c: float  # demand of all cores of the processor up to which none is slowed down, in MB/s
    # range in which its own demand counts, with n other tasks on the processor: rising from ``(da - n) db`` MB/s, over
    # ``dc - n dd`` MB/s
    da: float
    db: float
    dc: float
    dd: float


@dataclass(frozen=True, slots=True)
class FittedCurve:
    """Speed of a core of a node beside others, and the power of the node: the parameters of IRMaSim's modelV2.

    They are fitted to measurements. `kernel.energy.pace_by_fit` and `kernel.energy.power_by_fit` have the formulas, in
    which demands are in GB/s.
    """

    # slope of the speeds: ``abb`` is constant, ``aba`` for each other task, ``aab`` for each GB/s that the task
    # itself demands, ``aaa`` for both together; in s/GB
    aaa: float
    aab: float
    aba: float
    abb: float
    # the speed where demands are small, as a share of the peak, made of the same four parts
    baa: float
    bab: float
    bba: float
    bbb: float
    # the speed where they are large: ``ccb`` is constant, ``cbb`` for each GB/s, ``cab`` for its square, and ``cca``,
    # ``cba``, ``caa`` the same for each other task
    caa: float
    cab: float
    cba: float
    cbb: float
    cca: float
    ccb: float
    # the demand of all tasks about which speeds fall, in GB/s, made of the same parts as the first
    daa: float
    dab: float
    dba: float
    dbb: float
    pidle: float  # power of the node without a task, in watts
    # power with n tasks that demand x GB/s: ``p00 + p01 n + p02 n^2 + p10 x + p11 x n + p20 x^2``
    p00: float
    p01: float
    p02: float
    p10: float
    p11: float
    p20: float

    def serving_w(self, n_tasks: int) -> float:
        """Return the power of the node while tasks that demand no memory run on it, in watts, at least 0.

        ``n_tasks``: how many, at least 1.
        """
        return max(0.0, self.p00 + self.p01 * n_tasks + self.p02 * n_tasks**2)


NO_CURVES: FloatArray = np.zeros((0, len(fields(SpeedCurve))))
"""The curves of processors where the contention model follows none."""


@dataclass(frozen=True, slots=True)
class ProcessorType:
    """A kind of processor (or of GPU, whose cores are its schedulable units).

    Attributes
    ----------
    name, kind, microarchitecture
        Its name; ``"CPU"`` or ``"GPU"``; the code name of its design.
    cores
        Schedulable cores, at least 1.
    clock_ghz, flops_per_cycle
        Clock and double-precision operations per cycle of one core; their product is the peak in Gflop/s.
    memory_bandwidth_gbps
        Bandwidth between the processor and its memory in GB/s, shared by its cores.
    power_w
        Power of the whole processor when all cores serve, in watts.
    llc_mb
        Last-level cache in MB (information only).
    source
        Source of the numbers.
    split_power
        Its power in parts, whose sum is ``power_w``; ``None``: fixed shares of ``power_w`` while it is not used.
    curve, fit
        Mutual slowdown of its cores under the contention models ``modelV1`` and ``modelV2``; ``None``: unknown. A fit
        is that of a node whose only processor this is.
    """

    name: str
    kind: str
    microarchitecture: str
    cores: int
    clock_ghz: float
    flops_per_cycle: float
    memory_bandwidth_gbps: float
    power_w: float
    llc_mb: float = 0.0
    source: str = ""
    split_power: SplitPower | None = None
    curve: SpeedCurve | None = None
    fit: FittedCurve | None = None


@dataclass(frozen=True, slots=True)
class NodeType:
    """A kind of node: processors (type and number), memory in GB, and what switching costs if it says so itself."""

    name: str
    processors: tuple[tuple[ProcessorType, int], ...]
    memory_gb: float
    source: str = ""
    node_power: NodePower | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A network link: bandwidth in Gbit/s and latency in seconds."""

    name: str
    bandwidth_gbit_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal nodes of a cluster."""

    type: NodeType
    number: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster: groups of nodes, each node behind a link of the same kind."""

    id: str
    groups: tuple[NodeGroup, ...]
    local_link: Link


@dataclass(frozen=True)
class Platform:
    """A heterogeneous machine.

    Attributes
    ----------
    name
        Name of the platform, from its file.
    clusters, global_link
        The tree; empty and ``None`` where the platform was read from SimGrid XML that hdrl did not write.
    rules
        P-state rules that the speeds and powers were made with; ``None`` for foreign XML, whose hosts
        have P-states of their own and no heterogeneity layer.
    core_names
        Host names, in the order of the ids.
    cluster_of_node, node_of_processor, processor_of_core
        Parents, as indices. Children are contiguous.
    first_core_of_processor, first_processor_of_node
        Start of each processor's cores (and node's processors), with one end entry more.
    memory_mib
        Memory of each node in MiB, shape ``(n_nodes,)``.
    bandwidth_gbps
        Memory bandwidth of each processor in GB/s, shape ``(n_processors,)``.
    peak_flops, peak_power_w
        Speed (flop/s) and power (W) of one core of each processor, unrounded, shape ``(n_processors,)``.
    speed_flops
        Speed of each core in each P-state, flop/s, shape ``(n_cores, n_pstates)``.
    idle_w, epsilon_w, full_w
        Power of each host in each P-state: at no load, at nearly no load, at full load; same shape.
    initial_pstate
        P-state of each core at date 0.
    host_cores
        SimGrid cores of each host.
    message_s
        Time of one internal byte from each host to the master host in seconds, shape ``(n_cores,)``.
    message_latency_s
        The part of it that is link latency; zeros on the platforms that the embedded simulator accepts.
    loopback_s, loopback_latency_s
        The same two from the master host to itself.
    properties
        Properties of each host as Batsim tells them to a scheduler, by host.
    curves
        The numbers of each processor's `SpeedCurve`, shape ``(n_processors, 6)``, or of its `FittedCurve` and one more,
        the share of what is lost by the fit that really is, shape ``(n_processors, 26)``; without rows unless the
        contention model follows curves.
    site
        The rules of the site: partitions, limits, reservations and more, whose nodes are those of the platform;
        ``None``: any job may start on any node.
    """

    name: str
    clusters: tuple[Cluster, ...]
    global_link: Link | None
    rules: PStateRules | None
    core_names: tuple[str, ...]
    cluster_of_node: IntArray
    node_of_processor: IntArray
    processor_of_core: IntArray
    first_core_of_processor: IntArray
    first_processor_of_node: IntArray
    memory_mib: FloatArray
    bandwidth_gbps: FloatArray
    peak_flops: FloatArray
    peak_power_w: FloatArray
    speed_flops: FloatArray
    idle_w: FloatArray
    epsilon_w: FloatArray
    full_w: FloatArray
    initial_pstate: IntArray
    host_cores: IntArray
    message_s: FloatArray
    message_latency_s: FloatArray
    loopback_s: float = LOOPBACK_S
    loopback_latency_s: float = 0.0
    properties: tuple[dict[str, str], ...] = ()
    curves: FloatArray = field(default_factory=lambda: NO_CURVES)
    site: SiteRules | None = None

    def __repr__(self) -> str:
        """Return one line instead of all arrays."""
        return f"<Platform {self.name}: {self.n_cores:,} cores in {self.n_nodes:,} nodes>"

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.memory_mib)

    @property
    def n_processors(self) -> int:
        """Number of processors."""
        return len(self.bandwidth_gbps)

    @property
    def n_cores(self) -> int:
        """Number of cores (Batsim's hosts)."""
        return len(self.processor_of_core)

    @property
    def n_pstates(self) -> int:
        """Number of P-states."""
        return int(self.speed_flops.shape[1])

    @property
    def reference_gflops(self) -> float:
        """Mean peak speed of a core in Gflop/s: what turns seconds of a trace into flop."""
        cores = np.diff(self.first_core_of_processor)
        return float(np.sum(self.peak_flops * cores) / self.n_cores / 1e9)

    @property
    def is_fitted(self) -> bool:
        """True if its curves are fits, which give the power of its nodes, too."""
        return len(self.curves) > 0 and self.curves.shape[1] > len(fields(SpeedCurve))

    @property
    def has_power(self) -> bool:
        """True if the power of every core is known (SimGrid files need not give it; it is NaN then)."""
        return not bool(np.any(np.isnan(self.full_w)))

    @cached_property
    def has_split_power(self) -> bool:
        """True if a processor defines its own power while it is not used."""
        return any(kind.split_power is not None for node in self._node_types for kind, _ in node.processors)

    @cached_property
    def has_own_node_power(self) -> bool:
        """True if a type of nodes defines its own cost of switching them off."""
        return any(node.node_power is not None for node in self._node_types)

    @property
    def _node_types(self) -> list[NodeType]:
        return [group.type for cluster in self.clusters for group in cluster.groups]

    @cached_property
    def sleep_states_of_node(self) -> tuple[tuple[SleepState, ...], ...]:
        """Sleep states of each node, in the order of its hosts' ``sleep_pstates``; see `sleep.read_states`."""
        if not self.properties:
            return ((),) * self.n_nodes
        first = self.first_core_of_processor[self.first_processor_of_node[:-1]]
        texts = [self.properties[core].get("sleep_pstates", "") for core in first.tolist()]
        states = {text: read_states(text) for text in set(texts)}
        return tuple(states[text] for text in texts)

    @property
    def sleep_states(self) -> tuple[SleepState, ...]:
        """Sleep states of all nodes, in the order of ``sleep_pstates``; none if nodes have different ones."""
        different = set(self.sleep_states_of_node)
        return different.pop() if len(different) == 1 else ()

    @cached_property
    def n_sleep_states(self) -> int:
        """The most sleep states that a node has, 0 if none can be switched off."""
        return max(map(len, self.sleep_states_of_node), default=0)

    @cached_property
    def pstate_uses(self) -> NDArray[np.int8]:
        """Use of each P-state of each core, one of `sleep.USES`, shape ``(n_cores, n_pstates)``."""
        uses = {states: uses_of(states, self.n_pstates) for states in set(self.sleep_states_of_node)}
        of_node = np.array([uses[states] for states in self.sleep_states_of_node])
        return of_node[self.node_of_processor[self.processor_of_core]]

    @cached_property
    def node_sizes(self) -> tuple[tuple[int, float, int], ...]:
        """Sizes of its nodes: the cores, the memory in MiB, and the number of nodes with both."""
        cores = np.bincount(self.node_of_processor[self.processor_of_core], minlength=self.n_nodes)
        n_of_size = Counter(zip(cores.tolist(), self.memory_mib.tolist(), strict=True))
        return tuple((*size, n) for size, n in n_of_size.items())

    @property
    def n_units(self) -> int:
        """Number of cores: what a task can hold."""
        return self.n_cores

    @property
    def unit_kinds(self) -> dict[str, int]:
        """Number of cores of each speed, the fastest first, named by the speed: ``{"12.8 Gflop/s": 64}``."""
        speeds, n_of_speed = np.unique(self.speed_flops[:, 0] / 1e9, return_counts=True)
        named = zip(speeds.tolist()[::-1], n_of_speed.tolist()[::-1], strict=True)
        return {f"{speed:g} Gflop/s": number for speed, number in named}

    def sha256(self) -> str:
        """Return the SHA-256 of all that a simulation depends on; files that describe it in different ways share it."""
        values = [(one.name, getattr(self, one.name)) for one in fields(self)]
        # What is empty says nothing, and must not change the hashes of platforms without it.
        arrays = [(name, value) for name, value in values if isinstance(value, np.ndarray) and value.size]
        rest: list[object] = [self.core_names, self.loopback_s, self.loopback_latency_s]
        if len(set(self.sleep_states_of_node)) > 1:
            rest.append(self.sleep_states_of_node)
        if self.site is not None:
            rest.append(self.site.sha256())
        return sha256_of(arrays, rest)

    def facts(self) -> dict[str, Any]:
        """Return its name and size, for the provenance of a run, and partitions where the rules of a site count."""
        rules = {} if self.site is None else {"n_partitions": len(self.site.partitions)}
        return {"name": self.name, "n_cores": self.n_cores, **rules}

    def __eq__(self, other: object) -> bool:
        """Tell whether all fields are equal, arrays element by element (and NaN equal to NaN)."""
        if not isinstance(other, Platform):
            return NotImplemented
        return all(_equal(getattr(self, one.name), getattr(other, one.name)) for one in fields(self))

    def __hash__(self) -> int:
        """Return a hash that equal platforms share."""
        return hash((self.name, self.n_cores, self.n_nodes, self.core_names[:1]))


def _equal(left: object, right: object) -> bool:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    return left == right

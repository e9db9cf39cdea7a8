"""From the tree of a platform to its flat arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import PlatformError
from hdrl.settings.batch.contention import MODEL_V2
from hdrl.settings.batch.node_power import NodePower
from hdrl.settings.batch.platform.model import (
    NO_CURVES,
    Cluster,
    FloatArray,
    IntArray,
    Link,
    NodeType,
    Platform,
    ProcessorType,
    SpeedCurve,
)
from hdrl.settings.batch.platform.pstates import (
    CONTENDED,
    FREE,
    IDLE,
    SERVING,
    STOPPED_FLOPS,
    PStateRules,
    sleeping_rungs,
)
from hdrl.settings.batch.simgrid.quantities import GBIT_PER_S
from hdrl.settings.batch.simulators import IRMASIM

MAX_CORES = 2**24
"""More cores are taken for a mistake in the description (Fugaku has 7.6 million)."""

TCP_GAMMA_BYTES = 4194304.0
"""SimGrid's largest TCP window: no flow is faster than this per two latencies."""


def message_time_s(bandwidths: Iterable[float], latency_s: float) -> float:
    """Return the time of one byte on an idle route, in seconds.

    - ``bandwidths``: bandwidth of each link of the route in bytes per second.
    - ``latency_s``: sum of their latencies.
    """
    rate = min(bandwidths)
    if latency_s > 0:
        rate = min(rate, TCP_GAMMA_BYTES / (2.0 * latency_s))
    return latency_s + 1.0 / rate


def wattage_text(idle_w: FloatArray, epsilon_w: FloatArray, full_w: FloatArray) -> str:
    """Return SimGrid's ``wattage_per_state`` of one host, numbers with full precision.

    ``idle_w``, ``epsilon_w``, ``full_w``: power in each P-state at no, nearly no and full load, shape ``(n_pstates,)``.
    """
    return ", ".join(
        f"{idle!r}:{full!r}" if idle == epsilon else f"{idle!r}:{epsilon!r}:{full!r}"
        for idle, epsilon, full in zip(idle_w.tolist(), epsilon_w.tolist(), full_w.tolist(), strict=True)
    )


def sleep_text(first_pstate: int, n_sleep_states: int) -> str:
    """Return Batsim's ``sleep_pstates`` of a host whose last P-states are sleep states, each with its ways."""
    first = range(first_pstate, first_pstate + 3 * n_sleep_states, 3)
    return ", ".join(f"{off}:{off + 1}:{off + 2}" for off in first)


def core_name(core: int, n_cores: int) -> str:
    """Return the host name of a core, padded so that the order of the names is the order of the ids."""
    return f"cor_{core:0{max(4, len(str(n_cores - 1)))}d}"


def pstate_ladder(
    kind: ProcessorType, rules: PStateRules, power: NodePower | None, n_sleep_states: int
) -> tuple[FloatArray, FloatArray]:
    """Return speed (flop/s) and power (W) of one core in each P-state, each of shape ``(n_pstates,)``.

    There are P-states for ``n_sleep_states`` sleep states; those that its node lacks are never used.
    """

    def rounded(value: float) -> float:
        return value if rules.decimals is None else float(f"{value:.{rules.decimals}f}")

    gflops = kind.clock_ghz * kind.flops_per_cycle
    peak_w = kind.power_w / kind.cores
    # without a contended speed P1 still exists, so that P-state numbers mean the same on every platform
    contended = rules.contention.speed_factors or (1.0,)
    speeds = np.array(
        [
            rounded(gflops) * 1e9,
            rounded(contended[0] * gflops) * 1e9,
            STOPPED_FLOPS,
            STOPPED_FLOPS,
            *(rounded(factor * gflops) * 1e9 for factor in contended[1:]),
        ]
    )
    factors = rules.power_factors
    order = [SERVING, CONTENDED, FREE, IDLE] + [CONTENDED] * (len(contended) - 1)
    shares = [factors[pstate] for pstate in order]
    if power is not None:
        shares[FREE] = shares[IDLE] = power.idle_power
    asleep = [] if power is None else sleeping_rungs(power)
    unused = ((STOPPED_FLOPS, shares[IDLE]),) * 3
    for rungs in [*asleep, *[unused] * (n_sleep_states - len(asleep))]:
        speeds = np.append(speeds, [flops for flops, _ in rungs])
        shares += [share for _, share in rungs]
    powers = np.array([rounded(share * peak_w) for share in shares])
    if kind.split_power is not None and power is None:
        powers[[FREE, IDLE]] = [rounded(watts) for watts in kind.split_power.unused_w(kind.cores)]
    if rules.unused_pstate is not None:
        speeds, powers = np.append(speeds, STOPPED_FLOPS), np.append(powers, 0.0)
    if kind.fit is not None and rules.contention.name == MODEL_V2:
        powers[:] = kind.fit.pidle / kind.cores  # the power of a node with tasks depends on all of them: kernel.energy
    if not np.all(speeds > 0) or not np.all(np.isfinite(speeds)):
        raise PlatformError(f"processor type {kind.name!r}: {gflops:g} Gflop/s a core is out of range")
    return speeds, powers


IRMASIM_LOSS = 0.9
"""Share of the loss by a fit that IRMaSim's last version takes off; the numbers of its calibration are without it."""


def platform_from_tree(name: str, clusters: tuple[Cluster, ...], global_link: Link, rules: PStateRules) -> Platform:
    """Return the platform of a tree.

    Raises
    ------
    PlatformError
        If it has too many cores, a core whose speed is out of range, or a processor without the curve that the
        contention model follows.
    """
    nodes, cluster_of_node = _nodes(clusters)
    processors = [
        (kind, node.node_power or rules.node_power)
        for node in nodes
        for kind, number in node.processors
        for _ in range(number)
    ]
    processors_of_node = np.array([sum(number for _, number in node.processors) for node in nodes])
    cores = np.array([kind.cores for kind, _ in processors])
    n_cores = int(cores.sum())

    kinds, kind_of_processor = _distinct(processors)
    n_of_kind = [0 if power is None else len(sleeping_rungs(power)) for _, power in kinds]
    n_sleep_states = max(n_of_kind)
    ladders = [pstate_ladder(kind, rules, power, n_sleep_states) for kind, power in kinds]
    speeds = np.array([speed for speed, _ in ladders])
    powers = np.array([power for _, power in ladders])
    first_asleep = speeds.shape[1] - 3 * n_sleep_states
    properties: list[dict[str, str]] = [
        {
            "wattage_per_state": wattage_text(power, power, power),
            **({"sleep_pstates": sleep_text(first_asleep, n)} if n else {}),
            "role": "",
        }
        for power, n in zip(powers, n_of_kind, strict=True)
    ]
    times = [_message(cluster.local_link, global_link) for cluster in clusters]

    processor_of_core = np.repeat(np.arange(len(processors)), cores)
    node_of_processor = np.repeat(np.arange(len(nodes)), processors_of_node)
    kind_of_core = kind_of_processor[processor_of_core]
    cluster_of_core = cluster_of_node[node_of_processor[processor_of_core]]
    power_w = frozen(powers[kind_of_core])
    return Platform(
        name=name,
        clusters=clusters,
        global_link=global_link,
        rules=rules,
        core_names=tuple(core_name(core, n_cores) for core in range(n_cores)),
        cluster_of_node=_indices(cluster_of_node),
        node_of_processor=_indices(node_of_processor),
        processor_of_core=_indices(processor_of_core),
        first_core_of_processor=_indices(_starts(cores)),
        first_processor_of_node=_indices(_starts(processors_of_node)),
        memory_mib=frozen(np.array([node.memory_gb * rules.mib_per_gb for node in nodes])),
        bandwidth_gbps=frozen(np.array([kind.memory_bandwidth_gbps for kind, _ in processors])),
        peak_flops=frozen(np.array([kind.clock_ghz * kind.flops_per_cycle * 1e9 for kind, _ in processors])),
        peak_power_w=frozen(np.array([kind.power_w / kind.cores for kind, _ in processors])),
        speed_flops=frozen(speeds[kind_of_core]),
        idle_w=power_w,
        epsilon_w=power_w,
        full_w=power_w,
        initial_pstate=_indices(np.full(n_cores, IDLE if rules.unused_pstate is None else rules.unused_pstate)),
        host_cores=_indices(np.ones(n_cores)),
        message_s=frozen(np.array([time for time, _ in times])[cluster_of_core]),
        message_latency_s=frozen(np.array([latency for _, latency in times])[cluster_of_core]),
        properties=tuple(properties[kind] for kind in kind_of_core.tolist()),
        curves=frozen(
            _curves([kind for kind, _ in kinds], rules)[kind_of_processor]
            if rules.contention.follows_curves
            else NO_CURVES
        ),
    )


def _curves(kinds: list[ProcessorType], rules: PStateRules) -> FloatArray:
    """Return the curve of each kind of processor."""
    is_fitted = rules.contention.name == MODEL_V2
    curves = [kind.fit if is_fitted else kind.curve for kind in kinds]
    for kind, curve in zip(kinds, curves, strict=True):
        if curve is None:
            names = "aaa ... p20" if is_fitted else ", ".join(SpeedCurve.__slots__)
            raise PlatformError(
                f"processor type {kind.name!r} has no {names}, which contention {rules.contention.name!r} needs"
            )
    lost = (IRMASIM_LOSS if rules.name == IRMASIM else 1.0,) if is_fitted else ()
    return np.array([(*astuple(curve), *lost) for curve in curves if curve is not None])


def frozen(array: FloatArray) -> FloatArray:
    """Return an array of doubles after making it read-only."""
    array = np.ascontiguousarray(array, dtype=np.float64)
    array.flags.writeable = False
    return array


def _indices(array: NDArray[np.generic]) -> IntArray:
    result = array.astype(np.int32)
    result.flags.writeable = False
    return result


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(counts)))


def _nodes(clusters: tuple[Cluster, ...]) -> tuple[list[NodeType], NDArray[np.int64]]:
    """Return the type and the cluster of each node, refusing what would not fit into memory."""
    groups = [(index, group) for index, cluster in enumerate(clusters) for group in cluster.groups]
    n_cores = sum(
        group.number * sum(kind.cores * number for kind, number in group.type.processors) for _, group in groups
    )
    if n_cores > MAX_CORES:
        raise PlatformError(f"{n_cores} cores are too many; at most {MAX_CORES}")
    nodes = list(chain.from_iterable([group.type] * group.number for _, group in groups))
    return nodes, np.repeat([index for index, _ in groups], [group.number for _, group in groups])


def _distinct(
    processors: list[tuple[ProcessorType, NodePower | None]],
) -> tuple[list[tuple[ProcessorType, NodePower | None]], NDArray[np.int64]]:
    """Return the kinds of processors, by type and by how their nodes are switched, and the kind of each processor."""
    index: dict[tuple[int, int], int] = {}
    kinds: list[tuple[ProcessorType, NodePower | None]] = []
    found = []
    for kind, power in processors:
        key = id(kind), id(power)  # by identity: hashing a type for each processor would cost more than all the rest
        if key not in index:
            index[key] = len(kinds)
            kinds.append((kind, power))
        found.append(index[key])
    return kinds, np.array(found)


def _message(local: Link, glob: Link) -> tuple[float, float]:
    """Return time and latency of one byte from a core to the master host."""
    latency_s = local.latency_s + glob.latency_s
    bandwidths = [link.bandwidth_gbit_per_s * GBIT_PER_S for link in (local, glob)]
    return message_time_s(bandwidths, latency_s), latency_s

"""Further rules of a simulation: rounds, the costs of preemption, node order, tie rule, queues of attained service."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import OptionsError, suggest
from hdrl.base.seeding import stream
from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.kernel import codes
from hdrl.settings.gpu.loads.load import GpuLoad

NodeOrder: TypeAlias = Literal["file", "largest", "smallest", "shuffled"]
"""Orders in which nodes are examined: as in the file, by GPUs, or random by the seed."""

Tie: TypeAlias = Literal["first", "last", "random"]
"""Choice among equally good nodes, in the order of nodes."""

TIES: Mapping[str, int] = MappingProxyType(
    {"first": codes.TIE_FIRST, "last": codes.TIE_LAST, "random": codes.TIE_RANDOM}
)

MAX_LEVELS = 256
"""The most levels of attained service."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of simulation, whatever decides.

    Attributes
    ----------
    round_s
        Decisions are made at multiples of it; 0: whenever something happens.
    restart_s
        Overhead of a preempted job before it resumes, in seconds: drawn evenly between the two, once for each job.
    checkpoint_s
        Time between two checkpoints of a job, in seconds; work since the last one is lost at preemption. 0: nothing is
        lost.
    node_order, tie
        In which order nodes are looked at, and which of equally good ones is taken.
    levels
        Attained service (seconds, or GPU seconds) at which jobs come to their next queue under ``las``, ``las-2d``;
        none: by attained service itself, which needs rounds.
    gittins_delta
        GPU seconds between the levels at which Gittins' index is looked at.
    """

    round_s: float = 0.0
    restart_s: tuple[float, float] = (0.0, 0.0)
    checkpoint_s: float = 0.0
    node_order: NodeOrder = "file"
    tie: Tie = "first"
    levels: tuple[float, ...] = (3250.0, 7200.0, 18000.0)
    gittins_delta: float = 3250.0

    def __post_init__(self) -> None:
        for name, known in (("tie", TIES), ("node_order", get_args(NodeOrder))):
            if getattr(self, name) not in tuple(known):
                raise OptionsError(f"{name} is {getattr(self, name)!r}; {suggest(str(getattr(self, name)), known)}")
        for name, value in (("round_s", self.round_s), ("checkpoint_s", self.checkpoint_s)):
            if not 0.0 <= value < math.inf:
                raise OptionsError(f"{name} is {value}, expected a number of seconds from 0 on")
        if not 0.0 <= self.restart_s[0] <= self.restart_s[1] < math.inf:
            raise OptionsError(
                f"restart_s is {list(self.restart_s)}, expected two numbers from 0 on, the smaller first"
            )
        if any(b <= a for a, b in zip((0.0, *self.levels), self.levels, strict=False)) or len(self.levels) > MAX_LEVELS:
            raise OptionsError(
                f"levels are {list(self.levels)}, expected up to {MAX_LEVELS} numbers that ascend from 0"
            )
        if not self.gittins_delta > 0.0:
            raise OptionsError(f"gittins_delta is {self.gittins_delta}, expected more than 0")


def order_nodes(cluster: GpuCluster, order: NodeOrder, seed: int) -> NDArray[np.int64]:
    """Return the numbers of the nodes in an order."""
    numbers = np.arange(cluster.n_nodes)
    if order == "shuffled":
        return np.asarray(stream(seed, "gpu-nodes").permutation(numbers))
    if order == "file":
        return numbers
    sign = -1 if order == "largest" else 1
    return np.asarray(np.argsort(sign * cluster.nodes["n_gpus"], kind="stable"))


def draw_restarts(rules: Rules, n_jobs: int, seed: int) -> NDArray[np.float64]:
    """Return the time that each job spends when it goes on after a preemption."""
    low, high = rules.restart_s
    if low == high:
        return np.full(n_jobs, low)
    return np.asarray(stream(seed, "gpu-restarts").uniform(low, high, n_jobs))


def levels_of(rules: Rules, order: str, cluster: GpuCluster, load: GpuLoad) -> tuple[NDArray[np.float64], ...]:
    """Return the bounds between levels of attained service, and the key of each level.

    Raises
    ------
    OptionsError
        If an order uses attained service itself, but there are no rounds.
    """
    if order == "gittins":
        service = load.isolated_s(cluster) * load.jobs["n_gpus"] * load.jobs["gpu_milli"] / 1000.0
        return _gittins(service, rules.gittins_delta)
    if order in ("las", "las-2d") and not rules.levels and rules.round_s <= 0.0:
        raise OptionsError(f"policy {order} without levels needs rounds: give round_s, or levels")
    bounds = np.array(rules.levels if order in ("las", "las-2d") else (), dtype=np.float64)
    return bounds, np.arange(len(bounds) + 1, dtype=np.float64)


def _gittins(service: NDArray[np.float64], delta: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return bounds every ``delta``, wider where there would be too many, and minus Gittins' index at each level."""
    most = float(service.max())
    n = min(MAX_LEVELS, max(1, math.ceil(most / delta) - 1))
    bounds = np.asarray(delta * np.arange(1, n + 1), dtype=np.float64)
    if most / delta > MAX_LEVELS:
        bounds = elementary.power(10.0, np.linspace(math.log10(delta), math.log10(most), n))
        bounds[0], bounds[-1] = delta, most
    keys = []
    for attained in (0.0, *bounds):
        left = service[service > attained] - attained
        spent = np.minimum(left, delta).sum()
        keys.append(-float((left <= delta).sum() / spent) if len(left) else 0.0)
    return bounds, np.array(keys)

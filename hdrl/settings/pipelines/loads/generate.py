"""Pipelines by a model: utilisations that sum to a target, periods, graphs, times on CPUs and GPUs, what fuses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import WorkloadError, suggest
from hdrl.settings.pipelines.loads.covers import demand_us
from hdrl.settings.pipelines.loads.pipeline import MAX_US, Group, Kernel, Pipeline
from hdrl.settings.pipelines.loads.readers import PipelineSet
from hdrl.settings.pipelines.machine import CPU, GPU

SHAPES = ("chain", "fork_join", "layered")
"""Shapes of graphs."""

SPLITS = ("uunifast_discard", "drs")
"""Methods that split a utilisation among pipelines."""

_TRIES = 10_000


@dataclass(frozen=True, slots=True)
class PipelineModel:
    """Model of generated pipelines.

    Attributes
    ----------
    n_pipelines
        Number of pipelines.
    utilization
        Unit time that they need at the least per time (each kernel where it is fastest, fused as is best), as a share
        of ``n_units`` units.
    n_units
        For how many units.
    split
        Method that splits it: a name of `SPLITS`.
    largest
        The largest utilisation of one pipeline, in units.
    shape
        A name of `SHAPES`, or ``"mixed"``: drawn for each pipeline.
    n_kernels
        The smallest and largest number of kernels.
    periods_ms
        Periods to draw from.
    affinity
        Largest ratio of the times on the two kinds of unit: the logarithm of the ratio is drawn evenly.
    fusion
        Shares of the separate times that the smallest and the largest gain of fusing leave; drawn for each group.
    implicit_deadlines
        True if deadlines are periods; else they are drawn evenly between the middle of the period and its end.
    """

    n_pipelines: int = 4
    utilization: float = 0.5
    n_units: int = 2
    split: str = "uunifast_discard"
    largest: float = 1.0
    shape: str = "chain"
    n_kernels: tuple[int, int] = (3, 8)
    periods_ms: tuple[int, ...] = (100, 200, 250, 400, 500, 1000)
    affinity: float = 3.0
    fusion: tuple[float, float] = (0.4, 0.9)
    implicit_deadlines: bool = True

    def __post_init__(self) -> None:
        if self.shape not in (*SHAPES, "mixed"):
            raise WorkloadError(f"shape is {self.shape!r}; {suggest(self.shape, (*SHAPES, 'mixed'))}")
        if self.split not in SPLITS:
            raise WorkloadError(f"split is {self.split!r}; {suggest(self.split, SPLITS)}")
        low, high = self.n_kernels
        smallest, biggest = self.fusion
        for is_right, what in (
            (self.n_pipelines >= 1, f"n_pipelines is {self.n_pipelines}, expected at least 1"),
            (self.n_units >= 1, f"n_units is {self.n_units}, expected at least 1"),
            (1 <= low <= high <= 256, f"n_kernels is {self.n_kernels}, expected two numbers from 1 to 256"),
            (0.0 < smallest <= biggest <= 1.0, f"fusion is {self.fusion}, expected two shares in (0, 1]"),
            (self.affinity >= 1.0, f"affinity is {self.affinity}, expected at least 1"),
            (len(self.periods_ms) > 0 and min(self.periods_ms) >= 1, "periods_ms is empty or holds one below 1"),
            (self.largest > 0.0, f"largest is {self.largest}, expected more than 0"),
            (
                0.0 < self.utilization * self.n_units <= self.n_pipelines * self.largest,
                f"a utilisation of {self.utilization:g} on {self.n_units} units cannot be split among"
                f" {self.n_pipelines} pipelines of at most {self.largest:g}",
            ),
        ):
            if not is_right:
                raise WorkloadError(f"model of pipelines: {what}")


def uunifast(n: int, total: float, random: np.random.Generator, largest: float = 1.0) -> NDArray[np.float64]:
    """Return utilisations with a given sum, drawn evenly among all that are small enough (UUniFast-discard).

    Raises
    ------
    WorkloadError
        If none were found in 10,000 tries: `drs` finds them where they are rare.

    References
    ----------
    E. Bini, G. Buttazzo, "Measuring the performance of schedulability tests", Real-Time Systems 30, 2005;
    R. Davis, A. Burns, "Improved priority assignment for global fixed priority pre-emptive scheduling in
    multiprocessor real-time systems", Real-Time Systems 47, 2011.
    """
    for _ in range(_TRIES):
        shares = elementary.power(random.random(n - 1), 1.0 / np.arange(n - 1, 0, -1))
        rest = total * np.concatenate([[1.0], np.cumprod(shares)])
        found = rest - np.append(rest[1:], 0.0)
        if np.all(found <= largest):
            return np.asarray(found)
    raise WorkloadError(f"{n} utilisations of at most {largest:g} with sum {total:g} are too rare; use split 'drs'")


def drs(n: int, total: float, random: np.random.Generator, largest: float = 1.0) -> NDArray[np.float64]:
    """Return utilisations with a given sum and a largest one (Dirichlet-Rescale).

    Raises
    ------
    WorkloadError
        If there are none.

    References
    ----------
    D. Griffin, I. Bate, R. Davis, "Generating Utilization Vectors for the Systematic Evaluation of Schedulability
    Tests", RTSS 2020.
    """
    if not 0.0 < total <= n * largest:
        raise WorkloadError(f"no {n} utilisations of at most {largest:g} have the sum {total:g}")
    # The region of what is left to the largest is the same turned round; the smaller of the two is drawn from.
    is_turned = total > n * largest / 2.0
    drawn = n * largest - total if is_turned else total
    found = drawn * random.dirichlet(np.ones(n)) if drawn > 0.0 else np.zeros(n)
    for _ in range(_TRIES):
        beyond = found > largest
        if not beyond.any():
            break
        # A point beyond some limits lies in a smaller simplex, which is scaled up to the whole one.
        limits = np.where(beyond, largest, 0.0)
        found = (found - limits) * (drawn / (drawn - limits.sum()))
    else:
        raise WorkloadError(f"no {n} utilisations of at most {largest:g} with sum {total:g} were found")
    return np.asarray(largest - found if is_turned else found)


def generate(model: PipelineModel, random: np.random.Generator, name: str = "generated") -> PipelineSet:
    """Return pipelines by a model; each has one period.

    Raise WorkloadError if the model cannot be followed.
    """
    split = uunifast if model.split == "uunifast_discard" else drs
    shares = split(model.n_pipelines, model.utilization * model.n_units, random, model.largest)
    pipelines, periods = [], []
    for number, share in enumerate(shares.tolist()):
        period_us = int(random.choice(np.array(model.periods_ms))) * 1000
        pipelines.append(_pipeline(model, f"p{number}", share * period_us, period_us, random))
        periods.append((period_us,))
    return PipelineSet(name, tuple(pipelines), tuple(periods))


def _pipeline(model: PipelineModel, name: str, need_us: float, period_us: int, random: np.random.Generator) -> Pipeline:
    """Return a pipeline whose instances need a given unit time at the least."""
    n = int(random.integers(model.n_kernels[0], model.n_kernels[1], endpoint=True))
    shape = str(random.choice(np.array(SHAPES))) if model.shape == "mixed" else model.shape
    edges = _edges(shape, n, random)
    weights = uunifast(n, 1.0, random)
    ratio = elementary.exp(random.uniform(-1.0, 1.0, n) * math.log(model.affinity))
    on_cpu = np.maximum(weights, 1e-6) * np.sqrt(ratio)
    on_gpu = np.maximum(weights, 1e-6) / np.sqrt(ratio)
    groups = [(members, *_fused(members, on_cpu, on_gpu, model, random)) for members in _groups(n, edges)]
    deadline_us = 0 if model.implicit_deadlines else int(random.integers(period_us // 2, period_us, endpoint=True))

    def scaled(factor: float) -> Pipeline:
        def time(value: float) -> int:
            return int(min(max(1, round(value * factor)), MAX_US))

        kernels = tuple(Kernel(f"{name}.{k}", time(on_cpu[k]), time(on_gpu[k])) for k in range(n))
        found = tuple(Group(members, time(cpu), time(gpu)) for members, cpu, gpu in groups)
        return Pipeline(name, kernels, tuple(edges), found, deadline_us=deadline_us)

    unit = 1e9
    first = scaled(unit)
    return scaled(unit * need_us / demand_us(first, (CPU, GPU)))


def _edges(shape: str, n: int, random: np.random.Generator) -> list[tuple[int, int]]:
    if shape == "chain" or n < 3:
        return [(k, k + 1) for k in range(n - 1)]
    if shape == "fork_join":
        return [(0, k) for k in range(1, n - 1)] + [(k, n - 1) for k in range(1, n - 1)]
    # Layers of one to three kernels, each waiting for one to all of the layer before.
    edges, before, first = [], [0], 1
    while first < n:
        layer = list(range(first, min(n, first + int(random.integers(1, 3, endpoint=True)))))
        for kernel in layer:
            chosen = random.permutation(before)[: int(random.integers(1, len(before), endpoint=True))]
            edges += [(int(one), kernel) for one in sorted(chosen.tolist())]
        before, first = layer, layer[-1] + 1
    return edges


def _groups(n: int, edges: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Return the groups that can be fused: every stretch of a chain within the graph."""
    after = [[v for u, v in edges if u == k] for k in range(n)]
    before = [[u for u, v in edges if v == k] for k in range(n)]
    groups = []
    for first in range(n):
        stretch = [first]
        while len(after[stretch[-1]]) == 1 and len(before[after[stretch[-1]][0]]) == 1:
            stretch.append(after[stretch[-1]][0])
            groups.append(tuple(sorted(stretch)))
    return groups


def _fused(
    members: tuple[int, ...],
    on_cpu: NDArray[np.float64],
    on_gpu: NDArray[np.float64],
    model: PipelineModel,
    random: np.random.Generator,
) -> tuple[float, float]:
    times = []
    for one in (on_cpu, on_gpu):
        inside = one[list(members)]
        # Fusing saves the way through memory between kernels: never less than the longest of them is left.
        left = random.uniform(*model.fusion)
        times.append(max(float(inside.max()), left * float(inside.sum())))
    return times[0], times[1]

"""The Lublin-Feitelson model of rigid jobs, sized to a machine.

Lublin, Feitelson, "The Workload on Parallel Supercomputers: Modeling the Characteristics of Rigid Jobs", JPDC 63, 2003:
sizes from a two-stage uniform distribution of their logarithm, run times from a hyper-gamma distribution of theirs
that depends on the size, arrivals from gamma distributed gaps within a daily cycle. Dates count from midnight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import OptionsError, UnknownName
from hdrl.base.seeding import stream
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.workload.build import MAX_INT32, MAX_VALUE
from hdrl.settings.batch.workload.estimates import tsafrir_estimates
from hdrl.settings.batch.workload.model import Workload
from hdrl.settings.batch.workload.models import KIB_PER_MIB, MEMORIES_MIB
from hdrl.settings.batch.workload.swf import UNKNOWN_VALUE, SwfLog, unknown_rows
from hdrl.settings.batch.workload.swf_jobs import workload_from_swf

FloatArray = NDArray[np.float64]

LONGEST_LOG_RUN = 12.0
"""Largest natural logarithm of a run time in seconds (45 hours); longer ones are drawn again."""
LONGEST_LOG_GAP = 13.0
"""Largest natural logarithm of a gap between arrivals; longer ones are drawn again."""
SLOT_S = 1800.0
N_SLOTS = 48
DAY_BEGINS = 11
"""The slot (counted from 1 at midnight) at which the daily cycle of the model begins: 5 o'clock."""
MODEL_LOG2_CORES = 7.0
"""The parameters of the sizes are those of a machine of 128 processors."""

# Gauss-Legendre quadrature with 12 nodes; `numpy.polynomial.legendre.leggauss` differs between processors.
_POSITIVE_NODES = np.array([
    0.1252334085114689, 0.3678314989981802, 0.5873179542866175,
    0.7699026741943047, 0.9041172563704749, 0.9815606342467192,
])  # fmt: skip
_HALF_WEIGHTS = np.array([
    0.24914704581340277, 0.2334925365383548, 0.20316742672306592,
    0.16007832854334622, 0.10693932599531843, 0.04717533638651183,
])  # fmt: skip
_NODES = np.concatenate([-_POSITIVE_NODES[::-1], _POSITIVE_NODES])
_NODE_WEIGHTS = np.concatenate([_HALF_WEIGHTS[::-1], _HALF_WEIGHTS])


@dataclass(frozen=True, slots=True)
class LublinParameters:
    """Parameters of one stream of jobs."""

    # probability that a job takes one processor, and that the logarithm of its size is rounded
    serial: float
    pow2: float
    # borders of the two-stage uniform distribution of log2(size), and the probability of its lower part
    size_low: float
    size_medium: float
    size_high: float
    size_probability: float
    # shapes and scales of the two gamma distributions of ln(run time in s)
    run_a1: float
    run_b1: float
    run_a2: float
    run_b2: float
    # probability of the first of them as a linear function of the size
    run_slope: float
    run_offset: float
    # shape and scale of the gamma distribution of ln(gap between arrivals)
    gap_a: float
    gap_b: float
    # shape and scale of the gamma distribution that is the daily cycle, in slots of half an hour
    cycle_a: float
    cycle_b: float

    def sized(self, n_cores: int) -> LublinParameters:
        """Return the parameters for a machine: the borders of the sizes move with the logarithm of its processors."""
        shift = math.log2(n_cores) - MODEL_LOG2_CORES
        high = max(0.0, self.size_high + shift)
        low = min(self.size_low, high)
        medium = min(max(self.size_medium + shift, low), high)
        return replace(self, size_low=low, size_medium=medium, size_high=high)


BATCH = LublinParameters(
    serial=0.2927, pow2=0.6686, size_low=1.2, size_medium=5.0, size_high=7.0, size_probability=0.875,
    run_a1=6.57, run_b1=0.823, run_a2=639.1, run_b2=0.0156, run_slope=-0.003, run_offset=0.6986,
    gap_a=6.0415 * 1.0519, gap_b=0.8531, cycle_a=6.1271, cycle_b=5.2740,
)  # fmt: skip
INTERACTIVE = LublinParameters(
    serial=0.1541, pow2=0.625, size_low=1.0, size_medium=3.0, size_high=5.5, size_probability=0.705,
    run_a1=3.8351, run_b1=0.6605, run_a2=7.073, run_b2=0.6856, run_slope=-0.0118, run_offset=0.9156,
    gap_a=6.5510 * 0.9797, gap_b=0.6621, cycle_a=8.9186, cycle_b=3.6680,
)  # fmt: skip
ALL = LublinParameters(
    serial=0.244, pow2=0.576, size_low=0.8, size_medium=4.5, size_high=7.0, size_probability=0.86,
    run_a1=4.2, run_b1=0.94, run_a2=312.0, run_b2=0.03, run_slope=-0.0054, run_offset=0.78,
    gap_a=10.2303 * 1.0225, gap_b=0.4871, cycle_a=8.1737, cycle_b=3.9631,
)  # fmt: skip

STREAMS: dict[str, tuple[tuple[int, LublinParameters], ...]] = {
    "all": ((1, ALL),),
    "batch": ((1, BATCH),),
    "interactive": ((0, INTERACTIVE),),
    "batch+interactive": ((1, BATCH), (0, INTERACTIVE)),
}
"""Streams of each kind of workload, with their queue numbers (0 is interactive, as in the archive's logs)."""


def draw_sizes(parameters: LublinParameters, n_jobs: int, n_cores: int, rng: np.random.Generator) -> FloatArray:
    """Draw the processors of jobs."""
    p = parameters
    lower = rng.random(n_jobs) <= p.size_probability
    low = np.where(lower, p.size_low, p.size_medium)
    high = np.where(lower, p.size_medium, p.size_high)
    log2_size = low + rng.random(n_jobs) * (high - low)
    log2_size = np.where(rng.random(n_jobs) <= p.pow2, np.floor(log2_size + 0.5), log2_size)
    log2_size = np.where(rng.random(n_jobs) <= p.serial, 0.0, log2_size)
    return np.clip(np.floor(elementary.power(2.0, log2_size) + 0.5), 1, n_cores)


def draw_run_times(parameters: LublinParameters, sizes: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw the run times of jobs of these sizes, in whole seconds of at least 1."""
    p = parameters
    short = np.clip(p.run_slope * sizes + p.run_offset, 0.0, 1.0)

    def draw(which: NDArray[np.int64]) -> FloatArray:
        first = rng.random(len(which)) <= short[which]
        shape, scale = np.where(first, p.run_a1, p.run_a2), np.where(first, p.run_b1, p.run_b2)
        return rng.gamma(shape, scale)

    return np.maximum(1.0, np.floor(elementary.exp(_redraw(draw, len(sizes), LONGEST_LOG_RUN))))


def _redraw(draw: Callable[[NDArray[np.int64]], FloatArray], n: int, largest: float) -> FloatArray:
    """Draw n values; those above the largest allowed are drawn again."""
    values = np.empty(n)
    missing = np.arange(n)
    while len(missing):
        values[missing] = draw(missing)
        missing = missing[values[missing] > largest]
    return values


def cycle_weights(parameters: LublinParameters) -> FloatArray:
    """Return the share of arrivals of each half hour from midnight on, as multiples of the mean, shape ``(48,)``."""
    a, b = parameters.cycle_a, parameters.cycle_b
    slots = np.arange(DAY_BEGINS, DAY_BEGINS + N_SLOTS)
    x = slots[:, np.newaxis] + _NODES / 2
    # The integral of the gamma density over each slot; its constant factor goes with the mean.
    weights = np.add.reduce(elementary.power(x, a - 1) * elementary.exp(-x / b) * _NODE_WEIGHTS, axis=1)
    result = np.empty(N_SLOTS)
    result[(slots - 1) % N_SLOTS] = weights
    return np.asarray(result / result.mean(), dtype=np.float64)


def draw_arrivals(parameters: LublinParameters, n_jobs: int, rng: np.random.Generator) -> FloatArray:
    """Draw arrival dates in seconds from a midnight on, ascending.

    Gaps are drawn as if all hours were alike, in units of half hours of mean weight, and then stretched over
    the hours of the days by their weights.
    """
    p = parameters
    log_gaps = _redraw(lambda which: rng.gamma(p.gap_a, p.gap_b, len(which)), n_jobs, LONGEST_LOG_GAP)
    points = np.cumsum(elementary.exp(log_gaps) / SLOT_S)
    spent = np.concatenate([[0.0], np.cumsum(cycle_weights(p))])
    spent[-1] = N_SLOTS
    days, rest = np.divmod(points, N_SLOTS)
    return np.asarray((days * N_SLOTS + np.interp(rest, spent, np.arange(N_SLOTS + 1.0))) * SLOT_S, dtype=np.float64)


def lublin_log(
    n_jobs: int,
    n_cores: int,
    *,
    seed: int = 0,
    kind: str = "all",
    load: float | None = None,
    estimates: str = "tsafrir",
    n_users: int = 0,
    n_executables: int = 0,
) -> SwfLog:
    """Generate a log of the Lublin-Feitelson model.

    Parameters
    ----------
    n_cores
        Processors of the machine, at least 1.
    kind
        ``"all"`` (one stream with the parameters of all jobs), ``"batch"``, ``"interactive"``, or
        ``"batch+interactive"`` (both streams, merged by date).
    load
        The offered load to reach by stretching the gaps between arrivals, positive; ``None`` keeps those
        of the model.
    estimates
        ``"tsafrir"``, or ``"exact"``: requested times that are the run times.
    n_users, n_executables
        Number of different ones; number k has a share proportional to 1/k. 0: none are named.

    Returns
    -------
    SwfLog
        Run times, requested times and dates in whole seconds; memory per processor drawn from `MEMORIES_MIB`.

    Raises
    ------
    OptionsError
        If a number is out of range.
    UnknownName
        If the kind or the estimates are unknown.
    """
    _check(n_jobs, n_cores, load, n_users, n_executables, seed)
    if kind not in STREAMS:
        raise UnknownName("kind of Lublin workload", kind, STREAMS)
    parts = [_stream(queue, p, n_jobs, n_cores, seed) for queue, p in STREAMS[kind]]
    submit_s, sizes, run_s, queue = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(submit_s, kind="stable")[:n_jobs]
    submit_s, sizes, run_s = submit_s[order], sizes[order], run_s[order]
    if load is not None:
        work = float(np.sum(sizes * run_s))
        if work > load * n_cores * MAX_VALUE:
            least = work / n_cores / MAX_VALUE
            raise OptionsError(f"load is {load:g}, expected at least {least:.3g}: jobs would arrive too late to count")
        submit_s = _stretched(submit_s, work / (load * n_cores))
    rows = unknown_rows(n_jobs)
    rows["job_number"] = np.arange(1, n_jobs + 1)
    rows["submit_s"] = np.floor(submit_s)
    rows["run_s"] = run_s
    rows["processors"] = rows["requested_processors"] = sizes
    rows["requested_s"] = _estimates(estimates, run_s, stream(seed, "workload/lublin/estimates"))
    memory_rng = stream(seed, "workload/lublin/memory")
    rows["requested_memory_kb"] = MEMORIES_MIB[memory_rng.integers(len(MEMORIES_MIB), size=n_jobs)] * KIB_PER_MIB
    rows["status"] = 1
    rows["user"] = _named(n_users, n_jobs, stream(seed, "workload/lublin/user"))
    rows["executable"] = _named(n_executables, n_jobs, stream(seed, "workload/lublin/executable"))
    rows["queue"] = queue[order]
    made_with: dict[str, object] = {"kind": kind, "jobs": n_jobs, "cores": n_cores, "load": load, "seed": seed}
    made_with |= {"estimates": estimates, "users": n_users, "executables": n_executables}
    header = {
        "Version": "2.2",
        "Computer": f"model of a machine of {n_cores} processors",
        "Note": "generated by hdrl, Lublin-Feitelson model, "
        + " ".join(f"{key}={value}" for key, value in made_with.items() if value is not None),
        "MaxJobs": str(n_jobs),
        "MaxProcs": str(n_cores),
    }
    return SwfLog(f"lublin_{n_cores}", rows, header, {"model": "lublin", **made_with})


def _check(n_jobs: int, n_cores: int, load: float | None, n_users: int, n_executables: int, seed: int) -> None:
    for name, value, least in (
        ("n_jobs", n_jobs, 1),
        ("n_cores", n_cores, 1),
        ("n_users", n_users, 0),
        ("n_executables", n_executables, 0),
        ("seed", seed, 0),
    ):
        if value < least:
            raise OptionsError(f"{name} is {value}, expected at least {least}")
        if name != "seed" and value > MAX_INT32:
            raise OptionsError(f"{name} is {value}, expected at most {MAX_INT32}")
    if load is not None and not 0 < load < np.inf:
        raise OptionsError(f"load is {load}, expected a positive number")


def _stream(
    queue: int, parameters: LublinParameters, n_jobs: int, n_cores: int, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return dates, sizes, run times and queue numbers of one stream."""
    rng = stream(seed, f"workload/lublin/{queue}")
    sizes = draw_sizes(parameters.sized(n_cores), n_jobs, n_cores, rng)
    run_s = draw_run_times(parameters, sizes, rng)
    return draw_arrivals(parameters, n_jobs, rng), sizes, run_s, np.full(n_jobs, float(queue))


def _stretched(submit_s: FloatArray, span_s: float) -> FloatArray:
    """Stretch dates so that the last one comes that long after the first one."""
    first_s, old_s = submit_s[0], submit_s[-1] - submit_s[0]
    return submit_s if old_s == 0 else first_s + (submit_s - first_s) * (span_s / old_s)


def _estimates(name: str, run_s: FloatArray, rng: np.random.Generator) -> FloatArray:
    if name == "exact":
        return run_s
    if name == "tsafrir":
        return tsafrir_estimates(run_s, rng)
    raise UnknownName("estimate model", name, ("exact", "tsafrir"))


def _named(n_names: int, n_jobs: int, rng: np.random.Generator) -> FloatArray:
    """Draw numbers 1 to n_names, number k with a probability proportional to 1/k."""
    if n_names == 0:
        return np.full(n_jobs, UNKNOWN_VALUE)
    cumulated = np.cumsum(1.0 / np.arange(1, n_names + 1))
    numbers: FloatArray = np.searchsorted(cumulated / cumulated[-1], rng.random(n_jobs), side="right") + np.float64(1)
    return numbers


def lublin_workload(
    platform: Platform,
    n_jobs: int,
    *,
    seed: int = 0,
    kind: str = "all",
    load: float | None = None,
    estimates: str = "tsafrir",
    walltime: str | None = None,
    bandwidth: str = "uniform",
) -> Workload:
    """Generate a workload of the Lublin-Feitelson model for a platform.

    Parameters
    ----------
    platform
        The platform: its cores bound the sizes, and its mean speed turns run times into work.

    Raises
    ------
    OptionsError
        If a number is out of range.
    UnknownName
        If a name is unknown.
    """
    log = lublin_log(n_jobs, platform.n_cores, seed=seed, kind=kind, load=load, estimates=estimates)
    return workload_from_swf(log, platform, seed=seed, walltime=walltime, bandwidth=bandwidth)

"""Models of data that logs lack, by name: run times, memory, memory bandwidth and user estimates.

A model is a function of the lines of a log (array with the fields of `workload.swf.SWF_FIELDS`) and a random
generator, the source of its draws; it returns a value for each line. Models of estimates get run times in seconds, too.
Draws take one number per line, in order: the first jobs of a log get the same values however many follow.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hdrl.base.registry import Registry
from hdrl.settings.batch.workload.estimates import tsafrir_estimates

FloatArray = NDArray[np.float64]
RowModel = Callable[[NDArray[np.void], np.random.Generator], FloatArray]
EstimateModel = Callable[[NDArray[np.void], FloatArray, np.random.Generator], FloatArray]

RUN_TIME_MODELS: Registry[RowModel] = Registry("run-time model")
"""Run times in seconds on a reference core; not positive where unknown."""

MEMORY_MODELS: Registry[RowModel] = Registry("memory model")
"""Memory in MiB per core, 0 where unknown."""

BANDWIDTH_MODELS: Registry[RowModel] = Registry("bandwidth model")
"""Memory bandwidth in GB/s per core."""

ESTIMATE_MODELS: Registry[EstimateModel] = Registry("estimate model")
"""The users' estimates in seconds, from the lines and the run times."""

HDEEPRM_FRACTIONS = np.arange(0.05, 1.3, 0.05)
"""Run time as a fraction of the requested time, as HDeepRM draws it (25 values)."""

HDEEPRM_WEIGHTS = np.array([0.15, 0.09, 0.07] + 5 * [0.04] + 5 * [0.03] + 10 * [0.02] + [0.06, 0.08])
"""Probabilities of `HDEEPRM_FRACTIONS`."""

BANDWIDTHS_GBPS = np.arange(4.0, 25.0, 4.0)
"""Memory bandwidths that HDeepRM draws from, GB/s per core."""

MEMORIES_MIB = np.array([256.0, 512.0, 1024.0, 1536.0, 2048.0])
"""Memories that are drawn for logs without memory, MiB per core."""

KIB_PER_MIB = 1024


def _draw(values: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    return values[(rng.random(n) * len(values)).astype(np.int64)]


@RUN_TIME_MODELS.register("trace")
def trace_run_times(rows: NDArray[np.void], _rng: np.random.Generator) -> FloatArray:
    """Return the run times of the log."""
    return np.array(rows["run_s"])


@RUN_TIME_MODELS.register("hdeeprm-draw")
def drawn_run_times(rows: NDArray[np.void], rng: np.random.Generator) -> FloatArray:
    """Return the requested times (run times where there are none) times a fraction drawn as HDeepRM does."""
    requested_s = requested_times(rows, rows["run_s"])
    cumulated = np.cumsum(HDEEPRM_WEIGHTS)
    picks = np.searchsorted(cumulated / cumulated[-1], rng.random(len(rows)), side="right")
    return requested_s * HDEEPRM_FRACTIONS[picks]


@MEMORY_MODELS.register("log")
def logged_memory(rows: NDArray[np.void], _rng: np.random.Generator) -> FloatArray:
    """Return the requested memory, the used memory where there is none, 0 where there is neither."""
    memory_kb = np.where(rows["requested_memory_kb"] > 0, rows["requested_memory_kb"], rows["memory_kb"])
    return np.maximum(memory_kb, 0.0) / KIB_PER_MIB


@MEMORY_MODELS.register("uniform")
def drawn_memory(rows: NDArray[np.void], rng: np.random.Generator) -> FloatArray:
    """Return memories drawn uniformly from `MEMORIES_MIB`."""
    return _draw(MEMORIES_MIB, len(rows), rng)


@MEMORY_MODELS.register("log-or-uniform")
def logged_or_drawn_memory(rows: NDArray[np.void], rng: np.random.Generator) -> FloatArray:
    """Return the memory of the log, a drawn one where it has none."""
    logged, drawn = logged_memory(rows, rng), drawn_memory(rows, rng)
    return np.where(logged > 0, logged, drawn)


@BANDWIDTH_MODELS.register("uniform")
def drawn_bandwidth(rows: NDArray[np.void], rng: np.random.Generator) -> FloatArray:
    """Return bandwidths drawn uniformly from `BANDWIDTHS_GBPS`."""
    return _draw(BANDWIDTHS_GBPS, len(rows), rng)


@MEMORY_MODELS.register("none")
@BANDWIDTH_MODELS.register("none")
def zeros(rows: NDArray[np.void], _rng: np.random.Generator) -> FloatArray:
    """Return zeros."""
    return np.zeros(len(rows))


def requested_times(rows: NDArray[np.void], run_s: FloatArray) -> FloatArray:
    """Return the requested times of a log, the run times where it has none."""
    return np.where(rows["requested_s"] > 0, rows["requested_s"], run_s)


@ESTIMATE_MODELS.register("log")
def logged_estimates(rows: NDArray[np.void], run_s: FloatArray, _rng: np.random.Generator) -> FloatArray:
    """Return the requested times of the log, the run times where it has none."""
    return requested_times(rows, run_s)


@ESTIMATE_MODELS.register("exact")
def exact_estimates(_rows: NDArray[np.void], run_s: FloatArray, _rng: np.random.Generator) -> FloatArray:
    """Return the run times: users who know."""
    return np.array(run_s)


@ESTIMATE_MODELS.register("tsafrir")
def modal_estimates(_rows: NDArray[np.void], run_s: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return estimates of the Tsafrir model, see `tsafrir_estimates`."""
    return tsafrir_estimates(run_s, rng)

"""Evolved indices of GPU jobs on later parts of the trace on whose first part they were evolved.

Three parts of the trace: by the first one is learned, and the best classic policy that knows no durations and predicts
none is chosen; the second one is what was looked at while the index was developed; the last one only judges. Each
window comes at all offered loads, so that intervals are over windows. What is compared are geometric means over windows
of ratios of mean completion times, of their 99th percentiles, and of the longest times without GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.cores import usable_cores
from hdrl.base.seeding import stream
from hdrl.experiments import PROTOCOLS
from hdrl.setting import Finding, Place, Playable
from hdrl.settings.gpu.cluster.machine import read_cluster
from hdrl.settings.gpu.loads.load import GpuLoad, without_unrunnable
from hdrl.settings.gpu.loads.readers import read_trace
from hdrl.settings.gpu.policies.names import BY_HAND, read_policy
from hdrl.settings.gpu.policies.rules import Rules
from hdrl.settings.gpu.policies.weights import start_weights, weights_of
from hdrl.settings.gpu.simulation.index import INDEX, Outcomes, play

Floats = NDArray[np.float64]

TRACE = "philly_sia.csv.gz"

CLUSTER = "sia"

RULES = Rules(restart_s=(10.0, 60.0))

LEARNED, LOOKED_AT, LAST = (0.0, 0.6), (0.7, 0.9), (0.9, 1.0)
"""Shares of the trace."""

OFFERED = (0.7, 0.85, 0.95)

N_JOBS, N_BEFORE, N_COUNTED = 600, 100, 400
"""Jobs of a window, and which of them count: those after the first ones, and so many of them."""

N_RESAMPLES = 10_000

BLIND = ("fifo+skip", "smallest+skip", "las", "las-2d", "gittins", "drf")
"""Classic policies that neither know nor predict how long jobs take; those that wait for no job that does not fit."""

SHOWN = ("srsf+history", "gittins+history", "qssf", "srtf", "srsf")
"""Policies beside the chosen one: those that predict, and those that know how long jobs take, as bounds."""

TO_HISTORY = "srsf+history"


@PROTOCOLS.register("gpu-index")
def gpu_index(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return how evolved indices compare on the looked-at and on the last part.

    They are held against 2D-LAS, the best classic policy that knows no durations, SRSF by the same predictions, and
    the same structure untrained.

    Parameters
    ----------
    traces
        Philly's trace as Sia's artifact has it.
    models
        Models of GpuIndex, one for each seed; their mean is judged, and each of them for the spread.
    """
    load = without_unrunnable(read_trace(traces[TRACE]), read_cluster(CLUSTER))
    offsets = [np.asarray(one.agent_state["weights"], dtype=np.float64) for one in models]
    candidates = np.array([start_weights(), *(weights_of(one) for one in (np.mean(offsets, axis=0), *offsets))])
    classic = _best_blind(load)
    found: dict[Place, Finding] = {("learned part", f"mean_jct_s of {classic}, to las-2d"): _chosen(load, classic)}
    for part, shares, n_windows in (("looked-at part", LOOKED_AT, 24), ("last part", LAST, 12)):
        windows = windows_of(load, shares, n_windows)
        indices = _numbers(_play(windows, None, candidates))
        rivals = {name: _numbers(_play(windows, name))[:, 0] for name in dict.fromkeys(("las-2d", classic, *SHOWN))}
        rivals[BY_HAND] = indices[:, 0]
        for number, metric in enumerate(METRICS):
            ours = indices[number, 1:]
            for name in dict.fromkeys(("las-2d", classic, TO_HISTORY, BY_HAND)):
                column = f"{metric}, to {name}"
                found[part, column] = ratio_of(ours, rivals[name][number], f"{part}, {column}")
            for name in (*SHOWN, BY_HAND):
                column = f"{metric} of {name}, to las-2d"
                theirs = rivals[name][number][None]
                found[part, column] = ratio_of(theirs, rivals["las-2d"][number], f"{part}, {column}")
    return found


def windows_of(load: GpuLoad, shares: tuple[float, float], n_windows: int) -> list[GpuLoad]:
    """Return windows spread evenly over a part of a load, each at all offered loads before the next one.

    Parameters
    ----------
    shares
        The part, as shares of the jobs.
    """
    cluster = read_cluster(CLUSTER)
    low, high = (round(share * load.n_items) for share in shares)
    firsts = np.linspace(low, high - N_JOBS, n_windows).astype(np.int64).tolist()
    stretched = [load.scaled(cluster, offered) for offered in OFFERED]
    return [one.window(first, N_JOBS) for first in firsts for one in stretched]


METRICS = ("mean_jct_s", "p99_jct_s", "longest wait")
"""What is compared: over the counted jobs of a window."""


def _play(windows: Sequence[GpuLoad], name: str | None, candidates: Floats | None = None) -> Outcomes:
    """Play windows under a policy by name, or candidates of the index."""
    policy = INDEX if name is None else read_policy(name)
    return play(read_cluster(CLUSTER), windows, policy, candidates, rules=RULES, n_threads=usable_cores())


def _numbers(outcomes: Outcomes) -> Floats:
    """Return the logarithm of each of `METRICS`, shape ``(n_metrics, n_candidates, n_windows, n_offered)``."""
    counted = slice(N_BEFORE, N_BEFORE + N_COUNTED)
    jct_s, wait_s = outcomes.jct_s[:, :, counted], outcomes.wait_s[:, :, counted]
    numbers = np.stack([jct_s.mean(axis=2), np.percentile(jct_s, 99, axis=2), np.maximum(wait_s.max(axis=2), 60.0)])
    shape = (*numbers.shape[:2], -1, len(OFFERED))
    return elementary.log(numbers).reshape(shape)


def _best_blind(load: GpuLoad) -> str:
    """Return the classic policy with the least mean logarithm of completion times on the part that is learned from."""
    windows = windows_of(load, LEARNED, 24)
    return min(BLIND, key=lambda name: float(_numbers(_play(windows, name))[0].mean()))


def _chosen(load: GpuLoad, classic: str) -> Finding:
    """Return by how much the chosen policy is better than 2D-LAS where it was chosen."""
    windows = windows_of(load, LEARNED, 24)
    ours, theirs = (_numbers(_play(windows, name))[0].mean() for name in (classic, "las-2d"))
    return Finding(float(elementary.exp(ours - theirs)))


def ratio_of(ours: Floats, theirs: Floats, what: str) -> Finding:
    """Return the geometric mean of ratios, with an interval (95 %) over windows and trainings drawn again.

    Parameters
    ----------
    ours
        Logarithms, shape ``(n, n_windows, n_offered)``; the first counts, the others are the trainings behind it. What
        other trainings would change is the difference between trainings that are drawn again and all of them.
    theirs
        The same of the rival, shape ``(n_windows, n_offered)``.
    what
        What it is called.
    """
    logs = (ours - theirs).mean(axis=2)
    random, of_trainings = (stream(0, f"{draws} of {what}") for draws in ("bootstrap", "trainings"))
    n_trainings, n_windows = len(logs) - 1, logs.shape[1]
    places = random.integers(0, n_windows, (N_RESAMPLES, n_windows))
    chosen = of_trainings.integers(0, max(n_trainings, 1), (N_RESAMPLES, n_trainings))
    first, *each = (one[places].mean(axis=1) for one in logs)
    if n_trainings > 1:
        drawn = np.column_stack(each)
        first = first + np.take_along_axis(drawn, chosen, axis=1).mean(axis=1) - drawn.mean(axis=1)
    low, high = elementary.exp(np.percentile(first, (2.5, 97.5))).tolist()
    value, *trainings = elementary.exp(logs.mean(axis=1)).tolist()
    return Finding(value, low, high, trainings=tuple(trainings), null=1.0)

"""A guard that pauses in an overload: one run through each log, whose last 30 % count, also with faster arrivals.

The opponents are chosen as in `batch_evolution`, for each speed of arrivals anew. A whole run is one number, and a few
wide jobs make it: each is repeated with weights that are changed a little, and the geometric mean counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.batch_evolution import (
    CHANGE,
    LOADED,
    N_CHANGED,
    OPPONENTS,
    UNSEEN,
    judged_log,
    outcomes_of,
    over_logs,
)
from hdrl.experiments.findings import Finding, Place, Playable

IDLE = UNSEEN | {"NASA-iPSC": ("NASA-iPSC-1993-3.1-cln.swf.gz", 128)}
"""Logs of machines on which jobs hardly ever wait; they are in no mean."""

SPEEDUP = 1.25
"""Speed-up of arrivals in the overload that is made of a real log."""

ALREADY_OVERLOADED = "Lublin-1"
"""A log whose arrivals are not sped up: it offers 1.06 times what its machine can do."""

PAUSING, GUARDED = POLICIES = ("es-pausing", "es-generalist")
"""Equal weights, with a guard that pauses in an overload and with one that does not."""

MEASURES = {"mean": "value", "99th percentile of waits": "tail_s", "longest wait": "longest_s"}
"""Reported numbers of a run, and their fields in an outcome."""

Logarithms = NDArray[np.float64]
"""Of ratios: a row for each measure, a column for each log."""


@PROTOCOLS.register("es-overload")
def es_overload(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return the results of the shipped weights in continuous runs under both guards.

    Parameters
    ----------
    traces
        Holds all logs.
    models
        Not used: a protocol of shipped policies.
    """
    del models
    found: dict[Place, Finding] = {}
    as_logged: dict[str, list[Logarithms]] = {}
    faster: dict[str, list[Logarithms]] = {}
    for name, (file, n_procs) in (LOADED | IDLE).items():
        ratios = _ratios(traces[file], n_procs, 1.0)
        found |= _of_log(name, ratios)
        if name not in LOADED:
            continue
        _append(as_logged, ratios)
        if name != ALREADY_OVERLOADED:
            ratios = _ratios(traces[file], n_procs, SPEEDUP)
            found |= _of_log(f"{name}, arrivals {SPEEDUP:g} times as fast", ratios)
            _append(faster, ratios)
    for row, table in (("loaded logs", as_logged), (f"arrivals {SPEEDUP:g} times as fast", faster)):
        found |= {
            (row, column): over_logs(np.array([one[position] for one in logs]), f"{row}, {column}")
            for what, logs in table.items()
            for position, column in enumerate(f"{measure}, {what}" for measure in MEASURES)
        }
    return found


def _ratios(path: Path, n_procs: int, speedup: float) -> dict[str, Logarithms]:
    """Return logarithms of ratios of a log's whole run, one for each measure, by what is compared."""
    from hdrl.settings.batch.policies.indexed import changed_index
    from hdrl.settings.batch.policies.pairs import read_pair

    log, opponents = judged_log(path, n_procs, speedup=speedup)
    played = [
        one
        for policy in POLICIES
        for one in (read_pair(policy), *(changed_index(policy, CHANGE, number) for number in range(N_CHANGED)))
    ]
    (run,) = outcomes_of(log, "continuous", [*opponents, *played])
    # A minute is added to waits, as in the tail: a log may have none.
    values = elementary.log([[one.value, one.tail_s, one.longest_s + 60.0] for one in run])
    candidate_values = values[len(OPPONENTS) :].reshape(len(POLICIES), N_CHANGED + 1, len(MEASURES)).mean(axis=1)
    by_policy = dict(zip(POLICIES, candidate_values, strict=True))
    found = {
        f"{policy} to {opponent}": one - values[position]
        for policy, one in by_policy.items()
        for position, opponent in enumerate(OPPONENTS)
    }
    return found | {f"{PAUSING} to {GUARDED}": by_policy[PAUSING] - by_policy[GUARDED]}


def _append(table: dict[str, list[Logarithms]], ratios: Mapping[str, Logarithms]) -> None:
    for what, values in ratios.items():
        table.setdefault(what, []).append(values)


def _of_log(row: str, ratios: Mapping[str, Logarithms]) -> dict[Place, Finding]:
    """Return the findings of one log: ratios without an interval."""
    return {
        (row, f"{measure}, {what}"): Finding(float(elementary.exp(value)), null=1.0)
        for what, values in ratios.items()
        for measure, value in zip(MEASURES, values, strict=True)
    }

"""Limits of the evolved index of pipelines: unannounced releases, misses that other weights avoid, late results.

Parts of seeds, the best classic policy and intervals are those of `pipelines_index`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.cores import usable_cores
from hdrl.base.seeding import stream
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, Playable, evolved_weights
from hdrl.experiments.pipelines_index import (
    LAST,
    OWN,
    UTILIZATIONS,
    PipelinesWorld,
    best_classic,
    misses,
    ratio_of_means,
    ratios_to,
)
from hdrl.settings.pipelines.analysis.guarantees import fewest_misses
from hdrl.settings.pipelines.envs.options import OBJECTIVES
from hdrl.settings.pipelines.loads.load import PipelineLoad
from hdrl.settings.pipelines.simulation.index import (
    INDEX_CODES,
    IndexedLoads,
    checked_weights,
    shipped_weights,
    weights_of,
)

Floats = NDArray[np.float64]

SHIPPED = "evolved+fusion"

SPORADIC = PipelinesWorld(spread=0.5)
"""The world of the training, but that each instance comes up to half a period late."""

N_TRIED, DEVIATIONS = 192, (0.4, 1.0)
"""Number of other weights that are tried on each set, and the standard deviations of their differences, in equal
parts."""

SMALL, MAX_NODES = (5, 8), 100_000
"""Numbers of first instances of each set that the exact search takes, and the most partial schedules that it tries."""

_AT_ONCE = 16
"""Number of candidates that are simulated in one call: more need more memory."""


@PROTOCOLS.register("pipelines-limits")
def pipelines_limits(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return the misses of the shipped index under sporadic releases, and those that other weights avoid.

    For each set of the last part, other weights are tried, and the best of them counts. Weights that are chosen by the
    set that judges them are no policy. But their schedules exist, so the fewest misses that are possible are no more.

    Parameters
    ----------
    traces
        Not used: all sets are generated.
    models
        Not used: a protocol of a shipped policy.
    """
    del traces, models
    weights = shipped_weights(SHIPPED)
    classic = best_classic(SPORADIC)
    references, candidate_values = misses(SPORADIC, LAST, classic, [weights])
    row = "sporadic releases"
    found = {(row, column): one for column, one in ratios_to(references, candidate_values, classic, row).items()}
    loads = OWN.loads(LAST)
    by_load = _misses_of_others(weights, loads)
    for position, utilization in enumerate(UTILIZATIONS):
        of_shipped, best = by_load[0, position :: len(UTILIZATIONS)], by_load.min(axis=0)[position :: len(UTILIZATIONS)]
        row = f"last part at {utilization:g}"
        found[row, f"misses of {SHIPPED}"] = Finding(float(of_shipped.mean()))
        found[row, "misses of the best weights of each set"] = Finding(float(best.mean()))
    shape = (len(LAST), len(UTILIZATIONS))
    best, of_shipped = (one.reshape(shape).mean(axis=1) for one in (by_load.min(axis=0), by_load[0]))
    what = "misses of the best weights of each set"
    found["last part", what] = Finding(float(best.mean()))
    found["last part", f"{what}, to {SHIPPED}"] = ratio_of_means(best[:, np.newaxis], of_shipped, what)
    for n_instances in SMALL:
        row = f"first {n_instances} instances"
        parts = [one.window(0, n_instances) for one in loads]
        found |= {
            (row, column): one for column, one in _of_small(parts, _misses_of_others(weights, parts), row).items()
        }
    return found


def _of_small(loads: Sequence[PipelineLoad], by_weights: Floats, row: str) -> dict[str, Finding]:
    """Return bounds of the fewest misses that are possible on small loads; the best weights' schedules are known."""
    n_items = np.array([one.n_items for one in loads])
    known = np.rint(by_weights.min(axis=0) * n_items).astype(int).tolist()
    fewest = [
        fewest_misses(OWN.units, load, max_nodes=MAX_NODES, at_most=most)
        for load, most in zip(loads, known, strict=True)
    ]
    of_shipped = by_weights[0]
    at_most = np.array([one.at_most for one in fewest]) / n_items
    shape = (len(LAST), len(UTILIZATIONS))
    by_seed, shipped_by_seed = (one.reshape(shape).mean(axis=1) for one in (at_most, of_shipped))
    what = "fewest possible misses, at most"
    return {
        f"misses of {SHIPPED}": Finding(float(of_shipped.mean())),
        "fewest possible misses, at least": Finding(
            float((np.array([one.at_least for one in fewest]) / n_items).mean())
        ),
        what: Finding(float(at_most.mean())),
        "share of sets whose fewest misses are known": Finding(float(np.mean([one.is_exact for one in fewest]))),
        f"{what}, to {SHIPPED}": ratio_of_means(by_seed[:, np.newaxis], shipped_by_seed, f"{row}, {what}"),
    }


def _misses_of_others(weights: Floats, loads: Sequence[PipelineLoad]) -> Floats:
    """Return the misses of some weights and of others near them, shape ``(1 + N_TRIED, n_loads)``."""
    random = stream(0, "other weights")
    changes = random.standard_normal((N_TRIED, len(weights))) * np.resize(DEVIATIONS, N_TRIED)[:, np.newaxis]
    candidates = checked_weights(np.vstack([weights, weights + changes]))
    indexed = IndexedLoads(OWN.units, loads)
    number = OBJECTIVES["miss_ratio"]
    return np.concatenate(
        [
            indexed.run(indexed.whole, INDEX_CODES, candidates[first : first + _AT_ONCE], n_threads=usable_cores())[
                number
            ]
            for first in range(0, len(candidates), _AT_ONCE)
        ]
    )


@PROTOCOLS.register("pipelines-tardiness")
def pipelines_tardiness(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return misses and tardiness of indices that were evolved for both, on the last part.

    Parameters
    ----------
    traces
        Not used: all sets are generated.
    models
        Models of PipelinesIndex, one for each seed; their mean is judged, and each of them for the spread.
    """
    del traces
    trained = [weights_of(one) for one in evolved_weights(models)]
    classic = best_classic(OWN)
    references, candidate_values = misses(OWN, LAST, classic, trained)
    found = {
        ("last part", column): one
        for column, one in ratios_to(references, candidate_values, classic, "last part").items()
    }
    _, of_shipped = misses(OWN, LAST, classic, [shipped_weights(SHIPPED)])
    for what, values in candidate_values.items():
        column = f"{what}, to {SHIPPED}"
        found["last part", column] = ratio_of_means(values, of_shipped[what][:, 0], f"last part, {column}")
    return found

"""Evolved indices on sets that nothing was learned or chosen on, in the world of the training and in others.

Three parts of seeds: by the first one is learned, and the best classic policy is chosen; the second one is what was
looked at while the index was developed; the last one only judges. Each seed comes at all utilisations, so that
intervals are over seeds. What is compared is the mean over sets of the share of missed deadlines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.cores import usable_cores
from hdrl.base.seeding import stream
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, Playable, evolved_weights
from hdrl.settings.pipelines.analysis.mapping import best_mapping
from hdrl.settings.pipelines.envs.options import OBJECTIVES
from hdrl.settings.pipelines.inputs import generated_loads
from hdrl.settings.pipelines.kernel import index
from hdrl.settings.pipelines.loads.generate import PipelineModel
from hdrl.settings.pipelines.loads.load import PipelineLoad
from hdrl.settings.pipelines.machine import Units, read_machine
from hdrl.settings.pipelines.named_policies import PipelinePolicies
from hdrl.settings.pipelines.simulation.index import (
    INDEX_CODES,
    IndexedLoads,
    checked_weights,
    run_index,
    shipped_indices,
    start_weights,
    weights_of,
)
from hdrl.settings.pipelines.simulation.policies import RULES, STATIC, simulate

Floats = NDArray[np.float64]

TRAINED, LOOKED_AT, LAST = range(100, 160), range(5000, 5040), range(9000, 9040)
"""Seeds of the generated sets of each part."""

UTILIZATIONS = (0.6, 0.7, 0.8, 0.9)
N_INSTANCES = 100
LENGTH_US = 20_000_000
N_RESAMPLES = 10_000

PROMISED = 0.75
"""Promised upper bound of the ratio to the best classic policy, with its interval."""

TO_CLASSIC = "misses, to best classic"

WITHOUT: Mapping[str, tuple[int, ...]] = {
    "knowing what is doomed": (index.IS_DOOMED, index.HOPELESS),
    "deadlines": (index.LOG_DUE,),
    "regret": (index.REGRET,),
    "kills and future": (index.KILLS, index.FUTURE),
}
"""Weights that are set to 0 to see what they carry; nothing is trained anew."""


@dataclass(frozen=True)
class PipelinesWorld:
    """A machine, what pipelines on it are like, and how long kernels take.

    Attributes
    ----------
    machine
        The units.
    model
        Changes of the model of the training.
    shortest
        Smallest share of the worst case that a kernel takes.
    spread
        Largest delay of the next instance beyond the period, as a share of the period. Utilisations are raised so that
        as much work comes as without.
    """

    machine: str = "1cpu+1gpu"
    model: Mapping[str, Any] = field(default_factory=dict)
    shortest: float = 1.0
    spread: float = 0.0

    def loads(self, seeds: range) -> list[PipelineLoad]:
        """Return the sets of some seeds, each at all utilisations before the next one comes."""
        model = PipelineModel(**{"shape": "mixed", **self.model}, n_units=self.units.n_units)
        found = generated_loads(
            model,
            seed=seeds[0],
            n_sets=len(seeds),
            utilizations=[one * (1.0 + self.spread / 2.0) for one in UTILIZATIONS],
            shortest=self.shortest,
            spread=self.spread,
            length_us=LENGTH_US,
        )
        return [one.window(0, min(N_INSTANCES, one.n_items)) for one in found]

    @cached_property
    def units(self) -> Units:
        """The machine."""
        return read_machine(self.machine)


OWN = PipelinesWorld()
"""The world of the training."""

OTHERS = {
    "eight pipelines": PipelinesWorld(model={"n_pipelines": 8}),
    "chains alone": PipelinesWorld(model={"shape": "chain"}),
    "layered graphs": PipelinesWorld(model={"shape": "layered"}),
    "shares by DRS": PipelinesWorld(model={"split": "drs"}),
    "half to whole times": PipelinesWorld(shortest=0.5),
    "2cpu+2gpu": PipelinesWorld("2cpu+2gpu", {"n_pipelines": 8}),
    "4cpu+1gpu": PipelinesWorld("4cpu+1gpu", {"n_pipelines": 10}),
}
"""Other worlds, in which nothing is learned anew."""


@PROTOCOLS.register("pipelines-index")
def pipelines_index(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return the misses of evolved indices on the looked-at and on the last part, and in other worlds.

    They are held against the best classic policy, as the training part has it, and against the same structure
    untrained.

    Parameters
    ----------
    traces
        Not used: all sets are generated.
    models
        Models of PipelinesIndex, one for each seed; their mean is judged, and each of them for the spread.
    """
    del traces
    trained = [weights_of(one) for one in evolved_weights(models)]
    found: dict[Place, Finding] = {}
    classic = best_classic(OWN)
    for part, seeds in {"looked-at part": LOOKED_AT, "last part": LAST}.items():
        references, candidate_values = misses(OWN, seeds, classic, trained)
        found |= {(part, column): one for column, one in ratios_to(references, candidate_values, classic, part).items()}
    promised = found["last part", TO_CLASSIC]
    found["last part", f"{TO_CLASSIC}, to {PROMISED:g}"] = Finding(
        promised.value / PROMISED,
        promised.low / PROMISED,
        promised.high / PROMISED,
        trainings=tuple(one / PROMISED for one in promised.trainings),
        null=1.0,
    )
    found |= {("last part", f"misses of {name}"): Finding(_misses_of(name)) for name in shipped_indices()}
    found |= _by_utilization(classic, trained)
    found |= _without(trained[0])
    for name, world in OTHERS.items():
        its_classic = best_classic(world)
        references, candidate_values = misses(world, LAST, its_classic, trained)
        found |= {
            (name, column): one for column, one in ratios_to(references, candidate_values, its_classic, name).items()
        }
    return found


def best_classic(world: PipelinesWorld) -> str:
    """Return the classic policy that misses least on the training part, of those that have no weights."""
    names = [name for name in PipelinePolicies().groups()["heuristics"] if not RULES[name].weights]
    loads = world.loads(TRAINED)
    return min(names, key=lambda name: float(_classic(world, loads, name)[0].mean()))


def _classic(world: PipelinesWorld, loads: Sequence[PipelineLoad], name: str) -> Floats:
    """Return all objectives of each load under a classic policy, shape ``(n_objectives, n_loads)``."""
    if name != STATIC:
        indexed = IndexedLoads(world.units, loads)
        return indexed.run(indexed.whole, RULES[name].codes, n_threads=usable_cores())[:, 0]
    found = np.zeros((len(OBJECTIVES), len(loads)))
    for place, load in enumerate(loads):
        trace = simulate(world.units, load, name, plan=best_mapping(world.units, load).plan)
        late_us = np.maximum(trace.end_us - load.instances["deadline_us"], 0)
        found[OBJECTIVES["miss_ratio"], place] = trace.is_missed.mean()
        found[OBJECTIVES["mean_tardiness_s"], place] = late_us.mean() / 1e6
    return found


def misses(
    world: PipelinesWorld, seeds: range, classic: str, trained: Sequence[Floats]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the misses and the tardiness of rivals and indices, seed by seed.

    Parameters
    ----------
    world, seeds
        Where, and on which sets.
    trained
        Weights of indices.

    Returns
    -------
    tuple
        Of each rival, and of the objectives ``"misses"`` and ``"tardiness"`` of the indices, tables whose rows are
        seeds. Columns of a rival are both objectives, those of the indices the indices.
    """
    loads = world.loads(seeds)
    indexed = IndexedLoads(world.units, loads)
    chosen = [OBJECTIVES["miss_ratio"], OBJECTIVES["mean_tardiness_s"]]
    candidates = checked_weights(np.array([start_weights(), *trained]))
    values = indexed.run(indexed.whole, INDEX_CODES, candidates, n_threads=usable_cores())[chosen]
    by_seed = values.reshape(2, len(candidates), len(seeds), len(UTILIZATIONS)).mean(axis=3)
    reference_values = _classic(world, loads, classic)[chosen].reshape(2, len(seeds), len(UTILIZATIONS)).mean(axis=2)
    return (
        {"classic": reference_values.T, "untrained": by_seed[:, 0].T},
        {"misses": by_seed[0, 1:].T, "tardiness": by_seed[1, 1:].T},
    )


def ratios_to(
    references: Mapping[str, Floats], candidate_values: Mapping[str, Floats], classic: str, place: str
) -> dict[str, Finding]:
    """Return the findings for a part or a world."""
    columns = {f"misses of {classic}": "classic", "misses untrained": "untrained"}
    means = candidate_values["misses"].mean(axis=0)
    found = {"misses": Finding(float(means[0]), trainings=tuple(means[1:].tolist()))}
    found |= {column: Finding(float(references[reference][:, 0].mean())) for column, reference in columns.items()}
    for column, reference in ((TO_CLASSIC, "classic"), ("misses, to untrained", "untrained")):
        found[column] = ratio_of_means(candidate_values["misses"], references[reference][:, 0], f"{place}, {column}")
    column = "tardiness, to best classic"
    found[column] = ratio_of_means(candidate_values["tardiness"], references["classic"][:, 1], f"{place}, {column}")
    return found


def _misses_of(name: str) -> float:
    """Return the misses of a policy with weights on the last part."""
    return float(run_index(OWN.units, OWN.loads(LAST), RULES[name].weights, n_threads=usable_cores()).mean())


def _by_utilization(classic: str, trained: Sequence[Floats]) -> dict[Place, Finding]:
    """Return the misses on the last part at each utilisation."""
    loads = OWN.loads(LAST)
    indexed = IndexedLoads(OWN.units, loads)
    number, found = OBJECTIVES["miss_ratio"], {}
    candidates = checked_weights(np.array([start_weights(), *trained]))
    values = indexed.run(indexed.whole, INDEX_CODES, candidates, n_threads=usable_cores())[number]
    reference_values = _classic(OWN, loads, classic)[number]
    for place, utilization in enumerate(UTILIZATIONS):
        row = f"last part at {utilization:g}"
        means = values[:, place :: len(UTILIZATIONS)].mean(axis=1).tolist()
        found[row, "misses"] = Finding(means[1], trainings=tuple(means[2:]))
        found[row, "misses untrained"] = Finding(means[0])
        found[row, f"misses of {classic}"] = Finding(float(reference_values[place :: len(UTILIZATIONS)].mean()))
    return found


def _without(weights: Floats) -> dict[Place, Finding]:
    """Return the misses of the mean of the indices on the last part where a part of its weights is 0."""
    candidates = [weights]
    for positions in WITHOUT.values():
        cut = weights.copy()
        cut[list(positions)] = 0.0
        candidates.append(cut)
    indexed = IndexedLoads(OWN.units, OWN.loads(LAST))
    values = indexed.run(indexed.whole, INDEX_CODES, np.array(candidates), n_threads=usable_cores())
    by_seed = values[OBJECTIVES["miss_ratio"]].reshape(len(candidates), len(LAST), len(UTILIZATIONS)).mean(axis=2)
    return {
        ("last part", f"misses without {name}, to with"): ratio_of_means(by_seed[[place]].T, by_seed[0], name)
        for place, name in enumerate(WITHOUT, 1)
    }


def ratio_of_means(candidate_values: Floats, reference_values: Floats, what: str) -> Finding:
    """Return the ratio of two means over seeds, with an interval (95 %) over seeds and trainings drawn again.

    Parameters
    ----------
    candidate_values
        Rows are seeds; the first column counts, the others are the trainings behind it. What other trainings would
        change is the difference between trainings that are drawn again and all of them.
    reference_values
        The same of the rival, one number for each seed.
    """
    random, of_trainings = (stream(0, f"{draws} of {what}") for draws in ("bootstrap", "trainings"))
    n_seeds, n_trainings = len(candidate_values), candidate_values.shape[1] - 1
    positions = random.integers(0, n_seeds, (N_RESAMPLES, n_seeds))
    chosen = of_trainings.integers(0, max(n_trainings, 1), (N_RESAMPLES, n_trainings))
    first, *each = (one[positions].mean(axis=1) for one in candidate_values.T)
    if n_trainings > 1:
        drawn = np.column_stack(each)
        first = first + np.take_along_axis(drawn, chosen, axis=1).mean(axis=1) - drawn.mean(axis=1)
    low, high = np.percentile(first / reference_values[positions].mean(axis=1), (2.5, 97.5)).tolist()
    value, *trainings = (candidate_values.mean(axis=0) / reference_values.mean()).tolist()
    return Finding(value, low, high, trainings=tuple(trainings), null=1.0)

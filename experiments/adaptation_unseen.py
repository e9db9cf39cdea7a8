"""Leave one family out: advisors on data, networks and starts that no training saw, beside bandits and a fixed rule.

The shipped families are each of other data, with networks and starts of their own. An advisor is trained on all but
one of them and judged on that one, for each in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.base.seeding import stream
from hdrl.experiments.findings import Finding, Place, Playable
from hdrl.metrics.statistics import Bootstrap
from hdrl.settings.adaptation.inputs import FAMILIES, family_of, find_tables
from hdrl.settings.adaptation.load import Jobs, jobs_of
from hdrl.settings.adaptation.machine import read_device
from hdrl.settings.adaptation.models import describe
from hdrl.settings.adaptation.policies import BANDITS, LINEAR_DECAY, make_advisor
from hdrl.settings.adaptation.simulation import AdaptingJob
from hdrl.settings.adaptation.table import Table, mean_accuracy

WITHOUT = "-without-"
"""Separator of a method and the family that it was not trained on, in the name of a row."""

N_JOBS = (50, 200, 1000)
"""After how many jobs of a table bandits are looked at: an anytime curve. What knows a table from the beginning, or
never learns, has the same regret after any number."""

BEST_FIXED = "best-fixed"
"""The sequence that is best on the tables of the training, in the mean of their validation accuracies."""

Regrets = NDArray[np.float64]
"""Mean regret by table and seed."""


@dataclass(frozen=True)
class _Judged:
    """Results of a method on every table.

    Attributes
    ----------
    regret, rank
        Means over jobs, shape ``(n_tables, n_seeds)``.
    """

    regret: Regrets
    rank: Regrets


Choice = Callable[[Table, int], NDArray[np.float64] | float]
"""From a table and the number of a seed to how often each sequence is chosen, as shares; or to an accuracy."""


def judge_unseen(
    models: Sequence[Playable], references: Mapping[str, Choice] | None = None, compared: Sequence[str] = ()
) -> dict[Place, Finding]:
    """Judge advisors that were trained without a family by its tables.

    Regret is that to the sequence which is best in the mean of a table's trainings, in shares of right answers; rank is
    among all sequences. Intervals (95 %) are of a bootstrap over networks, each with its data, and over seeds; the
    starts of a network stay together.

    Parameters
    ----------
    models
        Models of rows that are named by method and family, as ``advisor-without-digits``: for each method all
        families, the same number of models for each of them.
    references
        Further opponents by name.
    compared
        Opponents whose difference to each rival is a result, too.

    Returns
    -------
    dict
        Of each method, opponent and family: mean regret and rank, with intervals over all families; of each method and
        opponent the difference of regrets.

    Raises
    ------
    OptionsError
        If rows are missing, or named otherwise.
    """
    tables = family_tables()
    methods = models_by_method(models, sorted({family_of(table.name) for table in tables}))
    n_seeds = len(next(iter(next(iter(methods.values())).values())))
    judged = {name: _judged(tables, partial(_chosen, of), n_seeds) for name, of in methods.items()}
    others = {**_fixed(tables), **(references or {})}
    judged |= {name: _judged(tables, choose, 1) for name, choose in others.items()}
    for name in BANDITS:
        for n_jobs, one in _bandit(tables, name, n_seeds).items():
            judged[f"{name}, {n_jobs} jobs"] = one
    pairs = [(method, name) for method in methods for name in judged if name != method]
    pairs += [(name, reference) for name in compared for reference in references or {} if reference != name]
    return _numbers(tables, judged, pairs)


def family_tables() -> list[Table]:
    """Return the tables of all families."""
    return find_tables(f"{FAMILIES}/*", Path(FAMILIES) / "*", FAMILIES)


def models_by_method(models: Sequence[Playable], families: Sequence[str]) -> dict[str, dict[str, list[Playable]]]:
    """Return models by the method and the left-out family that the names of their rows say; refuse other names."""
    found: dict[str, dict[str, list[Playable]]] = {}
    for model in models:
        method, _, family = model.row.partition(WITHOUT)
        if family not in families:
            raise OptionsError(f"row {model.row!r}, expected METHOD{WITHOUT}FAMILY with one of {', '.join(families)}")
        found.setdefault(method, {}).setdefault(family, []).append(model)
    for method, of in found.items():
        missing = [family for family in families if family not in of]
        if missing:
            raise OptionsError(f"{method} has no row {method}{WITHOUT}{missing[0]}, expected one for each family")
    return found


def _judged(tables: Sequence[Table], choose: Choice, n_seeds: int) -> _Judged:
    regret, rank = np.zeros((len(tables), n_seeds)), np.zeros((len(tables), n_seeds))
    for position, table in enumerate(tables):
        ranks = np.array([table.rank(accuracy) for accuracy in table.expected])
        for seed in range(n_seeds):
            found = choose(table, seed)
            if isinstance(found, float):
                regret[position, seed], rank[position, seed] = table.best - found, table.rank(found)
            else:
                regret[position, seed] = table.best - np.add.reduce(found * table.expected)
                rank[position, seed] = np.add.reduce(found * ranks)
    return _Judged(regret, rank)


def _chosen(models: Mapping[str, Sequence[Playable]], table: Table, seed: int) -> NDArray[np.float64]:
    """Return the choices of a model that was trained without the family of a table."""
    model = models[family_of(table.name)][seed]
    trace = model.play(read_device(table.device), jobs_of(table.name, [table], 1))
    return always(table, int(trace.outcomes["sequence"][0]))


def always(table: Table, sequence: int) -> NDArray[np.float64]:
    """Return the choice of one sequence."""
    shares = np.zeros(table.n_sequences)
    shares[sequence] = 1.0
    return shares


def _fixed(tables: Sequence[Table]) -> dict[str, Choice]:
    best = {}
    for family in {family_of(table.name) for table in tables}:
        known = [table.expected_validation for table in tables if family_of(table.name) != family]
        best[family] = int(np.argmax(np.mean(known, axis=0)))
    return {
        "never": lambda table, _: always(table, table.never),
        LINEAR_DECAY: lambda table, _: float(mean_accuracy(table.others[LINEAR_DECAY][1])),
        "always-last": lambda table, _: always(table, table.sequence([table.n_actions - 2] * table.n_steps)),
        "random": lambda table, _: np.full(table.n_sequences, 1.0 / table.n_sequences),
        BEST_FIXED: lambda table, _: always(table, best[family_of(table.name)]),
    }


def _bandit(tables: Sequence[Table], name: str, n_seeds: int) -> dict[int, _Judged]:
    """Let a bandit that begins knowing nothing decide about jobs of each table, and look at it several times."""
    counts: dict[tuple[str, int], NDArray[np.float64]] = {}
    for table in tables:
        load: Jobs = jobs_of(table.name, [table], N_JOBS[-1])
        for seed in range(n_seeds):
            bandit = make_advisor(name, stream(seed, f"{name} on {table.name}"))
            chosen = np.zeros((load.n_items, table.n_sequences))
            for number in range(load.n_items):
                job = AdaptingJob(table, int(load.draw[number]), 0)
                sequence = int(bandit.choose(job))
                bandit.observe(job, sequence, float(table.validation[sequence, job.draw]))
                chosen[number, sequence] = 1.0
            counts[table.name, seed] = chosen.cumsum(axis=0)

    def so_far(n_jobs: int, table: Table, seed: int) -> NDArray[np.float64]:
        return np.asarray(counts[table.name, seed][n_jobs - 1] / n_jobs)

    return {n_jobs: _judged(tables, partial(so_far, n_jobs), n_seeds) for n_jobs in N_JOBS}


def _numbers(
    tables: Sequence[Table], judged: Mapping[str, _Judged], pairs: Sequence[tuple[str, str]]
) -> dict[Place, Finding]:
    networks = _groups(tables)
    bootstrap = Bootstrap(np.zeros(len(networks)))
    families = dict.fromkeys(family_of(table.name) for table in tables)

    def measure(values: Regrets, null: float | None = None) -> Finding:
        by_network = np.stack([values[positions].mean(axis=0) for positions in networks])
        return Finding(*bootstrap.mean(by_network), trainings=_each(by_network), null=null)

    found: dict[Place, Finding] = {}
    for name, one in judged.items():
        found[name, "regret"], found[name, "rank"] = measure(one.regret), measure(one.rank)
        for family in families:
            of_family = [position for position, table in enumerate(tables) if family_of(table.name) == family]
            values = one.regret[of_family]
            found[f"{name} on {family}", "regret"] = Finding(float(values.mean()), trainings=_each(values))
    for method, name in pairs:
        difference = judged[method].regret - judged[name].regret
        found[f"{method} less {name}", "regret"] = measure(difference, null=0.0)
    return found


def _each(values: Regrets) -> tuple[float, ...]:
    """Return the means of single trainings, or of single draws of a bandit; what is fixed has none."""
    return tuple(values.mean(axis=0).tolist()) if values.shape[1] > 1 else ()


def _groups(tables: Sequence[Table]) -> list[list[int]]:
    """Return the positions of the tables of each network and its data: they differ in their starts alone."""
    found: dict[tuple[str, ...], list[int]] = {}
    for position, table in enumerate(tables):
        found.setdefault((table.data, *describe(table.model)), []).append(position)
    return list(found.values())

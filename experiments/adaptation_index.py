"""Evolved indices on families of tables that no training saw, and how much there is to win on them at all.

Families, parts and opponents are those of ``adaptation-unseen``. The bound: what the sequences would have that are best
by several trainings of the judged tables themselves, one for all, one for each table, or one for each cell of a
partition by what an advisor knows. All partitions are searched. The best of noisy means looks better than it is, so
each is also judged by trainings that it was not chosen by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.experiments import PROTOCOLS
from hdrl.experiments.adaptation_unseen import (
    BEST_FIXED,
    Choice,
    always,
    family_tables,
    judge_unseen,
    models_by_method,
)
from hdrl.experiments.findings import Finding, Place, Playable
from hdrl.settings.adaptation.index import BY_HAND, IndexedTables, features, sequence_of, start_weights, weights_of
from hdrl.settings.adaptation.inputs import family_of
from hdrl.settings.adaptation.table import Table, mean_accuracy

Floats = NDArray[np.float64]

MEAN_WEIGHTS = "mean weights"
"""The index with the mean of the weights of all trainings."""

CELLS = {"one cell": 0, "two cells": 1, "four cells": 2}
"""Partitions by how often they are split."""

Rule = Callable[[Floats], int]
"""From the features of a table to a sequence."""


@PROTOCOLS.register("adaptation-index")
def adaptation_index(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return the results of indices on families that they were not evolved on, see `judge_unseen`, and the bound.

    Parameters
    ----------
    traces
        Not used: the tables are shipped.
    models
        Models of AdaptationIndex, in rows that are named ``index-without-`` and a family.
    """
    del traces
    tables = family_tables()
    families = sorted({family_of(table.name) for table in tables})
    (of,) = models_by_method(models, families).values()
    each = {family: weights_of([one.agent_state["weights"] for one in some]) for family, some in of.items()}
    weights = {family: some.mean(axis=0) for family, some in each.items()}
    references: dict[str, Choice] = {
        MEAN_WEIGHTS: lambda table, _: always(table, sequence_of(table, weights[family_of(table.name)])),
        BY_HAND: lambda table, _: always(table, sequence_of(table, start_weights())),
        **_bounds(tables),
    }
    return judge_unseen(models, references, (BEST_FIXED,)) | _on_own_tables(tables, each)


def _on_own_tables(tables: Sequence[Table], weights: Mapping[str, Floats]) -> dict[Place, Finding]:
    """Return the regrets on the tables of the trainings: of each index, and of the best fixed sequence."""
    index: list[Floats] = []
    fixed: list[float] = []
    for family, candidates in weights.items():
        own = [table for table in tables if family_of(table.name) != family]
        chosen = IndexedTables(own).sequences(candidates)
        index.append(
            np.mean([table.best - table.expected[one] for table, one in zip(own, chosen.T, strict=True)], axis=0)
        )
        best = int(np.argmax(np.mean([table.expected_validation for table in own], axis=0)))
        fixed.append(float(np.mean([table.best - table.expected[best] for table in own])))
    by_seed = np.mean(index, axis=0)
    column = "regret on own tables"
    return {
        ("index", column): Finding(float(by_seed.mean()), trainings=tuple(by_seed.tolist())),
        (BEST_FIXED, column): Finding(float(np.mean(fixed))),
    }


def table_features(table: Table) -> Floats:
    """Return the features of all blocks of a table before the first decision."""
    return features(table.model, float(table.time_left_s[0]) / table.budget_s, 0.0).ravel()


def best_rule(seen: Floats, worth: Floats, n_splits: int) -> Rule:
    """Return the rule that is best on tables: a sequence for each cell of the best partition.

    Parameters
    ----------
    seen
        The features of each table, shape ``(n_tables, n_features)``.
    worth
        Value of each sequence, shape ``(n_tables, n_sequences)``.
    n_splits
        Number of splits of cells by one feature and a threshold, midway between values that tables have; of partitions
        that are worth the same, the first counts.
    """
    return _best_tree(seen, worth, n_splits)[1]


def _best_tree(seen: Floats, worth: Floats, n_splits: int) -> tuple[float, Rule]:
    sums = worth.sum(axis=0)
    sequence = int(np.argmax(sums))
    best: tuple[float, Rule] = float(sums[sequence]), lambda _: sequence
    if n_splits == 0:
        return best
    tried: set[bytes] = set()
    for feature, column in enumerate(seen.T):
        values = np.unique(column)
        for threshold in ((values[1:] + values[:-1]) / 2.0).tolist():
            is_above = column > threshold
            cells = is_above if is_above[0] else ~is_above
            if cells.tobytes() in tried:
                continue
            tried.add(cells.tobytes())
            below, above = (_best_tree(seen[one], worth[one], n_splits - 1) for one in (~is_above, is_above))
            if below[0] + above[0] > best[0] + 1e-12:
                best = below[0] + above[0], partial(_split, feature, threshold, below[1], above[1])
    return best


def _split(feature: int, threshold: float, below: Rule, above: Rule, seen: Floats) -> int:
    return (above if seen[feature] > threshold else below)(seen)


def _bounds(tables: Sequence[Table]) -> dict[str, Choice]:
    """Return the sequences of the best partitions, by what they are chosen."""
    seen = np.array([table_features(table) for table in tables])
    expected = np.array([table.expected for table in tables])
    test = np.array([table.test for table in tables])
    others = [mean_accuracy(np.delete(test, draw, axis=2)) for draw in range(test.shape[2])]
    found: dict[str, Choice] = {
        "oracle": lambda table, _: always(table, int(np.argmax(table.expected))),
        "oracle, by other trainings": lambda table, _: _of_others(
            table, [int(np.argmax(worth[_place(tables, table)])) for worth in others]
        ),
    }
    for name, n_splits in CELLS.items():
        rule = best_rule(seen, expected, n_splits)
        rules = [best_rule(seen, worth, n_splits) for worth in others]
        learned: dict[str, Rule] = {}
        for family in {family_of(table.name) for table in tables}:
            rest = [position for position, table in enumerate(tables) if family_of(table.name) != family]
            worth = np.array([tables[position].expected_validation for position in rest])
            learned[family] = best_rule(seen[rest], worth, n_splits)
        found[f"{name}, in hindsight"] = partial(_by_rule, dict.fromkeys(learned, rule))
        found[f"{name}, by other trainings"] = partial(_by_rules, rules)
        if n_splits:  # without a split that is the best fixed sequence
            found[f"{name}, by other families"] = partial(_by_rule, learned)
    return found


def _by_rule(rules: Mapping[str, Rule], table: Table, seed: int) -> Floats:
    """Return the choice of the rule for the family of a table."""
    del seed
    return always(table, rules[family_of(table.name)](table_features(table)))


def _by_rules(rules: Sequence[Rule], table: Table, seed: int) -> float:
    del seed
    return _of_others(table, [rule(table_features(table)) for rule in rules])


def _of_others(table: Table, sequences: Sequence[int]) -> float:
    """Return the mean accuracy of each training under the sequence that the others chose for it."""
    return float(mean_accuracy(np.array([table.test[sequence, draw] for draw, sequence in enumerate(sequences)])))


def _place(tables: Sequence[Table], table: Table) -> int:
    return next(position for position, one in enumerate(tables) if one.name == table.name)

"""Claims about advisors that are more than one comparison: a function each, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hdrl.base.errors import OptionsError
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.adaptation_unseen import judge_unseen
from hdrl.experiments.findings import Finding, Place, Playable, without_models
from hdrl.settings.adaptation.load import jobs_of
from hdrl.settings.adaptation.machine import read_device
from hdrl.settings.adaptation.table import Table, read_table

THEN = "-to-"
"""Separator of a curriculum's tables in the name of a row, in the order in which they are learned."""

PUBLISHED: Mapping[str, tuple[str, str]] = {
    "early": ("convnet2_early", "110"),
    "middle": ("convnet2_middle", "000"),
    "late": ("convnet2_late", "011"),
    "early, second network": ("convnet3_early", "112"),
    "middle, second network": ("convnet3_middle", "202"),
    "late, second network": ("convnet3_late", "002"),
    "late to early, its own weights": ("convnet2_early", "101"),
    "late to early, its parent's weights": ("convnet2_early", "111"),
    "late to early, its own weights, on late": ("convnet2_late", "011"),
    "early to late at T 10, its own weights": ("convnet2_late", "011"),
    "early to late at T 10, its parent's weights": ("convnet2_late", "001"),
}
"""Behaviour of the agents of ChamiLamelas' advisor, by their training and the weights that were judged: table and
sequence. What was published of transferred agents is what their parents' weights do. Agents that learned one table have
no parents, so that what was published of them is right; their sequences are those of the published accuracies."""


@PROTOCOLS.register("adaptation-tables")
@without_models
def adaptation_tables(traces: Mapping[str, Path]) -> dict[Place, float]:
    """Return the best, the mean and the unadapted accuracy of each table, and the ranks of published agents.

    References
    ----------
    ChamiLamelas, DNN adaptation for ML schedulers, simulation data and published runs.
    """
    tables = {table.name: table for table in map(read_table, traces.values())}
    found: dict[Place, float] = {}
    for name, table in tables.items():
        found[name, "best"] = table.best
        found[name, "never"] = float(table.expected[table.never])
        found[name, "mean"] = float(table.expected.mean())
    for agent, (name, digits) in PUBLISHED.items():
        table = tables[name]
        accuracy = float(table.expected[table.sequence([int(digit) for digit in digits])])
        found[agent, "accuracy"] = accuracy
        found[agent, "rank"] = float(table.rank(accuracy))
    return found


@PROTOCOLS.register("adaptation-ranks")
def adaptation_ranks(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return the mean rank that models reach on each table: a row of the matrix of transfers.

    Parameters
    ----------
    models
        The models of one training, by seed.
    """
    found: dict[Place, Finding] = {}
    for path in traces.values():
        table = read_table(path)
        found["rank", table.name] = _mean([float(_played(model, table)["rank"]) for model in models])
    return found


@PROTOCOLS.register("adaptation-transfer")
def adaptation_transfer(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return the results of agents that learned several tables in turn on the last one and on the first.

    A row is named by its tables, as ``convnet2_late-to-convnet2_early``; words behind a comma say what else it is.

    Parameters
    ----------
    models
        The models of all rows, by seed.

    Returns
    -------
    dict
        Of each row means over its models: ``rank`` on its last table by its own weights; ``rank by its parent's
        weights``: that of the row whose tables are all but the last; ``rank on the first table``; ``ties``: which
        share of them does what has the same accuracy as another sequence.

    Raises
    ------
    OptionsError
        If the name of a row does not say which tables it has learned.
    """
    tables = {path.stem: read_table(path) for path in traces.values()}
    by_row: dict[str, list[Playable]] = {}
    for model in models:
        by_row.setdefault(model.row, []).append(model)
    found: dict[Place, Finding] = {}
    for row, of_row in by_row.items():
        learned = row.partition(",")[0].split(THEN)
        for name in learned:
            if name not in tables:
                raise OptionsError(
                    f"row {row!r} learns {name!r}, which is not a table, expected names joined by {THEN}"
                )
        parents = by_row.get(THEN.join(learned[:-1]), [])
        judged = {"rank": [_played(model, tables[learned[-1]]) for model in of_row]}
        if parents:
            judged["rank by its parent's weights"] = [_played(model, tables[learned[-1]]) for model in parents]
            judged["rank on the first table"] = [_played(model, tables[learned[0]]) for model in of_row]
        for column, outcomes in judged.items():
            found[row, column] = _mean([float(outcome["rank"]) for outcome in outcomes])
        found[row, "ties"] = _mean([float(outcome["n_ties"] > 0) for outcome in judged["rank"]])
    return found


@PROTOCOLS.register("adaptation-unseen")
def adaptation_unseen(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return the results of advisors on families of tables that they were not trained on, see `judge_unseen`.

    Parameters
    ----------
    traces
        Not used: the tables are shipped.
    models
        The models of all rows, by seed.
    """
    del traces
    return judge_unseen(models)


def _mean(values: Sequence[float]) -> Finding:
    """Return the mean over trainings."""
    return Finding(sum(values) / len(values), trainings=tuple(values))


def _played(model: Playable, table: Table) -> Any:
    """Return the outcome of a job under a model, a row of `hdrl.settings.adaptation.simulation.OUTCOME_DTYPE`."""
    return model.play(read_device(table.device), jobs_of(table.name, [table], 1)).outcomes[0]

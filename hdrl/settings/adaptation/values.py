"""Values of jobs that stop before their budget is used up: tables as other settings read them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hdrl.base.errors import WorkloadError
from hdrl.settings.adaptation.load import check_names
from hdrl.settings.adaptation.table import Table

DIGITS = 6
"""Decimals of shares of a budget."""


def values_json(tables: Sequence[Table]) -> dict[str, Any]:
    """Return validation accuracies by the share of the budget after which a job is stopped.

    They were measured before each decision, at the rungs behind the last one, and at the end. A network that has not
    been trained is as good as guessing, unless that was measured, too. What a job was to do later does not change what
    it is worth now, so a table of one budget holds all shorter ones; but for training rules that look ahead to the end.

    Returns
    -------
    dict
        ``jobs``: for each table its ``name`` and ``rows``; in each row ``actions``, ``decisions`` (shares of the budget
        after which they are made), ``shares`` (at which it was measured) and ``draws``: for each training a value for
        each share.

    Raises
    ------
    OptionsError
        If two tables have one name.
    WorkloadError
        If a table holds no accuracies on the way, a single training, or decisions at the same time.
    """
    check_names("TABLE", tables)
    return {"of": "validation accuracy", "jobs": [_table_json(table) for table in tables]}


def _table_json(table: Table) -> dict[str, Any]:
    if not table.rungs or not table.before.size:
        raise WorkloadError(
            f"{table.name}: has no accuracies during the training; make it again with hdrl adaptation table"
        )
    if table.n_draws < 2:
        raise WorkloadError(
            f"{table.name}: has one training of each sequence, expected two or more: advisors use half of them"
        )
    guess = 1.0 / table.model.n_outputs
    rows = []
    for sequence in range(table.n_sequences):
        actions = table.actions(sequence)
        left_s = np.array([table.time_left_s[table.state(actions[:step])] for step in range(table.n_steps)])
        decisions = 1.0 - left_s / table.budget_s
        last = decisions[-1]
        measured = [*decisions, *(last + np.array(table.rungs) * (1.0 - last)), 1.0]
        shares = [round(float(one), DIGITS) for one in measured]
        first = [] if shares[0] == 0.0 else [0.0]
        if any(after <= before for before, after in itertools.pairwise(shares)):
            raise WorkloadError(f"{table.name}: has decisions or rungs within a millionth of the budget")
        draws = [
            [
                *(round(guess, DIGITS) for _ in first),
                *table.before[sequence, draw],
                *table.curves[sequence, draw],
                value,
            ]
            for draw, value in enumerate(table.validation[sequence])
        ]
        rows.append(
            {
                "actions": list(actions),
                "decisions": shares[: table.n_steps],
                "shares": first + shares,
                "draws": [[float(one) for one in draw] for draw in draws],
            }
        )
    return {"name": table.name, "rows": rows}

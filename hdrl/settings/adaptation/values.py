"""Values of jobs that stop before their budget is used up: tables as other settings read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hdrl.base.errors import WorkloadError
from hdrl.settings.adaptation.table import Table

DIGITS = 6
"""Decimals of shares of a budget."""


def values_json(tables: Sequence[Table]) -> dict[str, Any]:
    """Return validation accuracies by the share of the budget after which a job is stopped.

    They were measured before each decision, at the rungs behind the last one, and at the end. A network that has not
    been trained is as good as guessing. What a job was to do later does not change what it is worth now, so a table of
    one budget holds all shorter ones; but for training rules that look ahead to the end.

    Returns
    -------
    dict
        ``jobs``: for each table its ``name`` and ``rows``; in each row ``actions``, ``decisions`` (shares of the budget
        after which they are made), ``shares`` (at which it was measured) and ``draws``: for each training a value for
        each share.

    Raises
    ------
    WorkloadError
        If a table holds no accuracies on the way.
    """
    return {"of": "validation accuracy", "jobs": [_table_json(table) for table in tables]}


def _table_json(table: Table) -> dict[str, Any]:
    if not table.rungs or not table.before.size:
        raise WorkloadError(
            f"{table.name}: has no accuracies during the training; make it again with hdrl adaptation table"
        )
    guess = 1.0 / table.model.n_outputs
    rows = []
    for sequence in range(table.n_sequences):
        actions = table.actions(sequence)
        left_s = np.array([table.time_left_s[table.state(actions[:step])] for step in range(table.n_steps)])
        decisions = 1.0 - left_s / table.budget_s
        last = decisions[-1]
        shares = [0.0, *decisions, *(last + np.array(table.rungs) * (1.0 - last)), 1.0]
        draws = [
            [round(guess, DIGITS), *table.before[sequence, draw], *table.curves[sequence, draw], value]
            for draw, value in enumerate(table.validation[sequence])
        ]
        rows.append(
            {
                "actions": list(actions),
                "decisions": [round(float(one), DIGITS) for one in decisions],
                "shares": [round(float(one), DIGITS) for one in shares],
                "draws": [[float(one) for one in draw] for draw in draws],
            }
        )
    return {"name": table.name, "rows": rows}

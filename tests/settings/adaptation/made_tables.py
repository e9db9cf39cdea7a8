"""Small made-up tables: what each sequence is worth follows from a formula that tests know."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.settings.adaptation.load import Jobs
from hdrl.settings.adaptation.policies import make_advisor
from hdrl.settings.adaptation.simulation import simulate

BUDGET_S = 100.0
DEVICE = "made"


def worth(actions: tuple[int, ...], best: tuple[int, ...]) -> float:
    """Return the accuracy of a sequence: 0.9 for the best one, and less for each decision that differs."""
    return 0.9 - 0.1 * sum(mine != its for mine, its in zip(actions, best, strict=True)) - 0.001 * sum(actions)


def table_json(
    best: tuple[int, ...] = (1, 0, 2), *, noise: float = 0.0, n_draws: int = 2, **more: Any
) -> dict[str, Any]:
    """Return a table in our own form: 64 sequences, decisions with 60, 50 and 40 s left."""
    random = np.random.default_rng(3)
    rows = []
    for actions in itertools.product(range(4), repeat=3):
        draws = [[worth(actions, best) + noise * random.standard_normal() for _ in range(2)] for _ in range(n_draws)]
        curves = [[0.5 * validation] for validation, _ in draws]
        # Before its first decision a job has 0.2, and a twentieth more for each block that was not deepened since.
        before = [[0.2, *(0.2 + 0.05 * actions[:step].count(3) for step in (1, 2))]] * n_draws
        row = {"actions": list(actions), "timeleft_s": [60.0, 50.0, 40.0], "before": before}
        rows.append({**row, "draws": draws, "curves": curves})
    others = {"linear-decay": [[0.7, 0.7]] * n_draws}
    table = {"model": "convnet2", "scenario": "made", "device": "made", "budget_s": BUDGET_S, "rungs": [0.5]}
    return {**table, "others": others, "rows": rows, **more}


def seed_json(best: tuple[int, ...] = (1, 0, 2)) -> dict[str, Any]:
    """Return a table in the form of ChamiLamelas' advisor."""
    rows = [
        {
            "actions": list(actions),
            "timeleft_s": [330.0 - actions[0], 318.0 - actions[1], 306.0 - actions[2]],
            "totaltime_s": 400,
            "accuracy": worth(actions, best),
        }
        for actions in itertools.product(range(4), repeat=3)
    ]
    return {"model": "convnet2", "scenario": "early", "rows": rows}


def write_table(path: Path, data: dict[str, Any]) -> Path:
    path.write_text(json.dumps(data))
    return path


class Plays:
    """A model that always does the same."""

    def __init__(self, row: str, digits: str) -> None:
        self.row, self._policy = row, f"fixed-{digits}"

    def play(self, machine: Any, load: Jobs) -> Any:
        return simulate(machine, load, make_advisor(self._policy, np.random.default_rng(0)))

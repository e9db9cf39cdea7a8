"""Is the winner the same? One comparison again under other tie rules, orders of nodes, contention, estimates, ...

Each condition changes one key of the sweep. The opponent is chosen once, by the unchanged comparison.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hdrl.base.csvfiles import write_records
from hdrl.base.errors import OptionsError
from hdrl.base.files import without_nan, write_json
from hdrl.experiment.compare.comparison import CompareProgress, run_comparison
from hdrl.experiment.compare.files import Comparison
from hdrl.experiment.compare.summary import ALL
from hdrl.experiment.run.inputs import make_sweep
from hdrl.metrics.statistics import kendall_tau
from hdrl.options.sweep import Sweep

AS_REQUESTED = "as given"
AS_REQUESTED_FOLDER = AS_REQUESTED.replace(" ", "_")
RESULT_FILE, TABLE_FILE = "robust.json", "robust.csv"


@dataclass(frozen=True, slots=True)
class Condition:
    """Result of a comparison under one condition."""

    name: str  # the key that was changed, and its value; `AS_REQUESTED` for the comparison itself
    winner: str  # the candidate with the best mean ratio, the baseline among them; empty if none has a ratio
    tau: float  # Kendall's tau of the ranking with that of the unchanged comparison
    ratios: Mapping[str, float]  # the ratio to the baseline by candidate; NaN where there is none
    verdict: str  # its conclusion, in a sentence


@dataclass(frozen=True, slots=True)
class Robust:
    """Results of all conditions."""

    folder: Path  # where `RESULT_FILE` and `TABLE_FILE` are
    folders: tuple[Path, ...]  # the folder of each comparison, in the order of the conditions
    # the reference of the ratios, and the metric that decides
    baseline: str
    metric: str
    conditions: tuple[Condition, ...]  # the conditions, the unchanged comparison first
    verdict: str  # whether the winner is the same, in a sentence


def run_robust(
    sweep: Sweep,
    vary: Mapping[str, Sequence[Any]],
    *,
    out: str | Path,
    n_workers: int | None = None,
    on: str = "local",
    progress: CompareProgress | None = None,
) -> Robust:
    """Repeat a comparison with each of some values of some keys, one at a time, and compare the rankings.

    ``vary`` has values by key of the sweep (``"rules.tie"``); a wrong one is refused before anything is simulated.
    """
    out, progress = Path(out), progress or CompareProgress()
    sweeps = dict(_conditions(sweep, vary))
    found: dict[str, Comparison] = {}
    for name, one in sweeps.items():
        varied = one if not found else one.model_copy(update={"baseline": found[AS_REQUESTED].baseline})
        progress.message(f"{name}:")
        found[name] = run_comparison(
            varied, out=out / re.sub(r"[^\w.=+-]", "_", name), n_workers=n_workers, on=on, progress=progress
        )
    first = found[AS_REQUESTED]
    sign = -1.0 if first.metrics[first.metric].lower_is_better is False else 1.0
    ratios = {name: _ratios(one) for name, one in found.items()}
    conditions = tuple(
        Condition(
            name,
            _winner(ratios[name], sign),
            _tau(ratios[AS_REQUESTED], ratios[name]),
            ratios[name],
            found[name].verdict,
        )
        for name in found
    )
    result = Robust(
        out, tuple(one.folder for one in found.values()), first.baseline, first.metric, conditions, _words(conditions)
    )
    data = {
        "baseline": result.baseline,
        "metric": result.metric,
        "verdict": result.verdict,
        "conditions": [without_nan(asdict(one)) | {"ratios": without_nan(one.ratios)} for one in conditions],
    }
    write_records(
        out / TABLE_FILE,
        [{"condition": one.name, "winner": one.winner, "tau": one.tau} | dict(one.ratios) for one in conditions],
    )
    write_json(out / RESULT_FILE, data)
    return result


def _conditions(sweep: Sweep, vary: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Sweep]]:
    """Return the comparison itself, and with each value; those that are the same as it are left out."""
    yield AS_REQUESTED, sweep
    for key, values in vary.items():
        for value in values:
            name = f"{key}={value}"
            data = sweep.model_dump(mode="json")
            block, names = data, key.split(".")
            for part in names[:-1]:
                if not isinstance(block.setdefault(part, {}), dict):
                    raise OptionsError(f"--vary {name}: {part} is not a block of the sweep")
                block = block[part]
            block[names[-1]] = value
            changed = make_sweep(data, where=f"--vary {name}", folder=sweep.folder)
            if changed.sha256() != sweep.sha256():
                yield name, changed


def _ratios(comparison: Comparison) -> dict[str, float]:
    return {
        row.candidate: row.ratio for row in comparison.rows if row.workload == ALL and row.metric == comparison.metric
    }


def _winner(ratios: Mapping[str, float], sign: float) -> str:
    known = {name: sign * ratio for name, ratio in ratios.items() if not math.isnan(ratio)}
    return min(known, key=lambda name: known[name], default="")


def _tau(first: Mapping[str, float], other: Mapping[str, float]) -> float:
    names = [name for name in first if name in other]
    return kendall_tau([first[name] for name in names], [other[name] for name in names])


def _words(conditions: Sequence[Condition]) -> str:
    first, *others = conditions
    if not others:
        return "Nothing was varied: all values are those of the comparison itself."
    same = [one for one in others if one.winner == first.winner]
    taus = [one.tau for one in others if not math.isnan(one.tau)]
    agree = f"; Kendall's tau of the rankings is {min(taus):.2f} or more" if taus else ""
    if taus and min(taus) >= 1:
        agree = "; the rankings are the same"
    if len(same) == len(others):
        return f"{first.winner} is the best under all {len(conditions)} conditions{agree}."
    else_ = ", ".join(f"{one.winner} under {one.name}" for one in others if one.winner != first.winner)
    return (
        f"The winner depends on the conditions: {first.winner} is the best under {1 + len(same)} of {len(conditions)}, "
        f"{else_}{agree}."
    )

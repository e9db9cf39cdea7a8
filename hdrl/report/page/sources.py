"""The runs of a report, with names that tell them apart."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from hdrl.base.errors import ReadError
from hdrl.figures.figure import Run
from hdrl.figures.folders import run_folders
from hdrl.report.runs import main_file, setting_of
from hdrl.setting import Setting


def read_report_runs(folders: Iterable[str | Path], setting: Setting) -> list[Run]:
    """Read run folders and give the runs names that tell them apart.

    A name is the policy, and where that is not enough the workload, the seed or the folder as well.
    """
    runs = []
    for folder in folders:
        own = setting_of(folder).name
        if own != setting.name:
            raise ReadError(folder, f"is of the setting {own}, expected {setting.name} as the others are")
        runs += [setting.view.read(path, None) for path in run_folders(folder, main_file(setting))]
    return [  # metrics without a value are left out
        dataclasses.replace(run, name=name, metrics={key: n for key, n in run.metrics.items() if math.isfinite(n)})
        for run, name in zip(runs, _distinct_names(runs), strict=True)
    ]


def policy_of(run: Run) -> str:
    """Return who decided in a run: its policy, or the name of its folder where that is unknown."""
    return run.policy or run.folder.resolve().name


def _distinct_names(runs: Sequence[Run]) -> list[str]:
    ways: tuple[Callable[[Run], str], ...] = (
        policy_of,
        lambda run: f"{policy_of(run)}, {run.workload}",
        lambda run: f"{policy_of(run)}, seed {run.provenance.get('seed', '?')}",
        lambda run: f"{policy_of(run)}, {run.folder.resolve().name}",
        lambda run: f"{policy_of(run)}, {run.folder.resolve().parent.name}/{run.folder.resolve().name}",
    )
    for way in ways:
        names = [way(run) for run in runs]
        if max(Counter(names).values(), default=1) == 1:
            return names
    return [f"{policy_of(run)} ({index + 1})" for index, run in enumerate(runs)]

"""What a report is made of: run folders with all that they tell of themselves."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.errors import ReadError
from hdrl.files import read_json
from hdrl.report.data import RunData, job_values, read_run, run_folders

OPTIONS = "options.resolved.json"
PROVENANCE = "provenance.json"

UNRUN = {"n_unfinished": "unfinished", "n_not_started": "never started", "n_rejected": "rejected"}
"""Counts of jobs that did not run to an end, with the words for them."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run folder.

    Attributes
    ----------
    data
        Its jobs.
    name
        Its name in the report, different for every run.
    policy
        Who decided: a policy, or the agent file.
    metrics
        Metrics by name, those without a value left out. Of a folder without ``metrics.json`` only what its jobs tell.
    options
        The resolved options; empty if the folder does not have them.
    provenance
        Where the results come from; empty if the folder does not tell.
    """

    data: RunData
    name: str
    policy: str
    metrics: Mapping[str, float]
    options: Mapping[str, Any]
    provenance: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """The folder."""
        return self.data.folder or Path()

    @property
    def options_text(self) -> str:
        """The resolved options as a file that runs again; empty if unknown."""
        return json.dumps(self.options, indent=2) + "\n" if self.options else ""

    @property
    def n_unrun(self) -> int:
        """Jobs that did not run to an end: unfinished, never started or rejected."""
        return int(sum(self.metrics.get(name, 0) for name in UNRUN))

    def metric(self, name: str) -> float:
        """Return a metric, NaN if it does not exist.

        Parameters
        ----------
        name
            Its name.
        """
        return self.metrics.get(name, math.nan)

    def origin(self, what: str) -> Mapping[str, Any]:
        """Return what the provenance says about the platform, the workload, the options or the agent.

        Parameters
        ----------
        what
            ``"platform"``, ``"workload"``, ``"options"`` or ``"agent"``.
        """
        part = self.provenance.get(what)
        return part if isinstance(part, dict) else {}

    def offered_load(self) -> float:
        """Return the core-seconds of the jobs over those that the machine has while jobs arrive; NaN if unknown."""
        data = self.data
        if data.n_jobs < 2:
            return math.nan
        span_s = float(np.max(data.submit_s) - np.min(data.submit_s))
        work = float(np.nansum((data.end_s - data.start_s) * data.cores))
        return work / (span_s * data.n_cores) if span_s > 0 else math.nan


def read_report_runs(folders: Iterable[Path]) -> list[Run]:
    """Read run folders and give the runs names that tell them apart.

    A name is the policy, and where that is not enough the workload, the seed or the folder as well.

    Parameters
    ----------
    folders
        Run folders, or folders of experiments with several runs.

    Raises
    ------
    ReadError
        If a folder holds no run, or a file in it is damaged.
    """
    runs = [_read(path) for folder in folders for path in run_folders(folder)]
    names = _distinct_names(runs)
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def _distinct_names(runs: Sequence[Run]) -> list[str]:
    ways: tuple[Callable[[Run], str], ...] = (
        lambda run: run.policy,
        lambda run: f"{run.policy}, {run.data.workload}",
        lambda run: f"{run.policy}, seed {run.provenance.get('seed', '?')}",
        lambda run: f"{run.policy}, {run.folder.resolve().name}",
        lambda run: f"{run.policy}, {run.folder.resolve().parent.name}/{run.folder.resolve().name}",
    )
    for way in ways:
        names = [way(run) for run in runs]
        if max(Counter(names).values(), default=1) == 1:
            return names
    return [f"{run.policy} ({index + 1})" for index, run in enumerate(runs)]


def _read(folder: Path) -> Run:
    data = read_run(folder)
    metrics = {name: value for name, value in data.metrics.items() if math.isfinite(value)} or _metrics_of_jobs(data)
    policy = data.policy or data.name
    return Run(data, policy, policy, metrics, _object(folder / OPTIONS), _object(folder / PROVENANCE))


def _metrics_of_jobs(data: RunData) -> dict[str, float]:
    """Return what out_jobs.csv alone tells."""
    metrics: dict[str, float] = {
        "n_jobs": data.n_jobs,
        "n_finished": int(np.sum(data.has_ended)),
        "n_rejected": int(np.sum(data.state == "REJECTED")),
    }
    if metrics["n_finished"]:
        metrics["makespan_s"] = float(np.nanmax(data.end_s) - data.span_s[0])
        for name in ("wait_s", "turnaround_s", "slowdown", "bounded_slowdown"):
            values = job_values(data, name)
            metrics |= {f"mean_{name}": float(np.mean(values)), f"max_{name}": float(np.max(values))}
    return metrics


def _object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    value = read_json(path)
    if not isinstance(value, dict):
        raise ReadError(path, "must be a JSON object")
    return value

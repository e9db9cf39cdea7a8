"""The folder of a comparison, read for pictures and pages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from hdrl.base.csvfiles import read_records
from hdrl.base.errors import ReadError, UnknownName
from hdrl.base.textnumbers import float_of
from hdrl.experiment.compare.candidates import MODEL_SUFFIXES
from hdrl.experiment.compare.files import SUMMARY_FILE, Comparison, read_comparison
from hdrl.experiment.compare.summary import ALL, SummaryRow
from hdrl.experiment.compare.verdict import is_better, order_of_row
from hdrl.figures.folders import PROVENANCE_FILE, read_object
from hdrl.figures.numbers import listed
from hdrl.metrics.catalogue import MetricInfo
from hdrl.options.reading import checked
from hdrl.report.runs import setting_of

__all__ = ["ALL", "Compared", "is_comparison", "read_compared"]


class Input(BaseModel):
    """A platform or a workload that was compared on."""

    name: str | None = None
    n_cores: int = 0
    sha256: str | None = None


class CandidateFiles(BaseModel):
    """The files of a candidate, with their hashes."""

    files: list[str] = []
    sha256: list[str] = []


class Identity(BaseModel):
    """Identity of a comparison; empty if its folder does not give it."""

    sweep: str | None = None
    platform: Input = Input()
    workloads: list[Input] = []
    candidates: dict[str, CandidateFiles] = {}
    versions: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison."""

    folder: Path
    result: Comparison  # its tables and verdicts
    metric: str  # the metric that everything is about
    infos: Mapping[str, MetricInfo]  # definitions of the metrics
    sweep: Mapping[str, Any]  # the compared sweep
    identity: Identity  # its identity: hashes and versions

    @property
    def confidence(self) -> float:
        """Share of intervals that would hold the true value."""
        return self.result.rows[0].confidence

    @property
    def metrics(self) -> list[str]:
        """The metrics of its tables, the main one first."""
        return list(dict.fromkeys([self.metric, *(row.metric for row in self.result.rows)]))

    @property
    def workloads(self) -> list[str]:
        """Its workloads by name, without the row over all."""
        return [name for name in dict.fromkeys(row.workload for row in self.result.rows) if name != ALL]

    def rows(self, metric: str, workload: str = ALL) -> list[SummaryRow]:
        """Return the rows of one table from the best ratio to the worst, those without any last, by their means.

        Where neither side of the metric is better, the lowest ratio is first.
        """
        rows = [row for row in self.result.rows if row.metric == metric and row.workload == workload]
        return sorted(rows, key=lambda row: order_of_row(row, self.infos[metric]))

    def is_better(self, row: SummaryRow) -> bool | None:
        """Return whether a candidate is better than the baseline; ``None`` if that was not shown.

        It was shown if the interval of the ratio excludes 1, the adjusted p-value is below 5 %, and both speak for the
        same side. Without a ratio the means and most windows replace the interval.
        """
        return is_better(row, self.infos[row.metric], self._baseline(row))

    def _baseline(self, row: SummaryRow) -> SummaryRow | None:
        return next((one for one in self.rows(row.metric, row.workload) if one.is_baseline), None)

    def is_learned(self, candidate: str) -> bool:
        """Return whether a candidate is a model that was trained."""
        entry = self.identity.candidates.get(candidate)
        return entry is not None and any(file.endswith(MODEL_SUFFIXES) for file in entry.files)

    def means_of_windows(self) -> dict[str, NDArray[np.float64]]:
        """Return the mean over seeds of the metric in each window, by candidate; NaN where there is none."""
        path = self.folder / "results.csv"
        if not path.is_file():
            return {}
        values: dict[str, dict[tuple[str, str], list[float]]] = {}
        try:
            for row in read_records(path):
                window = (row["workload"], row["window"])
                values.setdefault(row["candidate"], {}).setdefault(window, []).append(
                    float_of(row[self.metric] or "nan")
                )
        except (KeyError, TypeError, ValueError) as error:
            raise ReadError(path, f"is not a table of a comparison ({error})") from None
        order = list(dict.fromkeys(window for mine in values.values() for window in mine))
        return {
            name: np.array([np.mean(mine.get(window, [math.nan])) for window in order]) for name, mine in values.items()
        }


def is_comparison(folder: Path) -> bool:
    """Return whether a folder holds a finished comparison."""
    return (folder / SUMMARY_FILE).is_file()


def read_compared(folder: str | Path, metric: str | None = None) -> Compared:
    """Read the folder of a comparison.

    ``metric`` is what everything is about, by default the one by which the comparison decides.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ReadError(folder, "no such folder")
    if not is_comparison(folder):
        raise ReadError(folder, f"is not a comparison: it has no {SUMMARY_FILE}")
    infos = setting_of(folder).measures.metrics
    result = read_comparison(folder)
    found = {row.metric for row in result.rows}
    if not found <= set(infos):
        raise ReadError(folder / SUMMARY_FILE, f"has unknown metrics: {listed(sorted(found - set(infos)))}")
    if metric is not None and metric not in found:
        raise UnknownName(f"table in {folder} of metric", metric, found)
    sweep, identity = read_object(folder / "sweep.json"), _identity(folder / PROVENANCE_FILE)
    return Compared(folder, result, metric or result.metric, infos, sweep, identity)


def _identity(path: Path) -> Identity:
    found = read_object(path).get("identity")
    if not isinstance(found, dict):
        return Identity()
    return checked(Identity, found, path, message="is damaged ({})", whole="identity")

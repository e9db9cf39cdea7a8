"""The table of a comparison, read back: means and ratios with their intervals."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

from hdrl.errors import ReadError, UnknownName
from hdrl.files import read_text

SUMMARY_FILE = "summary.csv"
ALL = "all"
"""What the table calls all workloads together."""

_NUMBERS = ("mean", "mean_low", "mean_high", "ratio", "ratio_low", "ratio_high", "p_holm", "n_windows", "n_unfinished")
_COLUMNS = ("workload", "metric", "unit", "candidate", "is_baseline", *_NUMBERS)


@dataclass(frozen=True, slots=True)
class Compared:
    """A candidate of a comparison by one metric over all workloads.

    Attributes
    ----------
    candidate, metric, unit
        Of what.
    is_baseline
        Whether ratios refer to it.
    mean, mean_low, mean_high
        Mean with its interval, NaN where there is none.
    ratio, ratio_low, ratio_high
        Ratio to the baseline with its interval, NaN where there is none.
    p_holm
        Adjusted p-value, NaN where there is none.
    n_windows, n_unfinished
        Windows that it was run on, and jobs that it did not bring to an end.
    """

    candidate: str
    metric: str
    unit: str
    is_baseline: bool
    mean: float
    mean_low: float
    mean_high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    p_holm: float
    n_windows: int
    n_unfinished: int


def read_summary(folder: str | Path, metric: str | None = None) -> list[Compared]:
    """Return the rows of one metric of a comparison, over all workloads.

    Parameters
    ----------
    folder
        Folder of the comparison.
    metric
        The metric; the first of the table by default, by which the comparison decides.

    Raises
    ------
    ReadError
        If the folder holds no comparison, or its table is damaged.
    UnknownName
        If the comparison has no such metric.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ReadError(folder, "no such folder")
    path = folder / SUMMARY_FILE
    if not path.is_file():
        raise ReadError(folder, f"is no comparison: it has no {SUMMARY_FILE}")
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise ReadError(path, f"has no column {missing[0]!r}", line=1)
        rows = [_row(path, reader.line_num, line) for line in reader if line["workload"] == ALL]
    except csv.Error as error:
        raise ReadError(path, f"is no CSV: {error}", line=reader.line_num) from None
    if not rows:
        raise ReadError(path, f"has no row for the workload {ALL!r}")
    metrics = list(dict.fromkeys(row.metric for row in rows))
    if metric is not None and metric not in metrics:
        raise UnknownName("metric of the comparison", metric, metrics)
    return [row for row in rows if row.metric == (metric or metrics[0])]


def _row(path: Path, line_number: int, line: dict[str, str]) -> Compared:
    numbers = {}
    for name in _NUMBERS:
        try:
            numbers[name] = float(line[name] or "nan")
        except (TypeError, ValueError):
            raise ReadError(path, f"{name} is {str(line[name])[:40]!r}, expected a number", line=line_number) from None
    counts = {name: 0 if math.isnan(numbers[name]) else int(numbers[name]) for name in ("n_windows", "n_unfinished")}
    is_baseline = line["is_baseline"].strip().lower() in {"1", "true", "yes"}
    return Compared(
        candidate=line["candidate"],
        metric=line["metric"],
        unit=line["unit"],
        is_baseline=is_baseline,
        mean=numbers["mean"],
        mean_low=numbers["mean_low"],
        mean_high=numbers["mean_high"],
        ratio=numbers["ratio"],
        ratio_low=numbers["ratio_low"],
        ratio_high=numbers["ratio_high"],
        p_holm=numbers["p_holm"],
        n_windows=counts["n_windows"],
        n_unfinished=counts["n_unfinished"],
    )

"""Jobs in groups: by their size, or by a number of the log such as the user."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, ReadError, UnknownName
from hdrl.base.hashing import sha256_of_file
from hdrl.figures.folders import OPTIONS_FILE, PROVENANCE_FILE, get_nested, read_object
from hdrl.settings.batch.report.runs import LABELS, RunData

if TYPE_CHECKING:
    from hdrl.settings.batch.workload.model import Workload

GROUPINGS = ("size", *LABELS)
"""Attributes by which jobs can be grouped."""

OTHERS = "others"
UNKNOWN_LABEL = "unknown"


@dataclass(frozen=True, slots=True)
class JobGroups:
    """Jobs in groups."""

    title: str  # name of the groups, for a legend
    names: tuple[str, ...]  # name of each group
    group: NDArray[np.int64]  # group of each job of the run, shape ``(n_jobs,)``


def groups_of(run: RunData, by: str, *, max_groups: int = 12) -> JobGroups:
    """Put the jobs of a run in groups.

    Sizes are grouped in powers of two: 1, 2, 3-4, 5-8, ... cores. Of users and the like the ones with the most jobs
    are kept, and all others are one group.

    Parameters
    ----------
    max_groups
        Largest number of groups, at least 2.

    Raises
    ------
    UnknownName
        If ``by`` is none of them.
    OptionsError
        If the run does not know these numbers: they are in its workload, see `with_labels`.
    """
    if by not in GROUPINGS:
        raise UnknownName("grouping", by, GROUPINGS)
    if by == "size":
        return _sizes(run.cores, max_groups)
    if by not in run.labels:
        raise OptionsError(
            f"{run.name}: no file of the run holds the {by} of a job; name its workload (--workload FILE)"
        )
    numbers, group, counts = np.unique(run.labels[by], return_inverse=True, return_counts=True)
    names = [UNKNOWN_LABEL if number < 0 else f"{by} {number}" for number in numbers.tolist()]
    if len(numbers) <= max_groups:
        return JobGroups(by, tuple(names), group.astype(np.int64))
    kept = np.sort(np.argsort(-counts, kind="stable")[: max_groups - 1])
    position = np.full(len(numbers), max_groups - 1)
    position[kept] = np.arange(max_groups - 1)
    rest = f"{len(numbers) - len(kept)} {OTHERS}"
    return JobGroups(by, (*(names[index] for index in kept.tolist()), rest), position[group])


def _sizes(cores: NDArray[np.int64], max_groups: int) -> JobGroups:
    power = np.frexp(np.maximum(cores, 1) - 1.0)[1].astype(np.int64)  # exactly the next power of two
    first = max(0, int(np.max(power, initial=0)) - max_groups + 1)
    power = np.maximum(power, first)
    found, group = np.unique(power, return_inverse=True)
    names = []
    for exponent in found.tolist():
        low, high = (1 if exponent == first else 2 ** (exponent - 1) + 1), 2**exponent
        names.append(f"{low}" if low == high else f"{low:,}-{high:,}")
    return JobGroups("cores", tuple(names), group.astype(np.int64))


def with_labels(run: RunData, workload: str | Path | None = None) -> RunData:
    """Return a run that knows the users, groups, queues and priorities of its jobs."""
    if run.labels:
        return run
    rows = jobs_of_workload(run, workload)
    return dataclasses.replace(run, labels={name: rows[name].astype(np.int64) for name in LABELS})


def labelled(runs: Sequence[RunData], by: str, workload: str | Path | None = None) -> list[RunData]:
    """Return runs that know what groups their jobs."""
    return [with_labels(run, workload) for run in runs] if by in LABELS else list(runs)


def jobs_of_workload(run: RunData, workload: str | Path | None = None) -> NDArray[np.void]:
    """Return the jobs of a run as its workload describes them: a row of `workload.JOB_DTYPE` for each.

    ``workload``: the file of its workload, or the name of a shipped one; by default what the run's options name, if it
    is still the same file.
    """
    if run.trace is not None:
        return run.trace.workload.jobs
    path = _named_workload(run) if workload is None else workload
    jobs = _jobs(path)
    row = {job_id: index for index, job_id in enumerate(jobs.job_ids)}
    missing = [job_id for job_id in run.job_id.tolist() if job_id not in row]
    if missing:
        raise OptionsError(
            f"{path}: lacks {len(missing):,} jobs of {run.name}, for instance {missing[0]!r}; "
            "expected the workload of the run"
        )
    return jobs.jobs[np.array([row[job_id] for job_id in run.job_id.tolist()], dtype=np.int64)]


def _jobs(file: str | Path) -> Workload:
    from hdrl.settings.batch.workload import file_format, find_workload, read_swf, read_workload, workload_from_swf

    path = find_workload(str(file))
    if file_format(path) == "swf":
        return workload_from_swf(read_swf(path), 1.0)  # speeds and draws do not matter here
    return read_workload(path, None)


def _named_workload(run: RunData) -> Path:
    """Return the file that the options of a run name, if the run was made from it."""
    from hdrl.settings.batch.workload import shipped_workloads

    folder = run.folder
    options = {} if folder is None else read_object(folder / OPTIONS_FILE)
    named = get_nested(options, "workload", "custom") or options.get("workload_file_path")
    if folder is None or not isinstance(named, str):
        raise ReadError(run.name, "does not name its workload; name it (--workload FILE)")
    sha256 = get_nested(read_object(folder / PROVENANCE_FILE), "workload", "origin", "sha256")
    shipped = shipped_workloads().get(Path(named).name.split(".")[0])
    for path in filter(None, (folder / named, folder.parent / named, shipped)):
        if path.is_file() and sha256_of_file(path) == sha256:
            return path
    raise ReadError(named, f"the workload of {run.name} is not there, or has changed; name it (--workload FILE)")

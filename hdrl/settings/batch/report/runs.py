"""Data of a run of batch jobs for reports and pictures: read from its folder, or taken from a Trace.

Any folder with Batsim's ``out_jobs.csv`` is a run: of this project, of Batsim or of HDeepRM. What such a folder tells
besides (options, provenance, metrics) is used where it is there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, ReadError
from hdrl.base.files import read_json
from hdrl.figures.folders import distinct_names, get_nested, read_numbers, run_folders
from hdrl.settings.batch.simulation.readers import read_out_jobs, read_out_schedule
from hdrl.settings.batch.simulation.texts import text_array
from hdrl.settings.batch.simulation.trace import BatchTrace, JobState

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

JOBS_FILE = "out_jobs.csv"
LABELS = ("user", "group", "executable", "queue", "partition", "priority")
"""Numbers of a log that jobs can be grouped by; only a workload knows them, no run folder does."""

_STATES = text_array([state.name for state in JobState])


@dataclass(frozen=True, slots=True)
class Blocks:
    """The cores that jobs held, as blocks of neighbouring cores."""

    job: IntArray  # row of the job in its `RunData`, shape ``(n_blocks,)``, ascending
    # the cores ``first_core`` to ``first_core + n_cores - 1``
    first_core: IntArray
    n_cores: IntArray


@dataclass(frozen=True, slots=True)
class RunData:
    """One run, a row per job."""

    name: str  # name of the run: the folder's, unless another was given
    n_cores: int  # cores of the platform, at least 1
    # texts: id, and name of a `simulation.trace.JobState`
    job_id: NDArray[np.object_]
    state: NDArray[np.object_]
    # dates in seconds, NaN where a job never started or never ended
    submit_s: FloatArray
    start_s: FloatArray
    end_s: FloatArray
    cores: IntArray  # requested cores
    energy_j: FloatArray  # joules of the cores of the job from its start to its end, NaN if unknown
    blocks: Blocks  # cores that the jobs held
    # names, ``None`` if unknown
    policy: str | None = None
    workload: str | None = None
    platform: str | None = None
    # metrics by the names of `hdrl.metrics.METRICS`; NaN where one has no value. Empty where no file tells them
    metrics: Mapping[str, float] = field(default_factory=dict)
    # numbers of the log by name, see `LABELS`; -1 where unknown. Empty for a folder
    labels: Mapping[str, IntArray] = field(default_factory=dict)
    # jobs of the workload that have no row here: those that a folder does not tell of since they never ended
    n_hidden: int = 0
    folder: Path | None = None  # folder from which it was read, ``None`` for a Trace
    trace: BatchTrace | None = None  # Trace from which it was made, ``None`` for a folder

    @property
    def n_jobs(self) -> int:
        """Number of rows."""
        return len(self.job_id)

    @property
    def has_ended(self) -> NDArray[np.bool_]:
        """True for each job that ran to an end, whatever end; shape ``(n_jobs,)``."""
        return np.isfinite(self.end_s)

    @property
    def span_s(self) -> tuple[float, float]:
        """First submission and last known date; ``(0, 0)`` without jobs."""
        if not self.n_jobs:
            return 0.0, 0.0
        return float(np.min(self.submit_s)), float(np.nanmax([self.submit_s, self.start_s, self.end_s]))

    def path_of(self, file: str) -> Path:
        """Return the path of a file of the folder."""
        if self.folder is None:
            raise ReadError(self.name, f"comes from no folder, so there is no {file}")
        path = self.folder / file
        if not path.is_file():
            raise ReadError(self.folder, f"has no {file}")
        return path


def read_run(folder: str | Path, name: str | None = None) -> RunData:
    """Read a run folder.

    Parameters
    ----------
    folder
        A folder that holds ``out_jobs.csv``, or a single ``run_<i>`` that does.
    """
    folder = Path(folder)
    found = run_folders(folder, JOBS_FILE)
    if len(found) > 1:
        raise ReadError(folder, f"holds {len(found)} runs, expected one: name it, for instance {found[0].name}")
    folder = found[0]
    table = read_out_jobs(folder / JOBS_FILE)
    facts = _facts(folder)
    metrics = read_numbers(folder)
    blocks = _blocks_of_texts(table["allocated_resources"].tolist())
    n_rows = len(table["job_id"])
    return RunData(
        name=name or folder.resolve().name,
        n_cores=_n_cores(folder, facts, blocks),
        job_id=table["job_id"],
        state=table["final_state"],
        submit_s=table["submission_time"],
        start_s=table["starting_time"],
        end_s=table["finish_time"],
        cores=table["requested_number_of_resources"],
        energy_j=np.where(table["consumed_energy"] >= 0, table["consumed_energy"], np.nan),
        blocks=blocks,
        policy=facts.get("policy"),
        workload=facts.get("workload"),
        platform=facts.get("platform"),
        metrics=metrics,
        n_hidden=max(0, int(metrics.get("n_jobs", n_rows)) - n_rows),
        folder=folder,
    )


def read_runs(folders: Iterable[str | Path], names: Sequence[str] = ()) -> list[RunData]:
    """Read several runs and give them names that differ.

    Parameters
    ----------
    folders
        Run folders, or folders of experiments with several runs.
    names
        A name per run; those of the folders by default, with those of the folders above where that is needed.
    """
    paths = runs_in(folders, JOBS_FILE)
    return [read_run(path, name) for path, name in zip(paths, unique_names(paths, names), strict=True)]


def runs_in(folders: Iterable[str | Path], main_file: str) -> list[Path]:
    """Return the runs that folders stand for, one after the other."""
    return list(itertools.chain.from_iterable(run_folders(folder, main_file) for folder in folders))


def unique_names(paths: Sequence[Path], names: Sequence[str] = ()) -> list[str]:
    """Return a name for each run, no two alike.

    ``names``: the names wanted, "" for the own one of the run; none: all have their own.
    """
    if names and len(names) != len(paths):
        raise OptionsError(f"number of names: {len(names)}, of runs: {len(paths)}; expected a name for each run")
    own = distinct_names(paths)
    chosen = [name or its_own for name, its_own in zip(names or own, own, strict=True)]
    if names and len(set(chosen)) != len(chosen):
        raise OptionsError("two runs have the same name, expected different ones")
    return chosen


def run_of_trace(trace: BatchTrace, name: str | None = None) -> RunData:
    """Return the run that a Trace tells of; all jobs of the workload have a row."""
    from hdrl.settings.batch.metrics import compute_metrics

    records, jobs = trace.records, trace.workload.jobs
    has_started = records["start_s"] >= 0
    start_s = np.where(has_started, records["start_s"], np.nan)
    end_s = np.where(has_started & (records["run_s"] >= 0), start_s + records["run_s"], np.nan)
    policy = trace.info.get("policy")
    policy = policy if isinstance(policy, str) else None
    return RunData(
        name=name or policy or trace.workload.name,
        n_cores=trace.platform.n_cores,
        job_id=text_array(trace.workload.job_ids),
        state=_STATES[records["state"]],
        submit_s=jobs["submit_s"].astype(float),
        start_s=start_s,
        end_s=end_s,
        cores=jobs["cores"].astype(np.int64),
        energy_j=np.where(records["energy_j"] >= 0, records["energy_j"], np.nan),
        blocks=_blocks_of_trace(trace),
        policy=policy,
        workload=trace.workload.name,
        platform=trace.platform.name,
        metrics=compute_metrics(trace),
        labels={label: jobs[label].astype(np.int64) for label in LABELS},
        trace=trace,
    )


def as_runs(runs: object) -> list[RunData]:
    """Return runs given in any of the forms that pictures take.

    ``runs``: a `RunData`, a Trace or the path of a folder, or several of them.
    """
    given = list(runs) if isinstance(runs, list | tuple) else [runs]
    result: list[RunData] = []
    for one in given:
        if isinstance(one, RunData):
            result.append(one)
        elif isinstance(one, str | Path):
            result += read_runs([one])
        elif isinstance(one, BatchTrace):
            result.append(run_of_trace(one))
        else:
            raise TypeError(f"{type(one).__name__} is not a run, expected a folder, a BatchTrace or a RunData")
    return result


def in_common(runs: Sequence[RunData]) -> str:
    """Return the common properties of all runs in a line: policy, workload and platform."""

    def common(values: set[str | None]) -> str | None:
        return next(iter(values)) if len(values) == 1 else None

    policy, workload, platform = (common({getattr(r, key) for r in runs}) for key in ("policy", "workload", "platform"))
    n_jobs, n_cores = {run.n_jobs for run in runs}, {run.n_cores for run in runs}
    parts = [
        policy,
        " of ".join(filter(None, [f"{n_jobs.pop():,} jobs" if len(n_jobs) == 1 else None, workload])) or None,
        f"{platform} ({n_cores.pop():,} cores)" if platform and len(n_cores) == 1 else platform,
    ]
    hidden = sum(run.n_hidden for run in runs)
    if hidden:
        parts.append(f"not shown: {hidden:,} jobs that never ended")
    return ", ".join(part for part in parts if part)


def _blocks_of_texts(texts: Sequence[str]) -> Blocks:
    """Return the blocks of interval sets such as ``"0-3 8"``; an empty text has none."""
    n_blocks = np.fromiter((text.count(" ") + 1 if text else 0 for text in texts), np.int64, len(texts))
    # "0-3 8" is read as the numbers 0, -3, 8: what has a sign is the end of the interval before it.
    numbers = np.fromstring(" ".join(filter(None, texts)).replace("-", " -"), dtype=np.float64, sep=" ")
    is_end = np.signbit(numbers)
    first = numbers[~is_end].astype(np.int64)
    last = first.copy()
    last[np.cumsum(~is_end)[is_end] - 1] = -numbers[is_end]
    return Blocks(np.repeat(np.arange(len(texts)), n_blocks), first, last - first + 1)


def _blocks_of_trace(trace: BatchTrace) -> Blocks:
    n_cores = trace.records["n_cores"].astype(np.int64)
    job = np.repeat(np.arange(len(n_cores)), n_cores)
    offset = np.arange(len(job)) - np.repeat(np.cumsum(n_cores) - n_cores, n_cores)
    cores = trace.allocated_cores[trace.records["first_core"].astype(np.int64)[job] + offset].astype(np.int64)
    begins = np.ones(len(job), dtype=bool)
    begins[1:] = (np.diff(cores) != 1) | (np.diff(job) != 0)
    where = np.flatnonzero(begins)
    return Blocks(job[where], cores[where], np.diff(np.append(where, len(job))))


def _facts(folder: Path) -> dict[str, Any]:
    """Return the facts that the folder holds about itself; files of other programs may hold none."""
    facts: dict[str, Any] = {}
    if (folder / "provenance.json").is_file():
        provenance = read_json(folder / "provenance.json")
        facts = {
            "policy": get_nested(provenance, "agent", "policy") or get_nested(provenance, "agent", "name"),
            "workload": get_nested(provenance, "workload", "name"),
            "platform": get_nested(provenance, "platform", "name"),
            "n_cores": get_nested(provenance, "platform", "n_cores"),
        }
    elif (folder / "options.json").is_file():  # HDeepRM's
        options = read_json(folder / "options.json")
        agent = get_nested(options, "pybatsim", "agent")
        facts = {
            "policy": get_nested(agent, "policy_pair") or get_nested(agent, "type"),
            "workload": _stem(get_nested(options, "workload_file_path")),
            "platform": _stem(get_nested(options, "platform_file_path")),
        }
    return {key: value for key, value in facts.items() if isinstance(value, str | int)}


def _stem(path: object) -> str | None:
    return Path(path).name.split(".")[0] if isinstance(path, str) else None


def _n_cores(folder: Path, facts: dict[str, Any], blocks: Blocks) -> int:
    used = int(np.max(blocks.first_core + blocks.n_cores, initial=1))
    known = facts.get("n_cores")
    if known is None and (folder / "out_schedule.csv").is_file():
        known = read_out_schedule(folder / "out_schedule.csv").get("nb_computing_machines")
    return max(used, int(known)) if isinstance(known, int | float) else used

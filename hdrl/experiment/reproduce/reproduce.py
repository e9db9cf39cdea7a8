"""Experiments again: run what an experiment says and compare the numbers with those that are claimed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.csvfiles import read_records
from hdrl.base.errors import OptionsError, UnknownName
from hdrl.base.files import read_json
from hdrl.distributed import run_tasks
from hdrl.experiment.compare.comparison import CompareProgress, Comparison, run_comparison
from hdrl.experiment.compare.files import RESULTS_FILE as POINTS_FILE
from hdrl.experiment.compare.summary import ALL
from hdrl.experiment.experiment import run_experiment
from hdrl.experiment.reproduce.claims import RATIO_OF, Claim, Difference, as_findings, differences, recorded
from hdrl.experiment.reproduce.recipe import INSTALLED_FOLDER, REFERENCE, Experiment, find_traces, trace_folders
from hdrl.experiment.reproduce.resulttable import (
    read_results,
    write_differences,
    write_reference,
    write_results,
)
from hdrl.experiment.run.folder import claim_folder
from hdrl.experiment.run.inputs import read_options, read_sweep
from hdrl.experiment.run.progress import Progress, quiet
from hdrl.experiment.run.results import versions
from hdrl.experiment.train.log import TRAINING_FILE
from hdrl.experiment.train.modeluse import Model
from hdrl.experiments import find_protocol
from hdrl.experiments.findings import Finding, Place, ReproduceProtocol
from hdrl.metrics.statistics import geometric_mean_ratio
from hdrl.options.file import OptionsFile
from hdrl.options.sweep import MODEL_FILE, Sweep
from hdrl.setting import Load, Machine, find_setting

IDENTITY_FILE = "reproduction.json"
RESULTS_FILE = "results.csv"
TRAININGS_FILE = "trainings.csv"
DIFFERENCES_FILE = "differences.csv"
METRICS_FILE = "metrics.json"


@dataclass(frozen=True, slots=True)
class Reproduced:
    """Result of an experiment."""

    folder: Path  # the folder with the runs, the results and the differences
    results: dict[Place, Finding]  # the findings by row and column
    claims: tuple[Claim, ...]
    differences: tuple[Difference, ...]

    @property
    def is_same(self) -> bool:
        """True if something is claimed, and all of it holds."""
        return bool(self.claims) and not self.differences


def reproduce(
    experiment: Experiment,
    *,
    out: str | Path,
    traces: Sequence[str | Path] = (),
    n_workers: int | None = None,
    message: Callable[[str], None] | None = None,
    trust: bool = False,
) -> Reproduced:
    """Run an experiment and say what differs from the results that are claimed.

    The folder holds the runs or the comparison, ``results.csv`` with the numbers, ``trainings.csv`` with those of
    single trainings, ``differences.csv`` and ``reproduction.json``, which says what was run. The same call continues
    what an earlier one left unfinished, and runs nothing again that is finished.

    The folder is new, empty, or of the same experiment. Traces that cannot be shipped are searched for in ``traces``,
    then in the folders of ``HDRL_TRACES`` and that of fetched logs. ``trust`` lets the Python files run that the
    experiment names.
    """
    found = find_traces(experiment, trace_folders(traces))
    out = Path(out)
    claims = experiment.claims()
    work = _Work(experiment, out, found, n_workers, message or quiet, trust)
    work.check()
    identity = {"experiment": experiment.name, "sha256": experiment.sha256(), "versions": versions()}
    claim_folder(out, IDENTITY_FILE, identity, "another experiment, or one of another version, expected a new folder")
    if (out / RESULTS_FILE).is_file():
        results = read_results(out / RESULTS_FILE, out / TRAININGS_FILE)
    else:
        results = as_findings(_KINDS[experiment.recipe.kind](work))
        write_results(out / RESULTS_FILE, out / TRAININGS_FILE, results)
    different = tuple(differences(claims, results))
    if claims:
        write_differences(out / DIFFERENCES_FILE, different)
    return Reproduced(out, results, tuple(claims), different)


def record(experiment: Experiment, found: Reproduced) -> Reproduced:
    """Write the reference of an experiment anew from what was found; return what is claimed then.

    Published numbers and tolerances of single values stay as they are; all else follows from the findings.
    """
    check_recording(experiment)
    recipe = experiment.recipe
    try:
        nulls = recipe.nulls(found.results)
    except ValueError as error:
        raise OptionsError(f"{experiment.name}: {error}") from None
    claims = recorded(found.results, found.claims, nulls, recipe.relative_tolerance)
    write_reference(experiment.folder / REFERENCE, claims, recipe.relative_tolerance)
    claims = experiment.claims()
    return Reproduced(found.folder, found.results, tuple(claims), tuple(differences(claims, found.results)))


def check_recording(experiment: Experiment) -> None:
    """Raise an error if the reference of an experiment must not be written."""
    if experiment.folder.resolve().is_relative_to(INSTALLED_FOLDER):
        raise OptionsError(
            f"{experiment.name}: comes with the installed hdrl; copy its folder {experiment.folder} and name the copy"
        )


@dataclass(frozen=True, slots=True)
class _Work:
    """An experiment that is being run, and where."""

    experiment: Experiment
    out: Path
    traces: Mapping[str, Path]
    n_workers: int | None
    message: Callable[[str], None]
    trust: bool

    def check(self) -> None:
        """Find mistakes in what the experiment names before anything is written."""
        recipe = self.experiment.recipe
        for file in recipe.options.values():
            self.options(file)
        if recipe.sweep is not None:
            self.sweep(recipe.sweep)
        if recipe.protocol is not None:
            _ = self.protocol()

    def protocol(self) -> ReproduceProtocol:
        """Return the protocol of the experiment."""
        find_setting(self.experiment.recipe.setting, trust=self.trust)  # a file of a user may add protocols
        return find_protocol(self.experiment.recipe.protocol or "")

    def options(self, file: str) -> OptionsFile:
        """Return options of the experiment, traces found."""
        options = read_options(self.experiment.folder / file, trust=self.trust)
        changes: dict[str, Any] = {}
        if (trace := self.traces.get(getattr(options, options.workload_key))) is not None:
            changes[options.workload_key] = str(trace.absolute())
        arguments = options.learning.arguments
        moved = {
            name: [self._workload(one) for one in arguments[name]]
            for name in arguments
            if self._are_traces(arguments[name])
        }
        if moved:
            changes["learning"] = options.learning.model_dump() | {"arguments": {**arguments, **moved}}
        return options.changed(**changes) if changes else options

    def _are_traces(self, value: Any) -> bool:
        return isinstance(value, list) and any(one in self.traces for one in value if isinstance(one, str))

    def sweep(self, file: str, candidates: Sequence[str] = ()) -> Sweep:
        """Return a sweep of the experiment, traces found, with more candidates."""
        path = self.experiment.folder / file
        data = read_json(path)
        changes: dict[str, Any] = {}
        if isinstance(data, Mapping) and isinstance(data.get("workloads"), list):
            # What is read from the file starts from its folder, what is changed here from the current one.
            changes["workloads"] = [self._workload(name) for name in data["workloads"]]
        if candidates and isinstance(data, Mapping):
            changes["candidates"] = [*data.get("candidates", []), *candidates]
        return read_sweep(path, changes=changes, trust=self.trust)

    def _workload(self, name: str) -> str:
        beside = self.experiment.folder / name
        if name in self.traces:
            return str(self.traces[name].absolute())
        return str(beside.absolute()) if beside.is_file() else name

    def run(self, options: OptionsFile, folder: Path) -> dict[str, float]:
        """Run an experiment, unless an earlier call finished it, and return its metrics."""
        if not _is_finished(folder):
            self.message(f"running {folder.relative_to(self.out)}")
            _run_or_resume(options, folder, Progress(message=self.message))
        metrics = read_json(folder / METRICS_FILE)
        return {name: math.nan if value is None else value for name, value in metrics.items()}

    def train(self, trainings: Sequence[_Training]) -> None:
        """Carry out those trainings that no earlier call finished, several at the same time."""
        left = [one for one in trainings if not _is_finished(one.folder)]
        if left:
            self.message(f"training {len(left)} models")

        def report(index: int, result: None) -> None:
            del result
            self.message(f"{left[index].folder.relative_to(self.out)} is trained")

        run_tasks(_train, left, n_workers=self.n_workers, on_result=report, describe=lambda one: one.folder.name)

    def compare(self, sweep: Sweep) -> Comparison:
        """Run a comparison, or continue it."""
        progress = CompareProgress(message=self.message)
        return run_comparison(sweep, out=self.out / "comparison", n_workers=self.n_workers, progress=progress)


@dataclass(frozen=True, slots=True)
class _Training:
    """One training, which has a process of its own."""

    options: OptionsFile
    folder: Path


def _train(one: _Training) -> None:
    _run_or_resume(one.options, one.folder, None)


@dataclass(frozen=True, slots=True)
class _Trained:
    """A model that a protocol plays; its file is read then."""

    path: Path
    setting: str
    row: str = ""

    @property
    def agent_state(self) -> Mapping[str, Any]:
        return self._model().agent_state

    @property
    def environment(self) -> Mapping[str, Any]:
        return self._model().environment

    def agent(self, envs: Any) -> Any:
        return self._model().agent(envs)

    def play(self, machine: Machine, load: Load, *, as_trained: bool = False) -> Any:
        return self._model().play(machine, load, as_trained=as_trained)

    def _model(self) -> Model:
        return Model(self.path, setting=find_setting(self.setting))


def _is_finished(folder: Path) -> bool:
    return (folder / METRICS_FILE).is_file()


def _run_or_resume(options: OptionsFile, folder: Path, progress: Progress | None) -> None:
    """Run an experiment, or continue what an interrupted call has left."""
    run_experiment(options, out=folder, progress=progress, resumes=folder.is_dir() and any(folder.iterdir()))


_Found = dict[Place, float | Finding]


def _run_options(work: _Work) -> _Found:
    recipe = work.experiment.recipe
    results: _Found = {}
    for row, file in recipe.options.items():
        metrics = work.run(work.options(file), work.out / row)
        results |= {(row, name): metrics.get(name, math.nan) for name in recipe.metrics}
    return results


def _run_sweep(work: _Work) -> _Found:
    recipe = work.experiment.recipe
    return _numbers_of(work.compare(work.sweep(recipe.sweep or "")), (), by_workload=recipe.by_workload)


def _run_protocol(work: _Work) -> _Found:
    work.message(f"running {work.experiment.recipe.protocol}")
    return dict(work.protocol()(work.traces, []))


def _run_training(work: _Work) -> _Found:
    """Train with every seed, then let the sweep or the protocol judge all models of a row as one candidate."""
    recipe = work.experiment.recipe
    for rows in recipe.generations():
        work.train([one for row in rows for one in _trainings(work, row)])
    folders = {row: [_folder(work, row, seed) for seed in recipe.seeds] for row in recipe.options}
    models = {row: [folder / MODEL_FILE for folder in of_row] for row, of_row in folders.items()}
    logged: _Found = {
        (row, name): one for row, of_row in folders.items() for name, one in _last_logged(of_row, recipe.logged).items()
    }
    if recipe.sweep is None:
        judged = {row: [_Trained(file, recipe.setting, row) for file in files] for row, files in models.items()}
        if recipe.judges == "all":
            whole = work.protocol()(work.traces, [model for of_row in judged.values() for model in of_row])
            return {**whole, **logged}
        found: _Found = {}
        for row, of_row in judged.items():
            numbers = work.protocol()(work.traces, of_row)
            found |= {(f"{row}, {position[0]}", position[1]): value for position, value in numbers.items()}
        return found | logged
    candidates = [f"{row}={(work.out / f'{row}_seed_*' / MODEL_FILE).absolute()}" for row in models]
    comparison = work.compare(work.sweep(recipe.sweep, candidates))
    return _numbers_of(comparison, list(models), by_workload=recipe.by_workload) | logged


def _last_logged(folders: Sequence[Path], names: Sequence[str]) -> dict[str, Finding]:
    """Return the last logged values of trainings, by column, as means over them; where nothing was logged, NaN."""
    if not names:
        return {}
    rows = [read_records(folder / TRAINING_FILE)[-1] for folder in folders]
    for name in names:
        if name not in rows[0]:
            raise UnknownName("column of training.csv", name, rows[0])
    values = {name: tuple(float(row[name] or "nan") for row in rows) for name in names}
    return {name: Finding(sum(those) / len(those), trainings=those) for name, those in values.items()}


def _trainings(work: _Work, row: str) -> list[_Training]:
    """Return a training for each seed; the models that they start from are there."""
    recipe = work.experiment.recipe
    options, parent = work.options(recipe.options[row]), recipe.starts_from.get(row)
    found = []
    for seed in recipe.seeds:
        mine = options.changed(seed=seed)
        if parent is not None:
            mine = mine.with_agent(input_model=str((_folder(work, parent, seed) / MODEL_FILE).absolute()))
        found.append(_Training(mine, _folder(work, row, seed)))
    return found


def _folder(work: _Work, row: str, seed: int) -> Path:
    return work.out / f"{row}_seed_{seed}"


_KINDS: Mapping[str, Callable[[_Work], _Found]] = {
    "options": _run_options,
    "sweep": _run_sweep,
    "protocol": _run_protocol,
    "training": _run_training,
}


def _numbers_of(comparison: Comparison, trained: Sequence[str], *, by_workload: bool) -> _Found:
    """Return mean and ratio of every row of a comparison, and how many jobs were left unrun.

    ``trained`` names the candidates that are several trainings of one kind.
    """
    results: _Found = {}
    of_trainings = _Trainings(comparison) if trained else None
    for row in comparison.rows:
        if row.metric in comparison.added or (row.workload != ALL and not by_workload):
            continue
        name = row.candidate if row.workload == ALL else f"{row.candidate} on {row.workload}"
        each = of_trainings if row.candidate in trained else None
        means, ratios = each.of(row.candidate, row.workload, row.metric) if each is not None else ((), ())
        results[name, row.metric] = Finding(row.mean, row.mean_low, row.mean_high, trainings=means)
        if not row.is_baseline:
            ratio = Finding(row.ratio, row.ratio_low, row.ratio_high, trainings=ratios, null=1.0)
            results[name, f"{RATIO_OF}{row.metric}"] = ratio
        results[name, "unrun jobs"] = float(row.n_unfinished)
    return results


class _Trainings:
    """Results of each training of a candidate in a comparison, from its points."""

    def __init__(self, comparison: Comparison) -> None:
        self._baseline = comparison.baseline
        self._points: dict[str, dict[tuple[str, str], list[Mapping[str, str]]]] = {}
        for point in read_records(comparison.folder / POINTS_FILE):
            of_candidate = self._points.setdefault(point["candidate"], {})
            of_candidate.setdefault((point["workload"], point["window"]), []).append(point)

    def of(self, candidate: str, workload: str, metric: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the mean and the ratio to the baseline of each training, both over windows."""
        ours, theirs = (self._table(name, workload, metric) for name in (candidate, self._baseline))
        means = tuple(float(one) for one in ours.mean(axis=0))
        return means, tuple(geometric_mean_ratio(one[:, np.newaxis], theirs) for one in ours.T)

    def _table(self, candidate: str, workload: str, metric: str) -> NDArray[np.float64]:
        windows = [points for (name, _), points in self._points[candidate].items() if workload in (ALL, name)]
        return np.array([[float(point[metric] or "nan") for point in points] for points in windows])

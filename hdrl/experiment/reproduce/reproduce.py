"""Experiments again: run what an experiment says and compare the numbers with those that are claimed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.csvfiles import atomic_table, read_records
from hdrl.distributed import run_tasks
from hdrl.errors import OutputError, UnknownName
from hdrl.experiment.compare.comparison import CompareProgress, Comparison, run_comparison
from hdrl.experiment.experiment import run_experiment
from hdrl.experiment.reproduce.recipe import REFERENCE, Experiment, find_traces, trace_folders
from hdrl.experiment.reproduce.resulttable import Difference, Place, differences, read_reference, write_results
from hdrl.experiment.run.inputs import read_options, read_sweep
from hdrl.experiment.run.progress import Progress, quiet
from hdrl.experiment.run.provenance import versions
from hdrl.experiment.train.log import TRAINING_FILE
from hdrl.files import read_json, write_json
from hdrl.options.file import OptionsFile
from hdrl.options.sweep import Sweep
from hdrl.setting import Load, Machine, ReproduceProtocol, find_setting

if TYPE_CHECKING:
    from hdrl.experiment.train.modeluse import Model

IDENTITY_FILE = "reproduction.json"
RESULTS_FILE = "results.csv"
DIFFERENCES_FILE = "differences.csv"
METRICS_FILE = "metrics.json"
MODEL_FILE = "model.pt"


@dataclass(frozen=True, slots=True)
class Reproduced:
    """What came of an experiment.

    Attributes
    ----------
    folder
        The folder with the runs, the results and the differences.
    results
        The numbers by row and column.
    differences
        Those that are not as claimed.
    n_claimed
        How many numbers are claimed.
    """

    folder: Path
    results: dict[Place, float]
    differences: tuple[Difference, ...]
    n_claimed: int

    @property
    def is_same(self) -> bool:
        """Whether something is claimed, and all of it holds."""
        return self.n_claimed > 0 and not self.differences


def reproduce(
    experiment: Experiment,
    *,
    out: str | Path,
    traces: Sequence[str | Path] = (),
    n_workers: int | None = None,
    message: Callable[[str], None] | None = None,
) -> Reproduced:
    """Run an experiment and say what differs from the results that are claimed.

    The folder holds the runs or the comparison, ``results.csv`` with the numbers in the form of a reference,
    ``differences.csv`` and ``reproduction.json``, which says what was run. The same call continues what an earlier
    one left unfinished.

    Parameters
    ----------
    experiment
        The experiment.
    out
        The folder: new, empty, or of the same experiment.
    traces
        Folders with traces that cannot be shipped; those of ``HDRL_TRACES`` and that of fetched logs come after.
    n_workers
        Processes for trainings and comparisons; by default one per core.
    message
        Gets a line of text at each new stage.

    Raises
    ------
    HdrlError
        If a trace is missing, a file is wrong, or the folder holds something else.
    """
    found = find_traces(experiment, trace_folders(traces))
    out = Path(out)
    work = _Work(experiment, out, found, n_workers, message or quiet)
    work.check()
    _claim(out, experiment)
    results = _KINDS[experiment.recipe.kind](work)
    write_results(out / RESULTS_FILE, results)
    reference_file = experiment.folder / REFERENCE
    if not reference_file.is_file():
        return Reproduced(out, results, (), n_claimed=0)
    reference = read_reference(reference_file, experiment.recipe.relative_tolerance)
    different = tuple(differences(reference, results))
    _write_differences(out / DIFFERENCES_FILE, different)
    return Reproduced(out, results, different, len(reference))


@dataclass(frozen=True, slots=True)
class _Work:
    """An experiment that is being run, and where."""

    experiment: Experiment
    out: Path
    traces: Mapping[str, Path]
    n_workers: int | None
    message: Callable[[str], None]

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
        recipe = self.experiment.recipe
        known, name = find_setting(recipe.setting).protocols, recipe.protocol or ""
        if name not in known:
            raise UnknownName("protocol", name, known)
        return known[name]

    def options(self, file: str) -> OptionsFile:
        """Return options of the experiment, traces found."""
        options = read_options(self.experiment.folder / file)
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
        return read_sweep(path, changes=changes)

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

        def tell(index: int, result: None) -> None:
            del result
            self.message(f"{left[index].folder.relative_to(self.out)} is trained")

        run_tasks(_train, left, n_workers=self.n_workers, on_result=tell, describe=lambda one: one.folder.name)

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
        from hdrl.experiment.train.modeluse import Model

        return Model(self.path, setting=find_setting(self.setting))


def _is_finished(folder: Path) -> bool:
    return (folder / METRICS_FILE).is_file()


def _run_or_resume(options: OptionsFile, folder: Path, progress: Progress | None) -> None:
    """Run an experiment, or continue what an interrupted call has left."""
    run_experiment(options, out=folder, progress=progress, resumes=folder.is_dir() and any(folder.iterdir()))


def _claim(out: Path, experiment: Experiment) -> None:
    """Make the folder this experiment's, or find that it is already."""
    identity = {"experiment": experiment.name, "sha256": experiment.sha256(), "versions": versions()}
    path = out / IDENTITY_FILE
    try:
        if path.is_file():
            if read_json(path) != identity:
                raise OutputError(f"{out}: holds another experiment, or one of another version, expected a new folder")
            return
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise OutputError(f"{out}: is not empty, expected a new folder (nothing is ever overwritten)")
    except OSError as error:
        raise OutputError(f"{out}: cannot be made ({error.strerror or error})") from None
    write_json(path, identity)


def _run_options(work: _Work) -> dict[Place, float]:
    recipe = work.experiment.recipe
    results: dict[Place, float] = {}
    for row, file in recipe.options.items():
        metrics = work.run(work.options(file), work.out / row)
        results |= {(row, name): metrics.get(name, math.nan) for name in recipe.metrics}
    return results


def _run_sweep(work: _Work) -> dict[Place, float]:
    return _numbers_of(work.compare(work.sweep(work.experiment.recipe.sweep or "")))


def _run_protocol(work: _Work) -> dict[Place, float]:
    work.message(f"running {work.experiment.recipe.protocol}")
    return work.protocol()(work.traces, [])


def _run_training(work: _Work) -> dict[Place, float]:
    """Train with every seed, then let the sweep or the protocol judge all models of a row as one candidate."""
    recipe = work.experiment.recipe
    for rows in recipe.generations():
        work.train([one for row in rows for one in _trainings(work, row)])
    folders = {row: [_folder(work, row, seed) for seed in recipe.seeds] for row in recipe.options}
    models = {row: [folder / MODEL_FILE for folder in of_row] for row, of_row in folders.items()}
    logged = {
        (row, name): mean
        for row, of_row in folders.items()
        for name, mean in _last_logged(of_row, recipe.logged).items()
    }
    if recipe.sweep is None:
        judged = {row: [_Trained(file, recipe.setting, row) for file in files] for row, files in models.items()}
        if recipe.judges == "all":
            whole = work.protocol()(work.traces, [model for of_row in judged.values() for model in of_row])
            return {**whole, **logged}
        found: dict[Place, float] = {}
        for row, of_row in judged.items():
            numbers = work.protocol()(work.traces, of_row)
            found |= {(f"{row}, {place[0]}", place[1]): value for place, value in numbers.items()}
        return found | logged
    candidates = [f"{row}={(work.out / f'{row}_seed_*' / MODEL_FILE).absolute()}" for row in models]
    return _numbers_of(work.compare(work.sweep(recipe.sweep, candidates))) | logged


def _last_logged(folders: Sequence[Path], names: Sequence[str]) -> dict[str, float]:
    """Return what trainings have logged last, by column, as means over them; where nothing was logged, NaN.

    Raises
    ------
    UnknownName
        If there is no such column.
    """
    if not names:
        return {}
    rows = [read_records(folder / TRAINING_FILE)[-1] for folder in folders]
    for name in names:
        if name not in rows[0]:
            raise UnknownName("column of training.csv", name, rows[0])
    return {name: sum(float(row[name] or "nan") for row in rows) / len(rows) for name in names}


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


_KINDS: Mapping[str, Callable[[_Work], dict[Place, float]]] = {
    "options": _run_options,
    "sweep": _run_sweep,
    "protocol": _run_protocol,
    "training": _run_training,
}


def _numbers_of(comparison: Comparison) -> dict[Place, float]:
    """Return mean and ratio of every row of a comparison, and how many jobs were left unrun."""
    results: dict[Place, float] = {}
    for row in comparison.rows:
        if row.metric in comparison.added:
            continue
        name = row.candidate if row.workload == "all" else f"{row.candidate} on {row.workload}"
        results[name, row.metric] = row.mean
        if not row.is_baseline:
            results[name, f"ratio of {row.metric}"] = row.ratio
        results[name, "unrun jobs"] = row.n_unfinished
    return results


def _write_differences(path: Path, found: Sequence[Difference]) -> None:
    with atomic_table(path, ("row", "column", "reference", "found", "tolerance")) as write_row:
        for one in found:
            write_row((one.row, one.column, _text(one.reference), _text(one.found), repr(one.tolerance)))


def _text(value: float | None) -> str:
    return "" if value is None else repr(float(value))

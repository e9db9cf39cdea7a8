"""Running an entry: the comparison of each task, and the card."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hdrl.base.errors import HdrlError, OptionsError, OutputError
from hdrl.base.files import write_json
from hdrl.base.hashing import sha256_of_file
from hdrl.bench.divisions import forbidden, knowledge, strictest, world_of
from hdrl.bench.results import (
    CARD_FILE,
    DIVISIONS,
    ENTRY_FOLDER,
    BenchResult,
    Card,
    Division,
    TrainingCost,
    candidate_text,
    kind_of,
    read_result,
)
from hdrl.bench.tasks import ALL, SMALL, Named, all_tasks
from hdrl.experiment.compare.candidates import Candidate, read_candidates
from hdrl.experiment.compare.comparison import CompareProgress, run_comparison
from hdrl.experiment.run.manifest import write_manifest
from hdrl.options.reading import validated
from hdrl.setting import BATCH
from hdrl.version import VERSION


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the benchmark.

    Attributes
    ----------
    text
        A policy, a Python file, a model or a pattern of models; ``NAME=`` before it names it.
    division
        The division; ``None``: the strictest that lets it in.
    training
        Cost of learning.
    setting
        The setting of a Python file.
    """

    text: str
    division: Division | None = None
    training: TrainingCost = field(default_factory=TrainingCost)
    setting: str = BATCH


def run_entry(
    entry: Entry,
    tasks: Sequence[Named],
    *,
    out: str | Path,
    chosen_by: str,
    n_workers: int | None = None,
    progress: CompareProgress | None = None,
) -> BenchResult:
    """Judge an entry on tasks, and write the folder of its result; the same call continues what was interrupted.

    Parameters
    ----------
    tasks
        The tasks; those of settings to which it does not belong are passed over.
    out
        The folder: new, empty, or of the same result.
    chosen_by
        Arguments that chose the tasks, for the command that reproduces the result.
    n_workers, progress
        As `run_comparison` takes them.

    Raises
    ------
    OutputError
        If the folder holds something else.
    HdrlError
        If no task fits, a log is missing, or the entry knows more than its division allows.
    """
    out, progress_of_run = Path(out), progress or CompareProgress()
    fitting = _fitting(entry, tasks, progress_of_run)
    candidate = fitting[0][1]
    division = _division(entry, fitting, progress_of_run)
    if out.is_dir() and any(out.iterdir()) and not (out / ENTRY_FOLDER).is_dir():
        raise OutputError(f"{out}: is not empty and holds no result of hdrl bench run; expected a new folder")
    files = _copied(candidate, out / ENTRY_FOLDER)
    data = {
        "name": candidate.name,
        "kind": kind_of(candidate),
        "setting": fitting[0][0].task.setting_name,
        "policy": candidate.policy or candidate.suffix,
        "files": files,
        "division": division,
        "tasks": {named.name: named.task.sha256() for named, _ in fitting},
        "training": entry.training.model_dump(mode="json"),
        "hdrl": VERSION,
        "command": "",
    }
    card = validated(Card, data, str(out))
    card = card.model_copy(update={"command": _command(card, chosen_by)})
    if (out / CARD_FILE).is_file():
        before = read_result(out)
        if before.card != card:
            raise OutputError(f"{out}: holds another result ({before.card.name}); expected a new folder")
    result = BenchResult(out, card)
    for number, (named, _) in enumerate(fitting, start=1):
        progress_of_run.message(f"{named.name} ({number} of {len(fitting)})")
        run_comparison(result.sweep(named), out=result.points(named.name), n_workers=n_workers, progress=progress)
    write_json(out / CARD_FILE, card.model_dump(mode="json"))
    write_manifest(out)
    return result


def _fitting(entry: Entry, tasks: Sequence[Named], progress_of_run: CompareProgress) -> list[tuple[Named, Candidate]]:
    """Return the tasks of settings that know the entry; if none does, say what the first of them says."""
    found: dict[str, Candidate] = {}
    why: dict[str, HdrlError] = {}
    for name in dict.fromkeys(named.task.setting_name for named in tasks):
        try:
            found[name] = _candidate(entry, name)
        except HdrlError as error:
            why[name] = error
    if not found:
        raise next(iter(why.values()), OptionsError("no task is named"))
    for name in why:
        progress_of_run.message(f"tasks of setting {name} are skipped: {entry.text} is not a policy of this setting")
    return [(named, found[named.task.setting_name]) for named in tasks if named.task.setting_name in found]


def _candidate(entry: Entry, setting: str) -> Candidate:
    """Return an entry as a setting reads it; a task without logs serves to ask."""
    probe = next(one for one in all_tasks().values() if one.task.setting_name == setting and one.is_small)
    sweep = probe.sweep([entry.text])
    candidates = read_candidates(sweep, probe.task.setting.policies)
    if len(candidates) != 1:
        raise OptionsError(
            f"{entry.text}: stands for {len(candidates)} candidates, expected one; trainings of one method are one "
            "candidate with a name: NAME='models/*.safetensors'"
        )
    candidate = candidates[0]
    if candidate.sha256 and not candidate.files:
        raise OptionsError(f"{entry.text}: reads a file of yours, which results do not hold; write a Python file")
    if candidate.is_file and setting != entry.setting:
        raise OptionsError(f"{entry.text}: is a file of setting {entry.setting}, but no named task has that setting")
    for seed in range(max(1, len(candidate.files))):
        candidate.decider(probe.task.setting, seed, sweep)
    return candidate


def _division(entry: Entry, fitting: Sequence[tuple[Named, Candidate]], progress_of_run: CompareProgress) -> Division:
    """Return the division, after a check that it lets the entry in on all tasks."""
    loosest, because = 0, ""
    for named, candidate in fitting:
        known = knowledge(world_of(named, named.sweep([entry.text])), runs_python=True)
        least = strictest(known)
        words = forbidden(known, entry.division or least)
        if words:
            raise OptionsError(f"{candidate.name} on task {named.name}: {words}")
        if DIVISIONS.index(least) > loosest:
            loosest = DIVISIONS.index(least)
            because = f", because of task {named.name}: it {forbidden(known, DIVISIONS[0])}"
    division = entry.division or DIVISIONS[loosest]
    progress_of_run.message(f"division: {division}" + ("" if entry.division else because))
    return division


def _copied(candidate: Candidate, folder: Path) -> list[str]:
    """Copy the files of an entry into its folder, and return their names."""
    paths = [Path(file) for file in candidate.files]
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        names = [f"{number:02}-{name}" for number, name in enumerate(names, start=1)]
    folder.mkdir(parents=True, exist_ok=True)
    for path, name, sha256 in zip(paths, names, candidate.sha256, strict=True):
        there = folder / name
        if there.is_file() and sha256_of_file(there) != sha256:
            raise OutputError(f"{there}: is another file than {path}; expected a new folder")
        if not there.is_file():
            shutil.copyfile(path, there)
    return names


def _command(card: Card, chosen_by: str) -> str:
    """Return the command that makes a result again, from within its folder."""
    tasks = chosen_by if chosen_by in (SMALL, ALL) else ",".join(card.tasks)
    words = ["hdrl", "bench", "run", candidate_text(card, Path()), "--tasks", tasks, "--division", card.division]
    if card.setting != BATCH and card.kind == "python":
        words += ["--setting", card.setting]
    if card.training.core_minutes:
        words += ["--core-minutes", f"{card.training.core_minutes:g}"]
    if card.training.words:
        words += ["--how", card.training.words]
    return " ".join(map(shlex.quote, [*words, "-o", "again"]))

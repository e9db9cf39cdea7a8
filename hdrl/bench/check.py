"""Checking a result: its hashes, what its entry knows, and windows that are simulated again to the last digit."""

from __future__ import annotations

import math
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from hdrl.base.csvfiles import read_records
from hdrl.base.errors import HdrlError, OptionsError, ReadError, UnknownName, readable
from hdrl.base.files import is_plain_file, read_json
from hdrl.base.textnumbers import float_of
from hdrl.bench.cell import RIGHTS, run_cell
from hdrl.bench.divisions import forbidden, world_of
from hdrl.bench.replay import known_of, replay
from hdrl.bench.results import CARD_FILE, ENTRY_FOLDER, WITHDRAWN_FILE, BenchResult, kind_of, read_result
from hdrl.bench.tasks import Named, read_task
from hdrl.experiment.compare.files import RESULTS_FILE
from hdrl.experiment.compare.pointstore import finished_identity
from hdrl.experiment.run.inputs import SWEEP_FILE
from hdrl.experiment.run.manifest import MANIFEST_FILE, changed_files, read_manifest
from hdrl.experiment.run.progress import quiet
from hdrl.version import VERSION

WINDOWS = 3
"""Number of windows of each task that are simulated again."""

MAX_FILES, MAX_BYTES = 5_000, 512 << 20
"""Largest number of files of a result, and its size: the whole benchmark with ten models takes a hundredth of it."""

MAX_TABLE_BYTES = 16 << 20
"""Size of each JSON file and table: what is read takes many times the memory."""

MOST_LISTED = 5
"""Findings of one kind that are listed; of the others only the number is given."""

Kind = Literal["hash", "card", "stale", "points", "knowledge", "budget", "replay", "unchecked"]


@dataclass(frozen=True, slots=True)
class Defect:
    """Defect of a result.

    Attributes
    ----------
    kind
        Kind of defect: ``stale`` was true once, ``unchecked`` could not be found out here.
    where
        The task or the file.
    text
        Found and expected values, a sentence.
    """

    kind: Kind
    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of a check.

    Attributes
    ----------
    name
        Name of the entry.
    findings
        Its defects; none of a valid result.
    notes
        Notes for readers of a valid result.
    n_replayed
        Number of repeated simulations.
    """

    name: str
    findings: tuple[Defect, ...]
    notes: tuple[str, ...]
    n_replayed: int

    @property
    def is_true(self) -> bool:
        """True if nothing is wrong."""
        return not self.findings


def check_result(
    folder: str | Path, *, n_windows: int | None = WINDOWS, trust: bool = False, message: Callable[[str], None] = quiet
) -> Checked:
    """Check a result. Nothing of it runs in this process, unless it is trusted.

    Parameters
    ----------
    n_windows
        Windows of each task that are simulated again, other ones in each check; ``None``: all.
    trust
        True if a Python file of the entry may run in this process instead of in one of its own.
    message
        Progress callback.

    Raises
    ------
    HdrlError
        If the folder holds no result, or a log is missing.
    """
    result = read_result(folder)
    notes: list[str] = []
    found = [*_of_files(result)]
    n_replayed = 0
    if not found:  # results that others have changed are not simulated again
        for name, sha256 in result.card.tasks.items():
            message(name)
            named = _of_task(result, name, sha256)
            if isinstance(named, Defect):
                found.append(named)
                continue
            task = _Task(result, named, trust=trust)
            found += task.findings(n_windows)
            notes += task.notes
            n_replayed += task.n_replayed
    if result.card.kind == "python":
        notes.append(
            "its policy is a Python file, which runs in the process that simulates it: read entry/"
            f"{result.card.files[0]} before you believe it"
        )
    if result.card.hdrl != VERSION:
        notes.append(f"made with hdrl {result.card.hdrl}, checked with {VERSION}")
    # Strangers choose names of files and metrics, and what their process says.
    shown = (
        replace(one, where=readable(one.where, 200), text=readable(one.text, 1000))
        for one in _first_of_each_kind(found)
    )
    return Checked(result.card.name, tuple(shown), tuple(dict.fromkeys(notes)), n_replayed)


def _first_of_each_kind(found: Iterable[Defect]) -> Iterator[Defect]:
    """Return the first findings of each kind and task or file, and how many more there are."""
    groups: dict[tuple[str, str], list[Defect]] = {}
    for one in found:
        groups.setdefault((one.kind, one.where), []).append(one)
    for those in groups.values():
        yield from those[:MOST_LISTED]
        if len(those) > MOST_LISTED:
            yield Defect(those[0].kind, those[0].where, f"and {len(those) - MOST_LISTED} more of the kind")


def _of_files(result: BenchResult) -> Iterator[Defect]:
    """Compare the files with the manifest, and the entry with what was judged."""
    folder = result.folder
    there = _names_of_files(folder)
    if isinstance(there, Defect):
        yield there
        return
    try:
        manifest, changed = read_manifest(folder), changed_files(folder)
    except ReadError as error:
        yield Defect("hash", MANIFEST_FILE, str(error))
        return
    yield from (Defect("hash", name, text) for name, text in changed.items())
    for name in sorted(there - set(manifest.files) - {MANIFEST_FILE, WITHDRAWN_FILE}):
        yield Defect("hash", name, "is not a file of the result: the manifest does not have it")
    needed = [CARD_FILE, *(f"{ENTRY_FOLDER}/{name}" for name in result.card.files)]
    needed += [f"tasks/{task}/{name}" for task in result.card.tasks for name in (RESULTS_FILE, SWEEP_FILE)]
    for name in needed:
        if manifest.files.get(name) is None:
            yield Defect("hash", name, "has no hash in the manifest")


def _names_of_files(folder: Path) -> set[str] | Defect:
    """Return the paths of all files in a folder, or what in it is no file, or too much."""
    found: set[str] = set()
    n_bytes = 0
    for path in folder.rglob("*"):
        name, status = path.relative_to(folder).as_posix(), path.lstat()
        if stat.S_ISDIR(status.st_mode):
            continue
        if not stat.S_ISREG(status.st_mode):
            what = "a link" if stat.S_ISLNK(status.st_mode) else "not a file"
            return Defect("hash", name, f"is {what}, expected files only")
        if path.suffix in (".json", ".csv") and not is_plain_file(path, MAX_TABLE_BYTES):
            most = f"{MAX_TABLE_BYTES >> 20} MiB"
            return Defect("hash", name, f"is compressed or too large, expected at most {most} as they are")
        found.add(name)
        n_bytes += status.st_size
        if len(found) > MAX_FILES or n_bytes > MAX_BYTES:
            return Defect("hash", name, f"is too much: expected {MAX_FILES:,} files, {MAX_BYTES >> 20} MiB at most")
    return found


def _of_task(result: BenchResult, name: str, sha256: str) -> Named | Defect:
    """Return the task of a result, or that it is another one now."""
    try:
        named = read_task(name)
    except UnknownName as error:
        return Defect("stale", name, str(error))
    if named.task.sha256() == sha256:
        return named
    return Defect("stale", name, f"the task is another one now (version {named.task.version}); {result.card.command}")


def _is_finite(text: str) -> bool:
    try:
        return math.isfinite(float_of(text))
    except ValueError:
        return False


class _Task:
    """The check of one task of a result."""

    def __init__(self, result: BenchResult, named: Named, *, trust: bool) -> None:
        self._result, self._named, self._trust = result, named, trust
        self._world = world_of(named, result.sweep(named))
        self._entry, self._baseline = self._world.candidate(), self._world.baseline()
        self.notes: list[str] = []
        self.n_replayed = 0

    def findings(self, n_windows: int | None) -> Iterator[Defect]:
        """Yield the defects of the result in the task."""
        name, card = self._named.name, self._result.card
        limit = self._named.task.budget_core_minutes
        if card.training.core_minutes > limit:
            yield Defect(
                "budget", name, f"took {card.training.core_minutes:g} core-minutes to train, at most {limit:g} count"
            )
        wrong = self._wrong_sweep() or self._wrong_entry()
        if wrong:
            yield Defect("points", name, wrong)
            return
        try:
            rows = self._rows()
        except (ReadError, OptionsError) as error:
            yield Defect("points", name, str(error))
            return
        windows = self._drawn(n_windows)
        try:
            found = self._replayed(windows)
        except HdrlError as error:
            yield Defect("unchecked", name, str(error))
            return
        words = forbidden(known_of(found), card.division)
        if words:
            yield Defect("knowledge", name, f"{card.name} {words}")
        for row in found["rows"]:
            self.n_replayed += 1
            yield from self._compared(row, rows)
        if found["problem"]:
            yield Defect("unchecked", name, f"its simulations could not be repeated: {found['problem']}")

    def _wrong_sweep(self) -> str:
        """Describe how the comparison differs from the task's; empty if it does not."""
        expected = self._world.plan.request.portable()
        found = read_json(self._result.points(self._named.name) / SWEEP_FILE)
        if not isinstance(found, Mapping):
            return f"{SWEEP_FILE} holds no sweep"
        for key in sorted({*expected, *found}):
            if found.get(key) != expected.get(key):
                return f"{SWEEP_FILE} has {key} {found.get(key)!r}, the task says {expected.get(key)!r}"
        return ""

    def _wrong_entry(self) -> str:
        """Describe the judged entry if it is not the one of the result; empty if it is."""
        if words := self._not_of_the_card():
            return words
        identity = finished_identity(self._result.points(self._named.name)) or {}
        judged = identity.get("candidates")
        found = judged.get(self._entry.name) if isinstance(judged, Mapping) else None
        expected = self._entry.identity()
        if found == expected:
            return ""
        claimed_row = found.get("sha256") if isinstance(found, Mapping) else None
        return f"another entry was judged: the points are of {claimed_row or found}, entry/ holds {expected['sha256']}"

    def _not_of_the_card(self) -> str:
        """Describe a file that would decide and that the card does not name; empty if none."""
        card, folder = self._result.card, self._result.folder.absolute() / ENTRY_FOLDER
        kind = kind_of(self._entry)
        if kind != card.kind:
            return f"the card says that its entry is of kind {card.kind}; what it names is of kind {kind}"
        mine = {str(folder / name) for name in card.files}
        others = sorted({*self._entry.files} ^ mine)
        if others or (kind == "policy" and self._entry.sha256):
            return f"the card names other files than those that decide: {', '.join(others) or card.policy}"
        return ""

    def _rows(self) -> dict[tuple[str, int, int], Mapping[str, Any]]:
        """Return the table by candidate, window and seed, after a check that it is whole."""
        path = self._result.points(self._named.name) / RESULTS_FILE
        cases = {(case.workload, str(case.window)): number for number, case in enumerate(self._world.cases)}
        found: dict[tuple[str, int, int], Mapping[str, Any]] = {}
        for row in read_records(path):
            try:
                key = (
                    row["candidate"],
                    cases[row["workload"], row["window"]],
                    int(row["seed"]) - self._world.plan.request.seed,
                )
            except (KeyError, ValueError, TypeError):
                raise ReadError(path, "is not a table of this task") from None
            if key in found:
                raise ReadError(path, f"has window {row['window']} of {row['workload']} twice")
            for metric in (self._named.task.objective, self._named.task.tail):
                if not row["problem"] and row.get(metric) and not _is_finite(row[metric]):
                    raise ReadError(path, f"has {metric} {row[metric]!r}, expected a finite number")
            found[key] = row
        candidates = {one.name: one for one in (self._baseline, self._entry)}
        wanted = {
            (name, window, seed)
            for name, one in candidates.items()
            for window in range(len(cases))
            for seed in range(one.n_seeds)
        }
        if wanted != set(found):
            raise ReadError(path, f"has {len(found)} points, expected the {len(wanted)} of {' and '.join(candidates)}")
        return found

    def _drawn(self, n_windows: int | None) -> list[int]:
        """Return the windows to simulate again: drawn anew, so that no author can edit those that are not drawn."""
        n_cases = len(self._world.cases)
        if n_windows is None or n_windows >= n_cases:
            return list(range(n_cases))
        return sorted(secrets.SystemRandom().sample(range(n_cases), n_windows))

    def _replayed(self, windows: Sequence[int]) -> dict[str, Any]:
        """Return the windows again, in a process of its own if a stranger's Python decides."""
        if not self._entry.is_file or self._trust:
            return replay(self._result, self._named, windows, runs_python=True)
        where = str(self._result.folder.absolute())
        found = run_cell({"folder": where, "task": self._named.name, "windows": list(windows)})
        for right, words in RIGHTS.items():
            if found[right]:
                self.notes.append(f"this system cannot take {words} from a process: {self._entry.files[0]} ran with it")
        # What does not depend on the stranger is not taken from its process.
        mine = replay(self._result, self._named, windows, runs_python=False)
        theirs = [row for row in found["rows"] if row["candidate"] == self._entry.name and row["window"] in windows]
        n_expected = len(windows) * self._entry.n_seeds
        if not found["problem"] and len(theirs) != n_expected:
            found["problem"] = f"answered for {len(theirs)} of {n_expected} simulations"
        return {**found, "rows": [*mine["rows"], *theirs]}

    def _compared(
        self, row: Mapping[str, Any], rows: Mapping[tuple[str, int, int], Mapping[str, Any]]
    ) -> Iterator[Defect]:
        claimed_row = rows.get((row["candidate"], row["window"], row["seed"]))
        case = self._world.cases[row["window"]]
        where = f"window {case.window} of {case.workload} under {row['candidate']}"
        if claimed_row is None:
            yield Defect("replay", self._named.name, f"{where} is not in the table")
            return
        if (claimed_row.get("problem") or "") != row["problem"]:
            yield Defect(
                "replay",
                self._named.name,
                f"{where}: problem is {claimed_row.get('problem')!r}, found {row['problem']!r}",
            )
            return
        for metric, value in row["metrics"].items():
            number = math.nan if value is None else float(value)
            try:
                claimed = float_of(claimed_row[metric]) if claimed_row[metric] else math.nan
            except (KeyError, ValueError, TypeError):
                claimed = None
            same = claimed is not None and (claimed == number or (math.isnan(claimed) and math.isnan(number)))
            if not same:
                yield Defect(
                    "replay",
                    self._named.name,
                    f"{where}: {metric} is {claimed_row.get(metric)}, simulated again {number!r}",
                )
                return

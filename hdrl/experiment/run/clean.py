"""Deleting results, and nothing else.

A folder of results is known by its manifest. Of what is in it, only regular files go that the manifest lists and that
are as they were written; links, folders, files of others and files that were changed since stay.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hdrl.base.errors import OptionsError, OutputError, ReadError
from hdrl.base.hashing import sha256_of_file
from hdrl.experiment.locks import held_by_another, is_held
from hdrl.experiment.run.manifest import EVENTS_FOLDER, MANIFEST_FILE, read_manifest

_REPEATS = "needed to repeat it"

SOFT_KEEPS = {
    **dict.fromkeys([MANIFEST_FILE, "provenance.json", "options.resolved.json", "sweep.json", "resume.json"], _REPEATS),
    **dict.fromkeys(["platform.xml", "workload.json"], _REPEATS),
    "model.pt": "takes a training to make again",
}
"""Files that a soft clean keeps, and why: all that is needed to make the rest again, and what took long."""


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """Plan for cleaning a run folder."""

    folder: Path
    files: tuple[str, ...]  # names of the files that go, in the order in which they go
    kept: dict[str, str]  # names of what stays, with the reason
    experiment: Path | None = None  # the folder that holds this run and others, if that is what is to be cleaned

    @property
    def removes_folder(self) -> bool:
        """True if nothing is left, so that the folder goes too."""
        return not self.kept


def clean_plans(folders: Sequence[str | Path], *, soft: bool = False) -> list[CleanPlan]:
    """Return the plan of cleaning each run; nothing is deleted.

    Refuse folders that are no runs of hdrl, links, the current folder or one above it, and folders in which a training
    runs. With ``soft``, options and provenance stay, so that the run can be repeated.
    """
    plans = []
    for folder in folders:
        for path in _runs(Path(folder)):
            if path.resolve() in _protected_folders():
                what = "the current folder, the home folder or one above them"
                raise OptionsError(f"{path}: is {what}; go elsewhere first")
            if is_held(path):
                raise held_by_another(path)
            plan = _plan(path, soft=soft)
            plans.append(replace(plan, experiment=Path(folder)) if path != Path(folder) else plan)
    return plans


def clean_runs(plans: Sequence[CleanPlan]) -> None:
    """Delete the files of plans, and folders that are empty then."""
    for plan in plans:
        try:
            with _opened(plan.folder) as handle:
                for name in plan.files:
                    _unlink(name, handle)
            if plan.removes_folder:
                _remove_empty(plan)
        except FileNotFoundError as error:
            raise OutputError(f"{plan.folder}: changed meanwhile ({error.filename} is gone)") from None
        except OSError as error:
            raise OutputError(f"{plan.folder}: cannot be cleaned ({error.strerror or error})") from None


def _unlink(name: str, handle: int) -> None:
    """Delete a regular file of an open folder; what has become something else stays."""
    below, _, own = name.rpartition("/")
    if below:
        with _opened(below, handle) as inner:
            _unlink(own, inner)
        with contextlib.suppress(OSError):  # the last file takes its folder along
            os.rmdir(below, dir_fd=handle)
    elif stat.S_ISREG(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=handle)


def _remove_empty(plan: CleanPlan) -> None:
    """Remove the folder of a run, and that of the experiment if this was its last run."""
    # What came into it meanwhile is not ours: rmdir refuses then, and it stays.
    with contextlib.suppress(OSError):
        plan.folder.rmdir()
        if plan.experiment is not None and plan.experiment.resolve() not in _protected_folders():
            plan.experiment.rmdir()


def _runs(folder: Path) -> list[Path]:
    """Return the folder itself, or the runs that it is made of."""
    if not folder.is_dir():
        raise ReadError(folder, "is a file, expected the folder of a run" if folder.exists() else "no such folder")
    if folder.is_symlink():
        raise OptionsError(f"{folder}: is a link, expected the folder itself")
    if os.path.lexists(folder / MANIFEST_FILE):
        return [folder]
    inside = sorted(folder.iterdir(), key=lambda path: (len(path.name), path.name))
    runs = [path for path in inside if re.fullmatch(r"run_\d+", path.name)]
    if not runs or len(runs) < len(inside):
        raise ReadError(folder, f"is not a folder of results of hdrl: it has no {MANIFEST_FILE}")
    for path in runs:
        if path.is_symlink() or not path.is_dir():
            raise OptionsError(f"{path}: is not a folder, expected a run")
    return runs


def _protected_folders() -> set[Path]:
    here = Path.cwd().resolve()
    return {here, *here.parents, Path.home().resolve(), *Path.home().resolve().parents}


@contextlib.contextmanager
def _opened(folder: str | Path, above: int | None = None) -> Iterator[int]:
    """Open a folder, so that what is done in it is done there whatever happens to its path."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        yield handle
    finally:
        os.close(handle)


def _plan(folder: Path, *, soft: bool) -> CleanPlan:
    recorded = read_manifest(folder).files
    files, kept = [], {}
    for path in sorted(folder.iterdir()):
        if path.name == EVENTS_FOLDER and _holds_only_events(path, recorded):
            files += [f"{EVENTS_FOLDER}/{inside.name}" for inside in sorted(path.iterdir())]
            continue
        reason = _reason_to_keep(path, recorded, soft=soft)
        if reason:
            kept[path.name] = reason
        else:
            files.append(path.name)
    # The mark of a folder of results goes last: what is interrupted can be done again.
    files.sort(key=lambda name: (name == MANIFEST_FILE, name))
    return CleanPlan(folder, tuple(files), kept)


def _reason_to_keep(path: Path, recorded: Mapping[str, str | None], *, soft: bool) -> str:
    """Return the reason to keep a file; nothing if it goes."""
    name = path.name
    if name not in recorded and name != MANIFEST_FILE:
        return "not made by hdrl"
    if not stat.S_ISREG(path.lstat().st_mode):
        return "no regular file"
    if soft and name in SOFT_KEEPS:
        return SOFT_KEEPS[name]
    expected = recorded.get(name)
    if expected is not None and sha256_of_file(path) != expected:
        return "changed since it was made"
    return ""


def _holds_only_events(path: Path, recorded: Mapping[str, str | None]) -> bool:
    """Return whether a folder holds TensorBoard's events and nothing else."""
    if path.is_symlink() or not path.is_dir():
        return False
    inside = list(path.iterdir())
    return bool(inside) and all(
        f"{EVENTS_FOLDER}/{one.name}" in recorded and stat.S_ISREG(one.lstat().st_mode) for one in inside
    )

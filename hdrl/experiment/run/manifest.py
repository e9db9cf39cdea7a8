"""Contents of a folder of results: ``manifest.json`` lists every file that hdrl wrote there, with its hash.

So no other part needs to know which files there are, whatever the setting: deleting results, for instance, uses it.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from hdrl.base.errors import ReadError
from hdrl.base.files import read_json, write_json
from hdrl.base.hashing import sha256_of_file
from hdrl.options.reading import checked
from hdrl.version import VERSION

MANIFEST_FILE = "manifest.json"

EVENTS_FOLDER = "tensorboard"
"""The only folder within one of results."""

CLOCKED = ("timing.json", "batsim.log", "resume.json", "insights.log")
"""Files that tell how long something took, or where files are, or in which pieces a run was made: their hashes
would differ from run to run."""


class Manifest(BaseModel):
    """Contents of ``manifest.json``."""

    model_config = ConfigDict(strict=True, extra="forbid", defer_build=True)

    hdrl: str  # version that wrote the folder
    # SHA-256 of each file by its path in the folder; ``None`` for files that differ from run to run, and while files
    # still change
    files: dict[str, str | None]


def write_manifest(folder: Path, names: Collection[str] | None = None, *, is_final: bool = True) -> None:
    """Write down which files of a folder are ours.

    ``names`` are our files, if there may be others. Without ``is_final``, files still change and have no hashes.
    """
    files: dict[str, str | None] = {}
    for path in _files_in(folder):
        name, top = path.relative_to(folder).as_posix(), path.relative_to(folder).parts[0]
        if name == MANIFEST_FILE or (names is not None and top not in names and top != EVENTS_FOLDER):
            continue
        has_hash = is_final and name not in CLOCKED and top != EVENTS_FOLDER
        files[name] = sha256_of_file(path) if has_hash else None
    write_json(folder / MANIFEST_FILE, {"hdrl": VERSION, "files": files})


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder of results."""
    path = folder / MANIFEST_FILE
    if path.is_symlink() or not path.is_file():
        raise ReadError(folder, f"is not a folder of results of hdrl: it has no {MANIFEST_FILE}")
    return checked(Manifest, read_json(path), path, message="is not a manifest of results ({})")


def changed_files(folder: Path) -> dict[str, str]:
    """Return the files of a folder of results that are not as hdrl wrote them, with what is wrong with each."""
    there = {path.relative_to(folder).as_posix() for path in _files_in(folder)}
    changed = {}
    for name, sha256 in read_manifest(folder).files.items():
        if name not in there:
            changed[name] = "is missing, the manifest has it"
        elif sha256 is not None and (found := sha256_of_file(folder / name)) != sha256:
            changed[name] = f"was changed: its SHA-256 is {found}, the manifest says {sha256}"
    return changed


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())

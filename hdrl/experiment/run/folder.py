"""Run folders: they appear whole or not at all, and never replace anything."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from hdrl.base.errors import OutputError
from hdrl.base.files import output_errors, read_json, write_json
from hdrl.experiment.locks import try_lock
from hdrl.experiment.run.manifest import write_manifest

_DATED = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")
"""The name of a run folder by default: `default_folder`."""

_ANY_DATED = ".[0-9]*-[0-9]*-*.????????"


def check_free(folder: Path) -> None:
    """Check that a folder does not exist, or is empty."""
    with output_errors(folder):
        if folder.is_dir():
            if any(folder.iterdir()):
                goes_on = "; --resume continues the training in it" if (folder / "resume.json").is_file() else ""
                raise OutputError(
                    f"{folder}: is not empty, expected a new folder (nothing is ever overwritten){goes_on}"
                )
        elif folder.exists():
            raise OutputError(f"{folder}: is a file, expected a new folder")


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Fill a folder under a temporary name next to it; rename it when all went well, its manifest included."""
    check_free(folder)
    made: list[Path] = []
    handle = -1
    try:
        with output_errors(folder, "made"):
            folder.parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(folder)
            temporary, handle = _locked_folder(folder, made)
        yield temporary
        check_free(folder)
        write_manifest(temporary)
        _publish(temporary, folder)
    except OutputError as error:  # the temporary folder is gone when users read this
        raise OutputError(str(error).replace(str(made[0]), str(folder)) if made else str(error)) from None
    finally:
        for left in made:  # the published one has another name
            shutil.rmtree(left, ignore_errors=True)
        if handle >= 0:
            os.close(handle)


def claim_folder(folder: Path, file: str, identity: Mapping[str, Any], other: str) -> None:
    """Make a folder whose file identifies its results, or check that it is that of the same ones.

    ``other`` is what it holds if the identity differs, for the message: ``"another tuning"``.
    """
    path = folder / file
    with output_errors(folder, "made"):
        is_claimed = path.is_file()
        if not is_claimed:
            check_free(folder)
            folder.mkdir(parents=True, exist_ok=True)
    if not is_claimed:
        write_json(path, identity)
    elif read_json(path) != identity:
        raise OutputError(f"{folder}: holds {other}")


def default_folder(options_sha256: str, now: datetime) -> Path:
    """Return the name of a run folder: ``runs/<time>-<hash>``."""
    return Path("runs") / f"{now:%Y%m%d-%H%M%S}-{options_sha256[:8]}"


def folders_of(options_sha256: str) -> list[Path]:
    """Return the folders that equal options have by default, the newest first."""
    return sorted(Path("runs").glob(f"*-{options_sha256[:8]}"), reverse=True)


def _locked_folder(folder: Path, made: list[Path]) -> tuple[Path, int]:
    """Make a hidden folder next to another; return it with what holds its lock, where the file system has locks.

    Until it is locked, a run that begins meanwhile takes it for one that was left, and removes it: then one more is
    made. All are added to ``made`` before they are there, since a signal that comes while a folder is made is handled
    before its name is returned.
    """
    while True:
        temporary = folder.parent / f".{folder.name}.{os.urandom(4).hex()}"
        if temporary.exists():
            continue
        made.append(temporary)
        temporary.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(temporary, os.O_RDONLY)
            if try_lock(handle) is not False and temporary.exists():
                return temporary, handle
            os.close(handle)


def _remove_abandoned(folder: Path) -> None:
    """Remove the remains of killed runs into the same folder; runs that go on hold a lock.

    Runs into folders with default names never run into the same folder again, so each removes what any of them left.
    """
    is_dated = _DATED.fullmatch(folder.name) is not None
    for left in folder.parent.glob(_ANY_DATED if is_dated else f".{glob.escape(folder.name)}.????????"):
        is_own_file = not is_dated or _DATED.fullmatch(left.name[1:].rpartition(".")[0]) is not None
        if is_own_file and left.is_dir() and not left.is_symlink():
            with contextlib.suppress(OSError):  # another run has it, or has just removed it
                handle = os.open(left, os.O_RDONLY)
                if try_lock(handle):
                    shutil.rmtree(left, ignore_errors=True)
                os.close(handle)


def _publish(temporary: Path, folder: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    with output_errors(folder, "made"):
        temporary.chmod(0o777 & ~umask)
        temporary.rename(folder)

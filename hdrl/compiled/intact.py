"""Checksums of compiled code on disk: damaged machine code aborts the process when it runs.

Numba keeps no checksums, so a folder of compiled code holds a file of them. What does not match is removed before Numba
looks for it; it is compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from hdrl.base.errors import OutputError
from hdrl.base.files import read_own, write_json

SUMS = "checksums.json"

BARE_SUFFIX = ".code"
"""Of files with code that is loaded without Numba (`hdrl.compiled.bare`)."""

_LOCK_SUFFIX = ".lock"


def _files_in(folder: Path) -> list[Path]:
    """Return the files of compiled code in a folder, wherever Numba puts them below it: indices, data, bare code."""
    return sorted(path for suffix in (".nbi", ".nbc", BARE_SUFFIX) for path in folder.rglob(f"*{suffix}"))


def _sums_in(folder: Path) -> dict[str, str]:
    try:
        sums = json.loads(read_own(folder / SUMS))
    except (OSError, ValueError):
        return {}
    return sums if isinstance(sums, dict) else {}


def _sum_of(path: Path) -> str:
    try:
        return hashlib.sha256(read_own(path)).hexdigest()
    except OSError:  # removed by another process, a folder, a link, or a file of another user
        return ""


def _function_of(path: Path) -> str:
    """Return the common part of the names of a function's index and data: ``entries.run-21.py311``."""
    name = path.name.removesuffix(path.suffix)
    return name.rpartition(".")[0] if path.suffix == ".nbc" else name


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Let one process at a time write compiled code to a folder, and note the checksums of what is there afterwards.

    Raises
    ------
    OSError
        If code cannot be written; not in a folder that this user may not change anyway.
    """
    with _locked(folder):
        try:
            yield
        except OSError:
            if os.access(folder, os.W_OK):
                raise
            return  # a shared folder that only root may change
        for path in _files_in(folder):
            _deny_others(path)
        with contextlib.suppress(OutputError):  # without checksums, the code is compiled again
            sums = {str(path.relative_to(folder)): _sum_of(path) for path in _files_in(folder)}
            write_json(folder / SUMS, sums)
            _deny_others(folder / SUMS)


def _deny_others(path: Path) -> None:
    """Deny other users write access to a file, whatever the user's mask allows: they could change code otherwise."""
    with contextlib.suppress(OSError):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode) and mode & 0o022:
            path.chmod(stat.S_IMODE(mode) & ~0o022)


@contextlib.contextmanager
def compiling_alone(path: Path) -> Iterator[None]:
    """Let one process at a time compile the code of a file; the others wait, and find the file afterwards.

    Workers of a comparison need the same code at the same time: each would compile it, for half a minute on a core.
    """
    lock = path.with_suffix(_LOCK_SUFFIX)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a shared folder that only root may change
            stack.enter_context(_locked(lock, os.O_RDWR | os.O_CREAT))
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                lock.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: Path, flags: int = os.O_RDONLY) -> Iterator[None]:
    """Wait until no other process holds the lock; where nothing can be locked, the code may be compiled once more."""
    try:
        import fcntl
    except ModuleNotFoundError:
        yield
        return
    descriptor = os.open(path, flags, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a copy of this process may have the descriptor, too
        os.close(descriptor)


def damaged_in(folder: Path) -> set[str]:
    """Return the functions whose compiled code is not as it was written, or not written by this user or root."""
    sums = _sums_in(folder)
    files = {str(path.relative_to(folder)): path for path in _files_in(folder)}
    names = files.keys() | sums.keys()
    return {_function_of(Path(name)) for name in names if _is_damaged(files.get(name), sums.get(name))}


def remove_damaged(folder: Path) -> bool:
    """Remove compiled code that is not as it was written; return whether there was any."""
    damaged = damaged_in(folder)
    if damaged:
        if (folder / SUMS).is_dir():
            _remove(folder / SUMS)
        with writing(folder):
            for path in _files_in(folder):
                if _function_of(path) in damaged:
                    _remove(path)
    return bool(damaged)


def _is_damaged(path: Path | None, expected: object) -> bool:
    return path is None or _sum_of(path) != expected


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)

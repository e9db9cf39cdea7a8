"""Locks on files and folders, so that two processes do not work on the same results; they leave nothing behind."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from hdrl.base.errors import OutputError

_PROBED_S = 0.2
"""Longest time that a look at a lock (`is_held`) may hold it, in seconds: `lock` tries again after that."""


def try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool | None:
    """Lock an open file or folder until it is closed.

    Return ``False`` if another process holds it, ``None`` in a file system without locks.
    """
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def lock(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed; return whether no other process holds it."""
    if try_lock(descriptor) is not False:
        return True
    time.sleep(_PROBED_S)
    return try_lock(descriptor) is not False


def is_held(path: Path) -> bool | None:
    """Return whether some process holds the lock on a file or folder; ``None`` where that cannot be known."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        is_free = try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)
    return None if is_free is None else not is_free


def held_by_another(folder: Path) -> OutputError:
    """Return the error for a folder in which another process trains."""
    return OutputError(f"{folder}: another process trains in this folder; wait for it, or stop it")


class FolderLock:
    """A lock on the folder of a training, so that two processes do not resume it at once.

    It leaves no file and ends with the process at the latest.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = -1

    def take(self) -> None:
        """Take the lock, if it is not held already."""
        if self._descriptor >= 0:
            return
        try:
            descriptor = os.open(self._folder, os.O_RDONLY)
        except PermissionError:  # a system that opens no folders, and has no such locks
            return
        if not lock(descriptor):
            os.close(descriptor)
            raise held_by_another(self._folder)
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back, if it is held."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

"""A lock on the folder of a training, so that two processes do not go on with it at once."""

from __future__ import annotations

import os
from pathlib import Path

from hdrl.errors import OutputError


class FolderLock:
    """A lock on a folder, which leaves no file and ends with the process at the latest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = -1

    def take(self) -> None:
        """Take the lock, if it is not held already.

        Raises
        ------
        OutputError
            If somebody else has it.
        """
        if self._descriptor >= 0:
            return
        try:
            import fcntl
        except ModuleNotFoundError:  # a system without such locks
            return
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise OutputError(
                f"{self._folder}: another process trains in this folder; wait for it, or stop it"
            ) from None
        except OSError:  # a file system without locks
            os.close(descriptor)
            return
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back, if it is held."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

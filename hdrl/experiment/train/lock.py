"""A lock on the folder of a training, so that two processes do not resume it at once."""

from __future__ import annotations

import os
from pathlib import Path

from hdrl.errors import OutputError
from hdrl.experiment.locks import lock


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
            descriptor = os.open(self._folder, os.O_RDONLY)
        except PermissionError:  # a system that opens no folders, and has no such locks
            return
        if not lock(descriptor):
            os.close(descriptor)
            raise OutputError(f"{self._folder}: another process trains in this folder; wait for it, or stop it")
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back, if it is held."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

"""Locks on files and folders, so that two processes do not work on the same results; they leave nothing behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

_PROBED_S = 0.2
"""How long who only looks whether a lock is held (`is_held`) may take; it is tried again then."""


def lock(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed; tell whether nobody else holds it.

    Where there are no locks, nobody does.

    Parameters
    ----------
    descriptor
        Its number.
    """
    try:
        import fcntl
    except ModuleNotFoundError:  # a system without such locks
        return True
    for is_last in (False, True):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if is_last:
                return False
            time.sleep(_PROBED_S)
        except OSError:  # a file system without locks
            return True
        else:
            return True
    return False


def is_held(path: Path) -> bool | None:
    """Tell whether some process holds the lock on a file or folder; ``None`` where that cannot be known.

    Parameters
    ----------
    path
        The file or folder.
    """
    try:
        import fcntl

        descriptor = os.open(path, os.O_RDONLY)
    except (ModuleNotFoundError, OSError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return None
    else:
        return False
    finally:
        os.close(descriptor)

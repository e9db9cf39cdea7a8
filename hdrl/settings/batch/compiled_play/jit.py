"""Compilation of the entry, with a cache that depends on its own sources and those of the packages that it uses."""

from __future__ import annotations

from pathlib import Path

from hdrl.compiled.cache import cache_folder
from hdrl.compiled.jit import entry_in

_HERE = Path(__file__).parent
_BATCH = _HERE.parent

_TAKEN = ("identical_cores", "kernel", "platform/pstates.py", "workload/history.py")

CACHE_FOLDER = cache_folder("hdrl-picking", [_HERE, *(_BATCH / name for name in _TAKEN)])

entry = entry_in(CACHE_FOLDER)
"""Compile a function of a play's positions that Python calls; the result is cached on disk."""

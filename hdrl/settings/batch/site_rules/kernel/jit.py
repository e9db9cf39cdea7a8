"""Compilation of the entries, with a cache that depends on all sources that they use."""

from __future__ import annotations

from pathlib import Path

from hdrl.compiled.cache import cache_folder
from hdrl.compiled.jit import entry_in

_HERE = Path(__file__).parent
_BATCH = _HERE.parents[1]
_TAKEN = ("kernel/codes.py", "kernel/keys.py", "kernel/groups.py", "workload/history.py")

CACHE_FOLDER = cache_folder("hdrl-site", [_HERE, _HERE.parent / "codes.py", *(_BATCH / name for name in _TAKEN)])

entry = entry_in(CACHE_FOLDER)
"""Compile a function of scalars and flat arrays that Python calls; the result is cached on disk."""

"""Compilation of the entries, with a cache that depends on their sources and on those of the kernel."""

from __future__ import annotations

from pathlib import Path

from hdrl.compiled.cache import cache_folder
from hdrl.compiled.jit import entry_in

_HERE = Path(__file__).parent
_KERNEL = _HERE.parent / "kernel"
_HISTORY = _HERE.parent / "workload" / "history.py"
_TAKEN = ("codes", "keys", "groups", "history")

CACHE_FOLDER = cache_folder("hdrl-order", [_HERE, *(_KERNEL / f"{name}.py" for name in _TAKEN), _HISTORY])

entry = entry_in(CACHE_FOLDER)
"""Compile a function of scalars and flat arrays that Python calls; the result is cached on disk."""

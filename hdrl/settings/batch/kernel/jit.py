"""Compilation of the kernel's entries, with a cache that depends on all sources that they use."""

from __future__ import annotations

from pathlib import Path

from hdrl.compiled.cache import cache_folder
from hdrl.compiled.jit import entry_in

_HERE = Path(__file__).parent

_BATCH = _HERE.parent

CACHE_FOLDER = cache_folder(
    "hdrl-kernel", [_HERE, _BATCH / "platform" / "pstates.py", _BATCH / "workload" / "history.py"]
)

entry = entry_in(CACHE_FOLDER)
"""Compile a function of scalars and flat arrays that Python calls, always with the same types; it is cached."""

"""How the pool is compiled: as the kernel is, but cached apart, after its own sources and those that it borrows."""

from __future__ import annotations

from pathlib import Path

from hdrl.kernel.jit import cache_folder, entry_in

_HERE = Path(__file__).parent
_BORROWED = ("borrow", "codes", "counts", "jit", "keys", "lend", "linking", "records", "rows", "team")

CACHE_FOLDER = cache_folder(
    "hdrl-pool", [*sorted(_HERE.glob("*.py")), *(_HERE.parent / f"{name}.py" for name in _BORROWED)]
)

entry = entry_in(CACHE_FOLDER)
"""Compile a function of scalars and flat arrays that Python calls; the result is cached on disk."""

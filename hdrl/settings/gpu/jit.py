"""What compiled code of this setting is made with; nothing else here names where it comes from."""

from __future__ import annotations

from pathlib import Path

from hdrl.kernel import borrow as _borrow
from hdrl.kernel import counts as _counts
from hdrl.kernel import jit as _jit
from hdrl.kernel import lend as _lend
from hdrl.kernel import linking as _linking
from hdrl.kernel import team as _team
from hdrl.kernel.borrow import borrow
from hdrl.kernel.counts import ALL_LEGAL, counts_at, keep_count, take_actions
from hdrl.kernel.jit import JIT_DISABLED, cache_folder, compile_once, entry_in, jit

__all__ = [
    "ALL_LEGAL",
    "CACHE_FOLDER",
    "JIT_DISABLED",
    "borrow",
    "compile_once",
    "counts_at",
    "entry",
    "jit",
    "keep_count",
    "take_actions",
]

_BORROWED = (_borrow, _counts, _jit, _lend, _linking, _team)

CACHE_FOLDER = cache_folder(
    "hdrl-gpu",
    [*sorted((Path(__file__).parent / "kernel").glob("*.py")), *(Path(str(one.__file__)) for one in _BORROWED)],
)

entry = entry_in(CACHE_FOLDER)
"""Compile a function of scalars and flat arrays that Python calls; the result is cached on disk."""

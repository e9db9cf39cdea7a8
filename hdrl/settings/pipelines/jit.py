"""What compiled code of this setting is made with; nothing else here names where it comes from."""

from __future__ import annotations

from pathlib import Path

from hdrl.kernel import borrow as _borrow
from hdrl.kernel import counts as _counts
from hdrl.kernel import jit as _jit
from hdrl.kernel import lend as _lend
from hdrl.kernel import linking as _linking
from hdrl.kernel import records as _records
from hdrl.kernel import rows as _rows
from hdrl.kernel import team as _team
from hdrl.kernel.borrow import borrow
from hdrl.kernel.counts import ALL_LEGAL, NO_ACTION, Counts, counts_at, keep_count, new_counts, take_actions
from hdrl.kernel.jit import JIT_DISABLED, cache_folder, compile_once, entry_in, jit
from hdrl.kernel.lend import Lent, take_as
from hdrl.kernel.records import record_dtype
from hdrl.kernel.rows import moved_to
from hdrl.kernel.team import LEADER, Team, enter_round, leave_round, new_team, request_of, take_row

__all__ = [
    "ALL_LEGAL",
    "CACHE_FOLDER",
    "JIT_DISABLED",
    "LEADER",
    "NO_ACTION",
    "Counts",
    "Lent",
    "Team",
    "borrow",
    "compile_once",
    "counts_at",
    "enter_round",
    "entry",
    "jit",
    "keep_count",
    "leave_round",
    "moved_to",
    "new_counts",
    "new_team",
    "record_dtype",
    "request_of",
    "take_actions",
    "take_as",
    "take_row",
]

_BORROWED = (_borrow, _counts, _jit, _lend, _linking, _records, _rows, _team)

CACHE_FOLDER = cache_folder(
    "hdrl-pipelines",
    [*sorted((Path(__file__).parent / "kernel").glob("*.py")), *(Path(str(one.__file__)) for one in _BORROWED)],
)

entry = entry_in(CACHE_FOLDER)
"""Compile a function of scalars and flat arrays that Python calls; the result is cached on disk."""

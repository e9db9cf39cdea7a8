"""Sharing the rows of a batch among threads, inside of compiled code.

Waking a thread takes longer than a step of the whole batch. So those who help wait *actively* for a while, in compiled
code, before they go to sleep; and whoever is there takes the next row, so that nobody waits for rows that have been
given to somebody who sleeps.

The one who *leads* opens a round, takes rows like all others until none is left, and ends the round when those who are
still at a row are done. A team is an array of integers, which is only read and written atomically.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from hdrl.kernel.jit import JIT_DISABLED, jit

# On cache lines of their own: the number of the round, odd while it is open; how many rows there are, in how
# many shares what is left of them is taken, and what is to be done with them; the next one to be taken; how many help.
_ROUND, _N_ROWS, _N_SHARES, _REQUEST, _NEXT, _HELPING = 0, 8, 9, 10, 16, 24

_TURNS = 4
"""What a thread takes at once: of all that is left, as much as leaves this many such shares for every thread."""

Team: TypeAlias = NDArray[np.int64]

LEADER = 0
"""The patience of who leads; that of who helps is the number of looks after which they give up, above 0."""

PATIENCE = 1 << 22
"""How often who helps looks for an open round before giving up: some milliseconds."""


def new_team(n_rows: int, n_threads: int = 1) -> Team:
    """Return a team whose first round has not begun.

    Parameters
    ----------
    n_rows
        How many rows there are to share.
    n_threads
        Among how many.
    """
    team = np.zeros(32, dtype=np.int64)
    team[_N_ROWS] = n_rows
    team[_N_SHARES] = 1 if n_threads == 1 else _TURNS * n_threads
    return team


def _item(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    team = context.make_array(signature.args[0])(context, builder, arguments[0])
    return cgutils.gep(builder, team.data, arguments[1])


@intrinsic
def _load_atomically(typing_context: Any, team: Any, place: Any) -> Any:
    del typing_context, place

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_item(context, builder, signature, arguments), "seq_cst", 8)

    return types.int64(team, types.intp), lower


@intrinsic
def _add_atomically(typing_context: Any, team: Any, place: Any, value: Any) -> Any:
    del typing_context, place, value

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", _item(context, builder, signature, arguments), arguments[2], "seq_cst")

    return types.int64(team, types.intp, types.int64), lower


def _load_plainly(team: Team, place: int) -> int:
    return int(team[place])


def _add_plainly(team: Team, place: int, value: int) -> int:
    before = int(team[place])
    team[place] += value
    return before


_load, _add = (_load_plainly, _add_plainly) if JIT_DISABLED else (_load_atomically, _add_atomically)


@jit
def _put(team, place, value):
    _add(team, place, value - _load(team, place))


@jit
def _join_round(team, patience):
    """Wait for a round to join; return whether there was one while the patience lasted."""
    for _ in range(patience):
        if _load(team, _ROUND) & 1 == 1 and _load(team, _NEXT) < _load(team, _N_ROWS):
            _add(team, _HELPING, 1)
            if _load(team, _ROUND) & 1 == 1:
                return True
            _add(team, _HELPING, -1)  # closed in between
    return False


@jit
def enter_round(team, request, patience):
    """Open a round, in which ``request`` is to be done (who leads), or wait for one; return whether there is one."""
    if patience != LEADER:
        return _join_round(team, patience)
    _put(team, _NEXT, 0)
    _put(team, _REQUEST, request)
    _add(team, _ROUND, 1)
    return True


@jit
def leave_round(team, patience):
    """End the round when all are done (who leads), or wait for another one; return whether there is another one."""
    if patience != LEADER:
        _add(team, _HELPING, -1)
        return _join_round(team, patience)
    _add(team, _ROUND, 1)
    while _load(team, _HELPING) > 0:
        pass
    return False


@jit
def request_of(team):
    """Return what the round is about."""
    return _load(team, _REQUEST)


@jit
def take_rows(team):
    """Take the next rows; return the first of them and the one after the last: the same if none is left."""
    # Many at first, which costs little, and one by one in the end, so that nobody is left with much.
    n_rows = _load(team, _N_ROWS)
    n_at_once = max(1, (n_rows - _load(team, _NEXT)) // _load(team, _N_SHARES))
    first = min(_add(team, _NEXT, n_at_once), n_rows)
    return first, min(first + n_at_once, n_rows)

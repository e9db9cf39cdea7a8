"""Compiling the pool ahead of its first use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hdrl.kernel.jit import compile_once
from hdrl.kernel.lend import Lent
from hdrl.kernel.pool import entries
from hdrl.kernel.pool.jit import CACHE_FOLDER
from hdrl.kernel.pool.state import smallest_pool
from hdrl.kernel.team import new_team


def warm_up(message: Callable[[str], None]) -> None:
    """Compile the pool if it has never been compiled here; later processes load it from the cache.

    Parameters
    ----------
    message
        Told what is going on before anything takes long.
    """
    text = "compiling the simulator of identical processors (the first time only, about ten seconds)"
    compile_once(CACHE_FOLDER, "compiled", text, _step_once, message)


def _step_once() -> None:
    """Run one job on one processor: the entries are one compiled function, so that this compiles them."""
    pool, chosen = smallest_pool(), np.ones(1, dtype=np.bool_)
    entries.reset_rows(Lent(pool), new_team(1), chosen)

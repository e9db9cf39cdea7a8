"""Compiling the pool ahead of its first use."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np

from hdrl.kernel.lend import Lent
from hdrl.kernel.pool import entries
from hdrl.kernel.pool.jit import CACHE_FOLDER
from hdrl.kernel.pool.state import smallest_pool
from hdrl.kernel.team import new_team

_STAMP = CACHE_FOLDER / f"compiled-numba-{numba.__version__}"


def is_compiled() -> bool:
    """Tell whether the pool's compiled code is in the cache, or compilation is switched off."""
    return bool(numba.config.DISABLE_JIT) or _STAMP.exists()


def warm_up(message: Callable[[str], None]) -> None:
    """Compile the pool if it has never been compiled here; later processes load it from the cache.

    Parameters
    ----------
    message
        Told what is going on before anything takes long.
    """
    if is_compiled():
        return
    message("compiling the simulator of identical processors (the first time only, about ten seconds)")
    _step_once()
    _STAMP.touch()


def _step_once() -> None:
    """Run one job on one processor: the entries are one compiled function, so that this compiles them."""
    pool, chosen = smallest_pool(), np.ones(1, dtype=np.bool_)
    entries.reset_rows(Lent(pool), new_team(1), chosen)

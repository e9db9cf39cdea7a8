"""Compiling the pool ahead of its first use."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np

from hdrl.kernel.pool import actions, entries
from hdrl.kernel.pool.jit import CACHE_FOLDER
from hdrl.kernel.pool.state import JOB_DTYPE, SETTINGS_DTYPE, new_pool, set_episodes

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
    """Run one job on one processor: all entries are three compiled functions, so that this compiles them."""
    jobs = np.ones(1, dtype=JOB_DTYPE)
    settings = np.ones(1, dtype=SETTINGS_DTYPE)
    settings["n_features"] = 8
    pool = new_pool(
        1,
        1,
        jobs=jobs,
        templates=np.zeros((1, 8), dtype=np.float32),
        settings=settings,
        columns=np.zeros(0, dtype=np.int64),
    )
    set_episodes(pool, np.arange(1), 0, 1)
    chosen = np.ones(1, dtype=np.bool_)
    entries.reset_rows(pool, 0, 1, chosen)
    actions_of_rows = np.zeros(1, dtype=np.int64)
    actions.take(actions_of_rows, actions_of_rows, pool.masks, chosen)
    shown = (pool.rewards, pool.is_over, pool.is_over)
    actions.count(chosen, pool.rewards, chosen, chosen, pool.rewards, actions_of_rows, chosen, shown)

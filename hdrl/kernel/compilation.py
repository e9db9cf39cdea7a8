"""Compiling the kernel ahead of its first use."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np

from hdrl.kernel import codes, entries
from hdrl.kernel.jit import CACHE_FOLDER
from hdrl.kernel.state import new_state
from hdrl.kernel.twister import twister_state
from hdrl.platform import read_platform
from hdrl.workload.model import JOB_DTYPE, NO_WALLTIME, STEP_DTYPE, Workload

_STAMP = CACHE_FOLDER / f"compiled-numba-{numba.__version__}"


def is_compiled() -> bool:
    """Tell whether the kernel's compiled code is in the cache, or compilation is switched off."""
    return bool(numba.config.DISABLE_JIT) or _STAMP.exists()


def warm_up(message: Callable[[str], None]) -> None:
    """Compile the kernel if it has never been compiled here; later processes load it from the cache.

    Parameters
    ----------
    message
        Told what is going on before anything takes long.
    """
    if is_compiled():
        return
    message("compiling the simulator (the first time only, about half a minute)")
    _simulate_once()
    _STAMP.touch()


def _simulate_once() -> None:
    """Simulate a world of four cores and one job: all entries are one compiled function, so that this compiles them."""
    platform = read_platform("learning")
    jobs = np.zeros(1, dtype=JOB_DTYPE)
    jobs["cores"] = 1
    jobs["walltime_s"] = NO_WALLTIME
    workload = Workload("w", jobs, ("0",), np.zeros(1, dtype=STEP_DTYPE), np.array([0, 1]), ("p",))
    state = new_state(platform, workload, twister=twister_state(0, "policy"))
    entries.begin(state)
    entries.run_pair(state, codes.JOB_FIRST, codes.CORE_HIGH_GFLOPS, 1000)

"""Compiling the kernel ahead of its first use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hdrl.compiled.cache import compile_once
from hdrl.compiled.twister import twister_state
from hdrl.settings.batch.kernel import codes, entries
from hdrl.settings.batch.kernel.jit import CACHE_FOLDER
from hdrl.settings.batch.kernel.state import State, new_state
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.workload.model import JOB_DTYPE, NO_WALLTIME, STEP_DTYPE, Workload


def warm_up(message: Callable[[str], None]) -> None:
    """Compile the kernel if it has never been compiled here; later processes load it from the cache.

    Parameters
    ----------
    message
        Told what is going on before anything takes long.
    """
    text = "compiling the simulator (the first time only, about half a minute)"
    compile_once(CACHE_FOLDER, "compiled", text, _simulate_once, message)


def warm_up_conservative(message: Callable[[str], None]) -> None:
    """Compile conservative backfilling if it has never been compiled here; it is apart from the rest.

    Parameters
    ----------
    message
        Told what is going on before anything takes long.
    """
    text = "compiling conservative backfilling (the first time only, some ten seconds)"
    compile_once(CACHE_FOLDER, "conservative", text, _plan_once, message)


def _plan_once() -> None:
    """Make a decision about nothing: no job waits at date 0."""
    entries.schedule_pair(small_state(), codes.JOB_FIRST, codes.CORE_HIGH_GFLOPS, codes.CONSERVATIVE)


def _simulate_once() -> None:
    """Simulate: the entries are one compiled function, so that this compiles them."""
    state = small_state()
    entries.begin(state)
    entries.run_pair(state, codes.JOB_FIRST, codes.CORE_HIGH_GFLOPS, 1000)


def small_state() -> State:
    """Return a world of four cores and one job at date 0; its arrays are of the types of all worlds'."""
    platform = read_platform("learning")
    jobs = np.zeros(1, dtype=JOB_DTYPE)
    jobs["cores"] = 1
    jobs["walltime_s"] = NO_WALLTIME
    workload = Workload("w", jobs, ("0",), np.zeros(1, dtype=STEP_DTYPE), np.array([0, 1]), ("p",))
    return new_state(platform, workload, twister=twister_state(0, "policy"))

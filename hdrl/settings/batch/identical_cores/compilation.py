"""Compiling the simulator of the order of jobs ahead of its first use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hdrl.compiled.cache import compile_once
from hdrl.compiled.lend import Lent
from hdrl.compiled.team import new_team
from hdrl.settings.batch.identical_cores import entries
from hdrl.settings.batch.identical_cores.jit import CACHE_FOLDER
from hdrl.settings.batch.identical_cores.state import smallest_state


def warm_up(message: Callable[[str], None]) -> None:
    """Compile the simulator if it has never been compiled here; later processes load it from the cache."""
    text = "compiling the simulator of identical processors (the first time only, about ten seconds)"
    compile_once(CACHE_FOLDER, "compiled", text, _step_once, message)


def _step_once() -> None:
    """Run one job on one processor: the entries are one compiled function, so that this compiles them."""
    batch, chosen = smallest_state(), np.ones(1, dtype=np.bool_)
    entries.SERVED.reset(Lent(batch), new_team(1), chosen)

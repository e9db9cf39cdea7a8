"""Compiling the kernel ahead of its first use."""

from __future__ import annotations

from collections.abc import Callable

from hdrl.compiled.cache import compile_once
from hdrl.compiled.lend import Lent
from hdrl.settings.batch.kernel import codes, entries, printing
from hdrl.settings.batch.kernel.jit import CACHE_FOLDER
from hdrl.settings.batch.kernel.state import small_state


def warm_up(message: Callable[[str], None]) -> None:
    """Compile the kernel if it has never been compiled here; later processes load it from the cache."""
    text = "compiling the simulator (the first time only, about half a minute)"
    compile_once(CACHE_FOLDER, "compiled", text, _simulate_once, message)


def warm_up_conservative(message: Callable[[str], None]) -> None:
    """Compile conservative backfilling if it has never been compiled here; it is apart from the rest."""
    text = "compiling conservative backfilling (the first time only, some ten seconds)"
    compile_once(CACHE_FOLDER, "conservative", text, _plan_once, message)


def _plan_once() -> None:
    """Make a decision about nothing: no job waits at date 0."""
    entries.schedule_pair(Lent(small_state()), codes.JOB_FIRST, codes.CORE_HIGH_GFLOPS, codes.CONSERVATIVE)


def _simulate_once() -> None:
    """Simulate and print: the entries of a simulation are one compiled function, so that this compiles them."""
    lent = Lent(small_state())
    entries.begin(lent)
    entries.run_pair(lent, codes.JOB_FIRST, codes.CORE_HIGH_GFLOPS, 1000)
    table = Lent(printing.small_table())
    printing.print_rows(table.places, 1, 0)

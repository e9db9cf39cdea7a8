"""The compiled functions that Python calls."""

from __future__ import annotations

from hdrl.compiled.borrow import borrow, take_as
from hdrl.compiled.codes import UNKNOWN_CODE
from hdrl.compiled.fields import first_row_of
from hdrl.settings.gpu.kernel import codes, state
from hdrl.settings.gpu.kernel.engine import has_valid_rules
from hdrl.settings.gpu.kernel.engine import run as _run
from hdrl.settings.gpu.kernel.history import add_end
from hdrl.settings.gpu.kernel.jit import entry
from hdrl.settings.gpu.kernel.placing import find_gpus, fragment
from hdrl.settings.gpu.kernel.running import enqueue, start
from hdrl.settings.gpu.kernel.state import GpuState, clear, smallest_world

_batch_at = take_as(smallest_world)
_first_row = first_row_of(GpuState)


@entry
def begin(positions):
    """Empty the first environment of the world at some addresses (`hdrl.compiled.borrowed.Borrowed`)."""
    w = borrow(_first_row(_batch_at(positions)))
    clear(w)


@entry
def run(positions, n_steps):
    """Simulate the first environment for some steps; return why it stopped."""
    w = borrow(_first_row(_batch_at(positions)))
    return _run(w, n_steps)


@entry
def place_jobs(positions, shares, fragments):
    """Position job after job of the first environment, and let none end; those that do not fit are left out.

    ``shares`` gets the GPUs in use after each arrival, ``fragments`` the thousandths of a GPU that typical jobs cannot
    use.
    Returns how many were placed, or `UNKNOWN_CODE`.
    """
    w = borrow(_first_row(_batch_at(positions)))
    if not has_valid_rules(w):
        return UNKNOWN_CODE
    clear(w)
    n_placed = 0
    lost = 0.0
    for n in range(len(w.machine.node_order)):
        lost += fragment(w, n)
    for j in range(w.jobs.n_jobs[0]):
        enqueue(w, j)
        node = find_gpus(w, j, w.rules[codes.PLACEMENT])
        if node >= 0:
            lost -= fragment(w, node)
            start(w, j, node)
            lost += fragment(w, node)
            n_placed += 1
        else:
            w.counts[state.N_WAITING] = 0
            w.jobs.status[j] = 0
        shares[j] = w.sums[state.BUSY_NOW]
        fragments[j] = lost
    return n_placed


@entry
def count_ended_jobs(history, groups, times_s, memory, ends_s):
    """Count jobs that have ended, one after the other, see `hdrl.settings.gpu.kernel.history.add_end`."""
    for i in range(len(times_s)):
        add_end(history, groups[i], memory, ends_s, times_s[i])

"""The compiled functions that Python calls."""

from __future__ import annotations

from hdrl.compiled.borrow import borrow
from hdrl.settings.gpu.kernel import state
from hdrl.settings.gpu.kernel.engine import run as _run
from hdrl.settings.gpu.kernel.jit import entry
from hdrl.settings.gpu.kernel.placing import find_place, fragment
from hdrl.settings.gpu.kernel.running import enqueue, start
from hdrl.settings.gpu.kernel.state import clear


@entry
def begin(world):
    """Empty the first environment."""
    w = borrow(world)
    clear(w, 0)


@entry
def run(world, n_steps):
    """Simulate the first environment for some steps; return why it stopped."""
    w = borrow(world)
    return _run(w, 0, n_steps)


@entry
def place_in_turn(world, shares, fragments):
    """Place job after job of the first environment, and let none end; those that do not fit are left out.

    ``shares`` gets the GPUs in use after each arrival, ``fragments`` the thousandths of a GPU that typical jobs cannot
    use.
    """
    w = borrow(world)
    clear(w, 0)
    n_placed = 0
    lost = 0.0
    for n in range(len(w.node_order)):
        lost += fragment(w, 0, n)
    for j in range(w.n_jobs[0]):
        enqueue(w, 0, j)
        node = find_place(w, 0, j, w.rules[1])
        if node >= 0:
            lost -= fragment(w, 0, node)
            start(w, 0, j, node)
            lost += fragment(w, 0, node)
            n_placed += 1
        else:
            w.counts[0, state.N_WAITING] = 0
            w.status[0, j] = 0
        shares[j] = w.sums[0, state.BUSY_NOW]
        fragments[j] = lost
    return n_placed

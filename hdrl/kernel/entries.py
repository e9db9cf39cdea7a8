"""The kernel's face: the functions that Python calls. Each takes the `State` of one environment.

What the others do is documented where they are defined.
"""

from __future__ import annotations

from hdrl.kernel import codes, decide, engine, waiting
from hdrl.kernel.borrow import borrow
from hdrl.kernel.jit import entry


@entry
def begin(arrays):
    """Start the simulation: see `hdrl.kernel.engine.begin`."""
    state = borrow(arrays)
    engine.begin(state)


@entry
def advance(arrays, budget):
    """Simulate until the scheduler is to be asked, and take in what it is told; see `hdrl.kernel.engine.advance`."""
    state = borrow(arrays)
    status = engine.advance(state, budget)
    if status == codes.MESSAGE:
        decide.hear(state)
    return status


@entry
def answer(arrays):
    """Let the answer take effect: see `hdrl.kernel.decide.answer`."""
    state = borrow(arrays)
    decide.answer(state)


@entry
def start(arrays, job, first, n):
    """Start a waiting job on the cores ``pool[first:first + n]``; return an error code (0: none) and a core."""
    state = borrow(arrays)
    place = waiting.find(state, job)
    if place < 0:
        return codes.ERROR_JOB_NOT_WAITING, -1
    code, core = decide.lock_cores(state, job, first, n)
    if code == 0:
        decide.start_job(state, job, place, first, n)
    return code, core


@entry
def reject(arrays, job):
    """Reject a waiting job; return an error code."""
    state = borrow(arrays)
    place = waiting.find(state, job)
    if place < 0:
        return codes.ERROR_JOB_NOT_WAITING
    waiting.take(state, place)
    engine.add_op(state, codes.REJECT, job, 0, 0, 0.0)
    return 0


@entry
def add_op(arrays, kind, subject, first, n, value):
    """Append any other request to the answer; what it names in the pool is ``pool[first:first + n]``."""
    state = borrow(arrays)
    state.scalars[0].n_pool = max(state.scalars[0].n_pool, first + n)
    engine.add_op(state, kind, subject, first, n, value)


@entry
def run_pair(arrays, job_key, core_key, budget):
    """Simulate under a policy pair: see `hdrl.kernel.decide.run_pair`."""
    state = borrow(arrays)
    return decide.run_pair(state, job_key, core_key, budget)

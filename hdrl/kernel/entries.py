"""The kernel's face: the functions that Python calls. Each takes the `State` of one environment.

What the others do is documented where they are defined.
"""

from __future__ import annotations

from hdrl.kernel import codes, decide, engine, waiting
from hdrl.kernel.jit import entry


@entry
def begin(state):
    """Start the simulation: see `hdrl.kernel.engine.begin`."""
    engine.begin(state)


@entry
def advance(state, budget):
    """Simulate until the scheduler is to be asked, and take in what it is told; see `hdrl.kernel.engine.advance`."""
    status = engine.advance(state, budget)
    if status == codes.MESSAGE:
        decide.hear(state)
    return status


@entry
def answer(state):
    """Let the answer take effect: see `hdrl.kernel.decide.answer`."""
    decide.answer(state)


@entry
def start(state, job, first, n):
    """Start a waiting job on the cores ``pool[first:first + n]``; return an error code (0: none) and a core."""
    place = waiting.find(state, job)
    if place < 0:
        return codes.ERROR_JOB_NOT_WAITING, -1
    code, core = decide.lock_cores(state, job, first, n)
    if code == 0:
        decide.start_job(state, job, place, first, n)
    return code, core


@entry
def reject(state, job):
    """Reject a waiting job; return an error code."""
    place = waiting.find(state, job)
    if place < 0:
        return codes.ERROR_JOB_NOT_WAITING
    waiting.take(state, place)
    engine.add_op(state, codes.REJECT, job, 0, 0, 0.0)
    return 0


@entry
def add_op(state, kind, subject, first, n, value):
    """Append any other request to the answer; what it names in the pool is ``pool[first:first + n]``."""
    state.scalars[0].n_pool = max(state.scalars[0].n_pool, first + n)
    engine.add_op(state, kind, subject, first, n, value)


@entry
def run_pair(state, job_key, core_key, budget):
    """Simulate under a policy pair: see `hdrl.kernel.decide.run_pair`."""
    return decide.run_pair(state, job_key, core_key, budget)

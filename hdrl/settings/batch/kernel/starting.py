"""What it takes to start a job, whoever chose it: the queue, the machine, the answer and the logs."""

from __future__ import annotations

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes, mail
from hdrl.settings.batch.kernel.backfill import expect_end
from hdrl.settings.batch.kernel.cluster import after_locking
from hdrl.settings.batch.kernel.selection import NO_CORES, NO_MEMORY
from hdrl.settings.batch.kernel.waiting import take


@jit
def start_job(state, job, place, first, n):
    """Start the waiting job at ``place`` of the queue on the locked cores ``pool[first:first + n]``."""
    take(state, place)
    expect_end(state, job, first, n)
    after_locking(state, first, n)
    mail.add_op(state, codes.EXECUTE, job, first, n, 0.0)


@jit
def note_failure(state, reason):
    """Note that the next job did not fit, and what was missing: the outcome of `choose_cores`."""
    s = state.scalars[0]
    if s.logging == 0:
        return
    if reason == NO_CORES:
        state.core_fails[s.n_core_fails] = s.message_s
        s.n_core_fails += 1
    elif reason == NO_MEMORY:
        state.memory_fails[s.n_memory_fails] = s.message_s
        s.n_memory_fails += 1

"""Noting that something impossible was asked for: the simulation stops with ``ILLEGAL`` then."""

from __future__ import annotations

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes


@jit
def refuse(state, error, job, core):
    """Note an error, one of ``ERROR_*``, and what it is about (-1: nothing)."""
    s = state.scalars[0]
    s.error = error
    s.error_job = job
    s.error_core = core


@jit
def refuse_code(state, code):
    """Note that a number was met that no table of `kernel.codes` knows."""
    refuse(state, codes.ERROR_UNKNOWN_CODE, -1, code)

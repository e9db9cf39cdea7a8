"""Threads that would only get in the way."""

from __future__ import annotations

import os

from hdrl.base.errors import OptionsError


def one_blas_thread() -> None:
    """Let NumPy's linear algebra have one thread, unless the user says otherwise.

    OpenBLAS starts a thread for each core as soon as NumPy is loaded, and these wait actively: a fifth of the processor
    time of ``hdrl-launch`` on 10,000 jobs (0.53 instead of 0.42 s), which others on the machine lack. They also keep a
    process from being copied.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def check_numba_threads() -> None:
    """Refuse a number of threads for Numba with which loading it would fail with a traceback."""
    given = os.environ.get("NUMBA_NUM_THREADS", "")
    if given.strip().lstrip("+-").isdigit() and int(given) < 1:
        raise OptionsError(f"the environment says NUMBA_NUM_THREADS={given}, expected 1 or more")

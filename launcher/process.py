"""The process of a command: few searches for unreachable objects, and no threads that would only get in the way."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
from collections.abc import Iterator

from hdrl.base.errors import OptionsError

_METACLASS_OF_NANOBIND = "nb_meta"

RARE = 100_000
"""Objects that are made between two searches of the youngest."""


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Search rarely while a command runs, and not when it ends.

    What is imported alone is so much that the searches would take a fifth of a short run. The one that would follow
    when things are as usual again took 5 % of ``hdrl-launch`` on 10,000 jobs (28 of 560 ms of processor time).
    """
    usual = gc.get_threshold()
    gc.set_threshold(RARE, *usual[1:])
    atexit.register(end_quickly)
    try:
        yield
    finally:
        gc.freeze()  # both together: all that is there counts as old from now on
        gc.unfreeze()
        gc.set_threshold(*usual)


def end_quickly() -> None:
    """Skip the last search, unless an extension made with nanobind is loaded.

    With torch the search takes 7 % of a short training (0.5 of 7 s of processor time). Extensions made with nanobind
    report each object that was not collected as a leak; some versions of torch load such an extension.
    """
    if not any(kind.__name__ == _METACLASS_OF_NANOBIND for kind in type.__subclasses__(type)):
        gc.freeze()


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
        raise OptionsError(f"the environment variable NUMBA_NUM_THREADS is {given}, expected 1 or more")

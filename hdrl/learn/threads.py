"""How many threads torch computes with, and those of our own that help with the rows of a network or a whole one.

The last digits of torch's sums depend on how many threads it has, and these wait for each other actively: where another
program needs a core, all of them are slow. Ours take one part of a sum after the other, which are then added in order,
so that results do not depend on how many there are; and they sleep while there is nothing to do.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import NamedTuple, TypeVar

import torch

T = TypeVar("T")
U = TypeVar("U")


@contextlib.contextmanager
def torch_threads(n: int | None) -> Iterator[None]:
    """Let torch compute with a number of threads, and set it back afterwards.

    Parameters
    ----------
    n
        The number; ``None``: as it is.
    """
    before = torch.get_num_threads()
    if n is not None and n != before:
        torch.set_num_threads(n)
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


class _Helpers(NamedTuple):
    pool: ThreadPoolExecutor
    n: int


_helpers: ContextVar[_Helpers | None] = ContextVar("helpers", default=None)


@contextlib.contextmanager
def helped_by(n: int) -> Iterator[None]:
    """Let other threads take parts of what `share` is given.

    Parameters
    ----------
    n
        How many others; 0: none.
    """
    if n < 1:
        yield
        return
    with ThreadPoolExecutor(n, "hdrl-rows") as pool:
        token = _helpers.set(_Helpers(pool, n))
        try:
            yield
        finally:
            _helpers.reset(token)


def share(n_parts: int, work: Callable[[Iterator[int]], None]) -> None:
    """Do work in parts, with those who help.

    Parameters
    ----------
    work
        Called once by each thread, with the numbers of the parts that are the thread's, from 0 on.
    """
    left, helpers = deque(range(n_parts)), _helpers.get()
    n_asked = 0 if helpers is None else min(helpers.n, n_parts - 1)
    asked = [helpers.pool.submit(work, _taken_from(left)) for _ in range(n_asked)] if helpers is not None else []
    work(_taken_from(left))
    for one in asked:
        if not one.cancel():  # nobody waits for those who have not even begun
            one.result()


def at_once(one: Callable[[], T], other: Callable[[], U]) -> tuple[T, U]:
    """Do two things that have nothing to do with each other, at the same time if there is somebody who helps.

    Parameters
    ----------
    other
        What another thread does then, with as many threads of torch as this one has.

    Returns
    -------
    tuple
        What both return.
    """
    helpers = _helpers.get()
    if helpers is None:
        return one(), other()
    n_threads = torch.get_num_threads()

    def do_other() -> U:
        _helpers.set(None if helpers.n == 1 else helpers._replace(n=helpers.n - 1))
        with torch_threads(n_threads):
            return other()

    asked = helpers.pool.submit(copy_context().run, do_other)
    try:
        done = one()
    except BaseException:
        if not asked.cancel():
            asked.exception()
        raise
    return done, (other() if asked.cancel() else asked.result())


def begin(work: Callable[[], T]) -> Callable[[], T]:
    """Let somebody who helps, if there is anybody, begin with what is needed later.

    Parameters
    ----------
    work
        What is to be done, with as many threads of torch as this one has.

    Returns
    -------
    Callable
        Returns what ``work`` does: waits for who has begun, or does it now.
    """
    helpers = _helpers.get()
    if helpers is None:
        return work
    n_threads = torch.get_num_threads()

    def do() -> T:
        with torch_threads(n_threads):
            return work()

    asked = helpers.pool.submit(do)
    return lambda: work() if asked.cancel() else asked.result()


def _taken_from(left: deque[int]) -> Iterator[int]:
    with contextlib.suppress(IndexError):
        while True:
            yield left.popleft()

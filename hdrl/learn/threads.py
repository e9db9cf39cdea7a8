"""Numbers of threads: of torch, and of our own that help with the rows of a network or a whole one.

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
from typing import NamedTuple, TypeAlias, TypeVar

import torch

T = TypeVar("T")
U = TypeVar("U")


@contextlib.contextmanager
def torch_threads(n: int | None) -> Iterator[None]:
    """Let torch compute with ``n`` threads for a while; ``None``: with as many as it has."""
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
def use_helper_threads(n: int) -> Iterator[None]:
    """Let ``n`` other threads take parts of the work of `share` for a while."""
    if n < 1:
        yield
        return
    with ThreadPoolExecutor(n, "hdrl-rows") as pool:
        token = _helpers.set(_Helpers(pool, n))
        try:
            yield
        finally:
            _helpers.reset(token)


Parts: TypeAlias = Iterator[tuple[int, int]]
"""First and end index of each part of some work."""


def share(n: int, size: int, work: Callable[[Parts], None]) -> None:
    """Do ``n`` pieces of work in parts of ``size``; each thread calls ``work`` once, with the parts that it takes."""
    left, helpers = deque((first, min(first + size, n)) for first in range(0, n, size)), _helpers.get()
    n_tasks = 0 if helpers is None else min(helpers.n, len(left) - 1)
    tasks = [helpers.pool.submit(work, _taken_from(left)) for _ in range(n_tasks)] if helpers is not None else []
    work(_taken_from(left))
    for one in tasks:
        if not one.cancel():  # a task that has not even begun is not waited for
            one.result()


def at_once(one: Callable[[], T], other: Callable[[], U]) -> tuple[T, U]:
    """Call two independent functions, at the same time if another thread is free, and return both results.

    The other thread uses as many threads of torch as this one.
    """
    helpers = _helpers.get()
    if helpers is None:
        return one(), other()
    n_threads = torch.get_num_threads()

    def do_other() -> U:
        _helpers.set(None if helpers.n == 1 else helpers._replace(n=helpers.n - 1))
        with torch_threads(n_threads):
            return other()

    task = helpers.pool.submit(copy_context().run, do_other)
    try:
        done = one()
    except BaseException:
        if not task.cancel():
            task.exception()
        raise
    return done, (other() if task.cancel() else task.result())


def _taken_from(left: deque[tuple[int, int]]) -> Parts:
    with contextlib.suppress(IndexError):
        while True:
            yield left.popleft()

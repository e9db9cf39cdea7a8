"""How many threads torch computes with: the last digits of sums depend on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


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

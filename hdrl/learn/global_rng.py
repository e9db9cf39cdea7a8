"""The global generators of torch, NumPy and Python, for code of users that draws from them."""

from __future__ import annotations

import contextlib
import random  # noqa: TID251 (the code of users may draw from it, so it is seeded for them)
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from hdrl.base.seeding import stream_seed


class GlobalRng:
    """Global generators with seeds of their own while in use, and afterwards as they were before."""

    def __init__(self, seed: int, name: str) -> None:
        word = stream_seed(seed, name)
        with kept_randomness():
            torch.manual_seed(word)
            np.random.seed(word)  # noqa: NPY002 (the global generator is meant)
            random.seed(word)
            self._state = _states()

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the global generators continue where the last use ended.

        Yields
        ------
        None
            While they are in use.
        """
        with kept_randomness():
            _set(self._state)
            try:
                yield
            finally:
                self._state = _states()

    def take_over(self) -> None:
        """Let the global generators continue from here; the caller restores them (`kept_randomness`)."""
        _set(self._state)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the generators, as tensors, numbers and lists."""
        kind, keys, position, has_gauss, gauss = self._state["numpy"]
        version, numbers, next_gauss = self._state["python"]
        return {
            "torch": self._state["torch"],
            "numpy": [str(kind), [int(key) for key in keys], int(position), int(has_gauss), float(gauss)],
            "python": [int(version), list(numbers), next_gauss],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where `state_dict` was called."""
        kind, keys, position, has_gauss, gauss = state["numpy"]
        version, numbers, next_gauss = state["python"]
        self._state = {
            "torch": state["torch"],
            "numpy": (kind, np.array(keys, dtype=np.uint32), position, has_gauss, gauss),
            "python": (version, tuple(numbers), next_gauss),
        }


@contextlib.contextmanager
def kept_randomness() -> Iterator[None]:
    """Keep the global generators as they are, whatever is drawn from them meanwhile."""
    before = _states()
    try:
        yield
    finally:
        _set(before)


def _states() -> dict[str, Any]:
    return {
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(),  # noqa: NPY002 (the global generator is meant)
        "python": random.getstate(),
    }


def _set(state: Mapping[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    np.random.set_state(state["numpy"])  # noqa: NPY002 (the global generator is meant)
    random.setstate(state["python"])

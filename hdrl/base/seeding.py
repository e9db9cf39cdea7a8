"""Random streams spawned by name from one seed.

A stream depends on the seed and on its name alone, so that a new consumer of randomness never
shifts the numbers that the others draw.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np


def seed_sequence(seed: int, name: str) -> np.random.SeedSequence:
    """Return the seed sequence of one named stream."""
    if seed < 0:
        raise ValueError(f"a seed must not be negative: {seed}")
    return np.random.SeedSequence(entropy=seed, spawn_key=_key_of(name))


@cache
def _key_of(name: str) -> tuple[int, ...]:
    digest = hashlib.sha256(name.encode()).digest()
    return tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))


def stream_seed(seed: int, name: str) -> int:
    """Return 32 bits of the named stream: the seed of one part of an experiment."""
    return int(seed_sequence(seed, name).generate_state(1)[0])


def stream(seed: int, name: str) -> np.random.Generator:
    """Return a generator of the named stream."""
    return np.random.Generator(np.random.PCG64(seed_sequence(seed, name)))

"""Seeds of environments: one 64-bit key for each seed, and from it one for each episode."""

from __future__ import annotations

import numpy as np

from hdrl.base.errors import OptionsError
from hdrl.base.seeding import seed_sequence

MAX_SEED = 2**63 - 1
"""The largest seed."""

_WORD = 2**64 - 1


_GOLDEN = 0x9E3779B97F4A7C15


def mixed_bits(bits: int) -> int:
    """Return 64 bits that look independent of these 64."""
    bits = (bits + _GOLDEN) & _WORD
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _WORD
    return bits ^ (bits >> 31)


def episode_seed(key: int, episode: int) -> int:
    """Return 64 random bits for one episode.

    - ``key``: 64 random bits of the environment's seed.
    - ``episode``: number of the episode, from 0.
    """
    return mixed_bits(key + episode * _GOLDEN)


def seed_key(seed: int) -> int:
    """Return 64 random bits that depend on a seed."""
    return int(seed_sequence(seed, "env").generate_state(1, np.uint64)[0])


def fresh_seed() -> int:
    """Return a seed that the operating system chooses."""
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0]) & MAX_SEED


def checked_seed(seed: object) -> int:
    """Return a seed if it is one."""
    if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)) or not 0 <= seed <= MAX_SEED:
        raise OptionsError(f"seed is {seed!r}, expected a whole number from 0 to {MAX_SEED}")
    return int(seed)

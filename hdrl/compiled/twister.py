"""The Mersenne twister (MT19937) over a flat array, with Python's way to draw below a bound.

Random keys draw from it. It is this generator, rather than a smaller one, so that the compatibility mode repeats
the draws that HDeepRM makes with Python's ``random`` module.

References
----------
M. Matsumoto, T. Nishimura, "Mersenne Twister: A 623-Dimensionally Equidistributed Uniform
Pseudo-Random Number Generator", ACM TOMACS 8(1), 1998.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdrl.base.seeding import seed_sequence
from hdrl.compiled.jit import jit

N = 624
N_TWISTER = N + 1
"""Length of the state of a twister: its words, and the position."""

_M = 397

# Of `numpy.random.SeedSequence.generate_state`.
_FIRST_HASH, _HASH_FACTOR, _HASH_SHIFT = 0x8B51F9DD, 0x58F38DED, np.uint32(16)
_HASHES = np.cumprod(np.array([_FIRST_HASH] + N * [_HASH_FACTOR], dtype=np.uint32), dtype=np.uint32)


def _words_of(sequence: np.random.SeedSequence) -> NDArray[np.uint32]:
    """Return ``sequence.generate_state(N)``, for which NumPy makes one word after the other."""
    pool = sequence.pool
    words = pool ^ _HASHES[:-1].reshape(-1, len(pool))
    words *= _HASHES[1:].reshape(-1, len(pool))
    words ^= words >> _HASH_SHIFT
    return words.reshape(-1)


def twister_state(seed: int, name: str) -> NDArray[np.uint32]:
    """Return the state of a named random stream.

    Returns shape ``(625,)``: 624 words and the position.
    """
    state = np.empty(N + 1, dtype=np.uint32)
    state[:N] = _words_of(seed_sequence(seed, name))
    state[0] = 0x80000000  # never the all-zero state
    state[N] = N
    return state


def python_twister_state(seed: int) -> NDArray[np.uint32]:
    """Return the state that ``random.seed(seed)`` leaves Python's own generator in."""
    import random  # noqa: TID251 - its state is taken, nothing global is touched

    return np.array(random.Random(seed).getstate()[1], dtype=np.uint32)


@jit
def _mixed(high, low):
    y = (high & np.uint32(0x80000000)) | (low & np.uint32(0x7FFFFFFF))
    return (y >> np.uint32(1)) ^ ((y & np.uint32(1)) * np.uint32(0x9908B0DF))


@jit
def _refill(twister):
    for i in range(N - _M):  # two loops without a remainder become vectors
        twister[i] = twister[i + _M] ^ _mixed(twister[i], twister[i + 1])
    for i in range(N - _M, N - 1):
        twister[i] = twister[i + _M - N] ^ _mixed(twister[i], twister[i + 1])
    twister[N - 1] = twister[_M - 1] ^ _mixed(twister[N - 1], twister[0])
    twister[N] = np.uint32(0)


@jit
def next_word(twister):
    """Draw a word of 32 bits."""
    if twister[N] >= np.uint32(N):
        _refill(twister)
    y = twister[twister[N]]
    twister[N] += np.uint32(1)
    y ^= y >> np.uint32(11)
    y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
    y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
    y ^= y >> np.uint32(18)
    return y


@jit
def pass_over(twister, n):
    """Pass over ``n`` words, as if they had been drawn; at most as many as there are in a state."""
    if twister[N] + n > N:
        n -= N - np.int64(twister[N])
        _refill(twister)
    twister[N] += np.uint32(n)


@jit
def draw_below(twister, bound):
    """Draw a uniform integer in ``[0, bound)``, ``bound`` at least 1, as Python's ``random.choice`` does."""
    bits = 0
    rest = bound
    while rest > 0:
        bits += 1
        rest >>= 1
    shift = np.uint32(32 - bits)
    value = np.int64(next_word(twister) >> shift)
    while value >= bound:
        value = np.int64(next_word(twister) >> shift)
    return value

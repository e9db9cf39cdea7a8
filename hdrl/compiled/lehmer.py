"""Lehmer's generator: small random numbers whose whole state is one integer.

References
----------
S. K. Park, K. W. Miller, P. K. Stockmeyer, "Remarks on Choosing and Implementing Random Number Generators", CACM 36(7),
1993.
"""

from __future__ import annotations

from hdrl.compiled.jit import jit

MODULUS, _FACTOR = 2147483647, 48271


@jit
def following(state):
    """Return the state after a state of 1 to `MODULUS` - 1: itself the number that is drawn."""
    return state * _FACTOR % MODULUS

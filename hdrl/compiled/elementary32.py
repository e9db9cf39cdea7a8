"""Elementary functions of float32 numbers that have the same bits on every processor.

They are plain sums, products, quotients and choices, each rounded once, in an order that is written down: no fused
operation, no table, no call of a library. So loops over them become vectors of any width without a change of a bit.
Results are within 2 units in the last place of the true ones (``tanh``, ``sigmoid``, ``softplus``: 3).

The methods are those of the Cephes library by S. L. Moshier.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.jit import jit

F = np.float32
_ZERO, _HALF, _ONE, _TWO = F(0.0), F(0.5), F(1.0), F(2.0)
_NAN, _INF = F(np.nan), F(np.inf)

# exp
_LOG2_E = F(1.44269504088896341)
_LN2_HIGH, _LN2_LOW = F(0.693359375), F(-2.12194440e-4)
_ROUND = F(12582912.0)  # 1.5 * 2**23: what is added to it loses its fraction
_ROUND_BITS = np.int32(0x4B400000)
_E0, _E1, _E2 = F(1.9875691500e-4), F(1.3981999507e-3), F(8.3334519073e-3)
_E3, _E4, _E5 = F(4.1665795894e-2), F(1.6666665459e-1), F(5.0000001201e-1)
_EXP_LOW, _EXP_HIGH, _EXPM1_LOW = F(-87.33), F(89.0), F(-18.0)

# log
_SQRT_HALF_BITS = np.int32(0x3F3504F3)
_SMALLEST, _UP, _UP_EXPONENT = F(1.17549435e-38), F(8388608.0), F(23.0)
_L0, _L1, _L2 = F(7.0376836292e-2), F(-1.1514610310e-1), F(1.1676998740e-1)
_L3, _L4, _L5 = F(-1.2420140846e-1), F(1.4249322787e-1), F(-1.6668057665e-1)
_L6, _L7, _L8 = F(2.0000714765e-1), F(-2.4999993993e-1), F(3.3333331174e-1)
_LARGE = F(16777216.0)

# tanh
_T0, _T1, _T2 = F(-5.70498872745e-3), F(2.06390887954e-2), F(-5.37397155531e-2)
_T3, _T4, _TANH_SMALL = F(1.33314422036e-1), F(-3.33332819422e-1), F(0.625)

# sin, in double precision
_TWO_BY_PI, _ROUND_64 = 0.63661977236758134308, 6755399441055744.0
_HALF_PI_HIGH, _HALF_PI_LOW = 1.57079632673412561417e00, 6.07710050650619224932e-11
_S1, _S2, _S3 = -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04
_S4, _S5 = 2.75573137070700676789e-06, -2.50507602534068634195e-08
_C1, _C2, _C3 = 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05
_C4 = -2.75573143513906633035e-07


@jit
def _power_of_two(n):
    """Return ``2**n`` for a whole number from -126 to 127."""
    return np.int32((n + np.int32(127)) << np.int32(23)).view(F)


@jit
def _bits(x):
    return F(x).view(np.int32)


@jit
def _reduced(x):
    """Return the whole number of times that log 2 is in a number, and the rest times its exponential's series."""
    shifted = x * _LOG2_E + _ROUND
    times = shifted - _ROUND
    rest = (x - times * _LN2_HIGH) - times * _LN2_LOW
    series = ((((_E0 * rest + _E1) * rest + _E2) * rest + _E3) * rest + _E4) * rest + _E5
    return np.int32(_bits(shifted) - _ROUND_BITS), series * (rest * rest) + rest


@jit
def exp(x):
    """Return ``e**x``; 0 where that is below 1.2e-38: numbers so small slow a processor down."""
    bounded = _EXP_LOW if x < _EXP_LOW else (_EXP_HIGH if x > _EXP_HIGH else x)
    n, series = _reduced(bounded)
    half = np.int32(n >> np.int32(1))
    found = (series + _ONE) * _power_of_two(half) * _power_of_two(np.int32(n - half))
    return _ZERO if x < _EXP_LOW else found


@jit
def expm1(x):
    """Return ``e**x - 1``, exact for small numbers."""
    bounded = _EXPM1_LOW if x < _EXPM1_LOW else (_EXP_HIGH if x > _EXP_HIGH else x)
    n, series = _reduced(bounded)
    half = np.int32(n >> np.int32(1))
    back = np.int32(np.int32(127) if n > np.int32(126) else n)
    less = _ZERO if n > np.int32(126) else _power_of_two(np.int32(-back))
    return (series + (_ONE - less)) * _power_of_two(half) * _power_of_two(np.int32(n - half))


@jit
def log(x):
    """Return the natural logarithm: minus infinity of 0, NaN of negative numbers."""
    is_small = x < _SMALLEST
    scaled = x * _UP if is_small else x
    bits = _bits(scaled)
    n = np.int32(np.int32(bits - _SQRT_HALF_BITS) >> np.int32(23))
    f = np.int32(bits - np.int32(n << np.int32(23))).view(F) - _ONE
    exponent = F(n) - (_UP_EXPONENT if is_small else _ZERO)
    z = f * f
    y = (((((_L0 * f + _L1) * f + _L2) * f + _L3) * f + _L4) * f + _L5) * f
    y = (((y + _L6) * f + _L7) * f + _L8) * f * z
    y = y + exponent * _LN2_LOW
    y = y - _HALF * z
    found = (f + y) + exponent * _LN2_HIGH
    found = x if x == _INF else found
    found = -_INF if x == _ZERO else found
    return found if x >= _ZERO else _NAN


@jit
def log1p(x):
    """Return ``log(1 + x)``, exact for small numbers."""
    u = _ONE + x
    found = log(u) + (x - (u - _ONE)) / u
    found = log(x) if x > _LARGE else found
    return -_INF if x == -_ONE else found


@jit
def tanh(x):
    """Return the hyperbolic tangent."""
    size = abs(x)
    z = x * x
    small = ((((_T0 * z + _T1) * z + _T2) * z + _T3) * z + _T4) * z * x + x
    large = _ONE - _TWO / (exp(size + size) + _ONE)
    large = -large if x < _ZERO else large
    return small if size < _TANH_SMALL else large


@jit
def sigmoid(x):
    """Return ``1 / (1 + e**-x)``."""
    return _ONE / (_ONE + exp(-x))


@jit
def softplus(x):
    """Return ``log(1 + e**x)``."""
    return (x if x > _ZERO else _ZERO) + log1p(exp(-abs(x)))


@jit
def sin(x):
    """Return the sine of a number below a million."""
    wide = np.float64(x)
    shifted = wide * _TWO_BY_PI + _ROUND_64
    times = shifted - _ROUND_64
    rest = (wide - times * _HALF_PI_HIGH) - times * _HALF_PI_LOW
    z = rest * rest
    sine = rest + rest * z * (_S1 + z * (_S2 + z * (_S3 + z * (_S4 + z * _S5))))
    cosine = 1.0 - 0.5 * z + z * z * (_C1 + z * (_C2 + z * (_C3 + z * _C4)))
    quarter = np.int64(times) & 3
    found = sine if quarter & 1 == 0 else cosine
    return F(-found if quarter & 2 != 0 else found)

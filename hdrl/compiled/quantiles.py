"""Logarithms and normal quantiles of float64 numbers with the same bits on every processor, for what is drawn.

As `hdrl.compiled.elementary32`: nothing but sums, products, quotients and roots in an order that is written down.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit

_SQRT_HALF_BITS = np.int64(0x3FE6A09E667F3BCD)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_G1, _G2, _G3 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01
_G4, _G5 = 2.222219843214978396e-01, 1.818357216161805012e-01
_G6, _G7 = 1.531383769920937332e-01, 1.479819860511658591e-01


@jit
def log_of(x):
    """Return the natural logarithm of a positive float64 that is no denormal; the method of fdlibm."""
    bits = np.float64(x).view(np.int64)
    n = (bits - _SQRT_HALF_BITS) >> 52
    f = np.int64(bits - (n << 52)).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (_G2 + w * (_G4 + w * _G6))
    odd = z * (_G1 + w * (_G3 + w * (_G5 + w * _G7)))
    half = 0.5 * f * f
    exponent = np.float64(n)
    return s * (half + (even + odd)) + exponent * _LN2_LOW - half + f + exponent * _LN2_HIGH


@jit
def waiting_time(uniform):
    """Return the exponential time, of mean 1, for a uniform number of at least 0 and below 1."""
    return -log_of(1.0 - uniform)


@jit
def normal(share):
    """Return the number below which a share of a standard normal distribution lies; the share is between 0 and 1.

    M. J. Wichura, "The percentage points of the normal distribution", Applied Statistics 37, 1988 (AS 241).
    """
    q = share - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        above = ((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) * r
        above = ((above + 45921.953931549871457) * r + 13731.693765509461125) * r + 1971.5909503065514427
        above = (above * r + 133.14166789178437745) * r + 3.387132872796366608
        below = ((5226.495278852545925 * r + 28729.085735721942674) * r + 39307.89580009271061) * r
        below = ((below + 21213.794301586595867) * r + 5394.1960214247511077) * r + 687.1870074920579083
        below = (below * r + 42.313330701600911252) * r + 1.0
        return q * above / below
    r = math.sqrt(-log_of(share if q < 0.0 else 1.0 - share))
    if r <= 5.0:
        r -= 1.6
        above = ((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r + 0.24178072517745061177) * r
        above = ((above + 1.27045825245236838258) * r + 3.64784832476320460504) * r + 5.7694972214606914055
        above = (above * r + 4.6303378461565452959) * r + 1.42343711074968357734
        below = ((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r + 0.0151986665636164571966) * r
        below = ((below + 0.14810397642748007459) * r + 0.68976733498510000455) * r + 1.6763848301838038494
        below = (below * r + 2.05319162663775882187) * r + 1.0
    else:
        r -= 5.0
        above = ((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 0.001242660947388078438) * r
        above = ((above + 0.026532189526576123093) * r + 0.29656057182850489123) * r + 1.7848265399172913358
        above = (above * r + 5.4637849111641143699) * r + 6.6579046435011037772
        below = ((2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r + 1.8463183175100546818e-5) * r
        below = ((below + 7.868691311456132591e-4) * r + 0.0148753612908506148525) * r + 0.13692988092273580531
        below = (below * r + 0.59983220655588793769) * r + 1.0
    found = above / below
    return -found if q < 0.0 else found

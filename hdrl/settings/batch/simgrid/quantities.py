"""Numbers with units as SimGrid and the platform files write them: ``11.72Gf``, ``10.0Gbps``, ``15us``."""

from __future__ import annotations

import math
import re

from hdrl.base.textnumbers import float_of

NUMBER_AND_UNIT = re.compile(r"\s*([0-9.+-]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*")

DECIMAL_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
BINARY_PREFIXES = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}

GBIT_PER_S = 1.25e8
"""One Gbit/s in bytes per second."""

SPEED_UNITS = {"": 1.0} | {f"{prefix}f": scale for prefix, scale in DECIMAL_PREFIXES.items()}
"""Factors to flop/s. A bare number counts in the base unit, as in SimGrid."""

BANDWIDTH_UNITS = (
    {"": 1.0}
    | {f"{prefix}Bps": scale for prefix, scale in (DECIMAL_PREFIXES | BINARY_PREFIXES).items()}
    | {f"{prefix}bps": scale * 0.125 for prefix, scale in (DECIMAL_PREFIXES | BINARY_PREFIXES).items()}
)
"""Factors to bytes per second."""

TIME_UNITS = {
    "": 1.0,
    "ps": 1e-12,
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}
"""Factors to seconds."""


def number_and_scale(text: str, units: dict[str, float]) -> tuple[float, float]:
    """Split a quantity into its number and the factor of its unit.

    Parameters
    ----------
    text
        The quantity, for instance ``"10.0Gbps"``.
    units
        The units that are possible, with their factors.
    """
    match = NUMBER_AND_UNIT.fullmatch(text)
    try:
        number = float_of(match[1]) if match else math.nan
    except ValueError:
        number = math.nan
    if match is None or match[2] not in units or not 0 <= number < math.inf:
        shown = ", ".join(unit for unit in units if unit)
        raise ValueError(f"{text[:40]!r} is not a quantity; expected a number that is not negative and one of: {shown}")
    return number, units[match[2]]


def quantity(text: str, units: dict[str, float]) -> float:
    """Return a quantity in the base unit.

    The number is multiplied by the factor of its unit, as SimGrid does it, so that both programs get the same double.

    Parameters
    ----------
    text
        The quantity, for instance ``"11.72Gf"``.
    units
        `SPEED_UNITS` (flop/s), `BANDWIDTH_UNITS` (bytes/s) or `TIME_UNITS` (s).
    """
    number, scale = number_and_scale(text, units)
    value = number * scale
    if math.isinf(value):
        raise ValueError(f"{text[:40]!r} is too large")
    return value


def gbit_per_s(text: str) -> float:
    """Return a bandwidth in Gbit/s; what is written in Gbps keeps its number.

    ``text``: the bandwidth, for instance ``"54.54Gbps"``.
    """
    number, scale = number_and_scale(text, BANDWIDTH_UNITS)
    return number * (scale / GBIT_PER_S)

"""Values as Slurm and PBS write them: durations, memory, resources."""

from __future__ import annotations

import re

import numpy as np

from hdrl.base.textnumbers import float_of, int_of

ABSENT = frozenset(("", "None", "Unknown", "N/A", "NONE", "UNKNOWN", "none", "unknown", "null"))
"""Texts of accounting for a missing date or number."""

CPU, GPU = "cpu", "gres/gpu"
"""Trackable resources whose limits simulations follow; limits of a type (``gres/gpu:a100``) are not among them."""

OVER_PARTITION = "OverPartQOS"
"""The flag of a QOS whose limits count before those of the partition's QOS."""

_DURATION = re.compile(r"(?:(\d{1,7})-)?(\d{1,9})(?::(\d{1,2}))?(?::(\d{1,2}(?:\.\d+)?))?")


def duration_s(text: str) -> float:
    """Return a duration of Slurm or PBS in seconds: ``1-02:03:04``, ``02:03:04``, ``03:04``.

    Parameters
    ----------
    text
        The duration; no limit is infinite, none that is said NaN.

    Raises
    ------
    ValueError
        If it is none.
    """
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return np.inf
    if text in ABSENT or text in ("Partition_Limit", "INVALID"):
        return np.nan
    if text.isdecimal() and len(text) < 10 and text.isascii():
        return float(text)
    found = _DURATION.fullmatch(text)
    if found is None or not text.isascii():
        raise ValueError(f"no duration: {text!r}")
    days, *rest = found.groups()
    numbers = [float(one) for one in rest if one is not None]
    if days is not None:  # days-hours:minutes:seconds, from the left
        numbers += [0.0] * (3 - len(numbers))
    return float(days or 0) * 86400 + sum(one * 60.0**position for position, one in enumerate(reversed(numbers)))


def minutes_s(text: str) -> float:
    """Return a limit of Slurm in seconds: plain numbers are minutes, all else as of `duration_s`."""
    return float_of(text) * 60 if text.isascii() and text.isdigit() else duration_s(text)


_MEMORY_KB = {"": 1024.0, "K": 1.0, "M": 2.0**10, "G": 2.0**20, "T": 2.0**30, "P": 2.0**40}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[B]?([cn]?)")


def memory_of(text: str) -> tuple[float, str]:
    """Return memory as Slurm writes it in KiB, and what it is for: ``c`` a core, ``n`` a node, else the whole job.

    Raises
    ------
    ValueError
        If it is none.
    """
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise ValueError(f"no memory: {text!r}")
    return float(found[1]) * _MEMORY_KB[found[2]], found[3]


def memory_kb(text: str) -> float:
    """Return memory with a suffix in KiB, NaN if it is not said."""
    if text in ABSENT:
        return np.nan
    return memory_of(text)[0]


def resource(text: str, name: str) -> float:
    """Return an amount in a list of trackable resources such as ``cpu=8,gres/gpu:a100=2,mem=4G``, NaN if not there.

    Parameters
    ----------
    name
        ``cpu``, ``node``, ``mem`` (KiB) or ``gres/gpu``, of which the types are summed up where there is no total.

    Raises
    ------
    ValueError
        If the amount is none.
    """
    total, of_types = np.nan, np.nan
    for part in text.split(","):
        key, _, amount = part.partition("=")
        if key == name:
            total = memory_kb(amount) if name == "mem" else float_of(amount)
        elif key.startswith(f"{name}:"):
            of_types = float_of(amount) + (0.0 if np.isnan(of_types) else of_types)
    return of_types if np.isnan(total) else total


def gres_gpus(text: str) -> float:
    """Return the GPUs of a list of generic resources such as ``gpu:a100:2(S:0),gpu:1``, NaN if there is none.

    Raises
    ------
    ValueError
        If a number is none.
    """
    total = np.nan
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        kind, *rest = part.removeprefix("gres/").replace("=", ":").split(":")
        if kind == "gpu":
            last = rest[-1] if rest and rest[-1].isdigit() else "1"
            total = int_of(last) + (0.0 if np.isnan(total) else total)
    return total

"""Many numbers as texts at once: interval sets, decimals as C prints them, names that CSV can hold.

Each function gives what printing the values one by one would give; arrays of a run's size are printed several times
faster.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.csvfiles import name_text

if TYPE_CHECKING:
    from hdrl.settings.batch.simulation.trace import BatchTrace

# ---- interval sets


def _decimal_text(values: NDArray[Any], separators: NDArray[np.uint8]) -> str:
    """Return each value (not negative) in decimal, followed by its separator, made without Python numbers."""
    width = len(str(int(values.max())))
    characters = np.empty((len(values), width + 1), dtype=np.uint8)
    kept = np.ones((len(values), width + 1), dtype=bool)
    for column in range(width):
        power = 10 ** (width - 1 - column)
        characters[:, column] = values // power % 10 + ord("0")
        if power > 1:
            kept[:, column] = values >= power
    characters[:, width] = separators
    return characters[kept].tobytes().decode("ascii")


def interval_texts(cores: NDArray[Any], first: NDArray[Any], count: NDArray[Any]) -> list[str]:
    """Return slices of an array of core ids as interval sets in Batsim's notation, ``"0-3 8"``.

    Parameters
    ----------
    cores
        Core ids, ascending within each slice.
    first, count
        Start and length of each slice; a length of 0 gives ``""``.

    Returns
    -------
    list[str]
        One text per slice.
    """
    used = np.flatnonzero(count > 0)
    texts = [""] * len(count)
    if len(used) == 0:
        return texts
    length = count[used].astype(np.int64)
    set_end = np.cumsum(length)
    ids = cores[np.repeat(first[used] - (set_end - length), length) + np.arange(set_end[-1])]
    begins = np.ones(len(ids) + 1, dtype=bool)
    begins[1:-1] = np.diff(ids) != 1
    begins[set_end] = True
    edges = np.flatnonzero(begins)
    low, high = ids[edges[:-1]], ids[edges[1:] - 1]
    ends_set = np.zeros(len(ids) + 1, dtype=bool)
    ends_set[set_end] = True
    after = np.where(ends_set[edges[1:]], ord("\n"), ord(" ")).astype(np.uint8)
    several = low != high
    separators = np.column_stack((np.where(several, np.uint8(ord("-")), after), after))
    kept = np.column_stack((np.ones(len(low), dtype=bool), several))
    text = _decimal_text(np.column_stack((low, high))[kept], separators[kept])
    for slot, line in zip(used.tolist(), text.splitlines(), strict=True):
        texts[slot] = line
    return texts


def allocation_texts(trace: BatchTrace) -> list[str]:
    """Return the cores of jobs as interval sets, ``"0-3 8"``; ``""`` for a job that never started."""
    return interval_texts(trace.allocated_cores, trace.records["first_core"], trace.records["n_cores"])


# ---- numbers


def runs(*columns: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Find runs of equal rows.

    Parameters
    ----------
    *columns
        The columns of the rows, of one length, at least one.

    Returns
    -------
    tuple[NDArray[np.bool_], NDArray[np.int64]]
        Mask of the rows that differ from the row before (the first does), and the number of each row's run, from 0.
    """
    begins = np.ones(len(columns[0]), dtype=bool)
    begins[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return begins, np.cumsum(begins) - 1


def number_texts(values: NDArray[np.float64]) -> list[str]:
    """Return numbers as JSON has them, with the digits that tell them from all others.

    Raises
    ------
    ValueError
        If one is not finite: JSON has no text for it.
    """
    if not np.all(np.isfinite(values)):
        raise ValueError("JSON has finite numbers only")
    return list(map(repr, values.tolist()))


# ---- names


def text_array(texts: Sequence[str]) -> NDArray[np.object_]:
    """Return texts as an array of objects; in an array of fixed width, one long text would widen every row."""
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


def name_texts(names: Sequence[str]) -> NDArray[np.object_]:
    """Return names as an array of texts, each as `name_text` has it."""
    if _PECULIAR.search("\0".join(names)):
        names = [name_text(name) for name in names]
    return text_array(names)


_PECULIAR = re.compile(r"""[,"\r\n]|(^|\0)'*[=+\-@\t]""")
"""Pattern of the characters that `name_text` may change in names that NUL characters join."""

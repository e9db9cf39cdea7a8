"""Tables of reference results: read, written, and compared within a declared tolerance."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hdrl.csvfiles import atomic_table, csv_rows
from hdrl.errors import ReadError
from hdrl.files import read_text

COLUMNS = ("row", "column", "value", "tolerance")

Place = tuple[str, str]
"""Row and column of a number."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One number that is claimed.

    Attributes
    ----------
    value
        The number; NaN where none exists.
    tolerance
        By how much a result may differ from it, not negative.
    """

    value: float
    tolerance: float


@dataclass(frozen=True, slots=True)
class Difference:
    """One number that is not what is claimed.

    Attributes
    ----------
    row, column
        Its place in the table.
    reference, found
        What is claimed and what came out; ``None`` where there is no such number any more.
    tolerance
        By how much they may differ.
    """

    row: str
    column: str
    reference: float
    found: float | None
    tolerance: float


def read_reference(path: Path, relative_tolerance: float) -> dict[Place, Reference]:
    """Read a table of reference results.

    Parameters
    ----------
    path
        A CSV file with the columns row, column, value and, if wanted, tolerance.
    relative_tolerance
        The tolerance, as a share of the value, of numbers without one of their own.

    Raises
    ------
    ReadError
        If it cannot be read, lacks a column, names a place twice, or holds something else than numbers.
    """
    (_, names), *rows = list(csv_rows(path, read_text(path))) or [(1, [])]
    if not set(COLUMNS[:3]) <= set(names):
        raise ReadError(path, f"must have the columns {', '.join(COLUMNS[:3])}", line=1)
    result: dict[Place, Reference] = {}
    for number, row in (one for one in rows if one[1]):
        line = dict(itertools.zip_longest(names, row[: len(names)], fillvalue=""))
        place = (line["row"], line["column"])
        if place in result:
            raise ReadError(path, f"{place[0]!r}, {place[1]!r} is there twice", line=number)
        try:
            value = float(line["value"]) if line["value"] else math.nan
            own = line.get("tolerance")
            tolerance = float(own) if own else abs(value) * relative_tolerance
        except (TypeError, ValueError):
            raise ReadError(path, "value and tolerance must be numbers", line=number) from None
        if tolerance < 0 or math.isinf(value):
            raise ReadError(path, "expected a finite value and a tolerance that is not negative", line=number)
        result[place] = Reference(value, 0.0 if math.isnan(tolerance) else tolerance)
    return result


def write_results(path: Path, results: Mapping[Place, float]) -> None:
    """Write results as a table that can be the reference of the next run.

    Parameters
    ----------
    path
        The file.
    results
        The numbers by place; NaN where none exists.
    """
    with atomic_table(path, COLUMNS[:3]) as write_row:
        for (row, column), value in results.items():
            write_row((row, column, "" if math.isnan(value) else repr(float(value))))


def differences(reference: Mapping[Place, Reference], found: Mapping[Place, float]) -> list[Difference]:
    """Return the claims that do not hold: the number differs by more than the tolerance, or is not there.

    Numbers that nobody claims are no differences.

    Parameters
    ----------
    reference
        What is claimed.
    found
        What came out.
    """
    result = []
    for place, wanted in reference.items():
        value = found.get(place)
        if value is None or not _is_near(value, wanted):
            result.append(Difference(*place, wanted.value, value, wanted.tolerance))
    return result


def _is_near(value: float, wanted: Reference) -> bool:
    if math.isnan(wanted.value) or math.isnan(value):
        return math.isnan(wanted.value) and math.isnan(value)
    return abs(value - wanted.value) <= wanted.tolerance

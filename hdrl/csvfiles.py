"""Tables in CSV files: all or nothing on the way out, clear errors on the way in."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hdrl.errors import ReadError
from hdrl.files import atomic_write, read_text


@contextlib.contextmanager
def atomic_table(path: str | Path, columns: Iterable[str]) -> Iterator[Callable[[Iterable[Any]], Any]]:
    """Write a CSV file so that it appears whole or not at all; floats have as many digits as they need.

    Parameters
    ----------
    path
        As `atomic_write` takes it.
    columns
        The first row.

    Yields
    ------
    callable
        Writes one more row.
    """
    with atomic_write(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        yield writer.writerow


def csv_rows(path: str | Path, text: str, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Give the rows of a CSV file.

    Parameters
    ----------
    path, text
        The file, for messages, and what it holds.
    delimiter
        What stands between two cells.

    Yields
    ------
    tuple
        The number of the last line of a row, and its cells.

    Raises
    ------
    ReadError
        If a row is none, or a field is too long.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    try:
        yield from ((reader.line_num, row) for row in reader)
    except csv.Error as error:
        raise ReadError(path, f"is no CSV: {error}", line=reader.line_num) from None


def read_table(path: str | Path, columns: Sequence[str]) -> list[list[str]]:
    """Return the rows below the first one of a CSV file, as text.

    Parameters
    ----------
    path
        The file.
    columns
        What its first row must be.

    Raises
    ------
    ReadError
        If it cannot be read, or is no such table.
    """
    header, *rows = [row for _, row in csv_rows(path, read_text(path))] or [[]]
    if header != list(columns) or any(len(row) != len(columns) for row in rows):
        raise ReadError(path, f"is no table of {', '.join(columns)}")
    return rows


def read_records(path: str | Path) -> list[dict[str, Any]]:
    """Return the rows of a CSV file, texts by the names in its first row; where a row is short, ``None``.

    Raises
    ------
    ReadError
        If it cannot be read, or is no CSV.
    """
    (_, names), *rows = list(csv_rows(path, read_text(path))) or [(1, [])]
    return [dict(itertools.zip_longest(names, row[: len(names)])) for _, row in rows if row]

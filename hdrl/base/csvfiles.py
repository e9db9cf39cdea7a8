"""Tables in CSV files: all or nothing on the way out, clear errors on the way in."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hdrl.base.errors import ReadError
from hdrl.base.files import atomic_write, read_text


@contextlib.contextmanager
def atomic_table(path: str | Path, columns: Iterable[str]) -> Iterator[Callable[[Iterable[Any]], Any]]:
    """Write a CSV file so that it appears whole or not at all; floats have as many digits as they need.

    Texts that begin like a formula get an apostrophe, which `read_table` and `read_records` take away again.

    Yields
    ------
    callable
        Writes one more row.
    """
    with atomic_write(path) as out:
        writer = csv.writer(out, lineterminator="\n")

        def write_row(cells: Iterable[Any]) -> Any:
            return writer.writerow([_plain(cell) for cell in cells])

        write_row(columns)
        yield write_row


def write_records(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with the same keys as CSV; missing numbers are empty, floats have as many digits as they need.

    Raises
    ------
    ValueError
        If rows have different keys.
    """
    for number, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            odd = sorted(row.keys() ^ rows[0].keys())
            raise ValueError(f"row {number} of the table has other columns than the first one: {', '.join(odd)}")
    with atomic_table(path, rows[0]) as write_row:
        for row in rows:
            write_row([cell_text(value) for value in row.values()])


def cell_text(value: object) -> str:
    """Return a value as a cell has it: nothing for a missing one, a float with as many digits as it needs."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)


def _plain(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula, which names of others may look like."""
    if not isinstance(cell, str) or cell.isalnum():
        return cell
    return no_formula(cell.replace("\r", "\n"))  # the only end of a line that `csv` quotes whatever its version


def no_formula(text: str) -> str:
    """Return a text as a cell has it: one that a spreadsheet could take for a formula gets an apostrophe."""
    return text if _FORMULA.match(text) is None or _is_number(text) else f"'{text}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def as_written(cell: str) -> str:
    """Return the argument of `no_formula`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) is not None else cell


_FORMULA = re.compile(r"'*[=+\-@\t\n]")
"""Beginning of a cell that a spreadsheet may compute, or that was one before it got an apostrophe."""


def csv_rows(path: str | Path, text: str, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Give the rows of a CSV file.

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
        raise ReadError(path, f"is not CSV: {error}", line=reader.line_num) from None


DELIMITERS = (",", ";", "\t", "|")
"""Delimiters allowed between two cells."""


def delimiter_of(line: str) -> str:
    """Return the delimiter of a CSV file from its first line."""
    return max(DELIMITERS, key=line.count)


def named_rows(
    path: str | Path, text: str, columns: Sequence[str], *, has_header: bool = True
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a user's CSV file by the names of their columns, without spaces around cells and blank lines.

    The delimiter is the most frequent one of the first line that is not blank.

    Parameters
    ----------
    columns
        Columns that must be there, in any order, others among them; without a header those of the file, in this order.

    Yields
    ------
    tuple
        The number of the last line of a row, and its cells.

    Raises
    ------
    ReadError
        If a column is missing or occurs twice, or a row has another number of cells.
    """
    first_line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    numbered = csv_rows(path, text, delimiter_of(first_line))
    lines = ((number, [cell.strip() for cell in row]) for number, row in numbered if any(map(str.strip, row)))
    names: Sequence[str] = columns
    if has_header:
        first, names = next(lines, (1, []))
        missing = [name for name in columns if name not in names]
        if missing:
            raise ReadError(path, f"has no column {missing[0]!r}, expected {','.join(columns)}", line=first)
        twice = [name for name in dict.fromkeys(names) if name and names.count(name) > 1]
        if twice:
            raise ReadError(path, f"has two columns {twice[0]!r}, expected each name once", line=first)
    for number, line in lines:
        if len(line) != len(names):
            raise ReadError(path, f"has {len(line)} columns, expected {len(names)}", line=number)
        yield number, dict(zip(names, line, strict=True))


def read_table(path: str | Path, columns: Sequence[str]) -> list[list[str]]:
    """Return the rows below the first one of a CSV file, as text."""
    header, *rows = [[as_written(cell) for cell in row] for _, row in csv_rows(path, read_text(path))] or [[]]
    if header != list(columns) or any(len(row) != len(columns) for row in rows):
        raise ReadError(path, f"is not a table of {', '.join(columns)}")
    return rows


def read_records(path: str | Path) -> list[dict[str, Any]]:
    """Return the rows of a CSV file, texts by the names in its first row; where a row is short, ``None``."""
    names, *rows = [[as_written(cell) for cell in row] for _, row in csv_rows(path, read_text(path))] or [[]]
    return [dict(itertools.zip_longest(names, row[: len(names)])) for row in rows if row]


def quoted(text: str) -> str:
    """Return a text in double quotes, those in it doubled, as a field of a CSV row."""
    return '"' + text.replace('"', '""') + '"'


def name_text(name: str) -> str:
    """Return a name as a field of a CSV row, no formula; one that would break the row is quoted (Batsim breaks it)."""
    text = no_formula(name)
    return quoted(text) if re.search(r'[,"\r\n]', text) else text

"""Any table in CSV, with a file that defines its columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from hdrl.base.errors import OptionsError, ReadError, quoted, suggest
from hdrl.base.files import open_bytes, read_json
from hdrl.base.textnumbers import float_of
from hdrl.options.block import Block
from hdrl.options.reading import checked
from hdrl.settings.batch.site_rules.values import ABSENT, duration_s
from hdrl.site.readers.rows import UNREADABLE, Attempt, Attempts
from hdrl.site.readers.sacct import state_of
from hdrl.site.records import AttemptState, Dump
from hdrl.site.submitline import program_of
from hdrl.site.values import Clock

Text = Annotated[str, Field(min_length=1, max_length=200)]


class Columns(Block):
    """Columns by content; all but ``submit``, ``start``, ``cores`` and one of ``end`` and ``run`` are optional."""

    id: Text | None = None
    submit: Text
    eligible: Text | None = None
    start: Text
    end: Text | None = None
    run: Text | None = None
    limit: Text | None = None
    cores: Text
    nodes: Text | None = None
    gpus: Text | None = None
    state: Text | None = None
    user: Text | None = None
    account: Text | None = None
    name: Text | None = None
    queue: Text | None = None
    partition: Text | None = None
    work_dir: Text | None = None
    submit_line: Text | None = None


class TableMapping(Block):
    """Meaning of a table."""

    columns: Columns
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    dates: Annotated[str, Field(max_length=100)] = "auto"
    durations: Literal["s", "min", "h", "auto"] = "auto"
    limits: Literal["s", "min", "h", "auto"] = "auto"
    states: dict[str, Literal["done", "failed", "cancelled", "timeout", "stopped", "running", "pending"]] = Field(
        default_factory=dict
    )


_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


def read_mapping(path: Path) -> TableMapping:
    """Read the mapping of a table.

    Raises
    ------
    ReadError
        If the file is no such mapping.
    """
    found = checked(TableMapping, read_json(path), path)
    if found.columns.end is None and found.columns.run is None:
        raise ReadError(path, "columns names neither end nor run, expected at least one of them")
    return found


def read_csv(path: Path, mapping_file: Path | None, clock: Clock) -> Dump:
    """Read a table in CSV.

    Parameters
    ----------
    path
        The table; its first row names the columns.
    mapping_file
        Meaning of the columns, JSON.

    Raises
    ------
    OptionsError
        If there is no mapping.
    ReadError
        If the table lacks a column that the mapping names, or is no CSV.
    """
    if mapping_file is None:
        raise OptionsError(f"{path}: a table in CSV needs --mapping, a file that defines its columns")
    mapping = read_mapping(mapping_file)
    reader = _Reader(mapping, clock)
    with open_bytes(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
        rows = csv.reader(text, delimiter=mapping.delimiter, skipinitialspace=True)
        try:
            header = [cell.strip() for cell in next(rows, [])]
            for key, title in mapping.columns.model_dump(exclude_none=True).items():
                if title not in header:
                    found = suggest(title, header)
                    raise ReadError(
                        path, f"has no column {quoted(title)} (columns.{key} of {mapping_file}); {found}", 1
                    )
            for row in rows:
                if row:
                    reader.add(dict(zip(header, row, strict=False)), is_whole=len(row) == len(header))
        except csv.Error as error:
            raise ReadError(path, f"is not CSV: {error}", line=rows.line_num) from None
    return reader.found.dump()


class _Reader:
    """Turns rows of a table into attempts."""

    def __init__(self, mapping: TableMapping, clock: Clock) -> None:
        self.found = Attempts("csv")
        self._mapping = mapping
        self._columns = mapping.columns
        self._clock = clock
        self._ids: dict[str, int] = {}

    def add(self, row: Mapping[str, str], *, is_whole: bool) -> None:
        """Take one row."""
        with self.found.row() as attempt:
            if not is_whole:
                attempt.skip(UNREADABLE)
            else:
                self._read(row, attempt)

    def _read(self, row: Mapping[str, str], attempt: Attempt) -> None:
        columns = self._columns

        def cell(title: str | None) -> str:
            return "" if title is None else row[title].strip()

        attempt["job"] = self._number(cell(columns.id))
        for name, title in (
            ("submit_s", columns.submit),
            ("eligible_s", columns.eligible),
            ("start_s", columns.start),
            ("end_s", columns.end),
        ):
            attempt[name] = self._date(cell(title))
        attempt["run_s"] = _duration(cell(columns.run), self._mapping.durations)
        attempt["limit_s"] = _duration(cell(columns.limit), self._mapping.limits)
        for name, title in (("cores", columns.cores), ("nodes", columns.nodes), ("gpus", columns.gpus)):
            text = cell(title)
            attempt[name] = (0 if name == "gpus" else -1) if text in ABSENT else int(float_of(text))
        attempt["state"] = self._state(cell(columns.state), has_ended=not np.isnan(attempt["start_s"]))
        for name, title in (
            ("user", columns.user),
            ("account", columns.account),
            ("name", columns.name),
            ("qos", columns.queue),
            ("partition", columns.partition),
            ("work_dir", columns.work_dir),
        ):
            attempt.name(name, cell(title))
        attempt.name("submit_line", program_of(cell(columns.submit_line)))

    def _number(self, text: str) -> int:
        """Return the number of a job: its id if that is one, else the next that no id has used."""
        if text.isascii() and text.isdigit() and len(text) < 16:
            return int(text)
        if not text:
            return -2 - self.found.n_rows
        return self._ids.setdefault(text, 2**60 + len(self._ids))

    def _date(self, text: str) -> float:
        form = self._mapping.dates
        if form == "auto" or text in ABSENT:
            return self._clock.second(text)
        if form == "epoch":
            return float_of(text)
        found = datetime.strptime(text, form)
        if found.tzinfo is not None:
            return found.astimezone(UTC).timestamp()
        return self._clock.second(found.isoformat(timespec="seconds"))

    def _state(self, text: str, *, has_ended: bool) -> AttemptState:
        if not text:
            return AttemptState.DONE if has_ended else AttemptState.PENDING
        if text in self._mapping.states:
            return AttemptState[self._mapping.states[text].upper()]
        return AttemptState(int(state_of(text)))


def _duration(text: str, unit: str) -> float:
    if text in ABSENT:
        return float("nan")
    parse: Callable[[str], float] = duration_s if unit == "auto" else float_of
    return parse(text) * _SECONDS.get(unit, 1.0)

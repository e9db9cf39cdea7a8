"""Attempts that a reader makes one by one, for formats that no columns can be taken of."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from hdrl.base.errors import quoted
from hdrl.site.records import RECORD_DTYPE, Dump, new_names, unknown_records

UNREADABLE = "rows that cannot be read"

_UNKNOWN = unknown_records(1)[0]
_PLACES = {name: place for place, name in enumerate(RECORD_DTYPE.names or ())}
_LIMITS = {name: np.iinfo(kind) for name, (kind, *_) in (RECORD_DTYPE.fields or {}).items() if kind.kind == "i"}


class Attempt:
    """One attempt, of which nothing is known at first."""

    def __init__(self, owner: Attempts) -> None:
        self.values = list(_UNKNOWN.item())
        self.reason = ""
        self._owner = owner

    def __getitem__(self, column: str) -> Any:
        return self.values[_PLACES[column]]

    def __setitem__(self, column: str, value: float) -> None:
        limits = _LIMITS.get(column)
        if limits is not None and not limits.min <= value <= limits.max:
            raise ValueError(f"{column} is {value}")
        self.values[_PLACES[column]] = value

    def name(self, column: str, text: str) -> None:
        """Say a name."""
        self.values[_PLACES[column]] = self._owner.names[column][text]

    def skip(self, reason: str) -> None:
        """Say that this row is no attempt, and why."""
        self.reason = reason


class Attempts:
    """The attempts of a file, and what became of its rows."""

    def __init__(self, form: str) -> None:
        self.names = new_names()
        self.notes: list[str] = []
        self._form = form
        self._rows: list[tuple[Any, ...]] = []
        self._skipped: Counter[str] = Counter()
        self._n_rows = 0
        self._first_fault = ""

    @contextlib.contextmanager
    def row(self) -> Iterator[Attempt]:
        """Read a row of the file: it becomes an attempt unless it is skipped or cannot be read."""
        self._n_rows += 1
        attempt = Attempt(self)
        try:
            yield attempt
        except (ValueError, OverflowError, KeyError, TypeError, AttributeError) as error:
            self._first_fault = self._first_fault or quoted(str(error))
            attempt.skip(UNREADABLE)
        self._keep(attempt)

    @contextlib.contextmanager
    def more(self) -> Iterator[Attempt]:
        """Make an attempt of rows that were counted already."""
        attempt = Attempt(self)
        try:
            yield attempt
        except (ValueError, OverflowError, KeyError, TypeError, AttributeError) as error:
            self._first_fault = self._first_fault or quoted(str(error))
            self._skipped[UNREADABLE] += 1
            return
        self._rows.append(tuple(attempt.values))

    def _keep(self, attempt: Attempt) -> None:
        if attempt.reason:
            self._skipped[attempt.reason] += 1
        else:
            self._rows.append(tuple(attempt.values))

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return self._n_rows

    def skip(self, reason: str, n_rows: int = 1) -> None:
        """Count rows that are no attempts."""
        self._n_rows += n_rows
        self._skipped[reason] += n_rows

    def dump(self, **more: Any) -> Dump:
        """Return all attempts."""
        records = np.array(self._rows, dtype=RECORD_DTYPE) if self._rows else unknown_records(0)
        notes = list(self.notes)
        if self._first_fault:
            notes.append(f"the first row that cannot be read: {self._first_fault}")
        return Dump(self._form, records, self.names, self._n_rows, self._skipped, notes, **more)

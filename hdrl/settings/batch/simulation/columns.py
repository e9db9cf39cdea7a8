"""Columns of arrays as CSV: the rows are printed by compiled code, or else by Python, with the same text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.backends import JIT_DISABLED
from hdrl.compiled.borrowed import Borrowed
from hdrl.settings.batch.kernel import printing
from hdrl.settings.batch.simulation.texts import interval_texts

_ROWS_AT_ONCE = 16_384
"""Rows that are printed together: enough for calls not to count, and few enough to stay in the cache."""

_ROOM_OF_A_SET = 16


class Column(Protocol):
    """A column of a table."""

    def texts(self, part: slice) -> Iterable[str]:
        """Return the texts of some rows."""
        ...

    def put_in(self, block: _Block, part: slice) -> None:
        """Put some rows into what is printed together."""
        ...


class _Block:
    """Arguments of the compiled code for some rows."""

    def __init__(self) -> None:
        self.kinds: list[int] = []
        self.reals: list[NDArray[np.float64]] = []
        self.wholes: list[NDArray[np.int64]] = []
        self.characters: list[bytes] = []
        self.n_characters = 0
        self.members = np.zeros(0, dtype=np.int32)

    def printed(self, n_rows: int) -> str | None:
        """Return the rows as text; ``None`` if Python is to print them."""
        room = n_rows * _ROOM_OF_A_SET + 2 * printing.LONGEST
        while True:
            characters = b"".join(self.characters)
            table = printing.new_table(self.kinds, self.reals, self.wholes, characters, self.members, n_rows, room)
            n = int(printing.print_rows(Borrowed(table).addresses, n_rows, room))
            if n != printing.NO_ROOM:
                return None if n == printing.UNCERTAIN else table.printed[:n].tobytes().decode()
            room *= 4


@dataclass(frozen=True, slots=True)
class Reals:
    """Real numbers."""

    values: NDArray[np.float64]  # the numbers
    kind: int = printing.FIXED  # ``FIXED``, ``FIXED_OR_NA`` or ``GENERAL``, see `kernel.printing`

    def texts(self, part: slice) -> Iterable[str]:
        """Return the texts of some rows, see `Column`."""
        values = self.values[part].tolist()
        if self.kind == printing.GENERAL:
            return [f"{value:g}" for value in values]
        has_na = self.kind == printing.FIXED_OR_NA
        return ["NA" if has_na and value == -1.0 else f"{value:f}" for value in values]

    def put_in(self, block: _Block, part: slice) -> None:
        """Put some rows into what is printed together, see `Column`."""
        block.kinds.append(self.kind)
        block.reals.append(self.values[part])


@dataclass(frozen=True, slots=True)
class Wholes:
    """Whole numbers."""

    values: NDArray[Any]

    def texts(self, part: slice) -> Iterable[str]:
        """Return the texts of some rows, see `Column`."""
        return map(str, self.values[part].tolist())

    def put_in(self, block: _Block, part: slice) -> None:
        """Put some rows into what is printed together, see `Column`."""
        block.kinds.append(printing.WHOLE)
        block.wholes.append(self.values[part].astype(np.int64))


@dataclass(frozen=True, slots=True)
class Characters:
    """Single characters of ASCII, of type ``S1``."""

    values: NDArray[np.bytes_]

    def texts(self, part: slice) -> Iterable[str]:
        """Return the texts of some rows, see `Column`."""
        return self.values[part].astype("U1").tolist()  # type: ignore[no-any-return]

    def put_in(self, block: _Block, part: slice) -> None:
        """Put some rows into what is printed together, see `Column`."""
        block.kinds.append(printing.CHARACTER)
        block.wholes.append(np.ascontiguousarray(self.values[part]).view(np.uint8).astype(np.int64))


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts, as they are to stand there: an array of objects."""

    values: NDArray[np.object_]

    def texts(self, part: slice) -> Iterable[str]:
        """Return the texts of some rows, see `Column`."""
        return self.values[part].tolist()  # type: ignore[no-any-return]

    def put_in(self, block: _Block, part: slice) -> None:
        """Put some rows into what is printed together, see `Column`."""
        texts = self.values[part].tolist()
        characters = "".join(texts)
        encoded = characters.encode()
        lengths = map(len, texts) if len(encoded) == len(characters) else (len(text.encode()) for text in texts)
        n = np.fromiter(lengths, dtype=np.int64, count=len(texts))
        block.kinds.append(printing.TEXT)
        block.wholes += [block.n_characters + np.cumsum(n) - n, n]
        block.characters.append(encoded)
        block.n_characters += len(encoded)


@dataclass(frozen=True, slots=True)
class Sets:
    """Sets of core ids as intervals; a table has one such column."""

    members: NDArray[np.int32]  # core ids, ascending within each set
    # first member and size of each set
    first: NDArray[Any]
    n: NDArray[Any]

    def texts(self, part: slice) -> Iterable[str]:
        """Return the texts of some rows, see `Column`."""
        return interval_texts(self.members, self.first[part], self.n[part])

    def put_in(self, block: _Block, part: slice) -> None:
        """Put some rows into what is printed together, see `Column`."""
        block.kinds.append(printing.SET)
        block.wholes += [self.first[part].astype(np.int64), self.n[part].astype(np.int64)]
        block.members = self.members


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table as CSV."""

    names: Sequence[str]
    columns: Sequence[Column]
    n_rows: int

    def parts(self) -> Iterator[str]:
        """Yield the text, some rows at a time: the text of a million jobs takes more memory than the arrays."""
        yield ",".join(self.names) + "\n"
        for first in range(0, self.n_rows, _ROWS_AT_ONCE):
            part = slice(first, min(first + _ROWS_AT_ONCE, self.n_rows))
            text = None if JIT_DISABLED else _compiled_text(self.columns, part)
            if text is None:
                rows = zip(*(column.texts(part) for column in self.columns), strict=True)
                text = "".join(map("{}\n".format, map(",".join, rows)))
            yield text

    def text(self) -> str:
        """Return the whole text."""
        return "".join(self.parts())


def _compiled_text(columns: Sequence[Column], part: slice) -> str | None:
    block = _Block()
    for column in columns:
        column.put_in(block, part)
    return block.printed(part.stop - part.start)

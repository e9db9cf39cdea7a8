"""Parts of a page: panels of parts, each shown by a template of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table."""

    text: str = ""  # its text
    aside: str = ""  # its remark, in small letters
    mark: str = ""  # ``"best"``, ``"good"``, ``"bad"`` or nothing
    is_code: bool = False  # True if it is to be copied
    span: int = 1  # number of columns that it fills
    drawing: Any = None  # a small picture instead of text, by the template ``interval.html``

    def classes(self, column: PageColumn) -> str:
        """Return its style in a column, as classes of CSS."""
        kinds = ["forest-cell" if column.scale is not None else "number" if column.is_number else "text"]
        if self.mark:
            kinds.append(f"is-{self.mark}")
        if not self.text and self.drawing is None:
            kinds.append("is-empty")
        return " ".join(kinds)


@dataclass(frozen=True, slots=True)
class PageColumn:
    """A column of a table."""

    title: str  # its heading
    unit: str = ""  # the unit of its numbers
    help: str = ""  # its explanation, shown by pointing at it
    is_number: bool = True  # True if it holds numbers
    place: int | None = None  # position of the run that it is about, for its colour; ``None`` if it is about none
    scale: Any = None  # the scale of its drawings

    @property
    def label(self) -> str:
        """Label before a cell where the table has no header."""
        if self.scale is not None:
            return f"{self.scale.below} | {self.scale.above}"
        return f"{self.title} ({self.unit})" if self.unit else self.title


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table."""

    title: str  # name of the row
    cells: Sequence[Cell]  # its cells
    # as of a `PageColumn`
    unit: str = ""
    help: str = ""
    place: int | None = None
    badge: str = ""  # a word that marks it: ``"learned"``
    is_code: bool = False  # True if the title is to be copied
    address: str = ""  # another page that it leads to; empty: none


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table."""

    template: ClassVar[str] = "table.html"

    caption: str  # heading of the table
    about: str  # name of the rows
    columns: Sequence[PageColumn]
    rows: Sequence[Row]
    # whether each row becomes a block of its own where the page is narrow; else the table scrolls within itself
    is_stacked: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture in two widths, each as the address of its data."""

    wide: str
    narrow: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with a title, a description in words, and the names of its colours."""

    template: ClassVar[str] = "chart.html"

    title: str  # heading of the chart
    words: str  # description of the chart
    picture: Picture  # the picture
    # position, which stands for the colour, and name of what is drawn; shown where there are several
    names: Sequence[tuple[int, str]]
    has_marks: bool = False  # True if it is made of marks instead of lines


@dataclass(frozen=True, slots=True)
class Schedules:
    """Gantt charts to zoom in."""

    template: ClassVar[str] = "schedules.html"

    title: str  # heading of the schedules
    runs: Sequence[tuple[int, str]]  # position and name of each run
    numbers: Sequence[str]  # numbers that colours can show
    item_word: str  # name of a rectangle, in the singular


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All verdicts of a comparison, folded away."""

    template: ClassVar[str] = "verdicts.html"

    verdicts: Sequence[str]


@dataclass(frozen=True, slots=True)
class File:
    """A file to read and to save, and the command that repeats the results by it."""

    name: str  # its name
    title: str  # name of its run
    text: str  # its contents
    command: str  # the command

    @property
    def address(self) -> str:
        """The file as a link that saves it."""
        return "data:application/json;charset=utf-8," + quote(self.text)


@dataclass(frozen=True, slots=True)
class Files:
    """Files and commands that repeat the results."""

    template: ClassVar[str] = "files.html"

    files: Sequence[File]
    note: str = ""


Part = PageTable | Chart | Schedules | Verdicts | Files


@dataclass(frozen=True, slots=True)
class Panel:
    """One tab."""

    title: str  # text of the tab
    parts: Sequence[Part]  # its contents
    name: str = ""  # a word for the address of the page
    note: str = ""  # text above its parts

    @property
    def word(self) -> str:
        """The word for the address."""
        return self.name or self.title.lower().replace(" ", "-")

"""What a page is made of: panels of parts, each shown by a template of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table.

    Attributes
    ----------
    text
        What it says.
    aside
        What else it says, in small letters.
    mark
        ``"best"``, ``"good"``, ``"bad"`` or nothing.
    is_code
        Whether it is to be copied.
    span
        How many columns it fills.
    drawing
        A small picture instead of text, by the template ``interval.html``.
    """

    text: str = ""
    aside: str = ""
    mark: str = ""
    is_code: bool = False
    span: int = 1
    drawing: Any = None

    def classes(self, column: Column) -> str:
        """Return how it looks in a column, as classes of CSS."""
        kinds = ["forest-cell" if column.scale is not None else "number" if column.is_number else "text"]
        if self.mark:
            kinds.append(f"is-{self.mark}")
        if not self.text and self.drawing is None:
            kinds.append("is-empty")
        return " ".join(kinds)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    title
        What stands above it.
    unit
        The unit of its numbers.
    help
        What it means, for those who point at it.
    is_number
        Whether it holds numbers.
    place
        Position of the run that it is about, for its colour; ``None`` if it is about none.
    scale
        The scale of its drawings.
    """

    title: str
    unit: str = ""
    help: str = ""
    is_number: bool = True
    place: int | None = None
    scale: Any = None

    @property
    def label(self) -> str:
        """What stands before a cell where the table has no header."""
        if self.scale is not None:
            return f"{self.scale.below} | {self.scale.above}"
        return f"{self.title} ({self.unit})" if self.unit else self.title


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    Attributes
    ----------
    title
        What it is about.
    cells
        Its cells.
    unit, help, place
        As of a `Column`.
    badge
        A word that marks it: ``"learned"``.
    is_code
        Whether the title is to be copied.
    address
        Another page that it leads to; empty: none.
    """

    title: str
    cells: Sequence[Cell]
    unit: str = ""
    help: str = ""
    place: int | None = None
    badge: str = ""
    is_code: bool = False
    address: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes
    ----------
    caption
        What it shows.
    about
        What its rows are.
    columns, rows
        What it holds.
    is_stacked
        Whether each row becomes a block of its own where the page is narrow; else the table scrolls within itself.
    """

    template: ClassVar[str] = "table.html"

    caption: str
    about: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    is_stacked: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture in two widths, each as the address of its data."""

    wide: str
    narrow: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with a title, words for those who cannot see it, and the names of its colours.

    Attributes
    ----------
    title
        What stands above it.
    words
        What it shows.
    picture
        The picture.
    names
        Position, which stands for the colour, and name of what is drawn; shown where there are several.
    has_marks
        Whether it is made of marks instead of lines.
    """

    template: ClassVar[str] = "chart.html"

    title: str
    words: str
    picture: Picture
    names: Sequence[tuple[int, str]]
    has_marks: bool = False


@dataclass(frozen=True, slots=True)
class Schedules:
    """Gantt charts to zoom in.

    Attributes
    ----------
    title
        What stands above them.
    runs
        Position and name of each run.
    numbers
        What colours can show.
    item_word
        What a rectangle is, in the singular.
    """

    template: ClassVar[str] = "schedules.html"

    title: str
    runs: Sequence[tuple[int, str]]
    numbers: Sequence[str]
    item_word: str


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All verdicts of a comparison, folded away."""

    template: ClassVar[str] = "verdicts.html"

    verdicts: Sequence[str]


@dataclass(frozen=True, slots=True)
class File:
    """A file to read and to save, and the command that repeats the results by it.

    Attributes
    ----------
    name
        Its name.
    title
        What it belongs to.
    text
        What it holds.
    command
        The command.
    """

    name: str
    title: str
    text: str
    command: str

    @property
    def address(self) -> str:
        """The file as a link that saves it."""
        return "data:application/json;charset=utf-8," + quote(self.text)


@dataclass(frozen=True, slots=True)
class Files:
    """How to repeat the results."""

    template: ClassVar[str] = "files.html"

    files: Sequence[File]
    note: str = ""


Part = Table | Chart | Schedules | Verdicts | Files


@dataclass(frozen=True, slots=True)
class Panel:
    """One tab.

    Attributes
    ----------
    title
        What stands on the tab.
    parts
        What it shows.
    name
        A word for the address of the page.
    note
        What stands above its parts.
    """

    title: str
    parts: Sequence[Part]
    name: str = ""
    note: str = ""

    @property
    def word(self) -> str:
        """The word for the address."""
        return self.name or self.title.lower().replace(" ", "-")

"""Output of commands: a bar on stderr that moves while there is nothing to count yet, tables, and lines of text."""

from __future__ import annotations

import contextlib
import copy
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

PREPARING = "preparing"
"""Text beside the bar until something is counted."""


_REFRESHED_EVERY_S = 0.1


USUAL_WIDTH = 160
"""Width of tables where neither a terminal nor COLUMNS sets it, unless their numbers need more."""

LEAST_NAME = 20
"""Least width of a column of names, unless all its names are shorter."""

_WIDEST = 100_000


def table_width() -> int:
    """Return the width of tables: the terminal's or COLUMNS, or `USUAL_WIDTH` where there is neither."""
    console = Console()
    return console.width if _is_bounded(console) else USUAL_WIDTH


def _is_bounded(console: Console) -> bool:
    return console.is_terminal or os.environ.get("COLUMNS", "").isdigit()


def new_table(texts: Sequence[str], numbers: Sequence[str] = (), title: str | None = None) -> Table:
    """Return an empty table with columns of texts on the left and columns of numbers on the right."""
    table = Table(title=title, title_justify="left")
    for name in texts:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", overflow="fold")
    return table


def print_text(text: str, style: str = "") -> None:
    """Print a text as it is, without cutting its lines; terminals show the style."""
    Console(highlight=False).print(Text(text, style=style), soft_wrap=True)


def print_table(table: Table) -> None:
    """Print a table without cutting a number: names fold first.

    Columns that do not fit on the terminal, or into COLUMNS where there is none, follow in a table of their own, which
    begins with the first column again. Without either, lines are as long as the numbers need.
    """
    console = Console(highlight=False)
    if _is_bounded(console):
        for part in _parts(table, console):
            console.print(part)
        return
    whole = _of_columns(table, table.columns)
    Console(highlight=False, width=max(USUAL_WIDTH, _least_width(whole, console))).print(whole)


def _parts(table: Table, console: Console) -> Iterator[Table]:
    """Return tables of the first column and of as many others as fit beside it."""
    first, *others = table.columns
    if not others:
        yield table
    while others:
        n = len(others)
        while n > 1 and _least_width(_of_columns(table, [first, *others[:n]]), console) > console.width:
            n -= 1
        yield _of_columns(table, [first, *others[:n]])
        others = others[n:]


def _least_width(table: Table, console: Console) -> int:
    """Return the width of a table whose numbers stay whole, with their heads, and whose names fold."""
    choices = console.options.update(width=_WIDEST, max_width=_WIDEST)
    widths = [
        (one.no_wrap, Measurement.get(console, choices, _of_columns(table, [one])).maximum) for one in table.columns
    ]
    return sum(width if is_whole else min(width, LEAST_NAME) for is_whole, width in widths)


def _of_columns(table: Table, columns: Sequence[Column]) -> Table:
    """Return a table with some of the columns of another one; its numbers stay whole."""
    part = copy.copy(table)
    part.columns = [copy.copy(column) for column in columns]
    for column in part.columns:
        column.no_wrap = column.no_wrap or column.justify == "right"
    return part


class _CountColumn(MofNCompleteColumn):
    """Count and total, once the total is known."""

    def render(self, task: Task) -> Text:
        """Return the text."""
        return Text() if task.total is None else super().render(task)


class StageBar:
    """A bar for one stage after the other; a context manager."""

    def __init__(self, console: Console, *columns: ProgressColumn) -> None:
        shown = TextColumn("{task.description}"), BarColumn(), _CountColumn(), TimeElapsedColumn(), *columns
        self._bar = Progress(
            *shown, console=console, auto_refresh=False, disable=console.quiet or not console.is_terminal
        )
        self._animation: tuple[threading.Thread, threading.Event] | None = None
        self._task = self._bar.add_task(PREPARING, total=None, numbers="")
        self._stage = PREPARING

    def __enter__(self) -> StageBar:
        self._bar.start()
        self._animate()
        return self

    def __exit__(self, *error: object) -> None:
        self._pause()
        self._bar.stop()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let the bar stand, without the thread that moves it: a process with a single thread can be copied."""
        self._pause()
        try:
            yield
        finally:
            self._animate()

    def _animate(self) -> None:
        if self._bar.disable:
            return
        stands = threading.Event()

        def refresh() -> None:
            while not stands.wait(_REFRESHED_EVERY_S):
                self._bar.refresh()

        self._animation = threading.Thread(target=refresh, daemon=True), stands
        self._animation[0].start()

    def _pause(self) -> None:
        if self._animation is not None:
            thread, stands = self._animation
            stands.set()
            thread.join()
            self._animation = None

    def show(self, stage: str, done: int, total: int, **fields: Any) -> None:
        """Show the progress of a stage; the clock begins anew with each."""
        if stage != self._stage:
            self._stage = stage
            self._bar.reset(self._task, description=stage, total=total)
        self._bar.update(self._task, completed=done, total=total, **fields)

"""What is shown: a bar on stderr that moves while there is nothing to count yet, and where tables are printed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

PREPARING = "preparing"
"""What stands beside the bar until something is counted."""


_REFRESHED_EVERY_S = 0.1


def table_console(width: int = 160) -> Console:
    """Return a console for tables, which do not fold where there is no terminal.

    Parameters
    ----------
    width
        How wide they may be there.
    """
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=max(width, console.width))


class _CountColumn(MofNCompleteColumn):
    """How many of how many, once that is known."""

    def render(self, task: Task) -> Text:
        """Return the text."""
        return Text() if task.total is None else super().render(task)


class StageBar:
    """A bar for one stage after the other; a context manager.

    Parameters
    ----------
    console
        Where it is shown; nowhere, if that is no terminal.
    *columns
        What else stands in its line, at the end.
    """

    def __init__(self, console: Console, *columns: ProgressColumn) -> None:
        shown = TextColumn("{task.description}"), BarColumn(), _CountColumn(), TimeElapsedColumn(), *columns
        self._bar = Progress(
            *shown, console=console, auto_refresh=False, disable=console.quiet or not console.is_terminal
        )
        self._mover: tuple[threading.Thread, threading.Event] | None = None
        self._task = self._bar.add_task(PREPARING, total=None, numbers="")
        self._stage = PREPARING

    def __enter__(self) -> StageBar:
        self._bar.start()
        self._move()
        return self

    def __exit__(self, *error: object) -> None:
        self._let_stand()
        self._bar.stop()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let the bar stand, without the thread that moves it: a process with a single thread can be copied."""
        self._let_stand()
        try:
            yield
        finally:
            self._move()

    def _move(self) -> None:
        if self._bar.disable:
            return
        stands = threading.Event()

        def refresh() -> None:
            while not stands.wait(_REFRESHED_EVERY_S):
                self._bar.refresh()

        self._mover = threading.Thread(target=refresh, daemon=True), stands
        self._mover[0].start()

    def _let_stand(self) -> None:
        if self._mover is not None:
            thread, stands = self._mover
            stands.set()
            thread.join()
            self._mover = None

    def show(self, stage: str, done: int, total: int, **fields: Any) -> None:
        """Show how far a stage is; the clock begins anew with each.

        Parameters
        ----------
        stage
            What is counted: ``"jobs"``.
        done, total
            How many of how many.
        **fields
            What further columns show.
        """
        if stage != self._stage:
            self._stage = stage
            self._bar.reset(self._task, description=stage, total=total)
        self._bar.update(self._task, completed=done, total=total, **fields)

"""A bar on stderr that moves while there is nothing to count yet: files are read, or code is compiled."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

PREPARING = "preparing"
"""What stands beside the bar until something is counted."""


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
        self._bar = Progress(*shown, console=console, disable=console.quiet or not console.is_terminal)
        self._task = self._bar.add_task(PREPARING, total=None, numbers="")
        self._stage = PREPARING

    def __enter__(self) -> StageBar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

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

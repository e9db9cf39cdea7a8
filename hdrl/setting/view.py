"""The view of a setting: what its run folders hold, and what can be drawn of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hdrl.trace.files import STAYS_FILE, TASKS_FILE, TraceFile, write_tables

if TYPE_CHECKING:
    from hdrl.figures.figure import Figure, Run

TABLE_FILES: Sequence[TraceFile] = (TraceFile((TASKS_FILE, STAYS_FILE), write_tables, "tasks and their stays"),)
"""The tables that any Trace can be written as."""


class View:
    """What is left of a simulation on disk and in pictures; usually tables of tasks and stays.

    Parameters
    ----------
    unit_word
        What a unit of its machines is called in pictures, in the singular.
    files
        What a run folder holds of a Trace; without the first file a folder is no run.
    figures
        What can be drawn of its runs, by name; ``None``: what can be drawn of all tables.
    """

    def __init__(
        self,
        unit_word: str = "unit",
        files: Sequence[TraceFile] = TABLE_FILES,
        figures: Mapping[str, Figure] | None = None,
    ) -> None:
        self.unit_word = unit_word
        self.files = files
        self._figures = figures

    @property
    def figures(self) -> Mapping[str, Figure]:
        """What can be drawn of its runs, by name."""
        if self._figures is not None:
            return self._figures
        from hdrl.figures.tables import TABLE_FIGURES

        return TABLE_FIGURES

    def read(self, folder: Path, name: str | None = None) -> Run:
        """Read a run folder for pictures and reports."""
        from hdrl.figures.tables import read_table_run

        return read_table_run(folder, name, unit_word=self.unit_word)

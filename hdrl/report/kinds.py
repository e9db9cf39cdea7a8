"""Kinds of run folders: which setting made a folder, and what that setting offers to look at.

A report asks a kind these questions and knows none by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hdrl.errors import UnknownName
from hdrl.figure import Figure, Run
from hdrl.metrics.catalogue import MetricInfo
from hdrl.report.folders import OPTIONS_FILE, PROVENANCE_FILE, read_object, run_folders


@dataclass(frozen=True, slots=True)
class RunKind:
    """What a setting tells of its run folders.

    Attributes
    ----------
    name
        Name of the setting, as options say it.
    main_file
        The file without which a folder is no run of it.
    metrics
        What every metric means, in the order of tables.
    default_metric
        The metric that decides unless told otherwise.
    shown_metrics
        Metrics of the first table, if a run has them.
    unrun
        Metrics that count items which were not brought to an end, so that means leave them out.
    figures
        What can be drawn of its runs and trainings, by name.
    read
        Reads a run folder, with the name that the run shall have.
    """

    name: str
    main_file: str
    metrics: Mapping[str, MetricInfo]
    default_metric: str
    shown_metrics: Sequence[str]
    unrun: Sequence[str]
    figures: Mapping[str, Figure]
    read: Callable[[Path, str | None], Run]


class RunKinds:
    """The kinds by name; each is loaded when it is first asked for."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = dict(homes)
        self._found: dict[str, RunKind] = {}

    def __getitem__(self, name: str) -> RunKind:
        """Return a kind; raise `UnknownName` with a suggestion if there is none of that name."""
        if name not in self._found:
            if name not in self._homes:
                raise UnknownName("kind of run folder", name, self.names())
            self._found[name] = importlib.import_module(self._homes[name]).KIND
        return self._found[name]

    def names(self) -> list[str]:
        """Return the names of all kinds."""
        return list({**self._homes, **self._found})

    def add(self, kind: RunKind) -> None:
        """Make a kind known.

        Parameters
        ----------
        kind
            The kind; it takes the place of another one of its name.
        """
        self._found[kind.name] = kind

    def remove(self, name: str) -> None:
        """Forget a kind that was added.

        Parameters
        ----------
        name
            Its name.
        """
        self._found.pop(name, None)


DEFAULT_KIND = "batch"
"""The kind of folders that name none: those of Batsim and of HDeepRM, too."""

RUN_KINDS = RunKinds({DEFAULT_KIND: "hdrl.report.batch.kind"})


def kind_of(folder: str | Path) -> RunKind:
    """Return the kind of a folder of a run, a training or a comparison.

    Parameters
    ----------
    folder
        The folder; its options, its sweep or its provenance may name its setting.

    Raises
    ------
    ReadError
        If a file of it is damaged.
    UnknownName
        If nobody knows its setting.
    """
    folder = Path(folder)
    inside = next((path for path in (folder, folder / "run_0") if (path / OPTIONS_FILE).is_file()), folder)
    for file in (OPTIONS_FILE, "sweep.json", PROVENANCE_FILE):
        name = read_object(inside / file).get("setting")
        if isinstance(name, str):
            return RUN_KINDS[name]
    return RUN_KINDS[DEFAULT_KIND]


def folders_of_runs(folders: Sequence[str | Path]) -> list[Path]:
    """Return the run folders that folders stand for, in their order.

    Parameters
    ----------
    folders
        Run folders, or folders of experiments with several runs.

    Raises
    ------
    ReadError
        If one is no run.
    """
    return [path for folder in folders for path in run_folders(folder, kind_of(folder).main_file)]

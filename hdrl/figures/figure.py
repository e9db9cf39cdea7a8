"""Figures of a setting, and its runs as pictures and reports need them.

Nothing here draws, and nothing here refers to a setting. `hdrl.report` draws whatever is offered in this form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from hdrl.metrics.catalogue import MetricInfo

SUMMARY = "Summary"
"""Title of the first tab of a report: what runs have to show at once stands there."""


@dataclass(frozen=True, slots=True)
class OnPage:
    """Section of a report's page that shows a figure."""

    tab: str  # title of the tab that it stands on; figures of one tab follow each other
    title: str  # its heading
    # describes what the picture shows, for readers who cannot see it; it gets the names of the runs on the page, and
    # what is drawn
    describe: Callable[[Sequence[str], Sequence[Any]], str] | None = None
    choices: Mapping[str, str] = field(default_factory=dict)  # the choices that it is drawn with


@dataclass(frozen=True, slots=True)
class Figure:
    """A kind of picture."""

    name: str  # its name, as ``hdrl plot`` takes it
    help: str  # its description, in a line
    # draws it: ``draw(runs, ax=None, **choices)`` returns a figure of matplotlib. By ``reads``, ``runs`` are a list of
    # the ``data`` of runs (`Run`), of the runs, or of folders of trainings, or the folder of a comparison. One with a
    # place on a page also takes ``positions``: for each run its position among all of the page, for its colour
    draw: Callable[..., Any]
    reads: Literal["runs", "metrics", "trainings", "comparison"] = "runs"  # inputs of the figure
    max_runs: int = 16  # largest number of runs or trainings that it can show
    # the options that it takes by name, with the values that they may have; none means any
    choices: Mapping[str, Collection[str]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()  # files; a folder must hold one of them; empty if every run can be drawn
    on_page: tuple[OnPage, ...] = ()  # its places in a report


def by_name(*figures: Figure) -> Mapping[str, Figure]:
    """Return figures by their names."""
    return MappingProxyType({one.name: one for one in figures})


@dataclass(frozen=True, slots=True)
class ItemNumber:
    """A number of each item of a schedule, which colours can show."""

    title: str  # its name: ``"the waiting time"``
    words: str  # its words for an item: ``"waited {}"``
    unit: str  # ``"s"`` for seconds, else empty
    values: NDArray[np.float64]  # the numbers, not negative, shape ``(n_items,)``


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring units with a name: a node, a cluster."""

    name: str
    first: int
    n_units: int


@dataclass(frozen=True, slots=True)
class ScheduleChart:
    """Units of each item over time: a Gantt chart to zoom in."""

    # names of an item and of a unit, in the singular
    item_word: str
    unit_word: str
    n_units: int  # number of units
    ids: Sequence[str]  # name of each item
    # span in which each item had its units, shape ``(n_items,)``
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    numbers: tuple[ItemNumber, ...]  # numbers of the items that colours can show
    # a rectangle for each block of neighbouring units: item, first unit and number of units, shape ``(n_bars,)``
    item: NDArray[np.int64]
    first_unit: NDArray[np.int64]
    n_held: NDArray[np.int64]
    # names of large groups of units, and of small ones, which are shown when one looks closer
    groups: tuple[Span, ...] = ()
    parts: tuple[Span, ...] = ()


class Drawn(Protocol):
    """Attributes of a run that every picture needs."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def policy(self) -> str | None:
        """Policy that decided; ``None`` if unknown."""

    @property
    def span_s(self) -> tuple[float, float]:
        """Its first and last date in seconds."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run as reports need it, whatever its setting."""

    name: str  # its name: the folder's, unless another was given
    folder: Path  # folder from which it was read
    policy: str | None  # policy that decided; ``None`` if unknown
    # names of what was run and on what; ``None`` if unknown
    workload: str | None
    platform: str | None
    metrics: Mapping[str, float]  # its metrics by name; NaN where one has no value
    n_items: int | None  # number of items that it had to run; ``None`` if unknown
    # the resolved options, and where the results come from; empty where the folder does not say
    options: Mapping[str, Any]
    provenance: Mapping[str, Any]
    data: Any  # data for the figures of its setting: a `Drawn`
    # definitions of the metrics that only some runs of the setting have
    own_infos: Mapping[str, MetricInfo] = field(default_factory=dict)
    # numbers that say what was run, by name: how many units, items,
    facts: Mapping[str, float] = field(default_factory=dict)
    # properties that runs must share for their numbers to be compared: by name, in the plural
    conditions: Mapping[str, Any] = field(default_factory=dict)
    # cautions for readers of its numbers: sentences about "the run", by kind
    cautions: Mapping[str, str] = field(default_factory=dict)
    schedule: Callable[[], ScheduleChart | None] = lambda: (
        None
    )  # returns its schedule; ``None`` if there is none to show

"""What a setting offers to look at: its figures, and its runs as pictures and reports need them.

Nothing here draws, and nothing here knows a setting. `hdrl.report` draws whatever is offered in this form.
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
    """A place of a figure on the page of a report.

    Attributes
    ----------
    tab
        Title of the tab that it stands on; figures of one tab follow each other.
    title
        What stands above it.
    describe
        Says in words what the picture shows, for those who cannot see it; it gets the names of the runs on the page,
        and what is drawn.
    choices
        The choices that it is drawn with.
    """

    tab: str
    title: str
    describe: Callable[[Sequence[str], Sequence[Any]], str] | None = None
    choices: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figure:
    """A kind of picture.

    Attributes
    ----------
    name
        Its name, as ``hdrl plot`` takes it.
    help
        What it shows, in a line.
    draw
        Draws it: ``draw(runs, ax=None, **choices)`` returns a figure of matplotlib. By ``reads``, ``runs`` are a list
        of the ``data`` of runs (`Run`), of the runs, or of folders of trainings, or the folder of a comparison. One
        with a place on a page also takes ``places``: for each run its position among all of the page, for its colour.
    reads
        What it is made of.
    max_runs
        How many runs or trainings it can show.
    choices
        The options that it takes by name, with the values that they may have; none means any.
    needs
        Files of which a folder must hold at least one; empty if every run can be drawn.
    on_page
        Where it stands in a report.
    """

    name: str
    help: str
    draw: Callable[..., Any]
    reads: Literal["runs", "metrics", "trainings", "comparison"] = "runs"
    max_runs: int = 16
    choices: Mapping[str, Collection[str]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    on_page: tuple[OnPage, ...] = ()


def by_name(*figures: Figure) -> Mapping[str, Figure]:
    """Return figures by their names."""
    return MappingProxyType({one.name: one for one in figures})


@dataclass(frozen=True, slots=True)
class ItemNumber:
    """A number of each item of a schedule, which colours can show.

    Attributes
    ----------
    title
        What it is: ``"the waiting time"``.
    words
        How an item words it: ``"waited {}"``.
    unit
        ``"s"`` for seconds, else empty.
    values
        The numbers, not negative, shape ``(n_items,)``.
    """

    title: str
    words: str
    unit: str
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring units with a name: a node, a cluster."""

    name: str
    first: int
    n_units: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Which item had which units when: a Gantt chart to zoom in.

    Attributes
    ----------
    item_word, unit_word
        What an item and a unit are, in the singular.
    n_units
        How many units there are.
    ids
        Name of each item.
    start_s, end_s
        When each item had its units, shape ``(n_items,)``.
    numbers
        Numbers of the items that colours can show.
    item, first_unit, n_held
        A rectangle for each block of neighbouring units: item, first unit and number of units, shape ``(n_bars,)``.
    groups, parts
        Names of large groups of units, and of small ones, which are shown when one looks closer.
    """

    item_word: str
    unit_word: str
    n_units: int
    ids: Sequence[str]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    numbers: tuple[ItemNumber, ...]
    item: NDArray[np.int64]
    first_unit: NDArray[np.int64]
    n_held: NDArray[np.int64]
    groups: tuple[Span, ...] = ()
    parts: tuple[Span, ...] = ()


class Drawn(Protocol):
    """What every picture asks of a run."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def policy(self) -> str | None:
        """Who decided; ``None`` if unknown."""

    @property
    def span_s(self) -> tuple[float, float]:
        """Its first and last date in seconds."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run as reports need it, whatever its setting.

    Attributes
    ----------
    name
        Its name: that of its folder unless another was given.
    folder
        Where it was read.
    policy
        Who decided; ``None`` if unknown.
    workload, platform
        Names of what was run and on what; ``None`` if unknown.
    metrics
        Its metrics by name; NaN where one has no value.
    own_infos
        What those of them mean that only some runs of the setting have.
    n_items
        How many items it had to run; ``None`` if unknown.
    options, provenance
        The resolved options, and where the results come from; empty where the folder does not say.
    data
        What the figures of its setting draw: a `Drawn`.
    facts
        Numbers that say what was run, by name: how many units, items, ...
    conditions
        What runs must have in common for their numbers to be compared: by name, in the plural.
    cautions
        What would mislead a reader of its numbers: sentences about "the run", by kind.
    schedule
        Returns its schedule; ``None`` if there is none to show.
    """

    name: str
    folder: Path
    policy: str | None
    workload: str | None
    platform: str | None
    metrics: Mapping[str, float]
    n_items: int | None
    options: Mapping[str, Any]
    provenance: Mapping[str, Any]
    data: Any
    own_infos: Mapping[str, MetricInfo] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    cautions: Mapping[str, str] = field(default_factory=dict)
    schedule: Callable[[], Schedule | None] = lambda: None

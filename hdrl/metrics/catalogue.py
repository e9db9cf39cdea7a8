"""Definition of every metric: unit, formula, source, and whether less is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from hdrl.base.errors import UnknownName


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """Definition of a metric.

    Attributes
    ----------
    unit
        Its unit; ``"1"`` for a pure number.
    formula
        Its formula, in words and symbols.
    source
        Source of the definition.
    lower_is_better
        ``True`` or ``False``; ``None`` where a comparison says nothing by itself.
    is_of_whole_run
        True if it is undefined for a part of the items of a simulation.
    hides_zero
        True if it is shown only where it is neither zero nor missing: what went wrong, what few loads have.
    counts_unrun
        True if it counts items that were not brought to an end, so that means leave them out.
    varies_little
        True if windows differ far less in it than in times that a schedule decides, as accuracies do.
    compared, shown, headline
        Its position, from 1, among the metrics that comparisons summarise by default (the first decides), that are
        shown after a run, and that stand in the first table of a report; 0 where it is none of them.
    """

    unit: str
    formula: str
    source: str
    lower_is_better: bool | None
    is_of_whole_run: bool = False
    hides_zero: bool = False
    counts_unrun: bool = False
    varies_little: bool = False
    compared: int = 0
    shown: int = 0
    headline: int = 0

    @property
    def sign(self) -> float:
        """Factor after which less is better: 1, or -1 where more is better; 1 also where neither is."""
        return -1.0 if self.lower_is_better is False else 1.0

    def side(self, ratio: float) -> str:
        """Return the meaning of a ratio to the baseline that differs from 1: ``better`` or ``worse``.

        Where neither side is better, it is ``lower`` or ``higher``.
        """
        words = {True: ("better", "worse"), False: ("worse", "better"), None: ("lower", "higher")}
        return words[self.lower_is_better][0 if ratio < 1 else 1]

    @property
    def preference(self) -> str:
        """``less is better``, ``more is better``, or ``neither side is better``."""
        words = {True: "less is better", False: "more is better", None: "neither side is better"}
        return words[self.lower_is_better]


less = partial(MetricInfo, lower_is_better=True)
"""A metric where less is better."""

more = partial(MetricInfo, lower_is_better=False)
"""A metric where more is better."""

neutral = partial(MetricInfo, lower_is_better=None)
"""A metric where neither side is better by itself."""


Role = Literal["compared", "shown", "headline"]


def with_roles(
    metrics: Mapping[str, MetricInfo],
    *,
    compared: Sequence[str],
    shown: Sequence[str] = (),
    headline: Sequence[str] = (),
) -> dict[str, MetricInfo]:
    """Return metrics with what they are for.

    Raises
    ------
    UnknownName
        If there is no such metric.
    """
    for name in (*compared, *shown, *headline):
        if name not in metrics:
            raise UnknownName("metric", name, metrics)

    def position(name: str, names: Sequence[str]) -> int:
        return names.index(name) + 1 if name in names else 0

    return {
        name: replace(
            info, compared=position(name, compared), shown=position(name, shown), headline=position(name, headline)
        )
        for name, info in metrics.items()
    }


def in_role(metrics: Mapping[str, MetricInfo], role: Role) -> tuple[str, ...]:
    """Return the metrics of a role, in their order."""
    positions = {name: getattr(info, role) for name, info in metrics.items()}
    return tuple(sorted(filter(positions.get, positions), key=positions.__getitem__))


def metrics_table(metrics: Mapping[str, MetricInfo]) -> str:
    """Return metrics as a Markdown table, for the documentation."""
    better = {True: "less", False: "more", None: "-"}
    lines = ["| metric | unit | formula | better | source |", "|---|---|---|---|---|"]
    lines += [
        f"| `{name}` | {info.unit} | {info.formula} | {better[info.lower_is_better]} | {info.source} |"
        for name, info in metrics.items()
    ]
    return "\n".join(lines) + "\n"

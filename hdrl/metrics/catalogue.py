"""What every metric means: unit, formula, source, and whether less is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """What a metric means.

    Attributes
    ----------
    unit
        Its unit; ``"1"`` for a pure number.
    formula
        How it is computed, in words and symbols.
    source
        Where the definition comes from.
    lower_is_better
        ``True`` or ``False``; ``None`` where a comparison says nothing by itself.
    is_of_whole_run
        Whether it is undefined for a part of the items of a simulation.
    hides_zero
        Whether it is shown only where it is neither zero nor missing: what went wrong, what few loads have.
    """

    unit: str
    formula: str
    source: str
    lower_is_better: bool | None
    is_of_whole_run: bool = False
    hides_zero: bool = False

    @property
    def sign(self) -> float:
        """Factor after which less is better: 1, or -1 where more is better; 1 also where neither is."""
        return -1.0 if self.lower_is_better is False else 1.0

    def side(self, ratio: float) -> str:
        """Return what a ratio to the baseline that differs from 1 means: ``better`` or ``worse``.

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
"""A metric of which less is better."""

more = partial(MetricInfo, lower_is_better=False)
"""A metric of which more is better."""

neutral = partial(MetricInfo, lower_is_better=None)
"""A metric that says by itself nothing of who is better."""


def metrics_table(metrics: Mapping[str, MetricInfo]) -> str:
    """Return metrics as a Markdown table, for the documentation.

    Parameters
    ----------
    metrics
        What they mean, by name.
    """
    better = {True: "less", False: "more", None: "-"}
    lines = ["| metric | unit | formula | better | source |", "|---|---|---|---|---|"]
    lines += [
        f"| `{name}` | {info.unit} | {info.formula} | {better[info.lower_is_better]} | {info.source} |"
        for name, info in metrics.items()
    ]
    return "\n".join(lines) + "\n"

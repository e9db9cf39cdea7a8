"""Metrics of runs side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hdrl.base.errors import UnknownName
from hdrl.metrics.catalogue import MetricInfo


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Metrics of several runs."""

    runs: tuple[str, ...]
    infos: Mapping[str, MetricInfo]
    values: dict[str, list[float]]  # for each metric a number per run, NaN where a run has none
    drawn: tuple[str, ...]  # the metrics of a picture
    differences: tuple[str, ...]  # differences that make the runs hard to compare, a sentence each

    @property
    def best(self) -> dict[str, frozenset[int]]:
        """For each metric the positions of the best runs; none where they are all alike, or better says nothing."""
        return {name: _best(self.infos[name].lower_is_better, numbers) for name, numbers in self.values.items()}

    @property
    def by_run(self) -> dict[str, dict[str, float]]:
        """The metrics by name for each run."""
        return {
            run: {name: numbers[position] for name, numbers in self.values.items()}
            for position, run in enumerate(self.runs)
        }


def check_metrics(metrics: Sequence[str], infos: Mapping[str, MetricInfo]) -> None:
    """Check that there are such metrics."""
    for name in metrics:
        if name not in infos:
            raise UnknownName("metric", name, infos)


def _best(less: bool | None, numbers: Sequence[float]) -> frozenset[int]:  # noqa: FBT001
    known = [number for number in numbers if math.isfinite(number)]
    if less is None or len(known) < 2 or min(known) == max(known):
        return frozenset()
    wanted = min(known) if less else max(known)
    return frozenset(position for position, number in enumerate(numbers) if number == wanted)

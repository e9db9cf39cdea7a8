"""The measures of a setting: what every metric means and is for, and how they are computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic

from hdrl.metrics.catalogue import MetricInfo, in_role
from hdrl.metrics.tasks import task_metrics
from hdrl.setting.kinds import TraceT


class Measures(Generic[TraceT]):
    """The metrics of a setting.

    Parameters
    ----------
    metrics
        What every metric means and is for (`hdrl.metrics.with_roles`), in the order in which they are computed. One
        is ``n_jobs``, the number of items, and at least one is compared.
    compute
        Returns every metric of a simulation by name; NaN where there is no number. By default the metrics of all
        tasks, `hdrl.metrics.TASK_METRICS`.
    """

    def __init__(
        self, metrics: Mapping[str, MetricInfo], compute: Callable[[TraceT], Mapping[str, float]] = task_metrics
    ) -> None:
        self.metrics = metrics
        self._compute = compute

    @property
    def compared(self) -> tuple[str, ...]:
        """Metrics that a comparison summarises by default; the first decides."""
        return in_role(self.metrics, "compared")

    @property
    def shown(self) -> tuple[str, ...]:
        """Metrics that are shown after a run."""
        return in_role(self.metrics, "shown")

    @property
    def headline(self) -> tuple[str, ...]:
        """Metrics of the first table of a report, in addition to the one that decides; else those compared."""
        return in_role(self.metrics, "headline") or self.compared

    @property
    def unrun(self) -> tuple[str, ...]:
        """Metrics that count items which were not brought to an end, so that means leave them out."""
        return tuple(name for name, info in self.metrics.items() if info.counts_unrun)

    def measure(self, trace: TraceT) -> dict[str, float]:
        """Return every metric of a simulation by name, in the order of `metrics`; NaN where there is no number."""
        found = self._compute(trace)
        return {name: float(found[name]) for name in self.metrics}

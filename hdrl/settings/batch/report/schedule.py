"""The schedule of a run for the page of a report."""

from __future__ import annotations

import numpy as np

from hdrl.figures.figure import ItemNumber, Schedule
from hdrl.settings.batch.report.data import gantt_bars
from hdrl.settings.batch.report.runs import RunData
from hdrl.settings.batch.report.units import named_groups, named_nodes, platform_of


def schedule_of(run: RunData) -> Schedule:
    """Return which job had which cores when."""
    bars = gantt_bars(run)
    started = np.isfinite(run.start_s)
    row = np.cumsum(started) - 1
    ends = np.where(run.has_ended, run.end_s, run.span_s[1])
    platform = platform_of(run)
    return Schedule(
        item_word="job",
        unit_word="core",
        n_units=run.n_cores,
        ids=[str(text) for text in run.job_id[started]],
        start_s=run.start_s[started],
        end_s=ends[started],
        numbers=(
            ItemNumber("the waiting time", "waited {}", "s", np.maximum(0.0, run.start_s - run.submit_s)[started]),
            ItemNumber("the number of cores", "{} cores", "", run.cores[started].astype(np.float64)),
        ),
        item=row[bars.job],
        first_unit=bars.first_core,
        n_held=bars.n_cores,
        groups=() if platform is None else named_groups(platform),
        parts=() if platform is None else named_nodes(platform),
    )

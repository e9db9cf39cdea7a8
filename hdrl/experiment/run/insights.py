"""Insights while and after something is simulated: lines for the terminal and ``insights.log``, as HDeepRM has them.

They go to the logger ``hdrl.insights`` where ``pybatsim.log_level`` is INFO or DEBUG. Decisions of an agent that
learns or is tested (observation, probabilities, action, reward, loss) are logged as they are made; what a run came to
(arrivals at DEBUG, starts and ends at INFO) comes from its Trace.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hdrl.setting import Trace

INSIGHTS_FILE = "insights.log"
LOGGER = logging.getLogger("hdrl.insights")


@contextlib.contextmanager
def insights(log_level: str, folder: Path) -> Iterator[None]:
    """Write insights into a folder for a while, if the level of the log asks for any."""
    level = getattr(logging, log_level) or logging.DEBUG  # NOTSET would ask the logger above
    if level > logging.INFO:
        yield
        return
    handler = logging.FileHandler(folder / INSIGHTS_FILE, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    before = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(level)
    try:
        yield
    finally:
        LOGGER.setLevel(before)
        LOGGER.removeHandler(handler)
        handler.close()


def log_run(trace: Trace) -> None:
    """Log the events of a run, in the order of time: arrivals, starts, ends."""
    if not LOGGER.isEnabledFor(logging.INFO):
        return
    for date_s, _, level, text in sorted(_events(trace), key=lambda event: event[:2]):
        LOGGER.log(level, "%.6f s: %s", date_s, text)


def _events(trace: Any) -> Iterator[tuple[float, int, int, str]]:
    """Yield date, rank among what happens at that date, level and text; ends come before arrivals and starts."""
    units: dict[int, int] = {}
    for task, n_units in zip(trace.stays["task"].tolist(), trace.stays["n_units"].tolist(), strict=True):
        units.setdefault(task, n_units)
    for number, row in enumerate(trace.tasks):
        requested = f", requested {row['requested_s']:g} s" if row["requested_s"] == row["requested_s"] else ""
        yield float(row["release_s"]), 1, logging.DEBUG, f"job {number} arrived{requested}"
        if row["start_s"] >= 0:
            yield float(row["start_s"]), 2, logging.INFO, f"job {number} started on {units.get(number, 0)} units"
        if row["end_s"] >= 0:
            yield float(row["end_s"]), 0, logging.INFO, f"job {number} ended"

"""Failures of a site's nodes, drawn from a mean time between failures: a table that an import takes as downtimes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from hdrl.base.csvfiles import atomic_table
from hdrl.base.errors import OptionsError, ReadError
from hdrl.base.seeding import stream
from hdrl.batch import read_swf
from hdrl.settings.batch.site_rules.hostlist import node_names
from hdrl.site.downtimes import COLUMNS
from hdrl.site.folder import LOG, conf_of

MOST_FAILURES = 200_000


@dataclass(frozen=True, slots=True)
class FailureChoices:
    """Choices for the draws of failures.

    Attributes
    ----------
    mtbf_h
        Mean time from the repair of a node to its next failure in hours; these times are exponentially distributed.
    repair_h
        Time in hours that each repair takes.
    seed
        Seed of the draws. Those of a node depend on its name alone.
    """

    mtbf_h: float
    repair_h: float
    seed: int = 0


def write_failures(folder: Path, choices: FailureChoices, out: Path) -> tuple[int, int]:
    """Draw failures of the nodes of an imported site over the time of its log, and write them as downtimes.

    Returns
    -------
    tuple[int, int]
        Number of failures, and of nodes.

    Raises
    ------
    ReadError
        If the site has no log.
    OptionsError
        If there would be too many failures.
    HdrlError
        If the site cannot be read, or the table cannot be written.
    """
    names = [name for one in conf_of(folder).nodes for name in node_names(one.names)]
    if not (folder / LOG).is_file():
        raise ReadError(folder / LOG, "no such file, expected the log that an import wrote")
    log = read_swf(folder / LOG)
    ends_s = log.rows["submit_s"] + np.maximum(log.rows["wait_s"], 0) + np.maximum(log.rows["run_s"], 0)
    span_s = float(np.max(ends_s, initial=0.0))
    expected = len(names) * span_s / (3600 * (choices.mtbf_h + choices.repair_h))
    if expected > MOST_FAILURES:
        raise OptionsError(
            f"--mtbf {choices.mtbf_h:g} gives some {expected:,.0f} failures in the time of the log, expected at most "
            f"{MOST_FAILURES:,}"
        )
    found = [(start_s, end_s, name) for name in names for start_s, end_s in _failures_of(name, span_s, choices)]
    with atomic_table(out, list(COLUMNS)) as write:
        for start_s, end_s, name in sorted(found):
            write([*(_date(log.first_date_s + date_s) for date_s in (start_s, end_s)), name, "failure"])
    return len(found), len(names)


def _failures_of(name: str, span_s: float, choices: FailureChoices) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each failure of a node, in whole seconds of the log."""
    draws = stream(choices.seed, f"site/failures/{name}")
    date_s = 0.0
    while (date_s := date_s + draws.exponential(3600 * choices.mtbf_h)) < span_s:
        start_s = int(date_s)
        date_s += 3600 * choices.repair_h
        yield start_s, max(int(date_s), start_s + 1)


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

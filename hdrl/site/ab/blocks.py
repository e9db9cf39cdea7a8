"""The numbers of each block: which jobs of the accounting count for it, and why the others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.metrics.tasks import describe_times
from hdrl.site.ab.plan import AbPlan
from hdrl.site.importing import choose_cluster, together
from hdrl.site.joining import CANCELLED, NEVER_STARTED, SHORTEST_S, every_job, join_components
from hdrl.site.readers import Choices, read_dump
from hdrl.site.records import AttemptState, Dump
from hdrl.site.values import Clock, find_zone
from hdrl.site.waits import NOT_ELIGIBLE

FloatArray = NDArray[np.float64]

FEWEST_JOBS = 5
"""Jobs below which a block has no numbers."""

OUTSIDE = "eligible outside of all blocks"
WASHED_OUT = "eligible during a wash-out"
NOT_SETTLED = "of blocks that are not settled yet"
NO_LIMIT = "still waiting when the block settled, without a limit"


@dataclass(slots=True)
class MeasuredBlock:
    """Measurements of a block from the accounting."""

    # identity of the block, and the date of its numbers, in seconds since 1970
    policy: str
    pair: int
    begin: str
    end: str
    settled_s: float
    is_settled: bool  # True if the accounting reaches so far
    n_jobs: int = 0  # jobs that count
    # those of them that started after the end of the block, so that the next block's policy decided, too
    n_carried: int = 0
    # those that still waited and still ran when the block settled; their times until then count
    n_waiting: int = 0
    n_running: int = 0
    # metrics by name; nothing where fewer than `FEWEST_JOBS` count
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class MeasuredBlocks:
    """All blocks of a plan as the accounting has them."""

    blocks: list[MeasuredBlock]  # in the order of the plan
    seen_until_s: float  # the latest date in the accounting
    # rows and job ids of the accounting
    n_rows: int
    n_jobs: int
    skipped: Counter[str]  # rows that are no attempt to run a job, by reason
    left_out: dict[str, Counter[str]]  # jobs that do not count, by reason, then by policy; ``""`` outside of all blocks
    notes: list[str]  # changes that made jobs of rows, and what could not be read, a sentence each


def read_dumps(paths: Sequence[Path], zone: str, form: str, cluster: str | None) -> Dump:
    """Read the accounting of the experiment, whatever files it is spread over.

    Raises
    ------
    HdrlError
        If a file cannot be read, or it covers several clusters.
    """
    clock = Clock(find_zone(zone))
    dump = together([read_dump(path, Choices(clock), form) for path in paths])
    choose_cluster(dump, cluster)
    if clock.n_local:
        dump.notes.append(f"dates without a zone count as {zone}; --zone names another one")
    return dump


def measure_blocks(plan: AbPlan, dump: Dump) -> MeasuredBlocks:
    """Return the numbers of each block.

    A job belongs to the block in which it became eligible, under whatever policy it then started. The numbers are
    those at the date when the block settles: a later export gives the same ones, so that one may look every day.
    """
    held = _held(dump)
    joined = every_job(dump, first_attempts=True)
    join_components(joined)
    jobs = joined.records
    dates = np.concatenate([jobs[name] for name in ("submit_s", "start_s", "end_s")])
    seen_s = float(np.nanmax(dates)) if np.any(np.isfinite(dates)) else -np.inf
    spans = np.array([block.span_s for block in plan.blocks])
    # Before the first block, and in gaps between blocks, there is none.
    position = np.searchsorted(spans[:, 0], jobs["eligible_s"], side="right") - 1
    is_inside = (position >= 0) & (jobs["eligible_s"] < spans[position, 1])
    begin_s, settled_s = spans[position, 0], spans[position, 1] + plan.settle_s
    start_s, end_s = jobs["start_s"], jobs["end_s"]
    has_started = start_s <= settled_s
    ended_before = ~has_started & (end_s <= settled_s)
    is_over = ~np.isfinite(start_s) & (jobs["state"] != AttemptState.PENDING)
    limit_s = jobs["limit_s"]
    reasons = {
        NOT_ELIGIBLE: np.fromiter(((one in held) for one in _ids(jobs)), bool, len(jobs)),
        OUTSIDE: ~is_inside,
        WASHED_OUT: jobs["eligible_s"] < begin_s + plan.wash_out_s,
        NOT_SETTLED: settled_s > seen_s,
        CANCELLED: is_over & (ended_before | ~np.isfinite(end_s)) & (jobs["state"] == AttemptState.CANCELLED),
        NEVER_STARTED: is_over & (ended_before | ~np.isfinite(end_s)),
        NO_LIMIT: ~has_started & ~(np.isfinite(limit_s) & (limit_s > 0)),
    }
    n_tasks = np.where(jobs["state"] == AttemptState.PENDING, jobs["n_tasks"], 1)
    kept = np.ones(len(jobs), dtype=bool)
    left_out: dict[str, Counter[str]] = {}
    for reason, applies in reasons.items():
        for number in np.flatnonzero(kept & applies).tolist():
            policy = plan.blocks[position[number]].policy if is_inside[number] else ""
            left_out.setdefault(reason, Counter())[policy] += int(n_tasks[number])
        kept &= ~applies
    wait_s = np.where(has_started, start_s, settled_s) - jobs["eligible_s"]
    until_s = np.where(np.isfinite(end_s), np.minimum(end_s, settled_s), settled_s)
    run_s = np.where(has_started, np.maximum(until_s - start_s, SHORTEST_S), limit_s)
    is_running = has_started & ~(end_s <= settled_s)
    blocks = []
    for number, block in enumerate(plan.blocks):
        mine = np.repeat(np.flatnonzero(kept & (position == number)), n_tasks[kept & (position == number)])
        found = MeasuredBlock(
            block.policy,
            block.pair,
            block.begin,
            block.end,
            float(spans[number, 1] + plan.settle_s),
            bool(spans[number, 1] + plan.settle_s <= seen_s),
            len(mine),
            int(np.count_nonzero(~(start_s[mine] < spans[number, 1]))),
            int(np.count_nonzero(~has_started[mine])),
            int(np.count_nonzero(is_running[mine])),
        )
        if len(mine) >= FEWEST_JOBS:
            found.numbers = describe_times(np.maximum(wait_s[mine], 0.0), run_s[mine])
        blocks.append(found)
    n_jobs = int(np.sum(n_tasks))
    notes = [*joined.notes, *dump.notes]
    return MeasuredBlocks(blocks, seen_s, dump.n_rows, n_jobs, dump.skipped, left_out, notes)


def _held(dump: Dump) -> set[tuple[int, int]]:
    """Return the ids of jobs that wait and have no date of eligibility, though the accounting has such dates."""
    records = dump.records
    if not np.any(np.isfinite(records["eligible_s"])):
        return set()
    return set(_ids(records[(records["state"] == AttemptState.PENDING) & ~np.isfinite(records["eligible_s"])]))


def _ids(records: NDArray[np.void]) -> list[tuple[int, int]]:
    return list(zip(records["job"].tolist(), records["task"].tolist(), strict=True))

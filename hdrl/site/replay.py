"""Distance of a replay of the site's policy from the history: the order of starts, waits, by partition, by week."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from hdrl.batch import Platform, SwfLog, Workload, simulate, workload_from_swf
from hdrl.metrics.orders import Distance, distance_between
from hdrl.settings.batch.site_rules.columns import SiteColumns
from hdrl.settings.batch.site_rules.simulator import limits_exceeded
from hdrl.site.machine import peak_cores

FloatArray = NDArray[np.float64]

STAND_INS = ("fcfs+easy", "fcfs+conservative")
"""Policies that stand for the site's own; where it says its rules, Slurm's scheduler stands before them."""

SLURM = "slurm"

DEFAULT_JOBS = 20_000
WARM_UP_SHARE = 0.1
"""Share of the replayed jobs that only fill the machine, which is empty when a replay begins."""

_LEAST_FOR_WARM_UP = 1000


@dataclass(frozen=True, slots=True)
class SiteReplay:
    """The replay under one policy."""

    policy: str  # its name
    whole: Distance  # the distance over all jobs that are compared
    # the same for the jobs of each partition, and of each week in which jobs became eligible
    by_partition: Mapping[str, Distance]
    by_week: Mapping[str, Distance]
    n_never: int  # jobs that started at the site but not here, as a rule kept them; they are not compared
    limits: Mapping[str, int]  # how many of these exceed each limit, by its name
    # most cores in use at one time, in the replay and at the site
    peak_cores: int
    site_peak_cores: int

    @property
    def week_share(self) -> float:
        """Share of the pairs of jobs of one week that start in the other order.

        In a long log nearly all pairs are months apart, so that the share of all pairs is small however odd the order.
        """
        known = [one for one in self.by_week.values() if one.n_jobs > 1]
        pairs = [one.n_jobs * (one.n_jobs - 1) / 2 for one in known]
        shares = [one.discordant_share for one in known]
        return float(np.dot(shares, pairs) / np.sum(pairs)) if pairs else float("nan")


@dataclass(frozen=True, slots=True)
class Replays:
    """The replays of a log."""

    replays: tuple[SiteReplay, ...]  # one per policy
    # jobs that were replayed, and those of them that are not compared, because the machine fills up, and because they
    # were requeued
    n_replayed: int
    n_warm_up: int
    n_requeued: int
    first_job: int  # number of jobs of the log before the replayed ones

    @property
    def nearest(self) -> SiteReplay | None:
        """The replay with the fewest pairs of jobs of one week in another order, ``None`` if nothing was replayed."""
        known = [one for one in self.replays if np.isfinite(one.week_share)]
        return min(known, key=lambda one: one.week_share, default=None)


def replay(
    log: SwfLog,
    platform: Platform,
    *,
    n_jobs: int | None,
    n_attempts: NDArray[np.int64],
    partitions: Sequence[str],
    first_s: float,
    progress: Callable[[str], None],
) -> Replays:
    """Replay the last jobs of a log under the stand-ins for the site's policy; they obey its rules if it has some.

    Parameters
    ----------
    log
        The log of all jobs with their waits, in the order of submission.
    n_jobs
        Number of jobs to replay; ``None``: all.
    n_attempts
        Attempts of each job; those with several are simulated and not compared.
    first_s
        Date 0 of the log in seconds since 1970.
    progress
        Called with what is done next.
    """
    n_replayed = log.n_rows if n_jobs is None else min(n_jobs, log.n_rows)
    first = log.n_rows - n_replayed
    part = slice(first, log.n_rows)
    rows = log.rows[part]
    n_warm_up = int(n_replayed * WARM_UP_SHARE) if n_replayed >= _LEAST_FOR_WARM_UP else 0
    counts = n_attempts[part] == 1
    counts[:n_warm_up] = False
    n_requeued = int(np.count_nonzero(n_attempts[part][n_warm_up:] > 1))
    if n_replayed == 0 or not np.any(counts):
        return Replays((), n_replayed, n_warm_up, n_requeued, first)
    workload = workload_from_swf(replace(log, rows=rows, columns=columns_of(log, rows)), platform, bandwidth="none")
    site_start_s = rows["submit_s"] + rows["wait_s"]
    shift_s = float(rows["submit_s"].min())
    # Monday, 1970-01-05, began a week.
    weeks = np.floor((rows["submit_s"] + first_s - 4 * 86400) / (7 * 86400)).astype(np.int64)
    cores = rows["processors"].astype(np.int64)
    found = []
    for policy in STAND_INS if platform.site is None else (SLURM, *STAND_INS):
        progress(f"replaying {n_replayed:,} jobs under {policy}")
        trace = simulate(platform, workload, policy, energy=False)
        starts = trace.records["start_s"] >= 0
        start_s = trace.records["start_s"] + shift_s
        submit_s = trace.workload.jobs["submit_s"] + shift_s
        compared = counts & starts
        if not np.any(compared):
            progress(f"no job that can be compared starts under {policy}")
            continue

        def distance(
            chosen: NDArray[np.bool_], start_s: FloatArray = start_s, submit_s: FloatArray = submit_s
        ) -> Distance:
            return distance_between(rows["submit_s"][chosen], site_start_s[chosen], start_s[chosen], submit_s[chosen])

        found.append(
            SiteReplay(
                policy,
                distance(compared),
                {
                    _name(partitions, number): distance(compared & (rows["partition"] == number))
                    for number in np.unique(rows["partition"][compared]).tolist()
                },
                {_week(week): distance(compared & (weeks == week)) for week in np.unique(weeks[compared]).tolist()},
                int(np.count_nonzero(counts & ~starts)),
                limits_of_never_started(platform, workload, counts & ~starts),
                peak_cores(start_s[starts], rows["run_s"][starts], cores[starts]),
                peak_cores(site_start_s, rows["run_s"], cores),
            )
        )
    return Replays(tuple(found), n_replayed, n_warm_up, n_requeued, first)


def limits_of_never_started(platform: Platform, workload: Workload, chosen: NDArray[np.bool_]) -> dict[str, int]:
    """Return the number of jobs over each limit of the site, among those that never start."""
    if platform.site is None or not np.any(chosen):
        return {}
    counts = {
        name: int(np.count_nonzero(applies & chosen)) for name, applies in limits_exceeded(platform, workload).items()
    }
    return {name: count for name, count in counts.items() if count}


def limits_text(limits: Mapping[str, int]) -> str:
    """Return the limits that keep jobs from starting, in brackets; nothing if there are none."""
    return f" (over {', '.join(f'{name}: {count:,}' for name, count in limits.items())})" if limits else ""


def columns_of(log: SwfLog, rows: NDArray[np.void]) -> SiteColumns | None:
    """Return the columns of some of the jobs of a log; dependencies on others are fulfilled."""
    if log.columns is None or len(rows) == log.n_rows:
        return log.columns
    numbers = frozenset(str(int(number)) for number in rows["job_number"].tolist())
    return log.columns.of_jobs(numbers)


def _name(partitions: Sequence[str], number: float) -> str:
    return partitions[int(number)] if number >= 0 else "(none)"


def _week(number: int) -> str:
    year, week, _ = datetime.fromtimestamp((number * 7 + 4) * 86400, UTC).isocalendar()
    return f"{year}-W{week:02d}"

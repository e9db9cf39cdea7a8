"""Distances of policies from recorded runs of a real Slurm, beside the distance of Slurm from itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.metrics.orders import Distance, distance_between
from hdrl.settings.batch.policies import normalise_policy_name, simulate
from hdrl.slurm.recorded import RecordedRun

POLICIES = ("slurm", "fcfs+easy", "fcfs+conservative")
"""Policies that are compared unless others are named."""

MAX_LATE_S = 60.0
"""Submissions that came later than this show that the host stood still: Slurm's own threads then stood still, too."""


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Distances of policies from recorded runs.

    Attributes
    ----------
    runs
        The runs.
    floor
        The distances of runs from each other that repeat each other; none if nothing was repeated.
    distances
        By policy, its distance from each run.
    """

    runs: tuple[RecordedRun, ...]
    floor: tuple[Distance, ...]
    distances: dict[str, tuple[Distance, ...]]


def fidelity(runs: Sequence[RecordedRun], policies: Iterable[str], message: Callable[[str], None]) -> Fidelity:
    """Simulate the jobs of recorded runs under policies, and compare.

    Parameters
    ----------
    policies
        Their names, of those that simulator `site` plays by the rules of each run. The jobs run as long as they did.
    message
        Called with what is done next.

    Raises
    ------
    OptionsError
        If there is no run.
    HdrlError
        If there is no such policy.
    """
    if not runs:
        raise OptionsError("no recorded run is given, expected at least one folder")
    names = [normalise_policy_name(name) for name in policies]
    floor = [
        _distance(first, first.start_s_of(second))
        for first, second in itertools.combinations(runs, 2)
        if first.is_repeated_by(second)
    ]
    distances = {}
    for name in names:
        message(f"simulating {len(runs)} recorded runs under {name}")
        distances[name] = tuple(_distance(run, simulated_start_s(run, name)) for run in runs)
    return Fidelity(tuple(runs), tuple(floor), distances)


def simulated_start_s(run: RecordedRun, policy: str) -> NDArray[np.float64]:
    """Return the start of each job under a policy, in the clock of its workload; NaN of a job that never starts."""
    start_s: NDArray[np.float64] = simulate(run.platform, run.workload, policy, energy=False).records["start_s"]
    return np.where(start_s >= 0, start_s, np.nan)


def _distance(run: RecordedRun, start_s: NDArray[np.float64]) -> Distance:
    """Return the distance of starts from Slurm's, of the jobs that start in both; waits begin when it said so."""
    both = np.isfinite(run.start_s) & np.isfinite(start_s)
    return distance_between(run.eligible_s[both], run.start_s[both], start_s[both])


def fidelity_text(found: Fidelity) -> str:
    """Return the comparison as a table, with the floor beside it."""
    n_jobs = sum(len(run.start_s) for run in found.runs)
    rows = [("", "pairs in another order", "mean wait, ratio")]
    rows += [(name, *_means(distances)) for name, distances in found.distances.items()]
    if found.floor:
        rows.append(("Slurm itself (the floor)", *_means(found.floor, is_floor=True)))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{len(found.runs)} recorded runs, {n_jobs:,} jobs; means over runs, against what Slurm did"]
    lines += [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
    if not found.floor:
        lines.append("no run repeats another, so the floor is unknown: pass two runs of the same jobs")
    lines += [
        f"caution: {run.folder.name}: a job was submitted {run.late_s:,.0f} s late, so the host stood still"
        for run in found.runs
        if run.late_s > MAX_LATE_S
    ]
    return "\n".join(lines)


def _means(distances: Sequence[Distance], *, is_floor: bool = False) -> tuple[str, str]:
    ratios = np.array([one.wait_ratio for one in distances])
    if is_floor:  # which of two equal runs comes first is arbitrary
        ratios = np.maximum(ratios, 1 / ratios)
    return f"{np.mean([one.discordant_share for one in distances]):.2%}", f"{np.mean(ratios):.3f}"

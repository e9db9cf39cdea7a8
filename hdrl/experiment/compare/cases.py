"""On what candidates are compared: windows of workloads, and generated sequences."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hdrl.base.errors import OptionsError
from hdrl.base.seeding import stream_seed
from hdrl.base.windows import (
    Shares,
    Span,
    after_warm_up,
    is_inside,
    n_side_by_side,
    overlap,
    range_of_shares,
    side_by_side,
)
from hdrl.experiment.plan import generator_of
from hdrl.options.sweep import Sweep, Windows
from hdrl.setting import Load, Machine, Setting

if TYPE_CHECKING:
    from hdrl.experiment.compare.candidates import Candidate

TEST, TRAIN = "test", "train"


@dataclass(frozen=True, slots=True)
class Case:
    """One sequence of jobs that is simulated for itself."""

    workload: str  # name of the workload, or of the load of generated sequences
    source: int  # index of the workload; -1 if the sequence is generated
    window: int  # number of the window within its workload
    first_job: int  # number of jobs of the workload that are submitted before the window
    n_jobs: int  # jobs that count
    # jobs before and after them that are simulated and do not count
    warm_up: int = 0
    follow_up: int = 0
    # parameters of a generated sequence
    load: float = 0.0
    seed: int = 0

    @property
    def n_simulated(self) -> int:
        """Number of simulated jobs."""
        return self.warm_up + self.n_jobs + self.follow_up

    def items(self, setting: Setting, machine: Machine, workloads: Sequence[Load], sweep: Sweep) -> Load:
        """Return the simulated items: those that warm the machine up come first."""
        if self.source >= 0:
            return workloads[self.source].window(self.first_job - self.warm_up, self.n_simulated)
        generator = generator_of(setting, sweep)
        return generator.generate(sweep, machine, self.n_simulated, offered_load=self.load, seed=self.seed)


def test_cases(sweep: Sweep, workloads: Sequence[Load], *, setting: Setting) -> list[Case]:
    """Return the cases that candidates are judged by."""
    return _cases(sweep, workloads, (sweep.range[0], sweep.range[1]), TEST, setting)


test_cases.__test__ = False  # type: ignore[attr-defined]  # no test, whatever pytest thinks of its name


def train_cases(
    sweep: Sweep, workloads: Sequence[Load], shares: tuple[float, float], *, setting: Setting
) -> list[Case]:
    """Return the cases that a baseline may be chosen by: windows of other jobs, sequences of other seeds."""
    windows = sweep.windows
    if windows is not None:  # however many windows of workloads judge: for choosing, all that fit serve
        windows = windows.model_copy(update={"starts": None, "count": None})
    of_workloads = sweep.model_copy(update={"windows": windows, "loads": []})
    return _cases(of_workloads, workloads, shares, TRAIN, setting) + _cases(sweep, [], shares, TRAIN, setting)


MOST_POINTS = 5_000_000
"""Simulations of a comparison; each takes some hundred bytes of memory and of disk."""


def check_number(sweep: Sweep, n_cases: int, candidates: Sequence[Candidate]) -> None:
    """Refuse a sweep whose windows, candidates and seeds multiply to more than can be simulated."""
    n_points = n_cases * sum(one.n_seeds for one in candidates)
    if n_points > MOST_POINTS:
        raise OptionsError(
            f"{sweep.where}: {n_cases:,} windows for {len(candidates):,} candidates with their seeds are {n_points:,} "
            f"simulations, more than {MOST_POINTS:,}; take fewer of them"
        )


def share_jobs(one: Case, other: Case) -> bool:
    """Return whether two cases hold a job that counts in both."""
    if one.source < 0 or other.source < 0:
        return one.source == other.source and (one.load, one.seed) == (other.load, other.seed)
    ours, theirs = ((case.first_job, case.first_job + case.n_jobs) for case in (one, other))
    return one.source == other.source and overlap(ours, theirs)


def overlapping(cases: Sequence[Case]) -> list[tuple[Case, Case]]:
    """Return the pairs of neighbouring windows of a workload that share jobs that count."""
    ordered = sorted((case for case in cases if case.source >= 0), key=lambda case: (case.source, case.first_job))
    return [pair for pair in itertools.pairwise(ordered) if share_jobs(*pair)]


def cautions_of_size(sweep: Sweep, workloads: Sequence[Load]) -> list[tuple[str, str]]:
    """Return cautions about workloads with fewer jobs than ``nb_jobs`` asks for: kinds and sentences."""
    n_requested = sweep.nb_jobs
    return [
        ("fewer-jobs", f"nb_jobs is {n_requested:,}, but {one.name} has {one.n_items:,} usable jobs")
        for one in workloads
        if n_requested is not None and one.n_items < n_requested
    ]


def _cases(sweep: Sweep, workloads: Sequence[Load], shares: Shares, part: str, setting: Setting) -> list[Case]:
    n_generated = len(sweep.loads) * ((sweep.windows.count if sweep.windows is not None else None) or 1)
    if n_generated > MOST_POINTS:
        raise OptionsError(
            f"{sweep.where}: {len(sweep.loads):,} loads with as many windows as windows.count says are {n_generated:,} "
            f"sequences, more than {MOST_POINTS:,}; take fewer of them"
        )
    cases: list[Case] = []
    for source, workload in enumerate(workloads):
        cases += _windows(sweep, workload, source, shares, part)
    for load in sweep.loads:
        cases += _generated(sweep, load, part, setting)
    return cases


def _windows(sweep: Sweep, workload: Load, source: int, shares: Shares, part: str) -> list[Case]:
    what = f"{sweep.where}: {'range' if part == TEST else 'baseline'}"
    positions = range_of_shares(shares, workload.n_items, what=what, items=f"jobs of {workload.name}")
    windows = sweep.windows
    if windows is None:
        return [Case(workload.name, source, 0, positions[0], positions[1] - positions[0])]
    if windows.length == "all":
        warm_up = positions[0] if windows.warm_up == "all" else min(positions[0], windows.warm_up)
        follow_up = min(windows.follow_up, workload.n_items - positions[1])
        return [Case(workload.name, source, 0, positions[0], positions[1] - positions[0], warm_up, follow_up)]
    length, follow_up = windows.length, windows.follow_up
    starts = windows.starts if windows.starts is not None else _side_by_side(sweep, workload, windows, positions)
    cases = []
    for number, start in enumerate(starts):
        warm_up = start if windows.warm_up == "all" else windows.warm_up
        if not is_inside((start - warm_up, start + length + follow_up), (0, workload.n_items)):
            after = f" and {follow_up:,} after these" if follow_up else ""
            raise OptionsError(
                f"{sweep.where}: {workload.name} has {workload.n_items:,} jobs, but windows.starts has {start}, which "
                f"needs {warm_up:,} jobs before it and {length:,} from it on{after}"
            )
        cases.append(Case(workload.name, source, number, start, length, warm_up, follow_up))
    return cases


def _side_by_side(sweep: Sweep, workload: Load, windows: Windows, positions: Span) -> list[int]:
    """Return the starts of windows that share no job, spread evenly over the part."""
    if windows.length == "all":
        raise ValueError("one window is not a row of them")
    positions = after_warm_up(positions, 0 if windows.warm_up == "all" else windows.warm_up)
    positions = positions[0], min(positions[1], workload.n_items - windows.follow_up)
    length, count = windows.length, windows.count
    n_fitting = n_side_by_side(positions, length)
    if n_fitting == 0 or (count or 1) > n_fitting:
        windows_of = f"window{'' if n_fitting == 1 else 's'} of {length:,} jobs"
        raise OptionsError(
            f"{sweep.where}: {workload.name} has room for {n_fitting} {windows_of} between job "
            f"{positions[0]:,} and job {positions[1]:,}, expected {count or 'at least one'}; take shorter ones, or "
            "name windows.starts"
        )
    return side_by_side(positions, length, count)


def _generated(sweep: Sweep, load: float, part: str, setting: Setting) -> list[Case]:
    windows = sweep.windows
    if windows is None or windows.length == "all" or windows.warm_up == "all":
        raise OptionsError(f"{sweep.where}: loads need windows of a length, with a number of jobs as warm_up")
    name = f"{generator_of(setting, sweep).generator}@{load:g}"
    return [
        Case(
            name,
            -1,
            number,
            0,
            windows.length,
            windows.warm_up,
            windows.follow_up,
            load,
            stream_seed(sweep.seed, f"compare/{part}/{load!r}/{number}"),
        )
        for number in range(windows.count or 1)
    ]

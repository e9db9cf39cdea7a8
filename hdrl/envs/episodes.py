"""Jobs of an episode: a whole workload, or a window of consecutive jobs of one of several.

Windows count jobs in the order of submission. A workload is cut into parts (`hdrl.base.windows`); a window never
reaches from one into the next. Which window an episode gets depends on its number and, where it is drawn, on 64 random
bits: nothing is remembered from one to the next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, suggest
from hdrl.base.windows import PARTS, is_inside, range_of_shares, side_by_side
from hdrl.envs.requests import checked_count
from hdrl.envs.seeds import mixed_bits

RLSCHEDULER_STARTS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
"""First jobs of the ten sequences that RLScheduler is measured on, counted from 0."""

RLSCHEDULER_N_JOBS = 1024
"""Jobs in each of them."""

Part: TypeAlias = str | tuple[float, float] | tuple[int, int]
"""A name of `hdrl.base.windows.PARTS`, two fractions of the jobs, or two positions in the order of submission
(integers)."""

Start: TypeAlias = str | int | Sequence[int] | None
"""``"random"``, ``"consecutive"``, the place of a job, or several; ``None``: as suits the length."""


Length: TypeAlias = int | str | Sequence[int] | None
"""Jobs of an episode: a number, the least and the largest number, ``"all"``, or ``None``."""


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive jobs of a workload.

    Attributes
    ----------
    workload
        Index of the workload, from 0.
    start
        Number of jobs that are submitted before the first one of the window.
    n_jobs
        Number of jobs.
    """

    workload: int
    start: int
    n_jobs: int


@dataclass(frozen=True, slots=True)
class EpisodePlan:
    """Plan of the jobs of each episode.

    Attributes
    ----------
    windows
        The windows, in their order; empty if they are drawn.
    ranges
        For drawn windows: for each workload that has room for one, its number, the first and the last place at which
        a window may begin.
    n_jobs
        Jobs of a drawn window, or of the longest one; 0 without.
    least_jobs
        Jobs of the shortest drawn window; 0: all have as many.
    """

    windows: tuple[Window, ...] = ()
    ranges: tuple[tuple[int, int, int], ...] = ()
    n_jobs: int = 0
    least_jobs: int = 0

    @property
    def is_random(self) -> bool:
        """True if windows are drawn."""
        return not self.windows

    @property
    def max_jobs(self) -> int:
        """Jobs of the longest window."""
        return max((window.n_jobs for window in self.windows), default=self.n_jobs)

    def window(self, episode: int, bits: int) -> Window:
        """Return the jobs of an episode.

        Parameters
        ----------
        episode
            Number of the episode, from 0; windows that are not drawn follow each other, and start again after the last.
        bits
            64 random bits; they decide where windows are drawn, each workload being as likely as any other.
        """
        if self.windows:
            return self.windows[episode % len(self.windows)]
        # Of the 64 bits, the upper half chooses the workload and the lower one the start: no division, hardly a bias.
        workload, first, last = self.ranges[((bits >> 32) * len(self.ranges)) >> 32]
        start = first + (((bits & 0xFFFFFFFF) * (last - first + 1)) >> 32)
        return Window(workload, start, self._length(bits))

    def _length(self, bits: int) -> int:
        """Return the jobs of a drawn window; other bits decide about them than about its position."""
        if not self.least_jobs:
            return self.n_jobs
        return self.least_jobs + (((mixed_bits(bits) >> 32) * (self.n_jobs - self.least_jobs + 1)) >> 32)


def part_bounds(part: Part, n_jobs: int, *, name: str = "workload") -> tuple[int, int]:
    """Return the positions of the first job of a part and of the one after its last.

    Parameters
    ----------
    name
        Name of the workload, for messages.

    Raises
    ------
    OptionsError
        If there is no such part, or no job in it.
    """
    if isinstance(part, str):
        if part not in PARTS:
            raise OptionsError(f"part is {part!r}; {suggest(part, PARTS)}")
        bounds: tuple[float, float] = PARTS[part]
    else:
        bounds = _two_numbers(part)
    if not all(isinstance(bound, (int, np.integer)) for bound in bounds):
        return range_of_shares(bounds, n_jobs, what="part", items=f"jobs of {name}")
    first, last = int(bounds[0]), int(bounds[1])
    if not is_inside((first, last), (0, n_jobs)):
        raise OptionsError(f"part is {part!r}, expected two indices from 0 to {n_jobs}, the number of jobs of {name}")
    return first, last


def _two_numbers(part: object) -> tuple[float, float]:
    is_pair = isinstance(part, (tuple, list)) and len(part) == 2
    if not is_pair or not all(isinstance(x, (int, float, np.number)) and not isinstance(x, bool) for x in part):  # type: ignore[attr-defined]
        raise OptionsError(f"part is {part!r}, expected one of {', '.join(PARTS)}, or two numbers")
    return part[0], part[1]  # type: ignore[index]


def window_of_row(windows: NDArray[np.int64], row: int) -> Window:
    """Return the window of the episode of a row.

    Parameters
    ----------
    windows
        Of each row the workload, the start and the number of jobs, not above 0 where none has begun; shape
        ``(n_rows, 3)``.

    Raises
    ------
    OptionsError
        If it has had no episode.
    """
    if not 0 <= row < len(windows) or windows[row, 2] <= 0:
        raise OptionsError(f"row {row} has had no episode; there are rows 0 to {len(windows) - 1}")
    return Window(*windows[row].tolist())


def plan_episodes(
    sizes: Sequence[int],
    *,
    n_jobs: Length = None,
    start: Start = None,
    part: Part = "all",
    names: Sequence[str] | None = None,
) -> EpisodePlan:
    """Return the plan of the jobs of each episode.

    Parameters
    ----------
    n_jobs
        Jobs in a window; two numbers: as many are drawn, from the first to the second of them, both included, and a
        window begins where the longest one has room; ``"all"`` or ``None``: from its start to the end of the part.
    start
        ``"random"``: anywhere in the part (the default if ``n_jobs`` is given). ``"consecutive"``: windows that do not
        overlap, one after the other from the beginning of the part, workload after workload. A number, or several:
        these positions, counted from the beginning of the *workload*.
    names
        Names of the workloads, for messages.

    Raises
    ------
    OptionsError
        If there is no such window.
    """
    names = list(names) if names is not None else [f"workload {i}" for i in range(len(sizes))]
    if not sizes:
        raise OptionsError("no workload, expected at least one")
    least, length = _window_lengths(n_jobs)
    bounds = [part_bounds(part, size, name=name) for size, name in zip(sizes, names, strict=True)]
    if start is None:
        start = "consecutive" if length is None else "random"
    if start == "consecutive" and least:
        raise OptionsError(f"start is 'consecutive', but n_jobs is {n_jobs!r}: windows of drawn lengths have no order")
    if isinstance(start, str):
        plan = _planned(start, bounds, length, names)
        return dataclasses.replace(plan, least_jobs=least)
    if isinstance(start, (int, np.integer)):
        start = [int(start)]
    if not isinstance(start, Iterable):
        raise OptionsError(f"start is {start!r}, expected 'random', 'consecutive', a number, or several")
    starts = list(start)
    windows = tuple(_explicit_windows(starts, bounds, length, names))
    if not least:
        return EpisodePlan(windows=windows)
    ranges = tuple((window.workload, window.start, window.start) for window in windows)
    return EpisodePlan(ranges=ranges, n_jobs=max(window.n_jobs for window in windows), least_jobs=least)


def _window_lengths(n_jobs: Length) -> tuple[int, int | None]:
    """Return the least number of jobs of a window, 0 if all have as many, and the largest, ``None`` for all jobs."""
    if n_jobs is None or (isinstance(n_jobs, str) and n_jobs == "all"):
        return 0, None
    if not isinstance(n_jobs, (tuple, list)):
        return 0, checked_count("n_jobs", n_jobs, or_else=", two numbers, or 'all'")
    if len(n_jobs) != 2:
        raise OptionsError(f"n_jobs is {n_jobs!r}, expected a number, two numbers, or 'all'")
    least, most = (checked_count("n_jobs", one) for one in n_jobs)
    if least > most:
        raise OptionsError(f"n_jobs is {n_jobs!r}, expected the smaller number first")
    return (0 if least == most else least), most


def _planned(start: str, bounds: list[tuple[int, int]], n_jobs: int | None, names: Sequence[str]) -> EpisodePlan:
    """Return windows that are drawn, or that follow each other."""
    if start not in ("random", "consecutive"):
        raise OptionsError(f"start is {start!r}; {suggest(start, ('random', 'consecutive'))}, or a number, or several")
    if start == "random" and n_jobs is None:
        raise OptionsError("start is 'random', which needs n_jobs, the jobs in a window")
    if n_jobs is None:
        return EpisodePlan(windows=tuple(Window(i, first, last - first) for i, (first, last) in enumerate(bounds)))
    roomy = [(i, first, last) for i, (first, last) in enumerate(bounds) if last - first >= n_jobs]
    if not roomy:
        best = max(range(len(bounds)), key=lambda i: bounds[i][1] - bounds[i][0])
        raise OptionsError(
            f"n_jobs is {n_jobs}, but that part of {names[best]} has {bounds[best][1] - bounds[best][0]} jobs"
        )
    if start == "random":
        return EpisodePlan(ranges=tuple((i, first, last - n_jobs) for i, first, last in roomy), n_jobs=n_jobs)
    return EpisodePlan(
        windows=tuple(Window(i, at, n_jobs) for i, first, last in roomy for at in side_by_side((first, last), n_jobs))
    )


def _explicit_windows(
    starts: Sequence[int], bounds: list[tuple[int, int]], n_jobs: int | None, names: Sequence[str]
) -> list[Window]:
    if not starts:
        raise OptionsError("start is empty, expected at least one index")
    windows = []
    for workload, (first, last) in enumerate(bounds):
        for at in starts:
            if isinstance(at, bool) or not isinstance(at, (int, np.integer)):
                raise OptionsError(f"start holds {at!r}, expected whole numbers")
            length = last - int(at) if n_jobs is None else n_jobs
            if not is_inside((int(at), int(at) + length), (first, last)):
                raise OptionsError(
                    f"start is {at}: no window of {max(length, 1)} jobs there, that part of {names[workload]} holds the"
                    f" jobs {first} to {last - 1}"
                )
            windows.append(Window(workload, int(at), int(length)))
    return windows

"""The world of a dissertation on batch scheduling (LANNDS18/DeepRLScheduler), with its errors, which are switches.

Jobs get whole nodes. Up to 128 waiting jobs are seen, and choosing one commits the machine to it. Its baselines
score rows instead of jobs, and the row that skips scores best.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import UnknownName
from hdrl.compat.dissertation import entries
from hdrl.compat.dissertation import world as kernel
from hdrl.compat.dissertation.jobs import SHORTEST_S, FloatArray, NodeJobs
from hdrl.compat.dissertation.view import CAP
from hdrl.compiled.borrowed import Borrowed
from hdrl.envs.episodes import Window
from hdrl.envs.requests import chosen_errors

COMPATIBILITY = "dissertation"
"""The compatibility mode."""

ERRORS: Mapping[str, str] = MappingProxyType(
    {
        "true_run_times": "agents see true run times",
        "skip_is_paid": "skipping is rewarded like choosing a job, so that idling pays",
        "may_give_up": "if no job runs or arrives, an agent that skips leaves the waiting jobs unrun",
        "skip_row_first": "baselines prefer the skipping row to every job: they start nothing until 128 jobs wait",
        "scores_of_rows": "baselines score the rounded, capped shares of up to 128 rows instead of all waiting jobs",
        "unrun_left_out": "means omit jobs that never ran",
    }
)
"""Errors of the original, by name."""

USUAL_ERRORS = frozenset(ERRORS) - {"true_run_times"}
"""Errors that are reproduced by default: policies that learn from true run times are of no use."""

_FLAGS: Mapping[str, int] = MappingProxyType(
    {
        "true_run_times": kernel.SHOWS_RUN_TIMES,
        "skip_is_paid": kernel.SKIP_IS_REWARDED,
        "may_give_up": kernel.MAY_GIVE_UP,
        "skip_row_first": kernel.SKIP_ROW_FIRST,
        "scores_of_rows": kernel.SCORES_OF_ROWS,
    }
)

BASELINES: Mapping[str, int] = MappingProxyType(
    {
        "fcfs": kernel.BY_SUBMISSION,
        "sjf": kernel.BY_SHORTEST,
        "smallest": kernel.BY_SMALLEST,
        "f1": kernel.BY_F1,
    }
)
"""Its baselines."""

GUIDES: Mapping[str, int] = MappingProxyType({**BASELINES, "f2": kernel.BY_F2})
"""Orders of jobs whose choices agents may imitate."""

SCORES: Mapping[str, int] = MappingProxyType(
    {
        "mean_bounded_slowdown": kernel.BOUNDED_SLOWDOWN,
        "mean_wait_s": kernel.WAIT,
        "mean_turnaround_s": kernel.TURNAROUND,
        "utilization": kernel.UTILIZATION,
        "mean_slowdown": kernel.SLOWDOWN,
    }
)
"""Scores, in their order."""

REWARDS: Mapping[str, int] = MappingProxyType(
    {
        "episodic": kernel.EPISODIC,
        "running": kernel.RUNNING,
        "sigmoid": kernel.SIGMOID,
        "corrected": kernel.CORRECTED,
    }
)
"""Rewards made of scores, see `envs.dissertation_env.DissertationVectorEnv`."""

_SKIP_VALUE = -1.0
"""Value that the skip row shows in place of numbers of a job."""

_ABSENT = 1.0
"""Observed value of a number that is missing in the log."""


@dataclass(frozen=True, slots=True)
class DissertationOutcome:
    """Outcome of the jobs of a window."""

    start_s: FloatArray  # start of each job in seconds, -1 for those that never were; shape ``(n_jobs,)``
    scores: Mapping[str, float]  # its means by the names of `SCORES`

    @property
    def n_run(self) -> int:
        """Number of jobs that were run."""
        return int(np.count_nonzero(self.start_s >= 0))


def read_errors(errors: Iterable[str] | None) -> frozenset[str]:
    """Return the errors to reproduce, names of `ERRORS`; ``None``: `USUAL_ERRORS`."""
    return frozenset(chosen_errors(errors, ERRORS, USUAL_ERRORS))


# ---------------------------------------------------------------------- tables of the compiled world


def _share(values: FloatArray, largest: float) -> FloatArray:
    return np.clip(values / largest, -1.0, CAP) if largest > 0 else np.zeros(len(values))


def _known_share(values: FloatArray, largest: float) -> FloatArray:
    return np.where(values == -1, _ABSENT, _share(values, largest))


def _rows(jobs: NodeJobs) -> NDArray[np.float32]:
    """Return the observation of each job, shape ``(n_jobs, 10)``; values that change with time are 0."""
    rows = np.zeros((jobs.n_jobs, kernel.N_COLUMNS), dtype=np.float32)
    rows[:, 0] = _share(jobs.submit_s, jobs.largest["date"])
    rows[:, 2] = _share(jobs.requested_s, jobs.longest_s)
    rows[:, 3] = _share(jobs.run_s, jobs.longest_s)
    rows[:, 4] = _share(jobs.procs, jobs.n_procs)
    rows[:, 5] = _known_share(jobs.memory, jobs.largest["memory"])
    rows[:, 6] = _known_share(jobs.user, jobs.largest["user"])
    rows[:, 7] = _known_share(jobs.group, jobs.largest["group"])
    rows[:, 9] = 1.0
    return rows


def _f1(requested_s: NDArray[Any], procs: NDArray[Any], submit_s: NDArray[Any]) -> NDArray[Any]:
    """Return F1, with 0.1 in place of what has no logarithm (Carastan-Santos and de Camargo, SC'17)."""
    tenth = submit_s.dtype.type(0.1)
    longest, latest = (np.where(one > 0, one, tenth) for one in (requested_s, submit_s))
    first, second = (elementary.log10(one).astype(submit_s.dtype) for one in (longest, latest))
    return np.asarray(first * procs + 870 * second)


def _ranks(jobs: NodeJobs) -> NDArray[np.int64]:
    """Return the position of each job in each order, the same for equal jobs; shape ``(n_orders, n_jobs)``."""
    ranks = np.zeros((kernel.N_ORDERS, jobs.n_jobs), dtype=np.int64)
    with np.errstate(invalid="ignore"):
        f2 = np.sqrt(jobs.requested_s) * jobs.procs + 25600 * elementary.log10(jobs.submit_s)
    keys = {
        kernel.BY_SUBMISSION: (jobs.submit_s,),
        kernel.BY_SHORTEST: (jobs.requested_s, jobs.submit_s),
        kernel.BY_SMALLEST: (jobs.procs, jobs.submit_s),
        kernel.BY_F1: (_f1(jobs.requested_s, jobs.procs, jobs.submit_s),),
        kernel.BY_F2: (f2,),
    }
    for order, columns in keys.items():
        ranks[order] = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    return ranks


def _scores(rows: NDArray[np.float32]) -> FloatArray:
    """Return the baselines' scores of rows, shape ``(n_orders, n_rows)``; in its numbers of single precision."""
    scores = np.zeros((kernel.N_ORDERS, len(rows)))
    scores[kernel.BY_SUBMISSION] = rows[:, 0]
    scores[kernel.BY_SHORTEST] = rows[:, 2]
    scores[kernel.BY_SMALLEST] = rows[:, 4]
    scores[kernel.BY_F1] = _f1(rows[:, 2], rows[:, 4], rows[:, 0])
    return scores


def shared_arrays(
    jobs: NodeJobs,
    errors: frozenset[str],
    *,
    score: str = "mean_bounded_slowdown",
    reward: str = "episodic",
    sigmoid_scale: float = 100.0,
    backfills: bool = False,
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a world that no episode changes.

    - ``sigmoid_scale``: what scores are divided by in sigmoid rewards.
    - ``backfills``: whether others may overtake a chosen job that does not fit.
    """
    flags = np.zeros(kernel.N_FLAGS, dtype=np.int64)
    for name, position in _FLAGS.items():
        flags[position] = name in errors
    settings = np.zeros(kernel.N_SETTINGS, dtype=np.int64)
    settings[kernel.SCORE], settings[kernel.REWARD] = SCORES[score], REWARDS[reward]
    settings[kernel.BACKFILLS] = backfills
    rows = _rows(jobs)
    largest = jobs.largest["number"]
    return {
        "flags": flags,
        "settings": settings,
        "scale": np.array([sigmoid_scale]),
        "n_procs": np.array([float(jobs.n_procs)]),
        "submit_s": np.ascontiguousarray(jobs.submit_s),
        "run_s": np.ascontiguousarray(jobs.run_s),
        "requested_s": np.ascontiguousarray(jobs.requested_s),
        "procs": np.ascontiguousarray(jobs.procs),
        "nodes": jobs.nodes,
        "ranks": _ranks(jobs),
        "scores": _scores(rows),
        "skip_scores": _scores(np.full((1, kernel.N_COLUMNS), _SKIP_VALUE, dtype=np.float32))[:, 0],
        "rows": rows,
        "names": np.clip(jobs.numbers / largest if largest > 0 else jobs.numbers, -1.0, 1.0).astype(np.float32),
    }


# ---------------------------------------------------------------------- results


def scores_of(
    jobs: NodeJobs, window: Window, start_s: FloatArray, now_s: float, errors: frozenset[str]
) -> dict[str, float]:
    """Return the means of a window by the names of `SCORES`, 0 if nothing counts.

    - ``start_s``: when each was started, -1 for those that were not.
    - ``now_s``: when the episode ended. Jobs that were never run count as if they were started then, unless means leave
      them out.
    """
    positions = slice(window.start, window.start + window.n_jobs)
    submit_s, run_s, procs = jobs.submit_s[positions], jobs.run_s[positions], jobs.procs[positions]
    was_run = start_s >= 0
    wait_s = np.where(was_run, start_s, now_s) - submit_s
    counted = was_run if "unrun_left_out" in errors else np.ones(window.n_jobs, dtype=np.bool_)
    turnaround_s = wait_s + run_s
    means = {
        "mean_bounded_slowdown": np.maximum(1.0, turnaround_s / np.maximum(run_s, SHORTEST_S)),
        "mean_wait_s": wait_s,
        "mean_turnaround_s": turnaround_s,
        "mean_slowdown": turnaround_s / run_s,
    }
    found = {name: float(values[counted].mean()) if counted.any() else 0.0 for name, values in means.items()}
    span_s = now_s - float(submit_s[0])
    area = float((run_s * procs)[was_run].sum())
    found["utilization"] = area / (span_s * jobs.n_procs) if span_s > 0 else 0.0
    return found


def play_baseline(
    jobs: NodeJobs,
    windows: Sequence[Window],
    baseline: str,
    *,
    errors: Iterable[str] | None = None,
    backfills: bool = False,
    seed: int = 0,
) -> list[DissertationOutcome]:
    """Run a baseline of the original on windows of a log.

    Raise UnknownName if there is no such baseline.

    Parameters
    ----------
    windows
        Windows to play, each on an empty machine.
    backfills
        True if others may overtake a chosen job that does not fit.
    seed
        Seed of what is drawn: the last fifth of the rows where more than 128 jobs wait.
    """
    if baseline not in BASELINES:
        raise UnknownName("baseline of the dissertation", baseline, BASELINES)
    chosen = read_errors(errors)
    shared = shared_arrays(jobs, chosen, backfills=backfills)
    return play_order(jobs, windows, BASELINES[baseline], shared, chosen, seed=seed)


def play_order(
    jobs: NodeJobs,
    windows: Sequence[Window],
    order: int,
    shared: dict[str, NDArray[Any]],
    errors: frozenset[str] = frozenset(),
    *,
    seed: int = 0,
) -> list[DissertationOutcome]:
    """Run windows of a log under an order of jobs."""
    world = kernel.new_world(shared, len(windows), max(window.n_jobs for window in windows), jobs.n_nodes)
    for row, window in enumerate(windows):
        put_window(world, row, window, seed + row)
    n = len(windows)
    entries.SERVED.call(Borrowed(world), entries.PLAY, np.ones(n, dtype=np.bool_), np.full(n, order, dtype=np.int64))
    outcomes = []
    for row, window in enumerate(windows):
        start_s = world.start_s[row, : window.n_jobs].copy()
        scores = scores_of(jobs, window, start_s, float(world.now_s[row, 0]), errors)
        outcomes.append(DissertationOutcome(start_s, scores))
    return outcomes


def put_window(world: kernel.NodeWorld, row: int, window: Window, seed: int) -> None:
    """Write into an environment which jobs its episode consists of."""
    # A shorter episode must not leave positions of jobs behind that the next one has not.
    world.seen[row] = kernel.NO_JOB
    world.first[row], world.n_jobs[row] = window.start, window.n_jobs
    world.random[row] = 1 + seed % 2147483645

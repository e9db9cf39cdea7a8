"""All that the simulation of a pool holds: arrays shared by all environments, and arrays with a leading axis."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.kernel.jit import jit
from hdrl.kernel.records import record_dtype

JOB_DTYPE = record_dtype(
    [
        ("submit_s", np.float64),
        ("run_s", np.float64),
        ("requested_time_s", np.float64),
        ("n_requested", np.int64),
        ("memory_mib", np.float64),
        ("bandwidth_gbps", np.float64),
        ("rank", np.int64),
    ]
)
"""A job of the table, in the order of submission: ``run_s`` how long it really runs, ``requested_time_s`` how long
its user says, ``n_requested`` its processors, ``rank`` its place. The other fields serve job keys alone."""

SETTINGS_DTYPE = record_dtype(
    [
        ("n_procs", np.int64),
        ("commitment", np.int64),
        ("backfilling", np.int64),
        ("has_skip", np.int64),
        ("is_one_by_one", np.int64),
        ("has_expectations", np.int64),
        ("order_key", np.int64),
        ("objective", np.int64),
        ("is_shaped", np.int64),
        ("max_jobs", np.int64),
        ("n_features", np.int64),
        ("log_requested_scale", np.float64),
    ]
)
"""What all environments of a batch have in common.

``commitment``, ``backfilling``, ``objective`` are numbers of `hdrl.kernel.pool.codes`; ``has_skip`` whether the last
action waits for the next event; ``is_one_by_one`` whether simultaneous events are looked at one after the other, as
RLScheduler does; ``has_expectations`` whether expected ends are kept, which backfilling and some columns need;
``order_key`` the job key by which the queue is shown; ``is_shaped`` whether each step is rewarded by what it adds to
the objective, or only the last by all of it; ``log_requested_scale`` what makes the logarithm of the longest requested
time 1.
"""

SCALARS_DTYPE = record_dtype(
    [
        ("message_s", np.float64),
        ("first_submit_s", np.float64),
        ("first_job", np.int64),
        ("end_job", np.int64),
        ("next_job", np.int64),
        ("n_free", np.int64),
        ("n_waiting", np.int64),
        ("n_running", np.int64),
        ("n_started", np.int64),
        ("stage", np.int64),
        ("chosen", np.int64),
        ("is_reserved", np.int64),
        ("shadow_s", np.float64),
        ("n_spare", np.int64),
        ("bounded_slowdown", np.float64),
        ("slowdown", np.float64),
        ("wait_s", np.float64),
        ("turnaround_s", np.float64),
        ("area_s", np.float64),
        ("last_end_s", np.float64),
        ("told", np.float64),
        ("n_shown", np.int64),
        ("n_open", np.int64),
        ("changed_from", np.int64),
        ("moved_from", np.int64),
        ("shown_s", np.float64),
        ("shown_free", np.int64),
        ("max_wait_s", np.float64),
        ("max_turnaround_s", np.float64),
        ("max_slowdown", np.float64),
        ("max_bounded_slowdown", np.float64),
    ]
)
"""One environment.

``message_s`` the date (named as in the kernel's State, for the job keys); ``first_job``, ``end_job``, ``next_job``
places in the table: the episode's first job, the one after its last, the next to be submitted; ``stage`` what is to be
decided; ``chosen`` the job that waits for its start or its reservation, -1: none; ``is_reserved`` whether its
reservation at this date is known: it can start at ``shadow_s`` with ``n_spare`` processors left over. The sums and
the largest values are over started jobs;
``told`` the part of the objective that has been rewarded. The rest says what the observation holds: ``n_shown`` rows
for the date ``shown_s`` and ``shown_free`` free processors, of which those from
``changed_from`` on are other jobs now, and those from ``moved_from`` on are to move up by one row; the mask is known to
allow the first ``n_open`` of them.
"""


class Pool(NamedTuple):
    """The arrays of a batch, or without the leading axis of one environment.

    Shared: ``jobs`` the table (`JOB_DTYPE`), ``templates`` what does not change in a job's row of the observation,
    float32 ``(n_table, 8)``, ``settings`` (`SETTINGS_DTYPE`, one row), ``columns`` the codes of further columns.

    With a leading axis: ``scalars`` (`SCALARS_DTYPE`, one row); ``waiting`` the jobs of the queue in the order in which
    they are shown, and beside it, for loops over all of them, ``waiting_submit_s`` their dates of submission and
    ``waiting_sizes`` their processors; ``priorities`` and ``start_s`` of each job of the episode, by its place in it
    (-1: not started); ``end_s`` and ``end_jobs`` a heap of the running jobs by their ends; ``expected_s`` and
    ``expected_jobs`` the same jobs sorted by the ends that their users expect; ``candidates`` scratch; ``profile`` free
    processors at dates to come; ``observations`` float32, ``masks`` and ``row_masks`` int8, ``rewards`` float64 and
    ``is_over``, each environment's in a row.
    """

    jobs: NDArray[Any]
    templates: NDArray[Any]
    settings: NDArray[Any]
    columns: NDArray[Any]
    scalars: NDArray[Any]
    waiting: NDArray[Any]
    waiting_submit_s: NDArray[Any]
    waiting_sizes: NDArray[Any]
    priorities: NDArray[Any]
    start_s: NDArray[Any]
    end_s: NDArray[Any]
    end_jobs: NDArray[Any]
    expected_s: NDArray[Any]
    expected_jobs: NDArray[Any]
    candidates: NDArray[Any]
    profile: NDArray[Any]
    observations: NDArray[Any]
    masks: NDArray[Any]
    row_masks: NDArray[Any]
    rewards: NDArray[Any]
    is_over: NDArray[Any]


LARGEST = ("max_wait_s", "max_turnaround_s", "max_slowdown", "max_bounded_slowdown")
"""Scalars that only the objectives of their names need."""

SHARED = ("jobs", "templates", "settings", "columns")
"""Names of the arrays that all environments of a batch share."""

OUTPUTS = ("observations", "masks", "row_masks", "rewards", "is_over")
"""Names of the arrays that are handed out."""

N_PROFILE = 8
"""How many dates to come the profile of free processors has."""


def new_pool(
    n_envs: int,
    n_jobs: int,
    *,
    jobs: NDArray[Any],
    templates: NDArray[Any],
    settings: NDArray[Any],
    columns: NDArray[Any],
    observations: NDArray[Any] | None = None,
    masks: NDArray[Any] | None = None,
    row_masks: NDArray[Any] | None = None,
    rewards: NDArray[Any] | None = None,
    is_over: NDArray[Any] | None = None,
) -> Pool:
    """Return the arrays of a batch; no episode has begun.

    Parameters
    ----------
    n_envs
        Number of environments.
    n_jobs
        Jobs of the longest episode.
    jobs, templates, settings, columns
        What they share, see `Pool`.
    observations, masks, row_masks, rewards, is_over
        Where to write what is handed out; ``None``: arrays of this batch's own.
    """
    s = settings[0]
    n_running = min(int(s["n_procs"]), n_jobs)
    if observations is None:
        observations = np.zeros((n_envs, int(s["max_jobs"]), int(s["n_features"])), dtype=np.float32)
    if masks is None:
        masks = np.zeros((n_envs, int(s["max_jobs"]) + int(s["has_skip"])), dtype=np.int8)
    if row_masks is None:
        row_masks = np.zeros((n_envs, int(s["max_jobs"])), dtype=np.int8)
    return Pool(
        jobs=jobs,
        templates=templates,
        settings=settings,
        columns=columns,
        scalars=np.zeros((n_envs, 1), dtype=SCALARS_DTYPE),
        waiting=np.zeros((n_envs, n_jobs), dtype=np.int32),
        waiting_submit_s=np.zeros((n_envs, n_jobs)),
        waiting_sizes=np.zeros((n_envs, n_jobs), dtype=np.int32),
        priorities=np.zeros((n_envs, n_jobs)),
        start_s=np.full((n_envs, n_jobs), -1.0),
        end_s=np.zeros((n_envs, n_running)),
        end_jobs=np.zeros((n_envs, n_running), dtype=np.int32),
        expected_s=np.zeros((n_envs, n_running)),
        expected_jobs=np.zeros((n_envs, n_running), dtype=np.int32),
        candidates=np.zeros((n_envs, n_jobs), dtype=np.int32),
        profile=np.zeros((n_envs, N_PROFILE)),
        observations=observations.reshape(n_envs, -1),
        masks=masks,
        row_masks=row_masks,
        rewards=np.zeros(n_envs) if rewards is None else rewards,
        is_over=np.zeros(n_envs, dtype=np.bool_) if is_over is None else is_over,
    )


@jit
def first_row(batch):
    """Return the arrays of the first environment of a batch."""
    return Pool(
        batch.jobs,
        batch.templates,
        batch.settings,
        batch.columns,
        batch.scalars[0],
        batch.waiting[0],
        batch.waiting_submit_s[0],
        batch.waiting_sizes[0],
        batch.priorities[0],
        batch.start_s[0],
        batch.end_s[0],
        batch.end_jobs[0],
        batch.expected_s[0],
        batch.expected_jobs[0],
        batch.candidates[0],
        batch.profile[0],
        batch.observations[0],
        batch.masks[0],
        batch.row_masks[0],
        batch.rewards,
        batch.is_over,
    )


def smallest_pool() -> Pool:
    """Return a batch of one environment with one job on one processor; its arrays are of the types of all batches'."""
    settings = np.ones(1, dtype=SETTINGS_DTYPE)
    settings["n_features"] = 8
    pool = new_pool(
        1,
        1,
        jobs=np.ones(1, dtype=JOB_DTYPE),
        templates=np.zeros((1, 8), dtype=np.float32),
        settings=settings,
        columns=np.zeros(0, dtype=np.int64),
    )
    set_episode(pool, 0, 0, 1)
    return pool


def set_episode(pool: Pool, row: int, first: int, n_jobs: int) -> None:
    """Say which jobs an environment's next episode consists of; it begins when `entries.reset_rows` is called.

    Parameters
    ----------
    pool
        The batch.
    row
        Which environment.
    first, n_jobs
        Place of the first job in the table, and how many there are.
    """
    scalars = pool.scalars[row, 0]
    scalars["first_job"] = first
    scalars["end_job"] = first + n_jobs

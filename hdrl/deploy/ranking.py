"""Results of the kernel for jobs outside a simulation: predicted run times, the index, the gate; compiled.

The formulas are those of `hdrl.settings.batch.kernel`, so that a queue of Slurm is ordered as a simulated one is.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.cache import cache_folder
from hdrl.compiled.jit import entry_in, jit
from hdrl.settings import batch
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.beginning import PolicyRule
from hdrl.settings.batch.kernel.dtypes import JOB_STATE_DTYPE, SCALAR_DTYPE
from hdrl.settings.batch.kernel.groups import N_NEURONS, SUMS_DTYPE, end_in, share_without_room
from hdrl.settings.batch.kernel.history import PREDICTION_DTYPE, predict
from hdrl.settings.batch.kernel.keys import N_FEATURES, backlog_of, describe, job_key, weigh
from hdrl.settings.batch.workload.history import ALL_LEVEL, LEVELS, USER_LEVEL

_BATCH = Path(batch.__file__).parent

entry = entry_in(
    cache_folder("hdrl-deploy", [Path(__file__), _BATCH / "kernel", _BATCH / "workload" / "history.py"]),
    "the order of queues",
)


class RankedQueue(NamedTuple):
    """The arrays that the kernel's formulas read: a part of its State.

    Attributes
    ----------
    jobs, scalars, predictions
        Rows of the kernel's types: jobs, one row of scalars, a prediction for each job.
    job_groups
        The groups of each job, positions in ``sums``, shape ``(n_jobs, 5)``, int32.
    sums
        Sums over the ended jobs of each group.
    network, neurons, features, weights
        Numbers of a predictor's network and room for its neurons, room for the features of a job, weights of an index.
    """

    jobs: NDArray[Any]
    scalars: NDArray[Any]
    predictions: NDArray[Any]
    job_groups: NDArray[np.int32]
    sums: NDArray[Any]
    network: NDArray[np.float64]
    neurons: NDArray[np.float64]
    features: NDArray[np.float64]
    weights: NDArray[np.float64]


@jit
def _describe(queue, job, n_procs):
    row, prediction = queue.jobs[job], queue.predictions[job]
    prediction.log_request = math.log(max(row.requested_time_s, 1.0))
    prediction.log_share = math.log(row.n_requested / n_procs)
    predict(queue, job)


@entry
def _rank(queue, key, n_procs, keys, reserves):
    work_s, n_jobs = 0.0, len(keys)
    for job in range(n_jobs):
        _describe(queue, job, n_procs)
        work_s += queue.predictions[job].length_s * queue.jobs[job].n_requested
    if len(queue.weights) > 0:
        backlog = backlog_of(work_s, n_procs)
        without_room = share_without_room(queue.sums[queue.job_groups[0, ALL_LEVEL]])
        for job in range(n_jobs):
            weigh(queue, job, backlog, without_room)
            keys[job], reserves[job] = queue.predictions[job].index, queue.predictions[job].reserve
    if key != codes.JOB_INDEX:
        for job in range(n_jobs):
            keys[job] = job_key(queue, job, key, queue.predictions[job].length_s)


@entry
def _learn(sums, groups, run_s, requested_s):
    end_in(sums, groups, run_s, requested_s)


class Ranked(NamedTuple):
    """Results of the kernel for jobs.

    Attributes
    ----------
    keys
        The index of each job; the lowest is served first.
    reserves
        Share of the machine that must stay free for a job to start; 0: it is not held.
    lengths_s
        Predicted run time of each job, in seconds.
    """

    keys: NDArray[np.float64]
    reserves: NDArray[np.float64]
    lengths_s: NDArray[np.float64]


def ranked(
    jobs: NDArray[Any],
    groups: NDArray[np.int32],
    sums: NDArray[Any],
    rule: PolicyRule,
    key: int,
    *,
    now_s: float,
    n_procs: int,
    n_free: int,
) -> Ranked:
    """Return the index of waiting jobs, the share of the machine that must stay free for each, and predictions.

    Parameters
    ----------
    jobs
        Rows of `waiting_rows`.
    groups
        The groups of each job, shape ``(n_jobs, 5)``, places in ``sums``.
    rule, key
        Of the policy: ``PolicyPair.rule`` and ``PolicyPair.job_key``.
    now_s
        The date, in the seconds of ``submit_s``.
    n_procs, n_free
        Cores of the machine, and how many of them are free.
    """
    queue, n_jobs = _queue(jobs, groups, sums, rule, now_s, n_free), len(jobs)
    keys, reserves = np.zeros(n_jobs), np.zeros(n_jobs)
    if n_jobs:
        _rank(queue, key, n_procs, keys, reserves)
    return Ranked(keys, reserves, queue.predictions["length_s"].copy())


def _queue(
    jobs: NDArray[Any], groups: NDArray[np.int32], sums: NDArray[Any], rule: PolicyRule, now_s: float, n_free: int
) -> RankedQueue:
    scalars = np.zeros(1, dtype=SCALAR_DTYPE)
    scalars["message_s"], scalars["n_free_cores"] = now_s, n_free
    scalars["predictor"] = rule.predictor or codes.PREDICT_REQUESTED
    scalars["index_form"], scalars["has_gate"] = rule.index_form, rule.has_gate
    return RankedQueue(
        jobs,
        scalars,
        np.zeros(len(jobs), dtype=PREDICTION_DTYPE),
        np.ascontiguousarray(groups, dtype=np.int32),
        sums,
        np.array(rule.network, dtype=np.float64),
        np.zeros(N_NEURONS),
        np.zeros(N_FEATURES),
        np.array(rule.weights, dtype=np.float64),
    )


def waiting_rows(
    submit_s: NDArray[np.float64], requested_s: NDArray[np.float64], cores: NDArray[np.int64]
) -> NDArray[Any]:
    """Return rows of waiting jobs for `ranked`."""
    rows = np.zeros(len(submit_s), dtype=JOB_STATE_DTYPE)
    rows["submit_s"], rows["requested_time_s"], rows["n_requested"] = submit_s, requested_s, cores
    return rows


def learn(sums: NDArray[Any], groups: NDArray[np.int32], run_s: float, requested_s: float) -> None:
    """Add a job that has ended to the sums of its groups, of which -1 is none."""
    _learn(sums, groups, float(run_s), float(requested_s))


def warm_up() -> None:
    """Compile the functions of the daemon, so that it need not."""
    rows, sums = waiting_rows(np.zeros(1), np.ones(1), np.ones(1, dtype=np.int64)), np.zeros(1, dtype=SUMS_DTYPE)
    groups = np.zeros((1, len(LEVELS)), dtype=np.int32)
    ranked(rows, groups, sums, PolicyRule(), codes.JOB_FIRST, now_s=0.0, n_procs=1, n_free=0)
    learn(sums, groups[0], 1.0, 1.0)


@entry
def _describe_all(queue, waited_s, n_procs, features):
    for job in range(len(waited_s)):
        _describe(queue, job, n_procs)
        row, user = queue.jobs[job], queue.sums[queue.job_groups[job, USER_LEVEL]]
        fits = row.n_requested <= queue.scalars[0].n_free_cores
        describe(features[job], row, queue.predictions[job], user, waited_s[job], fits)


def described(
    jobs: NDArray[Any],
    groups: NDArray[np.int32],
    sums: NDArray[Any],
    *,
    now_s: float,
    n_procs: int,
    n_free: int,
) -> NDArray[np.float64]:
    """Return the features of waiting jobs that an index weighs, shape ``(n_jobs, 13)``, predicted by ``geo``.

    Parameters
    ----------
    jobs, groups, sums, now_s, n_procs, n_free
        See `ranked`.
    """
    rule = PolicyRule(predictor=codes.PREDICT_GEOMETRIC)
    queue = _queue(jobs, groups, sums, rule, now_s, n_free)
    features = np.zeros((len(jobs), N_FEATURES))
    if len(jobs):
        _describe_all(queue, np.maximum(0.0, now_s - jobs["submit_s"]), n_procs, features)
    return features

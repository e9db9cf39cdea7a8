"""State of a model that plays in compiled code: the kernel's arrays, a pool's for observations, and its own."""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.base.plainnet import PlainActor, PlainLayers
from hdrl.compiled.dense import n_units, n_weights
from hdrl.compiled.fields import first_of, new_arrays, own, scratch, shared
from hdrl.compiled.records import of, record_dtype
from hdrl.settings.batch.compiled_play.network import BLOCK
from hdrl.settings.batch.compiled_play.rules import NO_JOB
from hdrl.settings.batch.identical_cores.state import OrderState, smallest_state
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.state import BatchState, small_state

Rows: TypeAlias = NDArray[np.void]
Singles: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int32]

SCALARS_DTYPE = record_dtype(
    [
        *of(np.int64, "core_key", "has_memory", "copies", "by_rows", "sees_all_rows", "n_rows", "date", "next_rank"),
        *of(np.int64, "room", "n_actions", "is_judged", "request", "action", "stage"),
    ]
)
"""``core_key`` says which cores a job gets (`kernel.codes`), ``has_memory`` whether any job asks for memory,
``copies`` whether observations use predictions, and jobs have other positions than the kernel's; ``n_rows`` is how
many rows an observation has. ``by_rows`` and ``sees_all_rows`` are as of `hdrl.base.plainnet.PlainActor`.

``date`` counts the messages that called for decisions; ``next_rank`` is the rank of the next job to come; ``room`` how
many cores of the chosen job fit at the date of its reservation; ``n_actions`` how many actions there were at this
date; ``is_judged`` whether it is known what actions are worth. ``request``, ``action`` and ``stage`` are what `entries`
pass."""


NO_ACTOR = PlainActor(PlainLayers(np.array([8, 1]), np.zeros(9, dtype=np.float32)))
"""Stands for the network where Python chooses the actions."""


class Pick(NamedTuple):
    """The arrays of its own."""

    scalars: Annotated[Rows, own(SCALARS_DTYPE, "one")]
    # Jobs are numbered in the order of the workload, and have a position in the order of their submission
    position_of: Annotated[Ints, shared(np.int32, "n_jobs")]
    job_at: Annotated[Ints, shared(np.int32, "n_jobs")]
    held: Annotated[NDArray[np.int64], own(np.int64, "n_jobs")]  # of each job, the date at which it was held last
    legal: Annotated[NDArray[np.int8], own(np.int8, "n_legal")]  # mask of the legal actions
    actions: Annotated[Ints, own(np.int32, "n_taken")]  # those of this date
    # The network, as `hdrl.compiled.dense` wants it; the layer behind it, and what that begins with
    widths: Annotated[NDArray[np.int64], shared(np.int64, "n_widths")]
    weights: Annotated[Singles, shared(np.float32, "n_weights")]
    padded: Annotated[Singles, own(np.float32, "n_padded")]
    extra: Annotated[Singles, shared(np.float32, "n_extra")]
    mean: Annotated[Singles, scratch(np.float32, "n_mean")]
    units: Annotated[Singles, own(np.float32, "n_units", "block")]
    line: Annotated[Singles, own(np.float32, "n_line")]  # where all numbers pass together, as `hdrl.compiled.onerow`
    active: Annotated[Ints, scratch(np.int32, "n_line")]
    rows: Annotated[Ints, scratch(np.int32, "block")]  # rows of the observation that pass in a block
    worths: Annotated[Singles, scratch(np.float32, "n_legal")]  # value of each action


class Play(NamedTuple):
    """A simulation in which a model picks."""

    kernel: BatchState
    pool: OrderState
    pick: Pick


def new_play(
    kernel: BatchState,
    pool: OrderState,
    actor: PlainActor,
    *,
    order: NDArray[np.int64],
    core_key: int,
    predicts: bool,
) -> Play:
    """Return the arrays of a simulation that is about to begin.

    - ``pool``: a batch of one environment without an episode, for what is seen: all jobs are in its table.
    - ``order``: the indices of the jobs in the order of submission.
    - ``predicts``: whether observations use predictions, which are the kernel's then.
    """
    n_jobs = len(order)
    layers, extra = actor.layers, np.zeros(0, dtype=np.float32) if actor.extra is None else actor.extra.weights
    position_of = np.empty(n_jobs, dtype=np.int32)
    position_of[order] = np.arange(n_jobs, dtype=np.int32)
    sizes = {
        "one": 1,
        "n_jobs": n_jobs,
        "n_legal": pool.masks.shape[1],
        # at a date each job may be held and picked once, and one may be chosen that does not fit
        "n_taken": 2 * n_jobs + 2,
        "n_widths": len(layers.widths),
        "n_weights": len(layers.weights),
        "n_padded": n_weights(layers.widths),
        "n_units": n_units(layers.widths) if actor.by_rows else 0,
        "n_line": 0 if actor.by_rows else int(layers.widths.sum()),
        "block": BLOCK,
        "n_extra": len(extra),
        "n_mean": int(layers.widths[-2]),
    }
    scalars = np.zeros(1, dtype=SCALARS_DTYPE)
    s = scalars[0]
    s["core_key"], s["n_rows"] = core_key, pool.settings[0]["max_jobs"]
    is_in_order = np.array_equal(order, np.arange(n_jobs))
    s["copies"] = predicts and not is_in_order
    s["has_memory"] = bool(np.any(kernel.jobs["memory_mib"] > 0))
    s["by_rows"], s["sees_all_rows"] = actor.by_rows, actor.sees_all_rows
    given = {"scalars": scalars, "position_of": position_of, "job_at": order.astype(np.int32)}
    pick = new_arrays(Pick, sizes, given | {"widths": layers.widths, "weights": layers.weights, "extra": extra})
    pool.scalars["chosen"] = NO_JOB
    if predicts:
        pool.groups[0] = kernel.job_groups[order]
        pool = pool._replace(sums=kernel.sums[None])
    if predicts and is_in_order:
        pool = pool._replace(predictions=kernel.predictions[None])
    return Play(kernel, first_of(pool), pick)


def small_play() -> Play:
    """Return a play of one job; its arrays are of the types of all plays'."""
    order = np.zeros(1, dtype=np.int64)
    core_key = codes.CORE_HIGH_GFLOPS
    return new_play(small_state(), smallest_state(), NO_ACTOR, order=order, core_key=core_key, predicts=False)

"""Making the arrays with which a model plays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdrl.base.plainnet import PlainActor, PlainLayers
from hdrl.compiled.dense import n_units, n_weights
from hdrl.compiled.fields import first_of, new_arrays
from hdrl.settings.batch.compiled_play.network import BLOCK
from hdrl.settings.batch.compiled_play.rules import NOBODY
from hdrl.settings.batch.compiled_play.state import SCALARS_DTYPE, Pick, Play
from hdrl.settings.batch.identical_cores.state import OrderState, smallest_state
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.state import State, small_state


def new_play(
    kernel: State,
    pool: OrderState,
    actor: PlainActor,
    *,
    order: NDArray[np.int64],
    core_key: int,
    predicts: bool,
) -> Play:
    """Return the arrays of a simulation that is about to begin.

    Parameters
    ----------
    kernel
        The kernel's.
    pool
        A batch of one environment without an episode, for what is seen: all jobs are in its table.
    actor
        What picks.
    order
        The indices of the jobs in the order of submission.
    core_key
        Which cores a job gets.
    predicts
        Whether what is seen goes by predictions, which are the kernel's then.
    """
    n_jobs = len(order)
    layers, extra = actor.layers, np.zeros(0, dtype=np.float32) if actor.extra is None else actor.extra.weights
    place_of = np.empty(n_jobs, dtype=np.int32)
    place_of[order] = np.arange(n_jobs, dtype=np.int32)
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
    given = {"scalars": scalars, "place_of": place_of, "job_at": order.astype(np.int32)}
    pick = new_arrays(Pick, sizes, given | {"widths": layers.widths, "weights": layers.weights, "extra": extra})
    pool.scalars["chosen"] = NOBODY
    if predicts:
        pool.groups[0] = kernel.job_groups[order]
        pool = pool._replace(sums=kernel.sums[None])
    if predicts and is_in_order:
        pool = pool._replace(predictions=kernel.predictions[None])
    return Play(kernel, first_of(pool), pick)


def small_play() -> Play:
    """Return a play of one job; its arrays are of the types of all plays'."""
    pool = smallest_state()
    order = np.zeros(1, dtype=np.int64)
    actor = PlainActor(PlainLayers(np.array([8, 1], dtype=np.int64), np.zeros(9, dtype=np.float32)), by_rows=True)
    return new_play(small_state(), pool, actor, order=order, core_key=codes.CORE_HIGH_GFLOPS, predicts=False)

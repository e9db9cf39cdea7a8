"""What a model that plays in compiled code holds: the kernel's arrays, a pool's for what is seen, and its own."""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.fields import own, scratch, shared
from hdrl.compiled.records import record_dtype
from hdrl.settings.batch.identical_cores.state import OrderState
from hdrl.settings.batch.kernel.state import State

Rows: TypeAlias = NDArray[np.void]
Singles: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int32]

SCALARS_DTYPE = record_dtype(
    [
        ("core_key", np.int64),
        ("has_memory", np.int64),
        ("copies", np.int64),
        ("by_rows", np.int64),
        ("sees_all_rows", np.int64),
        ("n_rows", np.int64),
        ("date", np.int64),
        ("next_rank", np.int64),
        ("room", np.int64),
        ("n_actions", np.int64),
        ("is_judged", np.int64),
    ]
)
"""``core_key`` says which cores a job gets (`kernel.codes`), ``has_memory`` whether any job asks for memory,
``copies`` whether what is seen goes by predictions, and jobs have other places than the kernel's; ``n_rows`` is how
many rows an observation has. ``by_rows`` and ``sees_all_rows`` are as of `hdrl.base.plainnet.PlainActor`.

``date`` counts the messages that called for decisions; ``next_rank`` is the rank of the next job to come; ``room`` how
many cores of the chosen job fit at the date of its reservation; ``n_actions`` how many actions there were at this
date; ``is_judged`` whether it is known what actions are worth."""


class Pick(NamedTuple):
    """The arrays of its own."""

    scalars: Annotated[Rows, own(SCALARS_DTYPE, "one")]
    # Jobs are numbered in the order of the workload, and have a place in the order of their submission
    place_of: Annotated[Ints, shared(np.int32, "n_jobs")]
    job_at: Annotated[Ints, shared(np.int32, "n_jobs")]
    held: Annotated[NDArray[np.int64], own(np.int64, "n_jobs")]  # of each job, the date at which it was held last
    legal: Annotated[NDArray[np.int8], own(np.int8, "n_legal")]  # which actions are legal
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
    rows: Annotated[Ints, scratch(np.int32, "block")]  # which rows of the observation pass in a block
    worths: Annotated[Singles, scratch(np.float32, "n_legal")]  # what each action is worth


class Play(NamedTuple):
    """A simulation in which a model picks."""

    kernel: State
    pool: OrderState
    pick: Pick

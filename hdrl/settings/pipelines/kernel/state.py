"""State of a simulation, one line of `PipelinesState` for each array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.fields import Role, fields_of, names_of, new_arrays, own, shared, sizes_of
from hdrl.compiled.records import of, record_dtype

Rows: TypeAlias = NDArray[np.void]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

UNIT_TABLE_DTYPE = record_dtype(of(np.int64, "kind", "ecu"))
"""A unit of the machine."""

PIPELINE_DTYPE = record_dtype(of(np.int64, "first_kernel", "n_kernels", "ecu"))
"""A pipeline: where its kernels begin in the table of kernels, and how many there are; the ECU it is bound to."""

KERNEL_DTYPE = record_dtype(
    [
        *of(np.int64, "worst_us", "best_us", "tail_us", "best_tail_us", "rank_us", "n_predecessors"),
        *of(np.int64, "first_successor", "n_successors", "first_choice", "n_choices", "planned_choice"),
        ("planned_unit", np.int64),
    ]
)
"""A kernel: ``worst_us``, ``best_us`` its time on the slowest and on the fastest kind of unit; ``tail_us`` the longest
path from its start to the end of the instance by worst times, ``best_tail_us`` by best times, ``rank_us`` by mean
times (the upward rank of HEFT). Slices of the tables of successors and of choices; what the plan says."""

CHOICE_DTYPE = record_dtype(
    [
        *of(np.int64, "cpu_us", "gpu_us", "sum_cpu_us", "sum_gpu_us", "after_us", "deadline_tail_us", "first_member"),
        ("n_members", np.int64),
    ]
)
"""A kernel alone, or fused with others: its time by kind (-1: never), that of its kernels one by one; ``after_us`` the
longest path by best times that is left after it; ``deadline_tail_us`` the largest local tail that its latest kernel
has (see ``BY_THRESHOLD``); its slice of the table of members."""

MEMBER_DTYPE = record_dtype(of(np.int64, "kernel", "n_inner", "cpu_us", "gpu_us"))
"""A kernel of a choice, by its number in the pipeline; how many of its predecessors are of the same choice; times."""

INSTANCE_TABLE_DTYPE = record_dtype(
    [
        *of(np.int64, "pipeline", "release_us", "deadline_us", "tolerance_us", "period_us", "first_place", "job"),
        ("is_announced", np.int64),
    ]
)
"""An instance: as in `hdrl.settings.pipelines.loads.load.INSTANCE_DTYPE`; ``first_place`` counts kernels of all
instances through, ``job`` is the number of its pipeline within its own set; ``is_announced`` whether its release is
known before: that of strictly periodic ones is."""

SETTINGS_DTYPE = record_dtype(
    [
        *of(np.int64, "compatibility", "is_fixed_task", "counts_whole_times", "counts_worst_times", "max_ready"),
        *of(np.int64, "n_depths", "has_wait", "has_lookahead", "n_jobs", "reward", "objective"),
    ]
)
"""Settings that all environments of a batch share: ``compatibility`` PLAIN or RLSCHEDSIM; ``is_fixed_task`` whether the
next kernel is given and an action says kind and depth; ``counts_whole_times`` and ``counts_worst_times`` errors of
rlschedsim's state to repeat; ``max_ready`` ready kernels that are shown, ``n_depths`` choices of each, ``has_wait``
whether the last action waits; ``has_lookahead`` whether rows compare kernels with each other, and a kernel is held
whose row on a busy unit is picked; ``n_jobs`` pipelines of a set."""

SCALARS_DTYPE = record_dtype(
    [
        *of(np.int64, "now_us", "start_us", "last_end_us", "first_instance", "end_instance", "next_instance"),
        *of(np.int64, "n_ready", "n_running", "n_ended", "n_missed", "n_stays", "n_decisions", "is_waiting", "stage"),
        *of(np.int64, "decided", "random", "tardiness_us", "max_tardiness_us", "lateness_us"),
        *of(np.float64, "earned", "rewarded"),
    ]
)
"""One environment: dates; the positions of its instances in the table; counts; ``is_waiting`` if the last action was
to wait for the next event; ``decided`` the instance that was decided on last (-1: none); ``random`` the state of a
generator; sums over ended instances; ``earned`` rewards not yet paid, ``rewarded`` the part of the objective that
was."""

UNIT_DTYPE = record_dtype(of(np.int64, "stay", "end_us", "member", "head", "tail", "queued_us"))
"""A unit: the stay that runs (-1: idle) and its end; which kernel of a fused group it is at, as rlschedsim has it; the
first and the last stay of its queue; the worst-case time of all that is queued."""

STAY_DTYPE = record_dtype(of(np.int64, "instance", "choice", "unit", "start_us", "end_us", "worst_us", "next"))
"""A kernel, alone or fused, on a unit: ``instance`` its position in the episode; ``start_us`` -1 while it is queued;
``worst_us`` its worst-case time there; ``next`` what comes after it in the queue."""

READY_DTYPE = record_dtype(of(np.int64, "instance", "kernel", "local_deadline_us", "place", "is_held"))
"""A ready kernel: instance (position in the episode), its number in the pipeline, its index among all kernels of the
episode, its local deadline (when it must have ended if all that follows takes its worst time), and whether it may start
only after the next event."""

PROGRESS_DTYPE = record_dtype(of(np.int64, "n_left", "n_decisions", "start_us", "end_us"))
"""An instance: kernels that have not ended, decisions that it took, its first start and its end (-1: none)."""


N_WEIGHTS = 17
"""Weights of an index, see `hdrl.settings.pipelines.kernel.index`."""


class PipelinesState(NamedTuple):
    """The arrays of a batch, or without the leading axis those of one environment."""

    # The machine and the loads
    units: Annotated[Rows, shared(UNIT_TABLE_DTYPE, "n_units")]
    pipelines: Annotated[Rows, shared(PIPELINE_DTYPE, "n_pipelines")]
    kernels: Annotated[Rows, shared(KERNEL_DTYPE, "n_table_kernels")]
    successors: Annotated[Ints, shared(np.int64, "n_successors")]  # numbers within the pipeline
    choices: Annotated[Rows, shared(CHOICE_DTYPE, "n_choices")]
    members: Annotated[Rows, shared(MEMBER_DTYPE, "n_members")]
    instances: Annotated[Rows, shared(INSTANCE_TABLE_DTYPE, "n_table_instances")]
    settings: Annotated[Rows, shared(SETTINGS_DTYPE, "one")]
    # An episode
    scalars: Annotated[Rows, own(SCALARS_DTYPE, "one")]
    unit: Annotated[Rows, own(UNIT_DTYPE, "n_units")]
    ready: Annotated[Rows, own(READY_DTYPE, "n_kernels")]  # by local deadline, then instance, then kernel
    # Of each kernel how many predecessors have not ended, -1 once it is dispatched; and how long it really takes, in
    # parts of its worst case (65536)
    waits_for: Annotated[Ints, own(np.int64, "n_kernels")]
    shares: Annotated[Ints, own(np.int64, "n_kernels")]
    progress: Annotated[Rows, own(PROGRESS_DTYPE, "n_instances")]
    stays: Annotated[Rows, own(STAY_DTYPE, "n_kernels")]  # in the order in which they were decided
    # An index: its weights, and what is worked out anew for every decision: features of a row, and slacks by position
    # among the ready kernels and unit
    weights: Annotated[Floats, own(np.float64, "n_weights")]
    features: Annotated[Floats, own(np.float64, "n_weights")]
    slack_us: Annotated[Ints, own(np.int64, "n_slacks")]
    observations: Annotated[NDArray[np.float32], own(np.float32, "n_observed", is_output=True)]
    masks: Annotated[NDArray[np.int8], own(np.int8, "n_actions", is_output=True)]
    row_masks: Annotated[NDArray[np.int8], own(np.int8, "n_rows", is_output=True)]


INDEXING = ("weights", "features", "slack_us")
"""Names of the arrays of an index: its weights, which are given, and what is worked out anew for every decision."""


def new_state(
    n_envs: int, n_instances: int, n_kernels: int, tables: Mapping[str, NDArray[Any]], **outputs: NDArray[Any]
) -> PipelinesState:
    """Return the arrays of a batch; no episode has begun.

    ``outputs`` are the arrays of observations by name; without them nothing is observed.
    """
    if "observations" in outputs:
        outputs["observations"] = outputs["observations"].reshape(n_envs, -1)
    given = {name: tables[name] for name in names_of(PipelinesState, Role.SHARED)} | outputs
    sizes = {
        "one": 1,
        "n_kernels": n_kernels,
        "n_instances": n_instances,
        "n_weights": N_WEIGHTS,
        "n_slacks": n_kernels * len(tables["units"]),
        "n_observed": 0,
        "n_actions": 0,
        "n_rows": 0,
    }
    return new_arrays(PipelinesState, sizes | sizes_of(PipelinesState, given), given, n_envs)


def set_episode(state: PipelinesState, row: int, first: int, n_instances: int, shares: NDArray[np.int64]) -> None:
    """Set the next episode of an environment: instances from ``first`` on, and the ``shares`` of their worst cases."""
    scalars = state.scalars[row, 0]
    scalars["first_instance"] = first
    scalars["end_instance"] = first + n_instances
    state.shares[row, : len(shares)] = shares


def smallest_state() -> PipelinesState:
    """Return a batch of one environment with one kernel on one unit; its arrays are of the types of all batches'."""
    given = {
        name: np.zeros(1, dtype=fields_of(PipelinesState)[name].dtype) for name in names_of(PipelinesState, Role.SHARED)
    }
    return new_state(1, 1, 1, given)

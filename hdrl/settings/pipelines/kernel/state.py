"""All that a simulation holds: tables shared by all environments, and arrays with a leading axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.jit import jit
from hdrl.compiled.records import record_dtype

UNIT_TABLE_DTYPE = record_dtype([("kind", np.int64), ("ecu", np.int64)])
"""A unit of the machine."""

PIPELINE_DTYPE = record_dtype([("first_kernel", np.int64), ("n_kernels", np.int64), ("ecu", np.int64)])
"""A pipeline: where its kernels begin in the table of kernels, and how many there are; the ECU it is bound to."""

KERNEL_DTYPE = record_dtype(
    [
        ("worst_us", np.int64),
        ("best_us", np.int64),
        ("tail_us", np.int64),
        ("best_tail_us", np.int64),
        ("rank_us", np.int64),
        ("n_predecessors", np.int64),
        ("first_successor", np.int64),
        ("n_successors", np.int64),
        ("first_choice", np.int64),
        ("n_choices", np.int64),
        ("planned_choice", np.int64),
        ("planned_unit", np.int64),
    ]
)
"""A kernel: ``worst_us``, ``best_us`` its time on the slowest and on the fastest kind of unit; ``tail_us`` the longest
path from its start to the end of the instance by worst times, ``best_tail_us`` by best times, ``rank_us`` by mean
times (the upward rank of HEFT). Slices of the tables of successors and of choices; what the plan says."""

CHOICE_DTYPE = record_dtype(
    [
        ("cpu_us", np.int64),
        ("gpu_us", np.int64),
        ("sum_cpu_us", np.int64),
        ("sum_gpu_us", np.int64),
        ("after_us", np.int64),
        ("deadline_tail_us", np.int64),
        ("first_member", np.int64),
        ("n_members", np.int64),
    ]
)
"""A kernel alone, or fused with others: its time by kind (-1: never), that of its kernels one by one; ``after_us`` the
longest path by best times that is left after it; ``deadline_tail_us`` the largest local tail that its latest kernel
has (see ``BY_THRESHOLD``); its slice of the table of members."""

MEMBER_DTYPE = record_dtype([("kernel", np.int64), ("n_inner", np.int64), ("cpu_us", np.int64), ("gpu_us", np.int64)])
"""A kernel of a choice, by its number in the pipeline; how many of its predecessors are of the same choice; times."""

INSTANCE_TABLE_DTYPE = record_dtype(
    [
        ("pipeline", np.int64),
        ("release_us", np.int64),
        ("deadline_us", np.int64),
        ("tolerance_us", np.int64),
        ("period_us", np.int64),
        ("first_place", np.int64),
        ("job", np.int64),
        ("is_announced", np.int64),
    ]
)
"""An instance: as in `hdrl.settings.pipelines.loads.load.INSTANCE_DTYPE`; ``first_place`` counts kernels of all
instances through, ``job`` is the number of its pipeline within its own set; ``is_announced`` whether its release is
known before: that of strictly periodic ones is."""

SETTINGS_DTYPE = record_dtype(
    [
        ("compatibility", np.int64),
        ("is_fixed_task", np.int64),
        ("counts_whole_times", np.int64),
        ("counts_worst_times", np.int64),
        ("max_ready", np.int64),
        ("n_depths", np.int64),
        ("has_wait", np.int64),
        ("n_jobs", np.int64),
        ("reward", np.int64),
        ("objective", np.int64),
    ]
)
"""What all environments of a batch have in common: ``compatibility`` PLAIN or RLSCHEDSIM; ``is_fixed_task`` whether the
next kernel is given and an action says kind and depth; ``counts_whole_times`` and ``counts_worst_times`` what
rlschedsim's state gets wrong; ``max_ready`` ready kernels that are shown, ``n_depths`` choices of each, ``has_wait``
whether the last action waits; ``n_jobs`` pipelines of a set."""

SCALARS_DTYPE = record_dtype(
    [
        ("now_us", np.int64),
        ("start_us", np.int64),
        ("last_end_us", np.int64),
        ("first_instance", np.int64),
        ("end_instance", np.int64),
        ("next_instance", np.int64),
        ("n_ready", np.int64),
        ("n_running", np.int64),
        ("n_ended", np.int64),
        ("n_missed", np.int64),
        ("n_stays", np.int64),
        ("n_decisions", np.int64),
        ("is_waiting", np.int64),
        ("stage", np.int64),
        ("decided", np.int64),
        ("random", np.int64),
        ("tardiness_us", np.int64),
        ("max_tardiness_us", np.int64),
        ("lateness_us", np.int64),
        ("earned", np.float64),
        ("told", np.float64),
    ]
)
"""One environment: dates; the places of its instances in the table; counts; ``is_waiting`` whether somebody chose to
wait for the next event; ``decided`` the instance that was decided on last (-1: none); ``random`` the state of a
generator; sums over ended instances; ``earned`` rewards not yet paid, ``told`` the part of the objective that was."""

UNIT_DTYPE = record_dtype(
    [
        ("stay", np.int64),
        ("end_us", np.int64),
        ("member", np.int64),
        ("head", np.int64),
        ("tail", np.int64),
        ("queued_us", np.int64),
    ]
)
"""A unit: the stay that runs (-1: idle) and its end; which kernel of a fused group it is at, as rlschedsim has it; the
first and the last stay of its queue; the worst-case time of all that is queued."""

STAY_DTYPE = record_dtype(
    [
        ("instance", np.int64),
        ("choice", np.int64),
        ("unit", np.int64),
        ("start_us", np.int64),
        ("end_us", np.int64),
        ("worst_us", np.int64),
        ("next", np.int64),
    ]
)
"""A kernel, alone or fused, on a unit: ``instance`` its place in the episode; ``start_us`` -1 while it is queued;
``worst_us`` its worst-case time there; ``next`` what comes after it in the queue."""

READY_DTYPE = record_dtype(
    [("instance", np.int64), ("kernel", np.int64), ("local_deadline_us", np.int64), ("place", np.int64)]
)
"""A ready kernel: its instance (place in the episode), its number in the pipeline, its place among all kernels of the
episode, and its local deadline: when it must have ended if all that follows takes its worst time."""

PROGRESS_DTYPE = record_dtype(
    [("n_left", np.int64), ("n_decisions", np.int64), ("start_us", np.int64), ("end_us", np.int64)]
)
"""An instance: kernels that have not ended, decisions that it took, its first start and its end (-1: none)."""


N_WEIGHTS = 17
"""Weights of an index, see `hdrl.settings.pipelines.kernel.index`."""


class State(NamedTuple):
    """The arrays of a batch, or without the leading axis those of one environment.

    Shared: ``units``, ``pipelines``, ``kernels``, ``successors`` (numbers within the pipeline), ``choices``,
    ``members``, ``instances``, ``settings`` (one row).

    With a leading axis: ``scalars`` (one row); ``unit`` by unit; ``ready`` by local deadline, then instance, then
    kernel; ``waits_for`` for each kernel of the episode how many predecessors have not ended, -1 once it is dispatched;
    ``shares`` how long it really takes, in parts of its worst case (65536); ``progress`` by instance; ``stays`` in the
    order in which they were decided; ``weights`` of an index, and what it works with: ``features`` of a row, and
    ``slack_us`` by place among the ready kernels and unit; ``observations`` float32, ``masks`` and ``row_masks`` int8,
    ``rewards`` float64, ``is_over``.
    """

    units: NDArray[Any]
    pipelines: NDArray[Any]
    kernels: NDArray[Any]
    successors: NDArray[Any]
    choices: NDArray[Any]
    members: NDArray[Any]
    instances: NDArray[Any]
    settings: NDArray[Any]
    scalars: NDArray[Any]
    unit: NDArray[Any]
    ready: NDArray[Any]
    waits_for: NDArray[Any]
    shares: NDArray[Any]
    progress: NDArray[Any]
    stays: NDArray[Any]
    weights: NDArray[Any]
    features: NDArray[Any]
    slack_us: NDArray[Any]
    observations: NDArray[Any]
    masks: NDArray[Any]
    row_masks: NDArray[Any]
    rewards: NDArray[Any]
    is_over: NDArray[Any]


SHARED = ("units", "pipelines", "kernels", "successors", "choices", "members", "instances", "settings")
"""Names of the arrays that all environments of a batch share."""

INDEXING = ("weights", "features", "slack_us")
"""Names of the arrays of an index: its weights, which are given, and what is worked out anew for every decision."""

OUTPUTS = ("observations", "masks", "row_masks", "rewards", "is_over")
"""Names of the arrays that are handed out."""


def new_state(
    n_envs: int,
    n_instances: int,
    n_kernels: int,
    shared: Mapping[str, NDArray[Any]],
    *,
    observations: NDArray[Any] | None = None,
    masks: NDArray[Any] | None = None,
    row_masks: NDArray[Any] | None = None,
    rewards: NDArray[Any] | None = None,
    is_over: NDArray[Any] | None = None,
) -> State:
    """Return the arrays of a batch; no episode has begun.

    Parameters
    ----------
    n_envs
        Number of environments.
    n_instances, n_kernels
        Instances of the longest episode, and kernels of all its instances.
    shared
        The arrays of `SHARED` by name.
    observations, masks, row_masks, rewards, is_over
        Where to write what is handed out; ``None``: arrays of this batch's own, nothing is observed then.
    """
    return State(
        **{name: shared[name] for name in SHARED},
        scalars=np.zeros((n_envs, 1), dtype=SCALARS_DTYPE),
        unit=np.zeros((n_envs, len(shared["units"])), dtype=UNIT_DTYPE),
        ready=np.zeros((n_envs, n_kernels), dtype=READY_DTYPE),
        waits_for=np.zeros((n_envs, n_kernels), dtype=np.int64),
        shares=np.zeros((n_envs, n_kernels), dtype=np.int64),
        progress=np.zeros((n_envs, n_instances), dtype=PROGRESS_DTYPE),
        stays=np.zeros((n_envs, n_kernels), dtype=STAY_DTYPE),
        weights=np.zeros((n_envs, N_WEIGHTS)),
        features=np.zeros((n_envs, N_WEIGHTS)),
        slack_us=np.zeros((n_envs, n_kernels * len(shared["units"])), dtype=np.int64),
        observations=np.zeros((n_envs, 0), dtype=np.float32)
        if observations is None
        else observations.reshape(n_envs, -1),
        masks=np.zeros((n_envs, 0), dtype=np.int8) if masks is None else masks,
        row_masks=np.zeros((n_envs, 0), dtype=np.int8) if row_masks is None else row_masks,
        rewards=np.zeros(n_envs) if rewards is None else rewards,
        is_over=np.zeros(n_envs, dtype=np.bool_) if is_over is None else is_over,
    )


@jit
def first_row(batch):
    """Return the arrays of the first environment of a batch."""
    return State(
        batch.units,
        batch.pipelines,
        batch.kernels,
        batch.successors,
        batch.choices,
        batch.members,
        batch.instances,
        batch.settings,
        batch.scalars[0],
        batch.unit[0],
        batch.ready[0],
        batch.waits_for[0],
        batch.shares[0],
        batch.progress[0],
        batch.stays[0],
        batch.weights[0],
        batch.features[0],
        batch.slack_us[0],
        batch.observations[0],
        batch.masks[0],
        batch.row_masks[0],
        batch.rewards,
        batch.is_over,
    )


def set_episode(state: State, row: int, first: int, n_instances: int, shares: NDArray[np.int64]) -> None:
    """Say what an environment's next episode consists of; it begins when it is reset.

    Parameters
    ----------
    state
        The batch.
    row
        Which environment.
    first, n_instances
        Place of the first instance in the table, and how many there are.
    shares
        How long each kernel really takes, in parts of its worst case.
    """
    scalars = state.scalars[row, 0]
    scalars["first_instance"] = first
    scalars["end_instance"] = first + n_instances
    state.shares[row, : len(shares)] = shares


def smallest_state() -> State:
    """Return a batch of one environment with one kernel on one unit; its arrays are of the types of all batches'."""
    dtypes: dict[str, Any] = {
        "units": UNIT_TABLE_DTYPE,
        "pipelines": PIPELINE_DTYPE,
        "kernels": KERNEL_DTYPE,
        "successors": np.int64,
        "choices": CHOICE_DTYPE,
        "members": MEMBER_DTYPE,
        "instances": INSTANCE_TABLE_DTYPE,
        "settings": SETTINGS_DTYPE,
    }
    return new_state(1, 1, 1, {name: np.zeros(1, dtype=dtype) for name, dtype in dtypes.items()})

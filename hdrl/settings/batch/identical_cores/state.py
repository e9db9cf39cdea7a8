"""State of the simulation of the order of jobs, one line of `OrderState` for each array."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.fields import new_arrays, own, shared
from hdrl.compiled.records import of, record_dtype
from hdrl.settings.batch.identical_cores.codes import COLUMNS, COMMITMENTS, N_PROFILE, N_TEMPLATE, OBJECTIVES
from hdrl.settings.batch.kernel.codes import ORDER_BACKFILLINGS, ORDER_JOB_KEYS, PREDICT_NOTHING, PREDICTORS
from hdrl.settings.batch.kernel.groups import N_LEVELS, N_NEURONS, SUMS_DTYPE
from hdrl.settings.batch.kernel.history import PREDICTION_DTYPE
from hdrl.settings.batch.kernel.keys import N_FEATURES

Rows: TypeAlias = NDArray[np.void]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int32]

JOB_DTYPE = record_dtype(
    [
        *of(np.float64, "submit_s", "run_s", "requested_time_s"),
        ("n_requested", np.int64),
        *of(np.float64, "memory_mib", "bandwidth_gbps"),
        ("rank", np.int64),
    ]
)
"""A job of the table, in the order of submission: ``run_s`` how long it really runs, ``requested_time_s`` how long
its user says, ``n_requested`` its processors, ``rank`` its position. The other fields serve job keys alone."""

SETTINGS_DTYPE = record_dtype(
    [
        *of(np.int64, "n_procs", "commitment", "backfilling", "has_skip", "is_one_by_one", "has_expectations"),
        *of(np.int64, "order_key", "objective", "is_shaped", "max_jobs", "n_features"),
        ("log_requested_scale", np.float64),
        *of(np.int64, "predictor", "may_hold", "guide_key", "guide_order", "guide_predicts", "guide_form"),
        ("guide_gate", np.int64),
    ]
)
"""Settings that all environments of a batch share.

``n_procs`` are the processors of the largest machine; ``commitment``, ``backfilling``, ``objective`` are numbers of
`identical_cores.codes`; ``has_skip`` whether the last action waits for the next event; ``is_one_by_one`` whether
simultaneous events are looked at one after the other, as RLScheduler does; ``has_expectations`` whether expected ends
are kept, which backfilling and some columns need; ``order_key`` the job key by which the queue is shown; ``is_shaped``
whether each step is rewarded by what it adds to the objective, or only the last by all of it; ``log_requested_scale``
what makes the logarithm of a requested time 1 at its largest (still longer ones are 1, too); ``predictor`` what
predicts run times (``PREDICT_*`` of `kernel.codes`); ``may_hold`` whether each row has a second action, which holds
its job.
Of the policy to imitate (`identical_cores.guide`): its job key, its order of backfilling, whether it
uses predictions, what its weights mean, and whether it has a gate.
"""

SCALARS_DTYPE = record_dtype(
    [
        *of(np.float64, "message_s", "first_submit_s"),
        *of(np.int64, "first_job", "end_job", "next_job", "n_free", "n_waiting", "n_running", "n_started", "stage"),
        *of(np.int64, "chosen", "is_reserved"),
        ("shadow_s", np.float64),
        ("n_spare", np.int64),
        *of(np.float64, "bounded_slowdown", "slowdown", "wait_s", "turnaround_s", "area_s", "last_end_s", "rewarded"),
        *of(np.int64, "n_shown", "n_open", "changed_from", "moved_from"),
        ("shown_s", np.float64),
        ("shown_free", np.int64),
        *of(np.float64, "max_wait_s", "max_turnaround_s", "max_slowdown", "max_bounded_slowdown"),
        *of(np.int64, "n_procs", "n_held", "is_weighed"),
    ]
)
"""One environment.

``message_s`` the date (named as in the kernel's State, for the job keys); ``first_job``, ``end_job``, ``next_job``
positions in the table: the episode's first job, the one after its last, the next to submit; ``stage`` what is to be
decided; ``chosen`` the job that waits for its start or its reservation, -1: none; ``is_reserved`` whether its
reservation at this date is known: it can start at ``shadow_s`` with ``n_spare`` processors left over. The sums and
the largest values are over started jobs; ``rewarded`` the part of the objective that has been rewarded. The rest says
what the observation holds: ``n_shown`` rows for the date ``shown_s`` and ``shown_free`` free processors, of which those
from ``changed_from`` on are other jobs now, and those from ``moved_from`` on are to move up by one row; the mask is
known to allow the first ``n_open`` of them. ``n_procs`` are the processors of the episode's machine;
``n_held`` how many waiting jobs are held until the next event: they are too large there (``waiting_sizes``);
``is_weighed`` whether the index of waiting jobs is known.
"""


class OrderState(NamedTuple):
    """The arrays of a batch, or without the leading axis of one environment."""

    jobs: Annotated[Rows, shared(JOB_DTYPE, "n_table")]
    # What does not change in a job's row of the observation
    templates: Annotated[NDArray[np.float32], shared(np.float32, "n_table", "n_template")]
    settings: Annotated[Rows, shared(SETTINGS_DTYPE, "one")]
    columns: Annotated[NDArray[np.int64], shared(np.int64, "n_columns")]  # codes of further columns
    scalars: Annotated[Rows, own(SCALARS_DTYPE, "one")]
    # The jobs of the queue in the order in which they are shown; and for loops over all of them, their dates of
    # submission and their processors
    waiting: Annotated[Ints, own(np.int32, "n_jobs")]
    waiting_submit_s: Annotated[Floats, own(np.float64, "n_jobs")]
    waiting_sizes: Annotated[Ints, own(np.int32, "n_jobs")]
    # Of each job of the episode, by its position in it
    priorities: Annotated[Floats, own(np.float64, "n_jobs")]
    start_s: Annotated[Floats, own(np.float64, "n_jobs")]  # -1: not started
    # A heap of the running jobs by their ends; and the same jobs sorted by the ends that their users expect
    end_s: Annotated[Floats, own(np.float64, "n_running")]
    end_jobs: Annotated[Ints, own(np.int32, "n_running")]
    expected_s: Annotated[Floats, own(np.float64, "n_running")]
    expected_jobs: Annotated[Ints, own(np.int32, "n_running")]
    candidates: Annotated[Ints, own(np.int32, "n_jobs")]  # scratch
    freed: Annotated[Ints, own(np.int32, "n_running")]  # scratch: processors free once each running job has ended
    profile: Annotated[Floats, own(np.float64, "n_profile")]  # free processors at dates to come
    # What predicts run times (empty if nothing does), as in the kernel's State; jobs are counted from the first one of
    # the episode. The features are of one job, the neurons of the network that predicts.
    groups: Annotated[Ints, own(np.int32, "n_predicted", "n_levels_of_groups")]
    sums: Annotated[Rows, own(SUMS_DTYPE, "n_sums")]
    predictions: Annotated[Rows, own(PREDICTION_DTYPE, "n_predicted")]
    features: Annotated[Floats, own(np.float64, "n_index")]
    neurons: Annotated[Floats, own(np.float64, "n_neurons")]
    network: Annotated[Floats, shared(np.float64, "n_network")]
    weights: Annotated[Floats, shared(np.float64, "n_weights")]  # of the policy to imitate
    observations: Annotated[NDArray[np.float32], own(np.float32, "n_observed", is_output=True)]
    masks: Annotated[NDArray[np.int8], own(np.int8, "n_actions", is_output=True)]
    row_masks: Annotated[NDArray[np.int8], own(np.int8, "n_rows", is_output=True)]


LARGEST = ("max_wait_s", "max_turnaround_s", "max_slowdown", "max_bounded_slowdown")
"""Scalars that only the objectives of their names need."""


def new_order_state(
    n_envs: int,
    n_jobs: int,
    *,
    jobs: NDArray[Any],
    templates: NDArray[Any],
    settings: NDArray[Any],
    columns: NDArray[Any],
    network: NDArray[np.float64] | None = None,
    weights: NDArray[np.float64] | None = None,
    n_sums: int = 0,
    **outputs: NDArray[Any],
) -> OrderState:
    """Return the arrays of a batch; no episode has begun.

    Parameters
    ----------
    network
        The numbers of a network that predicts, if one does.
    weights
        Of the policy to imitate, if it has some.
    n_sums
        For how many groups of jobs there is room, where run times are predicted.
    outputs
        Arrays for the outputs, by name; for others, the batch has arrays of its own.

    Raises
    ------
    SimulationError
        If a number of the settings or columns is in no table.
    """
    s = settings[0]
    _check_codes(s, columns)
    is_predicted = int(s["predictor"]) != PREDICT_NOTHING
    numbers = np.zeros(0) if network is None else network
    rewarded = np.zeros(0) if weights is None else weights
    sizes = {
        "one": 1,
        "n_table": len(jobs),
        "n_template": N_TEMPLATE,
        "n_columns": len(columns),
        "n_jobs": n_jobs,
        "n_predicted": n_jobs if is_predicted else 0,
        "n_levels_of_groups": N_LEVELS,
        "n_sums": n_sums if is_predicted else 0,
        "n_index": N_FEATURES if is_predicted else 0,
        "n_network": len(numbers),
        "n_weights": len(rewarded),
        "n_neurons": N_NEURONS if len(numbers) else 0,
        "n_running": min(int(s["n_procs"]), n_jobs),
        "n_profile": N_PROFILE,
        "n_observed": int(s["max_jobs"]) * int(s["n_features"]),
        "n_rows": int(s["max_jobs"]),
        "n_actions": int(s["max_jobs"]) * (1 + int(s["may_hold"])) + int(s["has_skip"]),
    }
    if "observations" in outputs:
        outputs["observations"] = outputs["observations"].reshape(n_envs, -1)
    shared_arrays = {"jobs": jobs, "templates": templates, "settings": settings, "columns": columns}
    shared_arrays |= {"network": numbers, "weights": rewarded}
    state = new_arrays(OrderState, sizes, shared_arrays | outputs, n_envs)
    state.start_s[:] = -1.0
    state.scalars["n_procs"] = s["n_procs"]
    return state


def _check_codes(settings: np.void, columns: NDArray[Any]) -> None:
    COMMITMENTS.check(int(settings["commitment"]))
    ORDER_BACKFILLINGS.check(int(settings["backfilling"]))
    ORDER_JOB_KEYS.check(int(settings["order_key"]))
    OBJECTIVES.check(int(settings["objective"]))
    PREDICTORS.check(int(settings["predictor"]))
    for column in columns.tolist():
        COLUMNS.check(column)


def smallest_state() -> OrderState:
    """Return a batch of one environment with one job on one processor; its arrays are of the types of all batches'."""
    settings = np.ones(1, dtype=SETTINGS_DTYPE)
    settings["n_features"] = 8
    settings["predictor"] = PREDICT_NOTHING
    for name in ("may_hold", "guide_predicts", "guide_gate"):
        settings[name] = 0
    batch = new_order_state(
        1,
        1,
        jobs=np.ones(1, dtype=JOB_DTYPE),
        templates=np.zeros((1, 8), dtype=np.float32),
        settings=settings,
        columns=np.zeros(0, dtype=np.int64),
    )
    set_episode(batch, 0, 0, 1)
    return batch


def set_episode(batch: OrderState, row: int, first: int, n_jobs: int, n_procs: int | None = None) -> None:
    """Set the jobs of an environment's next episode; it begins when `entries.SERVED` resets it.

    - ``first``, ``n_jobs``: position of the first job in the table, and how many there are.
    - ``n_procs``: processors of its machine; ``None``: the processors of the settings.
    """
    scalars = batch.scalars[row, 0]
    scalars["first_job"] = first
    scalars["end_job"] = first + n_jobs
    scalars["n_procs"] = batch.settings[0]["n_procs"] if n_procs is None else n_procs

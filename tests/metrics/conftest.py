"""A small run solved by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from hdrl.settings.batch.simulation.trace import ENERGY_DTYPE, RECORD_DTYPE, BatchTrace, JobState, OverUtilization
from hdrl.settings.batch.workload.model import JOB_DTYPE, STEP_DTYPE, Workload

S = JobState
# submit, requested cores, state, start, run, cores held
HAND_MADE = (
    (1.0, 2, S.COMPLETED_SUCCESSFULLY, 1.0, 10.0, 2),
    (3.0, 1, S.COMPLETED_WALLTIME_REACHED, 3.0, 8.0, 1),
    (5.0, 4, S.COMPLETED_KILLED, 11.0, 5.0, 4),
    (6.0, 9, S.REJECTED, -1.0, -1.0, 0),
    (7.0, 2, S.RUNNING, 16.0, -1.0, 2),
    (31.0, 1, S.NOT_SUBMITTED, -1.0, -1.0, 0),
    (8.0, 1, S.SUBMITTED, -1.0, -1.0, 0),
)


def build_trace(rows, *, n_cores=4, consumed_j=0.0, end_s=0.0, overutilization=None, has_energy=False):
    jobs, records = np.zeros(len(rows), JOB_DTYPE), np.zeros(len(rows), RECORD_DTYPE)
    jobs["submit_s"], jobs["cores"] = [row[0] for row in rows], [row[1] for row in rows]
    for name, position in (("state", 2), ("start_s", 3), ("run_s", 4), ("n_cores", 5)):
        records[name] = [row[position] for row in rows]
    records["energy_j"] = -1
    records["first_core"] = np.cumsum(records["n_cores"]) - records["n_cores"]
    nothing = np.zeros(0)
    return BatchTrace(
        platform=SimpleNamespace(n_cores=n_cores, n_sleep_states=0),
        workload=Workload(
            "hand-made",
            jobs,
            tuple(map(str, range(len(rows)))),
            np.zeros(0, STEP_DTYPE),
            np.zeros(2, np.int64),
            ("p",),
        ),
        records=records,
        completion_order=np.flatnonzero(records["state"] >= S.COMPLETED_SUCCESSFULLY),
        allocated_cores=np.concatenate([np.arange(row[5]) for row in rows] or [nothing]).astype(np.int32),
        machine_states=nothing,
        pstate_changes=nothing,
        pstate_cores=nothing,
        energy=np.zeros(int(has_energy), ENERGY_DTYPE),
        overutilization=overutilization or OverUtilization(nothing, nothing, nothing, nothing, nothing),
        consumed_j=consumed_j,
        end_s=end_s,
        n_decisions=0,
        n_grouped_switches=0,
        n_machine_switches=0,
    )


@pytest.fixture
def make_trace():
    return build_trace


@pytest.fixture
def hand_made():
    overutilization = OverUtilization(
        core_s=np.array([5.0, 11.0]),
        memory_s=np.array([7.0]),
        bandwidth_processor=np.array([0, 1, 0], np.int32),
        bandwidth_start_s=np.array([2.0, 4.0, 12.0]),
        bandwidth_duration_s=np.array([4.0, 4.0, -1.0]),
    )
    return build_trace(HAND_MADE, consumed_j=3000.0, end_s=21.0, overutilization=overutilization, has_energy=True)

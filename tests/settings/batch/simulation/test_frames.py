"""Columns and data frames of a trace."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hdrl.base.errors import MissingExtra, UnknownName
from hdrl.settings.batch.simulation.frames import (
    LIBRARIES,
    TABLES,
    jobs_arrays,
    jobs_frame,
    table_arrays,
    trace_frame,
)
from hdrl.settings.batch.simulation.trace import RECORD_DTYPE, BatchTrace, JobState, OverUtilization
from hdrl.settings.batch.workload.model import JOB_DTYPE, STEP_DTYPE, Workload

NAN = np.nan


@pytest.fixture
def trace():
    """One job that ended, one that runs, one rejected."""
    jobs, records = np.zeros(3, JOB_DTYPE), np.zeros(3, RECORD_DTYPE)
    jobs["submit_s"], jobs["cores"], jobs["walltime_s"], jobs["user"] = [0, 1, 2], [3, 1, 1], [50, -1, -1], [7, 8, 9]
    jobs["profile"] = [1, 0, 1]
    records["state"] = [JobState.COMPLETED_SUCCESSFULLY, JobState.RUNNING, JobState.REJECTED]
    records["start_s"], records["run_s"], records["energy_j"] = [30, 9, -1], [10, -1, -1], [4.5, -1, -1]
    records["first_core"], records["n_cores"] = [0, 3, 4], [3, 1, 0]
    nothing = np.zeros(0)
    return BatchTrace(
        platform=SimpleNamespace(
            n_cores=4,
            core_names=("h0", "h1", "h2", "h3"),
            initial_pstate=np.full(4, 2),
            n_sleep_states=0,
            pstate_uses=np.zeros((4, 3), np.int8),
            idle_w=np.tile([4.0, 3, 2], (4, 1)),
            full_w=np.tile([4.0, 3, 2], (4, 1)),
        ),
        workload=Workload("x", jobs, ("a", "b", "c"), np.zeros(0, STEP_DTYPE), np.zeros(3, np.int64), ("p", "q")),
        records=records,
        completion_order=np.array([2, 0]),
        allocated_cores=np.array([0, 1, 3, 2], np.int32),
        machine_states=nothing,
        pstate_changes=nothing,
        pstate_cores=nothing,
        energy=nothing,
        overutilization=OverUtilization(nothing, nothing, nothing, nothing, nothing),
        consumed_j=0.0,
        end_s=40.0,
        n_decisions=3,
        n_grouped_switches=0,
        n_machine_switches=0,
    )


EXPECTED = {
    "job_id": ["a", "b", "c"],
    "source": ["w0"] * 3,
    "profile": ["q", "p", "q"],
    "cores": [3, 1, 1],
    "user": [7, 8, 9],
    "walltime_s": [50, NAN, NAN],
    "state": ["COMPLETED_SUCCESSFULLY", "RUNNING", "REJECTED"],
    "start_s": [30, 9, NAN],
    "run_s": [10, NAN, NAN],
    "end_s": [40, NAN, NAN],
    "wait_s": [30, 8, NAN],
    "turnaround_s": [40, NAN, NAN],
    "slowdown": [4, NAN, NAN],
    "bounded_slowdown": [4, NAN, NAN],
    "per_processor_slowdown": [4 / 3, NAN, NAN],
    "energy_j": [4.5, NAN, NAN],
    "n_cores_used": [3, 1, 0],
    "allocation": ["0-1 3", "2", ""],
}


def test_arrays_by_hand(trace):
    arrays = jobs_arrays(trace)
    for name, values in EXPECTED.items():
        np.testing.assert_array_equal(arrays[name], values, err_msg=name)
    assert {len(values) for values in arrays.values()} == {3}


def test_arrays_do_not_share_memory_with_the_trace(trace):
    for values in jobs_arrays(trace).values():
        assert not np.shares_memory(values, trace.workload.jobs)
        assert not np.shares_memory(values, trace.records)


def test_every_column_is_documented(trace):
    text = (Path(__file__).resolve().parents[4] / "docs" / "outputs.md").read_text(encoding="utf-8")
    assert [name for name in jobs_arrays(trace) if f"`{name}`" not in text] == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_hold_the_arrays(trace, library):
    pytest.importorskip(library)
    frame = jobs_frame(trace, library)
    arrays = jobs_arrays(trace)
    assert list(frame.columns) == list(arrays)
    for name, values in arrays.items():
        np.testing.assert_array_equal(frame[name].to_numpy(), values, err_msg=name)


def test_unknown_library(trace):
    with pytest.raises(UnknownName, match=r"no data frame library 'panda'; did you mean 'pandas'\?"):
        jobs_frame(trace, "panda")


@pytest.mark.parametrize("library", LIBRARIES)
def test_missing_library(trace, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=rf"needs {library}: pip install 'hdrl\[frames\]'"):
        jobs_frame(trace, library)


def test_no_frame_library_is_loaded_before_it_is_needed():
    code = "import sys, hdrl.batch; print([m for m in ('pandas', 'polars') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def whole_trace(trace):
    """Return the trace with a line in every log."""
    from dataclasses import replace

    from hdrl.settings.batch.simulation.trace import ENERGY_DTYPE, MACHINE_STATE_DTYPE, PSTATE_CHANGE_DTYPE

    spans = (np.array([3], np.int32), np.array([5.0]), np.array([-1.0]))
    return replace(
        trace,
        host_energy_j=np.array([90.0, 91, NAN, 93]),
        machine_states=np.array([(1.5, 0, 0, 0, 3, 1)], MACHINE_STATE_DTYPE),
        pstate_changes=np.array([(0.0, 0, 3, 2), (2.0, 3, 1, -1)], PSTATE_CHANGE_DTYPE),
        pstate_cores=np.array([0, 1, 3, 2], np.int32),
        energy=np.array([(1.0, 2.5, b"s", 0.5)], ENERGY_DTYPE),
        overutilization=OverUtilization(np.array([4.0]), np.array([6.0, 7.0]), *spans),
    )


TABLES_BY_HAND = {
    "hosts": {
        "host": ["h0", "h1", "h2", "h3"],
        "computing_s": [10, 10, 31, 10],
        "idle_s": [30, 30, 9, 30],
        **dict.fromkeys(("sleeping_s", "switching_off_s", "switching_on_s", "unavailable_s"), [0] * 4),
        "energy_j": [90, 91, NAN, 93],
        "wasted_j": [60, 60, NAN, 60],
        "n_switches": [0] * 4,
    },
    "machine_states": {
        "time_s": [1.5],
        "sleeping": [0],
        "switching_on": [0],
        "switching_off": [0],
        "idle": [3],
        "computing": [1],
    },
    "pstate_changes": {"time_s": [0, 2], "pstate": [2, -1], "n_cores": [3, 1], "allocation": ["0-1 3", "2"]},
    "energy": {"time_s": [1], "energy_j": [2.5], "event": ["s"], "epsilon_w": [0.5]},
    "over_utilization": {
        "kind": ["core", "memory", "memory", "bandwidth"],
        "time_s": [4, 6, 7, 5],
        "processor": [-1, -1, -1, 3],
        "duration_s": [0, 0, 0, NAN],
    },
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("table", TABLES_BY_HAND)
def test_the_other_tables(whole_trace, table, library):
    pytest.importorskip(library)
    frame = trace_frame(whole_trace, table, library)
    assert list(frame.columns) == list(TABLES_BY_HAND[table])
    for name, values in TABLES_BY_HAND[table].items():
        np.testing.assert_array_equal(frame[name].to_numpy(), values, err_msg=name)


def test_every_table_is_tested_and_documented(whole_trace):
    text = (Path(__file__).resolve().parents[4] / "docs" / "outputs.md").read_text(encoding="utf-8")
    assert set(TABLES) == {"jobs", *TABLES_BY_HAND}
    for table in TABLES:
        assert f"`{table}`" in text
        assert [name for name in table_arrays(whole_trace, table) if f"`{name}`" not in text] == []
    with pytest.raises(UnknownName, match=r"no table of a trace 'job'; did you mean 'jobs'\?"):
        table_arrays(whole_trace, "job")

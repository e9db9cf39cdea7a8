"""Output files: texts written by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from hdrl.base.errors import OutputError
from hdrl.settings.batch.simulation import columns, outputs
from hdrl.settings.batch.simulation.paje import format_schedule_trace
from hdrl.settings.batch.simulation.trace import JobState
from hdrl.version import VERSION

from .hand_made import HAND_MADE, JOBS_TEXT, hand_made_trace, make_trace


@pytest.fixture
def trace():
    return hand_made_trace()


def header(columns):
    return ",".join(columns) + "\n"


def test_jobs_by_hand(trace):
    assert outputs.format_jobs(trace) == header(outputs.JOB_COLUMNS) + JOBS_TEXT


def test_schedule_by_hand(trace):
    names, values = outputs.format_schedule(trace).splitlines()
    assert names == (
        "batsim_version,consumed_joules,makespan,max_slowdown,max_turnaround_time,max_waiting_time,mean_slowdown,"
        "mean_turnaround_time,mean_waiting_time,nb_computing_machines,nb_grouped_switches,nb_jobs,nb_jobs_finished,"
        "nb_jobs_killed,nb_jobs_rejected,nb_jobs_success,nb_machine_switches,scheduling_time,simulation_time,success_rate,"
        "time_computing,time_idle,time_sleeping,time_switching_off,time_switching_on,time_unavailable"
    )
    # means over all four: slowdown (1 + 1 + 2.2) / 4, turnaround (10 + 8 + 11) / 4, waiting 6 / 4
    assert values == (
        f"hdrl-{VERSION},1500.500000,16.000000,2.200000,11.000000,6.000000,1.050000,7.250000,1.500000,4,2,4,3,2,1,1,4,"
        "0.250000,0.500000,0.250000,43.000000,17.250000,0.000000,0.000000,0.000000,0.000000"
    )


def test_machine_states_by_hand(trace):
    rows = "4e-10,0,0,0,2,2\n81.1255,1,2,3,4,5\n1.23457e+06,0,0,0,4,0\n"
    assert outputs.format_machine_states(trace) == header(outputs.MACHINE_STATE_COLUMNS) + rows


def test_schedule_trace_by_hand():
    """As Batsim 4.2.1 writes it, but for the colours, which it draws."""
    ended, killed = JobState.COMPLETED_SUCCESSFULLY, JobState.COMPLETED_WALLTIME_REACHED
    trace = make_trace(
        [
            ("0", "w0", "a", 0.0, 1, -1.0, ended, 0.0, 6.0, "0", -1.0),
            ("2", "w0", "a", 1.0, 2, 8.0, killed, 6.0, 8.0, "0-1", -1.0),
        ],
        completion_order=np.array([0, 1]),
    )
    text = format_schedule_trace(trace)
    head, events = text.split("# Begin of events\n")
    assert '2 0.000000 machine_ct m1 "1" root' in head
    assert head.startswith("%EventDef PajeDefineContainerType 1\n% Type string\n")
    lines = [line for line in events.splitlines()[4:] if not line.startswith("5 ")]
    assert lines[:12] == [
        *("6 0.000000 machine_state m0 jw0!0", "6 6.000000 machine_state m0 w"),
        *("6 6.000000 machine_state m0 jw0!2", "6 6.000000 machine_state m1 jw0!2"),
        *('8 14.000000 kk k "w0!2"', '8 14.000000 km m0 "w0!2"', '8 14.000000 km m1 "w0!2"'),
        *("6 14.000000 machine_state m0 w", "6 14.000000 machine_state m1 w", ""),
        *("# End of events, containers destruction", f"3 {trace.end_s:f} m0 machine_ct"),
    ]


def test_pstate_changes_by_hand(trace):
    rows = "0,0-3,3\n5e-10,2,-1\n12.3457,0-1 3,1\n"
    assert outputs.format_pstate_changes(trace) == header(outputs.PSTATE_CHANGE_COLUMNS) + rows


def test_consumed_energy_by_hand(trace):
    rows = (
        "0.000000,0.000000,s,480.000000,NA\n2.000000,500.000000,p,480.000000,250.000000\n"
        "2.000000,500.000000,p,4.500000,NA\n4.000000,1500.500000,e,4.500000,500.250000\n"
    )
    assert outputs.format_consumed_energy(trace) == header(outputs.ENERGY_COLUMNS) + rows


def test_overutilizations_close_open_spans(trace):
    assert outputs.format_overutilizations(trace) == (
        '{"core": [5.0, 11.0], "mem": [7.0], "mem_bw": {"nb_procs": 2, "procs": '
        '{"1": {"state": 0, "values": [[2.0, 4.0], [12.5, 8.5]]}, "0": {"state": 0, "values": [[4.0, 0.1]]}}}}'
    )


def test_overutilizations_in_compatibility_mode_stay_open(trace):
    trace.info["compatibility"] = "hdeeprm-0.3.1"
    processor = json.loads(outputs.format_overutilizations(trace))["mem_bw"]["procs"]["1"]
    assert processor == {"state": 1, "values": [[2.0, 4.0], 12.5]}


def test_a_run_without_jobs_prints_what_c_prints():
    trace = make_trace([])
    assert outputs.format_jobs(trace) == header(outputs.JOB_COLUMNS)
    values = outputs.format_schedule(trace).splitlines()[1]
    assert values.startswith(
        f"hdrl-{VERSION},0.000000,0.000000,0.000000,0.000000,0.000000,-nan,-nan,-nan,4,0,0,0,0,0,0,0,"
    )
    assert values.split(",")[19] == "-nan"


def test_tables_longer_than_a_block(trace, monkeypatch):
    """Rows are the same wherever the blocks that are formatted together begin."""
    formats = (outputs.format_jobs, outputs.format_machine_states, outputs.format_pstate_changes)
    whole = [format_file(trace) for format_file in formats]
    monkeypatch.setattr(columns, "_ROWS_AT_ONCE", 1)
    assert [format_file(trace) for format_file in formats] == whole
    assert min(text.count("\n") for text in whole) > 2


def test_overutilizations_are_plain_json(trace):
    """Text that is put together by hand is the text that the json module makes."""
    text = outputs.format_overutilizations(trace)
    assert json.dumps(json.loads(text)) == text


def test_files_with_energy(trace, tmp_path):
    names = [path.name for path in outputs.write_batsim_files(trace, tmp_path, prefix="x")]
    assert names == [
        f"x_{name}.csv" for name in ("jobs", "schedule", "machine_states", "pstate_changes", "consumed_energy")
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    assert (tmp_path / "x_jobs.csv").read_text() == outputs.format_jobs(trace)


def test_files_without_energy(tmp_path):
    outputs.write_batsim_files(make_trace(HAND_MADE[3:]), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out_jobs.csv",
        "out_machine_states.csv",
        "out_schedule.csv",
    ]


def test_missing_folder(trace, tmp_path):
    with pytest.raises(OutputError, match="no such folder"):
        outputs.write_batsim_files(trace, tmp_path / "absent")
    with pytest.raises(OutputError, match="cannot be written"):
        outputs.write_overutilizations(trace, tmp_path / "absent" / "x.json")


@pytest.mark.parametrize(
    "columns",
    [
        outputs.JOB_COLUMNS,
        tuple(outputs.schedule_values(make_trace([]))),
        outputs.MACHINE_STATE_COLUMNS,
        outputs.PSTATE_CHANGE_COLUMNS,
        outputs.ENERGY_COLUMNS,
    ],
    ids=lambda columns: columns[-1],
)
def test_every_column_is_documented(columns):
    text = (Path(__file__).resolve().parents[4] / "docs" / "outputs.md").read_text(encoding="utf-8")
    assert [name for name in columns if f"`{name}`" not in text] == []

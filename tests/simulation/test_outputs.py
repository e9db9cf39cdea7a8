"""Output files: hand-written texts, Batsim's recorded files, and readers that survive damaged files."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from procset import ProcSet

from hdrl.errors import HdrlError, OutputError, ReadError
from hdrl.platform.model import Platform
from hdrl.simulation import outputs
from hdrl.simulation.trace import (
    ENERGY_DTYPE,
    MACHINE_STATE_DTYPE,
    PSTATE_CHANGE_DTYPE,
    RECORD_DTYPE,
    JobState,
    OverUtilization,
    Trace,
)
from hdrl.version import VERSION
from hdrl.workload.model import JOB_DTYPE, STEP_DTYPE, Workload

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "batsim-runs"
# Runs that Batsim finished (it writes the schedule last); six decimals lose the run time of the job of tiny_ptask.
RUNS = sorted(path.parent for path in RECORDED.glob("**/out_schedule.csv") if path.parent.name != "tiny_ptask")
needs_recordings = pytest.mark.skipif(not RUNS, reason=f"no recorded Batsim runs in {RECORDED}")


def make_platform(n_cores, n_processors=1):
    of_processor = np.arange(n_cores, dtype=np.int32) * n_processors // n_cores
    first = np.searchsorted(of_processor, np.arange(n_processors + 1)).astype(np.int32)
    ones, per_state = np.ones(n_processors), np.ones((n_cores, 4))
    ints = np.zeros(n_cores, np.int32)
    return Platform(
        name="hand-made",
        clusters=(),
        global_link=None,
        rules=None,
        core_names=tuple(map(str, range(n_cores))),
        cluster_of_node=np.zeros(1, np.int32),
        node_of_processor=np.zeros(n_processors, np.int32),
        processor_of_core=of_processor,
        first_core_of_processor=first,
        first_processor_of_node=np.array([0, n_processors], np.int32),
        memory_mib=np.ones(1),
        bandwidth_gbps=ones,
        peak_flops=ones,
        peak_power_w=ones,
        speed_flops=per_state,
        idle_w=per_state,
        epsilon_w=per_state,
        full_w=per_state,
        initial_pstate=ints,
        host_cores=ints + 1,
        message_s=ints * 1.0,
        message_latency_s=ints * 1.0,
    )


def make_trace(rows, *, n_cores=4, n_processors=2, **changes):
    """Build a trace.

    A row is ``(id, source, profile, submit, cores, walltime, state, start, run, allocation, energy)``.
    """
    n_jobs = len(rows)
    ids, sources, profiles = ([row[k] for row in rows] for k in range(3))
    source_names, profile_names = sorted({*sources, "w0"}), sorted(set(profiles))
    jobs, records = np.zeros(n_jobs, JOB_DTYPE), np.zeros(n_jobs, RECORD_DTYPE)
    jobs["source"] = [source_names.index(name) for name in sources]
    jobs["profile"] = [profile_names.index(name) for name in profiles]
    for name, position in (("submit_s", 3), ("cores", 4), ("walltime_s", 5)):
        jobs[name] = [row[position] for row in rows]
    for name, position in (("state", 6), ("start_s", 7), ("run_s", 8), ("energy_j", 10)):
        records[name] = [row[position] for row in rows]
    sets = [list(ProcSet.from_str(row[9])) if row[9] else [] for row in rows]
    records["n_cores"] = [len(cores) for cores in sets]
    records["first_core"] = np.cumsum(records["n_cores"]) - records["n_cores"]
    nothing = np.zeros(0)
    fields = {
        "platform": make_platform(n_cores, n_processors),
        "workload": Workload(
            "hand-made",
            jobs,
            tuple(ids),
            np.zeros(0, STEP_DTYPE),
            np.zeros(len(profile_names) + 1, np.int64),
            tuple(profile_names),
            tuple(source_names),
        ),
        "records": records,
        "completion_order": np.arange(n_jobs),
        "allocated_cores": np.array([core for cores in sets for core in cores], np.int32),
        "machine_states": np.zeros(0, MACHINE_STATE_DTYPE),
        "pstate_changes": np.zeros(0, PSTATE_CHANGE_DTYPE),
        "pstate_cores": np.zeros(0, np.int32),
        "energy": np.zeros(0, ENERGY_DTYPE),
        "overutilization": OverUtilization(nothing, nothing, np.zeros(0, np.int32), nothing, nothing),
        "consumed_j": 0.0,
        "end_s": 0.0,
        "n_decisions": 0,
        "n_grouped_switches": 0,
        "n_machine_switches": 0,
    }
    return Trace(**(fields | changes))


S = JobState
HAND_MADE = [
    ("a", "w0", "p", 1.0, 2, 100.0, S.COMPLETED_SUCCESSFULLY, 1.0, 10.0, "0-1", 40.0),
    ("b", "w1", "q", 3.0, 1, 8.0, S.COMPLETED_WALLTIME_REACHED, 3.0, 8.0, "3", 2.5),
    ("c", "w0", "p", 5.0, 3, -1.0, S.COMPLETED_KILLED, 11.0, 5.0, "0-1 3", 1e6 / 3),
    ("d", "w0", "q", 6.0, 9, -1.0, S.REJECTED, -1.0, -1.0, "", -1.0),
    ("e", "w0", "p", 7.0, 2, -1.0, S.RUNNING, 16.0, -1.0, "1 3", -1.0),
    ("f", "w0", "p", 31.0, 1, -1.0, S.NOT_SUBMITTED, -1.0, -1.0, "", -1.0),
]
JOBS_TEXT = """\
d,w0,q,6.000000,9,-1.000000,0,REJECTED,,,,,,,,,""
a,w0,p,1.000000,2,100.000000,1,COMPLETED_SUCCESSFULLY,1.000000,10.000000,11.000000,0.000000,10.000000,1.000000,0-1,\
40.000000,"x, y"
b,w1,q,3.000000,1,8.000000,0,COMPLETED_WALLTIME_REACHED,3.000000,8.000000,11.000000,0.000000,8.000000,1.000000,3,\
2.500000,""
c,w0,p,5.000000,3,-1.000000,0,COMPLETED_KILLED,11.000000,5.000000,16.000000,6.000000,11.000000,2.200000,0-1 3,\
333333.333333,""
"""


@pytest.fixture
def trace():
    states = np.array(
        [(4e-10, 0, 0, 0, 2, 2), (81.12547, 1, 2, 3, 4, 5), (1234567.0, 0, 0, 0, 4, 0)], MACHINE_STATE_DTYPE
    )
    changes = np.array([(0, 0, 4, 3), (5e-10, 4, 1, -1), (12.3456789, 5, 3, 1)], PSTATE_CHANGE_DTYPE)
    energy = np.array(
        [(0, 0, b"s", 480), (2, 500, b"p", 480), (2, 500, b"p", 4.5), (4, 1500.5, b"e", 4.5)], ENERGY_DTYPE
    )
    return make_trace(
        HAND_MADE,
        completion_order=np.array([3, 0, 1, 2]),
        machine_states=states,
        pstate_changes=changes,
        pstate_cores=np.array([0, 1, 2, 3, 2, 0, 1, 3], np.int32),
        energy=energy,
        consumed_j=1500.5,
        end_s=21.0000004,
        n_grouped_switches=2,
        n_machine_switches=4,
        metadata={0: "x, y"},
        time_in_state_s={"computing": 43.0, "idle": 17.25},
        info={"simulation_time_s": 0.5, "scheduling_time_s": 0.25},
        overutilization=OverUtilization(
            core_s=np.array([5.0, 11.0]),
            memory_s=np.array([7.0]),
            bandwidth_processor=np.array([1, 0, 1], np.int32),
            bandwidth_start_s=np.array([2.0, 4.0, 12.5]),
            bandwidth_duration_s=np.array([4.0, 0.1, -1.0]),
        ),
    )


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


def test_names_that_would_break_a_row_are_quoted(tmp_path):
    trace = make_trace([('a,"b', "w0", "p\nq", *HAND_MADE[0][3:])], metadata={0: 'say "x"'})
    path = tmp_path / "jobs.csv"
    path.write_text(outputs.format_jobs(trace), newline="")
    table = outputs.read_out_jobs(path)
    assert [table[name][0] for name in ("job_id", "profile", "metadata")] == ['a,"b', "p\nq", 'say "x"']


# ---- interval sets


@given(st.lists(st.sets(st.integers(0, 120), max_size=30), max_size=8), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_interval_texts_are_procsets(sets, unused):
    """Slices in any order, with unused ids around them, print as ProcSet prints."""
    cores, first = [7] * unused, []
    for ids in reversed(sets):
        first.append(len(cores))
        cores += [*sorted(ids), *[7] * unused]
    first.reverse()
    texts = outputs.interval_texts(
        np.array(cores, np.int32), np.array(first, np.int64), np.array([len(s) for s in sets])
    )
    assert texts == [str(ProcSet(*ids)) if ids else "" for ids in sets]


def test_interval_texts_of_wide_ids():
    cores = np.array([0, 9, 10, 99, 100, 101, 99999, 100000], np.int32)
    assert outputs.interval_texts(cores, np.array([0]), np.array([8])) == ["0 9-10 99-101 99999-100000"]


# ---- writing


def test_fixed_texts_by_hand():
    values = np.array([0.0, -0.0, 1.0, -1.0, 0.9999995, 0.99999949, 9.9999999, 1234567.5, -1e-9, 5e-7, 15e-7, 2.0**-7])
    assert outputs.fixed_texts(values) == [
        *("0.000000", "-0.000000", "1.000000", "-1.000000", "1.000000", "0.999999", "10.000000", "1234567.500000"),
        *("-0.000000", "0.000000", "0.000002", "0.007812"),
    ]
    assert outputs.fixed_texts(np.zeros(0)) == []


@given(
    st.lists(
        st.floats()
        | st.floats(-1e12, 1e12)
        # decimals half-way between two texts, and what they are after small sums
        | st.integers(-(10**13), 10**13).map(lambda n: n / 2e6)
        | st.tuples(st.integers(0, 10**9), st.integers(0, 2**20)).map(lambda pair: pair[0] + pair[1] / 2**20)
    )
)
@settings(max_examples=300, deadline=None)
def test_fixed_texts_are_those_of_printf(values):
    assert outputs.fixed_texts(np.array(values, dtype=float)) == [f"{value:f}" for value in values]


def test_tables_longer_than_a_block(trace, monkeypatch):
    """Rows are the same wherever the blocks that are formatted together begin."""
    formats = (outputs.format_jobs, outputs.format_machine_states, outputs.format_pstate_changes)
    whole = [format_file(trace) for format_file in formats]
    monkeypatch.setattr(outputs, "_ROWS_AT_ONCE", 1)
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


# ---- reading


def test_jobs_read_back(trace, tmp_path):
    outputs.write_batsim_files(trace, tmp_path)
    table = outputs.read_out_jobs(tmp_path / "out_jobs.csv")
    assert tuple(table) == outputs.JOB_COLUMNS
    assert table["job_id"].tolist() == ["d", "a", "b", "c"]
    assert table["requested_number_of_resources"].tolist() == [9, 2, 1, 3]
    np.testing.assert_array_equal(table["waiting_time"], [np.nan, 0, 0, 6])
    assert table["allocated_resources"].tolist() == ["", "0-1", "3", "0-1 3"]
    assert table["metadata"].tolist() == ["", "x, y", "", ""]


def test_schedule_reads_back(trace, tmp_path):
    outputs.write_batsim_files(trace, tmp_path)
    assert outputs.read_out_schedule(tmp_path / "out_schedule.csv") == outputs.schedule_values(trace)
    outputs.write_batsim_files(make_trace([]), tmp_path)
    assert math.isnan(outputs.read_out_schedule(tmp_path / "out_schedule.csv")["mean_slowdown"])


def test_overutilizations_read_back(trace, tmp_path):
    trace.info["compatibility"] = "hdeeprm-0.3.1"
    outputs.write_overutilizations(trace, tmp_path / "o.json")
    found = outputs.read_overutilizations(tmp_path / "o.json")
    for name in OverUtilization.__slots__:
        np.testing.assert_array_equal(getattr(found, name), getattr(trace.overutilization, name))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("profile", "profil", r"jobs\.csv:1: column 3 is 'profil', expected 'profile'"),
        (",metadata", "", r"jobs\.csv:1: column 17 is missing, expected 'metadata'"),
        ("metadata", "metadata,more", r"jobs\.csv:1: column 18 is 'more', expected no more columns"),
        ("3.000000,1,8", "nan,1,8", r"jobs\.csv:4: submission_time is 'nan', expected a finite number"),
        ("3.000000,1,8", ",1,8", r"jobs\.csv:4: submission_time is '', expected a finite number"),
        ("3.000000,1,8", "1e999,1,8", r"jobs\.csv:4: submission_time is '1e999', expected a finite number"),
        ("3.000000,1,8", "3.000000,one,8", r"jobs\.csv:4: requested_number_of_resources is 'one', expected a whole"),
        (
            "3.000000,1,8",
            f"3.000000,{'9' * 30},8",
            r"jobs\.csv:4: requested_number_of_resources is '9+', expected a whole",
        ),
        ("3.000000,1,8", "3.000000,0,8", r"jobs\.csv:4: requested_number_of_resources must be at least 1"),
        ("COMPLETED_WALLTIME_REACHED", "COMPLETED_WALLTIME", r"jobs\.csv:4: final_state .* did you mean"),
        ("0,COMPLETED_W", "1,COMPLETED_W", r"jobs\.csv:4: success must be 1 for"),
        (",3,2.5", ",3-,2.5", r"jobs\.csv:4: allocated_resources must be an interval set"),
        ("2.500000", "", r"jobs\.csv:4: consumed_energy is empty"),
        ("REJECTED,,", "REJECTED,1.0,", r"jobs\.csv:2: starting_time must be empty for a rejected job"),
        ('2.500000,""', "2.500000", r"jobs\.csv:4: 16 fields, expected 17"),
        ('"x, y"', '"x, y', r"is no CSV"),
    ],
)
def test_bad_jobs_give_one_clear_line(trace, tmp_path, old, new, message):
    path = tmp_path / "jobs.csv"
    text = outputs.format_jobs(trace)
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ReadError, match=message) as caught:
        outputs.read_out_jobs(path)
    assert "\n" not in str(caught.value)


def test_truncated_and_empty_files(trace, tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(outputs.format_jobs(trace)[:-1])
    with pytest.raises(ReadError, match=r":5: is truncated"):
        outputs.read_out_jobs(path)
    path.write_text("")
    with pytest.raises(ReadError, match="is empty"):
        outputs.read_out_jobs(path)
    with pytest.raises(ReadError, match="no such file"):
        outputs.read_out_jobs(tmp_path / "absent.csv")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("makespan", "makspan", r":1: has no column 'makespan'; did you mean 'makspan'"),
        ("nb_jobs_killed", "makespan", r":1: names a column twice"),
        ("16.000000", "inf", r":2: makespan is 'inf', expected a finite number"),
        (f"hdrl-{VERSION},", "", r":2: 25 fields, expected 26"),
        ("hdrl-", "hdrl,", r":2: 27 fields, expected 26"),
    ],
)
def test_bad_schedules(trace, tmp_path, old, new, message):
    path = tmp_path / "schedule.csv"
    path.write_text(outputs.format_schedule(trace).replace(old, new, 1))
    with pytest.raises(ReadError, match=message):
        outputs.read_out_schedule(path)


def test_a_schedule_has_one_row(trace, tmp_path):
    path = tmp_path / "schedule.csv"
    lines = outputs.format_schedule(trace).splitlines(keepends=True)
    path.write_text("".join([*lines, lines[1]]))
    with pytest.raises(ReadError, match="2 rows below its header, expected 1"):
        outputs.read_out_schedule(path)


@pytest.mark.parametrize(
    "data",
    [
        [],
        {"core": [], "mem": []},
        {"core": [True], "mem": [], "mem_bw": {"procs": {}}},
        {"core": [10**400], "mem": [], "mem_bw": {"procs": {}}},
        {"core": [], "mem": [], "mem_bw": {"procs": {"x": {"values": [[1, 2]]}}}},
        {"core": [], "mem": [], "mem_bw": {"procs": {"99999999999": {"values": [[1, 2]]}}}},
        {"core": [], "mem": [], "mem_bw": {"procs": {"1": {"values": [[1, -2]]}}}},
        {"core": [], "mem": [], "mem_bw": {"procs": {"1": {"values": "ab"}}}},
        {"core": [], "mem": [], "mem_bw": {"procs": {"1": [1]}}},
    ],
)
def test_bad_overutilizations(tmp_path, data):
    path = tmp_path / "o.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ReadError, match=r"o\.json"):
        outputs.read_overutilizations(path)


INSERTED = (b",", b'"', b"\n", b"nan", b"-", b"1e999", b"\0", b"9" * 30, b"[", b"{")


def refusal(read, path):
    """Return the message of the HdrlError with which a file is refused, or None."""
    try:
        read(path)
    except HdrlError as error:
        return str(error)
    return None


def damaged(data, rng):
    data = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(data)))
        kind = rng.integers(4)
        if kind == 0:
            data[at] = rng.integers(256)
        elif kind == 1:
            del data[at : at + int(rng.integers(1, 40))]
        elif kind == 2:
            data[at:at] = INSERTED[rng.integers(len(INSERTED))]
        else:
            del data[at:]
        if not data:
            break
    return bytes(data)


@pytest.mark.parametrize("name", ["out_jobs.csv", "out_schedule.csv", "overutilizations.json"])
def test_damaged_files_give_nothing_but_our_errors(trace, tmp_path, name):
    readers = {
        "out_jobs.csv": outputs.read_out_jobs,
        "out_schedule.csv": outputs.read_out_schedule,
        "overutilizations.json": outputs.read_overutilizations,
    }
    outputs.write_batsim_files(trace, tmp_path)
    outputs.write_overutilizations(trace, tmp_path / "overutilizations.json")
    originals = [(tmp_path / name).read_bytes()]
    recorded = RECORDED / "hdeeprm_learning4_50jobs" / name
    if recorded.exists():
        originals.append(recorded.read_bytes())
    rng = np.random.default_rng(1)
    n_refused = 0
    path = tmp_path / "damaged"
    for original in originals:
        for _ in range(150):
            path.write_bytes(damaged(original, rng))
            message = refusal(readers[name], path)
            n_refused += message is not None
            assert "\n" not in (message or "")
    assert n_refused > 100


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
    text = (Path(__file__).resolve().parents[2] / "docs" / "outputs.md").read_text(encoding="utf-8")
    assert [name for name in columns if f"`{name}`" not in text] == []


# ---- recorded Batsim runs


def run_name(folder):
    return str(folder.relative_to(RECORDED))


def table_of(path):
    names, *rows = (line.split(",") for line in path.read_text().splitlines())
    return names, rows


def slices(sets):
    ids = [list(ProcSet.from_str(text)) for text in sets]
    count = np.array([len(s) for s in ids], np.int32)
    return np.array([core for s in ids for core in s], np.int32), np.cumsum(count) - count, count


def recorded_trace(folder):
    """Rebuild a trace from the files of a run; times are known to six decimals only."""
    jobs = outputs.read_out_jobs(folder / "out_jobs.csv")
    keys = (*outputs.JOB_COLUMNS[:3], "submission_time", "requested_number_of_resources", "requested_time")
    final = ("final_state", "starting_time", "execution_time", "allocated_resources", "consumed_energy")
    rows = [
        (*start, JobState[state], *(-1.0 if value != value else value for value in rest))
        for start, (state, *rest) in zip(
            zip(*(jobs[name].tolist() for name in keys), strict=True),
            zip(*(jobs[name].tolist() for name in final), strict=True),
            strict=True,
        )
    ]
    changes = {"metadata": {k: text for k, text in enumerate(jobs["metadata"].tolist()) if text}}
    _, states = table_of(folder / "out_machine_states.csv")
    changes["machine_states"] = np.array([(float(t), *map(int, row)) for t, *row in states], MACHINE_STATE_DTYPE)
    if (folder / "out_pstate_changes.csv").exists():
        _, pstates = table_of(folder / "out_pstate_changes.csv")
        cores, first, count = slices([row[1] for row in pstates])
        changes["pstate_cores"] = cores
        changes["pstate_changes"] = np.array(
            [(float(row[0]), f, n, int(row[2])) for row, f, n in zip(pstates, first, count, strict=True)],
            PSTATE_CHANGE_DTYPE,
        )
        _, energies = table_of(folder / "out_consumed_energy.csv")
        changes["energy"] = np.array(
            [(float(t), float(e), k.encode(), float(w)) for t, e, k, w, _ in energies], ENERGY_DTYPE
        )
    return make_trace(rows, **changes)


@needs_recordings
@pytest.mark.parametrize("folder", RUNS, ids=run_name)
def test_recorded_jobs(folder):
    """What is told is printed as recorded; what is computed differs by the rounding of what was recorded at most."""
    trace = recorded_trace(folder)
    text = (folder / "out_jobs.csv").read_text()
    mine, theirs = outputs.format_jobs(trace).splitlines(), text.splitlines()
    assert mine[0] == theirs[0]
    assert len(mine) == len(theirs)
    for my_line, line in zip(mine[1:], theirs[1:], strict=True):
        my_row, row = my_line.split(",", 16), line.split(",", 16)
        if "REJECTED" in row:
            assert my_row == row
            continue
        assert my_row[:10] + my_row[14:] == row[:10] + row[14:]
        mine_derived, derived = np.array(my_row[10:14], float), np.array(row[10:14], float)
        tolerance = 2.1e-6 + np.array([0, 0, 0, (1 + derived[3]) * 1.5e-6 / float(row[9])])
        assert np.all(np.abs(mine_derived - derived) <= tolerance), (my_line, line)


EXACT = (
    "energy_on",
    "hdeeprm_gaia200_padded",
    "kill_job",
    "metadata",
    "reject",
    "same_time",
    "sleep_wake",
    "two_workloads",
    "walltime",
)


@needs_recordings
@pytest.mark.parametrize("name", EXACT)
def test_recorded_jobs_to_the_byte(name):
    """Runs whose times six decimals hold exactly."""
    folder = RECORDED / name
    assert outputs.format_jobs(recorded_trace(folder)) == (folder / "out_jobs.csv").read_text()


@needs_recordings
@pytest.mark.parametrize("folder", RUNS, ids=run_name)
def test_recorded_machine_states_and_pstate_changes_to_the_byte(folder):
    trace = recorded_trace(folder)
    assert outputs.format_machine_states(trace) == (folder / "out_machine_states.csv").read_text()
    if len(trace.pstate_changes):
        assert outputs.format_pstate_changes(trace) == (folder / "out_pstate_changes.csv").read_text()


@needs_recordings
@pytest.mark.parametrize("folder", [run for run in RUNS if (run / "out_consumed_energy.csv").exists()], ids=run_name)
def test_recorded_energy(folder):
    """All columns but the mean power to the byte; that one where the dates are far enough apart to compute it."""
    trace = recorded_trace(folder)
    _, mine = table_of_text(outputs.format_consumed_energy(trace))
    _, theirs = table_of(folder / "out_consumed_energy.csv")
    assert [row[:4] for row in mine] == [row[:4] for row in theirs]
    elapsed_s = np.diff(trace.energy["time_s"], prepend=0.0)
    for my_row, row, step_s in zip(mine, theirs, elapsed_s.tolist(), strict=True):
        if step_s > 1:
            assert float(my_row[4]) == pytest.approx(float(row[4]), abs=2e-6 * (1 + float(row[4])) / step_s + 1e-6)


def table_of_text(text):
    names, *rows = (line.split(",") for line in text.splitlines())
    return names, rows


@needs_recordings
@pytest.mark.parametrize("folder", RUNS, ids=run_name)
def test_recorded_schedules(folder):
    names, (row,) = table_of(folder / "out_schedule.csv")
    recorded = dict(zip(names, row, strict=True))
    trace = recorded_trace(folder)
    trace = replace(
        trace,
        platform=make_platform(int(recorded["nb_computing_machines"])),
        consumed_j=float(recorded["consumed_joules"]),
        n_grouped_switches=int(recorded["nb_grouped_switches"]),
        n_machine_switches=int(recorded["nb_machine_switches"]),
        time_in_state_s={state: float(recorded[f"time_{state}"]) for state in outputs.HOST_STATES},
        info={name + "_s": float(recorded[name]) for name in ("scheduling_time", "simulation_time")},
    )
    my_names, (my_row,) = table_of_text(outputs.format_schedule(trace))
    assert my_names == names
    mine = dict(zip(my_names, my_row, strict=True))
    shortest_s = min((t for t in trace.records["run_s"].tolist() if t > 0), default=1.0)
    for name in names[1:]:
        if re.match(r"(mean|max)_|makespan", name) and recorded[name] != "-nan":
            tolerance = 2.1e-6
            if "slowdown" in name:
                tolerance += (1 + float(recorded["max_slowdown"])) * 1.5e-6 / shortest_s
            assert float(mine[name]) == pytest.approx(float(recorded[name]), abs=tolerance), name
        else:
            assert mine[name] == recorded[name], name


@needs_recordings
@pytest.mark.parametrize("path", sorted(RECORDED.glob("**/overutilizations.json")), ids=lambda path: path.parent.name)
def test_recorded_overutilizations_to_the_byte(path):
    text = path.read_text()
    n_processors = json.loads(text)["mem_bw"]["nb_procs"]
    trace = make_trace(
        [], n_cores=n_processors, n_processors=n_processors, overutilization=outputs.read_overutilizations(path)
    )
    mine, recorded = outputs.format_overutilizations(trace), json.loads(text)
    assert json.loads(mine) == recorded
    assert len(mine) == len(text)


@needs_recordings
def test_recorded_schedules_are_read():
    values = outputs.read_out_schedule(RECORDED / "energy_on" / "out_schedule.csv")
    assert values["batsim_version"] == "v4.2.1"
    assert values["consumed_joules"] == 11040.000003

"""Output files read back; damaged ones are refused in one line."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from hdrl.base.errors import HdrlError, ReadError
from hdrl.settings.batch.simulation import outputs, readers
from hdrl.settings.batch.simulation.trace import OverUtilization
from hdrl.version import VERSION

from .hand_made import HAND_MADE, hand_made_trace, make_trace

RECORDED = Path(__file__).resolve().parents[5] / "shared" / "batsim-runs"


@pytest.fixture
def trace():
    return hand_made_trace()


def test_jobs_read_back(trace, tmp_path):
    outputs.write_batsim_files(trace, tmp_path)
    table = readers.read_out_jobs(tmp_path / "out_jobs.csv")
    assert tuple(table) == outputs.JOB_COLUMNS
    assert table["job_id"].tolist() == ["d", "a", "b", "c"]
    assert table["requested_number_of_resources"].tolist() == [9, 2, 1, 3]
    np.testing.assert_array_equal(table["waiting_time"], [np.nan, 0, 0, 6])
    assert table["allocated_resources"].tolist() == ["", "0-1", "3", "0-1 3"]
    assert table["metadata"].tolist() == ["", "x, y", "", ""]


def test_names_that_would_break_a_row_are_quoted(tmp_path):
    trace = make_trace([('a,"b', "w0", "p\nq", *HAND_MADE[0][3:])], metadata={0: 'say "x"'})
    path = tmp_path / "jobs.csv"
    path.write_text(outputs.format_jobs(trace), newline="")
    table = readers.read_out_jobs(path)
    assert [table[name][0] for name in ("job_id", "profile", "metadata")] == ['a,"b', "p\nq", 'say "x"']


def test_schedule_reads_back(trace, tmp_path):
    outputs.write_batsim_files(trace, tmp_path)
    assert readers.read_out_schedule(tmp_path / "out_schedule.csv") == outputs.schedule_values(trace)
    outputs.write_batsim_files(make_trace([]), tmp_path)
    assert math.isnan(readers.read_out_schedule(tmp_path / "out_schedule.csv")["mean_slowdown"])


def test_overutilizations_read_back(trace, tmp_path):
    trace.info["compatibility"] = "hdeeprm-0.3.1"
    outputs.write_overutilizations(trace, tmp_path / "o.json")
    found = readers.read_overutilizations(tmp_path / "o.json")
    for name in OverUtilization.__slots__:
        np.testing.assert_array_equal(getattr(found, name), getattr(trace.overutilization, name))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("execution_time", "execution", r"jobs\.csv:1: has no column 'execution_time'; did you mean 'execution'"),
        (",metadata", ",profile", r"jobs\.csv:1: names a column twice"),
        (",metadata", "", r"jobs\.csv:2: 17 fields, expected 16"),
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
        ('"x, y"', '"x, y', r"is not CSV"),
    ],
)
def test_bad_jobs_give_one_clear_line(trace, tmp_path, old, new, message):
    path = tmp_path / "jobs.csv"
    text = outputs.format_jobs(trace)
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ReadError, match=message) as caught:
        readers.read_out_jobs(path)
    assert "\n" not in str(caught.value)


def test_columns_go_by_their_names(trace, tmp_path):
    path = tmp_path / "jobs.csv"
    header, *lines = outputs.format_jobs(trace).splitlines()
    path.write_text("\n".join([header, *lines]) + "\n")
    expected = readers.read_out_jobs(path)
    # pandas puts an index in front; people add a column behind
    path.write_text("\n".join([f",{header},mine", *(f"{row},{line},x" for row, line in enumerate(lines))]) + "\n")
    found = readers.read_out_jobs(path)
    assert list(found) == list(expected)
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column)


OLD_BATSIM = """jobID,hacky_job_id,workload_name,submission_time,requested_number_of_processors,requested_time,success,\
starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,consumed_energy,allocated_processors
w0!3,3,w0,10,2,100,1,12.5,10,22.5,2.5,12.5,1.25,-1,0-1
4,4,w0,11,1,100,0,12.5,100,112.5,1.5,101.5,1.015,-1,2
"""


def test_results_of_old_batsims_are_read(tmp_path):
    path = tmp_path / "out_jobs.csv"
    path.write_text(OLD_BATSIM)
    table = readers.read_out_jobs(path)
    assert table["job_id"].tolist() == ["3", "4"]
    assert table["final_state"].tolist() == ["COMPLETED_SUCCESSFULLY", "COMPLETED_FAILED"]
    assert table["requested_number_of_resources"].tolist() == [2, 1]
    assert table["allocated_resources"].tolist() == ["0-1", "2"]
    header, *lines = OLD_BATSIM.replace("\\\n", "").splitlines()
    kept = [position for position, name in enumerate(header.split(",")) if name not in ("waiting_time", "stretch")]
    short = [",".join(line.split(",")[position] for position in kept) for line in (header, *lines)]
    path.write_text("\n".join(short) + "\n")
    again = readers.read_out_jobs(path)
    assert again["waiting_time"].tolist() == [2.5, 1.5]
    np.testing.assert_allclose(again["stretch"], [1.25, 1.015])


def test_truncated_and_empty_files(trace, tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(outputs.format_jobs(trace)[:-1])
    with pytest.raises(ReadError, match=r":5: is truncated"):
        readers.read_out_jobs(path)
    path.write_text("")
    with pytest.raises(ReadError, match="is empty"):
        readers.read_out_jobs(path)
    with pytest.raises(ReadError, match="no such file"):
        readers.read_out_jobs(tmp_path / "absent.csv")


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
        readers.read_out_schedule(path)


def test_a_schedule_has_one_row(trace, tmp_path):
    path = tmp_path / "schedule.csv"
    lines = outputs.format_schedule(trace).splitlines(keepends=True)
    path.write_text("".join([*lines, lines[1]]))
    with pytest.raises(ReadError, match="2 rows below its header, expected 1"):
        readers.read_out_schedule(path)


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
        readers.read_overutilizations(path)


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
    read = {
        "out_jobs.csv": readers.read_out_jobs,
        "out_schedule.csv": readers.read_out_schedule,
        "overutilizations.json": readers.read_overutilizations,
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
            message = refusal(read[name], path)
            n_refused += message is not None
            assert "\n" not in (message or "")
    assert n_refused > 100

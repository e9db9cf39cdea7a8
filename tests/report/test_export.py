"""A schedule as a log: what is written, read back."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hdrl
from hdrl.base.errors import WorkloadError
from hdrl.launcher.main import cli
from hdrl.settings.batch.report.export import export_swf, swf_of_run
from hdrl.settings.batch.report.runs import read_run, run_of_trace
from hdrl.settings.batch.simulation import JobState, write_batsim_files
from hdrl.settings.batch.workload import read_swf, workload_from_swf
from hdrl.settings.batch.workload.export import SWF_STATUS, schedule_log
from hdrl.settings.batch.workload.swf import SWF_FIELDS

from .four_jobs import ROWS, write_run


def test_rows_by_hand(tmp_path):
    run = write_run(tmp_path / "small")
    path = tmp_path / "small.swf"
    export_swf(run, path)
    lines = [line for line in path.read_text().splitlines() if not line.startswith(";")]
    assert lines == [
        # number submit wait run procs cpu mem req_procs req_time req_mem status user group app queue part prev think
        "1 0 0 10 2 -1 -1 2 -1 -1 1 -1 -1 -1 -1 -1 -1 -1",
        "2 5 5 10 4 -1 -1 4 -1 -1 1 -1 -1 -1 -1 -1 -1 -1",
        "3 6 14 20 1 -1 -1 1 -1 -1 5 -1 -1 -1 -1 -1 -1 -1",
        "4 8 -1 -1 -1 -1 -1 9 -1 -1 5 -1 -1 -1 -1 -1 -1 -1",
    ]
    header = read_swf(path).header
    assert header["Version"] == "2.2"
    assert header["MaxProcs"] == "4"
    assert header["MaxJobs"] == header["MaxRecords"] == "4"
    assert header["Computer"] == "small"
    assert "policy fcfs" in header["Note"]


def test_every_final_state_has_a_status():
    ends = {state.name for state in JobState if state >= JobState.COMPLETED_SUCCESSFULLY}
    assert set(SWF_STATUS) == ends
    assert SWF_STATUS["COMPLETED_SUCCESSFULLY"] == 1
    assert {SWF_STATUS[name] for name in ends - {"COMPLETED_SUCCESSFULLY"}} == {0, 5}


@pytest.fixture(scope="module")
def trace():
    platform = hdrl.read_platform("gaia")
    workload = hdrl.read_workload("lublin_gaia_1000", platform, n_jobs=150)
    return hdrl.simulate(platform, workload, "shortest-high_gflops")


def test_a_schedule_reads_back(trace, tmp_path):
    """The log is a workload again: its run times are those of the schedule, everything else is as it was."""
    path = tmp_path / "schedule.swf.gz"
    export_swf(trace, path)
    log = read_swf(path)
    jobs, records = trace.workload.jobs, trace.records
    order = np.argsort(jobs["submit_s"], kind="stable")
    assert log.rows["job_number"].tolist() == [float(trace.workload.job_ids[i]) for i in order]
    np.testing.assert_allclose(log.rows["wait_s"], (records["start_s"] - jobs["submit_s"])[order], atol=1e-6)
    np.testing.assert_allclose(log.rows["run_s"], records["run_s"][order], atol=1e-6)
    again = workload_from_swf(log, trace.platform, shift=False)
    for name in ("submit_s", "cores", "requested_time_s", "memory_mib", "user", "group", "executable", "queue"):
        np.testing.assert_array_equal(again.jobs[name], jobs[name][order], err_msg=name)


def test_a_folder_and_its_trace_give_the_same_log(trace, tmp_path):
    write_batsim_files(trace, tmp_path)
    read = swf_of_run(read_run(tmp_path), workload="lublin_gaia_1000")
    taken = swf_of_run(run_of_trace(trace))
    for name in SWF_FIELDS:
        np.testing.assert_allclose(read.rows[name], taken.rows[name], atol=2e-6, err_msg=name)
    alone = swf_of_run(read_run(tmp_path))
    assert set(alone.rows["user"].tolist()) == {-1.0}, "the folder does not tell, and nothing is made up"


def test_whole_seconds(tmp_path):
    rows = [("a", 0.4, 1, ROWS[0][3], 1.6, 0.2, "0", 1), ("b", 2.2, 1, ROWS[0][3], 3.4, 2.2, "0", 1)]
    run = write_run(tmp_path / "x", rows)
    log = export_swf(run, tmp_path / "x.swf", whole_seconds=True)
    assert [log.rows[name].tolist() for name in ("job_number", "submit_s", "wait_s", "run_s")] == [
        [1, 2],
        [0, 2],
        [2, 1],
        [0, 3],
    ]
    assert "." not in (tmp_path / "x.swf").read_text().partition("MaxRecords")[2]


def test_jobs_that_never_ended_and_ids_that_are_no_numbers():
    log = schedule_log(
        "x",
        ["2", "2"],
        {"submit": np.array([5.0, 1.0]), "start": np.array([np.nan, 3.0]), "end": np.array([np.nan, np.nan])},
        {"requested": np.array([2, 3]), "used": np.array([0, 3])},
        ["SUBMITTED", "RUNNING"],
    )
    assert log.rows[["job_number", "submit_s", "wait_s", "run_s", "processors", "status"]].tolist() == [
        (1, 1, 2, -1, 3, -1),
        (2, 5, -1, -1, -1, -1),
    ]
    with pytest.raises(WorkloadError, match="no job to export"):
        schedule_log("x", [], {"submit": [], "start": [], "end": []}, {"requested": [], "used": []}, [])


def export(*words: object):
    return CliRunner().invoke(cli, ["workload", "export-swf", *map(str, words)], prog_name="hdrl")


def test_the_command(tmp_path):
    run = write_run(tmp_path / "small")
    out = tmp_path / "small.swf"
    done = export(run, "-o", out)
    assert (done.exit_code, done.output) == (0, f"{out}: 4 jobs\n")
    again = CliRunner().invoke(cli, ["workload", "stat", str(out), "size", "max"])
    assert (again.exit_code, again.output) == (0, "4\n"), again.output


def test_mistakes_are_one_line(tmp_path):
    run = write_run(tmp_path / "small")
    (tmp_path / "other.swf").write_text("1 0 0 9 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1\n")
    write_run(tmp_path / "many" / "run_0")
    write_run(tmp_path / "many" / "run_1")
    for words, problem in (
        ([tmp_path / "nowhere", "-o", "x.swf"], "no such folder"),
        ([run], "Missing option '--out'"),
        ([run, "-o", tmp_path / "x.swf", "--workload", "nowhere"], "no such file, and no shipped workload"),
        ([run, "-o", tmp_path / "x.swf", "--workload", tmp_path / "other.swf"], "for instance '2'"),
        ([tmp_path / "many", "-o", tmp_path / "x.swf"], "holds 2 runs, expected one"),
        ([run, "-o", Path(tmp_path, "no", "x.swf")], "cannot be written"),
    ):
        done = export(*words)
        assert done.exit_code == 2, done.output
        assert len(done.output.splitlines()) == 1
        assert problem in done.output
    assert not (tmp_path / "x.swf").exists()

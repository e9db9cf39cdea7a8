from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdrl.base.errors import HdrlError, OptionsError, ReadError, UnknownName, WorkloadError
from hdrl.base.seeding import stream
from hdrl.settings.batch.workload import (
    BANDWIDTH_MODELS,
    ESTIMATE_MODELS,
    MEMORY_MODELS,
    RUN_TIME_MODELS,
    StepKind,
    SwfLog,
    read_swf,
    read_workload,
    swf_from_workload,
    workload_from_swf,
    write_swf,
)
from hdrl.settings.batch.workload.swf import SWF_DTYPE, SWF_FIELDS

LINE = "{n} {submit} -1 {run} {procs} -1 {used} {req} {time} {mem} 1 3 4 5 6 7 -1 -1"


def line(n=1, submit=0, run=10, procs=2, used=-1, req=2, time=60, mem=2048, **changes):
    return LINE.format(n=n, submit=submit, run=run, procs=procs, used=used, req=req, time=time, mem=mem, **changes)


def log_of(tmp_path: Path, *lines: str) -> SwfLog:
    path = tmp_path / "log.swf"
    path.write_text("\n".join(lines) + "\n")
    return read_swf(path)


def test_all_18_fields_are_read(tmp_path):
    log = log_of(tmp_path, " ".join(str(i) for i in range(1, 19)))
    assert [float(log.rows[name][0]) for name in SWF_FIELDS] == [float(i) for i in range(1, 19)]


def test_oddities_of_real_logs(tmp_path):
    path = tmp_path / "odd.swf"
    rows = [
        line(1),
        "",
        "  ; in between",
        line(2).replace(" ", "\t"),
        "   ",
        line(3) + " {1,2} q_1d 1:ppn=2",
        line("4.0"),
    ]
    text = "; Version: 2.2\n;Computer: odd\n; Note: one\n;       two\n; Note: three\n" + "\r\n".join(rows)
    path.write_bytes(b"\xef\xbb\xbf" + text.encode() + b" ; caf\xe9")
    log = read_swf(path)
    assert log.rows["job_number"].tolist() == [1, 2, 3, 4]
    assert log.header["Version"] == "2.2"
    assert log.header["Computer"] == "odd"
    assert log.header["Note"].startswith("one\ntwo\nthree\nin between")


def test_no_header_and_gz(tmp_path):
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress((line() + "\n").encode()))
    log = read_swf(path)
    assert (log.name, log.n_rows, log.header) == ("log", 1, {})


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "holds no job"),
        ("; only comments\n\n", "holds no job"),
        ("1 2 3\n", ":1: 3 fields, expected 18"),
        (line() + "\n\n" + line().replace("60", "sixty") + "\n", ":3: requested_s is 'sixty', expected a number"),
        (line() + "\n" + line(run="nan") + "\n", "job 2: run_s is nan, expected a finite number"),
        (line(run="1e999") + "\n", "job 1: run_s is inf, expected a finite number"),
        (line(run="9" * 400) + "\n", "job 1: run_s is inf, expected a finite number"),
        (line(run="1e308") + "\n", "job 1: run_s is 1e+308, expected a number between -1e+15 and 1e+15"),
        (line() + "\n" + line(run="-1e16") + "\n", "job 2: run_s is -1e+16, expected a number between"),
    ],
)
def test_bad_logs_are_told_in_one_line(tmp_path, text, where):
    path = tmp_path / "bad.swf"
    path.write_text(text)
    with pytest.raises(ReadError) as error:
        read_swf(path)
    assert where in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_truncated_and_foreign_files(tmp_path):
    with pytest.raises(ReadError, match="no such file"):
        read_swf(tmp_path / "none.swf")
    with pytest.raises(ReadError, match="is a folder"):
        read_swf(tmp_path)
    cut = tmp_path / "cut.swf.gz"
    cut.write_bytes(gzip.compress((line() + "\n").encode() * 2000)[:60])
    with pytest.raises(ReadError, match="cannot be decompressed"):
        read_swf(cut)
    plain = tmp_path / "plain.swf.gz"
    plain.write_text(line())
    with pytest.raises(ReadError, match="cannot be decompressed"):
        read_swf(plain)


def test_damaged_archives_give_nothing_but_our_errors(tmp_path):
    rng = stream(8, "fuzz")
    good = gzip.compress("\n".join(line(n) for n in range(200)).encode())
    path = tmp_path / "fuzz.swf.gz"
    n_errors = 0
    for _ in range(150):
        data = bytearray(good)
        data[int(rng.integers(len(data)))] ^= int(rng.integers(1, 256))
        path.write_bytes(data)
        try:
            assert read_swf(path).n_rows == 200
        except ReadError as error:
            n_errors += "\n" not in str(error)
    assert n_errors > 100


def test_max_rows_stops_before_what_follows(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(f"{line(1)}\n{line(2)}\n; {line(9)}\n{line(3)}\nrubbish\n")
    assert read_swf(path, max_rows=3).rows["job_number"].tolist() == [1, 2, 3]
    with pytest.raises(ReadError, match=":5: 1 fields"):
        read_swf(path)
    with pytest.raises(OptionsError):
        read_swf(path, max_rows=0)


def test_seconds_become_work_at_the_reference_speed(tmp_path, gaia):
    log = log_of(tmp_path, line(7, submit=100, run=10, req=2, time=60, mem=2048))
    workload = workload_from_swf(log, gaia)
    job = workload.jobs[0]
    assert workload.steps["kind"].tolist() == [StepKind.COMPUTE]
    assert workload.steps["amount"][0] == pytest.approx(10 * gaia.reference_gflops * 1e9, rel=1e-15)
    assert (job["submit_s"], job["cores"], job["walltime_s"], job["requested_time_s"]) == (0, 2, -1, 60)
    assert job["memory_mib"] == 2.0
    assert job["bandwidth_gbps"] in (4, 8, 12, 16, 20, 24)
    assert (job["user"], job["group"], job["executable"], job["queue"], job["partition"]) == (3, 4, 5, 6, 7)
    assert workload.job_ids == ("7",)


def test_fallbacks(tmp_path, gaia):
    log = log_of(tmp_path, line(req=-1, procs=8, time=-1, mem=-1, used=4096), line(req=0, mem=-1, used=-1))
    jobs = workload_from_swf(log, gaia).jobs
    assert jobs["cores"].tolist() == [8, 2]
    assert jobs["requested_time_s"].tolist() == [10, 60]
    assert jobs["memory_mib"].tolist() == [4.0, 0.0]


def test_what_is_dropped_and_why(tmp_path, gaia):
    log = log_of(
        tmp_path,
        line(1),
        line(2, run=0),
        line(3, run=-1),
        line(4, req=-1, procs=0),
        line(5, submit=-1),
        line(6, submit=50),
        line(6, submit=60).replace(" 1 3 4", " 2 3 4"),
        line(8).replace(" 1 3 4", " 3 3 4"),
    )
    workload = workload_from_swf(log, gaia, shift=False)
    assert workload.job_ids == ("1", "8", "6")
    assert workload.n_dropped == {
        "no run time": 2,
        "no cores": 1,
        "no submission date": 1,
        "a line for the whole job": 1,
    }
    with pytest.raises(WorkloadError, match="no usable job"):
        workload_from_swf(log, gaia, start=3)


def test_out_of_order_dates_and_repeated_numbers(tmp_path, gaia):
    workload = workload_from_swf(log_of(tmp_path, line(5, submit=90), line(5, submit=30), line(5, submit=60)), gaia)
    assert workload.job_ids == ("5", "5_2", "5_3")
    assert workload.jobs["submit_s"].tolist() == [0, 30, 60]
    assert workload.window(1, 2).job_ids == ("5_2", "5_3")


UNSORTED = [line(n, submit=submit) for n, submit in enumerate([1000, 2000, 3000, 0, 500], start=1)]


def test_the_first_jobs_are_the_first_by_submission_whatever_the_order_of_the_lines(tmp_path, gaia):
    path = tmp_path / "unsorted.swf"
    path.write_text("\n".join(UNSORTED))
    whole = read_workload(path, gaia)
    assert read_workload(path, gaia, n_jobs=3).job_ids == ("4", "5", "1")
    assert read_workload(path, gaia, n_jobs=2, start=2).job_ids == whole.window(2, 2).job_ids == ("1", "2")
    assert workload_from_swf(read_swf(path), gaia, n_jobs=3).history.submit_s.tolist() == [0, 500, 1000, 2000, 3000]


def test_jobs_of_one_second_are_submitted_in_the_order_of_the_log(tmp_path, gaia):
    workload = workload_from_swf(log_of(tmp_path, line(2), line(10), line(9)), gaia)
    assert [workload.job_ids[job] for job in workload.submission_order()] == ["2", "10", "9"]


def test_users_and_other_names_may_have_many_digits(tmp_path, gaia):
    names = [92605928607567, 3, 2**31, 92605928607567, -1, 12345678901234567890, 12345678901234567891]
    lines = [line(n, submit=n).replace(" 1 3 4 5", f" 1 {name} {name} 5") for n, name in enumerate(names, start=1)]
    log = log_of(tmp_path, *lines)
    for start, n_jobs in ((0, None), (1, 6)):
        workload = workload_from_swf(log, gaia, n_jobs=n_jobs, start=start)
        expected = [1, 3, 0, 1, -1, 4, 2]
        assert workload.jobs["user"].tolist() == workload.jobs["group"].tolist() == expected[start:]
    assert workload.history.user.tolist() == expected
    assert workload.jobs["executable"].tolist() == [5] * 6


def test_only_minus_one_stands_for_an_absent_name(tmp_path, gaia):
    # Hashes may be negative; those of 64 bits are told apart, too.
    names = [-2, -1384958432, -1, 0, -2, -(2**40), -9223372036854775807, -9223372036854775806]
    lines = [line(n, submit=n).replace(" 1 3 4 5", f" 1 {name} 4 5") for n, name in enumerate(names, start=1)]
    users = workload_from_swf(log_of(tmp_path, *lines), gaia).jobs["user"].tolist()
    assert [user == -1 for user in users] == [name == -1 for name in names]
    assert len(set(users)) == len(set(names))
    assert users[0] == users[4]


def test_the_case_of_users_above_32_bits(shared, gaia):
    case = shared / "cases" / "users-above-int32" / "users.swf"
    if not case.is_file():
        pytest.skip("../shared/cases is not there")
    workload = read_workload(case, gaia)
    assert len(set(workload.jobs["user"].tolist())) == 3
    assert workload.jobs["user"].min() >= 0


def test_absurd_numbers(tmp_path, gaia):
    assert workload_from_swf(log_of(tmp_path, line().replace(" 3 4 ", " 3 4.7 ")), gaia).jobs["group"][0] == 4
    with pytest.raises(WorkloadError, match="asks for 99999999999 cores"):
        workload_from_swf(log_of(tmp_path, line(req=99999999999)), gaia)


def test_walltimes(tmp_path, gaia):
    log = log_of(tmp_path, line(time=60))
    assert workload_from_swf(log, gaia, walltime="requested").jobs["walltime_s"].tolist() == [60]
    assert workload_from_swf(log, gaia, walltime="requested", walltime_factor=2).jobs["walltime_s"].tolist() == [120]
    with pytest.raises(UnknownName, match="did you mean 'requested'"):
        workload_from_swf(log, gaia, walltime="request")
    with pytest.raises(OptionsError, match="walltime_factor"):
        workload_from_swf(log, gaia, walltime="requested", walltime_factor=0)


def many(n: int) -> SwfLog:
    rows = np.full(n, -1.0).astype(SWF_DTYPE)
    rows["job_number"], rows["submit_s"] = np.arange(n), np.arange(n) * 10
    rows["run_s"], rows["requested_s"], rows["requested_processors"] = 100.0, 1000.0, 1
    return SwfLog("many", rows)


@pytest.mark.parametrize("memory", list(MEMORY_MODELS))
@pytest.mark.parametrize("bandwidth", list(BANDWIDTH_MODELS))
@pytest.mark.parametrize("run_time", list(RUN_TIME_MODELS))
def test_every_model_gives_the_same_jobs_in_every_window(gaia, memory, bandwidth, run_time):
    choices = {"memory": memory, "bandwidth": bandwidth, "run_time": run_time, "seed": 3}
    whole = workload_from_swf(many(60), gaia, shift=False, **choices)
    part = workload_from_swf(many(60), gaia, shift=False, start=20, n_jobs=10, **choices)
    for name in ("memory_mib", "bandwidth_gbps", "submit_s", "requested_time_s"):
        assert part.jobs[name].tolist() == whole.jobs[name][20:30].tolist()
    assert part.steps["amount"].tolist() == whole.steps["amount"][20:30].tolist()
    assert np.all(whole.jobs["memory_mib"] >= 0)
    assert np.all(whole.steps["amount"] > 0)


@pytest.mark.parametrize("estimates", list(ESTIMATE_MODELS))
def test_every_estimate_model_covers_the_run_time(gaia, estimates):
    requested_s = workload_from_swf(many(200), gaia, estimates=estimates).jobs["requested_time_s"]
    assert np.all(requested_s >= 100)
    assert (estimates == "exact") == bool(np.all(requested_s == 100))


def test_draws_have_the_stated_distributions(gaia):
    workload = workload_from_swf(many(20000), gaia, run_time="hdeeprm-draw", memory="uniform")
    fractions = workload.steps["amount"] / (1000 * gaia.reference_gflops * 1e9)
    assert fractions.mean() == pytest.approx(0.5265, abs=0.01)
    assert np.mean(np.isclose(fractions, 0.05)) == pytest.approx(0.15, abs=0.01)
    assert np.mean(np.isclose(fractions, 1.25)) == pytest.approx(0.08, abs=0.01)
    assert np.unique(np.round(fractions * 20)).tolist() == list(range(1, 26))
    for name, n_values in (("bandwidth_gbps", 6), ("memory_mib", 5)):
        _, counts = np.unique(workload.jobs[name], return_counts=True)
        assert counts / 20000 == pytest.approx(np.full(n_values, 1 / n_values), abs=0.015)
    assert workload_from_swf(many(9), gaia, seed=1).jobs["bandwidth_gbps"].tolist() != (
        workload_from_swf(many(9), gaia, seed=2).jobs["bandwidth_gbps"].tolist()
    )


def test_misspelt_models(tmp_path, gaia):
    for name in ("run_time", "memory", "bandwidth", "estimates"):
        with pytest.raises(UnknownName, match=r"known|did you mean"):
            workload_from_swf(many(3), gaia, **{name: "lo"})
    with pytest.raises(OptionsError):
        workload_from_swf(many(3), gaia, n_jobs=0)
    with pytest.raises(OptionsError):
        workload_from_swf(many(3), gaia, start=-1)


number = st.one_of(st.integers(-1, 10**9).map(float), st.floats(-1, 1e9, allow_nan=False))


@given(st.lists(st.tuples(*[number] * 18), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read(tmp_path_factory, table):
    rows = np.array(table, dtype=SWF_DTYPE)
    path = tmp_path_factory.mktemp("swf") / "log.swf.gz"
    write_swf(SwfLog("log", rows, {"Note": "a\nb", "MaxProcs": "4"}), path)
    log = read_swf(path)
    assert log.rows.tolist() == rows.tolist()
    assert log.header == {"Note": "a\nb", "MaxProcs": "4"}


def test_a_workload_becomes_the_log_that_it_came_from(gaia):
    log = many(50)
    log.rows["requested_memory_kb"] = 1024.0
    again = swf_from_workload(workload_from_swf(log, gaia), gaia)
    for name in (
        "job_number",
        "submit_s",
        "run_s",
        "requested_s",
        "requested_processors",
        "requested_memory_kb",
        "user",
    ):
        assert again.rows[name].tolist() == log.rows[name].tolist(), name


@pytest.mark.parametrize(
    ("name", "n_jobs", "n_procs"),
    [
        ("KTH-SP2-1996-2.1-cln", 27992, 100),
        ("NASA-iPSC-1993-3.1-cln", 18239, 128),
        ("LLNL-Atlas-2006-2.1-cln", 43778, 9216),
        ("lublin_256", 10000, 256),
        ("metacentrum-wagap-2013.alea", 17900, None),
    ],
)
def test_real_logs(shared, gaia, name, n_jobs, n_procs):
    log = read_swf(shared / "traces" / "swf" / f"{name}.swf.gz")
    assert log.n_rows == n_jobs
    if n_procs is not None:
        assert log.header["MaxProcs" if "MaxProcs" in log.header else "MaxNodes"] == str(n_procs)
    workload = workload_from_swf(log, gaia)
    assert workload.n_jobs + sum(workload.n_dropped.values()) == n_jobs
    assert workload.jobs["submit_s"].min() == 0


def test_the_first_jobs_of_a_log_are_the_same_however_much_is_read(shared, gaia):
    path = shared / "traces" / "swf" / "LLNL-Atlas-2006-2.1-cln.swf.gz"
    few = read_workload(path, gaia, n_jobs=50, start=10)
    all_jobs = workload_from_swf(read_swf(path), gaia, n_jobs=50, start=10)
    assert few.n_jobs == 50
    assert few.jobs.tolist() == all_jobs.jobs.tolist()
    assert few.n_dropped == all_jobs.n_dropped
    assert sum(few.n_dropped.values()) > 0


def mutated(good: bytes, rng: np.random.Generator) -> bytes:
    data = bytearray(good)
    scraps = [b"-", b"\x00", b";", b"\n", b" ", b"e99", b"9" * 30, b"nan", b"\xff", b'"', b"#"]
    for _ in range(rng.integers(1, 7)):
        at, kind = int(rng.integers(len(data))), rng.integers(4)
        if kind == 0:
            data[at] = rng.integers(256)
        elif kind == 1:
            del data[at : at + int(rng.integers(1, 30))]
        elif kind == 2:
            data[at:at] = scraps[rng.integers(len(scraps))]
        else:
            data[at:at] = data[: int(rng.integers(1, 40))]
    return bytes(data)


SEEDS = {
    "made": "\n".join(["; Version: 2", *(line(n, submit=n * 7, run=n) for n in range(1, 12))]),
    "KTH-SP2-1996-2.1-cln": None,
    "metacentrum-wagap-2013.alea": None,
}


@pytest.mark.parametrize("name", list(SEEDS))
def test_mutated_logs_give_nothing_but_our_errors(request, tmp_path, gaia, name):
    text = SEEDS[name]
    if text is None:
        folder = request.getfixturevalue("shared") / "traces" / "swf"
        with gzip.open(folder / f"{name}.swf.gz", "rt") as real:
            text = "".join(next(real) for _ in range(45))
    rng = stream(7, "fuzz")
    path = tmp_path / "fuzz.swf"
    outcomes = set()
    for i in range(120):
        path.write_bytes(mutated(text.encode(), rng))
        try:
            workload = workload_from_swf(read_swf(path), gaia, estimates="log" if i % 2 else "tsafrir")
        except HdrlError as error:
            outcomes.add("one line" if "\n" not in str(error) else "several lines")
        else:
            assert np.all(workload.jobs["cores"] >= 1)
            outcomes.add("read")
    assert outcomes == {"one line", "read"}

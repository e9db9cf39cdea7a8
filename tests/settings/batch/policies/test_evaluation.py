"""How good predictors are on a log: against what they would have said by hand, and what users type."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hdrl.base.errors import ReadError, WorkloadError
from hdrl.batch import read_platform
from hdrl.launcher.main import cli
from hdrl.settings.batch.policies.pairs import logs_known_to, read_pair
from hdrl.settings.batch.policies.simulation import simulate
from hdrl.settings.batch.predict.evaluation import EVALUATED, evaluate_predictors, predictions_of, replayed
from hdrl.settings.batch.predict.network import SHIPPED, answers, read_network, shipped_network
from hdrl.settings.batch.workload.history import LogHistory
from hdrl.settings.batch.workload.read import read_workload
from hdrl.settings.batch.workload.swf import SWF_DTYPE, SwfLog, write_swf
from hdrl.settings.batch.workload.swf_jobs import workload_from_swf

from .predicting import Oracle


def history(n_jobs: int = 80) -> LogHistory:
    draw = np.random.default_rng(2)
    submit_s = np.cumsum(draw.integers(0, 50, n_jobs)).astype(float)
    requested_s = draw.choice((100.0, 1000.0), n_jobs)
    run_s = np.ceil(requested_s * draw.choice((0.02, 0.4, 1.1), n_jobs))
    ended_s = np.where(draw.random(n_jobs) < 0.9, submit_s + draw.integers(0, 200, n_jobs) + run_s, np.inf)
    user, cores = draw.integers(0, 3, n_jobs).astype(np.int32), draw.integers(1, 3, n_jobs).astype(np.int32)
    name = draw.integers(0, 3, n_jobs).astype(np.int32)
    return LogHistory(submit_s, ended_s, run_s, requested_s, user, cores, name)


def test_each_job_is_predicted_by_what_had_ended_at_its_submission():
    log = history()
    found = predictions_of(log)
    ends = sorted(range(len(log.submit_s)), key=lambda job: (log.ended_s[job], log.submit_s[job]))
    for job in range(len(log.submit_s)):
        oracle = Oracle()
        for other in ends:
            if log.ended_s[other] < log.submit_s[job]:
                facts = (log.user, log.cores, log.requested_time_s, log.run_s, log.name)
                oracle.end(*(float(column[other]) for column in facts))
        who = (float(log.user[job]), float(log.cores[job]), float(log.requested_time_s[job]))
        here = sum(
            log.user[other] == log.user[job] and not log.ended_s[other] < log.submit_s[job] for other in range(job + 1)
        )
        learned_s = oracle.learned(shipped_network().numbers, *who, here)
        assert found["learned"][job] == pytest.approx(learned_s, rel=1e-9), job
        by_name_s = oracle.shrunk(*who, float(log.name[job]))[0]
        assert found["geo_name"][job] == pytest.approx(by_name_s, rel=1e-9), job
        for name in set(EVALUATED) - {"learned", "geo_name"}:
            assert found[name][job] == pytest.approx(oracle.predict(name, *who)[0], rel=1e-9), (name, job)


def swf(n_jobs: int = 60, *, users: bool = True, waits: bool = True) -> SwfLog:
    rows = np.full(n_jobs, -1.0, dtype=SWF_DTYPE)
    rows["job_number"] = np.arange(1, n_jobs + 1)
    rows["submit_s"] = np.arange(n_jobs) * 400.0
    rows["wait_s"] = 5.0 if waits else -1.0
    rows["user"] = np.arange(n_jobs) % 3 if users else -1
    rows["run_s"] = np.array([10.0, 100.0, 300.0])[np.arange(n_jobs) % 3]
    rows["requested_s"], rows["requested_processors"], rows["status"] = 3600.0, 1, 1
    return SwfLog("log", rows)


def test_users_who_repeat_themselves_are_predicted_exactly():
    workload = workload_from_swf(swf(), read_platform("homogeneous:4"))
    found = {one.predictor: one for one in evaluate_predictors(workload)}
    assert found["last2"].r2_log == pytest.approx(1.0)
    assert found["last2"].gamma_deviance == pytest.approx(0.0, abs=1e-9)
    assert found["requested"].too_short == 0
    assert found["requested"].r2_log < 0 < found["geo"].r2_log
    assert sum(part.n_jobs for part in found["geo"].bins) == found["geo"].n_jobs == 18
    with pytest.raises(WorkloadError, match="has no wait times"):
        evaluate_predictors(workload_from_swf(swf(waits=False), read_platform("homogeneous:4")))
    with pytest.raises(WorkloadError, match="is not a log with its own"):
        evaluate_predictors(workload_from_swf(swf(), read_platform("homogeneous:4"), estimates="exact"))


def test_the_command_tells_a_table_draws_and_warns_of_logs_without_users(tmp_path: Path):
    write_swf(swf(users=False), tmp_path / "log.swf")
    run = CliRunner().invoke
    told = run(cli, ["predict", "evaluate", str(tmp_path / "log.swf"), "--json"])
    assert told.exit_code == 0, told.output
    assert "names no users" in told.stderr
    of_names = ["geo_name"]  # of which this log has none
    assert [row["predictor"] for row in json.loads(told.stdout)] == [one for one in EVALUATED if one not in of_names]
    pytest.importorskip("matplotlib", reason="needs matplotlib (the extra report)")
    drawn = run(cli, ["predict", "evaluate", str(tmp_path / "log.swf"), "--plot", str(tmp_path / "c.svg")])
    assert drawn.exit_code == 0, drawn.output
    assert "geo" in drawn.stdout
    assert (tmp_path / "c.svg").read_text().startswith("<?xml")
    for words, line in ((["--range", "x"], "two shares"), (["--plot", str(tmp_path / "c.gif")], "ends in")):
        wrong = run(cli, ["predict", "evaluate", str(tmp_path / "log.swf"), *words])
        assert (wrong.exit_code, line in wrong.stderr, wrong.stderr.count("Traceback")) == (2, True, 0)


def test_a_network_learns_from_logs_and_orders_jobs(tmp_path: Path):
    """Users repeat themselves and ask for an hour; the same seed gives the same file."""
    pytest.importorskip("torch", reason="needs torch (the extra learn)")
    log, own = str(tmp_path / "log.swf"), tmp_path / "my-own.json"
    busy = swf(300)
    busy.rows["submit_s"] = np.arange(300) * 120.0
    write_swf(busy, tmp_path / "log.swf")
    run = CliRunner().invoke
    for path in (own, tmp_path / "again.json"):
        told = run(cli, ["predict", "train", log, "-o", str(path)])
        assert (told.exit_code, told.output) == (0, f"{path}\n"), told.output
    assert own.read_bytes() == (tmp_path / "again.json").read_bytes()
    assert read_network(own).trained_on == {"log": 0.6}
    refused = run(cli, ["predict", "train", log, "-o", str(own)])
    assert (refused.exit_code, "--force" in refused.stderr) == (2, True)
    machine = read_platform("homogeneous:1")
    jobs = read_workload(log, machine, n_jobs=80)
    _, seen = replayed(jobs.history)
    predicted_s = 3600 * np.exp(answers(read_network(own).numbers, seen)[-60:, 0])
    assert predicted_s == pytest.approx(jobs.history.run_s[-60:], rel=0.3)
    starts = [
        simulate(machine, jobs, f"sjf+easy@{name}", energy=False).records["start_s"].tolist()
        for name in (own, "learned", SHIPPED)
    ]
    assert starts[0] != starts[1] == starts[2]
    assert logs_known_to(f"sjf+easy@{own}/all~gate-high_gflops") == {"log": 0.6}
    judged = tmp_path / "judged"
    words = [
        "compare",
        f"sjf+easy@{own}",
        "--baseline",
        "sjf+easy",
        "-p",
        "homogeneous:1",
        "-w",
        log,
        "--windows",
        "40",
    ]
    words += ["--range", "0.5:1", "--set", "energy=false", "-j", "1", "--out", str(judged)]
    told = run(cli, words)
    assert (told.exit_code, "was trained on the first 60% of log" in told.output) == (0, True), told.output
    options = {"platform_file_path": "homogeneous:1", "workload_file_path": log, "energy": False, "nb_jobs": 20}
    options["workload"] = {"bandwidth": "none"}
    (tmp_path / "options.json").write_text(json.dumps(options))
    words_of_run = ["run", f"sjf+easy@{own}", str(tmp_path / "options.json"), "--quiet", "--out", str(tmp_path / "run")]
    assert run(cli, words_of_run).exit_code == 0
    agent = json.loads((tmp_path / "run" / "provenance.json").read_text())["agent"]
    assert agent["files"] == {own.name: hashlib.sha256(own.read_bytes()).hexdigest()}
    own.write_bytes(SHIPPED.read_bytes())
    changed = run(cli, words)
    assert (changed.exit_code, changed.stderr.count("\n")) == (2, 1), "another network is another comparison"
    assert set(logs_known_to("sjf+easy@learned")) == set(logs_known_to("saf+easy@learned~gate")) != set()
    assert not logs_known_to("sjf+easy@geo")


def test_a_network_sees_the_names_of_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Users name two programs, one of which is short, and ask for an hour."""
    pytest.importorskip("torch", reason="needs torch (the extra learn)")
    monkeypatch.setattr("hdrl.settings.batch.predict.training.N_EPOCHS", 10)
    log, run = swf(200), CliRunner().invoke
    log.rows["executable"] = np.random.default_rng(0).integers(0, 2, 200)
    log.rows["run_s"] = np.where(log.rows["executable"] == 0, 60, 3000)
    log.rows["submit_s"], log.rows["wait_s"] = np.arange(200) * 4000.0, 0
    write_swf(log, tmp_path / "log.swf")
    out = tmp_path / "network.json"
    told = run(cli, ["predict", "train", str(tmp_path / "log.swf"), "-o", str(out), "--names"])
    assert told.exit_code == 0, told.output
    network, history = (
        read_network(out),
        read_workload(str(tmp_path / "log.swf"), read_platform("homogeneous:1")).history,
    )
    assert network.by_name
    assert read_pair(f"sjf+easy@{out}").rule.by_name
    seen = replayed(history, by_name=True)[1]
    by_network_s = 3600 * np.exp(answers(network.numbers, seen)[:, 0])
    by_request_s = predictions_of(history, ["geo"])["geo"]
    off, off_by_request = (np.abs(np.log(one / history.run_s))[-60:].mean() for one in (by_network_s, by_request_s))
    assert off < 0.3 < 1.0 < off_by_request
    log.rows["executable"] = -1
    write_swf(log, tmp_path / "nameless.swf")
    refused = run(cli, ["predict", "train", str(tmp_path / "nameless.swf"), "-o", str(tmp_path / "x"), "--names"])
    assert (refused.exit_code, "nameless: names no jobs (field 14)" in refused.stderr) == (2, True)


def test_a_network_is_looked_for_where_the_sweep_file_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As models and Python files are; what is written tells no places, and is run again from anywhere."""
    asked = {
        "platform": "homogeneous:1",
        "workloads": ["log.swf"],
        "candidates": ["sjf+easy@nets/my.json", "mine=sjf+easy@nets/my.json/all~gate"],
        "baseline": "saf+easy@nets/my.json",
        **{"windows": {"length": 40}, "energy": False, "resamples": 100},
    }
    run = CliRunner().invoke

    def judged(sweep: Path | str, out: Path) -> dict[str, bytes]:
        done = run(cli, ["compare", str(sweep), "-j", "1", "--out", str(out)])
        assert done.exit_code == 0, done.output
        clocked = ("timing.json", "resume.json", "manifest.json")
        return {path.name: path.read_bytes() for path in out.iterdir() if path.name not in clocked}

    for position in ("asks", "far/away"):
        folder = tmp_path / position
        (folder / "nets").mkdir(parents=True)
        (folder / "nets" / "my.json").write_bytes(SHIPPED.read_bytes())
        write_swf(swf(100), folder / "log.swf")
        (folder / "sweep.json").write_text(json.dumps(asked))
    (tmp_path / "cwd" / "nets").mkdir(parents=True)
    (tmp_path / "cwd" / "nets" / "my.json").write_text("{}")  # is not meant
    monkeypatch.chdir(tmp_path / "cwd")
    first = judged("../asks/sweep.json", tmp_path / "a")
    assert judged(tmp_path / "far" / "away" / "sweep.json", tmp_path / "b") == first
    monkeypatch.chdir(tmp_path / "asks")
    assert judged("sweep.json", tmp_path / "c") == first
    monkeypatch.chdir(tmp_path / "cwd")
    assert judged(tmp_path / "a" / "sweep.json", tmp_path / "d") == first, "its folder says where files are"
    assert {"sjf+easy@my.json", "mine", "saf+easy@my.json"} == {
        row.split(b",")[0].decode() for row in first["results.csv"].splitlines()[1:]
    }
    assert b"nets/" not in b"".join(first.values())
    done = run(cli, ["compare", "--resume", "--out", str(tmp_path / "c")])
    assert done.exit_code == 0, done.output


def test_what_is_no_network_is_one_line(tmp_path: Path):
    shipped = json.loads(SHIPPED.read_text())
    numbers = shipped["numbers"]
    for changes, told in (
        ({"format": "x"}, "is not a network"),
        ({"layers": [20, 2]}, "is not a network"),
        ({"numbers": numbers[1:]}, "numbers"),
        ({"numbers": [1e300, *numbers[1:]]}, "beyond 1e"),
        ({"numbers": ["x", *numbers[1:]]}, "numbers"),
    ):
        (tmp_path / "n.json").write_text(json.dumps(shipped | changes))
        with pytest.raises(ReadError, match=told):
            read_pair(f"sjf+easy@{tmp_path / 'n.json'}")
    with pytest.raises(ReadError, match="no such file"):
        read_pair("sjf+easy@none.json")

"""How good predictors are on a log: against what they would have said by hand, and what users type."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hdrl.errors import WorkloadError
from hdrl.launcher.main import cli
from hdrl.platform import read_platform
from hdrl.settings.batch.predict.evaluation import EVALUATED, evaluate_predictors, predictions_of
from hdrl.settings.batch.workload.history import LogHistory
from hdrl.settings.batch.workload.swf import SWF_DTYPE, SwfLog, workload_from_swf, write_swf

from .predicting import Oracle


def history(n_jobs: int = 80) -> LogHistory:
    draw = np.random.default_rng(2)
    submit_s = np.cumsum(draw.integers(0, 50, n_jobs)).astype(float)
    requested_s = draw.choice((100.0, 1000.0), n_jobs)
    run_s = np.ceil(requested_s * draw.choice((0.02, 0.4, 1.1), n_jobs))
    ended_s = np.where(draw.random(n_jobs) < 0.9, submit_s + draw.integers(0, 200, n_jobs) + run_s, np.inf)
    user, cores = draw.integers(0, 3, n_jobs).astype(np.int32), draw.integers(1, 3, n_jobs).astype(np.int32)
    return LogHistory(submit_s, ended_s, run_s, requested_s, user, cores)


def test_each_job_is_predicted_by_what_had_ended_at_its_submission():
    log = history()
    found = predictions_of(log)
    ends = sorted(range(len(log.submit_s)), key=lambda job: (log.ended_s[job], log.submit_s[job]))
    for job in range(len(log.submit_s)):
        oracle = Oracle()
        for other in ends:
            if log.ended_s[other] < log.submit_s[job]:
                facts = (log.user, log.cores, log.requested_time_s, log.run_s)
                oracle.end(*(float(column[other]) for column in facts))
        who = (float(log.user[job]), float(log.cores[job]), float(log.requested_time_s[job]))
        for name in EVALUATED:
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
    with pytest.raises(WorkloadError, match="how long jobs waited"):
        evaluate_predictors(workload_from_swf(swf(waits=False), read_platform("homogeneous:4")))
    with pytest.raises(WorkloadError, match="is no log with its own"):
        evaluate_predictors(workload_from_swf(swf(), read_platform("homogeneous:4"), estimates="exact"))


def test_the_command_tells_a_table_draws_and_warns_of_logs_without_users(tmp_path: Path):
    write_swf(swf(users=False), tmp_path / "log.swf")
    run = CliRunner().invoke
    told = run(cli, ["predict", "evaluate", str(tmp_path / "log.swf"), "--json"])
    assert told.exit_code == 0, told.output
    assert "names no users" in told.stderr
    assert [row["predictor"] for row in json.loads(told.stdout)] == list(EVALUATED)
    pytest.importorskip("matplotlib", reason="needs matplotlib (the extra report)")
    drawn = run(cli, ["predict", "evaluate", str(tmp_path / "log.swf"), "--plot", str(tmp_path / "c.svg")])
    assert drawn.exit_code == 0, drawn.output
    assert "geo" in drawn.stdout
    assert (tmp_path / "c.svg").read_text().startswith("<?xml")
    for words, line in ((["--range", "x"], "two shares"), (["--plot", str(tmp_path / "c.gif")], "ends in")):
        wrong = run(cli, ["predict", "evaluate", str(tmp_path / "log.swf"), *words])
        assert (wrong.exit_code, line in wrong.stderr, wrong.stderr.count("Traceback")) == (2, True, 0)

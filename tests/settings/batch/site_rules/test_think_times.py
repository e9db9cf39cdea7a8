"""Jobs that users submit after they have seen others end: fields 17 and 18 of a log, and the column think_s."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from hdrl.base.errors import OptionsError, ReadError, SimulationError
from hdrl.batch import OwnPriority, View, compute_metrics, read_platform, read_workload, simulate, with_plain_rules
from hdrl.launcher.main import cli
from hdrl.settings.batch.site_rules.columns import NOT_BEFORE
from hdrl.settings.batch.site_rules.model import OUTAGE_DTYPE, DependencyKind
from tests.settings.batch.site_rules.test_learning import picked
from tests.settings.batch.site_rules.test_oracle import random_jobs, random_machine
from tests.settings.batch.site_rules.worlds import machine, workload

THINK, AFTER_ANY = DependencyKind.THINK, DependencyKind.AFTER_ANY


def line(number: int, at: float, run: float, cores: int, preceding: int = -1, think_s: float = -1) -> str:
    return f"{number} {at} -1 {run} {cores} -1 -1 {cores} {run} -1 1 1 1 -1 -1 -1 {preceding} {think_s}\n"


LOG = (
    line(1, 0, 100, 4)
    + line(2, 10, 50, 4)
    + line(3, 11, 20, 4)
    + line(4, 500, 10, 4, preceding=2, think_s=30)
    + line(5, 510, 10, 4, preceding=9, think_s=30)
    + line(6, 511, 10, 4, preceding=3)
    + line(7, 800, 10, 4, preceding=4, think_s=0)
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log.swf").write_text(LOG)
    return tmp_path / "log.swf"


@pytest.mark.parametrize(
    ("policy", "starts", "submitted"),
    [
        # Job 2 runs from 100 to 150, so that job 4 comes at 180, job 7 when it ends.
        ("fcfs", [0, 100, 150, 180, 510, 520, 190], [0, 10, 11, 180, 510, 511, 190]),
        # The shorter job 3 is first: job 2 runs from 120 to 170, job 4 comes at 200.
        ("sjf", [0, 120, 100, 200, 510, 520, 210], [0, 10, 11, 200, 510, 511, 210]),
    ],
)
def test_jobs_come_a_think_time_after_the_end_of_others(
    log: Path, policy: str, starts: list[float], submitted: list[float]
):
    platform = with_plain_rules(read_platform("homogeneous:4"))
    load = read_workload(log, platform, think_times=True)
    # Job 9 is not in the log; job 6 has no think time, so that its own date counts.
    assert load.site.dependencies.tolist() == [(3, 1, THINK, 30), (5, 2, AFTER_ANY, 0), (6, 3, THINK, 0)]
    assert load.origin["site"] == {NOT_BEFORE: 1}
    trace = simulate(platform, load, policy)
    assert trace.records["start_s"].tolist() == starts
    assert trace.workload.jobs["submit_s"].tolist() == submitted
    assert trace.site["eligible_s"].tolist() == submitted
    waits = np.subtract(starts, submitted)
    assert compute_metrics(trace)["mean_wait_s"] == pytest.approx(np.mean(waits))
    assert trace.site["waited_s"].tolist() == waits.tolist()


def test_dates_of_the_log_count_by_default_and_outside_the_window(log: Path):
    platform = with_plain_rules(read_platform("homogeneous:4"))
    assert simulate(platform, read_workload(log, platform), "fcfs").records["start_s"].tolist() == [
        *(0, 100, 150, 500),
        *(510, 520, 800),
    ]
    load = read_workload(log, platform, think_times=True)
    # From job 4 on, the window has no job 2: job 4 comes at its date, job 7 follows it.
    window = load.window(3, 4)
    assert window.site.dependencies.tolist() == [(3, 0, THINK, 0)]
    assert simulate(platform, window, "fcfs").workload.jobs["submit_s"].tolist() == [0, 10, 11, 10]
    # The other way round, a window that is read and one that is cut are the same.
    part = read_workload(log, platform, think_times=True, start=3)
    assert part.site.dependencies.tolist() == window.site.dependencies.tolist()


def test_users_wait_for_the_last_end_of_a_requeued_job_and_see_cancellations():
    outages = np.array([(0, 50.0, 60.0, 0)], OUTAGE_DTYPE)
    platform = machine(outages=outages)
    follows = ((1, 0, THINK, 5.0),)
    jobs = workload({"run": 100, "cores": 2}, {"at": 7, "run": 10}, after=follows)
    # The node fails at 50; the job is eligible again at 171 and ends at 271.
    trace = simulate(platform, jobs, "fcfs")
    assert trace.records["start_s"].tolist() == [171, 276]
    # A job that is cancelled while it waits ends then.
    jobs = workload(
        {"run": 100, "cores": 2}, {"at": 1, "cancelled_s": 40.0}, {"at": 2, "cores": 2}, after=((2, 1, THINK, 3.0),)
    )
    trace = simulate(machine(), jobs, "fcfs")
    assert trace.workload.jobs["submit_s"].tolist() == [0, 1, 43]
    assert trace.records["start_s"].tolist() == [0, -1, 100]


def test_a_job_that_follows_itself_is_a_deadlock():
    jobs = workload({"run": 10}, {"run": 10}, after=((0, 1, THINK, 0.0), (1, 0, THINK, 0.0)))
    with pytest.raises(SimulationError, match="deadlock: 2 jobs wait and none can ever start"):
        simulate(machine(), jobs, "fcfs")


@pytest.mark.parametrize("policy", ["sjf+easy", "sjf+conservative"])
def test_policies_in_python_and_agents_see_the_dates_of_submission(policy: str):
    seen: dict[int, float] = {}

    def shortest(job: Any, now_s: float) -> float:
        seen[job.job] = job.submit_s
        assert job.submit_s <= now_s
        return job.requested_time_s

    for seed in range(5):
        rng = np.random.default_rng(seed)
        platform = random_machine(rng)
        jobs = random_jobs(rng, platform, 14, has_wishes=True, has_think_times=True)
        seen.clear()
        theirs = simulate(platform, jobs, policy)
        ours = simulate(platform, jobs, OwnPriority(shortest, policy.partition("+")[2]))
        assert ours.records["start_s"].tolist() == theirs.records["start_s"].tolist()
        assert ours.workload.jobs["submit_s"].tolist() == theirs.workload.jobs["submit_s"].tolist()
        assert {job: theirs.workload.jobs["submit_s"][job] for job in seen} == seen
        if policy == "sjf+easy":
            agent, reward, _ = picked(platform, jobs, backfilling="easy")
            assert agent.records["start_s"].tolist() == theirs.records["start_s"].tolist()
            assert -reward == compute_metrics(theirs)["mean_bounded_slowdown"]


def test_views_show_dates_of_the_log_until_a_job_comes():
    dates = []

    def first(view: View) -> list[Any]:
        dates.append((view.now_s, view.workload.jobs["submit_s"][1], view.no_more_jobs))
        return []

    jobs = workload({"run": 10, "cancelled_s": 20.0}, {"at": 9, "cancelled_s": 90.0}, after=((1, 0, THINK, 7.0),))
    simulate(machine(), jobs, first)
    assert dates[0] == (0, 9, False)
    assert dates[-1][1:] == (27, True)


def run(*words: object) -> str:
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def test_options_switch_think_times_on(log: Path, tmp_path: Path):
    options = {
        "platform_file_path": "homogeneous:4",
        "workload_file_path": "log.swf",
        "workload": {"think_times": True},
    }
    (tmp_path / "options.json").write_text(json.dumps(options))
    run("run", "sjf", tmp_path / "options.json", "--out", tmp_path / "run")
    lines = (tmp_path / "run" / "out_jobs.csv").read_text().splitlines()
    column = lines[0].split(",").index("submission_time")
    assert sorted(float(row.split(",")[column]) for row in lines[1:]) == [0, 10, 11, 200, 210, 510, 511]
    words = ["compare", "sjf", "-p", "homogeneous:4", "-w", log, "--windows", "7:1", "--range", "0:1", "-j", 1]
    words += ["--set", "workload.think_times=true", "--metrics", "mean_wait_s", "--out", tmp_path / "judged"]
    printed = run(*words)
    assert "3 of 7 jobs are submitted after the end of another one" in " ".join(printed.split())
    assert "29.71" in printed  # sjf
    assert "34.00" in printed  # fcfs+easy


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (
            ["simulator=exact"],
            "workload.think_times is true, which only simulator 'site' follows; found simulator 'exact'",
        ),
        (
            ["workload_file_path=jobs.json"],
            "think_times is true, but only logs in SWF have think times; found .*jobs.json",
        ),
    ],
)
def test_what_cannot_follow_think_times_is_refused(log: Path, tmp_path: Path, overrides: list[str], why: str):
    (tmp_path / "jobs.json").write_text("{}")
    options = {
        "platform_file_path": "homogeneous:4",
        "workload_file_path": "log.swf",
        "workload": {"think_times": True},
    }
    (tmp_path / "options.json").write_text(json.dumps(options))
    words = [word for override in overrides for word in ("--set", override)]
    result = CliRunner().invoke(
        cli, ["run", "sjf", str(tmp_path / "options.json"), *words, "--out", str(tmp_path / "x")]
    )
    assert result.exit_code == 2
    assert not (tmp_path / "x").exists()
    with pytest.raises(OptionsError, match=why):
        raise OptionsError(result.output.strip())


def test_a_machine_without_rules_is_refused_in_python(log: Path):
    with pytest.raises(OptionsError, match=r"expected with_plain_rules\(platform\)"):
        read_workload(log, read_platform("homogeneous:4"), think_times=True)


@pytest.mark.parametrize(
    ("cells", "dependencies"),
    [
        ("2,afterany:1,2.5", [(1, 0, THINK, 2.5)]),
        # Job 7 is submitted later: the log's date counts.
        ("2,afterany:7,2.5", []),
        ("2,afterany:1,-2", "has the think_s '-2' and 1 dependencies, expected at least 0 seconds and one"),
        ("2,afterany:1:3,2", "has the think_s '2' and 2 dependencies"),
    ],
)
def test_the_column_think_s(log: Path, cells: str, dependencies: Any):
    platform = with_plain_rules(read_platform("homogeneous:4"))
    log.write_text("; SiteColumns: log.site.csv\n" + LOG)
    (log.parent / "log.site.csv").write_text(f"job,dependencies,think_s\n{cells}\n")
    if isinstance(dependencies, str):
        with pytest.raises(ReadError, match=f"log.site.csv:2: {dependencies}"):
            read_workload(log, platform)
        return
    assert read_workload(log, platform).site.dependencies.tolist() == dependencies

"""Recorded runs of a real Slurm, and how far policies and Slurm itself are from them."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hdrl.base.errors import ReadError, UnknownName
from hdrl.experiment.reproduce.recipe import read_experiment
from hdrl.experiment.reproduce.reproduce import reproduce
from hdrl.experiments.batch_slurm import PAIRS, WAIT, made_up_site, slurm_fidelity
from hdrl.launcher.main import cli
from hdrl.metrics.orders import distance_between
from hdrl.slurm.fidelity import fidelity, fidelity_text, simulated_start_s
from hdrl.slurm.recorded import keep_run, read_run

from .test_het import starts_with_its_cycles

RECORDED = Path(__file__).parents[3] / "shared" / "slurm" / "runs"

JOBS = [(0, 2, 600, 10), (10, 2, 600, 20), (20, 1, 300, 5)]
"""When, how many cores, seconds, and limit of each job, on two cores."""

NODE = "NodeName=k0n1 CPUs=2\nPartitionName=main Nodes=ALL Default=YES\n"


def record(folder: Path, *starts_s: int, **changes: object) -> Path:
    """Write a recorded run in which the jobs start at these dates."""
    folder.mkdir()
    jobs = [
        {"at": at, "cores": cores, "run_s": run_s, "limit_min": limit, "id": number}
        for number, (at, cores, run_s, limit) in enumerate(JOBS, start=1)
    ]
    (folder / "jobs.json").write_text(json.dumps({"t0": 1767225600.0, "node_cores": [2], "jobs": jobs} | changes))
    lines = [
        f"JobId={number} Name=j JobState=COMPLETED StartTime={date(start_s)} EndTime={date(start_s + job[2])} "
        f"NodeList=k0n1 ProcCnt={job[1]} SubmitTime={date(job[0])} \n"
        for number, (job, start_s) in enumerate(zip(JOBS, starts_s, strict=True), start=1)
    ]
    (folder / "jobcomp.txt").write_text("".join(lines))
    (folder / "slurm.conf").write_text(f"SlurmctldPort={folder.name}\nKillWait=30\n{NODE}")
    return folder


def date(seconds: int) -> str:
    return f"2026-01-01T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def test_distance_of_policies_and_of_slurm_from_itself(tmp_path: Path) -> None:
    first, second = record(tmp_path / "1", 0, 600, 1200), record(tmp_path / "2", 0, 900, 600)
    found = fidelity([read_run(first), read_run(second)], ["fcfs"], lambda _: None)
    # First come, first served starts them as in the first run; in the second, one pair of three is the other way round.
    assert [one.discordant_share for one in found.distances["fcfs"]] == pytest.approx([0.0, 1 / 3])
    assert found.distances["fcfs"][0].wait_ratio == pytest.approx(1.0, abs=1e-3)
    assert [one.discordant_share for one in found.floor] == pytest.approx([1 / 3])
    assert found.floor[0].wait_ratio == pytest.approx((890 + 580) / (590 + 1180))


def test_a_run_whose_host_stood_still_is_named(tmp_path: Path) -> None:
    fine, late = (
        record(tmp_path / "fine", 0, 600, 1200, late_s=2.0),
        record(tmp_path / "late", 0, 900, 600, late_s=18_650.5),
    )
    text = fidelity_text(fidelity([read_run(fine), read_run(late)], ["fcfs"], lambda _: None))
    assert re.findall("caution.*", text) == [
        "caution: late: a job was submitted 18,650 s late, so the host stood still"
    ]


def test_other_jobs_and_other_rules_are_no_repetition(tmp_path: Path) -> None:
    first, second, third = (record(tmp_path / name, 0, 600, 1200) for name in "123")
    shutil.copy(first / "jobcomp.txt", third / "jobcomp.txt")
    (second / "slurm.conf").write_text(f"KillWait=60\n{NODE}")
    jobs = json.loads((third / "jobs.json").read_text())
    jobs["jobs"][0]["limit_min"] = 11
    (third / "jobs.json").write_text(json.dumps(jobs))
    runs = [read_run(one) for one in (first, second, third)]
    assert fidelity(runs, [], lambda _: None).floor == ()


def test_the_command(tmp_path: Path) -> None:
    folders = [str(record(tmp_path / name, 0, 600, 1200)) for name in "12"]
    said = CliRunner().invoke(cli, ["fidelity", *folders, "--policies", "fcfs,sjf"])
    assert said.exit_code == 0, said.output
    assert "2 recorded runs, 6 jobs" in said.output
    assert "Slurm itself (the floor)" in said.output
    alone = CliRunner().invoke(cli, ["fidelity", folders[0], "--policies", "fcfs"])
    assert "the floor is unknown: pass two runs of the same jobs" in alone.output


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    half = record(tmp_path / "half", 0, 600, 1200)
    (half / "jobcomp.txt").unlink()
    for name, problem in (
        ("none", "none: no such folder, expected a recorded run of a real Slurm"),
        ("empty", "empty: is not a recorded run of a real Slurm: it has no jobs.json, jobcomp.txt, slurm.conf; a run"),
        ("half", "half: is not a recorded run of a real Slurm: it has no jobcomp.txt; a run with --simulator slurm"),
    ):
        said = CliRunner().invoke(cli, ["fidelity", str(tmp_path / name)], prog_name="hdrl")
        assert said.exit_code == 2
        (line,) = said.stderr.splitlines()
        assert problem in line


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"node_cores": None}, "has no node_cores"),
        ({"jobs": [{"at": 0, "cores": 1, "run_s": 1, "id": 1}]}, "jobs"),
        (
            {"jobs": [{"at": 0, "cores": 1, "run_s": 1, "id": 9}, {"at": 0, "cores": 1, "run_s": 1, "id": 8}]},
            "for job 9",
        ),
        (
            {"jobs": [{"at": 0, "cores": 1, "run_s": 1, "id": 1, "after": 0}] * 2},
            "jobs.0.after is 0, expected the index",
        ),
        ({"jobs": [{"at": 0, "cores": 1, "run_s": 1, "id": 1, "gpus": 1}] * 2}, "gpus"),
        ({"jobs": [{"at": 0, "cores": 1, "run_s": 1, "id": 1, "partition": "mian"}] * 2}, "did you mean 'main'"),
        ({"jobs": [{"at": 0, "cores": 1, "run_s": 1, "id": 1, "array": 2}] * 2}, "has 0 tasks of array 1, expected 2"),
        ({"jobs": [{"at": 0, "cores": 1, "run_s": 1, "id": 1, "hold_s": 9}] * 2}, "has no release of job 0"),
        ({"t0": "soon"}, "t0"),
    ],
)
def test_runs_that_are_none(tmp_path: Path, changes: dict[str, object], problem: str) -> None:
    folder = record(tmp_path / "run", 0, 600, 1200, **changes)
    with pytest.raises(ReadError, match=problem):
        read_run(folder)


def test_a_run_in_which_nothing_started(tmp_path: Path) -> None:
    folder = record(tmp_path / "run", 0, 600, 1200)
    text = (folder / "jobcomp.txt").read_text()
    (folder / "jobcomp.txt").write_text(re.sub(r"StartTime=\S+", "StartTime=Unknown", text))
    with pytest.raises(ReadError, match="start times of fewer than two jobs"):
        read_run(folder)


def test_the_configuration_of_another_machine(tmp_path: Path) -> None:
    folder = record(tmp_path / "run", 0, 600, 1200)
    (folder / "slurm.conf").write_text(NODE.replace("CPUs=2", "CPUs=3"))
    with pytest.raises(ReadError, match=r"slurm\.conf: names nodes with 3 cores, expected 2 as in jobs\.json"):
        read_run(folder)


def test_no_such_policy(tmp_path: Path) -> None:
    run = read_run(record(tmp_path / "run", 0, 600, 1200))
    with pytest.raises(UnknownName):
        fidelity([run], ["fcsf"], lambda _: None)


@pytest.mark.skipif(not RECORDED.is_dir(), reason="needs the recorded runs in ../shared/slurm")
def test_a_recorded_run() -> None:
    run = read_run(RECORDED / "plain-101")
    assert (run.workload.n_jobs, run.platform.n_cores) == (80, 64)
    assert np.all(run.start_s >= run.eligible_s)
    found = fidelity([run], ["slurm", "fcfs+conservative", "fcfs"], lambda _: None).distances
    assert found["slurm"][0].discordant_share < 0.006
    assert found["slurm"][0].wait_ratio == pytest.approx(1.0, abs=0.04)
    assert 0.006 < found["fcfs+conservative"][0].discordant_share < 0.03 < found["fcfs"][0].discordant_share


@pytest.mark.skipif(not RECORDED.is_dir(), reason="needs the recorded runs in ../shared/slurm")
def test_the_command_on_a_run_with_the_rules_of_a_site() -> None:
    said = CliRunner().invoke(cli, ["fidelity", str(RECORDED / "mixed-301"), "--policies", "slurm"])
    assert said.exit_code == 0, said.output
    assert "1 recorded runs, 87 jobs" in said.output
    (found,) = fidelity([read_run(RECORDED / "mixed-301")], ["slurm"], lambda _: None).distances["slurm"]
    assert found.discordant_share < 0.015
    assert found.wait_ratio == pytest.approx(1.0, abs=0.05)


EVENTS = [
    {"kind": "reservation", "at": 3600, "duration_min": 10, "nodes": "k0n1"},
    {"kind": "release", "at": 900, "job": 2},
    {"kind": "cancel", "at": 700, "job": 1},
]


def test_rules_of_a_site_are_played(tmp_path: Path) -> None:
    asks = ({"cancel_after_s": 690}, {"hold_s": 880, "exclusive": True, "nice": 5, "partition": "main"})
    jobs = [
        {"at": at, "cores": cores, "run_s": run_s, "limit_min": limit, "id": number} | ask
        for number, ((at, cores, run_s, limit), ask) in enumerate(zip(JOBS, ({}, *asks), strict=True), start=1)
    ]
    folder = record(tmp_path / "run", 0, 600, 1200, jobs=jobs)
    (folder / "events.json").write_text(json.dumps(EVENTS))
    run = read_run(folder)
    site = run.workload.site
    assert site is not None
    assert site.jobs["cancelled_s"].tolist()[1] == 700
    assert site.jobs["held_until_s"].tolist()[2] == 900
    assert (site.jobs["nice"].tolist()[2], site.jobs["is_exclusive"].tolist()[2]) == (5, 1)
    assert run.platform.site is not None
    assert run.platform.site.reservation_nodes.tolist() == [[True]]
    # The second job ends at its cancellation, and the third one waits for its release.
    assert simulated_start_s(run, "fcfs").tolist() == [0, 600, 900]


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([{"kind": "cancel", "at": 1, "job": 3}], r"\[0\]\.job is 3, expected the index of a job, 0 to 2"),
        ([{"kind": "reservation", "at": 1}], r"\[0\] has no duration_min"),
        ([{"kind": "refused", "at": 1, "job": 0}], r"\[0\]\.kind is 'refused'"),
    ],
)
def test_events_that_are_none(tmp_path: Path, events: list[dict[str, object]], problem: str) -> None:
    folder = record(tmp_path / "run", 0, 600, 1200)
    (folder / "events.json").write_text(json.dumps(events))
    with pytest.raises(ReadError, match=problem):
        read_run(folder)


def test_the_claimed_distances_of_a_run_that_is_solved_by_hand(tmp_path: Path) -> None:
    # Slurm started the third job before the second one, which every policy starts first: at 600 and 1200 s.
    found = slurm_fidelity({"run": record(tmp_path / "run", 0, 900, 600)}, [])
    assert found["run, fcfs+easy", PAIRS].value == pytest.approx(100 / 3)
    assert found["all sites, fcfs+easy", PAIRS] == found["run, fcfs+easy", PAIRS]
    assert found["run, fcfs+easy", WAIT].value == pytest.approx((590 + 1180) / (890 + 580))
    # Three jobs are drawn, by blocks of two: the second and the third make none, one or two of the three pairs.
    assert found["run, fcfs+easy", PAIRS].low == 0
    assert found["run, fcfs+easy", PAIRS].high == pytest.approx(100 * 2 / 3)
    less = found["run, slurm less fcfs+easy", PAIRS]
    assert (less.value, less.low, less.high) == (0, 0, 0)


def test_runs_that_repeat_each_other_tell_how_far_slurm_is_from_itself(tmp_path: Path) -> None:
    runs = {"1": record(tmp_path / "1", 0, 600, 1200), "2": record(tmp_path / "2", 0, 900, 600)}
    other = record(tmp_path / "other", 0, 600, 1200, policy="sjf")
    found = slurm_fidelity({**runs, "other": other}, [])
    assert [found[f"{name}, Slurm itself", PAIRS].value for name in "12"] == pytest.approx([100 / 3] * 2)
    assert found["1, Slurm itself", WAIT].value == pytest.approx((890 + 580) / (590 + 1180))
    assert found["2, Slurm itself", WAIT].value == pytest.approx((590 + 1180) / (890 + 580))
    assert found["1, slurm", PAIRS].null == found["2, slurm", PAIRS].null == pytest.approx(100 / 3)
    assert found["other, slurm", PAIRS].null is None
    assert ("other, Slurm itself", PAIRS) not in found
    # `slurm` does what the first run and the other one did; sites count once.
    assert found["2, slurm less Slurm itself", PAIRS].value == pytest.approx(0)
    assert found["1, slurm less Slurm itself", PAIRS].value == pytest.approx(-100 / 3)
    assert found["all sites, slurm", PAIRS].value == pytest.approx((100 / 3 / 2 + 0) / 2)


def test_jobs_that_began_anew_and_what_the_database_knew(tmp_path: Path) -> None:
    asks = ({"account": "biology", "qos": "low"}, {"account": "optics", "qos": "high"}, {"qos": "low"})
    jobs = [
        {"at": at, "cores": cores, "run_s": run_s, "limit_min": limit, "id": number} | ask
        for number, ((at, cores, run_s, limit), ask) in enumerate(zip(JOBS, asks, strict=True), start=1)
    ]
    folder = record(tmp_path / "run", 700, 60, 1400, jobs=jobs)
    (folder / "qos.txt").write_text("Name|Priority|Preempt|PreemptMode\nlow|0||\nhigh|9|low|requeue\n")
    (folder / "accounts.txt").write_text(
        "Account|ParentName|User|Share\nroot|||1\nbiology|root||3\nbiology||ann|1\noptics|root||1\noptics||ann|1\n"
    )
    text = (folder / "jobcomp.txt").read_text()
    first = (
        text.splitlines()[0].replace("COMPLETED", "PREEMPTED").replace(date(700), date(0)).replace(date(1300), date(60))
    )
    again = text.replace(f"SubmitTime={date(0)}", f"SubmitTime={date(60)} EligibleTime={date(181)}")
    (folder / "jobcomp.txt").write_text(f"{first}\n{again}")
    run = read_run(folder)
    assert (run.start_s.tolist(), run.eligible_s.tolist()) == ([700, 60, 1400], [0, 10, 20])
    site, rules = run.workload.site, run.platform.site
    assert site is not None
    assert rules is not None
    assert [rules.qos_names[one] for one in site.jobs["qos"]] == ["low", "high", "low"]
    assert site.jobs["account"].tolist() == [
        rules.account_names.index("biology"),
        rules.account_names.index("optics"),
        -1,
    ]
    assert rules.accounts["shares"].tolist() == [1, 3, 1]
    assert rules.qos["preempts"].tolist() == [0, 1]
    jobs[0]["account"] = "biologie"
    (folder / "jobs.json").write_text(json.dumps({"t0": 1767225600.0, "node_cores": [2], "jobs": jobs}))
    with pytest.raises(ReadError, match=r"jobs\.0 names the account 'biologie'; did you mean 'biology'"):
        read_run(folder)


def test_runs_are_kept_compressed_to_the_same_bytes(tmp_path: Path) -> None:
    folder = record(tmp_path / "run", 0, 600, 1200)
    (tmp_path / "slurm").symlink_to(folder)
    for name in "12":
        keep_run(tmp_path, tmp_path / name)
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "12")
    assert first == second
    assert first.keys() == {"jobs.json.gz", "jobcomp.txt.gz", "slurm.conf.gz"}
    assert read_run(tmp_path / "1").is_repeated_by(read_run(folder))


def test_the_claims_on_runs_that_come_with_hdrl(tmp_path: Path) -> None:
    experiment = read_experiment("slurm-fidelity")
    assert reproduce(experiment, out=tmp_path / "out").is_same
    for name in experiment.recipe.traces:
        run, (_, made_up) = read_run(experiment.folder / name), made_up_site(name.partition("-")[0])
        rows = [json.loads(one) for one in run.job_requests]
        asked = [row for row in rows for _ in range(row["array"] or 1)]
        assert [one["at"] for one in asked] == made_up.jobs["submit_s"].tolist()
        assert [one["cores"] for one in asked] == made_up.jobs["cores"].tolist()
        assert [60 * one["limit_min"] for one in asked] == made_up.jobs["requested_time_s"].tolist()


@pytest.mark.parametrize(("name", "most"), [("mixed-1", 0.001), ("partitions-1", 0.006)])
def test_with_the_dates_of_its_cycles_it_starts_jobs_of_sites_as_slurm_did(name: str, most: float) -> None:
    run = read_run(read_experiment("slurm-fidelity").folder / name)
    start_s = starts_with_its_cycles(run, from_s=run.t0_s)
    both = np.isfinite(run.start_s) & np.isfinite(start_s)
    assert np.array_equal(np.isfinite(run.start_s), both)
    found = distance_between(run.eligible_s[both], run.start_s[both], start_s[both])
    assert found.discordant_share < most
    assert found.wait_ratio == pytest.approx(1.0, abs=0.01)

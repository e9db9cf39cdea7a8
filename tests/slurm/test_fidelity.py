"""Recorded runs of a real Slurm, and how far policies and Slurm itself are from them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hdrl.base.errors import ReadError, UnknownName
from hdrl.launcher.main import cli
from hdrl.site.fidelity import fidelity, read_run

RECORDED = Path(__file__).parents[3] / "shared" / "slurm" / "runs"

JOBS = [(0, 2, 600, 10), (10, 2, 600, 20), (20, 1, 300, 5)]
"""When, how many cores, seconds, and limit of each job, on two cores."""


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
    (folder / "slurm.conf").write_text(f"SlurmctldPort={folder.name}\nKillWait=30\n")
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


def test_other_jobs_and_other_rules_are_no_repetition(tmp_path: Path) -> None:
    first, second, third = (record(tmp_path / name, 0, 600, 1200) for name in "123")
    shutil.copy(first / "jobcomp.txt", third / "jobcomp.txt")
    (second / "slurm.conf").write_text("KillWait=60\n")
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
    assert "the floor is unknown: give two runs of the same jobs" in alone.output


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"node_cores": None}, "has no node_cores"),
        ({"jobs": [{"at": 0, "cores": 1, "run_s": 1, "id": 1}]}, "jobs"),
        (
            {"jobs": [{"at": 0, "cores": 1, "run_s": 1, "id": 9}, {"at": 0, "cores": 1, "run_s": 1, "id": 8}]},
            "of job 9",
        ),
        ({"jobs": [{"at": 0, "cores": 1, "run_s": 1, "id": 1, "after": 0}] * 2}, "jobs.0 asks for after"),
        ({"t0": "soon"}, "t0"),
    ],
)
def test_runs_that_are_none(tmp_path: Path, changes: dict[str, object], problem: str) -> None:
    folder = record(tmp_path / "run", 0, 600, 1200, **changes)
    with pytest.raises(ReadError, match=problem):
        read_run(folder)


def test_the_configuration_of_another_machine(tmp_path: Path) -> None:
    folder = record(tmp_path / "run", 0, 600, 1200)
    (folder / "slurm.conf").write_text("NodeName=k0n1 CPUs=3\n")
    with pytest.raises(ReadError, match=r"slurm\.conf: names nodes with 3 cores, expected 2 as in jobs\.json"):
        fidelity([read_run(folder)], ["slurm"], lambda _: None)


def test_no_such_policy(tmp_path: Path) -> None:
    run = read_run(record(tmp_path / "run", 0, 600, 1200))
    with pytest.raises(UnknownName):
        fidelity([run], ["fcsf"], lambda _: None)


@pytest.mark.skipif(not RECORDED.is_dir(), reason="needs the recorded runs in ../shared/slurm")
def test_a_recorded_run() -> None:
    run = read_run(RECORDED / "plain-101")
    assert (len(run.asked), run.n_cores) == (80, 64)
    assert np.all(run.start_s >= run.asked[:, 0])
    found = fidelity([run], ["slurm", "fcfs+conservative", "fcfs"], lambda _: None).distances
    assert found["slurm"][0].discordant_share < 0.006
    assert found["slurm"][0].wait_ratio == pytest.approx(1.0, abs=0.04)
    assert 0.006 < found["fcfs+conservative"][0].discordant_share < 0.03 < found["fcfs"][0].discordant_share
    with pytest.raises(ReadError, match="which needs the rules of a site"):
        read_run(RECORDED / "mixed-301")

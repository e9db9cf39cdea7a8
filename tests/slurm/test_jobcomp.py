"""What Slurm writes of jobs that have ended, read from recorded runs."""

import json
from pathlib import Path

import pytest

from hdrl.base.errors import ReadError
from hdrl.slurm.jobcomp import read_jobcomp

RECORDED = Path(__file__).parents[3] / "shared" / "slurm" / "runs"

LINE = (
    "JobId=7 UserId=a b(0) GroupId=root(0) Name=j6 JobState=TIMEOUT Partition=main TimeLimit=3 "
    "StartTime=2026-01-01T00:22:34 EndTime=2026-01-01T00:25:20 NodeList=n[2,6,8] NodeCnt=3 ProcCnt=16 WorkDir=/tmp "
    "ReservationName= Tres=cpu=16,mem=1000M,node=1,billing=16 Account= QOS= WcKey= Cluster=unknown "
    "SubmitTime=2026-01-01T00:19:14 EligibleTime=2026-01-01T00:19:14 DerivedExitCode=0:0 ExitCode=0:0 \n"
)


def test_a_line(tmp_path: Path) -> None:
    path = tmp_path / "jobcomp.txt"
    path.write_text(LINE + "\n" + LINE.replace("StartTime=2026-01-01T00:22:34", "StartTime=Unknown"))
    first, second = read_jobcomp(path)
    assert (first.job_id, first.state, first.cores, first.nodes) == (7, "TIMEOUT", 16, "n[2,6,8]")
    assert first.start_s is not None
    assert (first.start_s - first.submit_s, first.end_s - first.start_s) == (200.0, 166.0)
    assert second.start_s is None


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("JobState=TIMEOUT ", "", r"jobcomp\.txt:1: has no JobState="),
        ("StartTime=2026-01-01T00:22:34", "StartTime=2026-13-01T00:22:34", "expected a date such as"),
        ("SubmitTime=2026-01-01T00:19:14", "SubmitTime=Unknown", "SubmitTime or EndTime is not a date"),
        ("ProcCnt=16", "ProcCnt=-1", "holds '-1', expected a whole number"),
    ],
)
def test_lines_that_are_none(tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = tmp_path / "jobcomp.txt"
    path.write_text(LINE.replace(old, new))
    with pytest.raises(ReadError, match=problem):
        read_jobcomp(path)


@pytest.mark.skipif(not RECORDED.is_dir(), reason="needs the recorded runs in ../shared/slurm")
@pytest.mark.parametrize("name", ["plain-101", "partitions-201", "mixed-301", "mixed-302"])
def test_recorded_runs(name: str) -> None:
    """All that was submitted has ended, in the order of the dates, and nobody started before the submission."""
    asked = json.loads((RECORDED / name / "jobs.json").read_text())["jobs"]
    found = read_jobcomp(RECORDED / name / "jobcomp.txt")
    ends = [one.end_s for one in found]
    assert ends == sorted(ends)
    assert {one["id"] for one in asked if "id" in one} <= {one.job_id for one in found}
    for one in found:
        assert one.start_s is None or one.submit_s <= one.start_s <= one.end_s

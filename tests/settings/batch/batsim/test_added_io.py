"""Transfers that a scheduler adds to a job as it starts it (``additional_io_job``)."""

import json
from pathlib import Path
from typing import Any

import pytest

from hdrl.base.errors import BatsimError
from hdrl.batsim.exact import BatsimOptions, ExactBatsim

from .conversations import Scripted

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="main" routing="Full">
  <host id="master_host" speed="1Gf"/><host id="a" speed="100Mf"/><host id="b" speed="100Mf"/>
  <host id="disk" speed="1Gf"><prop id="role" value="storage"/></host>
  <link id="net" bandwidth="100MBps" latency="0s"/>
  <link id="bus" bandwidth="10MBps" latency="0s"/>
  <route src="master_host" dst="a"><link_ctn id="net"/></route>
  <route src="master_host" dst="b"><link_ctn id="net"/></route>
  <route src="master_host" dst="disk"><link_ctn id="net"/></route>
  <route src="a" dst="b"><link_ctn id="net"/></route>
  <route src="a" dst="disk"><link_ctn id="bus"/></route>
  <route src="b" dst="disk"><link_ctn id="bus"/></route>
</zone></platform>
"""
PROFILES: dict[str, Any] = {
    "work": {"type": "parallel_homogeneous", "cpu": 1e8, "com": 0},
    "alone": {"type": "parallel", "cpu": [1e8], "com": [0]},
    "wait": {"type": "delay", "delay": 3},
    "steps": {"type": "composed", "seq": ["work", "wait", "work"], "repeat": 2},
    "stage": {"type": "data_staging", "from": "disk", "to": "disk", "nb_bytes": 1},
    "read": {"type": "parallel", "cpu": [0, 0, 0], "com": [0, 0, 0, 0, 0, 0, 5e7, 2e7, 0]},
    "write": {"type": "parallel", "cpu": [0, 0, 0], "com": [0, 0, 4e7, 0, 0, 0, 0, 0, 0]},
    "heavy": {"type": "parallel", "cpu": [2e8, 0, 0], "com": [0] * 9},
    "on_disk": {"type": "parallel", "cpu": [0, 0, 1e8], "com": [0] * 9},
    "io_steps": {"type": "composed", "seq": ["read", "read", "write"]},
    "too_few": {"type": "composed", "seq": ["read"]},
}
"""The bus gives 10 MB/s: 7 s to read 50 and 20 MB, 4 s to write 40 MB; computing takes 1 s alone."""


def _run(folder: Path, profile: str, io: dict[str, Any], *, res: int = 2, alloc: str = "0-1") -> list[str]:
    """Simulate one job with transfers added to it; return the columns of its row."""
    (folder / "platform.xml").write_text(PLATFORM)
    jobs = [{"id": "j", "subtime": 1, "res": res, "profile": profile}]
    # a profile that is not used would be forgotten
    jobs += [{"id": f"late_{name}", "subtime": 1e6, "res": 1, "profile": name} for name in PROFILES]
    (folder / "workload.json").write_text(json.dumps({"nb_res": 2, "jobs": jobs, "profiles": PROFILES}))

    def decide(message: dict[str, Any]) -> list[dict[str, Any]]:
        told = [event["data"]["job_id"] for event in message["events"] if event["type"] == "JOB_SUBMITTED"]
        start = {"job_id": "w0!j", "alloc": alloc, "additional_io_job": io}
        late = [{"type": "REJECT_JOB", "data": {"job_id": job}} for job in told if "late" in job]
        return [{"type": "EXECUTE_JOB", "data": start}] if "w0!j" in told else late

    options = BatsimOptions(platform=folder / "platform.xml", workloads=(folder / "workload.json",))
    return ExactBatsim(options).run(Scripted(decide)).outputs.jobs[0].split(",")


@pytest.mark.parametrize(
    ("profile", "io", "run_s"),
    [
        ("work", "read", 7),
        ("work", "write", 4),
        # both compute on the first host: one task of 3 s
        ("work", "heavy", 3),
        # reads with the first part, waits 3 s without the second, writes with the third; twice
        ("steps", "io_steps", 2 * (7 + 3 + 4)),
        ("wait", "read", 3),
    ],
)
def test_a_job_takes_as_long_as_its_slower_side(tmp_path: Path, profile: str, io: str, run_s: float) -> None:
    row = _run(tmp_path, profile, {"alloc": "0-2", "profile_name": io})
    assert float(row[9]) == pytest.approx(run_s, abs=1e-6)
    assert row[14] == "0-1"


def test_the_profile_may_come_with_the_request(tmp_path: Path) -> None:
    """Host b alone computes; from the disk, a third party, to host a flow 30 MB."""
    io = {"type": "parallel", "cpu": [0, 0], "com": [0, 0, 3e7, 0]}
    row = _run(tmp_path, "alone", {"alloc": "0 2", "profile_name": "new", "profile": io}, res=1, alloc="1")
    assert (row[9], row[14]) == ("3.000000", "1")


def test_one_machine_only_computes(tmp_path: Path) -> None:
    io = {"type": "parallel", "cpu": [1e8], "com": [5e9]}
    row = _run(tmp_path, "alone", {"alloc": "0", "profile_name": "new", "profile": io}, res=1, alloc="0")
    assert row[9] == "2.000000"


@pytest.mark.parametrize(
    ("profile", "io", "problem"),
    [
        ("work", {"profile_name": "raed"}, "profile 'raed' does not exist; did you mean 'read'"),
        ("work", {"profile_name": "read", "profile": PROFILES["read"]}, "profile 'read' exists already"),
        ("work", {"profile_name": "new", "profile": {"type": "parallel"}}, "profile 'new': 'cpu' is None"),
        ("work", {"profile_name": "new", "profile": 3}, "'profile' is '3', expected an object"),
        ("work", {"alloc": "0-1", "profile_name": "read"}, "has 2 executors, its profile 'read' is for 3"),
        ("work", {"alloc": "0-9", "profile_name": "read"}, "machine 9 does not exist"),
        ("work", {"profile_name": "io_steps"}, "must both be composed or neither"),
        ("steps", {"profile_name": "read"}, "must both be composed or neither"),
        ("steps", {"profile_name": "too_few"}, "has 1 parts, the job's profile 'steps' has 3"),
        ("work", {"profile_name": "stage"}, "of type 'data_staging', expected parallel"),
        ("work", {"profile_name": "on_disk"}, "flop on machine 2 (disk), which is a storage host"),
    ],
)
def test_what_cannot_be_merged(tmp_path: Path, profile: str, io: dict[str, Any], problem: str) -> None:
    with pytest.raises(BatsimError) as caught:
        _run(tmp_path, profile, {"alloc": "0-2"} | io)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_jobs_do_not_compute_on_storage_hosts(tmp_path: Path) -> None:
    with pytest.raises(BatsimError, match=r"1e\+08 flop on machine 2 \(disk\), which is a storage host"):
        _run(tmp_path, "work", {"alloc": "0-2", "profile_name": "read"}, alloc="1-2")

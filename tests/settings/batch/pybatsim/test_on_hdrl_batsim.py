"""PyBatsim's schedulers that need all of Batsim, on the engine behind ``hdrl-batsim``; small worlds solved by hand."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hdrl.batsim.exact import BatsimOptions, ExactBatsim, Result
from hdrl.batsim.pybatsim import HostedScheduler

pytest.importorskip("batsim", reason="PyBatsim is not installed")

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="main" routing="Full">
  <host id="master_host" speed="1Gf"><prop id="wattage_per_state" value="0:0"/></host>
  {hosts}
  <host id="pfs" speed="1Gf"><prop id="role" value="{role}"/><prop id="wattage_per_state" value="0:0"/></host>
  <link id="link" bandwidth="100MBps" latency="0s"/>
  {routes}
</zone></platform>
"""
PLAIN = """<host id="h{k}" speed="100Mf"><prop id="wattage_per_state" value="1:2"/></host>"""
SLEEPER = """<host id="h{k}" speed="100Mf, 75Mf, 50Mf, 1f, 0.5f, 0.25f">
  <prop id="wattage_per_state" value="95:190, 93:170, 90:150, 9:9, 120:120, 110:110"/>
  <prop id="sleep_pstates" value="3:4:5"/></host>"""
ROUTE = """<route src="{a}" dst="{b}"><link_ctn id="link"/></route>"""
N_HOSTS = 4


def _run(
    folder: Path,
    scheduler: str | Path,
    jobs: list[dict[str, Any]],
    profiles: dict[str, Any],
    *,
    host: str = PLAIN,
    role: str = "storage",
    options: Mapping[str, Any] | None = None,
    **batsim: bool,
) -> tuple[Result, dict[str, list[str]]]:
    """Simulate; return the result, and the columns of each job by its id."""
    names = ["master_host", *(f"h{k}" for k in range(N_HOSTS)), "pfs"]
    routes = [ROUTE.format(a=a, b=b) for k, a in enumerate(names) for b in names[k + 1 :]]
    hosts = [host.format(k=k) for k in range(N_HOSTS)]
    (folder / "platform.xml").write_text(PLATFORM.format(hosts="\n".join(hosts), role=role, routes="\n".join(routes)))
    (folder / "workload.json").write_text(json.dumps({"nb_res": N_HOSTS, "jobs": jobs, "profiles": profiles}))
    given = BatsimOptions(platform=folder / "platform.xml", workloads=(folder / "workload.json",), **batsim)
    with HostedScheduler(scheduler, options) as hosted:
        result = ExactBatsim(given).run(hosted)
    assert not result.deadlocked
    return result, {line.split(",")[0]: line.split(",") for line in result.outputs.jobs}


def _job(name: int, subtime: float, res: int, profile: str) -> dict[str, Any]:
    return {"id": name, "subtime": subtime, "res": res, "profile": profile}


def test_random_sched_shares_machines(tmp_path: Path):
    jobs = [_job(k, 1, N_HOSTS, "second") for k in range(3)]
    profiles = {"second": {"type": "parallel_homogeneous", "cpu": 1e8, "com": 0}}
    # it draws from storage hosts, too, on which jobs cannot compute; so there is none, but a faster machine
    _, rows = _run(tmp_path, "randomSched", jobs, profiles, role="compute_node", compute_sharing=True)
    assert {row[7] for row in rows.values()} == {"COMPLETED_SUCCESSFULLY"}
    assert {row[8] for row in rows.values()} == {"1.000000"}
    assert all(1 <= float(row[9]) <= 3 + 1e-6 for row in rows.values())


def test_send_recv_answers_jobs(tmp_path: Path):
    profiles = {
        "polite": {"type": "composed", "seq": ["ask", "hear"]},
        "rude": {"type": "composed", "seq": ["demand", "hear"]},
        "ask": {"type": "send", "msg": {"type": "accept"}},
        "demand": {"type": "send", "msg": {"type": "now"}},
        "hear": {"type": "recv", "regex": "accepted", "success": "long", "failure": "short", "polltime": 0.5},
        "long": {"type": "delay", "delay": 10},
        "short": {"type": "delay", "delay": 2},
    }
    _, rows = _run(tmp_path, "schedSendRecv", [_job(0, 1, 1, "polite"), _job(1, 1, 1, "rude")], profiles)
    assert [rows[name][9] for name in ("0", "1")] == ["10.000000", "2.000000"]


def test_bebida_adds_transfers_and_moves_jobs(tmp_path: Path):
    """Two jobs read 4 GB each over one link of 100 MB/s; the third starts on half of its hosts, and is moved.

    Both reads take 80 s, since they share the link. Then job 1 reads 1 MB and writes 1 GB while job 2 does the same,
    in 20.02 s. Now hosts are free: job 2 goes on, on all four, with its second part, which reads 4 GB in 40 s.
    """
    big, small = {"io_reads": 4e9, "io_writes": 0}, {"io_reads": 1e6, "io_writes": 1e9}
    total = {"type": "parallel_homogeneous_total", "cpu": 2e9, "com": 0}
    profiles = {
        "big": total | big,
        "small": total | small,
        "big_small": {"type": "composed", "seq": ["big", "small"]},
        "small_big": {"type": "composed", "seq": ["small", "big"]},
    }
    jobs = [_job(0, 1, 2, "big"), _job(1, 1, 2, "big_small"), _job(2, 2, 4, "small_big")]
    dynamic = {"dynamic_jobs": True, "acknowledge_dynamic_jobs": True, "forward_profiles": True}
    _, rows = _run(tmp_path, "schedBebida", jobs, profiles, options={"variant": "pfs"}, **dynamic)
    times = {name: (row[7], row[8], row[9], row[14]) for name, row in rows.items()}
    assert times == {
        "0": ("COMPLETED_SUCCESSFULLY", "1.000000", "80.000000", "0-1"),
        "1": ("COMPLETED_SUCCESSFULLY", "1.000000", "100.020000", "2-3"),
        "2": ("COMPLETED_KILLED", "81.000000", "20.020000", "0-1"),
        "2#1": ("COMPLETED_SUCCESSFULLY", "101.020000", "40.000000", "0-3"),
    }


class _RecordingNetwork:
    """A scheduler whose replies are kept."""

    def __init__(self, scheduler: HostedScheduler) -> None:
        self._scheduler = scheduler
        self.requests: list[dict[str, Any]] = []

    def exchange(self, message: str) -> str:
        reply = self._scheduler.exchange(message)
        self.requests += json.loads(reply)["events"]
        return reply


def test_bebida_keeps_blocks_on_the_disks_of_hosts(tmp_path: Path):
    """All that does not stay on its host or disk crosses one link of 100 MB/s, whichever blocks the scheduler draws."""
    names = ["master_host", *(f"h{k}" for k in range(N_HOSTS)), *(f"h{k}_disk" for k in range(N_HOSTS))]
    role = '<prop id="role" value="storage"/>'
    hosts = [f'<host id="{name}" speed="100Mf">{role if "disk" in name else ""}</host>' for name in names]
    routes = [ROUTE.format(a=a, b=b) for k, a in enumerate(names) for b in names[k + 1 :]]
    (tmp_path / "platform.xml").write_text(
        f'<platform version="4.1"><zone id="main">{"".join(hosts)}<link id="link" bandwidth="100MBps"/>'
        f"{''.join(routes)}</zone></platform>"
    )
    block = 128 * 2**20
    total = {"type": "parallel_homogeneous_total", "cpu": 1e8, "com": 0}
    profiles = {
        "read": total | {"io_reads": 10 * block, "io_writes": 0},
        "write": total | {"io_reads": 0, "io_writes": 3 * block - 1},
        "both": {"type": "composed", "seq": ["read", "write"], "input_size_in_GB": 1.25},
    }
    jobs = [_job(0, 1, 2, "both"), _job(1, 500, N_HOSTS, "both")]
    (tmp_path / "workload.json").write_text(json.dumps({"nb_res": N_HOSTS, "jobs": jobs, "profiles": profiles}))
    options = BatsimOptions(
        platform=tmp_path / "platform.xml",
        workloads=(tmp_path / "workload.json",),
        dynamic_jobs=True,
        acknowledge_dynamic_jobs=True,
        forward_profiles=True,
    )
    with HostedScheduler("schedBebida", {"variant": "dfs"}) as hosted:
        overheard = _RecordingNetwork(hosted)
        rows = [line.split(",") for line in ExactBatsim(options).run(overheard).outputs.jobs]
    assert [row[7] for row in rows] == ["COMPLETED_SUCCESSFULLY"] * 2
    for name, row in zip(("w0!0", "w0!1"), rows, strict=True):
        crossing = 0
        for request in overheard.requests:
            if request["type"] == "REGISTER_PROFILE" and request["data"]["profile_name"].startswith(f"{name}_io"):
                sizes = request["data"]["profile"]["com"]
                crossing += sum(sizes) - sum(sizes[:: round(len(sizes) ** 0.5) + 1])
        assert crossing >= 10 * block
        assert row[9] == f"{crossing / 1e8:.6f}"


def test_fcfs_sched_sleep_with_numbers_for_texts(tmp_path: Path):
    """Idle hosts are switched off in 2 s (1 flop at 0.5 flop/s) and back on in 4 s."""
    scheduler = tmp_path / "sleeper.py"
    scheduler.write_text(
        "from schedulers.fcfsSchedSleep import FcfsSchedSleep\n\n\n"
        "class Sleeper(FcfsSchedSleep):\n"
        "    def onAfterBatsimInit(self):\n"
        "        super().onAfterBatsimInit()\n"
        "        self.idle_machines.discard(4)  # the storage host\n\n"
        "    def onMachinePStateChanged(self, machines, new_pstate):\n"
        "        super().onMachinePStateChanged(machines, int(new_pstate))\n"
    )
    jobs = [_job(0, 1, 1, "ten"), _job(1, 50, N_HOSTS, "ten")]
    profiles = {"ten": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}}
    result, rows = _run(tmp_path, scheduler, jobs, profiles, host=SLEEPER, energy=True)
    assert [(row[8], row[9]) for row in rows.values()] == [("1.000000", "10.000000"), ("54.000000", "10.000000")]
    assert "50,0,-1" in result.outputs.pstate_changes
    assert "54,3,0" in result.outputs.pstate_changes

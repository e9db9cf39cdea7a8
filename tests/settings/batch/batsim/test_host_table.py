"""The table of hosts of ``hdrl-batsim``: a night of one machine by hand, and that writing it changes nothing else."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from hdrl.batsim.exact import BatsimOptions, ExactBatsim

from .conversations import WORLDS, Replay, Scripted, compare_files, options_of

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="main" routing="Full">
  <host id="master_host" speed="1Gf"><prop id="wattage_per_state" value="0:0"/></host>
  <host id="sleeper" speed="100Mf, 1f, 0.5f, 0.25f"><prop id="sleep_pstates" value="1:2:3"/>
    <prop id="wattage_per_state" value="95:190, 9:9, 120:120, 110:110"/></host>
  <link id="net" bandwidth="1GBps" latency="0s"/>
  <route src="master_host" dst="sleeper"><link_ctn id="net"/></route>
</zone></platform>
"""
JOBS = [{"id": k, "subtime": 10 + 10 * k, "res": 1, "profile": "work"} for k in range(2)]
PROFILES = {"work": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}}


def _to_sleep_and_back(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Send the machine to sleep when the first job comes, wake it for the second, run the second."""
    requests = []
    for event in message["events"]:
        data = event["data"]
        if event["type"] == "JOB_SUBMITTED":
            if data["job_id"] == "w0!0":
                requests.append({"type": "REJECT_JOB", "data": {"job_id": "w0!0"}})
            state = "1" if data["job_id"] == "w0!0" else "0"
            requests.append({"type": "SET_RESOURCE_STATE", "data": {"resources": "0", "state": state}})
        elif event["type"] == "RESOURCE_STATE_CHANGED" and data["state"] == "0":
            requests.append({"type": "EXECUTE_JOB", "data": {"job_id": "w0!1", "alloc": "0"}})
    return requests


def test_a_night_of_a_machine(tmp_path: Path) -> None:
    """Idle 10 s at 95 W, off in 2 s at 120 W, asleep 8 s at 9 W, on in 4 s at 110 W, computing 10 s at 190 W."""
    (tmp_path / "platform.xml").write_text(PLATFORM)
    (tmp_path / "workload.json").write_text(json.dumps({"nb_res": 1, "jobs": JOBS, "profiles": PROFILES}))
    files = {"platform": tmp_path / "platform.xml", "workloads": (tmp_path / "workload.json",)}
    result = ExactBatsim(BatsimOptions(**files, energy=True, host_table=True)).run(Scripted(_to_sleep_and_back))
    assert result.hosts is not None
    header, row = (line.split(",") for line in result.hosts.splitlines())
    values = dict(zip(header, row, strict=True))
    assert (values.pop("machine_id"), values.pop("machine_name"), values.pop("nb_switches")) == ("0", "sleeper", "2")
    wasted_j = 10 * 95 + 2 * 120 + 4 * 110
    assert {name: float(text) for name, text in values.items()} == pytest.approx(
        {
            "time_computing": 10,
            "time_idle": 10,
            "time_sleeping": 8,
            "time_switching_off": 2,
            "time_switching_on": 4,
            "time_unavailable": 0,
            "consumed_joules": wasted_j + 8 * 9 + 10 * 190,
            "energy_waste": wasted_j,
        },
        abs=1e-5,
    )


@pytest.mark.parametrize("world", ["kills", "speed_change"])
def test_the_table_changes_nothing_else(world: str, tmp_path: Path) -> None:
    options = dataclasses.replace(options_of(WORLDS / world), host_table=True)
    result = ExactBatsim(options).run(Replay(WORLDS / world))
    compare_files(WORLDS / world, result)
    paths = result.outputs.write(str(tmp_path / "out"), result.schedule, hosts=result.hosts)
    text = next(path for path in paths if path.name == "out_hosts.csv").read_text()
    assert text == result.hosts
    energies = [line.split(",")[-3] for line in text.splitlines()[1:]]
    assert all(energies) if options.energy else not any(energies)

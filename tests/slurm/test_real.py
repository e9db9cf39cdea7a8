"""A real Slurm on this host, at a high speed and with short jobs."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hdrl.base.errors import SimulationError
from hdrl.batch import Trace, read_platform, simulate
from hdrl.settings.batch.simulation.trace import JobState
from hdrl.settings.batch.simulators import SlurmSettings
from hdrl.settings.batch.site_rules.model import SiteJobs, undemanding_jobs
from hdrl.slurm import cluster
from hdrl.slurm.recorded import read_run
from hdrl.testing import Job, Node, Processor, small_platform, small_workload

from .test_failures import command_lines
from .test_rules import site_platform

SPEED = 100.0
"""Faster than measurements go: what is looked at here does not depend on a few seconds."""


@pytest.fixture(autouse=True)
def _needs_slurm() -> None:
    try:
        cluster.find_commands()
    except SimulationError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


def settings(**changes: float) -> SlurmSettings:
    return SlurmSettings(**({"speed": SPEED, "max_overhead_s": 120.0} | changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Return what became of six jobs: on cores of 2 and of 4 Gflop/s, one too long, one that fails."""
    platform = small_platform(Node((Processor(4, 2.0),)), Node((Processor(8, 4.0),)))
    hour = {"requested_time_s": 3600.0, "walltime_s": 3600.0}
    workload = small_workload(
        Job(0.0, 12, gflop=400.0, **hour),
        Job(1.0, 8, gflop=400.0, **hour),
        Job(2.0, 8, gflop=400.0, **hour),
        Job(100.0, 4, gflop=2000.0, requested_time_s=60.0, walltime_s=60.0),
        Job(101.0, 1, steps=((0, 30.0, 0), (3, 0.0, 7)), **hour),  # type: ignore[arg-type]
        Job(102.0, 1, gflop=1.0, **hour),
    )
    folder = tmp_path_factory.mktemp("run")
    found = simulate(platform, workload, "slurm", simulator="slurm", slurm=settings(), folder=folder)
    assert {path.name for path in (folder / "slurm").iterdir()} == {"jobs.json", "jobcomp.txt", "slurm.conf"}
    return found


def test_states_and_times(trace: Trace) -> None:
    records = trace.records
    assert [JobState(state).name.removeprefix("COMPLETED_") for state in records["state"].tolist()] == [
        *["SUCCESSFULLY"] * 3,
        *("WALLTIME_REACHED", "FAILED", "SUCCESSFULLY"),
    ]
    assert records["return_code"].tolist() == [0, 0, 0, 0, 7, 0]
    # The first takes both nodes, so that the slower one sets its pace; the others wait for it.
    mean_s = float(trace.info["slurm_overhead_s"])
    assert 200.0 <= records["run_s"][0] <= 200.0 + 10 * max(mean_s, 2.0)
    assert records["run_s"][3] >= 60.0
    end_s = records["start_s"] + records["run_s"]
    assert records["start_s"][1:3].min() >= end_s[0]
    assert trace.end_s == end_s.max()


def test_no_core_has_two_jobs(trace: Trace) -> None:
    records = trace.records
    end_s = records["start_s"] + records["run_s"]
    assert records["n_cores"].tolist() == trace.workload.jobs["cores"].tolist()
    assert trace.machine_states["computing"].max() <= trace.platform.n_cores
    for one in range(len(records)):
        for other in range(one):
            overlap_s = min(end_s[one], end_s[other]) - max(records["start_s"][one], records["start_s"][other])
            assert overlap_s <= 0 or not set(trace.cores_of(one)) & set(trace.cores_of(other))


def test_jobs_stay_in_their_partitions() -> None:
    asked = undemanding_jobs(3)
    asked["partitions"] = 2, 0, 2
    jobs = [Job(float(at), 4, gflop=100.0, requested_time_s=300.0) for at in range(3)]
    workload = replace(small_workload(*jobs), site=SiteJobs(jobs=asked))
    found = simulate(site_platform(), workload, "slurm", simulator="slurm", slurm=settings())
    # Those in 'short' share the first node, one after the other; the default partition has the others, too.
    assert [found.cores_of(job).tolist() for job in (0, 2)] == [list(range(4))] * 2
    assert found.records["start_s"][2] >= found.records["start_s"][0] + found.records["run_s"][0]
    assert min(found.cores_of(1)) >= 4


def test_the_components_of_a_het_job_start_together(tmp_path: Path) -> None:
    asked = undemanding_jobs(4)
    asked["partitions"], asked["het_group"] = (2, 0, 0, 2), (-1, 5, -1, 5)
    jobs = [Job(at, 4, gflop=60.0, requested_time_s=300.0) for at in (0.0, 1.0, 1.0, 1.0)]
    workload = replace(small_workload(*jobs), site=SiteJobs(jobs=asked))
    found = simulate(site_platform(), workload, "slurm", simulator="slurm", slurm=settings(), folder=tmp_path)
    # The other component waits for the node of the first job, too.
    start_s = found.records["start_s"]
    assert start_s[1] == start_s[3] >= start_s[0] + found.records["run_s"][0]
    assert found.records["n_cores"].tolist() == [4] * 4
    assert found.cores_of(3).tolist() == list(range(4))
    site = read_run(tmp_path).workload.site
    assert site is not None
    assert [sorted(site.jobs["het_group"].tolist()), start_s[1] == start_s[3]] == [[-1, -1, 1, 1], True]


@pytest.mark.parametrize(("policy", "lua"), [("slurm", True), ("sjf", True), ("sjf", False)])
def test_a_deployed_policy_orders_the_queue(tmp_path: Path, policy: str, *, lua: bool) -> None:
    jobs = [Job(0.0, 4, gflop=400.0, requested_time_s=900.0)]
    jobs += [Job(10.0 + n, 4, gflop=60.0, requested_time_s=60.0 * minutes) for n, minutes in enumerate((30, 20, 10))]
    found = simulate(
        read_platform("homogeneous:4"),
        small_workload(*jobs),
        policy,
        simulator="slurm",
        slurm=SlurmSettings(speed=SPEED, max_overhead_s=120.0, lua=lua),
        folder=tmp_path,
    )
    order = np.argsort(found.records["start_s"]).tolist()
    assert order == ([0, 1, 2, 3] if policy == "slurm" else [0, 3, 2, 1])
    assert found.info["policy"] == policy
    log = tmp_path / "slurm" / "decisions.jsonl"
    assert log.exists() == (policy != "slurm")
    if policy != "slurm":
        looks = [json.loads(line) for line in log.read_text().splitlines()]
        assert all(one["acts"] and not one["problems"] for one in looks)
        assert set().union(*(one["factors"] for one in looks)) == {"2", "3", "4"}
    assert read_run(tmp_path).policy == policy


def test_a_port_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(cluster, "_free_ports", lambda number: [port] * number)
        with pytest.raises(
            SimulationError, match=r"Slurm: port \d+ of 127\.0\.0\.1 is not free: Address already in use"
        ) as caught:
            run_one_job()
    assert len(str(caught.value).splitlines()) == 1


def run_one_job() -> None:
    simulate(
        read_platform("homogeneous:4"),
        small_workload(Job(0.0, 2, gflop=3600.0)),
        "slurm",
        simulator="slurm",
        slurm=settings(),
    )


def test_a_slow_host_is_refused() -> None:
    with pytest.raises(SimulationError, match=r"took .* simulated s a job on this host, more than 0\.001 s"):
        simulate(
            read_platform("homogeneous:4"),
            small_workload(Job(0.0, 2, gflop=10.0)),
            "slurm",
            simulator="slurm",
            slurm=settings(max_overhead_s=0.001),
        )


KILLED = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from hdrl.batch import read_platform, simulate
from hdrl.settings.batch.simulators import SlurmSettings
from hdrl.testing import Job, small_workload
workload = small_workload(Job(0.0, 2, gflop=36000.0))
simulate(read_platform("homogeneous:4"), workload, "slurm", simulator="slurm", slurm=SlurmSettings(speed=100.0))
"""


def test_daemons_listen_on_the_loopback_interface_alone_and_end_with_a_run_that_is_killed() -> None:
    tmp_path = Path(tempfile.mkdtemp(prefix="killed-"))
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)]) as process:
        wait_until(lambda: list(tmp_path.glob("*/ran/0")))
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert_listens_on_loopback(set(map(int, re.findall(r"Port=(\d+)", (folder / "slurm.conf").read_text()))))
        assert any("slurm_script" in one and str(tmp_path) in one for one in command_lines())
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(str(tmp_path) in one for one in command_lines()))
    wait_until(lambda: list(tmp_path.iterdir()) == [])
    tmp_path.rmdir()


def test_a_path_that_is_too_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(SimulationError, match="is too long a path for the sockets of slurmd; set TMPDIR to"):
        run_one_job()
    assert list(deep.iterdir()) == []


def assert_listens_on_loopback(ports: set[int]) -> None:
    """Check that these ports, and no others of the same numbers, are open on 127.0.0.1 alone."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [row[1].split(":") for row in rows if row[3] == "0A"]
    found = {(address, int(port, 16)) for address, port in listening if int(port, 16) in ports}
    assert found == {("0100007F", port) for port in ports}


def wait_until(condition) -> None:  # type: ignore[no-untyped-def]
    deadline_s = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)

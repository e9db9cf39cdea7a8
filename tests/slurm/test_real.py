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
from hdrl.batch import BatchTrace, read_platform, simulate
from hdrl.settings.batch.simulation.trace import JobState
from hdrl.settings.batch.simulators import SlurmSettings
from hdrl.settings.batch.site_rules.model import SiteJobs, undemanding_jobs
from hdrl.slurm import cluster
from hdrl.slurm.recorded import read_run
from hdrl.testing import JobSpec, Node, Processor, small_platform, small_workload

from .test_failures import command_lines
from .test_rules import depends, outage, rules, site_platform, window

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
def trace(tmp_path_factory: pytest.TempPathFactory) -> BatchTrace:
    """Return what became of six jobs: on cores of 2 and of 4 Gflop/s, one too long, one that fails."""
    platform = small_platform(Node((Processor(4, 2.0),)), Node((Processor(8, 4.0),)))
    hour = {"requested_time_s": 3600.0, "walltime_s": 3600.0}
    workload = small_workload(
        JobSpec(0.0, 12, gflop=400.0, **hour),
        JobSpec(1.0, 8, gflop=400.0, **hour),
        JobSpec(2.0, 8, gflop=400.0, **hour),
        JobSpec(100.0, 4, gflop=2000.0, requested_time_s=60.0, walltime_s=60.0),
        JobSpec(101.0, 1, steps=((0, 30.0, 0), (3, 0.0, 7)), **hour),  # type: ignore[arg-type]
        JobSpec(102.0, 1, gflop=1.0, **hour),
    )
    folder = tmp_path_factory.mktemp("run")
    found = simulate(platform, workload, "slurm", simulator="slurm", slurm=settings(), folder=folder)
    names = {path.name for path in (folder / "slurm").iterdir()}
    assert names == {"jobs.json", "jobcomp.txt", "slurm.conf", "cycles.json"}
    cycles_s = np.array(json.loads((folder / "slurm" / "cycles.json").read_text()))
    assert np.all(np.diff(cycles_s) > 1)
    assert 0 <= cycles_s[0] <= cycles_s[-1] < found.end_s + 100.0
    return found


def test_states_and_times(trace: BatchTrace) -> None:
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


def test_no_core_has_two_jobs(trace: BatchTrace) -> None:
    records = trace.records
    end_s = records["start_s"] + records["run_s"]
    assert records["n_cores"].tolist() == trace.workload.jobs["cores"].tolist()
    assert trace.machine_states["computing"].max() <= trace.platform.n_cores
    for one in range(len(records)):
        for other in range(one):
            overlap_s = min(end_s[one], end_s[other]) - max(records["start_s"][one], records["start_s"][other])
            assert overlap_s <= 0 or not set(trace.cores_of(one)) & set(trace.cores_of(other))


def test_the_rules_of_a_site(tmp_path: Path) -> None:
    minute = {"requested_time_s": 60.0}
    jobs = {
        "first": JobSpec(0.0, 4, gflop=50.0, **minute),
        "if it ends well": JobSpec(1.0, 4, gflop=20.0, **minute),
        "if it fails": JobSpec(2.0, 4, gflop=20.0, **minute),
        "after a date": JobSpec(3.0, 1, gflop=20.0, **minute),
        "once released": JobSpec(4.0, 1, gflop=20.0, **minute),
        "cancelled": JobSpec(5.0, 1, gflop=400.0, **minute),
        "cancelled while held": JobSpec(6.0, 1, gflop=20.0, **minute),
        "task 0": JobSpec(7.0, 1, gflop=20.0, **minute),
        "task 1": JobSpec(7.0, 1, gflop=30.0, **minute),
        "task 2": JobSpec(7.0, 1, gflop=20.0, **minute),
        "after one of its name": JobSpec(8.0, 1, gflop=20.0, **minute),
        "a minute after a start": JobSpec(9.0, 1, gflop=20.0, **minute),
        "in vain, task 0": JobSpec(10.0, 1, gflop=20.0, **minute),
        "in vain, task 1": JobSpec(10.0, 1, gflop=20.0, **minute),
        "on two nodes": JobSpec(11.0, 2, gflop=20.0, **minute),
        "on whole nodes": JobSpec(12.0, 2, gflop=20.0, **minute),
        "short": JobSpec(13.0, 1, gflop=20.0, **minute),
        "short, once a reservation is over": JobSpec(14.0, 1, gflop=20.0, requested_time_s=300.0),
        "on a drained node": JobSpec(32.0, 1, gflop=20.0, **minute),
        "on a node that fails": JobSpec(60.0, 1, gflop=60.0, **minute),
    }
    number = {name: position for position, name in enumerate(jobs)}
    asked = undemanding_jobs(len(jobs))
    for name, column, value in (
        ("after a date", "begin_s", 60.0),
        ("once released", "held_until_s", 70.0),
        ("cancelled", "cancelled_s", 90.0),
        ("cancelled while held", "held_until_s", 900.0),
        ("cancelled while held", "cancelled_s", 80.0),
        *((f"task {task}", column, 2) for task in range(3) for column in ("array", "array_limit")),
        *((f"in vain, task {task}", "array", 3) for task in range(2)),
        ("on two nodes", "nodes", 2),
        ("on whole nodes", "is_exclusive", 1),
        ("short", "partitions", 2),
        ("cancelled", "partitions", 2),
        ("short, once a reservation is over", "partitions", 2),
        ("on a drained node", "features", 1),
        ("on a node that fails", "features", 2),
    ):
        asked[column][number[name]] = value
    dependencies = [
        (number[one], number[on], kind, delay_s)
        for one, on, kind, delay_s in (
            ("if it ends well", "first", 1, 0.0),
            ("if it fails", "first", 3, 0.0),
            ("after one of its name", "cancelled", 4, 0.0),
            ("a minute after a start", "after a date", 0, 60.0),
            ("in vain, task 0", "cancelled while held", 1, 0.0),
            ("in vain, task 1", "cancelled while held", 1, 0.0),
        )
    ]
    nodes = rules().nodes.copy()
    nodes["features"], nodes["weight"] = (0, 1, 2), (1, 1, 9)
    platform = site_platform(
        nodes=nodes,
        feature_names=("mid", "big"),
        reservations=window(150.0, 210.0),
        reservation_nodes=np.array([[True, False, False]]),
        outages=np.concatenate([outage(1, 30.0, 120.0, is_drain=True), outage(2, 85.0, 100.0)]),
    )
    workload = replace(
        small_workload(*jobs.values()), site=SiteJobs(jobs=asked, dependencies=depends(*dependencies), origin_s=0.0)
    )
    found = simulate(platform, workload, "slurm", simulator="slurm", slurm=settings(), folder=tmp_path, energy=False)
    start_s = dict(zip(jobs, found.records["start_s"].tolist(), strict=True))
    end_s = dict(zip(jobs, (found.records["start_s"] + found.records["run_s"]).tolist(), strict=True))
    nodes_of = {name: {core // 4 for core in found.cores_of(position).tolist()} for name, position in number.items()}
    never = {name for name, position in number.items() if found.records["state"][position] == JobState.REJECTED}
    assert never == {"if it fails", "cancelled while held", "in vain, task 0", "in vain, task 1"}
    assert all(start_s[name] == -1 and not nodes_of[name] for name in never)
    assert start_s["if it ends well"] >= end_s["first"]
    assert start_s["after a date"] >= 60
    assert start_s["once released"] >= 70
    assert found.records["state"][number["cancelled"]] == JobState.COMPLETED_KILLED
    assert 90 <= end_s["cancelled"] <= start_s["after one of its name"]
    assert start_s["task 2"] >= min(end_s["task 0"], end_s["task 1"])
    assert start_s["a minute after a start"] >= start_s["after a date"] + 60
    assert len(nodes_of["on two nodes"]) == 2
    assert found.records["n_cores"][number["on whole nodes"]] == 4
    assert nodes_of["short"] == nodes_of["short, once a reservation is over"] == {0}
    assert start_s["short"] < 150
    assert start_s["short, once a reservation is over"] >= 210
    assert nodes_of["on a drained node"] == {1}
    assert start_s["on a drained node"] >= 120
    # Its node failed, so that it began anew, once it was there again.
    assert nodes_of["on a node that fails"] == {2}
    assert start_s["on a node that fails"] >= 100
    check_recorded(tmp_path, jobs, found)


def check_recorded(folder: Path, jobs: dict[str, JobSpec], found: BatchTrace) -> None:
    """Check that what is recorded says what was asked for and what happened."""
    run = read_run(folder)
    # The tasks of an array are side by side here, so that jobs are in the same order.
    np.testing.assert_array_equal(np.isnan(run.start_s), found.records["start_s"] < 0)
    np.testing.assert_allclose(
        run.start_s - run.t0_s, np.where(np.isnan(run.start_s), np.nan, found.records["start_s"])
    )
    site, rules_of_run = run.workload.site, run.platform.site
    assert site is not None
    assert rules_of_run is not None
    asked = dict(zip(jobs, site.jobs, strict=True))
    assert asked["after a date"]["begin_s"] - run.t0_s == pytest.approx(60.0, abs=20.0)
    assert 70 <= asked["once released"]["held_until_s"] - run.t0_s <= 120
    assert 90 <= asked["cancelled"]["cancelled_s"] - run.t0_s <= 150
    assert np.isfinite(asked["in vain, task 0"]["cancelled_s"])
    assert asked["task 1"]["array"] == asked["task 2"]["array"] != asked["in vain, task 0"]["array"]
    assert (asked["task 1"]["array_limit"], asked["on two nodes"]["nodes"]) == (2, 2)
    assert asked["on whole nodes"]["is_exclusive"] == 1
    assert len(site.dependencies) == 6
    assert rules_of_run.feature_names == ("mid", "big")
    assert (rules_of_run.reservations["start_s"] - site.origin_s - run.t0_s).tolist() == [150.0]
    assert sorted(rules_of_run.outages["is_drain"].tolist()) == [0, 1]


def test_the_components_of_a_het_job_start_together(tmp_path: Path) -> None:
    asked = undemanding_jobs(4)
    asked["partitions"], asked["het_group"] = (2, 0, 0, 2), (-1, 5, -1, 5)
    jobs = [JobSpec(at, 4, gflop=60.0, requested_time_s=300.0) for at in (0.0, 1.0, 1.0, 1.0)]
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
    jobs = [JobSpec(0.0, 4, gflop=400.0, requested_time_s=900.0)]
    jobs += [
        JobSpec(10.0 + n, 4, gflop=60.0, requested_time_s=60.0 * minutes) for n, minutes in enumerate((30, 20, 10))
    ]
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
        small_workload(JobSpec(0.0, 2, gflop=3600.0)),
        "slurm",
        simulator="slurm",
        slurm=settings(),
    )


def test_a_slow_host_is_refused() -> None:
    with pytest.raises(SimulationError, match=r"took .* simulated s a job on this host, more than 0\.001 s"):
        simulate(
            read_platform("homogeneous:4"),
            small_workload(JobSpec(0.0, 2, gflop=10.0)),
            "slurm",
            simulator="slurm",
            slurm=settings(max_overhead_s=0.001),
        )


KILLED = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from hdrl.batch import read_platform, simulate
from hdrl.settings.batch.simulators import SlurmSettings
from hdrl.testing import JobSpec, small_workload
workload = small_workload(JobSpec(0.0, 2, gflop=36000.0))
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

"""The machine that a real Slurm is given, its configuration, and the lines that an administrator adds."""

import re
from pathlib import Path

import pytest

from hdrl.base.errors import PlatformError, ReadError
from hdrl.batch import read_platform
from hdrl.slurm.conf import scheduling_lines, slurm_conf, without_paths
from hdrl.slurm.machine import machine_of
from hdrl.testing import JobSpec, Node, Processor, small_platform, small_workload

PLAIN = small_workload(JobSpec(0.0, 1))


def node(cores: int, gflops: float, memory_gb: float = 64.0) -> Node:
    return Node((Processor(cores, gflops),), memory_gb)


def test_every_node_has_a_daemon_where_there_are_enough() -> None:
    machine = machine_of(small_platform(node(4, 3.0), node(8, 2.0), node(8, 2.0)), PLAIN, max_nodes=8)
    assert [(one.name, one.kind, one.cores.tolist()) for one in machine.nodes] == [
        ("k0n1", 0, list(range(4, 12))),
        ("k0n2", 0, list(range(12, 20))),
        ("k1n1", 1, list(range(4))),
    ]
    assert machine.speeds_flops == (2e9, 3e9)
    assert not machine.counts_memory


@pytest.mark.parametrize(("name", "daemons"), [("gaia", 8), ("mc2", 21), ("homogeneous:10000", 8)])
def test_large_machines_keep_every_core_on_few_daemons(name: str, daemons: int) -> None:
    platform = read_platform(name)
    machine = machine_of(platform, PLAIN, max_nodes=daemons)
    assert len(machine.nodes) <= daemons
    cores = [core for one in machine.nodes for core in one.cores.tolist()]
    assert sorted(cores) == list(range(platform.n_cores))
    for one in machine.nodes:
        assert set(platform.speed_flops[one.cores, 0]) == {machine.speeds_flops[one.kind]}


def test_a_machine_that_does_not_say_its_nodes_gets_some() -> None:
    machine = machine_of(read_platform("homogeneous:20"), PLAIN, max_nodes=8)
    assert [len(one.cores) for one in machine.nodes] == [3, 3, 3, 3, 2, 2, 2, 2]


def test_memory_counts_where_it_can_run_short() -> None:
    platform = small_platform(*[node(4, 1.0, memory_gb=4.0)] * 3)
    hungry = small_workload(JobSpec(0.0, 1, memory_mib=2000.0))
    assert machine_of(platform, hungry, max_nodes=3).counts_memory
    with pytest.raises(
        PlatformError, match=r"run short of memory on its 3 nodes, and slurm\.daemons allows 2; raise it"
    ):
        machine_of(platform, hungry, max_nodes=2)


def test_machines_that_slurm_cannot_simulate() -> None:
    mixed = small_platform(Node((Processor(2, 1.0), Processor(2, 3.0))), node(1, 1.0))
    with pytest.raises(PlatformError, match="node 0 has cores of different speeds"):
        machine_of(mixed, PLAIN, max_nodes=8)
    two_kinds = small_platform(node(4, 3.0), node(8, 2.0))
    with pytest.raises(
        PlatformError, match=r"has 2 kinds of nodes, and each needs a daemon; raise slurm\.daemons from 1"
    ):
        machine_of(two_kinds, PLAIN, max_nodes=1)
    busy = small_workload(JobSpec(0.0, 1, bandwidth_gbps=1e6))
    with pytest.raises(PlatformError, match=r"--set workload\.bandwidth=none"):
        machine_of(two_kinds, busy, max_nodes=8)
    with pytest.raises(PlatformError, match="would have 100,000 cores, more than 65,533"):
        machine_of(read_platform("homogeneous:100000"), PLAIN, max_nodes=1)


def test_configuration(tmp_path: Path) -> None:
    machine = machine_of(small_platform(node(4, 3.0), node(8, 2.0)), PLAIN, max_nodes=8)
    text = slurm_conf(
        machine,
        folder=tmp_path,
        ports=[7001, 7002, 7003],
        scheduling=["SchedulerParameters=bf_interval=20,bf_max_time=50"],
        n_jobs=20_000,
        kills=False,
        speed=40.0,
    )
    said = dict(line.split("=", 1) for line in text.splitlines())
    assert said["SlurmctldPort"] == "7001"
    assert said["SlurmctldHost"].endswith("(127.0.0.1)")
    assert {"NoCtldInAddrAny", "NoInAddrAny"} <= set(said["CommunicationParameters"].split(","))
    # Under the fast clock, 80 s are 2 s; Slurm takes no bf_yield_interval above 10 s.
    given = "bf_interval=20,bf_max_time=50"
    computes = "build_queue_timeout=80000000,max_sched_time=80,bf_yield_interval=10000000"
    assert said["SchedulerParameters"] == f"{given},{computes}"
    assert (said["SelectTypeParameters"], said["OverTimeLimit"]) == ("CR_Core", "UNLIMITED")
    assert int(said["MaxJobCount"]) > 20_000
    assert said["MessageTimeout"] == "2000"
    nodes = [dict(re.findall(r"(\w+)=(\S+)", line)) for line in text.splitlines() if line.startswith("NodeName=")]
    assert [(one["NodeName"], one["Port"], one["CPUs"], one["NodeAddr"]) for one in nodes] == [
        ("k0n1", "7002", "8", "127.0.0.1"),
        ("k1n1", "7003", "4", "127.0.0.1"),
    ]
    recorded = without_paths(text, tmp_path)
    assert str(tmp_path) not in recorded
    assert "NodeName=k0n1" in recorded


ADMIN = """\
# our cluster
ClusterName=big
schedulerparameters=bf_interval=60,bf_continue   # often enough
PriorityType=priority/multifactor
PriorityWeightAge = 1000
PriorityWeightFairshare=0
Prolog=/usr/local/sbin/prolog
JobSubmitPlugins=lua
NodeName=n[1-6] CPUs=8
PriorityWeightAge=2000
"""


def test_only_lines_about_scheduling_count(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(ADMIN)
    assert scheduling_lines(path) == [
        "SchedulerParameters=bf_interval=60,bf_continue",
        "PriorityType=priority/multifactor",
        "PriorityWeightAge=2000",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("NodeName=a CPUs=3\n", r"slurm\.conf: sets no parameter of the scheduler"),
        ("KillWait=3\nPriorityWeightFairshare=10\n", r"slurm\.conf:2: PriorityWeightFairshare needs accounts"),
        ("PreemptType=preempt/qos\n", r"slurm\.conf:1: PreemptType is 'preempt/qos'"),
        ("SchedulerParameters=a b\n", r"slurm\.conf:1: SchedulerParameters is 'a b', expected one word"),
        ("SchedulerParameters=\n", r"slurm\.conf:1: SchedulerParameters is '', expected one word"),
    ],
)
def test_lines_that_cannot_be_passed_on(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(text)
    with pytest.raises(ReadError, match=problem):
        scheduling_lines(path)

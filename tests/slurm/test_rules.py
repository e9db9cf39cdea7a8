"""The rules of a site that a real Slurm follows here: partitions, scheduling, niceness; all others are refused."""

from dataclasses import replace

import numpy as np
import pytest

from hdrl.base.errors import SimulationError
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.site_rules.model import (
    DEPENDENCY_DTYPE,
    NODE_DTYPE,
    PARTITION_DTYPE,
    RESERVATION_DTYPE,
    UNLIMITED,
    PreemptBy,
    Preemption,
    PriorityWeights,
    SchedulerParameters,
    SiteJobs,
    SiteRules,
    undemanding_jobs,
)
from hdrl.slurm.machine import machine_of
from hdrl.slurm.rules import check_rules, partition_lines, partitions_of, scheduling_of
from hdrl.testing import Job, Node, Processor, small_platform, small_workload


def rules(**changes: object) -> SiteRules:
    """Return the rules of three nodes of four cores: the partition ``wide`` has all of them, ``short`` the first."""
    nodes = np.zeros(3, NODE_DTYPE)
    nodes["cores"] = 4
    partitions = np.zeros(2, PARTITION_DTYPE)
    partitions["max_nodes"] = UNLIMITED
    partitions["tier"], partitions["job_factor"], partitions["max_time_s"] = (1, 5), (10, 1), (np.inf, 3600.0)
    found = SiteRules(
        nodes=nodes,
        node_names=("n1", "n2", "n3"),
        partitions=partitions,
        partition_names=("wide", "short"),
        partition_nodes=np.array([[True, True, True], [True, False, False]]),
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def site_platform(**changes: object) -> Platform:
    return replace(small_platform(*[Node((Processor(4, 1.0),))] * 3), site=rules(**changes))


def test_nodes_of_one_partition_are_put_together() -> None:
    machine = machine_of(site_platform(), small_workload(Job(0.0, 1)), max_nodes=2)
    assert [(one.name, one.cores.tolist(), one.partitions) for one in machine.nodes] == [
        ("k0n1", list(range(4, 12)), (True, False)),
        ("k0n2", list(range(4)), (True, True)),
    ]
    lines = partition_lines(rules(), {one.name: one.partitions for one in machine.nodes})
    assert lines == [
        "PartitionName=wide Nodes=k0n1,k0n2 Default=YES MaxTime=INFINITE PriorityTier=1 PriorityJobFactor=10 State=UP "
        "OverSubscribe=NO",
        "PartitionName=short Nodes=k0n2 Default=NO MaxTime=60 PriorityTier=5 PriorityJobFactor=1 State=UP "
        "OverSubscribe=NO",
    ]
    assert [partitions_of(rules(), bits) for bits in (0, 1, 2, 3)] == [(), ("wide",), ("short",), ("wide", "short")]


def test_scheduling() -> None:
    basic = rules(weights=PriorityWeights(is_basic=True))
    assert scheduling_of(basic) == ["PriorityType=priority/basic"]
    scheduler = SchedulerParameters(bf_window_s=7200.0, bf_interval_s=20.0, bf_continue=True)
    found = scheduling_of(
        rules(scheduler=scheduler, weights=PriorityWeights(age=7, max_age_s=3600.0), kill_wait_s=30.0)
    )
    assert found[0] == "SchedulerParameters=bf_interval=20,bf_window=120,bf_continue"
    assert {"PriorityWeightAge=7", "PriorityMaxAge=60", "KillWait=30"} <= set(found)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"reservations": np.zeros(1, RESERVATION_DTYPE), "reservation_nodes": np.zeros((1, 3), bool)}, "reservations"),
        ({"preemption": Preemption(by=PreemptBy.PARTITION)}, "partitions with whole nodes or preemption"),
    ],
)
def test_rules_that_are_refused(changes: dict[str, object], what: str) -> None:
    with pytest.raises(SimulationError, match=f"simulator 'slurm' takes no {what}; of the rules of a site it has"):
        check_rules(rules(**changes), None)


def test_wishes_of_jobs_that_are_refused() -> None:
    jobs = undemanding_jobs(2)
    check_rules(rules(), SiteJobs(jobs=jobs))
    with pytest.raises(SimulationError, match="takes no dependencies"):
        check_rules(rules(), SiteJobs(jobs=jobs, dependencies=np.zeros(1, DEPENDENCY_DTYPE)))
    jobs["begin_s"][1] = 60.0
    with pytest.raises(SimulationError, match="takes no jobs that ask for begin_s"):
        check_rules(rules(), SiteJobs(jobs=jobs))

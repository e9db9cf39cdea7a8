"""The rules of a site that a real Slurm follows here, in its words; all others are refused."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from hdrl.base.errors import SimulationError
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.site_rules.model import (
    DEPENDENCY_DTYPE,
    NODE_DTYPE,
    OUTAGE_DTYPE,
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
from hdrl.slurm.requests import JobRequests, UnsupportedBySlurm, events_of, requests_of
from hdrl.slurm.rules import check_nodes, check_rules, node_words, partition_lines, partitions_of, scheduling_of
from hdrl.testing import JobSpec, Node, Processor, small_platform, small_workload


def rules(**changes: object) -> SiteRules:
    """Return the rules of three nodes of four cores: the partition ``wide`` has all of them, ``short`` the first."""
    nodes = np.zeros(3, NODE_DTYPE)
    nodes["cores"] = 4
    partitions = np.zeros(2, PARTITION_DTYPE)
    partitions["max_nodes"] = partitions["qos"] = UNLIMITED
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
    machine = machine_of(site_platform(), small_workload(JobSpec(0.0, 1)), max_nodes=2)
    assert [(one.name, one.cores.tolist(), one.like) for one in machine.nodes] == [
        ("k0n1", list(range(4, 12)), 1),
        ("k0n2", list(range(4)), 0),
    ]
    assert partition_lines(rules(), machine) == [
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


def test_nodes_that_differ_to_the_rules_are_not_put_together() -> None:
    nodes = rules().nodes.copy()
    nodes["features"], nodes["weight"] = (0, 2, 3), (1, 1, 7)
    site = site_platform(nodes=nodes, feature_names=("ib", "big"))
    machine = machine_of(site, small_workload(JobSpec(0.0, 1)), max_nodes=3)
    assert [one.like for one in machine.nodes] == [1, 2, 0]
    assert site.site is not None
    assert node_words(site.site, machine) == [" Features=big Weight=1", " Features=ib,big Weight=7", " Weight=1"]
    for changes in (
        {"reservations": window(0.0, 9.0), "reservation_nodes": ONLY_THIRD},
        {"outages": outage(2, 5.0, 7.0)},
    ):
        machine = machine_of(site_platform(**changes), small_workload(JobSpec(0.0, 1)), max_nodes=3)
        assert [one.like for one in machine.nodes] == [1, 2, 0]


ONLY_THIRD = np.array([[False, False, True]])


def window(start_s: float, end_s: float) -> NDArray[np.void]:
    found = np.zeros(1, RESERVATION_DTYPE)
    found["start_s"], found["end_s"] = start_s, end_s
    return found


def outage(node: int, start_s: float, end_s: float, *, is_drain: bool = False) -> NDArray[np.void]:
    return np.array([(node, start_s, end_s, is_drain)], OUTAGE_DTYPE)


def test_limits_of_nodes_and_whole_nodes() -> None:
    partitions = rules().partitions.copy()
    partitions["min_nodes"], partitions["max_nodes"], partitions["is_exclusive"] = (0, 2), (3, UNLIMITED), (0, 1)
    site = site_platform(partitions=partitions)
    assert site.site is not None
    few, all_three = (machine_of(site, small_workload(JobSpec(0.0, 1)), max_nodes=n) for n in (2, 3))
    lines = partition_lines(site.site, all_three)
    assert [line.partition("State=UP ")[2] for line in lines] == [
        "OverSubscribe=NO MaxNodes=3",
        "OverSubscribe=EXCLUSIVE MinNodes=2",
    ]
    check_nodes(site.site, SiteJobs(jobs=undemanding_jobs(1)), all_three, 3)
    with pytest.raises(SimulationError, match=r"has 2 nodes for 3 of the platform.*raise slurm\.daemons to 3"):
        check_nodes(site.site, SiteJobs(jobs=undemanding_jobs(1)), few, 3)
    jobs = undemanding_jobs(1)
    for name in ("nodes", "is_exclusive"):
        asked = jobs.copy()
        asked[name] = 1
        with pytest.raises(SimulationError, match="has 2 nodes for 3 of the platform"):
            check_nodes(rules(), SiteJobs(jobs=asked), few, 3)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"preemption": Preemption(by=PreemptBy.PARTITION)}, "preemption by partition"),
        ({"partition_names": ("wide", "a b")}, "partition 'a b', expected one word"),
        ({"feature_names": ("{id}",)}, r"feature '\{id\}', expected one word"),
    ],
)
def test_rules_that_are_refused(changes: dict[str, object], what: str) -> None:
    with pytest.raises(
        UnsupportedBySlurm, match=f"simulator 'slurm' does not support {what}; docs/slurm.md lists the rules"
    ):
        check_rules(rules(**changes), None)


def test_requests_of_jobs_that_are_refused() -> None:
    jobs = undemanding_jobs(2)
    check_rules(rules(), SiteJobs(jobs=jobs))
    jobs["gpus"][1] = 1
    with pytest.raises(UnsupportedBySlurm, match="does not support jobs that ask for gpus"):
        check_rules(rules(), SiteJobs(jobs=jobs))
    jobs["gpus"], jobs["het_group"], jobs["begin_s"] = 0, 1, 60.0
    with pytest.raises(
        UnsupportedBySlurm, match="does not support het jobs with dates, holds, cancellations or dependencies"
    ):
        check_rules(rules(), SiteJobs(jobs=jobs))
    jobs["begin_s"] = -np.inf
    with pytest.raises(UnsupportedBySlurm, match="does not support het jobs with"):
        check_rules(rules(), SiteJobs(jobs=jobs, dependencies=depends((1, 0, 2, 0.0))))


def depends(*rows: tuple[int, int, int, float]) -> NDArray[np.void]:
    return np.array(list(rows), DEPENDENCY_DTYPE)


def requests(jobs: NDArray[np.void], *dependencies: tuple[int, int, int, float], **changes: float) -> list[JobRequests]:
    """Return what is asked of Slurm for jobs that come a second after each other, or as the changes say."""
    workload = small_workload(*(JobSpec(**({"submit_s": float(n), "cores": 1} | changes)) for n in range(len(jobs))))  # type: ignore[arg-type]
    asked = SiteJobs(jobs=jobs, dependencies=depends(*dependencies))
    return requests_of(rules(feature_names=("ib", "big")), asked, workload, np.arange(len(jobs)))


def test_requests_in_the_words_of_sbatch() -> None:
    jobs = undemanding_jobs(4)
    jobs["nodes"][0], jobs["is_exclusive"][0], jobs["features"][0] = 2, 1, 3
    jobs["begin_s"][1], jobs["held_until_s"][2], jobs["begin_s"][3] = 60.5, 70.0, 2.0
    found = requests(jobs, (3, 0, 0, 61.0), (3, 1, 1, 0.0), (3, 2, 4, 0.0))
    assert found[0].options == ("--nodes=2-3", "--exclusive", "--constraint=ib&big")
    assert [one.filled for one in found] == [
        (),
        ("--begin={date[61]}",),
        ("--hold",),
        ("--dependency=singleton,after:{id[0]}+2,afterok:{id[1]}", "--kill-on-invalid-dep=yes"),
    ]
    assert [one.until_s for one in found] == [0.0, 60.5, 70.0, 3.0]
    assert [one.namesake for one in found] == [None, None, None, 2]
    assert found[0].recorded == {"throttle": 0, "exclusive": True, "nodes": 2, "features": "ib,big"}
    assert (found[1].recorded["begin_s"], found[2].recorded["hold_s"]) == (59.5, 68.0)


def test_tasks_of_an_array_are_asked_for_at_once() -> None:
    jobs = undemanding_jobs(3)
    jobs["array"], jobs["array_limit"] = (4, -1, 4), (2, -1, 2)
    found = requests(jobs, submit_s=0.0)
    assert [(one.first, one.at_most) for one in found] == [(0, 2), (None, None), (0, 2)]
    with pytest.raises(UnsupportedBySlurm, match="does not support arrays whose tasks ask for different things"):
        requests(jobs)
    for name, value in (("nice", 5), ("cancelled_s", 9.0)):
        others = jobs.copy()
        others[name][2] = value
        with pytest.raises(UnsupportedBySlurm, match="does not support arrays"):
            requests(others, submit_s=0.0)
    with pytest.raises(UnsupportedBySlurm, match="does not support arrays"):
        requests(jobs, (2, 1, 2, 0.0), submit_s=0.0)


@pytest.mark.parametrize(
    ("dependencies", "what"),
    [
        (((0, 1, 2, 0.0),), "dependencies on jobs that come later"),
        (((1, 0, 1, 60.0),), "delays of afterok"),
        (((2, 0, 4, 0.0), (2, 1, 4, 0.0)), "jobs that wait for jobs of several names"),
    ],
)
def test_dependencies_that_are_refused(dependencies: tuple[tuple[int, int, int, float], ...], what: str) -> None:
    with pytest.raises(UnsupportedBySlurm, match=f"does not support {what}"):
        requests(undemanding_jobs(3), *dependencies)


def test_what_users_and_administrators_do() -> None:
    outages = np.concatenate(
        [outage(0, 1050.0, 1110.0), outage(1, 900.0, 950.0), outage(2, 900.0, np.inf, is_drain=True)]
    )
    site = site_platform(reservations=window(900.0, 1200.0), reservation_nodes=ONLY_THIRD, outages=outages)
    jobs = undemanding_jobs(3)
    jobs["held_until_s"], jobs["cancelled_s"][1] = (30.0, 0.0, -np.inf), 0.5
    workload = small_workload(*(JobSpec(float(n), 1) for n in range(3)))
    machine = machine_of(site, workload, max_nodes=3)
    assert site.site is not None
    asked = SiteJobs(jobs=jobs, origin_s=1000.0)
    order = np.arange(3)
    found = events_of(site.site, asked, machine, workload, order, requests_of(site.site, asked, workload, order), "ann")
    names = {one.like: one.name for one in machine.nodes}
    assert [(one.at_s, one.kind, one.command[-3:]) for one in found] == [
        (0.0, "reservation", ("endtime={date[200]}", "user=ann", "flags=maint,ignore_jobs")),
        (50.0, "failure", (f"nodename={names[0]}", "state=down", "reason=hdrl")),
        (110.0, "resume", ("update", f"nodename={names[0]}", "state=resume")),
        (0.0, "drain", (f"nodename={names[2]}", "state=drain", "reason=hdrl")),
        (pytest.approx(3.15e8, rel=0.01), "resume", ("update", f"nodename={names[2]}", "state=resume")),
        (30.0, "release", ("scontrol", "release", "{job[0]}")),
        (1.0, "cancel", ("scancel", "{id[1]}")),
    ]
    assert found[0].nodes == (names[2],)
    assert [one.span_s for one in found[:3]] == [(0.0, 200.0), (50.0, 110.0), None]
    assert [one.until_s for one in found[:4]] == [200.0, 110.0, 110.0, 0.0]
    later = site_platform(reservations=window(1100.0, 1200.0), reservation_nodes=ONLY_THIRD).site
    assert later is not None
    plain = SiteJobs(jobs=undemanding_jobs(3), origin_s=1000.0)
    (one,) = events_of(later, plain, machine, workload, order, requests_of(later, plain, workload, order), "ann")
    # It is known from the beginning on, so that no job starts that would still run then.
    assert (one.at_s, one.span_s, one.command[-4]) == (0.0, (100.0, 200.0), "starttime={date[100]}")

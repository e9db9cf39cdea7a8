"""Policies that choose nodes, on worlds solved by hand and against a plain reading of IRMaSim's managers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hdrl
from hdrl.base.errors import DecisionError, UnknownName
from hdrl.batch import is_clairvoyant, normalise_policy_name
from hdrl.settings.batch.named_policies import BatchPolicies
from hdrl.settings.batch.platform import pstate_rules
from hdrl.settings.batch.platform.build import platform_from_tree
from hdrl.settings.batch.platform.model import Cluster, Link, NodeGroup, NodeType, ProcessorType, SplitPower
from hdrl.settings.batch.policies.node_policies import NODE_SELECTIONS
from hdrl.settings.batch.workload.batsim_json import merge
from hdrl.settings.batch.workload.model import Workload
from hdrl.testing import JobSpec, Node, Processor, check_policy, small_platform, small_workload

# Nodes of 2, 3 and 4 cores: the second is the fastest, the third draws the most and has the most memory.
PLATFORM = small_platform(
    Node((Processor(2, 2.0, 30.0, 40.0),), 1.0),
    Node((Processor(3, 4.0, 20.0, 30.0),), 2.0),
    Node((Processor(4, 1.0, 10.0, 90.0),), 4.0),
)
NODE_OF_CORE = PLATFORM.node_of_processor[PLATFORM.processor_of_core]


def spread(workload: Workload, *nodes: int) -> Workload:
    return replace(workload, nodes=np.array(nodes, dtype=np.int32))


def nodes_of(trace: Any, job: int) -> list[int]:
    return NODE_OF_CORE[trace.cores_of(job)].tolist()


@pytest.mark.parametrize(
    ("selection", "node"),
    [
        ("first", 0),
        ("high_gflops", 1),
        ("high_cores", 2),
        ("low_cores", 0),
        ("high_mem", 2),
        ("high_mem_bw", 0),
        ("low_power", 1),
    ],
)
def test_each_selection_has_its_node(selection: str, node: int):
    trace = hdrl.simulate(PLATFORM, small_workload(JobSpec(cores=2)), f"first-node_{selection}")
    assert nodes_of(trace, 0) == [node, node]


def test_what_runs_counts():
    # The first job takes half of the bandwidth of the first node, so that the second node has the most left.
    jobs = [
        JobSpec(cores=1, bandwidth_gbps=15.0, gflop=9.0),
        JobSpec(1.0, cores=1),
        JobSpec(1.0, cores=1, memory_mib=3000.0),
    ]
    trace = hdrl.simulate(PLATFORM, small_workload(*jobs), "first-node_high_mem_bw")
    assert [nodes_of(trace, job) for job in range(3)] == [[0], [1], [2]]


def test_the_cores_of_a_job_are_dealt_out_among_its_nodes():
    platform = small_platform(*(Node((Processor(4),)) for _ in range(3)))
    jobs = [JobSpec(cores=5), JobSpec(cores=4), JobSpec(cores=3)]
    trace = hdrl.simulate(platform, spread(small_workload(*jobs), 2, 1, 3), "first-node_first")
    assert [trace.cores_of(job).tolist() for job in range(3)] == [[0, 1, 2, 4, 5], [8, 9, 10, 11], [0, 4, 8]]
    starts = trace.records["start_s"]
    assert starts[1] < 1e-6
    assert starts[2] == pytest.approx(max(trace.records["run_s"][:2]), abs=1e-5), "the third node is full until then"


class Plain:
    """A plain event loop with the rules of IRMaSim's managers; ``told`` says when and on which node each job starts."""

    SPEEDS = (2.0, 4.0, 1.0)

    def __init__(self, jobs: list[JobSpec], kind: str, policy: str) -> None:
        self.jobs, self.now = jobs, 0.0
        self.free, self.running, self.waiting = [2, 3, 4], [], []
        self.told: dict[int, tuple[float, int]] = {}
        keys = {"first": lambda n: 0, "high_gflops": lambda n: -self.SPEEDS[n], "high_cores": lambda n: -self.free[n]}
        self.key = keys[kind]
        coming = list(range(len(jobs)))
        while coming or self.running:
            self.now = min([jobs[job].submit_s for job in coming[:1]] + [end_s for end_s, _ in self.running])
            for ended in [one for one in self.running if one[0] <= self.now + 1e-9]:
                self.running.remove(ended)
                self.free[self.told[ended[1]][1]] += jobs[ended[1]].cores
            while coming and jobs[coming[0]].submit_s <= self.now:
                self.waiting.append(coming.pop(0))
            if policy == "shortest":
                self.waiting.sort(key=lambda job: jobs[job].requested_time_s)
            self.serve()
            if policy.startswith("fcfs+") and self.waiting:
                self.backfill()

    def expected_s(self, job: int, node: int) -> float:
        return self.jobs[job].requested_time_s * PLATFORM.reference_gflops / self.SPEEDS[node]

    def start(self, job: int, node: int) -> None:
        self.free[node] -= self.jobs[job].cores
        self.running.append((self.now + self.jobs[job].gflop / self.SPEEDS[node], job))
        self.told[job] = (self.now, node)
        self.waiting.remove(job)

    def nodes(self, cores: int) -> list[int]:
        return sorted((n for n in range(3) if self.free[n] >= cores), key=lambda n: (self.key(n), n))

    def serve(self) -> None:
        while self.waiting and (nodes := self.nodes(self.jobs[self.waiting[0]].cores)):
            self.start(self.waiting[0], nodes[0])

    def backfill(self) -> None:
        for node in self.nodes(1):
            shadow_s = self.shadow_s(node)
            for job in self.waiting[1:]:
                if self.jobs[job].cores <= self.free[node] and self.now + self.expected_s(job, node) <= shadow_s:
                    self.start(job, node)

    def shadow_s(self, node: int) -> float:
        left = self.free[node]
        here = [job for _, job in self.running if self.told[job][1] == node]
        for end_s, job in sorted((self.told[job][0] + self.expected_s(job, node), job) for job in here):
            left += self.jobs[job].cores
            if left >= self.jobs[self.waiting[0]].cores:
                return end_s
        return -math.inf


@pytest.mark.parametrize("policy", ["first", "shortest", "fcfs+easy"])
@pytest.mark.parametrize("kind", ["first", "high_gflops", "high_cores"])
def test_schedules_are_those_of_a_plain_reading(policy: str, kind: str):
    rng = hdrl.base.seeding.stream(5, f"{policy} {kind}")
    jobs = [
        JobSpec(float(at), int(cores), gflop=float(work), requested_time_s=float(work * over))
        for at, cores, work, over in zip(
            np.cumsum(rng.exponential(1.0, 80)).round(2),
            rng.integers(1, 5, 80),
            rng.uniform(1, 9, 80).round(2),
            rng.uniform(0.4, 2.0, 80),
            strict=True,
        )
    ]
    trace = hdrl.simulate(PLATFORM, small_workload(*jobs), f"{policy}-node_{kind}")
    found = [(float(trace.records["start_s"][job]), nodes_of(trace, job)) for job in range(80)]
    told = [position for _, position in sorted(Plain(jobs, kind, policy).told.items())]
    assert [start for start, _ in found] == pytest.approx([start for start, _ in told], abs=1e-3)
    assert [set(nodes) for _, nodes in found] == [{node} for _, node in told]
    if policy == "fcfs+easy":
        order = np.argsort([start for start, _ in found], kind="stable").tolist()
        assert order != sorted(order), "some jobs overtake"


@pytest.mark.parametrize(
    "policy", ["random-node_random", "fcfs+easy-node_low_power", "timetasks_lowest+skip-node_edp_lowest"]
)
def test_they_are_policies_like_others(policy: str):
    check_policy(policy)


def test_what_is_drawn_depends_on_the_seed():
    workload = small_workload(*(JobSpec(0.1 * k, 1 + k % 2) for k in range(20)))
    first, again, other = (
        hdrl.simulate(PLATFORM, workload, "random-node_random", seed=seed).records.tobytes() for seed in (1, 1, 2)
    )
    assert first == again != other


def test_names():
    assert normalise_policy_name("low_mem_ops-node_first") == "low_mem_bw-node_first"
    book = BatchPolicies()
    assert book.draws("first-node_random")
    assert book.peer_group("first-node_first") is None
    exact = replace(small_workload(JobSpec()), origin={"estimates": "exact"})
    assert [is_clairvoyant(f"{job}-node_first", exact) for job in ("first", "shortest", "fcfs+easy")] == [0, 1, 1]
    with pytest.raises(UnknownName, match="no node selection 'node_low_pwer'; did you mean 'node_low_power'"):
        normalise_policy_name("first-node_low_pwer")
    with pytest.raises(UnknownName, match="no job selection of a policy that chooses nodes 'shortst'; did you mean"):
        normalise_policy_name("shortst-node_first")
    assert len(NODE_SELECTIONS) == 8


@pytest.mark.parametrize(
    ("job", "policy", "says"),
    [
        (
            JobSpec(cores=5),
            "first-node_first",
            "job 0 wants 1 node with 5 cores and 0 MiB each, .* 0 such nodes; its widest node has 4",
        ),
        (JobSpec(cores=3, memory_mib=2000.0), "fcfs+easy-node_first", "with 3 cores and 6000 MiB each"),
    ],
)
def test_a_job_that_fits_on_no_node_is_an_error(job: JobSpec, policy: str, says: str):
    with pytest.raises(DecisionError, match=says):
        hdrl.simulate(PLATFORM, small_workload(job), policy)


def test_nodes_go_with_their_jobs():
    plain = small_workload(*(JobSpec(float(k), 4) for k in range(4)))
    asked = spread(plain, 1, 2, 3, 4)
    assert asked.window(1, 2).nodes.tolist() == [2, 3]
    assert asked.sha256() != plain.sha256()
    assert merge([asked, plain]).nodes.tolist() == [1, 2, 3, 4, 1, 1, 1, 1]
    assert merge([plain, plain]).nodes is None
    wishes = replace(plain, requested_energy_j=np.arange(4.0))
    assert merge([wishes, wishes]).requested_energy_j.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert merge([wishes, plain]).requested_energy_j is None
    assert wishes.sha256() != plain.sha256()
    assert math.isclose(
        hdrl.simulate(PLATFORM, asked, "first-first").end_s, hdrl.simulate(PLATFORM, plain, "first-first").end_s
    )


# ------------------------------------------------------------------ by energies

# The fast node draws 12 W without a job on it and 3 W for each serving core, the slow one 2 W and 4 W.
FAST = ProcessorType("fast", "CPU", "", 4, 4.0, 1.0, 50.0, 24.0, split_power=SplitPower(12.0, 3.0, 0.1))
SLOW = ProcessorType("slow", "CPU", "", 4, 2.0, 1.0, 50.0, 18.0, split_power=SplitPower(2.0, 4.0, 0.1))
LINK = Link("wire", 10.0, 0.0)
TWO_KINDS = platform_from_tree(
    "two",
    (Cluster("c", tuple(NodeGroup(NodeType(one.name, ((one, 1),), 8.0), 1) for one in (FAST, SLOW)), LINK),),
    LINK,
    pstate_rules("none"),
)


def energetic(policy: str, *jobs: JobSpec, energy_j: tuple[float, ...] = ()) -> list[tuple[float, int]]:
    workload = small_workload(*jobs)
    if energy_j:
        workload = replace(workload, requested_energy_j=np.array(energy_j))
    trace = hdrl.simulate(TWO_KINDS, workload, policy)
    return [
        (round(float(trace.records["start_s"][job]), 3), int(trace.cores_of(job)[0]) // 4) for job in range(len(jobs))
    ]


@pytest.mark.parametrize(
    ("selection", "nodes"),
    [
        # At 3 Gflop/s 4 s: 3 s on the fast node, 6 s on the slow one. One core: 3 (3 + 12) = 45 J and 6 (4 + 2) = 36 J;
        # a second job shares the static power: 36 J stay on the slow node beside nobody, 6 (4 + 1) = 30 J beside one.
        ("energy_lowest", [1, 1]),
        ("energy_highest", [0, 1]),  # then 3 (3 + 6) = 27 J on the fast node, 36 J on the slow one
        ("edp_lowest", [0, 0]),  # 135 and 216 Js, then 81 and 216 Js
        ("edp_highest", [1, 1]),  # then 135 and 180 Js
    ],
)
def test_a_job_goes_where_it_needs_the_least_or_the_most(selection: str, nodes: list[int]):
    jobs = [JobSpec(gflop=12.0, requested_time_s=4.0) for _ in range(2)]
    found = energetic(f"timetasks_lowest+skip-node_{selection}", *jobs)
    assert [node for _, node in found] == nodes


def test_whatever_fits_starts_and_who_has_waited_a_minute_comes_first():
    long = JobSpec(0.0, 4, gflop=400.0, requested_time_s=100.0)
    blocked = JobSpec(1.0, 4, gflop=4.0, requested_time_s=1.0)
    small = [JobSpec(2.0, 2, gflop=4.0, requested_time_s=1.0)]
    busy = [JobSpec(0.0, 3, gflop=400.0, requested_time_s=90.0), long]
    # Three cores of one node and all of the other are taken: nothing of four or two cores fits until one ends.
    found = energetic("timetasks_lowest+skip-node_energy_lowest", *busy, blocked, *small, JobSpec(3.0, 1, gflop=4.0))
    assert found[4][0] == pytest.approx(3.0, abs=0.01), "one core is free: who wants one overtakes"
    assert found[2][0] > 60
    late = JobSpec(61.5, 4, gflop=4.0, requested_time_s=0.1)
    aged = energetic("timetasks_lowest+skip-node_energy_lowest", *busy, blocked, late)
    assert aged[2][0] < aged[3][0], "although the other one is shorter"


def test_the_order_of_jobs_by_what_their_users_ask_for():
    jobs = [
        JobSpec(0.0, 4, gflop=8.0),
        JobSpec(0.0, 4, gflop=8.0),
        JobSpec(0.1, 4, requested_time_s=1.0),
        JobSpec(0.1, 4, requested_time_s=3.0),
    ]
    energy_j = (1.0, 1.0, 9.0, 5.0)
    first = {}
    for order in ("energy_lowest", "energy_highest", "edp_lowest"):
        found = energetic(f"{order}+skip-node_energy_lowest", *jobs, energy_j=energy_j)
        first[order] = 2 if found[2][0] < found[3][0] else 3
    assert first == {"energy_lowest": 3, "energy_highest": 2, "edp_lowest": 2}, "9 J for 1 s or 5 J for 3 s"
    with pytest.raises(DecisionError, match="the jobs of small have no 'req_energy', which they are ordered by"):
        energetic("energy_lowest+skip-node_energy_lowest", *jobs)
    for wrong, says in (
        ("energy_low+skip-node_edp_lowest", "did you mean"),
        ("energy_lowest+skip-node_first", "no node selection by energies 'node_first'"),
    ):
        with pytest.raises(UnknownName, match=says):
            normalise_policy_name(wrong)

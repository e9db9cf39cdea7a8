"""Policies that backfill node by node, on worlds solved by hand and against a plain reading of IRMaSim's managers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import hdrl
from hdrl.base.errors import DecisionError, UnknownName
from hdrl.batch import is_clairvoyant, normalise_policy_name
from hdrl.settings.batch.policies.node_policies_backfill import FITS, ORDERS
from hdrl.testing import JobSpec, Node, Processor, check_policy, small_platform, small_workload
from tests.settings.batch.policies.test_node_policies import NODE_OF_CORE, PLATFORM, TWO_KINDS, Plain

ALIKE = small_platform(Node((Processor(4),)), Node((Processor(4),)))
ONE = small_platform(Node((Processor(4),)))
UNEQUAL = small_platform(Node((Processor(4),)), Node((Processor(2),)))


def job(submit_s: float, cores: int, run_s: float) -> JobSpec:
    return JobSpec(submit_s, cores, gflop=run_s, requested_time_s=run_s)


def starts(platform: hdrl.Platform, policy: str, *jobs: JobSpec, compatibility: str | None = None) -> list[float]:
    trace = hdrl.simulate(platform, small_workload(*jobs), policy, compatibility=compatibility)
    return [round(float(start_s), 2) for start_s in trace.records["start_s"]]


# One core of each node is left free, the head needs a whole node: the first from 10 s, the second from 20 s on.
BUSY = (job(0, 3, 10), job(0, 3, 20), job(1, 4, 5))


def test_every_node_is_protected_or_only_the_one_that_the_head_gets():
    jobs = (*BUSY, job(2, 1, 30), job(2, 1, 15), job(2, 1, 5))
    # 30 s end on neither node in time, 15 s on the second.
    assert starts(ALIKE, "fcfs+hbackfill_first-node_first", *jobs)[2:] == [10, 15, 2, 2]
    # The head gets the first node: nothing on the second one is protected.
    assert starts(ALIKE, "fcfs+hbackfillr_first-node_first", *jobs)[2:] == [10, 2, 15, 2]
    assert starts(ALIKE, "fcfs+backfillfit_time_worst-node_first", *jobs)[2:] == [10, 2, 15, 2]
    assert starts(ALIKE, "fcfs+backfillbestfit-node_first", *jobs)[2:] == [10, 15, 2, 2]


@pytest.mark.parametrize("policy", ["hbackfillr_first", "backfillfit_time_best"])
def test_published_versions_protect_what_no_later_node_beats(policy: str):
    name, jobs = f"fcfs+{policy}-node_first", (*BUSY, job(2, 1, 30))
    assert starts(ALIKE, name, *jobs)[3] == 2
    assert starts(ALIKE, name, *jobs, compatibility="irmasim")[3] == 10, "the second node is protected, too"
    mirrored = (job(0, 3, 20), job(0, 3, 10), *jobs[2:])
    assert starts(ALIKE, name, *mirrored, compatibility="irmasim")[3] == 2, "the first one is not: the second is better"


@pytest.mark.parametrize("policy", ["hbackfillr_first", "backfillfit_time_best"])
def test_published_versions_count_the_jobs_of_the_last_node(policy: str):
    # The head fits on the first node from 10 s on, and leaves a core; on the last node two jobs end later.
    jobs = (job(0, 3, 10), job(0, 2, 30), job(0, 2, 40), job(1, 3, 5), job(2, 1, 50))
    first = f"fcfs+{policy}-node_first"
    assert starts(ALIKE, first, *jobs)[3:] == [10, 2]
    assert starts(ALIKE, first, *jobs, compatibility="irmasim")[3:] == [10, 10]


@pytest.mark.parametrize("policy", ["hbackfill_first", "hbackfillr_first", "backfillfit_time_best", "backfillbestfit"])
def test_all_that_ends_with_the_wait_of_the_head_is_free_then(policy: str):
    # Two cores are free, and two more from 10 s on, of which the head needs one.
    jobs = (job(0, 1, 10), job(0, 1, 10), job(1, 3, 5), job(2, 1, 50))
    assert starts(ONE, f"fcfs+{policy}-node_first", *jobs)[2:] == [10, 2]


def test_cores_that_the_head_leaves_may_be_taken_for_good():
    # The head needs three cores from 10 s on, when four are free: one may be taken for ever, not two.
    jobs = (job(0, 2, 10), job(1, 3, 5), job(2, 1, 50), job(3, 1, 50))
    for policy in ("hbackfill_first", "hbackfillr_first", "backfillfit_core_best", "backfillbestfit"):
        assert starts(ONE, f"fcfs+{policy}-node_first", *jobs) == [0, 10, 2, 15], policy


@pytest.mark.parametrize(
    ("policy", "first"),
    [
        ("hbackfill_first", 2),
        ("hbackfill_shortest", 3),
        ("hbackfillr_longest", 4),
        ("hbackfillr_timetasks_lowest", 3),
        ("hbackfill_timetasks_highest", 4),
        ("hbackfillr_smallest", 2),
        ("hbackfill_largest", 2),
        ("backfillfit_time_best", 4),
        ("backfillfit_time_worst", 3),
        ("backfillfit_timecore_best", 2),  # no core is left, whoever comes
        ("backfillbestfit", 4),
    ],
)
def test_who_may_overtake_is_tried_in_an_order(policy: str, first: int):
    jobs = (job(0, 3, 20), job(1, 4, 5), job(2, 1, 10), job(2, 1, 5), job(2, 1, 15))
    found = starts(ONE, f"fcfs+{policy}-node_first", *jobs)
    assert [number for number in (2, 3, 4) if found[number] == 2] == [first]


@pytest.mark.parametrize(
    ("policy", "overtaking"),
    [
        ("backfillfit_core_best", [2]),
        ("backfillfit_core_worst", [3, 4]),
        ("hbackfillr_smallest", [3, 4]),
        ("hbackfill_largest", [2]),
        # Left are 13 s and no core; 8 s and 13 s with a core: 0, 8 and 13.
        ("backfillfit_timecore_worst", [3, 4]),
        ("backfillfit_timecore_best", [2]),
    ],
)
def test_how_many_cores_are_left(policy: str, overtaking: list[int]):
    jobs = (job(0, 2, 20), job(1, 4, 5), job(2, 2, 5), job(2, 1, 10), job(2, 1, 5))
    found = starts(ONE, f"fcfs+{policy}-node_first", *jobs)
    assert [number for number in (2, 3, 4) if found[number] == 2] == overtaking


def test_empty_nodes_are_given_away_as_jobs_came_or_in_the_order():
    # The second node is too small for the head: it is empty.
    jobs = (job(0, 3, 20), job(1, 4, 5), job(2, 2, 10), job(2, 2, 5))
    assert starts(UNEQUAL, "fcfs+hbackfill_shortest-node_first", *jobs)[2:] == [2, 12]
    assert starts(UNEQUAL, "fcfs+hbackfillr_shortest-node_first", *jobs)[2:] == [7, 2]
    # Nothing fits better than on an empty node, but for jobs that outlast the head's date.
    small = (*jobs[:2], job(2, 1, 10), job(2, 1, 15))
    trace = hdrl.simulate(UNEQUAL, small_workload(*small), "fcfs+backfillbestfit-node_first")
    assert trace.cores_of(2).tolist() == [4]
    assert trace.cores_of(3).tolist() == [3], "then by the least spare time: 3 s on the first node"


def test_users_energies_and_those_of_nodes_order_what_they_may():
    # Four cores are taken on each node; the head wants four, and one of each is given to who comes first.
    busy = (job(0, 3, 40), job(0, 3, 40), job(1, 4, 5))
    workload = small_workload(*busy, job(2, 1, 6), job(2, 1, 3))
    workload = replace(workload, requested_energy_j=np.array([1.0, 1.0, 1.0, 9.0, 5.0]))
    for order, node, nodes in (
        # At 3 Gflop/s 6 s: 4.5 s on the fast node, 9 s on the slow one; beside one job 4.5 (3 + 6) = 40.5 J, 9 (4 + 1)
        # = 45 J, and edp 182 and 405 Js. The other job needs half as long. What comes second gets the other node.
        ("energy_highest", "energy_lowest", [0, 1]),
        ("energy_lowest", "energy_lowest", [1, 0]),
        ("edp_highest", "edp_highest", [1, 0]),
        ("edp_lowest", "edp_highest", [0, 1]),
    ):
        trace = hdrl.simulate(TWO_KINDS, workload, f"fcfs+hbackfill_{order}-node_{node}")
        assert [int(trace.cores_of(number)[0]) // 4 for number in (3, 4)] == nodes, (order, node)
    with pytest.raises(DecisionError, match="have no 'req_energy', which they are ordered by"):
        hdrl.simulate(TWO_KINDS, small_workload(*busy), "fcfs+hbackfill_energy_lowest-node_first")


def test_memory_is_respected():
    platform = small_platform(Node((Processor(4),), 4.0))
    # The head needs all of the memory from 10 s on: what is small enough by its cores takes memory that it needs.
    jobs = [replace(job(*one[:3]), memory_mib=one[3]) for one in ((0, 1, 10, 2048.0), (1, 2, 5, 2000.0))]
    late = [replace(job(2, 1, 50), memory_mib=512.0), replace(job(2, 1, 5), memory_mib=512.0)]
    for policy in ("hbackfill_first", "hbackfillr_first", "backfillfit_time_best", "backfillbestfit"):
        assert starts(platform, f"fcfs+{policy}-node_first", *jobs, *late) == [0, 10, 15, 2], policy


class Managers(Plain):
    """The rules of IRMaSim's managers that backfill; ``published`` adds the errors of its versions."""

    rule, published = "", False

    def asked_s(self, number: int, node: int) -> float:
        return self.jobs[number].requested_time_s if self.published else self.expected_s(number, node)

    def here(self, node: int) -> list[tuple[float, int]]:
        there = [number for _, number in self.running if self.told[number][1] == node]
        return sorted((self.told[number][0] + self.asked_s(number, node), number) for number in there)

    def head_fits(self, node: int) -> tuple[float, int, bool]:
        """Return when, which of the jobs there must have ended, and whether it ever does."""
        left = self.free[node]
        for position, (end_s, number) in enumerate(self.here(node)):
            left += self.jobs[number].cores
            if left >= self.jobs[self.waiting[0]].cores:
                return end_s, position, True
        return max((end_s for end_s, _ in self.here(node)), default=-math.inf), len(self.here(node)) - 1, False

    def protected(self, node: int) -> tuple[float, int]:
        """Return until when a node must be free again, and how many cores may be taken for good."""
        head = self.jobs[self.waiting[0]].cores
        whole = (2, 3, 4)
        date_s, position, _ = self.head_fits(node)
        outlasting = [number for _, number in self.here(node)[position + 1 :]]
        if self.rule in ("hbackfill", "backfillbestfit"):
            return date_s, whole[node] - head - sum(self.jobs[number].cores for number in outlasting)
        dates = [self.head_fits(other)[0] if self.head_fits(other)[2] else math.inf for other in range(3)]
        if not self.published:
            is_best = node == dates.index(min(dates))
            return (
                (date_s, whole[node] - head - sum(self.jobs[n].cores for n in outlasting)) if is_best else (math.inf, 9)
            )
        later = [date for date in dates[node + 1 :] if date < dates[node]]
        if later or (dates[node] == math.inf and min(dates) < math.inf):
            return math.inf, 9
        position = position if dates[node] < math.inf else 0
        last = sum(self.jobs[number].cores for _, number in self.here(2)[position + 1 :])
        return dates[node], whole[node] - head - last

    def may(self, number: int, node: int) -> bool:
        cores = self.jobs[number].cores
        if cores > self.free[node]:
            return False
        if self.free[node] == (2, 3, 4)[node]:
            return True
        date_s, spare = self.protected(node)
        return cores <= spare or self.now + self.asked_s(number, node) <= date_s

    def place(self, number: int) -> int | None:
        return next((node for node in self.nodes(1) if self.may(number, node)), None)

    def backfill(self) -> None:
        by_order = self.rule.startswith("hbackfill")
        (self.by_order if by_order else self.by_fit)()

    def by_order(self) -> None:
        candidates = []
        for number in self.waiting[1:]:
            node = self.place(number)
            if node is not None and self.rule == "hbackfill" and self.free[node] == (2, 3, 4)[node]:
                self.start(number, node)
            elif node is not None:
                candidates.append(number)
        for number in sorted(candidates, key=lambda one: self.jobs[one].requested_time_s):
            node = self.place(number)
            if node is not None:
                self.start(number, node)

    def by_fit(self) -> None:
        pairs = [(one, node) for one in self.waiting[1:] for node in self.nodes(1) if self.may(one, node)]
        while pairs:
            pairs.sort(key=lambda pair: self.spare_s(*pair))
            number, node = pairs.pop(0)
            if number in self.waiting and self.may(number, node):
                self.start(number, node)

    def spare_s(self, number: int, node: int) -> float:
        if self.free[node] == (2, 3, 4)[node]:
            return -1e18 if self.rule == "backfillbestfit" and not self.published else 0.0
        date_s = min(self.protected(node)[0], 1e18)
        if date_s == 1e18 and not self.published:
            return date_s
        return (date_s if self.published else date_s - self.now) - self.asked_s(number, node)


@pytest.mark.parametrize("mode", [None, "irmasim"])
@pytest.mark.parametrize("rule", ["hbackfill", "hbackfillr", "backfillfit", "backfillbestfit"])
def test_schedules_are_those_of_a_plain_reading(rule: str, mode: str | None):
    told_kinds = 0
    for kind, drawn in (("first", 1), ("high_gflops", 2), ("high_cores", 3)):
        rng = hdrl.base.seeding.stream(drawn, f"{rule} {kind}")
        jobs = [
            JobSpec(float(at), int(cores), gflop=float(work), requested_time_s=round(float(work * over), 3))
            for at, cores, work, over in zip(
                np.cumsum(rng.exponential(0.8, 120)).round(4),
                rng.choice([1, 1, 1, 2, 3, 4], 120),
                rng.uniform(1, 9, 120).round(4),
                rng.uniform(0.4, 2.0, 120),
                strict=True,
            )
        ]
        suffix = {"hbackfill": "_shortest", "hbackfillr": "_shortest", "backfillfit": "_time_best"}.get(rule, "")
        trace = hdrl.simulate(PLATFORM, small_workload(*jobs), f"fcfs+{rule}{suffix}-node_{kind}", compatibility=mode)
        Managers.rule, Managers.published = rule, mode is not None
        told = [position for _, position in sorted(Managers(jobs, kind, f"fcfs+{rule}").told.items())]
        found = [float(start_s) for start_s in trace.records["start_s"]]
        assert found == pytest.approx([start_s for start_s, _ in told], abs=1e-3)
        nodes = [set(NODE_OF_CORE[trace.cores_of(number)].tolist()) for number in range(120)]
        assert nodes == [{node} for _, node in told]
        order = np.argsort(found, kind="stable").tolist()
        told_kinds += sum(one != position for position, one in enumerate(order))
    assert told_kinds > 50, "many jobs overtake"


@pytest.mark.parametrize(
    "policy",
    [
        "fcfs+hbackfill_random-node_random",
        "fcfs+hbackfillr_largest-node_high_mem",
        "fcfs+backfillfit_timecore_best-node_low_power",
        "fcfs+backfillbestfit-node_random",
    ],
)
def test_they_are_policies_like_others(policy: str):
    check_policy(policy)


def test_names():
    exact = replace(small_workload(JobSpec()), origin={"estimates": "exact"})
    for rule in (*(f"hbackfill_{order}" for order in ORDERS), *(f"backfillfit_{fit}" for fit in FITS)):
        name = f"fcfs+{rule}-node_first"
        assert normalise_policy_name(name) == name
        assert is_clairvoyant(name, exact)
    for wrong, says in (
        (
            "fcfs+hbackfil_shortest-node_first",
            "no backfilling on nodes 'hbackfil_shortest'; did you mean 'hbackfill_shortest'",
        ),
        ("fcfs+hbackfillr-node_first", "no order of jobs that overtake ''"),
        ("fcfs+hbackfillr_shortst-node_first", "did you mean 'shortest'"),
        ("fcfs+backfillfit_time-node_first", "no fit of jobs on nodes 'time'; did you mean"),
        ("fcfs+backfillfit_time_best-node_energy_lowest", "no node selection 'node_energy_lowest'"),
    ):
        with pytest.raises(UnknownName, match=says):
            normalise_policy_name(wrong)

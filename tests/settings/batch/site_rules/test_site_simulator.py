"""The simulator of sites: each rule in a world that is solved by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hdrl.base.errors import OptionsError, SimulationError, WorkloadError
from hdrl.batch import read_platform, with_plain_rules
from hdrl.settings.batch.policies import simulate
from hdrl.settings.batch.simulation.trace import JobState
from hdrl.settings.batch.site_rules.conf import Nodes, Partition
from hdrl.settings.batch.site_rules.model import (
    ACCOUNT_DTYPE,
    OUTAGE_DTYPE,
    QOS_DTYPE,
    RESERVATION_DTYPE,
    DependencyKind,
    PriorityWeights,
    SchedulerParameters,
    unlimited,
)
from hdrl.settings.batch.workload.model import UNKNOWN
from hdrl.slurm.fidelity import POLICIES, fidelity
from hdrl.slurm.recorded import read_run
from tests.settings.batch.site_rules.worlds import machine, nodes_of, play, rules_with, starts, workload

RECORDED = Path(__file__).parents[5] / "shared" / "slurm" / "runs"

BLOCKED = (
    {"at": 0, "run": 100},
    {"at": 10, "cores": 2, "run": 50},
    {"at": 11, "run": 60},
    {"at": 12, "run": 200},
)
"""On two cores: one is free, the second job needs both, and of the last two only the first delays nothing."""


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fcfs", [0, 100, 150, 150]),
        ("fcfs+easy", [0, 100, 11, 150]),
        ("fcfs+conservative", [0, 100, 11, 150]),
        # The cycle at 30 s counts in minutes: the second job is planned for 120 s.
        ("slurm", [0, 100, 30, 150]),
    ],
)
def test_jobs_overtake_only_where_they_delay_nothing(policy: str, expected: list[float]):
    assert starts(machine(), workload(*BLOCKED), policy) == expected


def test_cycles_follow_at_the_interval_while_jobs_wait():
    jobs = workload({"run": 1000}, {"at": 10, "cores": 2}, {"at": 95, "run": 60}, {"at": 96, "run": 10})
    # Cycles at 0, 30, 60, ... as the second job waits; the third one starts at 120 s, the fourth finds no core then.
    assert starts(machine(), jobs, "slurm")[2:] == [120, 180]


def test_ends_of_jobs_within_one_window_are_one_when_slurm_looks_for_a_date():
    jobs = workload(
        {"run": 600},
        {"run": 1320},
        {"run": 1440},
        {"at": 1, "cores": 3},
        {"at": 2, "run": 6000},
    )
    # All windows begin at 630 s. The first, of 30 s, grows to 960 s to hold the end at 1,320 s, and holds 1,440 s, too.
    # So the cycle at 30 s plans the fourth job for 1,440 s, on the nodes that are in use, and leaves n4 to the fifth.
    assert starts(machine(Nodes("n[1-4]", 4, 1)), jobs, "slurm") == [0, 0, 0, 1440, 30]


def test_plans_are_rounded_down_to_the_resolution_at_both_ends():
    site = machine(Nodes("a[1-2]", 2, 1, features=("x",)), Nodes("b1", 1, 1))
    jobs = workload(
        {"at": 10, "run": 120},
        {"at": 10, "run": 120},
        {"at": 11, "cores": 2, "features": 1},
        {"at": 12, "cores": 3, "run": 600},
        {"at": 13, "run": 180},
    )
    # The cycle at 40 s plans the third job from 130 s to 190 s, and keeps its nodes from 120 s to 180 s. So it plans
    # the fourth one for 180 s, and the last one would be in its way, which could have ended at 220 s.
    assert starts(site, jobs, "slurm") == [10, 10, 130, 190, 790]


def test_jobs_beyond_their_limit_are_expected_to_run_as_long_again_without_a_limit_of_over_time():
    jobs = workload({"run": 200, "limit": 60}, {"at": 70, "cores": 2}, {"at": 71})
    # The cycle at 100 s plans the second job for 160 s, so that the third one cannot start on the other node.
    assert starts(machine(over_time_limit_s=np.inf), jobs, "slurm") == [0, 200, 260]


def test_slurm_plans_jobs_across_reservations_that_begin_after_their_first_possible_end():
    window = np.array([(660.0, 1260.0)], RESERVATION_DTYPE)
    site = machine(reservations=window, reservation_nodes=np.array([[True, False]]))
    jobs = workload({"run": 600}, {"at": 1, "cores": 2, "run": 120}, {"at": 2, "run": 780})
    # A start of the second job now would end before the reservation, so it is planned for 600 s, although it cannot
    # start then. Until 600 s, the third job would delay it.
    assert starts(site, jobs, "slurm") == [0, 1380, 600]


def test_easy_protects_the_first_job_and_conservative_backfilling_all():
    jobs = workload(
        {"cores": 2, "run": 100},
        {"at": 1, "cores": 3, "run": 100},
        {"at": 2, "cores": 4, "run": 100},
        {"at": 3, "cores": 1, "run": 300},
    )
    four = machine(Nodes("n[1-4]", 4, 1))
    assert starts(four, jobs, "fcfs+easy") == [0, 100, 303, 3]
    assert starts(four, jobs, "fcfs+conservative") == [0, 100, 200, 300]


def test_the_main_scheduler_looks_so_deep_only():
    site = machine(Nodes("n1", 1, 2), scheduler=SchedulerParameters(default_queue_depth=1, bf_interval_s=1e6))
    jobs = workload({"run": 10, "cores": 2}, {"at": 1, "run": 5}, {"at": 1, "run": 5})
    # At 10 s the first of the two alone is tried, at the next minute all are.
    assert starts(site, jobs, "slurm") == [0, 10, 15]


def test_a_blocked_partition_keeps_its_nodes_from_others():
    partitions = {"main": Partition(nodes="n[1-2]", is_default=True, priority=9), "wide": Partition(nodes="n[2-3]")}
    site = machine(
        Nodes("n[1-3]", 3, 1), partitions=partitions, weights=PriorityWeights(partition=100), kill_wait_s=0.0
    )
    jobs = workload(
        {"run": 600, "partitions": 1},
        {"at": 1, "cores": 2, "run": 60, "partitions": 1},
        {"at": 2, "run": 900, "partitions": 2},
        {"at": 3, "run": 900, "partitions": 2},
    )
    # n2 is the blocked job's; n3 goes to the third job, and the fourth waits for it.
    assert starts(site, jobs, "slurm") == [0, 600, 2, 660]


def test_jobs_that_are_shut_out_stop_no_partition():
    partitions = {"main": Partition(nodes="n[1-2]", is_default=True, priority=9), "wide": Partition(nodes="n[2-3]")}
    site = machine(Nodes("n[1-3]", 3, 1), partitions=partitions, weights=PriorityWeights(partition=100))
    jobs = workload(
        {"run": 6000, "partitions": 1},
        {"at": 1, "cores": 2, "run": 60, "partitions": 1},
        {"at": 2, "cores": 2, "run": 60, "partitions": 2},
        {"at": 3, "run": 60, "partitions": 2},
    )
    # The third job needs n2, which the second one keeps: it is no reason to keep the fourth one from n3.
    assert starts(site, jobs, "slurm")[3] == 3


@pytest.mark.parametrize(("asked", "expected"), [({}, 600), ({"nodes": 3}, 6120)])
def test_jobs_that_meet_whole_nodes_or_need_more_nodes_than_are_left_stop_their_partition(
    asked: dict[str, int], expected: float
):
    partitions = {"main": Partition(nodes="n[1-2]", is_default=True, priority=9), "wide": Partition(nodes="n[2-4]")}
    site = machine(
        Nodes("n[1-4]", 4, 1),
        partitions=partitions,
        weights=PriorityWeights(partition=100),
        scheduler=SchedulerParameters(bf_interval_s=1e6),
    )
    jobs = workload(
        {"run": 6000, "partitions": 1},
        {"run": 5, "partitions": 2},
        {"run": 600, "partitions": 2, "is_exclusive": 1},
        {"at": 6, "cores": 2, "partitions": 1},
        {"at": 7, "cores": 3, "partitions": 2, **asked},
        {"at": 8, "partitions": 2},
    )
    # The fourth job keeps n1 and n2, so that the fifth one is shut out. But until 600 s n3 is another job's as a whole,
    # and three nodes are more than two.
    assert starts(site, jobs, "slurm")[5] == expected


def test_higher_tiers_are_served_first():
    partitions = {"low": Partition(is_default=True), "high": Partition(tier=5)}
    site = machine(Nodes("n1", 1, 1), partitions=partitions)
    jobs = workload({"run": 100}, {"at": 1, "partitions": 1}, {"at": 2, "partitions": 2})
    assert starts(site, jobs, "slurm") == [0, 160, 100]


def test_jobs_of_several_partitions_take_the_first_that_fits():
    partitions = {"a": Partition(nodes="n1", is_default=True), "b": Partition(nodes="n2")}
    jobs = workload({"partitions": 3}, {"partitions": 3}, {"at": 1, "partitions": 1})
    assert nodes_of(machine(partitions=partitions), jobs, "fcfs")[:2] == [{0: 1}, {1: 1}]
    assert starts(machine(partitions=partitions), jobs, "fcfs") == [0, 0, 60]


def test_jobs_stay_within_the_max_wall_of_their_qos():
    site = machine(Nodes("n1", 1, 4), qos=qos(max_time_s=90))
    jobs = workload(
        {"run": 100, "limit": None, "qos": 0}, {"run": 50, "limit": 90, "qos": 0}, {"run": 50, "limit": 91, "qos": 0}
    )
    jobs.jobs["requested_time_s"][0] = UNKNOWN
    trace = play(site, jobs, "fcfs").trace
    # MaxWall is the limit of the first job, which asks for none; the third one asks for too much.
    assert trace.records["start_s"].tolist() == [0, 0, -1]
    assert trace.records["run_s"].tolist() == [90, 50, -1]
    assert [JobState(one).name for one in trace.records["state"][[0, 2]]] == ["COMPLETED_WALLTIME_REACHED", "REJECTED"]


def test_plans_expect_jobs_to_end_after_the_time_that_they_request_below_max_wall():
    site = machine(Nodes("n1", 1, 2), qos=qos(max_time_s=500), qos_names=("normal",))
    first = {"run": 100, "limit": None, "qos": 0}  # never killed, but it requests 100 s
    jobs = workload(first, {"cores": 2}, {"at": 1, "run": 300})
    assert starts(site, jobs, "fcfs+easy") == [0, 100, 160]


@pytest.mark.parametrize(("bf_busy_nodes", "expected"), [(False, 600), (True, 60)])
def test_backfilling_reserves_busy_nodes_first(*, bf_busy_nodes: bool, expected: float):
    # The fourth job is planned for 600 s on two of the three nodes: by default on n1 and n2, so that the last job must
    # not start on n1, which is idle; with bf_busy_nodes on n2 and n3.
    scheduler = SchedulerParameters(bf_busy_nodes=bf_busy_nodes, bf_interval_s=60.0)
    site = machine(Nodes("n[1-3]", 3, 2), scheduler=scheduler)
    jobs = workload(
        {"cores": 2, "run": 1, "limit": 600},
        {"cores": 2, "run": 600},
        {"cores": 2, "run": 600},
        {"at": 10, "cores": 4, "run": 60},
        {"at": 11, "cores": 2, "run": 900},
    )
    assert starts(site, jobs, "slurm")[4] == expected


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        # One node is enough: the one with the fewest free cores.
        ([{"cores": 5}, {"cores": 2}, {"cores": 3}], [{0: 5}, {0: 2}, {1: 3}]),
        # No node is enough: from the lowest one on, each filled before the next.
        ([{"cores": 2}, {"cores": 12}], [{0: 2}, {0: 6, 1: 6}]),
        # The smallest set of adjacent nodes that suffices.
        (
            [{"cores": 8}, {"cores": 8}, {"cores": 8, "run": 300}, {"at": 70, "cores": 8}],
            [{0: 8}, {1: 8}, {2: 8}, {3: 8}],
        ),
        # Two nodes at least.
        ([{"cores": 3, "nodes": 2}], [{0: 2, 1: 1}]),
        # Whole nodes.
        ([{"cores": 1}, {"cores": 3, "is_exclusive": 1}], [{0: 1}, {1: 8}]),
    ],
)
def test_nodes_are_chosen_as_by_cons_tres(jobs: list[dict[str, float]], expected: list[dict[int, int]]):
    assert nodes_of(machine(Nodes("n[1-4]", 4, 8)), workload(*jobs), "fcfs") == expected


def test_traces_hold_cores_ascending_whatever_set_of_nodes_is_taken_first():
    # The last job takes the third to fifth node, the largest set, before the first one.
    jobs = workload({"run": 10}, {"run": 100}, {"at": 20, "cores": 4})
    trace = play(machine(Nodes("n[1-5]", 5, 1)), jobs, "slurm").trace
    assert [trace.cores_of(job).tolist() for job in range(3)] == [[0], [1], [0, 2, 3, 4]]


def test_light_nodes_and_features_come_first():
    site = machine(Nodes("a", 1, 2, weight=9, features=("big",)), Nodes("b", 1, 2, weight=1))
    jobs = workload({"cores": 1}, {"cores": 1, "features": 1}, {"cores": 2})
    assert nodes_of(site, jobs, "fcfs")[:2] == [{1: 1}, {0: 1}]


def test_jobs_start_once_what_they_wait_for_has_happened():
    kinds = (DependencyKind.AFTER, DependencyKind.AFTER_OK, DependencyKind.AFTER_ANY, DependencyKind.AFTER_NOT_OK)
    after = tuple((job, 0, int(kind), 60.0 * (job == 1)) for job, kind in enumerate(kinds, start=1))
    jobs = workload(
        {"run": 100, "limit": 50},
        *({"at": 1, "run": 10} for _ in range(4)),
        {"at": 1, "run": 10, "begin_s": 500.0},
        {"at": 1, "run": 10, "held_until_s": 600.0},
        after=after,
    )
    trace = play(machine(Nodes("n1", 1, 8)), jobs, "fcfs").trace
    # The first job reaches its limit at 50 s, so that afterok is never fulfilled.
    assert trace.records["start_s"].tolist() == [0, 60, -1, 50, 50, 500, 600]
    assert trace.records["state"][0] == JobState.COMPLETED_WALLTIME_REACHED
    assert trace.records["state"][2] == JobState.REJECTED


def test_jobs_made_eligible_by_a_start_wait_for_the_next_pass():
    # The second job may run once the first one has started. A pass has made its queue before, so that the third one,
    # which comes later but is in the queue, takes the free core.
    jobs = workload(
        {"cores": 2, "run": 10},
        {"at": 1, "run": 100},
        {"at": 2, "run": 10},
        {"at": 3, "run": 50},
        after=((2, 1, int(DependencyKind.AFTER), 0.0),),
    )
    assert starts(machine(), jobs, "fcfs") == [0, 10, 60, 10]


def test_large_numbers_of_arrays_and_users_need_no_room():
    largest = 2**31 - 1
    jobs = workload(*({"array": largest - k // 2, "array_limit": 1, "user": largest} for k in range(4)))
    state = play(machine(), jobs, "slurm")._state
    assert state is not None
    assert (len(state.arrays), len(state.user_tests)) == (2, 1)
    assert state.jobs["start_s"].tolist() == starts(
        machine(), workload(*({"array": k // 2, "array_limit": 1, "user": 0} for k in range(4))), "slurm"
    )


def test_arrays_run_so_many_tasks_at_a_time():
    jobs = workload(*({"array": 0, "array_limit": 2} for _ in range(5)), {"at": 1})
    assert starts(machine(Nodes("n1", 1, 8)), jobs, "fcfs") == [0, 0, 60, 60, 120, 1]


@pytest.mark.parametrize("policy", ["slurm", "fcfs"])
def test_a_job_that_is_cancelled_when_it_comes_never_starts(policy: str):
    jobs = workload({"at": 5, "cancelled_s": 5.0}, {"at": 5}, after=((1, 0, DependencyKind.AFTER_ANY, 0.0),))
    assert starts(machine(), jobs, policy) == [-1, 5]


def test_users_cancel_jobs_that_wait_and_jobs_that_run():
    jobs = workload(
        {"run": 100, "cancelled_s": 40.0}, {"at": 1, "cores": 2, "cancelled_s": 20.0}, {"at": 2, "cores": 2}
    )
    trace = play(machine(), jobs, "fcfs").trace
    assert trace.records["start_s"].tolist() == [0, -1, 40]
    assert trace.records["run_s"].tolist() == [40, -1, 60]
    assert [JobState(one).name for one in trace.records["state"][:2]] == ["COMPLETED_KILLED", "REJECTED"]


def test_limits_have_a_grace():
    jobs = workload({"run": 500, "limit": 60}, {"run": 100, "limit": 60})
    site = machine(over_time_limit_s=30.0, kill_wait_s=20.0)
    trace = play(site, jobs, "fcfs").trace
    assert trace.records["run_s"].tolist() == [110, 100]
    assert {JobState(one).name for one in trace.records["state"]} == {"COMPLETED_WALLTIME_REACHED"}
    assert play(rules_with(site, over_time_limit_s=40.0), jobs, "fcfs").trace.records["state"][1] == 3


@pytest.mark.parametrize("policy", ["fcfs", "fcfs+easy", "fcfs+conservative", "slurm"])
def test_jobs_that_would_reach_into_a_reservation_wait(policy: str):
    reservation = np.array([(1000.0, 2000.0)], RESERVATION_DTYPE)
    site = machine(reservations=reservation, reservation_nodes=np.array([[True, True]]))
    jobs = workload({"at": 700, "run": 300, "limit": 300}, {"at": 700, "run": 10, "limit": 360}, {"at": 800, "run": 60})
    assert starts(site, jobs, policy) == [700, 2000, 800]


def test_slurm_plans_jobs_from_the_next_step_of_its_map_after_a_reservation():
    reservation = np.array([(0.0, 609.0)], RESERVATION_DTYPE)
    site = machine(Nodes("n[1-3]", 3, 1), reservations=reservation, reservation_nodes=np.array([[False, True, False]]))
    jobs = workload(
        {"run": 9000, "limit": 9000},
        {"at": 1, "cores": 3, "run": 60, "limit": 60},
        {"at": 2, "cores": 2, "run": 60, "limit": 60},
        {"at": 3, "run": 600, "limit": 600},
    )
    # The third job is planned for 661 s, so that the last one, which ends after the reservation, may run before it.
    _, _, third_s, last_s = starts(site, jobs, "slurm")
    assert last_s < 60
    assert third_s >= last_s + 600


def qos(**limits: int) -> np.ndarray:
    rows = unlimited(QOS_DTYPE, 1)
    for name, value in limits.items():
        rows[name] = value
    return rows


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, [0, 0, 0, 0]),
        ({"group_jobs": 3}, [0, 0, 0, 60]),
        ({"group_cores": 2}, [0, 0, 60, 60]),
        ({"user_jobs": 1}, [0, 60, 0, 60]),
        ({"user_cores": 1}, [0, 60, 0, 60]),
        ({"user_submitted": 1}, [0, -1, 0, -1]),
    ],
)
def test_limits_of_a_qos_count(limits: dict[str, int], expected: list[float]):
    site = machine(Nodes("n1", 1, 8), qos=qos(**limits), qos_names=("normal",))
    jobs = workload(*({"qos": 0, "user": user} for user in (1, 1, 2, 2)))
    assert starts(site, jobs, "slurm") == expected


def accounts(*rows: tuple[int, int], **limits: int) -> np.ndarray:
    found = unlimited(ACCOUNT_DTYPE, len(rows))
    for account, (parent, shares) in enumerate(rows):
        found["parent"][account], found["shares"][account] = parent, shares
    for name, value in limits.items():
        found[name][0] = value
    return found


def test_limits_of_an_account_hold_for_those_below_it():
    site = machine(Nodes("n1", 1, 8), accounts=accounts((-1, 1), (0, 1), group_cores=2), account_names=("all", "part"))
    jobs = workload({"account": 1, "user": 1}, {"account": 0, "user": 2}, {"account": 1, "user": 3}, {"user": 4})
    assert starts(site, jobs, "slurm") == [0, 0, 60, 0]


def test_an_account_limits_the_cores_of_each_job_of_it_and_of_those_below_it():
    site = machine(Nodes("n1", 1, 8), accounts=accounts((-1, 1), (0, 1), job_cores=2), account_names=("all", "part"))
    jobs = workload(*({"account": 1, "cores": cores, "user": 1} for cores in (3, 2, 2)), {"cores": 4})
    assert starts(site, jobs, "slurm") == [-1, 0, 0, 0]


def test_jobs_beyond_the_limit_of_a_group_are_rejected_and_delay_nothing():
    site = machine(Nodes("n1", 1, 8), accounts=accounts((-1, 1), group_cores=2), account_names=("all",))
    jobs = workload({"account": 0, "cores": 3}, {"account": 0, "cores": 2})
    assert starts(site, jobs, "fcfs") == [-1, 0]


def test_users_inherit_the_limits_of_accounts_on_each_user():
    names = ("all", "part")
    site = machine(Nodes("n1", 1, 8), accounts=accounts((-1, 1), (0, 1), user_jobs=1), account_names=names)
    jobs = workload(*({"account": 1, "user": user} for user in (1, 1, 2)), {"account": 0, "user": 1})
    # MaxJobs of "all" holds for each user in each account below it, and not for the account as a whole.
    assert starts(site, jobs, "slurm") == [0, 60, 0, 0]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, [0, 60, 0, 60]),
        ({"user_jobs": 2}, [0, 0, 0, 60]),
        ({"user_jobs": 3, "group_cores": 1}, [0, 60, 0, 60]),
        ({"user_jobs": 3, "group_jobs": 1}, [0, 60, 0, 60]),
        ({"user_jobs": 3, "job_cores": 0}, [-1, -1, 0, 60]),
        ({"user_jobs": 3, "max_time_s": 59}, [-1, -1, 0, 60]),
        ({"user_jobs": 3, "user_submitted": 1}, [0, -1, 0, 60]),
        ({"user_jobs": 3, "group_submitted": 1}, [0, -1, 0, 60]),
    ],
)
def test_limits_of_a_user_in_an_account_count_there(limits: dict[str, float], expected: list[float]):
    association = unlimited(ACCOUNT_DTYPE, 1)
    association["parent"] = 1
    for name, value in limits.items():
        association[name] = value
    site = machine(
        Nodes("n1", 1, 8),
        accounts=accounts((-1, 1), (0, 1), user_jobs=1),
        account_names=("all", "part"),
        associations=association,
        association_names=("part/ann",),
    )
    # Ann is user 1, whose jobs in "all" (none here) and those of user 2 obey the limit of the account.
    mine = {"account": 1, "user": 1, "association": 0}
    assert starts(site, workload(mine, mine, *[{"account": 1, "user": 2}] * 2), "slurm") == expected


def test_limits_of_a_qos_replace_those_of_accounts_of_the_same_kind():
    both = {"accounts": accounts((-1, 1), group_jobs=1, user_jobs=1), "account_names": ("all",), "qos_names": ("q",)}
    jobs = workload(*({"account": 0, "qos": 0, "user": user} for user in (1, 1, 2, 2)))
    for limits, expected in (
        ({}, [0, 60, 120, 180]),
        ({"group_jobs": 3}, [0, 60, 0, 60]),
        ({"group_jobs": 3, "user_jobs": 2}, [0, 0, 0, 60]),
        ({"user_jobs": 2}, [0, 60, 120, 180]),
        ({"group_cores": 8}, [0, 60, 120, 180]),
    ):
        site = machine(Nodes("n1", 1, 8), qos=qos(**limits), **both)
        assert starts(site, jobs, "slurm") == expected, limits


@pytest.mark.parametrize(
    ("is_over_partition", "expected"),
    [
        # Two jobs of the partition run, of each user one; the QOS of jobs replaces neither.
        (0, [0, 60, 0, 0]),
        # Three jobs that have a QOS, in the other partition, too; the user limit is still that of the partition.
        (1, [0, 60, 0, 0]),
    ],
)
def test_the_qos_of_a_partition_limits_all_its_jobs(*, is_over_partition: int, expected: list[float]):
    rows = unlimited(QOS_DTYPE, 2)
    rows["group_jobs"], rows["user_jobs"][0], rows["is_over_partition"][1] = (2, 3), 1, is_over_partition
    partitions = {"main": Partition(is_default=True), "free": Partition()}
    site = machine(Nodes("n1", 1, 8), partitions=partitions, qos=rows, qos_names=("limited", "long"))
    site = replace(site, site=replace(site.site, partitions=_with_qos(site.site.partitions, 0)))
    jobs = workload({"qos": 1, "user": 1}, {"qos": 1, "user": 1}, {"user": 2}, {"qos": 1, "user": 1, "partitions": 2})
    assert starts(site, jobs, "slurm") == expected


def _with_qos(partitions: np.ndarray, qos: int) -> np.ndarray:
    found = partitions.copy()
    found["qos"][0] = qos
    return found


@pytest.mark.parametrize(("is_over_partition", "expected"), [(0, [0, 60, 120]), (1, [0, 0, 60])])
def test_a_qos_over_that_of_the_partition_decides_first(*, is_over_partition: int, expected: list[float]):
    rows = unlimited(QOS_DTYPE, 2)
    rows["group_jobs"], rows["is_over_partition"][1] = (1, 2), is_over_partition
    site = machine(Nodes("n1", 1, 8), qos=rows, qos_names=("limited", "long"))
    site = replace(site, site=replace(site.site, partitions=_with_qos(site.site.partitions, 0)))
    assert starts(site, workload(*[{"qos": 1}] * 3), "slurm") == expected


def test_limits_of_gpus_count_gpus_of_all_nodes():
    rows = qos(group_gpus=4)
    rows["user_gpus"], rows["job_gpus"] = 2, 3
    site = machine(Nodes("n[1-4]", 4, 8, gpus=4), qos=rows, qos_names=("normal",))
    one, two = {"qos": 0, "gpus": 1}, {"qos": 0, "gpus": 1, "nodes": 2, "cores": 2}
    jobs = workload({**two, "user": 1}, {**one, "user": 1}, {**one, "user": 2}, {**two, "user": 3}, {**one, "gpus": 4})
    # User 1 has its two; user 3 would make it five of the QOS; the last job alone exceeds MaxTRES.
    assert starts(site, jobs, "slurm") == [0, 60, 0, 60, -1]


def test_the_multifactor_priority_adds_its_factors():
    partitions = {"main": Partition(is_default=True, priority=5), "best": Partition(priority=10)}
    weights = PriorityWeights(age=1000, max_age_s=1000.0, job_size=1000, partition=100, calc_period_s=60.0)
    site = machine(Nodes("n[1-2]", 2, 4), partitions=partitions, weights=weights)
    jobs = workload(
        {"cores": 8, "run": 600},
        {"at": 400, "cores": 8, "nice": 7},
        {"at": 401, "cores": 8, "partitions": 2},
        {"at": 402, "cores": 8, "site_factor": 9},
        {"at": 1, "cores": 1, "run": 10},
    )
    state = play(site, jobs, "multifactor")._state
    assert state is not None
    assert state.jobs["start_s"].tolist() == [0, 720, 600, 660, 780]
    # When each started: age, size (a share of the nodes and of the cores), partition, site factor and nice
    expected = [320 + 750 + 50 - 7, 199 + 750 + 100, 258 + 750 + 50 + 9, 779 + 312 + 50]
    assert state.entries["priority"][1:].tolist() == expected


FAIR = (
    {"run": 100, "account": 0, "user": 1},
    {"run": 300, "account": 0, "user": 2},
    {"run": 500, "account": 1, "user": 3},
)
"""On one core, one after the other until 900 s: account A (40 shares) uses 400 core seconds, B (60) uses 500."""


@pytest.mark.parametrize(
    ("is_fair_tree", "expected"),
    [
        # A has a level share of 0.4 / (400/900) = 0.9, B of 0.6 / (500/900) = 1.08; of A's users one has 2, one 0.67.
        (True, [2 / 3, 1 / 3, 1.0]),
        # Effective usage: of B 5/9; of A's users 1/9 + (4/9 - 1/9)/2 = 5/18 and 3/9 + (4/9 - 3/9)/2 = 7/18.
        (False, [2 ** (-(5 / 18) / 0.2), 2 ** (-(7 / 18) / 0.2), 2 ** (-(5 / 9) / 0.6)]),
    ],
)
def test_users_who_have_used_less_than_their_share_come_first(*, is_fair_tree: bool, expected: list[float]):
    weights = PriorityWeights(fairshare=1000, is_fair_tree=is_fair_tree, half_life_s=0.0, calc_period_s=300.0)
    site = machine(Nodes("n1", 1, 1), accounts=accounts((-1, 40), (-1, 60)), account_names=("A", "B"), weights=weights)
    later = [
        {"at": 850, "run": 1, "account": one["account"], "user": one["user"]} for one in (FAIR[1], FAIR[0], FAIR[2])
    ]
    simulator = play(site, workload(*FAIR, *later), "multifactor")
    assert simulator.trace.records["start_s"].tolist() == [0, 100, 400, 902, 901, 900]
    assert simulator._state is not None
    assert simulator._state.account_users["factor"] == pytest.approx(expected)


def test_users_have_the_shares_of_their_associations():
    weights = PriorityWeights(fairshare=1000, half_life_s=0.0, calc_period_s=150.0)
    site = machine(
        Nodes("n1", 1, 1),
        accounts=accounts((-1, 1)),
        account_names=("A",),
        associations=accounts((0, 4)),
        association_names=("A/ann",),
        weights=weights,
    )
    used = ({"run": 300, "account": 0, "user": 1, "association": 0}, {"run": 150, "account": 0, "user": 2})
    later = [{"at": 440, "run": 1, **{name: one[name] for name in one if name != "run"}} for one in used[::-1]]
    # User 1 has four of five shares and two thirds of the usage, user 2 one of five shares and a third of the usage.
    assert starts(site, workload(*used, *later), "multifactor") == [0, 300, 451, 450]


def test_a_user_who_ties_with_an_account_has_the_rank_of_its_first_user():
    weights = PriorityWeights(fairshare=1000, half_life_s=0.0, calc_period_s=300.0)
    site = machine(
        Nodes("n1", 1, 1), accounts=accounts((-1, 1), (0, 1)), account_names=("all", "part"), weights=weights
    )
    used = ({"run": 300, "user": 1, "account": 0}, {"run": 100, "user": 2}, {"run": 200, "user": 3})
    jobs = workload(*({"account": 1, **one} for one in used), {"at": 601, "user": 1, "account": 0})
    state = play(site, jobs, "multifactor")._state
    assert state is not None
    # User 1 has used half of 600 core seconds, "part" the other half, and user 2 less of it than user 3.
    assert state.account_users["factor"].tolist() == [1, 1, 1 / 3]


def test_usage_halves_in_half_a_life():
    weights = PriorityWeights(fairshare=1000, half_life_s=300.0, calc_period_s=300.0)
    site = machine(Nodes("n1", 1, 1), accounts=accounts((-1, 1)), account_names=("A",), weights=weights)
    jobs = workload({"run": 300, "account": 0, "user": 1}, {"at": 899, "account": 0, "user": 1}, {"at": 901})
    state = play(site, jobs, "multifactor")._state
    assert state is not None
    # 300 core seconds at 300 s, a quarter of them at 900 s; of the second job one second before that, the rest after it
    assert state.accounts["usage"].tolist() == [75 + 1 + 59]


def test_what_is_not_simulated_is_refused_by_name():
    with pytest.raises(WorkloadError, match="job '0' needs 3 cores; partition 'all' has 2"):
        starts(machine(), workload({"cores": 3}), "slurm")


@pytest.mark.parametrize("policy", ["fcfs+easy@geo/all", "sjf+easy~off600", "shortest-random"])
def test_policies_that_it_does_not_know_are_refused(policy: str):
    with pytest.raises(SimulationError, match=f"^'{re.escape(policy)}': .* expected for instance 'sjf\\+easy'"):
        simulate(machine(), workload({}), policy, energy=False)


def test_jobs_on_a_node_that_fails_begin_anew():
    site = machine(outages=np.array([(0, 10.0, 500.0, 0)], OUTAGE_DTYPE))
    jobs = workload({"run": 100}, {"run": 100}, {"at": 1, "run": 50})
    trace = play(site, jobs, "fcfs").trace
    # The first job is eligible again at 131 s, after the third one has taken the other node.
    assert trace.records["start_s"].tolist() == [150, 0, 100]
    assert (trace.info["n_requeued"], trace.info["lost_core_s"]) == (1, 10.0)
    assert [trace.cores_of(job).tolist() for job in range(3)] == [[1], [1], [1]]


def test_drained_nodes_start_nothing():
    site = machine(Nodes("n1", 1, 1), outages=np.array([(0, 10.0, 200.0, 1)], OUTAGE_DTYPE))
    assert starts(site, workload({"run": 100}, {"at": 1}), "slurm") == [0, 200]


def test_a_machine_without_rules_is_one_partition_with_slurms_defaults():
    plain, jobs = replace(machine(), site=None), replace(workload(*BLOCKED), site=None)
    trace = simulate(plain, jobs, "slurm", energy=False)
    assert trace.records["start_s"].tolist() == [0, 100, 30, 150]
    assert trace.info["simulator"] == "site"
    with pytest.raises(OptionsError, match="exact"):
        simulate(plain, jobs, "slurm", simulator="exact")


RECORDED_RUNS = [("plain-101", 0.6, 0.04), ("partitions-201", 0.6, 0.04), ("mixed-301", 1.5, 0.05)]
"""Recorded runs of a real Slurm: how many percent of the pairs may start in another order, and how far mean waits may
differ. Where nobody knows when backfill cycles fell, that is as near as two equal runs of Slurm come."""


@pytest.mark.skipif(not RECORDED.exists(), reason="there are no recorded runs")
@pytest.mark.parametrize(("name", "most_pairs", "most_wait"), RECORDED_RUNS)
def test_slurm_starts_jobs_as_a_real_slurm_did(name: str, most_pairs: float, most_wait: float):
    found = {policy: one for policy, (one,) in fidelity([read_run(RECORDED / name)], POLICIES, print).distances.items()}
    assert 100 * found["slurm"].discordant_share <= most_pairs
    assert found["slurm"].wait_ratio == pytest.approx(1, abs=most_wait)
    others = (found["fcfs+easy"], found["fcfs+conservative"])
    assert found["slurm"].discordant_share < min(one.discordant_share for one in others)


def test_the_processors_of_a_machine_of_one_node_are_its_nodes():
    jobs = replace(
        workload({"run": 600}, {"at": 1, "cores": 4, "run": 60}, {"at": 2, "cores": 2, "run": 60}), site=None
    )
    platform = read_platform("homogeneous:4")
    # The third job leaves the one core that the first one has; on one node it would wait for the second one, too.
    assert simulate(platform, jobs, "slurm", energy=False).records["start_s"].tolist() == [0, 600, 30]


def test_nodes_of_unknown_memory_have_room_for_any_job():
    platform = with_plain_rules(replace(machine(Nodes("n[1-2]", 2, 4)), site=None))
    assert platform.site.nodes["memory_mib"].min() > 2**31 * 256  # slurm.conf says no RealMemory
    jobs = workload({"cores": 8})
    jobs.jobs["memory_mib"] = 256.0
    assert simulate(platform, jobs, "fcfs").records["start_s"].tolist() == [0]

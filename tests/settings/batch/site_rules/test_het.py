"""Het jobs in small worlds, solved by hand: components with wishes of their own that start together."""

from __future__ import annotations

import numpy as np
import pytest

from hdrl.base.errors import SimulationError
from hdrl.batch import check_fits, fits
from hdrl.settings.batch.simulation.trace import JobState
from hdrl.settings.batch.site_rules.conf import Nodes, Partition
from hdrl.settings.batch.site_rules.model import OUTAGE_DTYPE, DependencyKind, HetjobPrio, SchedulerParameters

from .test_site_simulator import qos
from .worlds import machine, nodes_of, play, starts, workload

TWO_PARTITIONS = {"a": Partition(nodes="n1", is_default=True), "b": Partition(nodes="n2")}


def test_components_start_together_and_keep_nodes_until_then():
    jobs = workload(
        {"run": 90},
        {"at": 10, "het_group": 7},
        {"at": 10, "het_group": 7},
        {"at": 20, "run": 30},
    )
    # Cycles come at 0, 30 and 90 s, when the first job has ended. That at 30 s plans the first component for now, on
    # n2, and the second one for 120 s: the limit of the job on n1, in whole minutes. The first one keeps n2, so that
    # the last job does not start there. At 90 s both are planned for now, and start. They end at 150 s.
    assert starts(machine(), jobs, "slurm") == [0, 90, 90, 150]


def test_components_end_each_on_its_own():
    jobs = workload(
        {"partitions": 1, "run": 60, "het_group": 0},
        {"partitions": 2, "run": 200, "het_group": 0},
        {"at": 5, "partitions": 1},
        {"at": 5, "partitions": 2},
    )
    site = machine(partitions=TWO_PARTITIONS)
    assert starts(site, jobs, "slurm") == [0, 0, 60, 200]
    assert nodes_of(site, jobs, "slurm")[:2] == [{0: 1}, {1: 1}]


def test_a_dependency_is_on_the_first_component_and_its_own_one_holds_all_of_them():
    after_any = int(DependencyKind.AFTER_ANY)
    jobs = workload(
        {"run": 50},
        {"at": 1, "run": 30, "het_group": 3},
        {"at": 1, "run": 300, "het_group": 3},
        {"at": 2, "run": 10},
        after=((1, 0, after_any, 0.0), (3, 1, after_any, 0.0)),
    )
    # The het job waits for the first job, though only its first component says so. The cycle follows the end at once.
    assert starts(machine(Nodes("n[1-4]", 4, 1)), jobs, "slurm") == [0, 50, 50, 80]


@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize(("cancelled_s", "expected"), [(30.0, [0, -1, -1, 90]), (130.0, [0, 90, 90, 130])])
def test_cancelling_a_component_cancels_all(which: int, cancelled_s: float, expected: list[float]):
    # They wait for the end of the first job at 90 s, and would end at 150 s; the last job needs both nodes.
    jobs = [{"run": 90}, {"at": 10, "het_group": 1}, {"at": 10, "het_group": 1}, {"at": 20, "cores": 2, "run": 30}]
    jobs[which]["cancelled_s"] = cancelled_s
    trace = play(machine(), workload(*jobs), "slurm").trace
    assert trace.records["start_s"].tolist() == expected
    assert {JobState(one).name for one in trace.records["state"][1:3]} == {
        "REJECTED" if cancelled_s < 100 else "COMPLETED_KILLED"
    }


@pytest.mark.parametrize(("group", "expected"), [(-1, [0, 1, 1, 61]), (5, [0, 30, 30, 90])])
def test_only_cycles_start_components_and_the_main_scheduler_stops_at_them(group: int, expected: list[float]):
    jobs = workload(
        {"run": 100},
        {"at": 1, "het_group": group},
        {"at": 1, "het_group": group},
        {"at": 2, "run": 10},
    )
    # Two nodes are idle, on which jobs start at once. Components wait for the cycle at 30 s; until then the last job
    # does not start either.
    assert starts(machine(Nodes("n[1-3]", 3, 1)), jobs, "slurm") == expected


def test_a_node_that_fails_takes_the_whole_het_job_with_it():
    site = machine(Nodes("n[1-3]", 3, 1), outages=np.array([(0, 10.0, 500.0, 0)], OUTAGE_DTYPE))
    jobs = workload({"run": 100, "het_group": 2}, {"run": 60, "het_group": 2})
    trace = play(site, jobs, "slurm").trace
    # Both are eligible again at 131 s, and start in the cycle of that date.
    assert trace.records["start_s"].tolist() == [131, 131]
    assert (trace.info["n_requeued"], trace.info["lost_core_s"]) == (2, 20.0)


@pytest.mark.parametrize(("cores", "expected"), [(3, [0, 0, 0]), (2, [60, 60, 0]), (1, [-1, -1, 0])])
def test_limits_hold_for_all_components_at_once(cores: int, expected: list[float]):
    site = machine(Nodes("n[1-3]", 3, 1), qos=qos(group_cores=cores), qos_names=("normal",))
    jobs = workload({"qos": 0, "het_group": 0}, {"qos": 0, "het_group": 0}, {"qos": 0})
    # A cycle starts the last job before any het job. Under a limit of one core its components can never start together:
    # with nothing left to wait for, they end.
    assert starts(site, jobs, "slurm") == expected


@pytest.mark.parametrize(
    ("prio", "first", "second", "is_first"),
    [
        ("MIN", (9, 1), (8, 4), False),
        ("AVG", (9, 1), (8, 4), False),
        ("MAX", (9, 1), (8, 4), True),
        ("MIN", (9, 3), (5, 5), False),
        ("AVG", (9, 3), (5, 5), True),
        ("AVG", (5, 4), (4, 4), True),  # 4.5 counts as 4, so that the first submission decides
        ("AVG", (4, 4), (5, 4), True),
        ("MAX", (9, 3), (5, 5), True),
    ],
)
def test_components_are_planned_one_after_the_other_by_one_priority(prio, first, second, is_first):
    jobs = workload(
        *({"partitions": 1 + i, "site_factor": factor, "het_group": 0} for i, factor in enumerate(first)),
        *({"partitions": 1 + i, "site_factor": factor, "het_group": 1} for i, factor in enumerate(second)),
        {"partitions": 1, "site_factor": 1},
    )
    site = machine(partitions=TWO_PARTITIONS, scheduler=SchedulerParameters(bf_hetjob_prio=HetjobPrio[prio]))
    # One het job starts in the first cycle, the other one when it has ended after a minute, the last job then.
    assert starts(site, jobs, "slurm") == ([0, 0, 60, 60] if is_first else [60, 60, 0, 0]) + [120]


def test_one_priority_keeps_another_job_from_coming_between_components():
    jobs = workload(
        {"partitions": 1, "site_factor": 9, "het_group": 0},
        {"partitions": 2, "site_factor": 1, "het_group": 0},
        {"partitions": 2, "site_factor": 5, "run": 300},
    )
    # The last job has a higher priority than the second component, but the largest of the components counts for both.
    # It is tried by the main scheduler at 0 s, which stops at components, and by the cycles.
    limits = {"default_queue_depth": 1}
    for prio, expected in (
        (HetjobPrio.OFF, [300, 300, 0]),
        (HetjobPrio.MAX, [0, 0, 60]),
        (HetjobPrio.MIN, [300, 300, 0]),
    ):
        site = machine(partitions=TWO_PARTITIONS, scheduler=SchedulerParameters(bf_hetjob_prio=prio, **limits))
        assert starts(site, jobs, "slurm") == expected


def test_higher_tiers_of_components_count_for_all():
    partitions = {"a": Partition(nodes="n1", is_default=True), "b": Partition(nodes="n2", tier=5)}
    jobs = workload(
        {"partitions": 1, "het_group": 0},
        {"partitions": 2, "het_group": 0},
        {"partitions": 2, "run": 120, "site_factor": 9},
    )
    scheduler = SchedulerParameters(bf_hetjob_prio=HetjobPrio.MIN, default_queue_depth=1)
    # The lowest tier of the het job is 1, that of the other job is 5.
    assert starts(machine(partitions=partitions, scheduler=scheduler), jobs, "slurm") == [120, 120, 0]
    scheduler = SchedulerParameters(bf_hetjob_prio=HetjobPrio.MAX, default_queue_depth=1)
    # Both have tier 5; the other job has the higher priority.
    assert starts(machine(partitions=partitions, scheduler=scheduler), jobs, "slurm") == [120, 120, 0]


def test_het_jobs_that_keep_nodes_from_each_other_start_once_nothing_else_will_happen():
    jobs = workload(
        {"partitions": 1, "site_factor": 9, "het_group": 0},
        {"partitions": 2, "site_factor": 1, "het_group": 0},
        {"partitions": 2, "site_factor": 8, "het_group": 1},
        {"partitions": 1, "site_factor": 1, "het_group": 1},
    )
    # Each has the first place in one partition and waits for the other one in the other partition.
    assert starts(machine(partitions=TWO_PARTITIONS), jobs, "slurm") == [0, 0, 60, 60]


def test_a_component_that_takes_the_only_node_of_another_one_lets_it_choose_first_in_the_end():
    partitions = {"all": Partition(is_default=True), "small": Partition(nodes="n1")}
    site = machine(partitions=partitions)
    jobs = workload({"partitions": 1, "het_group": 0}, {"partitions": 2, "het_group": 0}, {"at": 1, "partitions": 2})
    assert fits(jobs, site).all()
    # The first component is planned on n1, whose end the second one waits for: so it would go on without end.
    assert starts(site, jobs, "slurm")[:2] == [30, 30]
    assert nodes_of(site, jobs, "slurm")[:2] == [{1: 1}, {0: 1}]


def test_easy_reserves_for_all_components_of_the_first_job():
    jobs = workload(
        {"run": 100},
        {"at": 1, "het_group": 0},
        {"at": 1, "het_group": 0},
        {"at": 2, "run": 200},
        {"at": 3, "run": 200},
    )
    # The second component gets n2 from 100 s on; else one of the last two jobs would start there at 2 s.
    site = machine()
    assert starts(site, jobs, "fcfs+easy") == [0, 100, 100, 160, 160]
    assert starts(site, jobs, "fcfs+conservative") == [0, 100, 100, 160, 160]


def test_without_backfilling_het_jobs_are_refused():
    with pytest.raises(SimulationError, match=r"only backfilling starts heterogeneous jobs .* expected 'slurm'"):
        starts(machine(), workload({"het_group": 1}, {"het_group": 1}), "fcfs")
    assert starts(machine(), workload({"het_group": 1}, {}), "fcfs") == [0, 0]  # all others are outside of a window


def test_components_need_nodes_of_their_own():
    site = machine(Nodes("n[1-2]", 2, 8))
    jobs = workload({"het_group": 0}, {"cores": 9, "het_group": 0}, {"at": 5})
    assert fits(jobs, site).tolist() == [False, False, True]
    assert check_fits(jobs, site, oversized="drop").n_jobs == 1
    with pytest.raises(Exception, match="beside the other components of its het job"):
        check_fits(jobs, site)
    # In a simulation they end once nothing else will happen; until then one of them keeps its node.
    assert starts(site, jobs, "slurm")[:2] == [-1, -1]

"""Preemption: jobs that take the nodes of others, each rule in a world that is solved by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hdrl.base.errors import SimulationError
from hdrl.batch import Platform
from hdrl.settings.batch.simulation.trace import BatchTrace, JobState
from hdrl.settings.batch.site_rules import simulator
from hdrl.settings.batch.site_rules.conf import Nodes, Partition, SiteConf
from hdrl.settings.batch.site_rules.model import (
    ACCOUNT_DTYPE,
    QOS_DTYPE,
    PreemptBy,
    Preemption,
    PreemptMode,
    PriorityWeights,
    SiteRules,
    unlimited,
)
from hdrl.settings.batch.site_rules.rules import ignored_parameters, rules_of
from hdrl.settings.batch.site_rules.simulator import check_rules
from tests.settings.batch.site_rules.worlds import machine, play, rules_with, starts, workload

LOW, HIGH = 1, 2
"""The partitions that jobs name."""


def tiers(mode: str, *nodes: Nodes, grace_s: float = 0.0, **preemption: Any) -> Platform:
    """Return a machine whose high partition preempts the jobs of the low one; by default two nodes of one core."""
    partitions = {
        "low": Partition(is_default=True, preempt_mode=mode, grace_s=grace_s),
        "high": Partition(tier=2, preempt_mode="off"),
    }
    rules = rules_of(SiteConf("small", nodes or (Nodes("n[1-2]", 2, 1),), partitions))
    site = machine(*nodes, partitions=partitions, preemption=Preemption(by=PreemptBy.PARTITION, **preemption))
    return rules_with(site, partitions=rules.partitions)


def traced(site: Platform, *jobs: dict[str, Any], policy: str = "fcfs") -> BatchTrace:
    return play(site, workload(*jobs), policy).trace


@pytest.mark.parametrize("policy", ["fcfs", "fcfs+easy", "fcfs+conservative", "slurm"])
def test_a_requeued_job_begins_anew_two_minutes_later(policy: str):
    trace = traced(
        tiers("requeue"), {"run": 100}, {"run": 100}, {"at": 30, "run": 50, "partitions": HIGH}, policy=policy
    )
    # Both have one node; the one that was submitted first goes, is eligible again at 151 s and starts at once.
    later_s = 151.0 if policy != "slurm" else trace.records["start_s"][0]
    assert trace.records["start_s"].tolist() == [later_s, 0, 30]
    assert 151 <= later_s <= 240
    assert (trace.info["n_preempted"], trace.info["preempted_core_s"]) == (1, 30.0)
    assert trace.records["run_s"].tolist() == [100, 100, 50]


def test_a_restart_costs_time():
    site = tiers("requeue", restart_s=20.0)
    trace = traced(site, {"run": 100, "limit": 200, "cores": 2}, {"at": 30, "run": 50, "partitions": HIGH})
    assert trace.records["run_s"].tolist() == [120, 50]


def test_jobs_are_cancelled_with_and_without_grace():
    jobs = ({"run": 100, "cores": 2}, {"at": 30, "run": 50, "partitions": HIGH}, {"at": 31})
    trace = traced(tiers("cancel"), *jobs)
    assert trace.records["start_s"].tolist() == [0, 30, 31]
    assert trace.records["state"][0] == JobState.COMPLETED_KILLED
    assert trace.records["run_s"][0] == 30
    # With a grace of 40 s the job runs until 70 s; nobody else gets its nodes.
    trace = traced(tiers("cancel", grace_s=40.0), *jobs)
    assert trace.records["start_s"].tolist() == [0, 70, 70]
    assert (trace.info["n_preempted"], trace.info["preempted_core_s"]) == (1, 140.0)
    # A job that ends within its grace has lost nothing.
    trace = traced(tiers("cancel", grace_s=80.0), *jobs)
    assert trace.records["start_s"].tolist() == [0, 100, 100]
    assert trace.records["state"][0] == JobState.COMPLETED_SUCCESSFULLY
    assert trace.info["preempted_core_s"] == 0


def test_suspended_jobs_go_on_where_they_were():
    jobs = ({"run": 100, "cores": 2}, {"at": 30, "run": 50, "partitions": HIGH}, {"at": 31, "run": 10})
    trace = traced(tiers("suspend,gang"), *jobs)
    # The second node is idle from 30 to 80 s, but kept for the suspended job, which runs from 80 to 150 s.
    assert trace.records["start_s"].tolist() == [0, 30, 150]
    assert trace.records["run_s"].tolist() == [150, 50, 10]
    assert trace.site is not None
    assert trace.site["suspended_s"].tolist() == [50, 0, 0]
    computing = dict(zip(trace.machine_states["time_s"], trace.machine_states["computing"], strict=True))
    assert computing == {0: 2, 30: 1, 80: 2, 150: 1, 160: 0}


def test_who_may_preempt_takes_the_nodes_of_suspended_jobs():
    jobs = (
        {"run": 100, "cores": 2},
        {"at": 30, "run": 50, "partitions": HIGH},
        {"at": 40, "run": 60, "partitions": HIGH},
    )
    assert traced(tiers("suspend"), *jobs).records["run_s"].tolist() == [170, 50, 60]


def test_suspended_jobs_can_be_cancelled():
    jobs = ({"run": 100, "cores": 2, "cancelled_s": 40.0}, {"at": 30, "run": 50, "partitions": HIGH}, {"at": 35})
    trace = traced(tiers("suspend"), *jobs)
    assert trace.records["start_s"].tolist() == [0, 30, 40]
    assert trace.records["run_s"][0] == 40


def test_fair_share_charges_suspended_jobs_for_the_nodes_that_they_keep():
    site = rules_with(
        tiers("suspend", Nodes("n1", 1, 1)),
        accounts=unlimited(ACCOUNT_DTYPE, 2),
        account_names=("low", "high"),
        weights=PriorityWeights(fairshare=1000, half_life_s=0.0, calc_period_s=300.0),
    )
    jobs = ({"run": 300, "account": 0}, {"at": 100, "run": 100, "account": 1, "partitions": HIGH})
    state = play(site, workload(*jobs), "multifactor")._state
    assert state is not None
    # The first job is suspended from 100 s to 200 s, and ends at 400 s.
    assert state.accounts["usage"].tolist() == [400, 100]


def test_jobs_are_exempt_at_first():
    jobs = ({"run": 300, "cores": 2}, {"at": 30, "run": 50, "partitions": HIGH}, {"at": 130, "partitions": HIGH})
    # At 30 s the first job may not be requeued yet; at 130 s it may, and both start.
    assert traced(tiers("requeue", exempt_s=120.0), *jobs).records["start_s"].tolist() == [251, 130, 130]
    assert traced(tiers("suspend", exempt_s=120.0), *jobs).records["start_s"].tolist()[:2] == [0, 30]


def test_few_and_small_jobs_are_preempted():
    four = (Nodes("n[1-4]", 4, 2),)
    high = {"at": 30, "run": 50, "cores": 2, "partitions": HIGH}
    jobs = ({"run": 200, "cores": 4}, {"run": 200, "cores": 1}, {"run": 200, "cores": 2}, {"run": 200, "cores": 1})
    # Removed in their order: the jobs of one node (1 core, 2 cores). The last one is enough.
    trace = traced(tiers("requeue", *four), *jobs, high)
    assert trace.records["start_s"].tolist() == [0, 0, 151, 0, 30]
    # By age: the youngest one first, which has two nodes.
    jobs = (*jobs[1:], {"at": 10, "run": 200, "cores": 4})
    trace = traced(tiers("requeue", *four, is_youngest_first=True), *jobs, high)
    assert trace.records["start_s"].tolist()[:4] == [0, 0, 0, 151]


def qos(*rows: dict[str, float]) -> np.ndarray:
    found = unlimited(QOS_DTYPE, len(rows))
    for position, row in enumerate(rows):
        for name, value in row.items():
            found[position][name] = value
    return found


QOS = (
    {"preempt_mode": PreemptMode.REQUEUE, "priority": 1},
    {"preempt_mode": PreemptMode.CANCEL, "priority": 2, "exempt_s": 50.0},
    {"preempts": 0b11, "priority": 9},
)


def by_qos(*nodes: Nodes, **preemption: Any) -> Platform:
    return rules_with(
        machine(*nodes),
        qos=qos(*QOS),
        qos_names=("scavenger", "normal", "urgent"),
        preemption=Preemption(by=PreemptBy.QOS, **preemption),
    )


def test_qos_preempt_those_that_they_list():
    jobs = ({"run": 200, "qos": 1}, {"run": 200, "qos": 0}, {"at": 30, "qos": 2}, {"at": 31, "qos": 1})
    # The least important first; a job of "normal" preempts nothing.
    assert traced(by_qos(), *jobs).records["start_s"].tolist() == [0, 151, 30, 90]
    # "normal" is exempt for 50 s by its QOS, the others for 1,000 s by the site.
    jobs = ({"run": 200, "qos": 1}, {"run": 200, "qos": 0}, {"at": 60, "qos": 2})
    trace = traced(by_qos(exempt_s=1000.0), *jobs)
    assert trace.records["start_s"].tolist() == [0, 0, 60]
    assert trace.records["state"][0] == JobState.COMPLETED_KILLED


def test_components_without_a_qos_go_on_after_the_others(monkeypatch: pytest.MonkeyPatch):
    def limits_behind_a_row(rules: SiteRules) -> dict[str, np.ndarray]:
        """Return the limits, QOS behind a row of high priority that belongs to none: where number -1 would stand."""
        found = given(rules)
        rows = np.concatenate([found["qos"][:1], found["qos"]])
        rows["priority"][0] = 99
        return {**found, "qos": rows[1:]}

    given = simulator._limits
    monkeypatch.setattr(simulator, "_limits", limits_behind_a_row)
    rows = ({"preempt_mode": PreemptMode.SUSPEND, "priority": 1}, *QOS[1:])
    site = rules_with(by_qos(Nodes("n[1-3]", 3, 1)), qos=qos(*rows))
    jobs = ({"run": 100, "cores": 2, "het_group": 0}, {"run": 100, "qos": 0, "het_group": 0})
    trace = traced(site, *jobs, {"at": 30, "run": 50, "qos": 2}, policy="fcfs+easy")
    at_80_s = trace.machine_states[trace.machine_states["time_s"] == 80]
    assert at_80_s["computing"].tolist() == [0, 1, 3]


def test_without_a_preempt_type_nothing_is_preempted():
    site = rules_with(by_qos(), preemption=Preemption())
    assert starts(site, workload({"cores": 2, "run": 200, "qos": 0}, {"at": 30, "qos": 2}), "fcfs") == [0, 200]


def test_qos_that_preempt_each_other_are_refused():
    site = rules_with(by_qos(), qos=qos({"preempts": 0b10}, {"preempts": 0b100}, {"preempts": 0b1}))
    with pytest.raises(SimulationError, match="QOS that preempt themselves, as 'scavenger' does"):
        starts(site, workload({}), "slurm")


def test_backfilled_jobs_preempt_without_delaying_what_is_planned():
    # The job that needs both nodes of the high partition waits for the high one; the last one may preempt, but would
    # run beyond the start of that one, unless it is short.
    high = {"partitions": HIGH}
    site = tiers("requeue")
    jobs = ({"run": 500}, {"run": 100, **high}, {"at": 10, "cores": 2, "run": 60, **high})
    long, short = {"at": 20, "run": 200, **high}, {"at": 20, "run": 60, **high}
    assert traced(site, *jobs, long, policy="fcfs+easy").records["start_s"].tolist()[2:] == [100, 160]
    assert traced(site, *jobs, short, policy="fcfs+easy").records["start_s"].tolist()[2:] == [100, 20]


def conf(**scheduler: str) -> SiteConf:
    """Return a site as its administrators describe it: two QOS, two partitions."""
    rows = {
        "high": {"Priority": "10", "Preempt": "low", "GraceTime": "00:01:00"},
        "low": {"PreemptMode": "cancel", "PreemptExemptTime": "00:05:00"},
    }
    partitions = {"main": Partition(is_default=True), "spare": Partition(preempt_mode="off", grace_s=7.0)}
    return SiteConf("ours", (Nodes("n1", 1, 1),), partitions, scheduler, rows, restart_s=60.0)


def test_preemption_is_read_from_slurms_files():
    rules = rules_of(
        conf(PreemptType="preempt/qos", PreemptMode="REQUEUE,GANG", PreemptExemptTime="2", SchedulerParameters="defer")
    )
    assert rules.preemption == Preemption(by=PreemptBy.QOS, exempt_s=120.0, restart_s=60.0)
    assert rules.qos["preempts"].tolist() == [2, 0]
    assert rules.qos["preempt_mode"].tolist() == [PreemptMode.REQUEUE, PreemptMode.CANCEL]
    assert rules.qos["exempt_s"].tolist() == pytest.approx([np.nan, 300.0], nan_ok=True)
    assert rules.partitions["preempt_mode"].tolist() == [PreemptMode.REQUEUE, PreemptMode.OFF]
    assert rules.partitions["grace_s"].tolist() == [0.0, 7.0]
    by_tier = {"PreemptType": "preempt/partition_prio", "PreemptParameters": "youngest_first,reorder_count=1"}
    rules = rules_of(conf(PreemptMode="requeue", JobRequeue="0", PreemptExemptTime="-1", **by_tier))
    assert rules.preemption == Preemption(by=PreemptBy.PARTITION, is_youngest_first=True, restart_s=60.0)
    assert rules.partitions["preempt_mode"].tolist() == [PreemptMode.CANCEL, PreemptMode.OFF]
    elsewhere = {"SchedulerParameters": "preempt_youngest_first,defer"}
    assert rules_of(conf(PreemptType="preempt/qos", **elsewhere)).preemption.is_youngest_first
    assert ignored_parameters(elsewhere) == ["defer"]
    assert rules_of(conf()).preemption == Preemption(restart_s=60.0)


def test_preemption_within_a_qos_is_refused():
    rules = rules_of(conf(PreemptType="preempt/qos", PreemptMode="REQUEUE,WITHIN"))
    with pytest.raises(SimulationError, match="PreemptMode=WITHIN"):
        check_rules(rules)
    check_rules(rules_of(conf(PreemptMode="REQUEUE,WITHIN")))

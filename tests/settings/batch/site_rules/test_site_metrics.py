"""Numbers of runs at a site: waits of groups, fair share, missed dates, lost work; in files, tables and reports."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdrl.base.errors import ReadError
from hdrl.batch import compute_metrics
from hdrl.report.page.report import build_report
from hdrl.settings.batch.report.side_by_side import USUAL, side_by_side
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.site_rules.conf import Nodes, Partition
from hdrl.settings.batch.site_rules.metrics import (
    METRICS_FILE,
    fair_share_distance,
    group_waits,
    read_site_metrics,
    site_numbers,
)
from hdrl.settings.batch.site_rules.model import (
    ACCOUNT_DTYPE,
    OUTAGE_DTYPE,
    RESERVATION_DTYPE,
    PriorityWeights,
    unlimited,
)
from tests.settings.batch.site_rules.test_playing import call, site
from tests.settings.batch.site_rules.test_preemption import HIGH, tiers
from tests.settings.batch.site_rules.worlds import machine, play, rules_with, workload

__all__ = ["site"]  # a fixture


def parts(trace: BatchTrace) -> tuple[Any, Any, Any]:
    return trace, trace.platform.site, trace.site


def test_waits_count_from_eligibility_in_each_group():
    partitions = {"main": Partition(is_default=True), "short": Partition(max_time_s=600.0)}
    accounts = unlimited(ACCOUNT_DTYPE, 2)
    position = machine(Nodes("n[1-2]", 2, 4), partitions=partitions, accounts=accounts, account_names=("bio", "phys"))
    jobs = workload(
        {"cores": 8, "run": 100, "account": 0},
        {"cores": 8, "run": 100, "account": 1, "begin_s": 40.0},
        {"cores": 1, "run": 4000, "account": 1, "partitions": 2, "limit": None},
    )
    trace = play(position, jobs, "fcfs").trace
    assert trace.records["start_s"].tolist() == [0, 100, 200]
    found = {(row["by"], row["group"]): (row["n_jobs"], row["mean_wait_s"]) for row in group_waits(*parts(trace))}
    assert found == {
        ("partition", "main"): (2, 30.0),
        ("partition", "short"): (1, 200.0),
        ("account", "bio"): (1, 0.0),
        ("account", "phys"): (2, 130.0),
        ("size", "1 node or less"): (1, 200.0),
        ("size", "more"): (2, 30.0),
        ("length", "requests up to 1 h"): (2, 30.0),
        ("length", "up to 1 day"): (1, 200.0),
    }


@pytest.mark.parametrize(
    ("shares", "half_life_s", "expected"),
    [
        ((50, 50), 0.0, 0.25),  # one account alone until 100 s: 1/2; then both: 1/2 falls to 1/4 and 1/6, ...
        ((1, 0), 0.0, None),
        ((50, 50), 1.0, 0.5),  # usage is forgotten at once: one of the two always has all
    ],
)
def test_fair_share_distance(shares: tuple[int, int], half_life_s: float, expected: float | None):
    accounts = unlimited(ACCOUNT_DTYPE, 2)
    accounts["shares"] = shares
    weights = PriorityWeights(half_life_s=half_life_s)
    position = machine(Nodes("n1", 1, 1), accounts=accounts, account_names=("A", "B"), weights=weights)
    trace = play(position, workload({"run": 100, "account": 0}, {"run": 100, "account": 1}), "fcfs").trace
    # Without decay, A has used 100 and B t - 100 core seconds at t > 100.
    half, used = 0.5, [100 / date if date > 100 else 1.0 for date in range(2, 201, 2)]
    entitled = shares[0] / sum(shares)
    by_hand = float(np.mean([abs(share - entitled) for share in used]))
    if half_life_s == 0:
        assert fair_share_distance(*parts(trace)) == pytest.approx(by_hand)
    else:
        assert fair_share_distance(*parts(trace)) == pytest.approx(half, abs=0.02)
    assert expected is None or by_hand > 0


def test_without_accounts_there_is_no_fair_share():
    trace = play(machine(), workload({}), "fcfs").trace
    assert math.isnan(fair_share_distance(*parts(trace)))


def test_reservations_that_jobs_reach_into_are_missed():
    reservations = np.array([(100.0, 200.0), (400.0, 500.0)], RESERVATION_DTYPE)
    position = machine(reservations=reservations, reservation_nodes=np.ones((2, 2), np.bool_), over_time_limit_s=300.0)
    # The job may overrun its limit of 90 s, and so runs when the first reservation begins.
    trace = play(position, workload({"run": 150, "limit": 90}), "fcfs").trace
    assert site_numbers(*parts(trace))["n_missed_reservations"] == 1


def test_plans_that_are_not_kept_are_counted():
    # The second job is planned for 100 s, the end of the limit of the first one, as the third one wants to overtake it.
    position = machine(outages=np.array([(0, 90.0, 300.0, 1)], OUTAGE_DTYPE))
    trace = play(position, workload({"run": 100}, {"at": 1, "cores": 2}, {"at": 1, "run": 30}), "fcfs+easy").trace
    found = site_numbers(*parts(trace))
    assert trace.records["start_s"].tolist() == [0, 300, 1]
    assert (found["n_missed_plans"], found["mean_plan_delay_s"]) == (1, 200)


def test_lost_work_is_counted_by_its_cause():
    position = rules_with(tiers("requeue"), outages=np.array([(0, 10.0, 20.0, 0)], OUTAGE_DTYPE))
    trace = play(position, workload({"run": 500}, {"at": 30, "cores": 2, "partitions": HIGH}), "fcfs").trace
    found = site_numbers(*parts(trace))
    assert (found["n_requeued"], found["lost_to_failures_core_h"]) == (1, 10 / 3600)
    # The job begins anew on the other node at 131 s, long after the second one.
    assert (found["n_preempted"], found["lost_to_preemption_core_h"]) == (0, 0)
    trace = play(tiers("suspend"), workload({"run": 500}, {"at": 30, "cores": 2, "partitions": HIGH}), "fcfs").trace
    found = site_numbers(*parts(trace))
    assert (found["n_preempted"], found["suspended_core_h"]) == (1, 60 / 3600)
    assert compute_metrics(trace)["utilization"] == pytest.approx((500 + 120) / (2 * 560))


def test_a_run_leaves_them_in_files_tables_and_reports(site: Path):
    options = {
        "platform_file_path": "platform.json",
        "workload_file_path": "jobs.swf",
        "workload": {"bandwidth": "none"},
        "pybatsim": {"agent": {"type": "CLASSIC", "policy_pair": "slurm"}},
    }
    (site / "options.json").write_text(json.dumps(options))
    folder = site / "run"
    ran = call("run", site / "options.json", "--out", folder)
    assert ran.exit_code == 0, ran.stderr
    with (folder / "site_jobs.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["partition"] for row in rows] == ["main", "main", "gpu"]
    assert [float(row["waited_s"]) for row in rows][:1] == [0]
    assert rows[1]["eligible_s"] == "1.0"
    shown = call("metrics", folder)
    assert shown.exit_code == 0, shown.stderr
    assert "mean_wait_s partition=main" in shown.stdout
    assert "n_missed_reservations" in shown.stdout
    table = side_by_side([folder], metrics=USUAL)
    assert table.values["mean_wait_s partition=gpu"] == [0]
    page = build_report([folder])
    assert "partition=main" in page
    (folder / METRICS_FILE).write_text('{"numbers": {}}')
    with pytest.raises(ReadError, match="is damaged"):
        read_site_metrics(folder)
    (folder / METRICS_FILE).unlink()
    assert read_site_metrics(folder) == {}

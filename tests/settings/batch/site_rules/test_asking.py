"""Policies in Python under the rules of a site: what they see, what is refused, and that all else is alike."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hdrl.base.errors import DecisionError, SimulationError
from hdrl.batch import CallAt, Kill, OwnPriority, Platform, Reject, Start, View, Workload, simulate
from hdrl.launcher.main import cli
from hdrl.settings.batch.simulation.trace import JobState
from hdrl.settings.batch.simulation.view import News
from hdrl.settings.batch.site_rules.conf import Nodes, Partition
from hdrl.settings.batch.site_rules.model import (
    ACCOUNT_DTYPE,
    OUTAGE_DTYPE,
    QOS_DTYPE,
    RESERVATION_DTYPE,
    DependencyKind,
    unlimited,
)
from tests.settings.batch.site_rules.test_oracle import random_jobs, random_machine
from tests.settings.batch.site_rules.test_reading import LOG, site_folder
from tests.settings.batch.site_rules.worlds import machine, workload


def first_fit(view: View) -> list[Start]:
    """Start whatever may start, in the order of submission, one job for each message."""
    for job in view.waiting.tolist():
        cores = view.cores_for(job)
        if cores:
            return [Start(job, cores)]
    return []


def started(platform: Platform, jobs: Workload, policy: object) -> list[float]:
    return simulate(platform, jobs, policy).records["start_s"].tolist()  # type: ignore[arg-type]


def fields_of(trace: object) -> list[object]:
    names = ("records", "site", "completion_order", "allocated_cores", "machine_states")
    return [getattr(trace, name).tolist() for name in names]


def world(seed: int, **kinds: bool) -> tuple[Platform, Workload]:
    rng = np.random.default_rng(seed)
    names = ("has_reservations", "has_preemption")
    platform = random_machine(rng, **{name: kinds.get(name, False) for name in names})
    has = {name: kinds.get(name, False) for name in ("has_wishes", "has_het_jobs")}
    return platform, random_jobs(rng, platform, 14, **has)


@pytest.mark.parametrize("kind", ["partitions", "has_reservations", "has_wishes", "has_preemption", "has_het_jobs"])
@pytest.mark.parametrize("suffix", ["", "+easy", "+easy_priority", "+conservative"])
def test_a_priority_in_python_starts_jobs_as_the_same_priority_does(kind: str, suffix: str):
    for seed in range(8):
        platform, jobs = world(seed, **{kind: True})
        if kind == "has_het_jobs" and not suffix:
            continue  # only backfilling starts het jobs
        own = OwnPriority(lambda job, now_s: job.requested_time_s, suffix[1:] or None)
        assert fields_of(simulate(platform, jobs, own)) == fields_of(simulate(platform, jobs, f"sjf{suffix}"))


def strict(view: View) -> list[Start]:
    """Start the first job that waits, or nothing."""
    cores = view.cores_for(int(view.waiting[0])) if len(view.waiting) else []
    return [Start(int(view.waiting[0]), cores)] if cores else []


def test_a_policy_in_python_can_be_first_come_first_served():
    for seed in range(12):
        platform, jobs = world(seed, has_wishes=True)
        site = platform.site
        one = {
            "partition_names": ("main",),
            "partitions": site.partitions[:1],
            "partition_nodes": np.ones((1, 6), bool),
        }
        platform = replace(platform, site=replace(site, **one))
        asked = jobs.site.jobs.copy()
        asked["partitions"] = 1
        jobs = replace(jobs, site=replace(jobs.site, jobs=asked))
        ours, theirs = simulate(platform, jobs, strict), simulate(platform, jobs, "fcfs")
        assert fields_of(ours) == fields_of(theirs)


PARTITIONS = {"main": Partition(nodes="n[1-2]", is_default=True), "gpu": Partition(nodes="g1", max_nodes=1)}
TWO = (Nodes("n[1-2]", 2, 2), Nodes("g1", 1, 4, gpus=2, features=("a100",)))


def test_a_view_shows_what_jobs_ask_for_by_name():
    accounts = unlimited(ACCOUNT_DTYPE, 1)
    site = machine(*TWO, partitions=PARTITIONS, accounts=accounts, account_names=("physics",))
    jobs = workload({"account": 0}, {"at": 5, "partitions": 3, "gpus": 1, "features": 1, "nice": 7})
    seen = []

    def look(view: View) -> list[Start]:
        seen.extend(view.request(job) for job in view.waiting.tolist())
        for row in view.rows(view.waiting):
            assert row["eligible_s"] == row["submit_s"]
        return first_fit(view)

    assert started(site, jobs, look) == [0, 5]
    assert (seen[0].account, seen[0].partitions, seen[0].gpus) == ("physics", ("main",), 0)
    assert seen[1].partitions == ("main", "gpu")
    assert (seen[1].features, seen[1].gpus, seen[1].nice, seen[1].account) == (("a100",), 1, 7, "")


def test_priorities_see_what_jobs_ask_for():
    # The job of the GPU partition is last in line but for its GPUs; both functions see them.
    jobs = workload({"run": 10, "cores": 4}, {"at": 1, "cores": 4}, {"at": 2, "cores": 4, "nice": 9})
    site = machine(Nodes("n[1-2]", 2, 2))
    own = OwnPriority(lambda job, now_s: -job.site.nice)
    at_once = OwnPriority(priorities=lambda rows, now_s: -rows["nice"].astype(float))
    assert started(site, jobs, own) == started(site, jobs, at_once) == [0, 70, 10]


def test_jobs_are_seen_when_they_are_eligible():
    jobs = workload(
        {"run": 10}, {"begin_s": 40.0}, {"held_until_s": 30.0}, {}, after=((3, 0, DependencyKind.AFTER_OK, 0),)
    )
    waited = {}

    def look(view: View) -> list[Start]:
        for job in view.waiting.tolist():
            waited.setdefault(job, view.now_s)
        return first_fit(view)

    assert started(machine(Nodes("n1", 1, 8)), jobs, look) == [0, 40, 30, 10]
    assert waited == {0: 0, 3: 10, 2: 30, 1: 40}


def test_news_tell_ends_and_eligible_jobs_once():
    told = []

    def look(view: View) -> list[Start]:
        told.extend((kind, job, view.now_s) for kind, job in view.news)
        return first_fit(view)

    assert started(machine(Nodes("n1", 1, 2)), workload({"run": 10}, {"run": 20}, {"at": 5}), look) == [0, 0, 10]
    assert told[0] == (News.SIMULATION_BEGINS, -1, 0)
    assert told[1:4] == [(News.JOB_SUBMITTED, 0, 0), (News.JOB_SUBMITTED, 1, 0), (News.JOB_SUBMITTED, 2, 5)]
    assert told[4:] == [(News.JOB_COMPLETED, job, date_s) for job, date_s in enumerate((10, 20, 70))]


def test_a_policy_can_reject_jobs_and_be_called():
    calls = []

    def late(view: View) -> list[object]:
        calls.append(view.now_s)
        if 1 in view.waiting:
            return [Reject(1)]
        if view.now_s < 100:
            return [CallAt(100.0)]
        return list(first_fit(view))

    trace = simulate(machine(), workload({}, {}), late)
    assert trace.records["start_s"].tolist() == [100, -1]
    assert JobState(trace.records["state"][1]) == JobState.REJECTED
    assert calls[:3] == [0, 0, 100]


QOS = unlimited(QOS_DTYPE, 1)
QOS["group_jobs"] = 1
RESERVED = {
    "reservations": np.array([(50.0, 500.0)], RESERVATION_DTYPE),
    "reservation_nodes": np.array([[False, True, False]]),
}
DRAINED = {"outages": np.array([(0, 0.0, 1000.0, 1)], OUTAGE_DTYPE)}


@pytest.mark.parametrize(
    ("job", "cores", "rules", "why"),
    [
        ({}, [4], {}, "node 'g1' is not in partition 'main'"),
        ({}, [0, 1], {}, "it asks for 1 cores and was given 2"),
        ({}, [9], {}, r"its cores are \[9\], expected ids from 0 to 7"),
        ({"cores": 2}, [0, 0], {}, "a core is named twice"),
        ({"features": 1, "partitions": 3}, [0], {}, "node 'n1' lacks features that it asks for; node 'n1' is not in"),
        ({"nodes": 2, "cores": 2}, [0, 1], {}, "it needs at least 2 nodes in partition 'main' and was given 1"),
        ({"is_exclusive": 1}, [0], {}, "it gets whole nodes"),
        ({}, [2], RESERVED, "node 'n2' is reserved before it would have reached its limit"),
        ({}, [0], DRAINED, "node 'n1' has failed or is drained"),
    ],
)
def test_what_the_rules_forbid_is_refused_in_one_line(job: dict, cores: list[int], rules: dict, why: str):
    site = machine(*TWO, partitions=PARTITIONS, feature_names=("a100",), **rules)
    jobs = workload(job)
    with pytest.raises(DecisionError, match=f"t=0 s: job 'small!0' cannot start: {why}"):
        simulate(site, replace(jobs, sources=("small",)), lambda view: [Start(0, cores)])


def test_limits_held_jobs_and_busy_cores_are_refused():
    limited = machine(*TWO, partitions=PARTITIONS, qos=QOS, qos_names=("short",))
    with pytest.raises(DecisionError, match=r"job '.*1' cannot start: the limits of its QOS 'short' are reached"):
        simulate(limited, workload({"qos": 0}, {"qos": 0}), lambda view: [Start(0, [0]), Start(1, [1])])
    site = machine(*TWO, partitions=PARTITIONS)
    with pytest.raises(DecisionError, match=r"job '.*1' cannot start: it is not eligible yet"):
        simulate(site, workload({}, {"begin_s": 50.0}), lambda view: [Start(1, [0])])
    with pytest.raises(DecisionError, match=r"job '.*1' cannot start: node 'n1' has 1 free cores, it was given 2"):
        simulate(site, workload({}, {"cores": 2}), lambda view: [Start(0, [0]), Start(1, [0, 1])])
    both = workload({"gpus": 2, "partitions": 2}, {"gpus": 1, "partitions": 2})
    with pytest.raises(DecisionError, match=r"job '.*1' cannot start: node 'g1' has 0 free GPUs, it needs 1"):
        simulate(site, both, lambda view: [Start(0, [4]), Start(1, [5])])
    with pytest.raises(DecisionError, match="expected Start, Reject or CallAt"):
        simulate(site, workload({}), lambda view: [Kill([0])])
    with pytest.raises(DecisionError, match="component of a heterogeneous job, which only backfilling starts"):
        simulate(site, workload({"het_group": 1}, {"het_group": 1}), lambda view: [Start(0, [0])])
    with pytest.raises(SimulationError, match="deadlock: 1 jobs wait"):
        simulate(site, workload({}), lambda view: [])
    with pytest.raises(SimulationError, match="simulator 'site' computes no energy"):
        simulate(site, workload({}), lambda view: [CallAt(view.power_w)])


SCRIPT = """
def priority(job, now_s):
    return job.requested_time_s
"""
VIEW = """
from hdrl.batch import Start

def policy(view):
    for job in view.waiting.tolist():
        cores = view.cores_for(job)
        if cores:
            return [Start(job, cores)]
    return []
"""


def test_files_run_and_are_compared_under_the_rules(tmp_path: Path):
    site = site_folder(tmp_path, log=LOG)
    options = {
        "platform_file_path": "platform.json",
        "workload_file_path": "jobs.swf",
        "workload": {"bandwidth": "none"},
    }
    (site / "options.json").write_text(json.dumps(options))
    (site / "mine.py").write_text(SCRIPT)
    (site / "whole.py").write_text(VIEW)
    (site / "guess.py").write_text(
        "class Predictor:\n def predict(self, job): return 1\n def ended(self, job, run_s): pass\n"
    )

    def call(*words: object) -> object:
        return CliRunner().invoke(cli, [str(one) for one in words], prog_name="hdrl")

    for name in ("mine.py+easy", "whole.py"):
        ran = call("run", site / name, site / "options.json", "--out", site / f"out-{name}")
        assert ran.exit_code == 0, ran.stderr
        assert (site / f"out-{name}" / "site_jobs.csv").exists()
    common = ("compare", "-p", site / "platform.json", "-w", site / "jobs.swf", "--windows", "3:1", "-j", 1)
    ran = call(*common, f"a={site}/mine.py+easy", f"b={site}/whole.py", "--baseline", "sjf+easy", "--out", site / "c")
    assert ran.exit_code == 0, ran.stderr
    ran = call(*common, f"{site}/guess.py@sjf+easy", "--baseline", "sjf+easy", "--out", site / "d")
    assert (ran.exit_code, (site / "d").exists()) == (2, False)
    assert "does not play" in ran.stderr

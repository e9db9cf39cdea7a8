"""Small worlds of a site: a machine of equal nodes, and jobs given by a few numbers each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hdrl.batch import Platform, Workload, build_platform
from hdrl.settings.batch.policies import read_pair
from hdrl.settings.batch.site_rules.conf import Nodes, Partition, SiteConf
from hdrl.settings.batch.site_rules.machine import platform_of
from hdrl.settings.batch.site_rules.model import DEPENDENCY_DTYPE, SiteJobs, SiteRules, undemanding_jobs
from hdrl.settings.batch.site_rules.rules import rules_of
from hdrl.settings.batch.site_rules.simulator import SiteSimulator
from hdrl.settings.batch.workload.model import JOB_DTYPE, NO_WALLTIME, STEP_DTYPE, UNKNOWN


def machine(*nodes: Nodes, partitions: dict[str, Partition] | None = None, **rules: Any) -> Platform:
    """Return a machine of some nodes; by default two of one core, in one partition of all."""
    conf = SiteConf("small", nodes or (Nodes("n[1-2]", 2, 1),), partitions or {})
    return replace(build_platform(platform_of(conf), name="small"), site=replace(rules_of(conf), **rules))


def workload(*jobs: dict[str, Any], after: tuple[tuple[int, int, int, float], ...] = ()) -> Workload:
    """Return jobs: ``at`` date of submission, ``cores``, ``run`` time, ``limit``, and columns of `SITE_JOB_DTYPE`.

    A ``user`` is that of the log, too.
    """
    rows, steps = np.zeros(len(jobs), JOB_DTYPE), np.zeros(len(jobs), STEP_DTYPE)
    asked = undemanding_jobs(len(jobs))
    rows["profile"] = np.arange(len(jobs))
    for name in ("user", "group", "executable", "queue", "partition", "priority"):
        rows[name] = UNKNOWN
    for number, job in enumerate(jobs):
        given = dict(job)
        rows[number]["user"] = given.get("user", UNKNOWN)
        rows[number]["submit_s"], rows[number]["cores"] = given.pop("at", 0.0), given.pop("cores", 1)
        steps[number]["amount"] = run_s = given.pop("run", 60.0)
        limit_s = given.pop("limit", run_s)
        rows[number]["walltime_s"] = NO_WALLTIME if limit_s is None else limit_s
        rows[number]["requested_time_s"] = run_s if limit_s is None else limit_s
        for name, value in given.items():
            asked[number][name] = value
    names = tuple(str(number) for number in range(len(jobs)))
    site = SiteJobs(jobs=asked, dependencies=np.array(sorted(after), DEPENDENCY_DTYPE))
    return Workload("small", rows, names, steps, np.arange(len(jobs) + 1), names, site=site)


def play(platform: Platform, jobs: Workload, policy: str) -> SiteSimulator:
    """Return a simulation that is over."""
    pair = read_pair(policy)
    simulator = SiteSimulator(platform, jobs, pair.rule)
    simulator.run_pair(*pair.numbers)
    return simulator


def starts(platform: Platform, jobs: Workload, policy: str) -> list[float]:
    """Return when each job started, -1 if never."""
    return [float(one) for one in play(platform, jobs, policy).trace.records["start_s"]]


def nodes_of(platform: Platform, jobs: Workload, policy: str) -> list[dict[int, int]]:
    """Return how many cores each job had on which nodes."""
    trace = play(platform, jobs, policy).trace
    node_of_core = platform.node_of_processor[platform.processor_of_core]
    found = []
    for job in range(jobs.n_jobs):
        node, count = np.unique(node_of_core[trace.cores_of(job)], return_counts=True)
        found.append({int(a): int(b) for a, b in zip(node, count, strict=True)})
    return found


def rules_with(platform: Platform, **changes: Any) -> Platform:
    """Return the machine with other rules."""
    assert isinstance(platform.site, SiteRules)
    return replace(platform, site=replace(platform.site, **changes))

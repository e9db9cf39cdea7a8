"""The numbers that jobs of a log would get at their submission, to be simulated under the rules of Slurm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hdrl.batch import Platform, Workload
from hdrl.deploy.factor import site_factors
from hdrl.deploy.groups import KeyedGroups, whole_minutes_s
from hdrl.deploy.policy import DeployedPolicy
from hdrl.deploy.ranking import ranked, waiting_rows
from hdrl.settings.batch.site_rules.simulator import plain_jobs


def with_site_factors(policy: DeployedPolicy, platform: Platform, workload: Workload) -> Workload:
    """Return a workload whose jobs have the SiteFactor of their submission, which the policy `slurm` follows.

    Jobs of the log teach predictions as they end there. What waiting adds, and the gate, are left out.
    """
    asked = plain_jobs(workload) if workload.site is None else workload.site
    jobs = asked.jobs.copy()
    jobs["site_factor"] = submission_factors(policy, platform, workload)
    return replace(workload, site=replace(asked, jobs=jobs))


def submission_factors(policy: DeployedPolicy, platform: Platform, workload: Workload) -> NDArray[np.int64]:
    """Return the SiteFactor of each job of a workload when it is submitted."""
    groups, history, places = KeyedGroups(), workload.history, workload.places
    factors, n_learned = np.zeros(workload.n_jobs, dtype=np.int64), 0
    for job in workload.submission_order().tolist():
        row = workload.jobs[job]
        submit_s, requested_s = float(row["submit_s"]), whole_minutes_s(float(row["requested_time_s"]))
        if history is not None and places is not None:
            ended = history.ended_before(float(history.submit_s[places[job]]))
            groups.learn_jobs(history, ended[n_learned:], str)
            n_learned = len(ended)
        own = np.array([groups.places(str(row["user"]), requested_s, int(row["cores"]))], dtype=np.int32)
        rows = waiting_rows(np.array([submit_s]), np.array([requested_s]), np.array([row["cores"]], dtype=np.int64))
        rule, key = policy.pair.rule, policy.key
        found = ranked(rows, own, groups.sums, rule, key, now_s=submit_s, n_procs=platform.n_cores, n_free=0)
        keys = found.keys + policy.aging_per_s * submit_s
        factors[job] = site_factors(keys, np.array([submit_s]), submit_s, np.inf)[0]
    return factors

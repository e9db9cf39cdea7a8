"""Predictions, indices and gates under the rules of a site."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hdrl.base.errors import SimulationError
from hdrl.batch import Platform, Workload, simulate
from hdrl.setting import SETTINGS
from hdrl.settings.batch.envs.policy_pair import PolicyPairVectorEnv
from hdrl.settings.batch.envs.policy_pair_arguments import site_rules_reason
from hdrl.settings.batch.kernel import codes, keys
from hdrl.settings.batch.kernel.beginning import PolicyRule
from hdrl.settings.batch.policies import read_pair
from hdrl.settings.batch.site_rules.conf import Nodes, Partition
from hdrl.settings.batch.site_rules.simulator import SiteSimulator
from hdrl.settings.batch.workload.history import USER_LEVEL
from tests.settings.batch.site_rules.test_oracle import random_jobs, random_machine
from tests.settings.batch.site_rules.worlds import machine, starts, workload

N_USERS = 4


def weights(**given: float) -> tuple[float, ...]:
    """Return the weights of an index and a gate that are not 0, by their places (``w11``)."""
    found = [0.0] * keys.N_WEIGHTS
    for name, value in given.items():
        found[int(name[1:])] = value
    return tuple(found)


def with_users(jobs: Workload, rng: np.random.Generator) -> Workload:
    rows = jobs.jobs.copy()
    rows["user"] = rng.integers(0, N_USERS, jobs.n_jobs)
    return replace(jobs, jobs=rows)


def run(platform: Platform, jobs: Workload, rule: PolicyRule, key: int = codes.JOB_INDEX) -> SiteSimulator:
    simulator = SiteSimulator(platform, jobs, rule)
    simulator.run_pair(key, codes.CORE_FIRST, codes.EASY_PRIORITY)
    return simulator


def test_jobs_of_a_user_whose_jobs_were_short_overtake():
    jobs = [{"run": 10, "limit": 100, "user": 1}, {"run": 10, "limit": 100, "user": 1}]
    jobs += [{"at": 1, "run": 200, "user": 2}, {"at": 15, "run": 50, "limit": 50, "user": 2}]
    jobs += [{"at": 16, "run": 10, "limit": 100, "user": 1}]
    one = machine(Nodes("n1", 1, 1))
    # From 20 s on, the jobs of user 1 are taken for 10 s long; those of user 2 have none that ended.
    assert starts(one, workload(*jobs), "sjf") == [0, 10, 80, 20, 70]
    assert starts(one, workload(*jobs), "sjf@last2") == [0, 10, 80, 30, 20]


def test_the_gate_keeps_a_share_of_each_partition_free():
    partitions = {"a": Partition(nodes="n[1-4]", is_default=True), "b": Partition(nodes="n[5-8]")}
    site = machine(Nodes("n[1-8]", 8, 1), partitions=partitions)
    # A share of 0.6 of four cores: a job of one core starts where all are free, one of two is never held.
    rule = PolicyRule(codes.PREDICT_REQUESTED, weights=weights(w14=50.0), has_gate=True)
    jobs = workload(
        {"run": 100, "partitions": 1},
        {"at": 1, "run": 10, "partitions": 1},
        {"at": 2, "cores": 2, "run": 50, "partitions": 1},
        {"at": 3, "run": 10, "partitions": 2},
    )
    assert run(site, jobs, rule).trace.records["start_s"].tolist() == [0, 100, 2, 3]
    open_ = replace(rule, has_gate=False)
    assert run(site, jobs, open_).trace.records["start_s"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(10))
def test_an_index_of_the_request_alone_is_the_shortest_first(seed: int):
    rng = np.random.default_rng(seed)
    platform = random_machine(rng, has_reservations=seed % 2 == 0, has_preemption=seed % 3 == 0)
    jobs = random_jobs(rng, platform, 40, has_wishes=True)
    rule = PolicyRule(codes.PREDICT_REQUESTED, weights=weights(w0=1.0))
    shortest = run(platform, jobs, PolicyRule(), codes.JOB_SHORTEST)
    assert run(platform, jobs, rule).trace.records["start_s"].tolist() == shortest.trace.records["start_s"].tolist()


@pytest.mark.parametrize("policy", ["es-generalist", "sjf+easy@geo", "saf+easy_sjbf@learned"])
@pytest.mark.parametrize("kind", ["wishes", "preemption"])
def test_nobody_is_here_or_waits_at_the_end(policy: str, kind: str):
    pair = read_pair(policy)
    n_restarts = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        platform = random_machine(rng, has_reservations=True, has_preemption=kind == "preemption")
        jobs = with_users(random_jobs(rng, platform, 40, has_wishes=kind == "wishes"), rng)
        simulator = SiteSimulator(platform, jobs, pair.rule)
        simulator.run_pair(*pair.numbers)
        state = simulator._state
        assert state is not None
        users = state.sums[np.unique(state.job_groups[:, USER_LEVEL])]
        assert not users["n_here"].any()
        assert not users["n_waiting"].any()
        assert users["n_ended"].sum() == np.count_nonzero(state.jobs["start_s"] >= 0)
        n_restarts += int(state.jobs["n_restarts"].sum())
    assert n_restarts > 0, "requeued jobs are among them"


@pytest.mark.parametrize("policy", ["sjf@geo", "saf@last2", "f2@user_mean", "sjf@learned"])
def test_predictions_are_those_of_machines_without_rules(policy: str):
    rng = np.random.default_rng(3)
    platform = machine(Nodes("n[1-16]", 16, 1))
    jobs = with_users(random_jobs(rng, platform, 400, has_wishes=False), rng)
    # Nothing happens at the same date, which Batsim's messages take apart.
    jobs.jobs["submit_s"] += rng.random(400)
    steps = jobs.steps.copy()
    steps["amount"] *= rng.uniform(0.9, 1.0, len(steps))
    jobs = replace(jobs, site=None, steps=steps)
    plain = replace(platform, site=None)
    expected = simulate(plain, jobs, policy, energy=False).records["start_s"]
    found = simulate(platform, jobs, policy, energy=False).records["start_s"]
    assert np.mean(np.abs(found - expected) < 0.01) > 0.99
    assert np.mean(np.abs(found - simulate(platform, jobs, "fcfs", energy=False).records["start_s"]) < 0.01) < 0.5


def test_models_obey_the_rules_but_for_those_that_choose_cores():
    site = machine(Nodes("n[1-4]", 4, 1))
    environments = SETTINGS["batch"].environments
    for name in ("job_index", "job_pick"):
        assert environments[name].unplayable_reason({}, site) is None
    assert "the rules of a site choose the nodes" in str(environments["policy_pair"].unplayable_reason({}, site))
    assert environments["policy_pair"].unplayable_reason({}, replace(site, site=None)) is None
    why = r"rules of a site choose the nodes of each job on small; JobPick picks jobs .*environment=job_pick"
    with pytest.raises(SimulationError, match=why):
        PolicyPairVectorEnv(platform=site, workload=workload({}))
    assert environments["policy_pair"].unsupported_reason(site, workload({}), {}) == site_rules_reason(site)

"""Learning under the rules of a site: picks of JobPick, weights of JobIndex, trainings and what comes of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner, Result

import hdrl.envs  # noqa: F401 (registers the environments)
from hdrl.base.errors import DecisionError, OptionsError
from hdrl.batch import Platform, Workload, compute_metrics, read_platform, read_workload, simulate
from hdrl.launcher.main import cli
from hdrl.settings.batch.envs.job_index import JobIndexVectorEnv
from hdrl.settings.batch.envs.job_pick import JobPickVectorEnv
from hdrl.settings.batch.envs.site_pick import SitePickVectorEnv
from hdrl.settings.batch.policies.indexed import IndexKind
from hdrl.settings.batch.site_rules.conf import Nodes, Partition
from hdrl.settings.batch.site_rules.model import ACCOUNT_DTYPE, unlimited
from hdrl.settings.batch.site_rules.simulator import plain_rules
from hdrl.testing import check_env
from tests.settings.batch.site_rules.test_oracle import random_jobs, random_machine
from tests.settings.batch.site_rules.test_reading import LOG, site_folder
from tests.settings.batch.site_rules.worlds import machine, workload


def picked(platform: Platform, jobs: Workload, **choices: Any) -> Any:
    """Return what comes of an agent that always picks the job with the shortest requested time, then the first."""
    env = gymnasium.make("hdrl/JobPick-v0", platform=platform, workload=jobs, n_jobs="all", **choices).unwrapped
    _, info = env.reset(seed=0)
    is_over = False
    while not is_over:
        legal = np.flatnonzero(info["action_mask"])
        shown = env.batch._rows[0].shown
        row = (
            min(legal.tolist(), key=lambda position: (jobs.jobs["requested_time_s"][shown[position]], position))
            if len(shown)
            else 0
        )
        _, reward, is_over, _, info = env.step(row)
    return env.trace(), reward, info["results"]


KINDS = {
    "partitions": {},
    "reservations": {"has_reservations": True},
    "preemption": {"has_preemption": True},
    "wishes": {"has_wishes": True},
}


@pytest.mark.parametrize("backfilling", ["none", "easy", "easy_sjbf"])
@pytest.mark.parametrize("kind", KINDS)
def test_picks_of_the_shortest_job_make_the_schedule_of_that_policy(kind: str, backfilling: str):
    for seed in range(10):
        rng, of = np.random.default_rng(seed), KINDS[kind]
        platform = random_machine(rng, **{name: one for name, one in of.items() if name != "has_wishes"})
        jobs = random_jobs(rng, platform, 14, has_wishes="has_wishes" in of)
        ours, reward, results = picked(platform, jobs, backfilling=backfilling)
        suffix = "" if backfilling == "none" else f"+{backfilling}"
        theirs = simulate(platform, jobs, f"sjf{suffix}")
        assert ours.records["start_s"].tolist() == theirs.records["start_s"].tolist(), seed
        assert ours.allocated_cores.tolist() == theirs.allocated_cores.tolist(), seed
        assert -reward == results["objective"] == compute_metrics(theirs)["mean_bounded_slowdown"]


PARTITIONS = {"main": Partition(nodes="n[1-2]", is_default=True), "gpu": Partition(nodes="g1", tier=2)}
TWO = (Nodes("n[1-2]", 2, 2), Nodes("g1", 1, 4, gpus=2))
ACCOUNTS = unlimited(ACCOUNT_DTYPE, 1)
ACCOUNTS["group_cores"] = 3


def test_masks_and_columns_follow_the_rules():
    site = machine(*TWO, partitions=PARTITIONS, accounts=ACCOUNTS, account_names=("physics",))
    jobs = workload(
        {"run": 600, "cores": 2, "account": 0},
        {"run": 60, "cores": 2, "account": 0},
        {"run": 60, "cores": 1},
        {"run": 60, "cores": 4, "partitions": 2, "gpus": 2},
        {"run": 60, "begin_s": 900.0},
    )
    names = ("partition", "partition_free", "account_share", "gpus")
    env = SitePickVectorEnv.of(platform=site, workload=jobs, n_jobs="all", features=names, max_jobs=6)
    seen, info = env.reset(seed=0)
    # The job of the higher tier first; the one that begins later is not seen at all.
    assert info["action_mask"][0].tolist() == [0, 0, 0, 1, 0, 0]
    assert info["row_mask"][0].tolist() == [1, 1, 1, 1, 0, 0]
    assert seen[0, :4, 8:].tolist() == pytest.approx(
        np.array([[1 / 3, 1, 0, 0], [1 / 3, 1, 0, 0], [1 / 3, 1, 0, 0], [2 / 3, 1, 0, 0.2]])
    )
    assert seen[0, 4].tolist() == [0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
    with pytest.raises(DecisionError, match="row 0: action 0 is illegal here, legal: 3"):
        env.step(np.array([0]))
    _, _, _, _, info = env.step(np.array([3]))
    assert info["action_mask"][0].tolist() == [1, 1, 1, 0, 0, 0]
    seen, _, _, _, info = env.step(np.array([0]))
    # Its account may hold 3 cores: the other job of it fits on nodes, but not into the limit.
    assert info["action_mask"][0].tolist() == [0, 1, 0, 0, 0, 0]
    assert seen[0, 0, [7, 9, 10]].tolist() == pytest.approx([1e-5, 0.5, 0.25])
    assert seen[0, 1, 7] == pytest.approx(1 - 1e-5)


def test_skipping_waits_for_the_next_change():
    jobs = workload({"run": 50}, {"at": 10, "run": 50})
    env = SitePickVectorEnv.of(platform=machine(), workload=jobs, n_jobs="all", skip=True, max_jobs=2)
    env.reset(seed=0)
    for action in (2, 0, 0):
        _, _, over, _, info = env.step(np.array([action]))
    assert over[0]
    assert env.trace().records["start_s"].tolist() == [10, 10]
    assert info["results"]["mean_wait_s"][0] == 5


def test_rewards_compare_with_a_reference():
    jobs = workload({"run": 100, "cores": 2}, {"at": 1, "run": 1000, "cores": 2}, {"at": 2, "run": 10, "cores": 2})
    platform = machine()
    _, reward, results = picked(platform, jobs, reward="relative", reference="fcfs")
    theirs = compute_metrics(simulate(platform, jobs, "fcfs+easy"))["mean_bounded_slowdown"]
    assert reward == pytest.approx(np.log(theirs / results["objective"]))
    assert reward > 0


@pytest.mark.parametrize(
    ("choices", "why"),
    [
        ({"commitment": "block"}, "commitment is 'block'; on a machine with the rules of a site, expected 'repick'"),
        ({"backfilling": "easy_priority"}, "backfilling is 'easy_priority'"),
        ({"reward": "shaped"}, "reward is 'shaped'; .* expected 'end' or 'relative'"),
        ({"features": ["index"]}, "has no feature 'index', expected: account_share, "),
        ({"more_logs": ["KTH-SP2"]}, "more_logs: expected none"),
    ],
)
def test_what_rules_do_not_have_is_refused(choices: dict[str, Any], why: str):
    with pytest.raises(OptionsError, match=why):
        SitePickVectorEnv.of(platform=machine(), workload=workload({}), n_jobs="all", **choices)


def test_features_of_sites_need_rules():
    with pytest.raises(OptionsError, match="feature 'qos' exists only on a machine with the rules of a site"):
        JobPickVectorEnv.of(n_procs=8, features=["qos"])
    het = workload({"het_group": 1}, {"het_group": 1})
    with pytest.raises(OptionsError, match="has heterogeneous jobs, which agents do not pick"):
        SitePickVectorEnv.of(platform=machine(), workload=het, n_jobs="all")


def loaded(n_jobs: int = 400) -> tuple[Platform, Workload]:
    """Return jobs on 64 cores that are nodes, in one partition of all."""
    platform = read_platform("homogeneous:64")
    small = read_workload("lublin_gaia_1000", read_platform("gaia"), n_jobs=n_jobs, bandwidth="none", memory="none")
    small = small.take(np.flatnonzero(small.jobs["cores"] <= 64))
    return platform, small


def test_the_environment_passes_the_checks_of_all():
    platform, jobs = loaded(60)
    check_env(
        "hdrl/JobPick-v0",
        n_steps=120,
        platform=replace(platform, site=plain_rules(platform)),
        workload=jobs,
        n_jobs=8,
        max_jobs=4,
        features=("partition_free",),
        skip=True,
    )


def test_empty_rules_change_nothing():
    platform, jobs = loaded()
    ruled = replace(platform, site=plain_rules(platform))
    values = {}
    for name, one in (("free", platform), ("ruled", ruled)):
        # With backfilling a site reserves the nodes of the first job, others only count free processors.
        given = {"n_jobs": 128, "start": "consecutive", "backfilling": "none"}
        env = gymnasium.make("hdrl/JobPick-v0", platform=one, workload=jobs, **given).unwrapped
        _, info = env.reset(seed=0)
        over = False
        while not over:
            _, _, over, _, info = env.step(info["action_mask"].argmax())
        values[name] = info["results"]["mean_wait_s"]
    assert values["ruled"] == pytest.approx(values["free"], rel=1e-6)


def test_weights_of_an_index_are_judged_under_the_rules():
    rng = np.random.default_rng(4)
    platform = random_machine(rng)
    jobs = random_jobs(rng, platform, 30, has_wishes=False)
    env = JobIndexVectorEnv(2, platform=platform, workload=jobs, n_jobs="all", n_windows=1, reference="fcfs+easy")
    env.reset(seed=0)
    actions = np.zeros((2, env.single_action_space.shape[0]))
    actions[1] = rng.normal(size=actions.shape[1])
    info = env.step(actions)[4]
    for row, action in enumerate(actions):
        trace = simulate(platform, jobs, IndexKind.of({}).policy(action))
        assert info["results"]["objective"][row] == pytest.approx(compute_metrics(trace)["mean_bounded_slowdown"])
    free = JobIndexVectorEnv(
        1, platform=replace(platform, site=None), workload=jobs, n_jobs="all", n_windows=1, reference="fcfs+easy"
    )
    free.reset(seed=0)
    other = free.step(actions[:1])[4]["results"]["objective"][0]
    assert other != pytest.approx(info["results"]["objective"][0])


def test_an_agent_learns_and_is_judged_under_the_rules(tmp_path: Path):
    header = LOG.partition("1 100")[0]
    line = "{0} {1} -1 {2} {3} -1 -1 {3} {2} -1 1 {4} -1 -1 -1 {5} -1 -1\n"
    rng = np.random.default_rng(1)
    lines = [
        line.format(job, 60 * job, 60 * rng.integers(1, 90), rng.integers(1, 5), rng.integers(1, 4), rng.integers(0, 2))
        for job in range(1, 121)
    ]
    site = site_folder(tmp_path, log=header + "".join(lines))
    arguments = {"max_jobs": 8, "features": ["partition", "account_share"], "reward": "relative"}
    settings = {"network": "kernel", "n_steps": 8}
    learning = {"environment": "job_pick", "arguments": arguments, "iterations": 1, "n_envs": 2, "settings": settings}
    options = {
        "platform_file_path": "platform.json",
        "workload_file_path": "jobs.swf",
        "workload": {"bandwidth": "none"},
        "pybatsim": {"agent": {"type": "LEARNING", "run": "train"}},
        "learning": learning | {"episodes": {"n_jobs": 16}, "tensorboard": False},
    }
    (site / "options.json").write_text(json.dumps(options))

    def call(*words: object) -> Result:
        return CliRunner().invoke(cli, [str(one) for one in words], prog_name="hdrl")

    ran = call("run", "ppo", site / "options.json", "--out", site / "a")
    assert ran.exit_code == 0, ran.stderr
    assert (site / "a" / "site_jobs.csv").exists()
    common = ("-p", site / "platform.json", "-w", site / "jobs.swf", "--windows", "30:2", "-j", 1)
    ran = call("compare", f"mine={site}/a/model.pt", "--baseline", "fcfs+easy", *common, "--out", site / "b")
    assert ran.exit_code == 0, ran.stderr
    # Columns of sites have no meaning elsewhere.
    ran = call("compare", f"mine={site}/a/model.pt", "-p", "homogeneous:40", *common[2:], "--out", site / "c")
    assert (ran.exit_code, (site / "c").exists()) == (2, False)
    assert "exists only on a machine with the rules of a site" in ran.stderr
    model = site / "a" / "model.pt"
    size = ("--nodes", "+100%", "--windows", "30:2", "--warm-up", 5, "-j", 1)
    ran = call("what-if", site, *size, "--policies", f"fcfs,{model}", "-o", site / "d")
    assert ran.exit_code == 0, ran.stderr

"""Agents of JobPick on the kernel: the pool's schedule where both know the same physics, the kernel's elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hdrl
from hdrl.base.errors import DecisionError, HdrlError, OptionsError
from hdrl.experiment.plan import plan_of
from hdrl.experiment.run.inputs import parse_options
from hdrl.experiment.train.environments import ChosenEnvironment
from hdrl.settings.batch.environments import JobPickSpec
from hdrl.settings.batch.envs.job_pick import ARGUMENTS, JobPickEnv, JobPickVectorEnv
from hdrl.settings.batch.envs.job_pick_options import PickChoices
from hdrl.settings.batch.envs.job_pick_player import JobPickPlayer
from hdrl.settings.batch.envs.policy_pair import PolicyPairVectorEnv
from hdrl.settings.batch.workload import lublin_log, workload_from_swf
from hdrl.testing import JobSpec, Node, Processor, check_trace, check_worlds, small_platform, small_workload

OPTIONS: list[dict[str, Any]] = [
    {},
    {"backfilling": "none"},
    {"backfilling": "easy_sjbf", "order": "f4", "max_jobs": 8},
    {"backfilling": "easy_priority", "order": "wfp3", "features": ["is_chosen", "profile"]},
    {"commitment": "block", "backfilling": "easy", "features": ["earliest_start", "running"]},
    {"commitment": "block", "backfilling": "rlscheduler"},
    {"commitment": "block", "backfilling": "none", "order": "sjf", "skip": True},
    {"backfilling": "easy_priority", "skip": True, "max_jobs": 16},
    {"backfilling": "easy_priority", "features": ["index", "backlog"], "scaled_columns": False},
    {"backfilling": "easy", "features": ["index"], "predictor": "last2", "order": "sjf", "max_jobs": 8},
    {"backfilling": "easy", "may_hold": True},
    {"backfilling": "easy_priority", "may_hold": True, "skip": True, "max_jobs": 8, "order": "lxf"},
    {"backfilling": "easy_sjbf", "may_hold": True, "max_jobs": 8, "features": ["index", "earliest_start"]},
    {"commitment": "block", "backfilling": "rlscheduler", "may_hold": True},
]


def jobs_without_coincidences(n_jobs: int = 120) -> Any:
    """Return a machine and jobs of which no two things happen at the same date; Batsim would tell them one by one."""
    platform = hdrl.read_platform("homogeneous:32")
    log = lublin_log(n_jobs, 32, seed=5, load=1.2)
    rng, rows = np.random.default_rng(7), log.rows.copy()
    for name in ("submit_s", "run_s", "requested_s"):
        rows[name] += np.round(rng.uniform(0.0, 0.9, len(rows)), 4)
    rows["requested_s"] = np.maximum(rows["requested_s"], rows["run_s"]) * 1.5
    return platform, workload_from_swf(replace(log, rows=rows), platform, bandwidth="none", memory="none")


def play(env: Any, seed: int = 1) -> tuple[Any, list[np.ndarray], list[int]]:
    """Play a random agent that looks at the number of legal actions alone."""
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=0)
    seen, actions, terminated = [], [], False
    while not terminated:
        legal = np.flatnonzero(info["action_mask"])
        actions.append(int(legal[rng.integers(len(legal))]))
        seen.append(observation)
        observation, _, terminated, _, info = env.step(actions[-1])
    return env.trace(), seen, actions


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())) or "default")
def test_the_schedule_is_the_pools_on_identical_processors(options: dict[str, Any]) -> None:
    platform, workload = jobs_without_coincidences()
    pool, seen, actions = play(JobPickEnv(platform=platform, workload=workload, n_jobs="all", **options))
    kernel, seen_too, actions_too = play(JobPickPlayer(platform=platform, workload=workload, **options))
    assert actions == actions_too
    assert np.allclose(pool.records["start_s"], kernel.records["start_s"], atol=1e-3)
    for one, other in zip(seen, seen_too, strict=True):
        assert np.allclose(one, other, atol=1e-6)
    check_trace(kernel)
    metrics = [hdrl.compute_metrics(trace)["mean_bounded_slowdown"] for trace in (pool, kernel)]
    assert metrics[0] == pytest.approx(metrics[1], rel=1e-6)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())) or "default")
@pytest.mark.parametrize("machine", ["homogeneous", "gaia"])
def test_the_exact_engine_shows_and_does_the_same(machine: str, options: dict[str, Any]) -> None:
    platform, workload = jobs_without_coincidences()
    if machine == "gaia":  # memory and bandwidth that run out, nodes of several speeds
        plan = plan_of(parse_options({"platform_file_path": "gaia", "workload_file_path": "lublin_gaia_1000"}))
        platform, workload = plan.machine, plan.load.window(0, 60)
    inside, seen, actions = play(JobPickPlayer(platform=platform, workload=workload, **options))
    env = JobPickPlayer(platform=platform, workload=workload, simulator={"simulator": "exact"}, **options)
    outside, seen_too, actions_too = play(env)
    env.close()
    assert actions == actions_too
    for one, other in zip(seen, seen_too, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(outside.records["start_s"], inside.records["start_s"], atol=1e-6, rtol=0)
    np.testing.assert_array_equal(outside.records["state"], inside.records["state"])
    assert outside.info["simulator"] == "exact"


def test_jobs_that_communicate_are_picked_in_the_exact_engine(tmp_path: Path) -> None:
    """Of two hosts of 1 Gflop/s, each job takes one; the longer one starts first, as it was picked."""
    hosts = "".join(f'<host id="{name}" speed="1Gf"/>' for name in ("a", "b", "master_host"))
    (tmp_path / "p.xml").write_text(f'<platform version="4.1"><zone id="main" routing="Full">{hosts}</zone></platform>')
    profiles = {f"of_{k}_s": {"type": "parallel", "cpu": [k * 1e9] * 2, "com": [0, 0, 0, 0]} for k in (5, 9)}
    jobs = [{"id": k, "subtime": 0, "res": 2, "profile": f"of_{k}_s", "walltime": 20} for k in (5, 9)]
    (tmp_path / "w.json").write_text(json.dumps({"nb_res": 2, "jobs": jobs, "profiles": profiles}))
    platform = hdrl.read_platform(tmp_path / "p.xml")
    workload = hdrl.read_workload(tmp_path / "w.json", platform)
    assert JobPickSpec().item_fingerprints(platform, workload).shape == (2,)  # comparisons look for jobs of a training
    exact = {"simulator": "exact", "platform_file": tmp_path / "p.xml"}
    env = JobPickPlayer(platform=platform, workload=workload, energy=False, simulator=exact, objective="mean_wait_s")
    env.reset()
    _, reward, terminated, _, _ = env.step(1)
    if not terminated:
        _, reward, terminated, _, _ = env.step(0)
    env.close()
    assert terminated
    assert env.trace().records["run_s"] == pytest.approx([5.0, 9.0])
    assert reward == pytest.approx(-4.5, abs=1e-6)  # the other one waits for 9 s
    with pytest.raises(HdrlError, match="which the embedded simulator cannot run"):
        JobPickPlayer(platform=platform, workload=workload, energy=False).reset()


def memory_world() -> tuple[Any, Any]:
    """Return three jobs that take 0.9 of the memory of the only node each."""
    platform = small_platform(Node((Processor(4),), memory_gb=1.0))
    return platform, small_workload(*(JobSpec(0.0, 1, gflop=10.0, memory_mib=0.9 * 1024) for _ in range(3)))


def walltime_world() -> tuple[Any, Any]:
    """Return three jobs of which two run longer than their walltimes."""
    platform = small_platform(Node((Processor(1),)))
    return platform, small_workload(
        JobSpec(0.0, gflop=100.0, requested_time_s=20.0, walltime_s=20.0),
        JobSpec(0.0, gflop=10.0, requested_time_s=10.0, walltime_s=20.0),
        JobSpec(0.0, gflop=100.0, requested_time_s=20.0, walltime_s=20.0),
    )


def test_memory_is_that_of_the_kernel() -> None:
    platform, workload = memory_world()
    trace, _, _ = play(JobPickPlayer(platform=platform, workload=workload))
    own = hdrl.simulate(platform, workload, "fcfs+easy")
    assert hdrl.compute_metrics(trace)["makespan_s"] == pytest.approx(30.0)
    assert hdrl.compute_metrics(own)["makespan_s"] == pytest.approx(30.0)
    env = JobPickPlayer(platform=platform, workload=workload)
    observation, _ = env.reset()
    env.step(0)
    assert observation[0, 7] == pytest.approx(1 - 1e-5)


def test_walltimes_come_from_the_jobs() -> None:
    platform, workload = walltime_world()
    for env in (
        JobPickPlayer(platform=platform, workload=workload),
        JobPickEnv(platform=platform, workload=workload, n_jobs="all"),
        JobPickEnv(platform=platform, workload=workload, n_jobs="all", kill=True),
    ):
        metrics = hdrl.compute_metrics(play(env)[0])
        assert metrics["makespan_s"] == pytest.approx(50.0)
        assert metrics["n_walltime_reached"] == 2
    with pytest.raises(OptionsError, match="kill is False, but walltimes end jobs of the workload"):
        JobPickEnv(platform=platform, workload=workload, kill=False)


@pytest.mark.parametrize("name", sorted(set(check_worlds()) - {"nothing"}))
@pytest.mark.parametrize("options", [{}, {"backfilling": "easy_priority"}, {"commitment": "block"}], ids=str)
def test_it_plays_on_every_world(name: str, options: dict[str, Any]) -> None:
    world = check_worlds()[name]
    trace, seen, _ = play(JobPickPlayer(platform=world.platform, workload=world.workload, **options))
    check_trace(trace)
    assert (trace.records["run_s"] >= 0).all()
    env = JobPickPlayer(platform=world.platform, workload=world.workload, **options)
    assert all(one in env.observation_space for one in seen)


@pytest.mark.parametrize("backfilling", ["none", "easy", "easy_sjbf"])
def test_first_come_first_served_is_the_policy_on_unequal_cores(backfilling: str) -> None:
    platform = hdrl.read_platform("gaia")
    workload = hdrl.read_workload("lublin_gaia_1000", platform, n_jobs=120)
    env = JobPickPlayer(platform=platform, workload=workload, backfilling=backfilling)
    _, info = env.reset()
    terminated = False
    while not terminated:
        _, reward, terminated, _, info = env.step(0)
    policy = "fcfs" if backfilling == "none" else f"fcfs+{backfilling}"
    own = hdrl.simulate(platform, workload, policy)
    assert np.array_equal(env.trace().records["start_s"], own.records["start_s"])
    assert np.array_equal(env.trace().allocated_cores, own.allocated_cores)
    assert env.trace().consumed_j == pytest.approx(own.consumed_j, rel=1e-12)
    value = hdrl.compute_metrics(own)["mean_bounded_slowdown"]
    assert info["results"] == {"r": -value, "l": info["results"]["l"], "objective": value}
    assert reward == -value


def test_what_is_not_simulated_exactly_is_told() -> None:
    identical, plain = jobs_without_coincidences(20)
    assert JobPickVectorEnv.unsupported_reason(identical, plain) is None
    with pytest.warns(DeprecationWarning, match=r"^JobPickVectorEnv\.refuses is now unsupported_reason$"):
        assert JobPickVectorEnv.refuses(identical, plain) is None
    platform, workload = memory_world()
    assert "may run short of memory" in (JobPickVectorEnv.unsupported_reason(platform, workload) or "")
    gaia = hdrl.read_platform("gaia")
    some = hdrl.read_workload("lublin_gaia_1000", gaia, n_jobs=10)
    assert JobPickVectorEnv.unsupported_reason(gaia, some) == "the cores of gaia differ in speed"
    assert PolicyPairVectorEnv.unsupported_reason(gaia, some) is None
    narrow = small_platform(Node((Processor(2, 1.0, 10.0),)))
    greedy = small_workload(*(JobSpec(0.0, bandwidth_gbps=8.0) for _ in range(2)))
    assert "slow each other down" in (JobPickVectorEnv.unsupported_reason(narrow, greedy) or "")
    calm = small_platform(Node((Processor(2, 1.0, 10.0),)), contention="none")
    assert JobPickVectorEnv.unsupported_reason(calm, greedy) is None
    assert JobPickVectorEnv.unsupported_reason(*walltime_world()) is None
    with pytest.raises(OptionsError, match=r"me: hdrl/JobPick-v0 cannot simulate .* on gaia: the cores of gaia differ"):
        ChosenEnvironment(JobPickSpec(), {}).check_exact(gaia, some, "me")


def test_mistakes_are_told_in_one_line() -> None:
    platform, workload = memory_world()
    with pytest.raises(OptionsError, match="has no jobs, expected at least one"):
        JobPickPlayer(platform=platform, workload=small_workload())
    for arguments, text in (
        ({"compatibility": "rlscheduler"}, "compatibility is 'rlscheduler', a simulator of its own"),
        ({"core_selection": "fastest"}, "core selection"),
        ({"backfilling": "esy"}, "did you mean 'easy'"),
    ):
        with pytest.raises(HdrlError, match=text) as caught:
            JobPickPlayer(platform=platform, workload=workload, **arguments).reset()
        assert "\n" not in str(caught.value)
    env = JobPickPlayer(platform=platform, workload=workload)
    with pytest.raises(DecisionError, match="has ended, or none has begun"):
        env.step(0)
    with pytest.raises(HdrlError, match="no episode has ended yet"):
        env.trace()
    env.reset()
    with pytest.raises(DecisionError, match="action 5 is illegal here"):
        env.step(5)
    with pytest.raises(OptionsError, match="no reset option 'epsode'; did you mean 'episode'"):
        env.reset(options={"epsode": 1})
    assert np.array_equal(env.reset(options={"episode": 1})[0], env.reset()[0])


def test_every_argument_of_a_training_is_one_of_the_player() -> None:
    """A model file holds arguments of JobPick; the player gets them all."""
    given = {
        "guide",
        "keeps",
        "workload",
        "n_procs",
        "n_jobs",
        "start",
        "part",
        "autoreset_mode",
        "copy",
        "render_mode",
    }
    assert ARGUMENTS.keys() - given <= {*signature(JobPickPlayer).parameters, *signature(PickChoices).parameters}

"""Every objective has a reward of the right sign: of two schedules, the better one returns more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import hdrl
from hdrl.base.errors import OptionsError, SimulationError
from hdrl.settings.batch.envs.policy_pair import PolicyPairEnv
from hdrl.settings.batch.envs.policy_pair_arguments import action_names
from hdrl.settings.batch.envs.rewards import ALIASES, IRMASIM_NAMES, NO_CODE, OBJECTIVES, read_objective, rewards_table
from hdrl.settings.batch.identical_cores import codes
from hdrl.settings.batch.kernel.reward import N_OBJECTIVES
from hdrl.settings.batch.metrics import ENERGY_METRICS, METRICS
from hdrl.settings.batch.options import ActionOptions, EnvironmentOptions, Objective
from hdrl.testing import JobSpec, Node, Processor, World, frugal_world, small_platform, small_workload, spreading_world

HDEEPRM = "hdeeprm"
MODE = "hdeeprm-0.3.1"


def queue_world() -> World:
    """One core; a long job and a short one come together, a third while the long one could run."""
    jobs = [
        JobSpec(0.0, gflop=100.0, requested_time_s=100.0),
        JobSpec(0.0, gflop=20.0, requested_time_s=20.0),
        JobSpec(50.0, gflop=30.0, requested_time_s=30.0),
    ]
    return World(small_platform(Node((Processor(1, 1.0),))), small_workload(*jobs))


def narrow_world() -> World:
    """Two cores; a job of one core for 30 s, and jobs of two cores that either wait for it or go first."""
    jobs = [
        JobSpec(0.0, 2, gflop=10.0, requested_time_s=10.0),
        JobSpec(0.0, 1, gflop=30.0, requested_time_s=30.0),
        JobSpec(0.0, 1, gflop=30.0, requested_time_s=30.0),
        JobSpec(1.0, 2, gflop=10.0, requested_time_s=10.0),
        JobSpec(12.0, 1, gflop=5.0, requested_time_s=5.0),
    ]
    return World(small_platform(Node((Processor(2, 1.0),))), small_workload(*jobs))


SCHEDULES = [
    # objective, world, better policy, worse policy, whether HDeepRM's reward agrees
    ("avg_job_slowdown", queue_world, "shortest-high_gflops", "ljf-high_gflops", True),
    ("avg_job_completion", narrow_world, "largest-high_gflops", "smallest-high_gflops", True),
    ("avg_job_completion", queue_world, "shortest-high_gflops", "ljf-high_gflops", False),
    ("avg_utilization", frugal_world, "first-low_power", "first-high_gflops", False),
    ("makespan", spreading_world, "first-high_mem_bw", "first-high_gflops", True),
    ("makespan", frugal_world, "first-high_gflops", "first-low_power", True),
    ("energy_consumption", frugal_world, "first-low_power", "first-high_gflops", True),
    ("energy_consumption", spreading_world, "first-high_mem_bw", "first-high_gflops", False),
    ("edp", frugal_world, "first-low_power", "first-high_gflops", True),
    ("edp", spreading_world, "first-high_mem_bw", "first-high_gflops", False),
    ("avg_bounded_slowdown", queue_world, "shortest-high_gflops", "ljf-high_gflops", True),
]


def rewards(world: World, policy: str, objective: str, form: str, compatibility: str | None = None) -> list[float]:
    env = PolicyPairEnv(
        platform=world.platform,
        workload=world.workload,
        actions=[policy],
        objective=objective,
        reward=form,
        compatibility=compatibility,
    )
    env.reset(seed=0)
    paid, ended = [], False
    while not ended:
        _, reward, ended, _, _ = env.step(0)
        paid.append(reward)
    return paid


@pytest.mark.parametrize(("objective", "make", "better", "worse", "agrees"), SCHEDULES)
def test_the_better_schedule_returns_more(
    objective: str, make: Callable[[], World], better: str, worse: str, *, agrees: bool
) -> None:
    world = make()
    metric, sign = read_objective(objective).metric, read_objective(objective).sign
    good, bad = (
        hdrl.compute_metrics(hdrl.simulate(world.platform, world.workload, one))[metric] for one in (better, worse)
    )
    assert sign * good > sign * bad + 1e-6 * abs(bad)  # it is better
    returns = [sum(rewards(world, one, objective, "growth")) for one in (better, worse)]
    assert returns[0] > returns[1]
    assert returns == pytest.approx([sign * good, sign * bad], rel=1e-11)
    instantaneous = [sum(rewards(world, one, objective, HDEEPRM)) for one in (better, worse)]
    assert (instantaneous[0] > instantaneous[1]) == agrees


def test_every_objective_is_compared() -> None:
    assert {one[0] for one in SCHEDULES} == set(ALIASES)
    assert set(get_args(Objective)) == {*OBJECTIVES, *ALIASES, *IRMASIM_NAMES}


def test_objectives_are_metrics_and_have_numbers_of_their_own() -> None:
    assert set(OBJECTIVES) <= set(METRICS)
    assert {name for name, one in OBJECTIVES.items() if one.sign > 0} == {"utilization", "throughput_jobs_per_h"}
    assert {name for name, one in OBJECTIVES.items() if one.needs_energy} == {*OBJECTIVES} & ENERGY_METRICS
    assert sorted(one.pair_code for one in OBJECTIVES.values()) == list(range(N_OBJECTIVES))
    pool_codes = [one.pool_code for one in OBJECTIVES.values() if one.pool_code != NO_CODE]
    assert sorted(pool_codes) == list(range(codes.N_OBJECTIVES))


@pytest.mark.parametrize(("alias", "metric"), ALIASES.items())
def test_an_alias_pays_what_the_metric_pays(alias: str, metric: str) -> None:
    world = frugal_world()
    for form in ("growth", HDEEPRM):
        assert rewards(world, "first-low_power", alias, form) == rewards(world, "first-low_power", metric, form)


def test_irmasims_names_of_objectives() -> None:
    for name, metric in (("waiting_time", "mean_wait_s"), ("bounded_slowdown", "mean_bounded_slowdown")):
        assert read_objective(name).metric == metric
        assert EnvironmentOptions(objective=name).objective == name
    assert ActionOptions(selection=[{"longest": ["low_cores"]}]).pairs() == ["longest-low_cores"]


def test_hdeeprms_reward_exists_for_its_objectives_alone() -> None:
    with pytest.raises(OptionsError, match="reward is 'hdeeprm', which HDeepRM does not define for max_wait_s"):
        rewards(frugal_world(), "first-low_power", "max_wait_s", HDEEPRM)


@pytest.mark.parametrize("code", [-2, N_OBJECTIVES, 99])
def test_a_number_of_no_objective_is_an_error(code: int) -> None:
    world = queue_world()
    env = PolicyPairEnv(platform=world.platform, workload=world.workload, actions=["first-high_gflops"])
    for form in (0, 1, 2):
        env.batch._rows.watches.rows["objective"] = code
        env.batch._rows.watches.rows["instantaneous"] = form
        with pytest.raises(SimulationError):
            env.reset(seed=0)


@pytest.mark.parametrize("objective", [*OBJECTIVES, *ALIASES])
@pytest.mark.parametrize("policy", ["shortest-high_mem_bw", "random-random"])
def test_the_return_is_the_objective_on_gaia(objective: str, policy: str) -> None:
    platform = hdrl.read_platform("gaia")
    workload = hdrl.read_workload("lublin_gaia_1000", platform, n_jobs=60)
    env = PolicyPairEnv(
        platform=platform, workload=workload, actions=[policy], objective=objective, observation="minimal"
    )
    env.reset(seed=0)
    total, ended = 0.0, False
    while not ended:
        _, reward, ended, _, info = env.step(0)
        total += reward
    expected = hdrl.compute_metrics(env.trace())[read_objective(objective).metric]
    assert info["results"]["objective"] == pytest.approx(expected, rel=1e-10)
    assert read_objective(objective).sign * total == pytest.approx(expected, rel=1e-10)
    assert info["results"]["r"] == total


# ------------------------------------------------------------------ HDeepRM's, moment by moment


def test_hdeeprms_rewards_by_hand() -> None:
    # One core of 1 Gflop/s and 100 W; the jobs run one after the other. Decisions at 0 and at 10 s.
    # HDeepRM asks for a P-state at every start, and is told that it is set before anything else happens.
    world = World(
        small_platform(Node((Processor(1, 1.0),)), compatibility=MODE),
        small_workload(*(JobSpec(0.0, gflop=10.0, requested_time_s=one) for one in (10.0, 5.0))),
    )
    expected = {
        "avg_job_slowdown": [-0.3, -0.2],
        "avg_job_completion": [-2.0, -1.0],
        "avg_utilization": [1.0, 1.0],
        "makespan": [1.0, 1.0],
        "energy_consumption": [-100.0, -100.0],
        "edp": [0.0, -1000.0],
        "avg_bounded_slowdown": [-0.2, -0.1],
    }
    for objective, values in expected.items():
        found = rewards(world, "first-high_gflops", objective, HDEEPRM, MODE)
        assert found == pytest.approx(values, abs=1e-4), objective


def test_rewards_of_hdeeprm_0_1_by_hand() -> None:
    # Two cores; a job of both for 10 s, then one of one core for 5 s. Running jobs count once for each core.
    world = World(
        small_platform(Node((Processor(2, 1.0),)), compatibility=MODE),
        small_workload(
            JobSpec(0.0, 2, gflop=10.0, requested_time_s=10.0), JobSpec(0.0, gflop=5.0, requested_time_s=5.0)
        ),
    )
    expected = {
        "avg_job_slowdown": [25.0 / 3.0, 5.0],
        "avg_job_completion": [0.0, 1.0],
        "avg_utilization": [2.0, 1.0],
        "makespan": [2.0, 1.0],
    }
    for objective, values in expected.items():
        found = rewards(world, "first-high_gflops", objective, "hdeeprm-0.1.0", MODE)
        assert found == pytest.approx(values, abs=1e-4), objective
    energy, power = (
        rewards(world, "first-high_gflops", "energy_consumption", form, MODE) for form in ("hdeeprm-0.1.0", HDEEPRM)
    )
    assert energy == pytest.approx([-1.0 / one for one in power])
    with pytest.raises(OptionsError, match="does not define for energy_delay_product_js; it does for avg_job_slowdown"):
        rewards(world, "first-high_gflops", "edp", "hdeeprm-0.1.0", MODE)


def test_pairs_are_given_as_hdeeprm_writes_them() -> None:
    selection = {"shortest": ["high_gflops", "high_mem_bw"], "first": ["random"]}
    names = ["shortest-high_gflops", "shortest-high_mem_bw", "first-random", "void"]
    assert action_names(selection) == action_names([selection]) == names
    for wrong in ({"shortest": "high_gflops"}, [3], [{"first": [1]}]):
        with pytest.raises(OptionsError, match=r"expected the name of a policy or \{job selection"):
            action_names(wrong)  # type: ignore[arg-type]


def test_hdeeprms_power_and_speed_of_a_contended_processor() -> None:
    world = spreading_world(1)
    # Both jobs on the first processor: 2 x 10 Gflop/s at 75 %; 100 W, and 5 % of 110 W for the idle processor.
    assert rewards(world, "first-high_gflops", "makespan", HDEEPRM)[-1] == pytest.approx(15.0)
    assert rewards(world, "first-high_gflops", "energy_consumption", HDEEPRM)[-1] == pytest.approx(-105.5)
    # One on each: 10 + 9.9 Gflop/s; half of each processor serves, the other half is free at 15 %.
    assert rewards(world, "first-high_mem_bw", "makespan", HDEEPRM)[-1] == pytest.approx(19.9)
    assert rewards(world, "first-high_mem_bw", "energy_consumption", HDEEPRM)[-1] == pytest.approx(-0.575 * 210)


def test_requests_for_no_time_are_no_division_by_zero() -> None:
    world = World(
        small_platform(Node((Processor(1, 1.0),)), compatibility=MODE),
        small_workload(JobSpec(requested_time_s=0.0), JobSpec(requested_time_s=4.0)),
    )
    assert rewards(world, "first-high_gflops", "avg_job_slowdown", HDEEPRM, MODE) == pytest.approx([-0.25, -0.25])
    assert np.isfinite(rewards(world, "first-high_gflops", "avg_job_slowdown", "growth")).all()


def test_the_documented_table_is_the_one_in_the_code() -> None:
    text = (Path(__file__).parents[4] / "docs" / "environments.md").read_text(encoding="utf-8")
    assert rewards_table() in text

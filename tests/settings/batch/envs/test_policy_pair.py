"""PolicyPair: constant agents are classic policies, void neither deadlocks nor loops, batches are singles, mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hdrl
from hdrl.base.errors import DecisionError, HdrlError
from hdrl.settings.batch.envs.policy_pair import PolicyPairEnv, PolicyPairVectorEnv, warm_up
from hdrl.settings.batch.envs.policy_pair_arguments import action_names
from hdrl.settings.batch.envs.rewards import ALIASES, read_objective
from hdrl.settings.batch.kernel.episodes import MAX_VOIDS
from hdrl.settings.batch.policies import VOID, action_table
from hdrl.settings.batch.workload import Workload
from hdrl.testing import (
    JobSpec,
    Node,
    Processor,
    World,
    check_worlds,
    frugal_world,
    small_platform,
    small_workload,
    spreading_world,
    trace_differences,
)
from hdrl.testing.environments import legal_actions

HDEEPRM = "hdeeprm-0.3.1"
GAIA = hdrl.read_platform("gaia")
JOBS = hdrl.read_workload("lublin_gaia_1000", GAIA, n_jobs=120)
ONE_CORE = small_platform(Node((Processor(1, 1.0),)))


def play_constant(env: PolicyPairEnv, action: int, seed: int = 0) -> tuple[float, dict[str, Any]]:
    """Play an episode with one action; return the return and the last info."""
    _, info = env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        _, reward, ended, truncated, info = env.step(action)
        assert not truncated
        total += reward
    return total, info


# ------------------------------------------------------------------ a constant agent is a policy


@pytest.mark.parametrize(
    "policy",
    ["first-high_gflops", "shortest-high_mem_bw", "low_mem-high_cores", "random-random", "wfp3+easy_sjbf-low_power"],
)
def test_a_constant_agent_is_a_classic_policy_on_gaia(policy: str) -> None:
    env = PolicyPairEnv(platform=GAIA, workload=JOBS, actions=["first-random", policy], observation="minimal")
    _, info = play_constant(env, 1, seed=5)
    expected = hdrl.simulate(GAIA, JOBS, policy, seed=env.batch.policy_seed())
    assert trace_differences(env.trace(), expected) == []
    metrics = hdrl.compute_metrics(expected)
    for metric in ALIASES.values():
        assert info["results"][metric] == pytest.approx(metrics[metric], rel=1e-12)
    assert info["results"]["l"] == expected.n_decisions


@pytest.mark.parametrize("policy", ["first-high_gflops", "random-high_cores", "smallest-low_power"])
@pytest.mark.parametrize("compatibility", [None, HDEEPRM])
def test_a_constant_agent_is_a_classic_policy_on_learning(policy: str, compatibility: str | None) -> None:
    rules = hdrl.settings.batch.platform.pstate_rules(compatibility=compatibility)
    platform = hdrl.read_platform("learning", rules=rules)
    workload = hdrl.read_workload("learning", platform, custom=True)
    env = PolicyPairEnv(
        platform=platform, workload=workload, actions=[policy], objective="makespan", compatibility=compatibility
    )
    play_constant(env, 0)
    expected = hdrl.simulate(platform, workload, policy, seed=env.batch.policy_seed(), compatibility=compatibility)
    assert trace_differences(env.trace(), expected) == []


@pytest.mark.parametrize("name", [name for name, world in check_worlds().items() if world.workload.n_jobs])
def test_a_constant_agent_is_a_classic_policy_on_worlds(name: str) -> None:
    world = check_worlds()[name]
    policies = ["shortest-high_gflops", "largest-high_mem", "f1-low_power"]
    env = PolicyPairEnv(platform=world.platform, workload=world.workload, actions=policies, observation="normal")
    for action, policy in enumerate(policies):
        play_constant(env, action)
        assert trace_differences(env.trace(), hdrl.simulate(world.platform, world.workload, policy)) == []


def test_episodes_of_drawn_lengths_end_with_their_jobs() -> None:
    given = {"platform": GAIA, "workload": JOBS, "actions": ["shortest-low_power"], "observation": "minimal"}
    env = PolicyPairEnv(**given, n_jobs=(5, 12), objective="mean_wait_s")
    lengths = set()
    for seed in range(6):
        env.reset(seed=seed)
        window, total, ended = env.batch.window(), 0.0, False
        while not ended:
            _, reward, ended, _, info = env.step(0)
            total += reward
        trace = env.trace()
        assert trace.workload.n_jobs == window.n_jobs
        assert -total == pytest.approx(hdrl.compute_metrics(trace)["mean_wait_s"], abs=1e-6)
        assert info["results"]["objective"] == pytest.approx(-total, abs=1e-6)
        lengths.add(window.n_jobs)
    assert len(lengths) > 2
    assert lengths <= set(range(5, 13))


def test_windows_are_those_of_the_workload() -> None:
    env = PolicyPairEnv(platform=GAIA, workload=JOBS, n_jobs=30, actions=["shortest-low_power"], observation="minimal")
    starts = set()
    env.reset(seed=2)
    for _ in range(3):
        window = env.batch.window()
        starts.add(window.start)
        ended = False
        while not ended:
            *_, ended, _, _ = env.step(0)
        expected = hdrl.simulate(GAIA, JOBS.window(window.start, 30), "shortest-low_power")
        assert trace_differences(env.trace(), expected) == []
        env.reset()
    assert len(starts) == 3


def test_several_workloads_take_turns() -> None:
    parts = [JOBS.window(0, 12), JOBS.window(50, 20)]
    env = PolicyPairEnv(platform=GAIA, workload=parts, actions=["first-high_mem"], observation="minimal")
    env.reset(seed=0)
    for part in parts:
        ended = False
        while not ended:
            *_, ended, _, _ = env.step(0)
        assert trace_differences(env.trace(), hdrl.simulate(GAIA, part, "first-high_mem")) == []
        env.reset()


# ------------------------------------------------------------------ batches


def arguments(**more: Any) -> dict[str, Any]:
    return {"platform": GAIA, "workload": JOBS, "n_jobs": 15, "observation": "small", **more}


def test_a_row_of_a_batch_does_what_a_single_one_does() -> None:
    batch = PolicyPairVectorEnv(3, **arguments(n_threads=2))
    singles = [PolicyPairEnv(**arguments()) for _ in range(3)]
    rng = np.random.default_rng(1)
    observations, info = batch.reset(seed=8)
    firsts = [single.reset(seed=8 + row) for row, single in enumerate(singles)]
    ended = np.zeros(3, dtype=bool)
    for row in range(3):
        assert np.array_equal(observations[row], firsts[row][0])
    for _ in range(80):
        actions = legal_actions(info["action_mask"], rng)
        observations, rewards, terminations, _, info = batch.step(actions)
        for row, single in enumerate(singles):
            if ended[row]:
                alone, shown = single.reset()
                assert rewards[row] == 0.0
            else:
                alone, reward, end, _, shown = single.step(actions[row])
                assert rewards[row] == reward
                assert terminations[row] == end
            assert np.array_equal(observations[row], alone)
            assert np.array_equal(info["action_mask"][row], shown["action_mask"])
        ended = terminations
    batch.close()


def test_traces_of_a_batch_are_those_of_its_last_episodes() -> None:
    batch = PolicyPairVectorEnv(2, **arguments(autoreset_mode="SameStep", actions=["first-low_power"]))
    batch.reset(seed=4)
    with pytest.raises(HdrlError, match="row 1: no episode has ended yet"):
        batch.trace(1)
    window = batch.window(1)
    while True:
        *_, terminations, _, _ = batch.step(np.zeros(2, dtype=int))
        if terminations[1]:
            break
    expected = hdrl.simulate(GAIA, JOBS.window(window.start, 15), "first-low_power")
    assert trace_differences(batch.trace(1), expected) == []
    assert batch.window(1) != window


# ------------------------------------------------------------------ void


def two_at_once() -> World:
    return World(ONE_CORE, small_workload(JobSpec(gflop=10.0), JobSpec(gflop=20.0)))


def test_void_is_not_legal_where_nothing_can_happen() -> None:
    world = two_at_once()
    env = PolicyPairEnv(platform=world.platform, workload=world.workload, actions=["first-high_gflops"])
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [1, 0]  # nothing runs, nobody comes
    *_, info = env.step(0)
    # A job runs when the agent is asked again only if the news is a submission; here it is the end of the first.
    assert info["action_mask"].tolist() == [1, 0]


def test_an_illegal_void_is_refused() -> None:
    world = two_at_once()
    env = PolicyPairEnv(platform=world.platform, workload=world.workload, actions=["first-high_gflops"])
    env.reset(seed=0)
    before = env.state_dict()
    with pytest.raises(DecisionError, match="action 1 is illegal here, legal: 0"):
        env.step(1)
    assert all(np.array_equal(array, before[name]) for name, array in env.state_dict().items())


def test_void_waits_for_the_next_submission_or_end() -> None:
    workload = small_workload(JobSpec(0.0, gflop=10.0), JobSpec(3.0, gflop=10.0), JobSpec(5.0, gflop=10.0))
    env = PolicyPairEnv(platform=ONE_CORE, workload=workload, actions=["first-high_gflops"])
    _, info = env.reset(seed=0)
    seen = []
    for action in (1, 0, 1, 0, 0):
        seen.append(info["action_mask"][1])
        _, _, ended, _, info = env.step(action)
        if ended:
            break
    starts = env.trace().records["start_s"].round(6).tolist()
    # Void at 0, start at 3; void at 5, and at 13 it is not legal; the last one starts at 23.
    assert starts == [3.0, 13.0, 23.0]
    assert seen == [1, 1, 1, 0, 0]


def test_a_random_agent_always_ends_with_all_jobs_run() -> None:
    env = PolicyPairVectorEnv(4, **arguments(observation="minimal"))
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    n_ended = 0
    for _ in range(400):
        prefers_void = (rng.random(4) < 0.7) & env.action_masks()[:, 36]
        actions = np.where(prefers_void, 36, rng.integers(0, 36, 4))
        *_, terminations, _, _ = env.step(actions)
        for row in np.flatnonzero(terminations):
            n_ended += 1
            assert (env.trace(row).records["run_s"] > 0).all()
    assert n_ended >= 8


def test_without_void_there_is_none() -> None:
    env = PolicyPairEnv(**arguments(void=False))
    assert env.action_space.n == 36
    assert VOID not in env.actions
    play_constant(env, 35)  # the last pair is a pair
    assert (env.trace().records["run_s"] > 0).all()


def test_in_hdeeprms_mode_the_agent_is_asked_again_at_once() -> None:
    rules = hdrl.settings.batch.platform.pstate_rules(compatibility=HDEEPRM)
    platform = small_platform(Node((Processor(1, 1.0),)), rules=rules)
    workload = small_workload(JobSpec(0.0, gflop=10.0), JobSpec(3.0, gflop=10.0))
    env = PolicyPairEnv(
        platform=platform,
        workload=workload,
        actions=["first-high_gflops"],
        objective="avg_job_completion",
        compatibility=HDEEPRM,
    )
    env.reset(seed=0)
    rewards = []
    for action in (0, 1, 1, 1, 0):
        _, reward, ended, _, info = env.step(action)
        rewards.append(reward)
    # The second decision is due when the second job comes; whether more come is told a moment later, which asks again
    # after a void, and then each void asks again at once, though a job runs.
    assert rewards[1:4] == [-2.0, -2.0, -2.0]
    assert not ended
    assert info["action_mask"].tolist() == [1, 1]
    *_, ended, _, _ = env.step(0)
    assert ended
    assert env.trace().records["start_s"].round(6).tolist() == [0.0, 10.0]


def test_in_hdeeprms_mode_void_does_not_go_on_for_ever() -> None:
    world = two_at_once()
    rules = hdrl.settings.batch.platform.pstate_rules(compatibility=HDEEPRM)
    platform = small_platform(Node((Processor(1, 1.0),)), rules=rules)
    env = PolicyPairEnv(
        platform=platform, workload=world.workload, actions=["first-high_gflops"], compatibility=HDEEPRM
    )
    env.reset(seed=0)
    n_voids, is_legal = 0, True
    while is_legal:
        *_, info = env.step(1)
        n_voids += 1
        is_legal = bool(info["action_mask"][1])
    assert n_voids == MAX_VOIDS
    env.step(1)  # counts as action 0
    ended = False
    while not ended:
        *_, ended, _, _ = env.step(0)
    assert (env.trace().records["run_s"] > 0).all()


# ------------------------------------------------------------------ the best pair is known


def metric_of_pairs(world: World, objective: str) -> dict[str, float]:
    """Return what each of the 36 pairs makes of an objective, through the environment."""
    env = PolicyPairEnv(
        platform=world.platform, workload=world.workload, void=False, objective=objective, observation="minimal"
    )
    metric = read_objective(objective).metric
    return {name: play_constant(env, action)[1]["results"][metric] for action, name in enumerate(env.actions)}


def test_the_frugal_cores_are_best() -> None:
    energy = metric_of_pairs(frugal_world(), "energy_consumption")
    best = min(energy.values())
    assert {name for name, value in energy.items() if value <= best * (1 + 1e-9)} == {
        name for name in energy if name.endswith("-low_power")
    }
    assert energy["first-high_gflops"] > 1.5 * best


@pytest.mark.parametrize("objective", ["makespan", "avg_job_completion", "energy_consumption", "edp"])
def test_spreading_is_best(objective: str) -> None:
    values = metric_of_pairs(spreading_world(), objective)
    steady = {name: value for name, value in values.items() if not name.endswith("-random")}  # chance may spread too
    best = min(values.values())
    winners = {name for name, value in steady.items() if value <= best * (1 + 1e-9)}
    assert winners == {name for name in values if name.endswith(("-high_cores", "-high_mem_bw"))}


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"objective": "energy"}, "no objective 'energy'; did you mean 'energy_j'?"),
        ({"observation": "big"}, "no observation 'big'; known: minimal, normal, small"),
        ({"reward": "growht"}, "no reward 'growht'; did you mean 'growth'?"),
        ({"actions": ["first-fast"]}, "no policy 'first-fast'"),
        ({"actions": []}, "actions has 0 policies, expected 1 to 32766"),
        ({"queue_sensitivity": 0}, "queue_sensitivity is 0, expected a number above 0"),
        (
            {"energy": False, "objective": "edp"},
            "objective 'energy_delay_product_js' needs energy, which is switched off",
        ),
        ({"compatibility": "hdeeprm"}, "no compatibility mode 'hdeeprm'; did you mean 'hdeeprm-0.3.1'?"),
        ({"workload": []}, "workload is empty, expected at least one"),
        ({"workload": JOBS.take(np.arange(0))}, "has no jobs, expected at least one"),
        ({"n_jobs": 10_000}, "n_jobs is 10000"),
        ({"platform": ONE_CORE}, "can never run"),
        ({"platform": "gaja"}, "did you mean"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(HdrlError) as caught:
        PolicyPairEnv(**{"platform": GAIA, "workload": JOBS, **wrong})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_actions_that_do_not_exist_are_refused() -> None:
    env = PolicyPairEnv(**arguments())
    env.reset(seed=0)
    with pytest.raises(DecisionError, match="no action 37, expected 0 to 36"):
        env.step(37)


def test_sources_must_agree() -> None:
    two = small_workload(JobSpec(), JobSpec(source=1))
    one: Workload = small_workload(JobSpec())
    with pytest.raises(HdrlError, match="has 1 sources and small 2"):
        PolicyPairEnv(platform=ONE_CORE, workload=[two, one])


def test_names_of_actions() -> None:
    assert action_names(None) == action_table(None)
    hdeeprm = [{"first": ["low_power", "random"]}, {"shortest": ["high_mem"]}]
    assert action_names(hdeeprm) == ["first-low_power", "first-random", "shortest-high_mem", VOID]
    assert action_names(["sjf+easy", "first-high_flops"], void=False) == ["sjf+easy", "first-high_gflops"]


def test_compiling_is_told_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr("hdrl.settings.batch.kernel.jit.CACHE_FOLDER", tmp_path)
    monkeypatch.setattr("hdrl.compiled.cache.JIT_DISABLED", False)
    told: list[str] = []
    warm_up(told.append)
    warm_up(told.append)
    assert told == ["compiling the environment (the first time only, about half a minute)"]

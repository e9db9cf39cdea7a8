"""``hdrl/GpuCluster-v0``: its physics is that of the policies, and its pages, preemption and batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hdrl.envs  # noqa: F401 - registers the environments
from hdrl.base.errors import DecisionError, HdrlError, OptionsError
from hdrl.settings.gpu.cluster.machine import read_cluster
from hdrl.settings.gpu.envs.env import OBJECTIVES, GpuClusterEnv, GpuClusterVectorEnv
from hdrl.settings.gpu.loads.load import GpuLoad
from hdrl.settings.gpu.loads.synthetic import Poisson, at_offered_load
from hdrl.settings.gpu.metrics import compute_metrics
from hdrl.settings.gpu.policies.names import read_policy
from hdrl.settings.gpu.policies.rules import Rules
from hdrl.settings.gpu.simulation.events import simulate
from hdrl.testing import check_env

CLUSTER = read_cluster("drl-gpu")
LOAD = at_offered_load(Poisson(), 80, CLUSTER, 1.2, seed=4)


def play(env: Any, choose: Any, seed: int | None = 0) -> tuple[float, dict[str, float], int]:
    """Return the sum of rewards, the results and the number of steps of an episode."""
    observation, info = env.reset(seed=seed)
    total, n, done = 0.0, 0, False
    while not done:
        assert env.observation_space.contains(observation)
        observation, reward, done, _, info = env.step(choose(info))
        total, n = total + reward, n + 1
    return total, info["results"], n


def first(info: dict[str, Any]) -> int:
    """Return the first legal action."""
    return int(np.argmax(info["action_mask"]))


@pytest.mark.parametrize("placement", ["consolidated", "first-fit", "fgd", "worst-fit"])
def test_starting_the_first_that_fits_is_what_the_policy_does(placement: str) -> None:
    env = GpuClusterEnv(machine=CLUSTER, load=LOAD, n_jobs="all", max_jobs=80, placements=[placement], records=True)
    total, results, _ = play(env, first)
    policy = "fifo+skip" if placement == "consolidated" else f"fifo+skip+{placement}"
    expected = simulate(CLUSTER, LOAD, read_policy(policy))
    trace = env.trace()
    np.testing.assert_allclose(trace.tasks["end_s"], expected.tasks["end_s"])
    assert trace.stay_units.tolist() == expected.stay_units.tolist()
    metrics = compute_metrics(expected)
    for name in OBJECTIVES:
        assert results[name] == pytest.approx(metrics[name]), name
    assert total == pytest.approx(-metrics["mean_jct_s"])


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_the_return_is_minus_the_objective(objective: str) -> None:
    env = GpuClusterEnv(machine=CLUSTER, load=LOAD, n_jobs=40, objective=objective)
    total, results, _ = play(env, first)
    assert total == pytest.approx(-results[objective])
    assert results["objective"] == results[objective]


def test_random_choices_with_preemption_and_pages_end_all_jobs() -> None:
    draws = np.random.default_rng(0)
    env = GpuClusterEnv(
        machine=CLUSTER, load=LOAD, n_jobs="all", max_jobs=3, max_running=6, placements=["consolidated", "random"],
        restart_s=(20, 20), records=True,
    )  # fmt: skip
    turned = []

    def choose(info: dict[str, Any]) -> int:
        action = int(draws.choice(np.flatnonzero(info["action_mask"])))
        turned.append(action == env.layout.action("next_page"))
        return action

    _, results, _ = play(env, choose)
    trace = env.trace()
    assert any(turned)
    assert trace.counts["n_preemptions"] > 0
    assert (trace.tasks["end_s"] >= trace.tasks["start_s"]).all()
    metrics = compute_metrics(trace)
    for name in OBJECTIVES:
        assert results[name] == pytest.approx(metrics[name]), name
    done = np.zeros(LOAD.n_items)
    np.add.at(done, trace.stays["task"], (trace.stays["end_s"] - trace.stays["start_s"]) * trace.stays["pace"])
    assert (done >= LOAD.isolated_s(CLUSTER) * (1 - 1e-9)).all()


def test_the_log_of_stays_grows_as_preemptions_need_it() -> None:
    """It was full, and compiled code wrote behind it; the agent could not preempt as without a log."""
    arguments = {"machine": CLUSTER, "load": LOAD, "n_jobs": 80, "max_running": 8, "order": "las-2d+preempt"}
    logged, plain = (GpuClusterVectorEnv.of(1, records=records, **arguments) for records in (True, False))
    draws = np.random.default_rng(0)
    observed, info = logged.reset(seed=0)
    beginning = logged.state_dict()
    plain.reset(seed=0)
    done = np.array([False])
    while not done[0]:
        preempts = np.flatnonzero(info["action_mask"][0][16:24])
        legal = preempts + 16 if len(preempts) and draws.random() < 0.9 else np.flatnonzero(info["action_mask"][0])
        action = np.array([draws.choice(legal)])
        observed, _, done, _, info = logged.step(action)
        also, *_, more = plain.step(action)
        np.testing.assert_array_equal(observed, also)
        np.testing.assert_array_equal(info["action_mask"], more["action_mask"])
    trace = logged.trace()
    assert len(trace.stays) > 8 * 80 + 64
    assert trace.stays["end_s"].max() == trace.tasks["end_s"].max()
    assert set(trace.stay_units.tolist()) <= set(range(CLUSTER.n_units))
    work = np.zeros(80)
    np.add.at(work, trace.stays["task"], (trace.stays["end_s"] - trace.stays["start_s"]) * trace.stays["pace"])
    np.testing.assert_allclose(work, LOAD.isolated_s(CLUSTER))
    other = GpuClusterVectorEnv.of(1, records=True, **arguments)
    for one, saved in ((other, logged.state_dict()), (logged, beginning)):
        one.load_state_dict(saved)
        found = one.state_dict()
        assert all(np.array_equal(found[name][..., : array.shape[-1]], array) for name, array in saved.items())


def test_a_trace_is_that_of_the_last_episode_that_has_ended() -> None:
    env = GpuClusterEnv(machine=CLUSTER, load=LOAD, n_jobs=10, start="consecutive", records=True)
    env.reset(seed=0)
    with pytest.raises(OptionsError, match="no episode has ended"):
        env.trace()
    play(env, first)
    before = env.trace()
    env.reset()
    assert env.trace() is before


def test_turning_pages_shows_the_whole_queue() -> None:
    env = GpuClusterEnv(machine=CLUSTER, load=at_offered_load(Poisson(), 60, CLUSTER, 40.0, 0), max_jobs=2, n_jobs=60)
    _, info = env.reset(seed=0)
    page = env.layout.action("next_page")
    for _ in range(60):
        if info["action_mask"][page]:
            break
        _, _, _, _, info = env.step(first(info))
    before, n = env.batch._state.counts[0].copy(), 0
    while info["action_mask"][page]:
        _, reward, _, _, info = env.step(page)
        assert reward == 0.0
        n += 1
        assert n < 60
    assert n > 0
    assert info["action_mask"][env.layout.action("wait")]
    assert env.batch._state.counts[0][1] == before[1]


def test_a_row_does_what_a_single_environment_does() -> None:
    batch = GpuClusterVectorEnv.of(3, machine=CLUSTER, load=LOAD, n_jobs=25, start="random", max_running=2)
    single = GpuClusterEnv(machine=CLUSTER, load=LOAD, n_jobs=25, start="random", max_running=2)
    shown, info = batch.reset(seed=10)
    alone, one = single.reset(seed=12)
    for _ in range(60):
        np.testing.assert_array_equal(shown[2], alone)
        np.testing.assert_array_equal(info["action_mask"][2], one["action_mask"])
        actions = info["action_mask"].argmax(axis=1)
        if batch._has_ended[2]:
            break
        shown, rewards, *_, info = batch.step(actions)
        alone, reward, *_, one = single.step(int(actions[2]))
        assert rewards[2] == reward


def test_it_passes_the_checks_of_all_environments_and_refuses_nonsense() -> None:
    check_env("hdrl/GpuCluster-v0", machine=CLUSTER, load=LOAD, n_jobs=12, max_jobs=4, max_running=2)
    env = GpuClusterEnv(load=LOAD, n_jobs=12)
    _, info = env.reset(seed=0)
    with pytest.raises(DecisionError, match="illegal"):
        env.step(int(np.argmin(info["action_mask"])))
    for arguments, message in (
        ({"objective": "mean_jct"}, "mean_jct_s"),
        ({"order": "sjff"}, "did you mean 'sjf'"),
        ({"order": "sjf+fgd"}, "placements and rules are the agent's choice"),
        ({"order": "drf"}, "expected one of fifo"),
        ({"order": "srtf", "sees_durations": False}, "sees_durations is false"),
        ({"reference": "gavel-las"}, "a policy without shares"),
        ({"max_pages": 0}, "max_pages"),
        ({"placements": ["fdg"]}, "fgd"),
        ({"placements": []}, "one at least"),
        ({"max_running": -1}, "at least 1, or 0"),
        ({"machine": "drlgpu"}, "drl-gpu"),
        ({"load": []}, "at least one"),
    ):
        with pytest.raises(HdrlError, match=message):
            GpuClusterEnv(**{"load": LOAD, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tie": "frist"}, "tie is 'frist'; did you mean 'first'"),
        ({"node_order": "larger"}, "node_order is 'larger'; did you mean 'largest'"),
        ({"restart_s": [5]}, r"restart_s is \[5\], expected two numbers"),
        ({"restart_s": "ab"}, "restart_s is 'ab', expected a list of numbers"),
        ({"checkpoint_s": "1 h"}, r"checkpoint_s is \['1 h'\], expected a list of numbers"),
        ({"levels": 5}, "levels is 5, expected a list of numbers"),
        ({"placements": "first-fit"}, "placements is 'first-fit', expected a list of"),
        ({"order": 5}, "order is 5, expected a name"),
        ({"reference": []}, r"reference is \[\], expected a name"),
        ({"may_wait": "no"}, "may_wait is 'no', expected True or False"),
        ({"max_running": 1.5}, "max_running is 1.5, expected a whole number of at least 1, or 0"),
        ({"start": 1.5}, "start is 1.5, expected 'random', 'consecutive', a number"),
        ({"autoreset_mode": []}, r"autoreset_mode is \[\]; "),
        ({"seed_of_rules": "x"}, "seed is 'x', expected a whole number"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(HdrlError, match=message):
        GpuClusterVectorEnv.of(1, machine=CLUSTER, load=LOAD, **({"n_jobs": 10} | arguments))


def test_priorities_may_be_0_or_negative() -> None:
    jobs = LOAD.jobs.copy()
    jobs["priority"] = np.where(np.arange(len(jobs)) < 40, 0.0, -1.0)
    load = replace(LOAD, jobs=jobs)
    for part, objective in ((None, "mean_jct_s"), (40, "priority_jct_s")):
        env = GpuClusterEnv(machine=CLUSTER, load=load if part is None else load.window(0, part), objective=objective)
        total, results, _ = play(env, first)  # looks at the observations
        assert total == pytest.approx(-results["objective"])
    with pytest.raises(OptionsError, match="weights jobs by priority, and some are negative"):
        GpuClusterEnv(machine=CLUSTER, load=load, objective="priority_jct_s")
    jobs["priority"][3] = np.nan
    with pytest.raises(HdrlError, match=r"job 3 has impossible values: .*priority nan"):
        replace(LOAD, jobs=jobs)


def test_rules_may_be_whole_numbers() -> None:
    env = GpuClusterEnv(machine=CLUSTER, load=LOAD, n_jobs=10, checkpoint_s=60, restart_s=[1, 2], reference="srsf")
    assert env.reset(seed=0)[1]["action_mask"].any()
    assert simulate(CLUSTER, LOAD, read_policy("srsf"), rules=Rules(round_s=60, checkpoint_s=60)).counts[
        "n_preemptions"
    ]


def test_restarts_are_paid_as_the_rules_say() -> None:
    trace = simulate(CLUSTER, LOAD, read_policy("srtf"), rules=Rules(restart_s=(20.0, 20.0)))
    assert trace.counts["lost_gpu_s"] > 0


def test_loads_that_are_joined_keep_their_jobs() -> None:
    jobs = LOAD.jobs[:9].copy()
    jobs["constraint"] = [0, -1, 0] * 3
    other = replace(LOAD, jobs=jobs, constraints=(("T4",),))
    env = GpuClusterEnv(machine=CLUSTER, load=[LOAD, other], n_jobs="all", records=True)
    for load in (LOAD, other):
        play(env, first, None)
        expected = simulate(CLUSTER, load, read_policy("fifo+skip"))
        trace = env.trace()
        length = trace.tasks["end_s"] - trace.tasks["release_s"]
        assert trace.load.n_items == load.n_items
        if load is other:
            np.testing.assert_allclose(length, expected.tasks["end_s"] - expected.tasks["release_s"])
            assert trace.stay_units.tolist() == expected.stay_units.tolist()


@pytest.mark.parametrize(
    ("order", "policy"),
    [
        ("sjf", "sjf+skip"),
        ("srsf", "srsf"),
        ("srtf", "srtf"),
        ("sjf+preempt", "sjf+preempt+skip"),
        ("priority+preempt", "priority+preempt+skip"),
        ("las", "las"),
        ("las-2d", "las-2d"),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_who_follows_the_order_of_the_queue_is_the_policy_of_that_name(order: str, policy: str, seed: int) -> None:
    load = at_offered_load(Poisson(), 120, CLUSTER, 1.2, seed=seed)
    rules = Rules(restart_s=(20.0, 20.0))
    expected = simulate(CLUSTER, load, read_policy(policy), rules=rules)
    env = GpuClusterEnv(
        machine=CLUSTER, load=load, n_jobs="all", max_jobs=120, order=order, restart_s=rules.restart_s, records=True
    )
    play(env, first)
    trace = env.trace()
    np.testing.assert_array_equal(trace.tasks["end_s"], expected.tasks["end_s"])
    assert trace.counts["n_preemptions"] == expected.counts["n_preemptions"]
    assert trace.stay_units.tolist() == expected.stay_units.tolist()


def test_rewards_count_in_what_the_reference_reaches_with_the_same_jobs() -> None:
    arguments = {"machine": CLUSTER, "load": LOAD, "n_jobs": 30, "start": "random", "max_jobs": 30}
    env = GpuClusterEnv(**arguments, order="srtf", reference="srtf")
    for seed in range(3):
        assert play(env, first, seed)[0] == pytest.approx(-1.0)
    env = GpuClusterEnv(**arguments, reference="srtf", objective="mean_slowdown")
    total, results, _ = play(env, first)
    window = env.batch.window(0)
    metrics = compute_metrics(simulate(CLUSTER, LOAD.window(window.start, window.n_jobs), read_policy("srtf")))
    assert total == pytest.approx(-results["mean_slowdown"] / metrics["mean_slowdown"])


def observations_of(load: GpuLoad, n_steps: int, **arguments: Any) -> list[Any]:
    """Return what is seen at the first steps of an episode in which the first legal action is always taken."""
    env = GpuClusterEnv(machine=CLUSTER, load=load, n_jobs="all", **arguments)
    observation, info = env.reset(seed=0)
    seen = [observation.copy()]
    for _ in range(n_steps - 1):
        observation, *_, info = env.step(first(info))
        seen.append(observation.copy())
    return seen


def test_it_does_not_see_what_arrives_later() -> None:
    jobs = LOAD.jobs.copy()
    jobs["arrival_s"][40:] = jobs["arrival_s"][40:] * 1.5 + 7.0
    until_s = LOAD.jobs["arrival_s"][40] - LOAD.jobs["arrival_s"][0]
    envs = [
        GpuClusterEnv(machine=CLUSTER, load=load, n_jobs="all", max_running=4)
        for load in (LOAD, replace(LOAD, jobs=jobs))
    ]
    shown = [env.reset(seed=0) for env in envs]
    n = 0
    while envs[0].batch._state.now_s[0] < until_s:
        np.testing.assert_array_equal(shown[0][0], shown[1][0])
        n += 1
        shown = [env.step(first(shown[0][-1]))[::4] for env in envs]
    assert n > 40


def test_it_sees_no_durations_where_it_must_not() -> None:
    jobs = LOAD.jobs.copy()
    # Nothing ends while it is looked at, so that only the observation could tell how long jobs take.
    jobs["work"] += 1e9
    longer = jobs.copy()
    longer["work"] *= 2.0
    blind = [observations_of(replace(LOAD, jobs=some), 12, sees_durations=False) for some in (jobs, longer)]
    seeing = [observations_of(replace(LOAD, jobs=some), 12) for some in (jobs, longer)]
    assert all(np.array_equal(one, other) for one, other in zip(*blind, strict=True))
    assert not any(step[:, (2, 9, 13)].any() for step in blind[0])
    assert any(not np.array_equal(one, other) for one, other in zip(*seeing, strict=True))


@pytest.mark.parametrize("max_pages", [1, 3, None])
def test_whoever_turns_pages_comes_to_the_last(max_pages: int | None) -> None:
    load = at_offered_load(Poisson(), 60, CLUSTER, 40.0, 0)
    env = GpuClusterEnv(machine=CLUSTER, load=load, max_jobs=2, n_jobs=60, max_pages=max_pages)
    page = env.layout.action("next_page")
    turned = [0]

    def choose(info: dict[str, Any]) -> int:
        may_turn = bool(info["action_mask"][page])
        turned.append(turned[-1] + 1 if may_turn else 0)
        return page if may_turn else first(info)

    play(env, choose)
    assert max(turned) > 10 if max_pages is None else max(turned) == max_pages - 1


def test_who_may_not_wait_starts_what_fits() -> None:
    env = GpuClusterEnv(machine=CLUSTER, load=LOAD, n_jobs="all", may_wait=False)
    wait = env.layout.action("wait")

    def choose(info: dict[str, Any]) -> int:
        mask = info["action_mask"]
        assert mask[wait] <= (not mask[:wait].any())
        return first(info)

    play(env, choose)


def test_the_reference_pays_the_restarts_of_the_episode() -> None:
    """Restarts are drawn for each job: whoever decides like the reference reaches what it reaches."""
    env = GpuClusterEnv(
        machine=CLUSTER,
        load=[at_offered_load(Poisson(), 40, CLUSTER, 1.2, seed=9), LOAD],
        n_jobs=30,
        start="random",
        max_jobs=30,
        order="srtf",
        reference="srtf",
        restart_s=(20.0, 900.0),
        node_order="shuffled",
        seed_of_rules=3,
    )
    for seed in range(4):
        assert play(env, first, seed)[0] == pytest.approx(-1.0)

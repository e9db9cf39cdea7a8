"""hdrl/Pipelines-v0: what is seen, what actions mean, what is rewarded, and rlschedsim's version of it."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

import hdrl.envs
from hdrl.base.errors import HdrlError
from hdrl.settings.pipelines.envs.env import PipelinesEnv, PipelinesVectorEnv
from hdrl.settings.pipelines.envs.options import ERRORS, OBJECTIVES
from hdrl.settings.pipelines.inputs import generated_load, loads_of
from hdrl.settings.pipelines.loads.generate import PipelineModel
from hdrl.settings.pipelines.loads.load import PipelineLoad, Times
from hdrl.settings.pipelines.loads.pipeline import NEVER
from hdrl.settings.pipelines.machine import Units, read_machine
from hdrl.settings.pipelines.simulation.policies import simulate

from .oracle import World
from .seed import SeedEngine
from .worlds import ADAS, chain, released, worlds

BOTH = read_machine("1cpu+1gpu")


def action_of(env: PipelinesVectorEnv, world: World, found: tuple[int, int, int]) -> int:
    """Return the action that dispatches an option of an instance to a unit."""
    instance, option, unit = found
    for position, (one, kernel) in enumerate(world.ready()):
        if one == instance and option in world.choices(one, kernel):
            depth = world.choices(one, kernel).index(option)
            return (position * env.machine.n_units + unit) * env.options.n_depths + depth
    raise AssertionError


@hypothesis_settings(max_examples=40)
@given(world=worlds())
def test_whoever_acts_like_a_policy_does_what_it_does(world: tuple[Units, PipelineLoad]):
    machine, load = world
    for policy in ("edf_local+fusion", "earliest_finish"):
        env = PipelinesVectorEnv(
            machine=machine, load=load, redraw=False, max_ready=99, reward="shaped", autoreset_mode="Disabled"
        )
        env.reset(seed=0)
        plain, total = World(machine, load), 0.0
        while True:
            while not plain.ready() or None not in plain.running:
                plain.next_event()
            found = plain.decide(policy.removesuffix("+fusion"), plain.ready(), is_fusing="+" in policy)
            action = action_of(env, plain, found)
            plain.dispatch(*found)
            _, reward, over, _, info = env.step(np.array([action]))
            assert info["instance"].tolist() == [found[0]]
            total += float(reward[0])
            if over[0]:
                break
        trace = simulate(machine, load, policy)
        assert np.array_equal(env.trace().runs, trace.runs)
        assert total == pytest.approx(-trace.is_missed.mean())
        assert env.outcomes(0).tolist() == np.where(trace.is_missed, -1, 1).tolist()
        assert info["results"]["miss_ratio"][0] == pytest.approx(trace.is_missed.mean())


def play(env: PipelinesVectorEnv, seed: int = 0) -> tuple[list[float], dict[str, float], list[int]]:
    """Play one episode by legal actions that are drawn; return rewards, results and the instances decided on."""
    random = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    rewards, instances = [], []
    while True:
        _, reward, over, _, info = env.step(np.array([random.choice(np.flatnonzero(info["action_mask"][0]))]))
        rewards.append(float(reward[0]))
        instances.append(int(info["instance"][0]))
        if over[0]:
            return rewards, {k: float(v[0]) for k, v in info["results"].items() if not k.startswith("_")}, instances


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_shaped_rewards_sum_to_the_objective(objective: str):
    env = PipelinesVectorEnv(
        load="generated:0.9:3", objective=objective, reward="shaped", wait=True, autoreset_mode="Disabled"
    )
    rewards, episode, _ = play(env)
    assert sum(rewards) == pytest.approx(-episode[objective])
    assert episode["objective"] == episode[objective]
    trace = env.trace()
    late_s, tardy_s = trace.late_us / 1e6, np.maximum(trace.late_us, 0) / 1e6
    expected = {
        "miss_ratio": trace.is_missed.mean(),
        "mean_tardiness_s": tardy_s.mean(),
        "mean_lateness_s": late_s.mean(),
        "max_tardiness_s": tardy_s.max(),
        "makespan_s": trace.end_s - trace.load.instances["release_us"][0] / 1e6,
    }
    assert {name: pytest.approx(episode[name]) for name in expected} == expected


def test_other_rewards():
    load = loads_of("generated:0.9:3")[0]
    sums = {}
    for reward in ("outcome", "slack", "rlschedsim"):
        env = PipelinesVectorEnv(load=load, reward=reward, autoreset_mode="Disabled")
        rewards, _, instances = play(env)
        sums[reward] = sum(rewards)
    outcomes, trace = env.outcomes(), env.trace()
    assert sums["outcome"] == outcomes.sum()
    assert sums["rlschedsim"] == sum(int(outcomes[one]) for one in instances)
    slack = np.clip(-trace.late_us / load.instances["period_us"], -1, 1)
    assert sums["slack"] == pytest.approx(slack.sum())


def test_what_is_seen_by_hand():
    world = chain("a", (10, 4), (10, 5), groups={(0, 1): (15, 8)}), chain("b", (20, NEVER), tolerance_us=3)
    load = released(world, (0, 0, 40), (1, 0, 32))
    env = PipelinesEnv(machine="1cpu+1gpu", load=load, max_ready=3, wait=True, reward="shaped")
    seen, info = env.reset(seed=0)
    # The kernel of b has to end by 32, the first of a by 30: the rows of a come first.
    assert np.flatnonzero(info["action_mask"]).tolist() == [0, 1, 2, 3, 4]
    rows = [
        # deadline, local, slack, time, backlog, after, saved, kind, idle, against the other kind, share
        [1, 40 / 40, 30 / 40, (40 - 10 - 5) / 40, 10 / 40, 0, 5 / 40, 0, -1, 1, (4 - 10) / 14, 1 / 2],
        [1, 40 / 40, 30 / 40, (40 - 15) / 40, 15 / 40, 0, 0, 5 / 20, -1, 1, (8 - 15) / 23, 1],
        [1, 40 / 40, 30 / 40, (40 - 4 - 5) / 40, 4 / 40, 0, 5 / 40, 0, 1, 1, (10 - 4) / 14, 1 / 2],
        [1, 40 / 40, 30 / 40, (40 - 8) / 40, 8 / 40, 0, 0, 1 / 9, 1, 1, (15 - 8) / 23, 1],
        [1, 1, 1, (35 - 20) / 32, 20 / 32, 0, 0, 0, -1, 1, 1, 1],
    ]
    assert np.allclose(seen[:5], rows)
    assert not seen[5:].any()
    seen, _, _, _, info = env.step(3)  # a, fused, on the GPU
    assert np.flatnonzero(info["action_mask"]).tolist() == [0, 12]  # b on the CPU, or wait
    seen, _, _, _, info = env.step(12)
    assert np.allclose(seen[0], [1, 27 / 32, 24 / 32, 7 / 32, 20 / 32, 0, 0, 0, -1, 1, 1, 1])
    assert np.flatnonzero(info["action_mask"]).tolist() == [0]  # nothing is left to wait for
    _, reward, over, _, info = env.step(0)
    assert (over, reward, info["results"]["l"]) == (True, 0.0, 3)
    assert env.trace().end_us.tolist() == [8, 28]


def test_execution_times_are_drawn_by_episode_or_belong_to_the_load():
    load = generated_load(PipelineModel(), seed=1, times=Times(0.5, 3))
    lengths = []
    for redraw in (True, False):
        env = PipelinesVectorEnv(load=load, redraw=redraw, autoreset_mode="Disabled")
        for seed in (0, 0, 1):
            play(env, 0) if seed == 0 else env.reset(seed=seed)
            if seed == 1:
                while not env.step(env.action_masks().argmax(axis=1))[2][0]:
                    pass
            lengths.append(env._state.shares[0].tolist())
    assert lengths[0] == lengths[1] != lengths[2]
    assert lengths[3] == lengths[4] == lengths[5] == load.shares().tolist()


def test_policies_run_in_the_same_simulator():
    env = PipelinesVectorEnv(load=["generated:0.9:1", "generated:0.9:2"])
    values = env.run_policies(["edf", "heft+fusion"])
    for row, load in enumerate(env.loads):
        for name, found in values.items():
            assert found["miss_ratio"][row] == simulate(BOTH, load, name).is_missed.mean()
    with pytest.raises(HdrlError, match="policy 'static' follows a plan"):
        env.run_policies("static")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"machine": "1tpu"}, "machine is '1tpu'"),
        ({"load": "generated:x"}, "load is 'generated:x', expected generated:<utilisation>:<seed>"),
        ({"load": []}, "load is empty"),
        ({"objective": "mis_ratio"}, "objective is 'mis_ratio'; did you mean 'miss_ratio'"),
        ({"reward": "slak"}, "reward is 'slak'; did you mean 'slack'"),
        ({"compatibility": "rlsched"}, "compatibility is 'rlsched'; did you mean 'rlschedsim'"),
        ({"errors": ["late_releases"]}, "errors are those of compatibility 'rlschedsim', which is not chosen"),
        ({"compatibility": "rlschedsim", "errors": ["x"]}, "errors holds 'x'; known: late_releases"),
        ({"compatibility": "rlschedsim", "errors": 5}, "errors is 5, expected a list of late_releases"),
        ({"compatibility": "rlschedsim", "machine": "2cpu"}, "needs one CPU and one GPU, the machine is '2cpu'"),
        ({"compatibility": "rlschedsim", "wait": True}, "has no action that waits"),
        ({"max_ready": 0}, "max_ready is 0, expected a whole number of at least 1"),
        ({"n_depths": 0}, "n_depths is 0"),
        ({"wait": "no"}, "wait is 'no', expected True or False"),
        ({"n_jobs": 10**6}, "1000000"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], message: str):
    with pytest.raises(HdrlError, match=message):
        PipelinesVectorEnv(**arguments)


# ---------------------------------------------------------------------- rlschedsim


def small_set() -> tuple[PipelineLoad, int]:
    """Return two chains whose fused times are half of the sums, so that shares of them are whole."""
    a = chain("a", (8, 12), (6, 20), (10, 4), groups={(0, 1): (7, 16), (0, 1, 2): (12, 18), (1, 2): (8, 12)})
    b = chain("b", (20, 6), (4, 10), groups={(0, 1): (12, 8)})
    rows = [(0, 30 * k, 30 * (k + 1)) for k in range(6)] + [(1, 20 * k, 20 * (k + 1)) for k in range(9)]
    return released((a, b), *rows), 3


@pytest.mark.parametrize("seed", range(12))
def test_states_and_ends_are_those_of_rlschedsim(seed: int):
    load, n_depths = small_set()
    env = PipelinesEnv(load=load, compatibility="rlschedsim")
    engine = SeedEngine(load)
    random = np.random.default_rng(seed)
    seen, info = env.reset(seed=seed)
    assert info["action_mask"].tolist() == [1] * 2 * n_depths
    over, total = False, 0.0
    while not over:
        assert engine.advance()
        assert np.allclose(seen, np.array(engine.state()) / 1000)
        action = int(random.integers(2 * n_depths))
        engine.act(0 if action < n_depths else 1, action % n_depths)
        seen, reward, over, _, info = env.step(action)
        total += reward
    assert not engine.advance()
    assert env.trace().end_us.tolist() == engine.ends
    due = load.instances["deadline_us"].tolist()
    earned = [n if end <= date else -n for n, end, date in zip(engine.n_decisions, engine.ends, due, strict=True)]
    assert total == sum(earned)


def test_each_error_of_rlschedsim_is_a_switch():
    """One kernel runs from 0 to 10 on the CPU, one is queued behind it, and something is released at 5."""
    world = chain("a", (10, 40)), chain("b", (10, 40)), chain("c", (7, 7)), chain("d", (9, 9))
    load = released(world, (0, 0, 40), (1, 0, 50), (2, 0, 60), (3, 5, 70))

    def after(*errors: str) -> list[list[float]]:
        env = PipelinesEnv(load=load, compatibility="rlschedsim", errors=errors)
        # a goes to the CPU, b behind it, c to the GPU until 7.
        seen = [env.reset(seed=0)[0], *(env.step(action)[0] for action in (0, 0, 1))]
        return [(1000 * one[:2]).round(3).tolist() for one in seen]

    assert after() == [[0, 0], [10, 0], [20, 0], [13, 0]]
    assert after("whole_running_times") == [[0, 0], [10, 0], [20, 0], [20, 0]]
    assert after("worst_queued_times") == [[0, 0], [10, 0], [50, 0], [43, 0]]
    # d is released at 5: with the error nobody notices before 7, when c ends; so it is the same here, but not if
    # c had been left out and the GPU been idle.
    assert after("late_releases") == after()
    idle = released((world[0], world[3]), (0, 0, 40), (1, 5, 70))
    ends = {}
    for errors in ((), ("late_releases",)):
        env = PipelinesEnv(load=idle, compatibility="rlschedsim", errors=errors)
        env.reset(seed=0)
        env.step(0)
        env.step(1)
        ends[errors] = env.trace().start_us.tolist()
    assert ends == {(): [0, 5], ("late_releases",): [0, 10]}
    assert set(ERRORS) == {"late_releases", "whole_running_times", "worst_queued_times"}


@pytest.mark.skipif(not ADAS.is_dir(), reason="rlschedsim's files are not at hand")
def test_the_shipped_sets_have_ten_numbers_and_twelve_actions():
    env = gymnasium.make("hdrl/Pipelines-v0", load=ADAS / "period1.stats", compatibility="rlschedsim")
    assert env.observation_space.shape == (10,)
    assert env.action_space.n == 12
    layout = env.unwrapped.layout
    assert [layout.action(layout.name_of(action)) for action in range(12)] == list(range(12))
    assert layout.name_of(7) == "gpu+1"
    assert len(env.unwrapped.batch.loads) == 81
    seen, _ = env.reset(seed=0)
    # Nothing runs; every pipeline is ready, with its worst path and its shortest period ahead.
    assert seen.tolist() == pytest.approx([0, 0, 863.624, 327.197, 863.624, 327.197, 850, 340, 850, 340])
    assert hdrl.envs.ENVIRONMENTS["hdrl/Pipelines-v0"].startswith("hdrl.settings.pipelines.envs.env:")

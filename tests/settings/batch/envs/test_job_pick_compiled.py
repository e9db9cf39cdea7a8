"""Models of JobPick in compiled code act as one action after the other does, and as plain Python does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import hdrl
from hdrl.agents.ppo import PPO
from hdrl.learn.evaluate import play
from hdrl.settings.batch.envs import job_pick_compiled
from hdrl.settings.batch.envs.job_pick import JobPickEnv
from hdrl.settings.batch.envs.job_pick_player import JobPickPlayer
from hdrl.testing import (
    JobSpec,
    Node,
    Processor,
    World,
    check_trace,
    check_worlds,
    small_platform,
    small_workload,
    trace_differences,
)
from hdrl.testing.strategies import worlds

from .plain_picks import PlainPicks
from .test_job_pick_player import jobs_without_coincidences

SEEN = ["index", "backlog", "profile", "is_chosen", "running", "log_wait", "expected_slowdown", "earliest_start"]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"backfilling": "none", "order": "f4", "core_selection": "low_power"},
    {"backfilling": "easy_sjbf", "order": "lxf", "max_jobs": 4, "features": ["index"], "predictor": "last2"},
    {"backfilling": "easy_priority", "order": "wfp3", "features": ["is_chosen", "profile"], "scaled_columns": False},
    {"backfilling": "easy_priority", "may_hold": True, "features": SEEN},
    {"backfilling": "easy_priority", "may_hold": True, "skip": True, "max_jobs": 8, "order": "sjf"},
    {"backfilling": "easy", "may_hold": True, "skip": True, "core_selection": "low_power"},
    {"commitment": "block", "backfilling": "easy_sjbf", "features": ["queue_length", "free_processors"]},
    {"commitment": "block", "backfilling": "easy_priority", "order": "unicef", "skip": True, "max_jobs": 4},
    {"commitment": "block", "backfilling": "rlscheduler", "may_hold": True},
    {"commitment": "block", "backfilling": "none", "skip": True, "features": ["log_processors", "log_requested_time"]},
]


def agent_for(env: JobPickPlayer, seed: int, **chosen: Any) -> PPO:
    """Return an agent whose weights are so large that what it sees decides."""
    config = PPO.Config(**{"network": "kernel"} | chosen)
    agent = PPO(env.observation_space, env.layout.action_space, config, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        for parameter in agent.network.parameters():
            parameter.normal_(0.0, 0.5, generator=agent.generator)
    return agent


def repeated(env: JobPickPlayer, agent: PPO, actions: list[int], options: dict[str, Any]) -> Any:
    """Take actions one by one, which must be the best ones there, up to last bits; return what happened.

    The same happens in plain Python.
    """
    observation, info = env.reset(seed=0)
    plain = PlainPicks(env, **options)
    has_ended = False
    for action in actions:
        assert not has_ended
        seen, mask = torch.from_numpy(observation)[None], torch.from_numpy(info["action_mask"] != 0)[None]
        with torch.no_grad():
            logits = agent.network.logits(seen, mask)[0].double().numpy()
        assert info["action_mask"][action] == 1
        assert logits[action] >= logits.max() - 1e-5 * max(1.0, abs(logits.max()))
        assert plain.mask(env.shown).tolist() == info["action_mask"].astype(bool).tolist()
        plain.act(action, env.shown)
        observation, _, has_ended, _, info = env.step(action)
    assert has_ended
    assert plain.stage is None
    assert trace_differences(plain.trace, env.trace()) == []
    return env.trace()


def compiled(env: JobPickPlayer, agent: PPO) -> tuple[Any, list[int]]:
    """Play the best actions in compiled code; return what happened, and the actions."""
    actions: list[int] = []
    decide = job_pick_compiled.decide

    def noting(borrowed: Any) -> None:
        decide(borrowed)
        pick = borrowed.arrays.pick
        actions.extend(pick.actions[: pick.scalars["n_actions"][0]].tolist())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_pick_compiled, "decide", noting)
        play(agent, env, seed=0)
    return env.trace(), actions


def check_same(make: Callable[[], JobPickPlayer], agent: PPO, options: dict[str, Any]) -> Any:
    trace, actions = compiled(make(), agent)
    assert trace_differences(repeated(make(), agent, actions, options), trace) == []
    assert trace.n_decisions == len(actions)
    return trace


@settings(max_examples=60, deadline=None)
@given(worlds(max_jobs=16), st.sampled_from(OPTIONS), st.integers(0, 99), st.sampled_from(("legal", "all")))
@example(check_worlds()["memory and bandwidth"], OPTIONS[4], 1, "all")
def test_the_same_actions_starts_and_cores(world: World, options: dict[str, Any], seed: int, rows: str) -> None:
    if world.workload.n_jobs == 0:
        return

    def make() -> JobPickPlayer:
        return JobPickPlayer(platform=world.platform, workload=world.workload, **options)

    network = "mlp" if seed % 2 and options.get("max_jobs", 128) < 9 else "kernel"
    check_same(make, agent_for(make(), seed, network=network, visible_rows=rows), options)


def test_memory_energy_contention_and_walltimes_of_a_real_machine() -> None:
    platform = hdrl.read_platform("gaia")
    workload = hdrl.read_workload("lublin_gaia_1000", platform, n_jobs=60)
    jobs = workload.jobs.copy()
    jobs["submit_s"] /= 24
    jobs["walltime_s"][::3] = jobs["requested_time_s"][::3] * 0.8
    workload = replace(workload, jobs=jobs)
    for options in ({}, {"backfilling": "easy_priority", "features": SEEN}):

        def make(options: dict[str, Any] = options) -> JobPickPlayer:
            return JobPickPlayer(platform=platform, workload=workload, **options)

        trace = check_same(make, agent_for(make(), 3), options)
        check_trace(trace)
        assert trace.consumed_j > 0
        assert hdrl.compute_metrics(trace)["n_walltime_reached"] > 0


def test_of_jobs_that_look_alike_the_first_is_picked() -> None:
    platform = small_platform(Node((Processor(2),)))
    workload = small_workload(*(JobSpec(0.0, 1, gflop=10.0) for _ in range(40)))
    env = JobPickPlayer(platform=platform, workload=workload, max_jobs=40)
    assert compiled(env, agent_for(env, 0))[1] == [0] * 40


@pytest.mark.parametrize("order", ["fcfs", "f4_relative"])
def test_the_date_of_the_log_is_not_seen(order: str) -> None:
    """Windows begin at date 0 in comparisons, and at the dates of the log in trainings."""
    platform, workload = jobs_without_coincidences(60)
    jobs = workload.jobs.copy()
    jobs["submit_s"] += 2.0**20 - jobs["submit_s"].min()
    later = replace(workload, jobs=jobs)
    for kind in (JobPickPlayer, partial(JobPickEnv, n_jobs="all")):
        seen = []
        for load in (workload.window(0, 60), later):
            env = kind(platform=platform, workload=load, features=SEEN, order=order)
            observation, info = env.reset()
            seen.append([observation])
            has_ended = False
            while not has_ended:
                observation, _, has_ended, _, info = env.step(int(np.flatnonzero(info["action_mask"])[-1]))
                seen[-1].append(observation)
        for one, other in zip(*seen, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)


class Chooser(PPO):
    """Chooses by something else than the logits."""

    def act(self, observations: Any, mask: Any, *, explore: bool) -> Any:
        return super().act(observations, mask, explore=explore)


@pytest.mark.parametrize("why", ["attention", "tanh", "own", "listener", "not finite"])
def test_what_compiled_code_does_not_know_is_played_in_python(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = check_worlds()["memory and bandwidth"]
    env = JobPickPlayer(platform=world.platform, workload=world.workload, max_jobs=4)
    special: dict[str, Any] = {"attention": {"network": "attention"}, "tanh": {"network": "mlp", "activation": "tanh"}}
    agent = agent_for(env, 0, **special.get(why, {}))
    if why == "own":
        agent.__class__ = Chooser
    elif why == "listener":
        agent.listener = _Silent()
    elif why == "not finite":
        next(iter(agent.network.parameters())).data[0] = torch.inf
    monkeypatch.setattr(JobPickPlayer, "play_actor", _refuse)
    play(agent, env, seed=0)
    assert env.trace().n_decisions > 0


class _Silent:
    """Listens to everything."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: None


def _refuse(self: Any, actor: Any, *, seed: int) -> None:
    del self, actor, seed
    raise AssertionError("compiled code was asked")


WITHOUT_COMPILER = """
import numpy as np
from hdrl.base.plainnet import PlainActor, PlainLayers
from hdrl.settings.batch.envs.job_pick import JobPickEnv
from hdrl.settings.batch.envs.job_pick_player import JobPickPlayer
from hdrl.testing import check_worlds
draw = np.random.default_rng(0)
widths = np.array([8, 4, 1])
layers = PlainLayers(widths, draw.normal(size=41).astype(np.float32))
extra = PlainLayers(np.array([4, 1]), draw.normal(size=5).astype(np.float32))
for world in list(check_worlds().values())[1:4]:
    env = JobPickPlayer(platform=world.platform, workload=world.workload, max_jobs=4, skip=True)
    env.play_actor(PlainActor(layers, by_rows=True, extra=extra), seed=0)
    print(env.trace().records["start_s"].tolist(), env.trace().n_decisions)
"""


def test_the_same_without_the_compiler(with_and_without_compiler: Callable[[str], list[str]]) -> None:
    found = with_and_without_compiler(WITHOUT_COMPILER)
    assert len(found[0].splitlines()) == 3
    assert found[0] == found[1]

"""Holding jobs in JobPick: what it means, that time never stands still, and which networks know of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from hdrl.agents import make_agent
from hdrl.base.errors import HdrlError
from hdrl.base.rowspace import n_per_row_of
from hdrl.learn.spaces import space_as_json, space_from_json
from hdrl.settings.batch.envs.job_pick import JobPickEnv, JobPickVectorEnv
from hdrl.testing import JobSpec, Node, Processor, small_platform, small_workload

MAX_JOBS = 8


def env_of(*jobs: tuple[float, int, float], **arguments: Any) -> JobPickEnv:
    """Return an environment of four processors; jobs are submission, processors, seconds."""
    workload = small_workload(*(JobSpec(at_s, cores, gflop=run_s) for at_s, cores, run_s in jobs))
    platform = small_platform(Node((Processor(4),)))
    return JobPickEnv(platform=platform, workload=workload, n_jobs="all", may_hold=True, max_jobs=MAX_JOBS, **arguments)


def legal(info: dict[str, Any]) -> list[int]:
    return np.flatnonzero(info["action_mask"]).tolist()


def test_nothing_can_be_held_while_nothing_runs() -> None:
    env = env_of((0.0, 1, 10.0), (0.0, 1, 10.0))
    _, info = env.reset()
    assert legal(info) == [0, 1]
    _, _, _, _, info = env.step(0)
    assert legal(info) == [0, MAX_JOBS]
    env.step(MAX_JOBS)
    # It was held until the first one had ended, and then nothing ran.
    _, _, terminated, _, _ = env.step(0)
    assert terminated
    assert env.trace().records["start_s"].tolist() == pytest.approx([0.0, 10.0])


@pytest.mark.parametrize("backfilling", ["none", "easy", "easy_sjbf", "easy_priority"])
def test_held_jobs_are_neither_first_nor_overtake(backfilling: str) -> None:
    # Two processors are taken until 10; the second job needs all four, the others fit and end in time.
    env = env_of((0.0, 2, 10.0), (0.0, 4, 10.0), (0.0, 1, 5.0), (0.0, 1, 5.5), (6.0, 1, 1.0), backfilling=backfilling)
    env.reset()
    _, _, _, _, info = env.step(0)
    assert legal(info) == [0, 1, 2, MAX_JOBS, MAX_JOBS + 1, MAX_JOBS + 2]
    observation, _, _, _, info = env.step(MAX_JOBS + 1)
    assert legal(info) == [0, 2, MAX_JOBS, MAX_JOBS + 2]
    assert observation[:3, 7].tolist() == pytest.approx([1e-5, 1e-5, 1 - 1e-5])  # what is held cannot start now
    # The large one is the first of the queue; whoever is not held may overtake it.
    _, _, _, _, info = env.step(0)
    if backfilling == "easy_priority":
        assert legal(info) == [2, MAX_JOBS + 2]
        _, _, _, _, info = env.step(2)
    overtook = [0.0] if backfilling != "none" else [-1.0]
    assert env.batch._pool.start_s[0, 1:4].tolist() == [-1.0, -1.0, *overtook]
    # At the next event whoever was held may be picked again.
    assert env.batch._pool.scalars["message_s"][0, 0] > 0.0
    assert legal(info)[:2] == [0, 1]


def test_whoever_holds_all_it_may_still_reaches_the_end() -> None:
    for skip in (False, True):
        env = JobPickVectorEnv.of(2, n_procs=64, n_jobs=60, may_hold=True, skip=skip, autoreset_mode="SameStep")
        rng = np.random.default_rng(0)
        _, info = env.reset(seed=0)
        has_ended = np.zeros(2, dtype=bool)
        for _ in range(200_000):
            mask = info["action_mask"]
            holds = mask[:, 128:256].any(axis=1)
            drawn = [int(rng.choice(np.flatnonzero(row))) for row in mask]
            first = 128 + mask[:, 128:256].argmax(axis=1)
            # The first row holds whatever can be held, the second one draws.
            actions = np.where(holds & (np.arange(2) == 0), first, drawn)
            _, _, terminations, _, info = env.step(actions)
            has_ended |= terminations
            if has_ended.all():
                break
        assert has_ended.all()


def test_nothing_changes_for_those_who_do_not_ask() -> None:
    plain = JobPickVectorEnv.of(1, n_procs=16, n_jobs=8)
    assert type(plain.single_action_space) is spaces.Discrete
    assert "episode.scalars.n_held" not in plain.state_dict()


@pytest.mark.parametrize("extras", [0, 1])
def test_the_kernel_network_gives_each_row_two_logits(extras: int) -> None:
    envs = JobPickVectorEnv.of(4, n_procs=16, n_jobs=32, max_jobs=MAX_JOBS, may_hold=True, skip=bool(extras))
    space = space_from_json(space_as_json(envs.single_action_space))
    assert n_per_row_of(space) == n_per_row_of(envs.single_action_space) == 2
    agent = make_agent("ppo", envs.single_observation_space, space, seed=1, network="kernel")
    import torch

    observations, info = envs.reset(seed=0)
    for _ in range(30):
        mask = torch.from_numpy(info["action_mask"] != 0)
        chances = agent.probabilities(torch.from_numpy(observations), mask)
        assert chances.shape == (4, 2 * MAX_JOBS + extras)
        assert (chances[~mask] == 0).all()
        assert torch.allclose(chances.sum(-1), torch.ones(4))
        actions = agent.act(torch.from_numpy(observations), mask, explore=True).actions
        observations, _, _, _, info = envs.step(actions.numpy())
    # Rows that change places change their logits alike.
    logits = agent.network.logits(torch.from_numpy(observations), None)
    turned = agent.network.logits(torch.from_numpy(observations[:, ::-1].copy()), None)
    for first in (0, MAX_JOBS):
        rows = slice(first, first + MAX_JOBS)
        assert torch.allclose(logits[:, rows].flip(-1), turned[:, rows], atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"compatibility": "rlscheduler"}, "neither skip nor may_hold"),
        ({"may_hold": "yes"}, "may_hold is 'yes', expected"),
    ],
)
def test_mistakes_are_one_line(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(HdrlError, match=told) as caught:
        JobPickVectorEnv.of(1, n_procs=16, n_jobs=8, **({"may_hold": True} | arguments))
    assert "\n" not in str(caught.value)


def test_attention_knows_one_action_for_each_row() -> None:
    envs = JobPickVectorEnv.of(1, n_procs=16, n_jobs=8, may_hold=True)
    with pytest.raises(HdrlError, match="expected 'kernel', 'rows' or 'mlp'"):
        make_agent("ppo", envs.single_observation_space, envs.single_action_space, seed=1, network="attention")

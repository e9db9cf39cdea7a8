"""Whom learners of JobPick may imitate: the choices of policies are the kernel's schedules; and which windows count."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import hdrl
from hdrl.base.errors import HdrlError
from hdrl.compiled.borrowed import Borrowed
from hdrl.settings.batch.envs.job_pick import JobPickVectorEnv
from hdrl.settings.batch.kernel import entries
from hdrl.settings.batch.kernel.state import new_state
from hdrl.settings.batch.policies.pairs import read_pair

from .test_job_pick_history import log, world

ASKS = {"backfilling": "easy_priority"}


def guided_starts(policy: str, arguments: dict[str, Any]) -> tuple[list[float], list[float], int]:
    """Return when jobs start under a policy in the kernel and as its choices in JobPick have it; how many holds."""
    platform, window = world(log(2, n_jobs=260), n_jobs=200)
    kernel = hdrl.simulate(platform, window, policy, energy=False)
    envs = JobPickVectorEnv.of(
        1, platform=platform, workload=window, n_jobs="all", guide=policy, autoreset_mode="Disabled", **arguments
    )
    _, info = envs.reset(seed=0)
    n_holds, terminated = 0, False
    while not terminated:
        actions = envs.guide_actions()
        assert info["action_mask"][0, actions[0]]
        n_holds += int(actions[0] >= 128)
        _, _, terminations, _, info = envs.step(actions)
        terminated = bool(terminations[0])
    return kernel.records["start_s"].tolist(), envs.trace(0).records["start_s"].tolist(), n_holds


@pytest.mark.parametrize(
    ("policy", "arguments"),
    [
        ("fcfs+easy", {}),
        ("saf+easy_sjbf", {"backfilling": "easy_sjbf"}),
        ("lxf+easy_priority", ASKS),
        ("saf+easy@geo", {}),
        ("saf+easy@geo", ASKS),
        ("sjf+easy_sjbf@geo", ASKS),
        ("wfp3+easy_priority@last2", ASKS | {"predictor": "last2"}),
        ("saf+easy@geo~gate", ASKS | {"skip": True}),
        ("saf+easy@geo~gate", ASKS | {"may_hold": True}),
        ("saf+easy@geo~gate", {"may_hold": True}),
        ("es-generalist", ASKS | {"skip": True, "features": ["index"]}),
        ("es-generalist", ASKS | {"may_hold": True, "skip": True}),
    ],
)
def test_choices_are_those_of_the_kernel(policy: str, arguments: dict[str, Any]) -> None:
    kernel, pool, n_holds = guided_starts(policy, arguments)
    assert np.allclose(kernel, pool, atol=1e-3)
    if policy != "es-generalist":  # it holds nothing here
        assert (n_holds > 0) == ("gate" in policy)


def test_choices_are_the_kernels_while_the_agent_sees_every_waiting_job() -> None:
    # Up to 143 jobs wait under F4 here: with 128 rows, those that the agent does not see cannot overtake.
    kernel, seen, _ = guided_starts("f4+easy_priority", ASKS | {"max_jobs": 143})
    assert np.allclose(kernel, seen, atol=1e-3)
    kernel, hidden, _ = guided_starts("f4+easy_priority", ASKS)
    assert not np.allclose(kernel, hidden, atol=1e-3)


def test_the_gate_of_a_guide_knows_who_found_no_room_as_the_kernel_does() -> None:
    platform, window = world(log(2, n_jobs=120), n_jobs=60)
    policy = read_pair("es-generalist")
    unused = np.zeros(625, dtype=np.uint32)
    kernel = new_state(platform, window, twister=unused, energy=False, logging=False, rule=policy.rule)
    borrowed = Borrowed(kernel)
    entries.begin(borrowed)
    entries.run_pair(borrowed, policy.job_key, policy.core_key, 1 << 40, policy.backfilling)
    arguments: dict[str, Any] = ASKS | {"may_hold": True, "skip": True, "guide": "es-generalist"}
    envs = JobPickVectorEnv.of(
        1, platform=platform, workload=window, n_jobs="all", autoreset_mode="Disabled", **arguments
    )
    envs.reset(seed=0)
    while not envs.step(envs.guide_actions())[2][0]:
        pass
    for name in ("n_came", "n_without_room"):
        assert envs._pool.sums[name].max() == pytest.approx(kernel.sums[name].max())
    assert 1 < kernel.sums["n_without_room"].max() < kernel.sums["n_came"].max() - 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"guide": "saff+easy"}, "saff"),
        ({"guide": ["saf+easy", "saff+easy"]}, "saff"),
        ({"guide": ["es-generalist", "saf+easy@geo~gate"], "skip": True, **ASKS}, "at most one with weights or a gate"),
        ({"guide": "sjf"}, "expected EASY with a priority"),
        ({"guide": "sjf+easy_sjbf"}, "backfilling is 'easy', expected 'easy_priority'"),
        ({"guide": "sjf+easy_sjbf@geo", "backfilling": "easy_sjbf"}, "expected 'easy_priority'"),
        ({"guide": "saf+easy@last2"}, "uses another predictor than this environment, 'geo'"),
        ({"guide": "saf+easy@geo/all"}, "are not simulated here"),
        ({"guide": "saf+easy@geo~gate"}, "it holds jobs back, expected may_hold, or skip"),
        ({"guide": "saf+easy@geo", "commitment": "block"}, "expected 'repick'"),
        ({"keeps": ("sjf", 3.0, 2.0)}, "expected the smaller value first"),
        ({"keeps": ("sfj", 1.0, 2.0)}, "did you mean 'sjf'"),
        ({"keeps": ("sjf", 1.0)}, "expected a priority, the least and the largest value"),
        ({"keeps": ("sjf",), "start": "consecutive"}, "keeps is for windows that are drawn"),
    ],
)
def test_mistakes_are_one_line(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(HdrlError, match=told) as caught:
        JobPickVectorEnv.of(1, n_procs=16, n_jobs=8, **arguments)
    assert "\n" not in str(caught.value)


def test_without_a_policy_there_is_nobody_to_ask() -> None:
    with pytest.raises(HdrlError, match="guide is missing"):
        JobPickVectorEnv.of(1, n_procs=16, n_jobs=8).guide_actions()


def test_windows_are_drawn_until_one_is_kept() -> None:
    arguments: dict[str, Any] = {"n_procs": 256, "n_jobs": 64}
    plain = JobPickVectorEnv.of(64, **arguments)
    plain.reset(seed=0)
    values = plain.run_priorities("sjf", [plain.window(row) for row in range(64)])["sjf"]["objective"]
    least, most = np.quantile(values, (0.3, 0.8))
    kept = JobPickVectorEnv.of(64, keeps=("sjf", least, most), **arguments)
    kept.reset(seed=0)
    windows = [kept.window(row) for row in range(64)]
    inside = kept.run_priorities("sjf", windows)["sjf"]["objective"]
    assert ((inside >= least) & (inside <= most)).all()
    # Windows that are kept stay where they are.
    stays = (values >= least) & (values <= most)
    assert [windows[i] for i in np.flatnonzero(stays)] == [plain.window(int(i)) for i in np.flatnonzero(stays)]
    by_itself = JobPickVectorEnv.of(1, keeps=("sjf",), **arguments)
    assert by_itself._filter is not None
    assert 1.0 <= by_itself._filter.least < by_itself._filter.most
    with pytest.raises(HdrlError, match="none of 1000 windows is kept"):
        JobPickVectorEnv.of(1, keeps=("sjf", 0.1, 0.2), **arguments).reset(seed=0)


def first_objectives(envs: Any) -> list[float]:
    """Return the objectives of the first episodes of all rows under the policies whose choices are told."""
    envs.reset(seed=0)
    values = np.full(envs.num_envs, np.nan)
    while np.isnan(values).any():
        *_, ended, _, info = envs.step(envs.guide_actions())
        is_first = ended & np.isnan(values)
        values[is_first] = info["results"]["objective"][is_first] if is_first.any() else []
    return values.tolist()


def test_of_several_policies_the_best_of_each_window_is_told() -> None:
    platform, window = world(log(2, n_jobs=260), n_jobs=200)
    names = ["fcfs+easy_priority", "lxf+easy_priority", "saf+easy_priority@geo~gate"]
    arguments: dict[str, Any] = {"platform": platform, "workload": window, "n_jobs": 60, "skip": True, **ASKS}
    alone = np.array([first_objectives(JobPickVectorEnv.of(8, guide=name, **arguments)) for name in names])
    assert len(set(alone.argmin(axis=0).tolist())) > 1
    together = JobPickVectorEnv.of(8, guide=names, **arguments)
    assert first_objectives(together) == alone.min(axis=0).tolist()
    # A copy goes on as the original does.
    other = copy.deepcopy(together)
    for _ in range(20):
        actions = together.guide_actions()
        assert other.guide_actions().tolist() == actions.tolist()
        together.step(actions)
        other.step(actions)

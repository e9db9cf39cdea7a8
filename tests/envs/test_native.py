"""The shared base of batches, on an environment whose every result can be told in advance."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from hdrl.base.errors import DecisionError, OptionsError
from hdrl.compiled.counts import ALL_LEGAL, NO_ACTION, keep_count, take_actions
from hdrl.envs.native import NativeVectorEnv
from hdrl.envs.seeds import MAX_SEED, episode_seed
from hdrl.envs.single import SingleEnv


def in_python(function: Any) -> Any:
    """Return a function of the kernel as Python runs it."""
    return getattr(function, "py_func", function)


class Countdown(NativeVectorEnv):
    """Each episode begins with a random number from 2 to 5; action k takes k + 1 away; action 1 is illegal at 1."""

    def __init__(self, num_envs: int, **more: Any) -> None:
        super().__init__(num_envs, spaces.Box(0.0, 5.0, (1,), np.float32), spaces.Discrete(2), **more)
        self._left = np.zeros(num_envs, dtype=np.int64)
        self.was_helped = threading.Event()

    def _begin(self, row: int, episode: int, seed: int, options: dict[str, Any]) -> None:
        self._left[row] = 2 + seed % 4

    def _write(self, chosen: np.ndarray) -> None:
        for row in np.flatnonzero(chosen):
            self._observations[row] = self._left[row]
            self._masks[row] = (1, self._left[row] > 1)

    def _reset_rows(self, chosen: np.ndarray) -> None:
        self._write(chosen)

    def _step_rows(self, chosen: np.ndarray, actions: np.ndarray) -> tuple[int, int]:
        counts = self._counts.arrays
        illegal = in_python(take_actions)(counts, chosen, actions, NO_ACTION)
        if illegal != ALL_LEGAL:
            return illegal, 0
        for row in np.flatnonzero(chosen):
            self._left[row] -= 1 + self._actions[row]
            self._rewards[row] = self._actions[row]
            self._terminations[row] = self._left[row] == 0
        self._write(chosen)
        return ALL_LEGAL, in_python(keep_count)(counts, chosen)

    def _help(self, number: int) -> None:
        del number
        self.was_helped.set()

    def _episode_infos(self, ended: np.ndarray) -> dict[str, np.ndarray]:
        return {"left": np.where(ended, self._left, 0).astype(np.float64)}

    def _state_arrays(self) -> dict[str, np.ndarray]:
        return {"left": self._left}


def start(env: NativeVectorEnv, seed: int) -> np.ndarray:
    return env.reset(seed=seed)[0][:, 0]


def test_next_step_begins_the_next_episode_one_step_later() -> None:
    env = Countdown(3)
    left = start(env, 0)
    assert sorted(set(left.tolist())) != [2.0], "the seeds must give something to see"
    for _ in range(30):
        ended = env._has_ended.copy()
        before = left
        observations, rewards, terminations, truncations, info = env.step(np.zeros(3, dtype=int))
        left = observations[:, 0]
        assert np.all(left[~ended] == before[~ended] - 1)
        assert np.all(left[ended] >= 2)
        assert np.all(rewards == 0)
        assert np.array_equal(terminations, left == 0)
        assert not truncations.any()
        assert np.array_equal(info["action_mask"], np.stack([np.ones(3), left > 1], axis=1).astype(np.int8))


def test_same_step_begins_it_at_once_and_hands_out_the_final_observation() -> None:
    env = Countdown(2, autoreset_mode="SameStep")
    left = start(env, 3)
    for _ in range(30):
        observations, _, terminations, _, info = env.step(np.zeros(2, dtype=int))
        assert np.array_equal(terminations, left == 1)
        for row in np.flatnonzero(terminations):
            assert info["final_obs"][row] == [0.0]
            assert info["final_info"]["results"]["l"][row] > 1
            assert info["final_info"]["results"]["left"][row] == 0.0
            assert observations[row] >= 2
        left = observations[:, 0]


def test_both_modes_and_gymnasiums_own_batch_tell_the_same_episodes() -> None:
    def lengths(env: Any, *, final: bool) -> list[list[int]]:
        env.reset(seed=7)
        result: list[list[int]] = [[] for _ in range(4)]
        for _ in range(40):
            info = env.step(np.zeros(4, dtype=int))[4]
            info = info.get("final_info", {}) if final else info
            for row in np.flatnonzero(info.get("_results", [])):
                result[row].append(int(info["results"]["l"][row]))
        return [one[:6] for one in result]

    next_step = lengths(Countdown(4), final=False)
    single = [lambda: SingleEnv(Countdown(1, autoreset_mode="Disabled"))] * 4
    assert next_step == lengths(Countdown(4, autoreset_mode="SameStep"), final=True)
    assert next_step == lengths(SyncVectorEnv(single), final=False)
    same = SyncVectorEnv(single, autoreset_mode=AutoresetMode.SAME_STEP)
    assert next_step == lengths(same, final=True)
    assert len({tuple(one) for one in next_step}) == 4


def assert_same_info(left: Any, right: Any) -> None:
    if isinstance(left, dict):
        assert set(left) == set(right)
        for name in left:
            assert_same_info(left[name], right[name])
        return
    assert (left.dtype, left.shape) == (right.dtype, right.shape)
    if left.dtype != object:
        assert np.array_equal(left, right)
        return
    for one, other in zip(left, right, strict=True):
        assert (one is None and other is None) or np.array_equal(one, other)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_infos_are_those_of_gymnasiums_own_batch(mode: str) -> None:
    single = [lambda: SingleEnv(Countdown(1, autoreset_mode="Disabled"))] * 4
    ours, theirs = Countdown(4, autoreset_mode=mode), SyncVectorEnv(single, autoreset_mode=mode)
    ours.reset(seed=1)
    theirs.reset(seed=1)
    n_ended = set()
    for _ in range(40):
        left, right = (env.step(np.zeros(4, dtype=int)) for env in (ours, theirs))
        assert_same_info(left[4], right[4])
        n_ended.add(int(left[2].sum()))
    assert max(n_ended) > 1, "several episodes must end together"


@pytest.mark.parametrize("n_threads", [2, 5])
def test_threads_change_nothing(n_threads: int) -> None:
    one, many = Countdown(5), Countdown(5, n_threads=n_threads)
    assert np.array_equal(one.reset(seed=2)[0], many.reset(seed=2)[0])
    for _ in range(25):
        for left, right in zip(
            one.step(np.zeros(5, dtype=int))[:4], many.step(np.zeros(5, dtype=int))[:4], strict=True
        ):
            assert np.array_equal(left, right)
    assert many.was_helped.wait(20.0)
    many.close()


def test_an_environment_goes_on_from_a_saved_state() -> None:
    env, other = Countdown(3), Countdown(3)
    env.reset(seed=5)
    for _ in range(7):
        env.step(np.zeros(3, dtype=int))
    other.load_state_dict(env.state_dict())
    for _ in range(20):
        for left, right in zip(
            env.step(np.zeros(3, dtype=int))[:4], other.step(np.zeros(3, dtype=int))[:4], strict=True
        ):
            assert np.array_equal(left, right)


def test_a_state_of_something_else_is_refused_and_changes_nothing() -> None:
    env = Countdown(3)
    env.reset(seed=5)
    before = env.state_dict()
    with pytest.raises(OptionsError, match=r"state_dict: '.*' is of .* expected"):
        env.load_state_dict(Countdown(2).state_dict())
    with pytest.raises(OptionsError, match=r"state_dict: 'episode.left' is missing"):
        env.load_state_dict({k: v for k, v in before.items() if k != "episode.left"})
    assert all(np.array_equal(array, before[name]) for name, array in env.state_dict().items())


def test_a_layout_tells_names_types_and_shapes_apart_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    env, threads = Countdown(3), Countdown(3, n_threads=2)
    layout = env.state_layout()
    env.reset(seed=5)
    env.step(np.zeros(3, dtype=int))
    assert env.state_layout() == threads.state_layout() == layout
    others = [
        {"left": np.zeros((2,), dtype=np.int64)},
        {"left": np.zeros((3,), dtype=np.int32)},
        {"left": np.zeros((3,), dtype=[("n", np.int64)])},
        {"rest": np.zeros((3,), dtype=np.int64)},
        {},
    ]
    found = {layout}
    for arrays in others:
        monkeypatch.setattr(env, "_state_arrays", lambda arrays=arrays: arrays)
        found.add(env.state_layout())
    assert len(found) == 1 + len(others)


def test_copies_are_kept_and_buffers_are_not() -> None:
    copied, shared = Countdown(2), Countdown(2, copy=False)
    for env, is_kept in ((copied, True), (shared, False)):
        first = env.reset(seed=0)[0]
        before = first.copy()
        env.step(np.zeros(2, dtype=int))
        assert np.array_equal(first, before) == is_kept


def test_resetting_some_rows_leaves_the_others_alone() -> None:
    env = Countdown(3, autoreset_mode="Disabled")
    left = start(env, 0)
    after, info = env.reset(seed=11, options={"reset_mask": np.array([False, True, False])})
    assert after[[0, 2], 0].tolist() == left[[0, 2]].tolist()
    assert info["_action_mask"].tolist() == [False, True, False]
    assert after[1, 0] == start(Countdown(3), 11)[1]


def test_an_episode_can_be_asked_for_by_number() -> None:
    env = Countdown(2)
    env.reset(seed=4)
    env.reset()
    third = env.reset()[0]
    again = Countdown(2)
    assert np.array_equal(again.reset(seed=4, options={"episode": 2})[0], third)
    assert not np.array_equal(env.reset()[0], third) or not np.array_equal(env.reset()[0], third)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 2], "row 1: no action 2, expected 0 to 1"),
        ([-1, 0], "row 0: no action -1, expected 0 to 1"),
        ([0], r"actions are of int64 and shape \(1,\), expected whole numbers of shape \(2,\)"),
        ([0.0, 1.0], "actions are of float64"),
    ],
)
def test_wrong_actions_are_refused_before_anything_happens(actions: list[float], message: str) -> None:
    env = Countdown(2)
    env.reset(seed=0)
    before = env.state_dict()
    with pytest.raises(DecisionError, match=message):
        env.step(np.array(actions))
    assert all(np.array_equal(array, before[name]) for name, array in env.state_dict().items())


def test_illegal_actions_are_refused_except_where_they_are_ignored() -> None:
    env = Countdown(1)
    env.reset(seed=0)
    while env._left[0] > 1:
        env.step(np.array([0]))
    with pytest.raises(DecisionError, match=r"row 0: action 1 is illegal here, legal: 0 .*NearestLegal"):
        env.step(np.array([1]))
    env.step(np.array([0]))
    env.step(np.array([99]))
    assert env._left[0] >= 2


def test_an_environment_that_was_not_reset_says_so() -> None:
    for env in (Countdown(1), SingleEnv(Countdown(1, autoreset_mode="Disabled"))):
        with pytest.raises(DecisionError, match="reset it first"):
            env.step(np.array([0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed is -1, expected a whole number"),
        ({"seed": MAX_SEED}, "seed is .*, expected"),
        ({"seed": [1]}, "seed has 1 numbers, expected one for each of 2 rows"),
        ({"options": {"epsode": 1}}, "no reset option 'epsode'; did you mean 'episode'?"),
        ({"options": {"episode": -1}}, "episode is -1, expected"),
        ({"options": {"reset_mask": [True]}}, "reset_mask is of bool and shape"),
    ],
)
def test_wrong_arguments_of_reset(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        Countdown(2).reset(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs is 0, expected a whole number of at least 1"),
        ({"num_envs": 1, "n_threads": 0}, "n_threads is 0"),
        ({"num_envs": 1, "autoreset_mode": "NextStp"}, "autoreset_mode is 'NextStp'; did you mean 'NextStep'?"),
    ],
)
def test_wrong_arguments_of_the_constructor(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        Countdown(**arguments)


def test_episode_seeds_are_those_of_splitmix64() -> None:
    # The first three numbers of SplitMix64 seeded 1234567 (Rosetta Code's test vector).
    assert [episode_seed(1234567, n) for n in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_gymnasium_accepts_the_single_environment() -> None:
    check_env(SingleEnv(Countdown(1, autoreset_mode="Disabled")), skip_render_check=True)

"""Masks, the ways in which libraries look for them; Stable-Baselines3 and sb3-contrib train on our batches."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from hdrl.base.errors import OptionsError
from hdrl.envs.masks import (
    DictObservation,
    DictObservationVector,
    LegalDiscrete,
    LegalMultiDiscrete,
    NearestLegal,
    nearest_legal,
)
from hdrl.settings.batch.envs.job_pick import JobPickEnv, JobPickVectorEnv

SMALL: dict[str, Any] = {"n_procs": 64, "n_jobs": 16, "max_jobs": 8}


def test_samples_of_the_action_space_are_legal() -> None:
    mask = np.array([0, 1, 0, 1], dtype=np.int8)
    space = LegalDiscrete(mask)
    space.seed(0)
    assert {int(space.sample()) for _ in range(50)} == {1, 3}
    mask[:] = (1, 0, 0, 0)
    assert {int(space.sample()) for _ in range(10)} == {0}
    assert int(space.sample(mask=np.array([0, 0, 1, 0], dtype=np.int8))) == 2
    assert space == spaces.Discrete(4)
    assert type(copy.deepcopy(space)) is spaces.Discrete


def test_samples_of_a_batch_are_legal() -> None:
    masks = np.array([[0, 1, 0], [1, 0, 1]], dtype=np.int8)
    space = LegalMultiDiscrete(masks)
    space.seed(0)
    draws = np.array([space.sample() for _ in range(50)])
    assert set(draws[:, 0]) == {1}
    assert set(draws[:, 1]) == {0, 2}
    assert type(copy.deepcopy(space)) is spaces.MultiDiscrete
    env = JobPickVectorEnv.of(3, **SMALL)
    env.reset(seed=0)
    for _ in range(100):
        env.step(env.action_space.sample())


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, np.float32])
def test_the_mask_can_be_a_part_of_the_observation(dtype: Any) -> None:
    env = DictObservation(JobPickEnv(**SMALL), dtype)
    observation, info = env.reset(seed=0)
    assert observation["action_mask"].dtype == dtype
    assert np.array_equal(observation["action_mask"], info["action_mask"])
    assert observation in env.observation_space
    observation, _, _, _, info = env.step(int(np.argmax(info["action_mask"])))
    assert np.array_equal(observation["action_mask"], info["action_mask"])
    assert observation in env.observation_space


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_the_mask_can_be_a_part_of_the_observations_of_a_batch(mode: str) -> None:
    env = DictObservationVector(JobPickVectorEnv.of(3, autoreset_mode=mode, **SMALL), bool)
    observations, info = env.reset(seed=0)
    n_endings = 0
    for _ in range(60):
        assert observations in env.observation_space
        assert np.array_equal(observations["action_mask"], info["action_mask"])
        observations, _, terminations, _, info = env.step(info["action_mask"].argmax(axis=1))
        if mode == "SameStep":
            for row in np.flatnonzero(terminations):
                n_endings += 1
                assert info["final_obs"][row] in env.single_observation_space
    assert (n_endings > 0) == (mode == "SameStep")


def test_other_types_of_masks_are_refused() -> None:
    with pytest.raises(OptionsError, match="dtype is float64, expected int8, bool or float32"):
        DictObservation(JobPickEnv(**SMALL), np.float64)


def test_the_nearest_legal_action_is_taken() -> None:
    masks = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [1, 0, 1, 0]])
    assert nearest_legal(np.array([2, 0, 1]), masks).tolist() == [3, 1, 0]
    assert nearest_legal(np.array([3, 2, 2]), masks).tolist() == [3, 2, 2]
    env = NearestLegal(JobPickEnv(**SMALL))
    env.reset(seed=0)
    env.step(7)


def test_gymnasiums_wrappers_pass_the_masks_on() -> None:
    env = gymnasium.make("hdrl/JobPick-v0", **SMALL)
    env.reset(seed=0)
    assert env.get_wrapper_attr("action_masks")().dtype == bool


# ------------------------------------------------------------------ Stable-Baselines3


def vec_env(num_envs: int = 4, illegal: str = "error") -> Any:
    pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")
    from hdrl.envs.sb3 import as_vec_env

    return as_vec_env(JobPickVectorEnv.of(num_envs, autoreset_mode="SameStep", **SMALL), illegal=illegal)


def test_a_vec_env_does_what_the_batch_does() -> None:
    env, batch = vec_env(), JobPickVectorEnv.of(4, autoreset_mode="SameStep", **SMALL)
    env.seed(3)
    assert np.array_equal(env.reset(), batch.reset(seed=3)[0])
    for _ in range(80):
        masks = np.stack(env.env_method("action_masks"))
        assert np.array_equal(masks, batch.action_masks())
        actions = masks.argmax(axis=1)
        observations, rewards, dones, infos = env.step(actions)
        expected = batch.step(actions)
        assert np.array_equal(observations, expected[0])
        assert np.array_equal(rewards, expected[1].astype(np.float32))
        assert np.array_equal(dones, expected[2])
        for row in np.flatnonzero(dones):
            assert np.array_equal(infos[row]["terminal_observation"], expected[4]["final_obs"][row])
            assert infos[row]["episode"]["l"] == expected[4]["final_info"]["results"]["l"][row]
    assert env.has_attr("action_masks")
    assert env.env_is_wrapped(gymnasium.Wrapper) == [False] * 4
    with pytest.raises(OptionsError, match="set_attr: 'x' cannot be set"):
        env.set_attr("x", 1)


def test_a_vec_env_needs_the_mode_of_stable_baselines3() -> None:
    pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")
    from hdrl.envs.sb3 import as_vec_env

    with pytest.raises(OptionsError, match="autoreset_mode is 'NextStep', Stable-Baselines3 needs 'SameStep'"):
        as_vec_env(JobPickVectorEnv.of(2, **SMALL))
    with pytest.raises(OptionsError, match=r"illegal is 'nearst'; did you mean 'nearest'\?"):
        vec_env(illegal="nearst")


def test_weights_of_an_index_have_no_masks() -> None:
    pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")
    from hdrl.envs.sb3 import as_vec_env

    small = {"workload": "lublin_gaia_1000", "platform": "homogeneous:2280", "n_jobs": 20, "n_windows": 2}
    batch = gymnasium.make_vec(
        "hdrl/JobIndex-v0", num_envs=2, autoreset_mode="SameStep", reference="fcfs+easy", **small
    )
    env = as_vec_env(batch)
    env.seed(3)
    env.reset()
    _, rewards, ended, infos = env.step(np.zeros((2, 24)))
    assert ended.all()
    assert [info["episode"]["r"] for info in infos] == pytest.approx(rewards)
    assert rewards[0] == rewards[1], "all rows are judged by the same windows"
    with pytest.raises(OptionsError, match="have no masks"):
        env.env_method("action_masks")


def test_a_vec_env_does_not_hand_out_buffers_that_change() -> None:
    pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")
    from hdrl.envs.sb3 import as_vec_env

    with pytest.raises(OptionsError, match="copy is False, Stable-Baselines3 needs True"):
        as_vec_env(JobPickVectorEnv.of(2, autoreset_mode="SameStep", copy=False, **SMALL))


def test_a_vec_env_gives_each_row_its_own_options() -> None:
    env = vec_env(3)
    env.seed(0)
    env.set_options([{"episode": 1}, {"episode": 2}, {"episode": 3}])
    env.reset()
    batch = JobPickVectorEnv.of(3, **SMALL)
    batch.reset(seed=0, options={"episode": [1, 2, 3]})
    assert [env.env.window(row) for row in range(3)] == [batch.window(row) for row in range(3)]
    env.set_options([{"episode": 1}, {}, {}])
    with pytest.raises(OptionsError, match="expected the same options for each"):
        env.reset()


@pytest.mark.parametrize("name", ["hdrl/JobPick-v0", "hdrl/PolicyPair-v0"])
def test_stable_baselines3_makes_environments_by_name(name: str) -> None:
    util = pytest.importorskip("stable_baselines3.common.env_util", reason="the extra sb3 is not installed")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*rgb_array.*")  # Gymnasium says that it is not among the modes
        env = util.make_vec_env(name, n_envs=2)
    assert len(env.reset()) == 2


@pytest.mark.parametrize("wrapper", [NearestLegal, DictObservation])
def test_wrapped_environments_can_be_made_again(wrapper: Any) -> None:
    spec = wrapper(gymnasium.make("hdrl/JobPick-v0", **SMALL)).spec
    again = gymnasium.make(spec)
    assert isinstance(again, wrapper)
    again.reset(seed=0)


def test_maskable_ppo_trains_on_a_batch() -> None:
    contrib = pytest.importorskip("sb3_contrib", reason="the extra sb3 is not installed")
    env = vec_env()
    model = contrib.MaskablePPO("MlpPolicy", env, n_steps=16, batch_size=64, n_epochs=1, seed=0, device="cpu")
    before = {name: value.clone() for name, value in model.policy.state_dict().items()}
    model.learn(128)
    assert any(not before[name].equal(value) for name, value in model.policy.state_dict().items())
    assert len(model.ep_info_buffer) > 0


def test_ppo_trains_where_illegal_actions_are_replaced() -> None:
    sb3 = pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")
    model = sb3.PPO(
        "MlpPolicy", vec_env(illegal="nearest"), n_steps=16, batch_size=64, n_epochs=1, seed=0, device="cpu"
    )
    model.learn(64)
    assert model.num_timesteps == 64

"""Gymnasium's `RecordEpisodeStatistics` works around our environments, as unchanged scripts wrap them."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers.vector import RecordEpisodeStatistics as RecordVectorStatistics

import hdrl.envs  # noqa: F401  # registers the environments

SMALL = {
    "hdrl/Adaptation-v0": {},
    "hdrl/JobPick-v0": {"n_procs": 64, "n_jobs": 4},
}


@pytest.mark.parametrize("name", SMALL)
def test_a_single_environment_has_statistics_besides_its_results(name):
    env = RecordEpisodeStatistics(gymnasium.make(name, **SMALL[name]))
    _, info = env.reset(seed=0)
    total, length, has_ended = 0.0, 0, False
    while not has_ended:
        action = int(np.flatnonzero(info["action_mask"])[0])
        _, reward, terminated, truncated, info = env.step(action)
        total, length, has_ended = total + float(reward), length + 1, terminated or truncated
    assert (info["episode"]["r"], info["episode"]["l"]) == (pytest.approx(total), length)
    assert (info["results"]["r"], info["results"]["l"]) == (pytest.approx(total), length)


@pytest.mark.parametrize("mode", ["vector_entry_point", "sync"])
@pytest.mark.parametrize("name", SMALL)
def test_a_batch_has_statistics_besides_its_results(name, mode):
    # As CleanRL's scripts step: the step after an end begins the next episode.
    batch = gymnasium.make_vec(name, num_envs=2, vectorization_mode=mode, **SMALL[name])
    env = RecordVectorStatistics(batch)
    assert batch.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    _, info = env.reset(seed=0)
    n_ended = 0
    while n_ended < 4:
        _, _, terminations, truncations, info = env.step(np.argmax(info["action_mask"], axis=1))
        ended = np.flatnonzero(terminations | truncations)
        n_ended += len(ended)
        assert np.array_equal(info["episode"]["l"][ended], info["results"]["l"][ended]) if len(ended) else True
        assert info["episode"]["r"][ended] == pytest.approx(info["results"]["r"][ended]) if len(ended) else True

"""A batch of environments gives what its environments give alone."""

import numpy as np
import pytest

import hdrl
from hdrl.envs import PolicyPairVectorEnv
from hdrl.kernel.batch import alone, repeated
from hdrl.kernel.state import new_state
from hdrl.kernel.twister import twister_state


@pytest.fixture(scope="module")
def world():
    platform = hdrl.read_platform("gaia")
    return platform, hdrl.read_workload("lublin_gaia_1000", platform, n_jobs=60)


def play_to_the_end(batch, actions):
    """Let each row always do the same until its episode has ended; return what the kernel holds of each then."""
    jobs, energies, seeds = {}, {}, {}
    while len(jobs) < batch.num_envs:
        _, _, terminations, _, _ = batch.step(actions)
        for row in np.flatnonzero(terminations).tolist():
            if row not in jobs:
                scalars = batch._rows.batch.scalars[row, 0]
                jobs[row] = batch._rows.batch.jobs[row].copy()
                energies[row] = scalars["last_energy_j"] - scalars["first_energy_j"]
                seeds[row] = batch.policy_seed(row)
    return jobs, energies, seeds


def test_all_pairs_in_one_batch(world):
    names = hdrl.policy_names()[:36]
    batch = PolicyPairVectorEnv(36, platform=world[0], workload=world[1], void=False, observation="minimal")
    batch.reset(seed=0)
    jobs, energies, seeds = play_to_the_end(batch, np.arange(36))
    for row, name in enumerate(names):
        expected = hdrl.simulate(*world, name, seed=seeds[row])
        for field in ("state", "start_s", "run_s", "n_cores"):
            assert np.array_equal(jobs[row][field], expected.records[field]), (name, field)
        # With logs the sum is brought up to date more often.
        assert energies[row] == pytest.approx(expected.consumed_j, rel=1e-13)
        assert np.all(jobs[row]["energy_j"] == -1.0), "without logs, the energy of single jobs is not known"


def test_environments_do_not_meet(world):
    actions = ["random-random"]
    batch = PolicyPairVectorEnv(3, platform=world[0], workload=world[1], actions=actions, void=False)
    batch.reset(seed=[1, 2, 1])
    jobs, _, _ = play_to_the_end(batch, np.zeros(3, dtype=np.int64))
    assert np.array_equal(jobs[0], jobs[2])
    assert not np.array_equal(jobs[0]["start_s"], jobs[1]["start_s"])


def test_what_never_changes_is_shared_and_nothing_else(world):
    state = new_state(*world, twister=twister_state(0, "policy"), logging=False)
    for name, array in repeated(state, 3)._asdict().items():
        own = getattr(state, name)
        assert array is own if array.ndim == own.ndim else array.shape == (3, *own.shape), name
        assert array is own or not np.shares_memory(array, own), name
    one = alone(state)
    one.scalars["now"] = 7.0
    assert state.scalars["now"][0] == 7.0, "a batch of one is made of views"

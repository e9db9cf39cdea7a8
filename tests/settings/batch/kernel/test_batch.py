"""A batch of environments gives what its environments give alone."""

import numpy as np
import pytest

import hdrl
from hdrl.batch import PolicyPairVectorEnv
from hdrl.compiled.fields import Role, alone, fields_of, names_of, repeated
from hdrl.compiled.twister import twister_state
from hdrl.settings.batch.kernel.beginning import of_platform
from hdrl.settings.batch.kernel.state import BatchState, new_state


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


def test_simulations_share_what_never_changes_and_nothing_else(world):
    platform, workload = world
    before = {name: array.tobytes() for name, array in of_platform(platform, energy=True).items()}
    states = [new_state(platform, workload, twister=twister_state(0, "policy")) for _ in range(2)]
    for name, field in fields_of(BatchState).items():
        one, other = (getattr(state, name) for state in states)
        assert field.role is Role.SHARED or not np.shares_memory(one, other), name
    assert np.shares_memory(states[0].steps, workload.steps), "a window does not copy the steps of its log"
    hdrl.simulate(platform, workload, "random-random")
    assert {name: array.tobytes() for name, array in of_platform(platform, energy=True).items()} == before


@pytest.mark.parametrize("compatibility", [None, "hdeeprm-0.3.1"])
def test_scratch_holds_nothing_from_one_decision_to_the_next(world, compatibility):
    inputs = world if compatibility is None else ("gaia", "lublin_gaia_1000")
    common = {"platform": inputs[0], "workload": inputs[1], "n_jobs": 60, "compatibility": compatibility}
    kept, spoilt = (PolicyPairVectorEnv(3, **common) for _ in range(2))
    for env in (kept, spoilt):
        env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(80):
        actions = rng.integers(0, kept.n_actions - 1, 3)
        # Parts of these stay as they are: zeros where nothing is counted, and the speeds of nodes.
        for name in set(names_of(BatchState, Role.SCRATCH)) - {"chosen", "n_switching", "counts", "forecasts"}:
            array = getattr(spoilt._rows.batch, name)
            array.view(np.uint8)[...] = rng.integers(0, 256, array.nbytes, dtype=np.uint8)
        assert not spoilt._rows.batch.chosen.any()
        assert not spoilt._rows.batch.n_switching.any()
        for one, other in zip(kept.step(actions)[:4], spoilt.step(actions)[:4], strict=True):
            assert np.array_equal(one, other)


def test_each_thread_has_scratch_of_its_own_and_nothing_else(world):
    env = PolicyPairVectorEnv(2, platform=world[0], workload=world[1], n_threads=2)
    first, second = (borrowed.arrays.state for borrowed in env._rows.borrowed)
    own = {name for name in first._fields if getattr(first, name) is not getattr(second, name)}
    assert own == set(names_of(BatchState, Role.SCRATCH))
    assert not any(np.shares_memory(getattr(first, name), getattr(second, name)) for name in own)

"""A batch of environments gives what its environments give alone."""

import numpy as np
import pytest

import hdrl
from hdrl.kernel import codes
from hdrl.kernel.batch import cut, run_pairs, stack
from hdrl.kernel.state import new_state
from hdrl.kernel.twister import twister_state


@pytest.fixture(scope="module")
def world():
    platform = hdrl.read_platform("gaia")
    return platform, hdrl.read_workload("lublin_gaia_1000", platform, n_jobs=60)


def birth(world, seed=0):
    return new_state(*world, twister=twister_state(seed, "policy"), logging=False)


def test_all_pairs_in_one_call(world):
    keys = [(job, core) for job in range(6) for core in range(6)]
    batch = stack([birth(world) for _ in keys])
    statuses = run_pairs(batch, [job for job, _ in keys], [core for _, core in keys])
    assert set(statuses) == {codes.ENDED}
    for index, name in enumerate(hdrl.policy_names()[:36]):
        alone = hdrl.simulate(*world, name)
        together = cut(batch, index)
        for field in ("state", "start_s", "run_s", "n_cores"):
            assert np.array_equal(together.jobs[field], alone.records[field]), (name, field)
        s = together.scalars[0]
        # With logs the sum is brought up to date more often.
        assert s["last_energy_j"] - s["first_energy_j"] == pytest.approx(alone.consumed_j, rel=1e-13)
        assert np.all(together.jobs["energy_j"] == -1.0), "without logs, the energy of single jobs is not known"


def test_environments_do_not_meet(world):
    seeds = (1, 2, 1)
    batch = stack([birth(world, seed) for seed in seeds])
    run_pairs(batch, [codes.JOB_RANDOM] * 3, [codes.CORE_RANDOM] * 3)
    first, second, third = (cut(batch, index).jobs["start_s"] for index in range(3))
    assert np.array_equal(first, third)
    assert not np.array_equal(first, second)


def test_sizes_must_agree(world):
    platform, workload = world
    shorter = new_state(platform, workload.window(0, 10), twister=twister_state(0, "policy"))
    with pytest.raises(ValueError, match="same shape"):
        stack([birth(world), shorter])

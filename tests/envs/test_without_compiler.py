"""The environments are readable as plain Python: without the compiler they give the same bytes."""

from __future__ import annotations

import pytest

PLAY = """
import hashlib
import numpy as np
from hdrl.batch import JobPickVectorEnv, PolicyPairVectorEnv
from hdrl.testing import check_worlds
world = check_worlds()["memory and bandwidth"]
env = {env}
draw, digest = np.random.default_rng(0), hashlib.sha256()
observations, info = env.reset(seed=3)
for _ in range(30):
    masks = info["action_mask"]
    actions = np.where(masks, draw.random(masks.shape), -1.0).argmax(axis=1)
    observations, rewards, terminations, _, info = env.step(actions)
    for array in (observations, rewards, terminations, masks):
        digest.update(array.tobytes())
print(digest.hexdigest())
"""

FEATURES = ("profile", "running", "queue_length", "earliest_start", "log_requested_time")


@pytest.mark.parametrize(
    "env",
    [
        f"JobPickVectorEnv.of(2, n_procs=16, n_jobs=20, max_jobs=8, features={FEATURES})",
        "JobPickVectorEnv.of(2, n_procs=16, n_jobs=20, commitment='block', backfilling='rlscheduler')",
        "PolicyPairVectorEnv(2, platform=world.platform, workload=world.workload)",
        "PolicyPairVectorEnv(2, platform=world.platform, workload=world.workload, observation='small')",
    ],
)
def test_the_same_bytes_without_the_compiler(env, with_and_without_compiler):
    found = with_and_without_compiler(PLAY.format(env=env))
    assert len(found[0]) == 65
    assert found[0] == found[1]

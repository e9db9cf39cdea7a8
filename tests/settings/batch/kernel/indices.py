"""What `test_indices` runs without the compiler: the kernel on arrays that refuse every index out of bounds."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3]))
import checked_arrays  # noqa: F401 (before what lends arrays)

import hdrl
from hdrl.batch import JobPickVectorEnv, NodePower, PolicyPairVectorEnv, SuspendPower, pstate_rules
from hdrl.testing import check_worlds
from hdrl.testing.worlds import JobSpec, Node, Processor, small_platform, small_workload

POLICIES = (
    "random-random",
    "first-high_gflops",
    "shortest-high_cores",
    "smallest-high_mem",
    "low_mem-high_mem_bw",
    "low_mem_bw-low_power",
    "fcfs+easy",
    "sjf+easy_sjbf",
    "f1+easy_priority-random",
    "fcfs+conservative",
    "largest+conservative-high_mem",
)
PAIRS = (
    {"observation": "small", "objective": "edp"},
    {"observation": "normal", "void": False},
    {"observation": "normal", "compatibility": "hdeeprm-0.3.1", "objective": "makespan"},
)
POOLS = (
    {"commitment": "block", "backfilling": "none"},
    {"commitment": "block", "backfilling": "rlscheduler"},
    {"commitment": "block", "backfilling": "easy", "order": "f1"},
    {"commitment": "repick", "features": ("profile", "running", "queue_length", "earliest_start")},
)


def play(batch, n_steps):
    """Carry out random legal actions."""
    rng = np.random.default_rng(0)
    batch.reset(seed=0)
    for _ in range(n_steps):
        masks = batch.action_masks()
        batch.step(np.where(masks, rng.random(masks.shape), -1.0).argmax(axis=1))


def simulate_worlds():
    """Simulate every world under every core key and backfilling; return how many simulations that were."""
    n = 0
    for world in check_worlds().values():
        for policy in POLICIES:
            hdrl.simulate(world.platform, world.workload, policy, seed=1)
            n += 1
    return n


def main():
    """Run all of it; say how much."""
    n = simulate_worlds()
    for arguments in PAIRS:
        play(PolicyPairVectorEnv(2, platform="learning", workload="learning", **arguments), 20)
    frugal = hdrl.read_platform("learning", rules=pstate_rules(node_power=NodePower()))
    for policy in ("fcfs+easy~off60", "fcfs~on0"):
        hdrl.simulate(frugal, hdrl.read_workload("learning", frugal), policy)
    powers = (NodePower(suspend=SuspendPower()), NodePower(boot_s=9.0), None)
    different = small_platform(*[Node((Processor(2),), node_power=power) for power in powers])
    jobs = small_workload(*[JobSpec(100.0 * k, 1 + k % 6, 10.0) for k in range(12)])
    hdrl.simulate(different, jobs, "fcfs+easy~off20~sleep1")
    play(PolicyPairVectorEnv(2, platform=frugal, workload="learning", actions=["fcfs+easy~on0", "fcfs~on1"]), 20)
    for arguments in POOLS:
        play(JobPickVectorEnv.of(2, n_procs=64, n_jobs=40, max_jobs=16, **arguments), 60)
    sys.stdout.write(f"{n}\n")


if __name__ == "__main__":
    main()

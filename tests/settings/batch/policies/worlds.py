"""Worlds at random for the tests of backfilling; no two things happen at once, unless they should."""

import numpy as np

from hdrl.settings.batch.workload.fit import fits
from hdrl.testing import JobSpec, Node, Processor, World, small_platform, small_workload


def random_world(
    seed, *, memory=False, speeds=(1.0,), factors=(1.0, 1.5, 2.0, 4.0), bandwidth=(0.0,), max_jobs=25, nodes=3
):
    """Return a small platform and jobs whose requested times are their run times times one of the factors.

    The run times are those at the mean speed of the platform.
    """
    draw = np.random.default_rng(seed)
    platform = small_platform(
        *(
            Node(
                tuple(
                    Processor(
                        int(draw.integers(1, 5)), float(draw.choice(speeds)), 10.0, float(draw.choice((30, 40, 100)))
                    )
                    for _ in range(draw.integers(1, 4))
                ),
                memory_gb=float(draw.choice((0.5, 1.0, 2.0))),
            )
            for _ in range(draw.integers(1, nodes + 1))
        )
    )
    jobs = []
    for k in range(draw.integers(3, max_jobs + 1)):
        # A different fraction of a second for each job keeps ends apart.
        run_s = float(draw.integers(1, 20)) + (k + 1) / 64
        jobs.append(
            JobSpec(
                float(draw.integers(0, 20)),
                int(draw.integers(1, 6)),
                gflop=run_s * platform.reference_gflops,
                requested_time_s=run_s * float(draw.choice(factors)),
                memory_mib=float(draw.choice((0, 100, 250))) if memory else 0.0,
                bandwidth_gbps=float(draw.choice(bandwidth)),
            )
        )
    workload = small_workload(*jobs)
    return World(platform, workload.take(fits(workload, platform).nonzero()[0]))


WORLDS = {
    "even": {},
    "uneven": {"speeds": (1.0, 2.0, 2.5, 3.0)},
    "memory": {"memory": True},
    "uneven with memory": {"memory": True, "speeds": (1.0, 2.0, 2.5, 3.0)},
    # Bandwidth and too short estimates: jobs take longer than expected.
    "overrun": {"memory": True, "speeds": (1.0, 2.0), "bandwidth": (0.0, 4.0, 6.0), "factors": (0.5, 1.0, 2.0)},
}

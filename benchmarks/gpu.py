"""Speed of GPU clusters: jobs, pods and decisions per second of one core.

``python benchmarks/gpu.py FILE`` with Gavel's throughputs (``simulation_throughputs.json``) measures its programs, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from common.report import Report, arguments, finish

from hdrl.settings.gpu.cluster.machine import NODE_DTYPE, GpuCluster, GpuType, read_cluster
from hdrl.settings.gpu.cluster.throughputs import read_throughputs
from hdrl.settings.gpu.envs.env import GpuClusterVectorEnv
from hdrl.settings.gpu.loads.gavel_jobs import gavel_load
from hdrl.settings.gpu.loads.load import GpuLoad, new_jobs
from hdrl.settings.gpu.loads.synthetic import Poisson, at_offered_load
from hdrl.settings.gpu.policies.names import read_policy
from hdrl.settings.gpu.simulation.events import simulate
from hdrl.settings.gpu.simulation.fragmentation import arrivals, fill
from hdrl.settings.gpu.simulation.rounds import simulate_rounds

N_JOBS, N_NODES, N_PODS = 20_000, 1_213, 8_000
N_GAVEL_JOBS = 400


def seconds(call: Callable[[], object], n_times: int) -> float:
    """Return the CPU seconds of the fastest of some calls."""
    found = []
    for _ in range(n_times):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return min(found)


def jobs_per_s(policy: str) -> float:
    """Return how many jobs are simulated in a second on Gavel's 108 GPUs at an offered load of 0.85."""
    cluster = read_cluster("gavel")
    load = at_offered_load(Poisson(), N_JOBS, cluster, 0.85, 1)
    simulate(cluster, load.window(0, 10), read_policy(policy))
    return N_JOBS / seconds(lambda: simulate(cluster, load, read_policy(policy)), 3)


def pods_per_s(placement: str) -> float:
    """Return how many pods find their places in a second on as many nodes as Alibaba's openb cluster has."""
    draw = np.random.default_rng(1)
    nodes = np.zeros(N_NODES, dtype=NODE_DTYPE)
    nodes["n_gpus"] = draw.choice([2, 4, 8], N_NODES)
    nodes["cpu_milli"], nodes["memory_mib"] = 96_000, 786_432
    cluster = GpuCluster("openb's size", (GpuType("gpu"),), nodes)
    jobs = new_jobs(N_PODS)
    jobs["work"], jobs["n_gpus"] = 1.0, draw.choice([1, 1, 1, 1, 2, 4, 8], N_PODS)
    jobs["gpu_milli"] = np.where(jobs["n_gpus"] == 1, draw.choice([200, 500, 1000], N_PODS), 1000)
    jobs["cpu_milli"], jobs["memory_mib"] = 4_000 * jobs["n_gpus"], 8_192 * jobs["n_gpus"]
    pods = GpuLoad("pods", jobs)
    n_pods = arrivals(pods, cluster, 1).n_items
    fill(cluster, pods, placement, seed=1, requests=0.01)
    return n_pods / seconds(lambda: fill(cluster, pods, placement, seed=1), 2)


def decisions_per_s(n_envs: int = 64, n_steps: int = 2_000) -> float:
    """Return how many decisions a batch on one core takes in a second, observations and masks included."""
    env = GpuClusterVectorEnv.of(n_envs, n_jobs=500, copy=False)
    _, info = env.reset(seed=0)

    def play() -> None:
        nonlocal info
        for _ in range(n_steps):
            info = env.step(info["action_mask"].argmax(axis=1))[4]

    play()
    return n_envs * n_steps / seconds(play, 3)


def gavel_jobs_per_s(policy: str, file: Path) -> float:
    """Return how many of Gavel's jobs are simulated in a second under a policy that computes shares."""
    load = gavel_load(read_throughputs(file), N_GAVEL_JOBS, jobs_per_hour=4.0)
    return N_GAVEL_JOBS / seconds(lambda: simulate_rounds(read_cluster("gavel"), load, policy), 1)


JOBS_AT_LEAST = 87_900
"""A hundred times as many as hpcsim, more than a thousand times as many as Gavel."""

PODS_AT_LEAST = {"first-fit": 100_000, "best-fit": 100_000, "fgd": 3_000}


def main() -> None:
    """Measure, print, and keep the numbers if asked to."""
    report_options = arguments(__doc__, rest="THROUGHPUTS")
    report = Report("GPU clusters")
    for policy in ("fifo", "fifo+easy", "srtf", "las-2d"):
        what = f"{policy}, {N_JOBS:,} generated jobs on Gavel's 108 GPUs at 0.85: jobs"
        report.add(what, [jobs_per_s(policy)], "/s", at_least=JOBS_AT_LEAST)
    for placement, least in PODS_AT_LEAST.items():
        report.add(f"{placement}, {N_NODES:,} nodes: pods", [pods_per_s(placement)], "/s", at_least=least)
    what = "64 environments: decisions, observations and masks included"
    report.add(what, [decisions_per_s()], "/s", at_least=200_000)
    for policy in ("gavel-las-het", "allox") if report_options.rest else ():
        found = gavel_jobs_per_s(policy, Path(report_options.rest[0]))
        report.add(f"{policy} in Gavel's rounds, {N_GAVEL_JOBS} jobs: jobs", [found], "/s")
    report.notes.append("On one core. Gavel itself simulates 17 to 23 jobs a second, hpcsim 410 to 879.")
    finish(report, report_options)


if __name__ == "__main__":
    main()

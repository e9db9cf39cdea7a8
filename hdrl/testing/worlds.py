"""Small platforms and workloads, written down in a line or two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hdrl.settings.batch.node_power import NodePower
from hdrl.settings.batch.platform.build import platform_from_tree
from hdrl.settings.batch.platform.model import Cluster, Link, NodeGroup, NodeType, Platform, ProcessorType
from hdrl.settings.batch.platform.pstates import PStateRules, pstate_rules
from hdrl.settings.batch.workload.build import read_only
from hdrl.settings.batch.workload.model import JOB_DTYPE, NO_WALLTIME, STEP_DTYPE, UNKNOWN, StepKind, Workload

WIRE = Link("wire", 10.0, 0.0)
"""The network of small platforms: 10 Gbit/s without latency, so that all simulators accept it."""


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor of a small platform.

    Attributes
    ----------
    cores
        Number of cores.
    gflops
        Peak speed of one core in Gflop/s.
    bandwidth_gbps
        Memory bandwidth of the processor in GB/s, shared by its cores.
    power_w
        Power of the whole processor when all cores serve, in watts.
    """

    cores: int = 1
    gflops: float = 1.0
    bandwidth_gbps: float = 10.0
    power_w: float = 100.0


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a small platform: its processors, its memory in GB (1,024 MiB each), and what switching it takes.

    Without ``node_power``, the latter is what the rules of the platform say.
    """

    processors: tuple[Processor, ...] = (Processor(),)
    memory_gb: float = 1.0
    node_power: NodePower | None = None


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job of a small workload.

    Attributes
    ----------
    submit_s
        Submission date in seconds.
    cores
        Number of cores.
    gflop
        Work per core in Gflop, unless ``steps`` are given.
    walltime_s
        The job is killed after that time; -1: never.
    requested_time_s
        The user's estimate in seconds, which policies look at.
    memory_mib, bandwidth_gbps
        Memory in MiB and memory bandwidth in GB/s that each core takes.
    steps
        Steps of the job: kind, amount and return code of each step, as in `hdrl.batch.STEP_DTYPE`.
    id
        Its id; by default its position in the workload.
    source
        Index of its file (0: ``w0``).
    """

    submit_s: float = 0.0
    cores: int = 1
    gflop: float = 10.0
    walltime_s: float = NO_WALLTIME
    requested_time_s: float = 100.0
    memory_mib: float = 0.0
    bandwidth_gbps: float = 0.0
    steps: tuple[tuple[StepKind, float, int], ...] = ()
    id: str = ""
    source: int = 0


@dataclass(frozen=True, slots=True)
class World:
    """A platform and jobs that fit on it."""

    platform: Platform
    workload: Workload


def small_platform(
    *nodes: Node, contention: str = "step", compatibility: str | None = None, rules: PStateRules | None = None
) -> Platform:
    """Return a platform of one cluster without network latencies.

    Without nodes, it has one core of 1 Gflop/s. ``contention`` and ``compatibility`` are those of
    `hdrl.settings.batch.platform.pstate_rules`; ``rules`` replaces both.
    """
    rules = rules or pstate_rules(contention=contention, compatibility=compatibility)
    groups = []
    for n, node in enumerate(nodes or (Node(),)):
        kinds = tuple(
            (
                ProcessorType(
                    name=f"processor_{n}_{p}",
                    kind="CPU",
                    microarchitecture="",
                    cores=processor.cores,
                    clock_ghz=processor.gflops,
                    flops_per_cycle=1.0,
                    memory_bandwidth_gbps=processor.bandwidth_gbps,
                    power_w=processor.power_w,
                ),
                1,
            )
            for p, processor in enumerate(node.processors)
        )
        groups.append(NodeGroup(NodeType(f"node_{n}", kinds, node.memory_gb, node_power=node.node_power), 1))
    return platform_from_tree("small", (Cluster("c", tuple(groups), WIRE),), WIRE, rules)


def small_workload(*jobs: JobSpec) -> Workload:
    """Return a workload of some jobs, each with a profile of its own."""
    table = np.zeros(len(jobs), dtype=JOB_DTYPE)
    for name in ("submit_s", "cores", "walltime_s", "requested_time_s", "memory_mib", "bandwidth_gbps", "source"):
        table[name] = [getattr(job, name) for job in jobs]
    for name in ("user", "group", "executable", "queue", "partition", "priority"):
        table[name] = UNKNOWN
    table["profile"] = np.arange(len(jobs))
    steps = [job.steps or ((StepKind.COMPUTE, job.gflop * 1e9, 0),) for job in jobs]
    first_step = np.cumsum([0, *(len(some) for some in steps)]).astype(np.int64)
    first_step.flags.writeable = False
    ids = tuple(job.id or str(position) for position, job in enumerate(jobs))
    n_sources = max((job.source for job in jobs), default=0) + 1
    return Workload(
        name="small",
        jobs=read_only(table),
        job_ids=ids,
        steps=read_only(np.array([step for some in steps for step in some], dtype=STEP_DTYPE)),
        first_step=first_step,
        profile_names=tuple(f"p{job_id}" for job_id in ids),
        sources=tuple(f"w{source}" for source in range(n_sources)),
    )


def check_worlds() -> dict[str, World]:
    """Return the worlds on which `check_policy` tries a policy, by name.

    They are small, and between them hold what goes wrong easily: cores of different speed, memory that blocks,
    bandwidth that is over-committed, jobs of many cores, coincident dates, walltimes, delays and failures.
    """
    even = small_platform(Node((Processor(4),)))
    mixed = small_platform(
        Node((Processor(2, 4.0, 20.0, 80.0), Processor(2, 2.0, 10.0, 30.0)), memory_gb=2.0),
        Node((Processor(3, 3.0, 16.0, 45.0),), memory_gb=1.0),
    )
    proportional = small_platform(
        Node((Processor(4, 2.0, 12.0, 60.0),), 4.0), Node((Processor(2, 5.0, 8.0, 70.0),)), contention="proportional"
    )
    same_date = [JobSpec(float(k // 4), 1 + k % 4, gflop=10.0, requested_time_s=10.0 + k % 3) for k in range(16)]
    hungry = [
        JobSpec(
            2.5 * (k // 3), 1 + k % 3, gflop=5.0 + 3.0 * k, memory_mib=200.0 * (k % 4), bandwidth_gbps=4.0 * (k % 5)
        )
        for k in range(24)
    ]
    kinds = [
        JobSpec(0.0, 2, walltime_s=3.0),
        JobSpec(0.0, 1, steps=((StepKind.DELAY, 7.0, 0),)),
        JobSpec(1.0, 1, steps=((StepKind.DELAY, 5.0, 0),), walltime_s=5.0),
        JobSpec(1.0, 3, steps=((StepKind.COMPUTE, 4e9, 0), (StepKind.DELAY, 1.0, 0), (StepKind.COMPUTE, 2e9, 5))),
        JobSpec(2.0, 2, steps=((StepKind.COMPUTE_TOTAL, 12e9, 0),)),
        JobSpec(2.0, 1, gflop=0.0),
        JobSpec(2.0, 4, gflop=8.0, walltime_s=1000.0),
    ]
    return {
        "nothing": World(even, small_workload()),
        "one job": World(even, small_workload(JobSpec())),
        "same dates": World(even, small_workload(*same_date)),
        "memory and bandwidth": World(mixed, small_workload(*hungry)),
        "proportional contention": World(proportional, small_workload(*hungry)),
        "kinds of jobs": World(mixed, small_workload(*kinds)),
    }


def frugal_world(n_jobs: int = 8) -> World:
    """Return a world in which placing jobs on the slow, frugal cores takes least energy.

    One node has two fast cores (10 Gflop/s, 100 W), another two slow ones (5 Gflop/s, 20 W). Jobs of one core come one
    by one, so that each finds all cores free: on a fast core it takes 500 J and on a slow one 200 J, besides what idle
    cores draw. The best core selection is ``low_power``.
    """
    platform = small_platform(Node((Processor(2, 10.0, 100.0, 200.0),)), Node((Processor(2, 5.0, 100.0, 40.0),)))
    jobs = [JobSpec(12.0 * k, 1, gflop=50.0, requested_time_s=10.0) for k in range(n_jobs)]
    return World(platform, small_workload(*jobs))


def spreading_world(n_pairs: int = 6) -> World:
    """Return a world in which jobs that share a processor slow each other down.

    A node has two processors of two cores and 10 GB/s each; the first is a little faster and more frugal. Jobs of
    one core that take 8 GB/s come in pairs: on one processor they run at 75 % of its speed. The best core selections
    are ``high_cores`` and ``high_mem_bw``, which take the other processor for the second job.
    """
    platform = small_platform(Node((Processor(2, 10.0, 10.0, 100.0), Processor(2, 9.9, 10.0, 110.0))))
    jobs = [
        JobSpec(20.0 * (k // 2), 1, gflop=100.0, requested_time_s=10.0, bandwidth_gbps=8.0) for k in range(2 * n_pairs)
    ]
    return World(platform, small_workload(*jobs))

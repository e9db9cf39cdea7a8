"""Tables of the literature on GPU clusters that are more than one comparison: a function each, by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from hdrl.compat.drl_gpu.playing import ERRORS, play_baseline, read_cut_trace
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, without_models
from hdrl.settings.gpu.cluster.machine import read_cluster
from hdrl.settings.gpu.cluster.throughputs import read_throughputs
from hdrl.settings.gpu.loads.alibaba import read_pods
from hdrl.settings.gpu.loads.gavel_jobs import gavel_load
from hdrl.settings.gpu.policies.rules import NodeOrder, Tie
from hdrl.settings.gpu.simulation.fragmentation import PUBLISHED_ORDER, Filled, fill
from hdrl.settings.gpu.simulation.rounds import mean_jct_s, simulate_rounds

NODES, PODS = "alibaba2023_openb_node_list_gpu_node.csv", "alibaba2023_openb_pod_list_default.csv"

THROUGHPUTS = "gavel_simulation_throughputs.json.gz"

FGD_PLACEMENTS = ("random", "dot-product", "clustering", "packing", "best-fit", "fgd")
"""Rows of the published table."""

FGD_TIES: tuple[tuple[str, Tie, NodeOrder], ...] = (
    ("fgd", "first", "file"),
    ("fgd", "last", "file"),
    ("fgd", "first", "shuffled"),
    ("fgd", "random", "file"),
    ("first-fit", "first", "file"),
    ("first-fit", "first", "shuffled"),
    ("best-fit", "first", "file"),
    ("best-fit", "random", "file"),
)
"""Placement, tie rule and node order of the rows of ``gpu-fgd-ties``."""

SEED_TRACES = ("heavy", "low", "medium")
"""Cut traces of the DRL scheduler. Its program gives its table of the first two again; that of the medium one is of
another version of trace or program."""

SEED_END_S = 15_000_000.0
"""End of its runs."""

SEED_LOADS = (0.5, 0.7, 0.85, 0.95)
"""Offered loads at which its baselines are looked at, too."""

SEED_OFF = ("first_16_alone", "priority_order", "one_type_fits", "one_start_per_second", "equal_speeds", "no_gpu_jobs")
"""Its errors that change what happens, not only what is reported."""

GAVEL_RATES = (0.4, 2.0, 5.2)
"""Jobs per hour of the columns of ``gpu-gavel-jct``."""

GAVEL_CURVES = ("gavel-fifo", "gavel-fifo-het", "gavel-las", "gavel-las-het", "gavel-las-packed", "gandiva", "allox")
"""Its rows."""

CURVES_FIRST, CURVES_LAST, CURVES_JOBS = 4000, 5000, 9000
"""The window of jobs of Gavel's curves, and enough jobs for it to end."""

MAKESPAN_POLICIES = ("gavel-fifo", "gavel-fifo-het", "gandiva", "gavel-makespan", "gavel-makespan-het")
"""Rows of ``gpu-gavel-makespan``; the last is what the others are held against."""

MAKESPAN_JOBS, MAKESPAN_SEEDS = 500, 5
"""Number of initial jobs, and of loads that are drawn of them."""

GAVEL_FIRST, GAVEL_LAST, GAVEL_JOBS = 1000, 2000, 3000
"""The window of jobs that Gavel's simulator is measured on, and how many arrive until it has ended."""


def fgd_row(
    nodes: Path,
    pods: Path,
    placement: str,
    *,
    tie: Tie = "first",
    order: NodeOrder = PUBLISHED_ORDER,
    seeds: Sequence[int] = range(10),
) -> list[Filled]:
    """Return the results of filling Alibaba's cluster with its pods, once for each seed."""
    cluster, load = read_cluster(str(nodes)), read_pods(pods)
    return [fill(cluster, load, placement, seed=seed, tie=tie, node_order=order) for seed in seeds]


def mean_allocated(row: Sequence[Filled]) -> float:
    """Return the mean share of GPUs that pods have in the end, in percent."""
    return float(np.mean([100 * one.allocated for one in row]))


@PROTOCOLS.register("gpu-fgd")
@without_models
def gpu_fgd(traces: Mapping[str, Path]) -> dict[Place, float]:
    """Return the allocation and fragmentation of openb's cluster by placement, nodes shuffled, ten seeds each.

    Columns are the allocated share of GPUs in percent when it is full, and the fragmentation ratio when pods that
    request 90 % of its GPUs have arrived.

    References
    ----------
    Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
    USENIX ATC 2023.
    """
    rows = {placement: fgd_row(traces[NODES], traces[PODS], placement) for placement in FGD_PLACEMENTS}
    found = {(placement, "allocated %"): mean_allocated(row) for placement, row in rows.items()}
    return found | {
        (placement, "fragmentation %"): fmean(100 * one.fragmentation for one in row) for placement, row in rows.items()
    }


@PROTOCOLS.register("gpu-fgd-ties")
@without_models
def gpu_fgd_ties(traces: Mapping[str, Path]) -> dict[Place, float]:
    """Return the table of ``gpu-fgd`` for several tie rules and node orders."""
    found: dict[Place, float] = {}
    for placement, tie, order in FGD_TIES:
        row = fgd_row(traces[NODES], traces[PODS], placement, tie=tie, order=order)
        found[placement, f"ties {tie}, nodes {order}"] = mean_allocated(row)
    return found


@PROTOCOLS.register("gpu-gavel-fifo")
@without_models
def gpu_gavel_fifo(traces: Mapping[str, Path]) -> dict[Place, float]:
    """Return the mean completion time in seconds of Gavel's jobs 1000-1999 at two jobs per hour under its FIFO.

    References
    ----------
    D. Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020.
    """
    load = gavel_load(read_throughputs(traces[THROUGHPUTS]), GAVEL_JOBS, jobs_per_hour=2.0)
    trace = simulate_rounds(read_cluster("gavel"), load, "gavel-fifo", window=(GAVEL_FIRST, GAVEL_LAST))
    return {("gavel-fifo", "mean_jct_s"): mean_jct_s(trace, GAVEL_FIRST, GAVEL_LAST)}


@PROTOCOLS.register("gpu-seed")
@without_models
def gpu_seed(traces: Mapping[str, Path]) -> dict[Place, float]:
    """Return the table of the DRL scheduler for GPU clusters: with its errors, without each of them, at other loads.

    References
    ----------
    HenryAJX/DRL_Scheduler, ``logs/* Workload/Trace Data/summary_eval_*.csv``.
    """
    cluster, found = read_cluster("drl-gpu"), {}

    def note(row: str, outcome: Any) -> None:
        found[row, "jobs done"] = float(outcome.n_done)
        found[row, "mean_jct_s"] = outcome.mean_jct_s
        found[row, "utilization %"] = 100.0 * outcome.utilization

    cases: dict[str, list[str]] = {"with its errors": list(ERRORS)}
    cases |= {f"without {error}": [one for one in ERRORS if one != error] for error in SEED_OFF}
    cases |= {"without any": []}
    for size in SEED_TRACES:
        for case, errors in cases.items():
            load = read_cut_trace(traces[f"alibaba_{size}_workload.csv.gz"], errors=errors)
            for baseline in ("fcfs", "sjf"):
                outcome = play_baseline(cluster, load, baseline, errors=errors, until_s=SEED_END_S)
                note(f"{size} {baseline}, {case}", outcome)
    load = read_cut_trace(traces["alibaba_heavy_workload.csv.gz"], errors=[])
    for offered in SEED_LOADS:
        stretched = load.scaled(cluster, offered)
        for baseline in ("fcfs", "sjf"):
            for case in ("with its errors", "without any"):
                note(
                    f"heavy at {offered:g} {baseline}, {case}",
                    play_baseline(cluster, stretched, baseline, errors=cases[case]),
                )
    return found


@PROTOCOLS.register("gpu-gavel-jct")
@without_models
def gpu_gavel_jct(traces: Mapping[str, Path]) -> dict[Place, float]:
    """Return the mean completion times in hours of Gavel's curves: jobs 4000-4999 on single GPUs, seed 0.

    References
    ----------
    D. Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020.
    """
    cluster, throughputs, found = read_cluster("gavel"), read_throughputs(traces[THROUGHPUTS]), {}
    for rate in GAVEL_RATES:
        load = gavel_load(throughputs, CURVES_JOBS, jobs_per_hour=rate)
        for policy in GAVEL_CURVES:
            trace = simulate_rounds(cluster, load, policy, window=(CURVES_FIRST, CURVES_LAST))
            found[policy, f"{rate:g} jobs/h"] = mean_jct_s(trace, CURVES_FIRST, CURVES_LAST) / 3600.0
    return found


@PROTOCOLS.register("gpu-gavel-makespan")
@without_models
def gpu_gavel_makespan(traces: Mapping[str, Path]) -> dict[Place, float | Finding]:
    """Return makespans in hours of 500 of Gavel's jobs on one or more GPUs that are all there at first, five seeds.

    References
    ----------
    D. Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020.
    """
    cluster, throughputs = read_cluster("gavel"), read_throughputs(traces[THROUGHPUTS])
    found: dict[Place, float | Finding] = {}
    hours: dict[str, list[float]] = {policy: [] for policy in MAKESPAN_POLICIES}
    for seed in range(MAKESPAN_SEEDS):
        load = gavel_load(throughputs, MAKESPAN_JOBS, jobs_per_hour=math.inf, seed=seed, multi_gpu=True)
        for policy in MAKESPAN_POLICIES:
            trace = simulate_rounds(cluster, load, policy, seed=seed)
            hours[policy].append(float(trace.tasks["end_s"].max()) / 3600.0)
            found[policy, f"hours, seed {seed}"] = hours[policy][-1]
    *others, last = MAKESPAN_POLICIES
    for policy in others:
        ratio = float(np.median(np.array(hours[policy]) / np.array(hours[last])))
        found[policy, "times the last, median"] = Finding(ratio, null=1.0)
    return found

"""The rules of a site in the words of ``slurm.conf``: nodes, partitions, scheduling; and what is not passed on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from hdrl.base.errors import SimulationError, quoted
from hdrl.settings.batch.site_rules.model import (
    UNLIMITED,
    HetjobPrio,
    PreemptBy,
    PriorityWeights,
    SchedulerParameters,
    SiteJobs,
    SiteRules,
    components_of,
    undemanding_jobs,
)
from hdrl.slurm.conf import clock_text
from hdrl.slurm.machine import SlurmMachine
from hdrl.slurm.requests import UnsupportedBySlurm, feature_names

_NOT_PASSED_ON = ("gpus", "site_factor")
"""Columns of `SITE_JOB_DTYPE` that sbatch does not get."""

_ALONE = ("begin_s", "held_until_s", "cancelled_s", "array")
"""Columns that components of het jobs may not have, since what Slurm does with them has not been tried."""

_NAME = re.compile(r"[A-Za-z0-9_.\-]+")

_IN_MINUTES = ("bf_window_s",)


def check_rules(rules: SiteRules | None, site_requests: SiteJobs | None) -> None:
    """Refuse what is not passed on to Slurm.

    Raises
    ------
    UnsupportedBySlurm
        If a site or its jobs have such a thing.
    """
    found = [] if rules is None else list(_of_machine(rules))
    if site_requests is not None:
        plain = undemanding_jobs(len(site_requests.jobs))
        differs = {name: site_requests.jobs[name] != plain[name] for name in (*_NOT_PASSED_ON, *_ALONE)}
        found += [f"jobs that ask for {name}" for name in _NOT_PASSED_ON if np.any(differs[name])]
        is_part = components_of(site_requests.jobs["het_group"])[0] >= 0
        has_request = np.logical_or.reduce([differs[name] for name in _ALONE])
        has_request[site_requests.dependencies["job"]] = has_request[site_requests.dependencies["on"]] = True
        found += ["het jobs with dates, holds, cancellations or dependencies"] if np.any(is_part & has_request) else []
    if found:
        raise UnsupportedBySlurm(found[0])


def _of_machine(rules: SiteRules) -> Iterator[str]:
    if rules.preemption.by == PreemptBy.PARTITION:
        yield "preemption by partition"
    for what, names in (("partition", rules.partition_names), ("feature", rules.feature_names)):
        yield from (f"{what} {quoted(name)}, expected one word" for name in names if not _NAME.fullmatch(name))


def check_nodes(rules: SiteRules, site_requests: SiteJobs, machine: SlurmMachine, n_nodes: int) -> None:
    """Refuse rules that count nodes where nodes of the platform are put together.

    Parameters
    ----------
    n_nodes
        Number of nodes of the platform.

    Raises
    ------
    SimulationError
        If there are such rules.
    """
    if len(machine.nodes) == n_nodes:
        return
    partitions, jobs = rules.partitions, site_requests.jobs
    has_limits = np.any(partitions["min_nodes"] > 1) or np.any(partitions["max_nodes"] != UNLIMITED)
    is_whole = np.any(partitions["is_exclusive"] != 0) or np.any(jobs["is_exclusive"] != 0)
    if has_limits or is_whole or np.any(jobs["nodes"] != UNLIMITED):
        raise SimulationError(
            f"simulator 'slurm' has {len(machine.nodes):,} nodes for {n_nodes:,} of the platform, so that numbers of "
            f"nodes and whole nodes would have another meaning; raise slurm.daemons to {n_nodes:,}"
        )


def scheduling_of(rules: SiteRules) -> list[str]:
    """Return the lines about scheduling of a site."""
    words = []
    usual = SchedulerParameters()
    for one in fields(SchedulerParameters):
        value = getattr(rules.scheduler, one.name)
        if one.name == "launch_s" or value == getattr(usual, one.name):
            continue
        key = one.name.removesuffix("_s")
        if isinstance(value, HetjobPrio):
            words.append(f"{key}={value.name.lower()}")
            continue
        amount = value / 60 if one.name in _IN_MINUTES else value
        words.append(key if isinstance(value, bool) else f"{key}={math.ceil(amount)}")
    lines = [f"SchedulerParameters={','.join(words)}"] if words else []
    lines += preemption_lines(rules)
    weights = rules.weights
    if weights.is_basic:
        return [*lines, "PriorityType=priority/basic"]
    return [*lines, "PriorityType=priority/multifactor", *_weight_lines(weights), f"KillWait={int(rules.kill_wait_s)}"]


def _weight_lines(weights: PriorityWeights) -> list[str]:
    flags, shares = ["SMALL_RELATIVE_TO_TIME"] if weights.is_relative_to_time else [], []
    if weights.fairshare:
        flags += [] if weights.is_fair_tree else ["NO_FAIR_TREE"]
        shares.append(f"PriorityWeightFairshare={weights.fairshare}")
        shares.append(f"PriorityDecayHalfLife={clock_text(weights.half_life_s)}")
    return [
        f"PriorityWeightAge={weights.age}",
        f"PriorityMaxAge={math.ceil(weights.max_age_s / 60)}",
        f"PriorityCalcPeriod={math.ceil(weights.calc_period_s / 60)}",
        f"PriorityWeightJobSize={weights.job_size}",
        f"PriorityFavorSmall={'YES' if weights.favor_small else 'NO'}",
        *([f"PriorityFlags={','.join(flags)}"] if flags else []),
        f"PriorityWeightPartition={weights.partition}",
        *shares,
        *([f"PriorityWeightQOS={weights.qos}"] if weights.qos else []),
    ]


def preemption_lines(rules: SiteRules) -> list[str]:
    """Return the lines about preemption by QOS."""
    found = rules.preemption
    if found.by != PreemptBy.QOS:
        return []
    return [
        *("PreemptType=preempt/qos", "PreemptMode=REQUEUE"),
        *([f"PreemptExemptTime={clock_text(found.exempt_s)}"] if found.exempt_s > 0 else []),
        *(["PreemptParameters=youngest_first"] if found.is_youngest_first else []),
    ]


def node_words(rules: SiteRules, machine: SlurmMachine) -> list[str]:
    """Return more words of the line of each node: its features, and its weight where they differ."""
    has_weights = len(np.unique(rules.nodes["weight"])) > 1
    found = []
    for node in machine.nodes:
        row = rules.nodes[node.like]
        features = feature_names(rules, row["features"])
        words = [f"Features={','.join(features)}"] if features else []
        words += [f"Weight={row['weight']}"] if has_weights else []
        found.append("".join(f" {word}" for word in words))
    return found


def partition_lines(rules: SiteRules, machine: SlurmMachine) -> list[str]:
    """Return a line for each partition."""
    lines = []
    for number, (name, row) in enumerate(zip(rules.partition_names, rules.partitions, strict=True)):
        listed = ",".join(node.name for node in machine.nodes if rules.partition_nodes[number, node.like])
        limits = f" MinNodes={row['min_nodes']}" if row["min_nodes"] > 1 else ""
        limits += f" MaxNodes={row['max_nodes']}" if row["max_nodes"] != UNLIMITED else ""
        lines.append(
            f"PartitionName={name} Nodes={listed} Default={'YES' if number == rules.default_partition else 'NO'} "
            f"MaxTime={_minutes(float(row['max_time_s']))} PriorityTier={row['tier']} "
            f"PriorityJobFactor={row['job_factor']} State=UP "
            f"OverSubscribe={'EXCLUSIVE' if row['is_exclusive'] else 'NO'}{limits}"
        )
    return lines


def _minutes(seconds: float) -> str:
    return str(math.ceil(seconds / 60)) if math.isfinite(seconds) else "INFINITE"


def partitions_of(rules: SiteRules, bits: int) -> tuple[str, ...]:
    """Return the names of the partitions that a job may run in; none: the default one."""
    return tuple(name for number, name in enumerate(rules.partition_names) if bits >> number & 1)

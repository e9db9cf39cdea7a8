"""The rules of a site in the words of ``slurm.conf`` and of sbatch: partitions, scheduling, niceness."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

import numpy as np

from hdrl.base.errors import SimulationError
from hdrl.settings.batch.site_rules.model import (
    UNLIMITED,
    HetjobPrio,
    PreemptBy,
    PriorityWeights,
    SchedulerParameters,
    SiteJobs,
    SiteRules,
    undemanding_jobs,
)
from hdrl.slurm.conf import clock_text

_PASSED_ON = ("partitions", "nice", "user", "account", "qos", "het_group")
"""Columns of `SITE_JOB_DTYPE` that sbatch gets, or that nothing here uses."""

_IN_MINUTES = ("bf_window_s",)


def check_rules(rules: SiteRules | None, asked: SiteJobs | None) -> None:
    """Refuse what a Slurm on nodes that are put together cannot follow, and what is not passed on to it.

    Raises
    ------
    SimulationError
        If a site or its jobs have such a thing.
    """
    found = [] if rules is None else list(_of_machine(rules))
    if asked is not None:
        plain = undemanding_jobs(len(asked.jobs))
        found += [
            f"jobs that ask for {name}"
            for name in asked.jobs.dtype.names or ()
            if name not in _PASSED_ON and not np.array_equal(asked.jobs[name], plain[name])
        ]
        found += ["dependencies"] if len(asked.dependencies) else []
    if found:
        raise SimulationError(
            f"simulator 'slurm' takes no {found[0]}; of the rules of a site it has partitions, nice, het jobs, "
            "accounts and QOS"
        )


def _of_machine(rules: SiteRules) -> Iterator[str]:
    for what in ("reservations", "outages"):
        if len(getattr(rules, what)):
            yield what
    partitions = rules.partitions
    if np.any(partitions["min_nodes"] > 1) or np.any(partitions["max_nodes"] != UNLIMITED):
        yield "limits of nodes per job"
    if np.any(partitions["is_exclusive"] != 0) or rules.preemption.by == PreemptBy.PARTITION:
        yield "partitions with whole nodes or preemption"


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


def partition_lines(rules: SiteRules, nodes: Mapping[str, Sequence[bool]]) -> list[str]:
    """Return a line for each partition.

    Parameters
    ----------
    nodes
        For each node of Slurm, in which partitions it is.
    """
    lines = []
    for number, (name, row) in enumerate(zip(rules.partition_names, rules.partitions, strict=True)):
        listed = ",".join(node for node, membership in nodes.items() if membership[number])
        lines.append(
            f"PartitionName={name} Nodes={listed} Default={'YES' if number == rules.default_partition else 'NO'} "
            f"MaxTime={_minutes(float(row['max_time_s']))} PriorityTier={row['tier']} "
            f"PriorityJobFactor={row['job_factor']} State=UP OverSubscribe=NO"
        )
    return lines


def _minutes(seconds: float) -> str:
    return str(math.ceil(seconds / 60)) if math.isfinite(seconds) else "INFINITE"


def partitions_of(rules: SiteRules, bits: int) -> tuple[str, ...]:
    """Return the names of the partitions that a job may run in; none: the default one."""
    return tuple(name for number, name in enumerate(rules.partition_names) if bits >> number & 1)

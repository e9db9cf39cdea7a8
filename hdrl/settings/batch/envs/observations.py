"""What an agent that chooses policy pairs sees: HDeepRM's observations, value by value."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import UnknownName
from hdrl.settings.batch.kernel import observe
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.pstates import CONTENDED, FIRST_EXTRA_LEVEL, FREE, IDLE, SERVING
from hdrl.settings.batch.workload.model import Workload

OBSERVATIONS: Mapping[str, int] = MappingProxyType(
    {"normal": observe.NORMAL, "small": observe.SMALL, "minimal": observe.MINIMAL}
)
"""The observations by their names in options: nodes, processors, cores and queue; all but cores; the queue alone."""

ATTRIBUTES = ("requested_time_s", "cores", "memory_mib", "bandwidth_gbps")
"""Fields of `workload.model.JOB_DTYPE` that are observed of the waiting jobs, in this order."""

QUARTILES = ("min", "q1", "median", "q3", "max")
"""What is observed of each of `ATTRIBUTES`, in this order."""

NODE_VALUES = ("on", "booting", "shutting down")
"""What is observed of the nodes, as shares of all, where an agent decides how many are on, in this order."""

HDEEPRM_PERCENTILE = 99
"""Percentile of the workload by which HDeepRM divides what is observed of jobs."""


def read_observation(name: str) -> int:
    """Return the number of an observation in the kernel by its name.

    Raises
    ------
    UnknownName
        If there is none of that name.
    """
    if name not in OBSERVATIONS:
        raise UnknownName("observation", name, OBSERVATIONS)
    return OBSERVATIONS[name]


def _platform_names(platform: Platform, *, with_cores: bool) -> list[str]:
    names = []
    for node in range(platform.n_nodes):
        names.append(f"node {node}: free memory")
        processors = range(platform.first_processor_of_node[node], platform.first_processor_of_node[node + 1])
        for processor in processors:
            names.append(f"processor {processor}: free memory bandwidth")
            if with_cores:
                cores = range(
                    platform.first_core_of_processor[processor], platform.first_core_of_processor[processor + 1]
                )
                names += [f"core {core}: {what}" for core in cores for what in ("speed", "power", "work left")]
    return names


def observation_names(platform: Platform, name: str, *, with_nodes: bool = False) -> list[str]:
    """Return what each value of an observation is, in order.

    Raises
    ------
    UnknownName
        If there is none of that name.
    """
    detail = read_observation(name)
    names = []
    if detail != observe.MINIMAL:
        names = _platform_names(platform, with_cores=detail == observe.NORMAL)
    names += [f"waiting jobs: {quartile} of {attribute}" for attribute in ATTRIBUTES for quartile in QUARTILES]
    names.append("queue: change of its length")
    return [*names, *(f"nodes: share {what}" for what in NODE_VALUES)] if with_nodes else names


def job_limits(workloads: list[Workload], *, compatible: bool) -> NDArray[np.float64]:
    """Return what the attributes of waiting jobs are divided by, shape ``(4,)``.

    Parameters
    ----------
    workloads
        All jobs that episodes are made of.
    compatible
        Whether to take HDeepRM's 99th percentiles instead of the largest values.
    """
    values = [np.concatenate([one.jobs[name] for one in workloads]).astype(np.float64) for name in ATTRIBUTES]
    if compatible:
        return np.array([np.percentile(value, HDEEPRM_PERCENTILE) for value in values])
    return np.array([value.max() for value in values])


def largest_fractions(workloads: list[Workload], limits: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the largest value that each attribute of waiting jobs can show, at least 1, shape ``(4,)``."""
    most = job_limits(workloads, compatible=False)
    fractions = np.divide(most, limits, out=np.ones(len(limits)), where=limits > 0)
    return np.nextafter(np.maximum(fractions, 1.0).astype(np.float32), np.float32(np.inf))


def pstate_shares(platform: Platform) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return speed and power of a core in each P-state as fractions of its peak, as the decision system believes them.

    Parameters
    ----------
    platform
        The platform. Where it has P-states of its own, instead of hdrl's rules, nothing is known of them: serving
        counts 1, everything else 0. Where processors, or types of nodes, say what they draw unused, the mean over the
        cores is believed.
    """
    n_pstates = max(platform.n_pstates, FIRST_EXTRA_LEVEL)
    speed, power = np.zeros(n_pstates), np.zeros(n_pstates)
    speed[SERVING] = power[SERVING] = 1.0
    if platform.rules is not None:
        factors = platform.rules.contention.speed_factors
        power[: len(platform.rules.decision_power_factors)] = platform.rules.decision_power_factors
        for level, factor in enumerate(factors):
            pstate = CONTENDED if level == 0 else FIRST_EXTRA_LEVEL - 1 + level
            speed[pstate] = factor
            power[pstate] = platform.rules.decision_power_factors[CONTENDED]
        if platform.rules.node_power is not None and not platform.has_own_node_power:
            power[[FREE, IDLE]] = platform.rules.node_power.idle_power
        elif platform.has_split_power or platform.has_own_node_power:
            power[[FREE, IDLE]] = (platform.idle_w[:, [FREE, IDLE]] / platform.full_w[:, [SERVING]]).mean(axis=0)
    return speed, power

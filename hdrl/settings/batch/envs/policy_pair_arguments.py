"""The arguments of `hdrl/PolicyPair-v0`: what they may be, what follows from them, and what is observed.

Observations are HDeepRM's, value by value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hdrl.base.arguments import listed
from hdrl.base.errors import OptionsError, UnknownName
from hdrl.settings.batch.envs.rewards import (
    ALIASES,
    FORMS,
    GROWTH,
    INSTANTANEOUS,
    INSTANTANEOUS_0_1,
    OBJECTIVES,
    AnyObjective,
    Objective,
)
from hdrl.settings.batch.kernel import codes, observe
from hdrl.settings.batch.kernel.beginning import PolicyRule
from hdrl.settings.batch.kernel.observe import N_QUARTILES, N_QUEUE_VALUES
from hdrl.settings.batch.kernel.reward import OWN
from hdrl.settings.batch.kernel.state import MOST_TIMEOUTS
from hdrl.settings.batch.platform import pstate_rules
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.pstates import CONTENDED, FIRST_EXTRA_LEVEL, FREE, IDLE, SERVING
from hdrl.settings.batch.platform.reader import given_platform
from hdrl.settings.batch.policies.choices import PolicyPair
from hdrl.settings.batch.policies.pairs import VOID, action_table, read_pair
from hdrl.settings.batch.policies.simulation import is_conservative
from hdrl.settings.batch.simulators import HDEEPRM
from hdrl.settings.batch.workload import check_fits, read_workload
from hdrl.settings.batch.workload.model import Workload

Pairs: TypeAlias = Mapping[str, Sequence[str]]
Actions: TypeAlias = Sequence[str | Pairs] | Pairs
"""Names of policies (`policies.read_pair`), or HDeepRM's ``{job selection: [core selections]}``, by itself or in a
list."""

_MAX_ACTIONS = 2**15 - 1


def site_rules_reason(machine: Platform) -> str | None:
    """Return why no policy pairs are chosen on a machine with the rules of a site; ``None`` without rules."""
    if machine.site is None:
        return None
    return (
        f"PolicyPair chooses cores, but the rules of a site choose the nodes of each job on {machine.name}; JobPick "
        "picks jobs under these rules (learning.environment=job_pick); --set site_rules=false (what-if: "
        "--ignore-rules) simulates without them"
    )


def action_names(actions: Actions | None, *, void: bool = True) -> list[str]:
    """Return the actions of an environment by name, in their order: policies, and void last.

    Parameters
    ----------
    actions
        Policies to choose from; ``None``: HDeepRM's 36 pairs.

    Raises
    ------
    UnknownName
        If there is no such policy.
    OptionsError
        If there is nothing to choose from, something is neither name nor pairs, or a policy backfills conservatively.
    """
    if actions is None:
        return action_table(None, void=void)
    names: list[str] = []
    for one in [actions] if isinstance(actions, (str, Mapping)) else actions:
        if not isinstance(one, str) and not _are_pairs(one):
            raise OptionsError(
                f"actions has {one!r:.60}, expected the name of a policy or {{job selection: [core selections]}}"
            )
        if isinstance(one, str) and is_conservative(one):
            raise OptionsError(
                f"actions has {one!r}, but conservative backfilling is not an action: its plans outlast them"
            )
        if isinstance(one, str) and one != VOID and not _is_action(read_pair(one).rule):
            raise OptionsError(f"actions has {one!r}, but predictions and gates are not actions: they outlast one")
        names += [read_pair(one).name] if isinstance(one, str) else action_table([one], void=False)
    if not 0 < len(names) < _MAX_ACTIONS:
        raise OptionsError(f"actions has {len(names)} policies, expected 1 to {_MAX_ACTIONS - 1}")
    return [*names, VOID] if void else names


def _is_action(rule: PolicyRule) -> bool:
    """Tell whether a rule is one that an action can have: none, or what switches nodes."""
    return rule == PolicyRule(
        node_rule=rule.node_rule, sleep_state=rule.sleep_state, share_on=rule.share_on, off_after_s=rule.off_after_s
    )


def pair_numbers(policies: Sequence[PolicyPair], platform: Platform) -> NDArray[np.int64]:
    """Return the parts of the actions, see ``pairs`` of `kernel.observe.Watch`, shape ``(n, 5)``."""
    rows = [
        [one.job_key, one.core_key, one.backfilling, _n_on(one.rule, platform), one.rule.sleep_state]
        for one in policies
    ]
    return np.array(rows, dtype=np.int64)


def off_after_s(policies: Sequence[PolicyPair]) -> NDArray[np.float64]:
    """Return ``off_after_s`` of `kernel.observe.Watch`, shape ``(n,)``.

    Raises
    ------
    OptionsError
        If there are more timeouts than the kernel has place for.
    """
    timeouts = np.array([one.rule.off_after_s for one in policies], dtype=np.float64)
    n = len(set(timeouts[timeouts < np.inf].tolist()))
    if n > MOST_TIMEOUTS:
        raise OptionsError(
            f"actions has {n} times without a job (~off), expected at most {MOST_TIMEOUTS} different ones"
        )
    return timeouts


def _n_on(rule: PolicyRule, platform: Platform) -> int:
    """Return the number of nodes to keep on, -1 if a rule does not set it."""
    return round(rule.share_on * platform.n_nodes) if rule.node_rule == codes.NODES_BY_NUMBER else -1


def _are_pairs(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(cores, Sequence) and not isinstance(cores, str) and all(isinstance(core, str) for core in cores)
        for cores in value.values()
    )


def platform_of(platform: Platform | str | Path, compatibility: str | None) -> Platform:
    """Return a platform, reading it if it is not one already."""
    return given_platform(platform, rules=pstate_rules(compatibility=compatibility))


def workloads_of(
    workload: Workload | str | Path | Sequence[Workload | str | Path], platform: Platform, compatibility: str | None
) -> list[Workload]:
    """Return workloads that fit the platform, reading those that are not workloads already."""
    several = listed("workload", workload, (Workload, str, Path), "a name, a file, or what hdrl.read_workload returns")
    read = [
        one if isinstance(one, Workload) else read_workload(one, platform, compatibility=compatibility)
        for one in several
    ]
    for one in read:
        if one.n_jobs == 0:
            raise OptionsError(f"workload {one.name!r} has no jobs, expected at least one")
    return [check_fits(one, platform) for one in read]


def observation_space(
    platform: Platform, observation: str, largest: NDArray[np.float32] | None = None, *, with_nodes: bool = False
) -> spaces.Box:
    """Return the space of an observation.

    - ``largest``: the largest value that each attribute of waiting jobs can show; ``None``: 1. HDeepRM's exceed 1.
    - ``with_nodes``: whether the agent decides which nodes are on.
    """
    size = len(observation_names(platform, observation, with_nodes=with_nodes))
    high = np.ones(size, dtype=np.float32)
    if largest is not None:
        high[size - N_QUEUE_VALUES : -1] = np.repeat(largest, N_QUARTILES)
    return spaces.Box(np.zeros(size, dtype=np.float32), high, dtype=np.float32)


def watch_scalars(
    void_action: int,
    observation: str,
    objective: AnyObjective,
    reward: str | None,
    queue_sensitivity: float,
    compatibility: str | None,
    energy: bool,  # noqa: FBT001
) -> dict[str, float]:
    """Return the scalars of a watch that never change, after a look at them.

    Parameters
    ----------
    void_action
        The number of void, -1 without it.
    observation, objective, reward, queue_sensitivity, compatibility, energy
        As in `envs.policy_pair.PolicyPairVectorEnv`.

    Raises
    ------
    OptionsError
        If a number is out of range, or energy is missing where it is needed.
    UnknownName
        If there is no such reward.
    """
    if objective.needs_energy and not energy:
        raise OptionsError(f"objective {objective.metric!r} needs energy, which is switched off")
    form = (INSTANTANEOUS if compatibility == HDEEPRM else GROWTH) if reward is None else reward
    if form not in FORMS:
        raise UnknownName("reward", form, FORMS)
    attribute = {INSTANTANEOUS: "instantaneous", INSTANTANEOUS_0_1: "instantaneous_0_1"}.get(form)
    if attribute is not None and not (isinstance(objective, Objective) and getattr(objective, attribute)):
        known = ", ".join(alias for alias, metric in ALIASES.items() if getattr(OBJECTIVES[metric], attribute))
        raise OptionsError(
            f"reward is {form!r}, which HDeepRM does not define for {objective.metric}; it does for {known}"
        )
    if not 0 < queue_sensitivity < np.inf:
        raise OptionsError(f"queue_sensitivity is {queue_sensitivity!r}, expected a number above 0")
    return {
        "void_action": void_action,
        "detail": read_observation(observation),
        "objective": objective.pair_code if isinstance(objective, Objective) else OWN,
        "instantaneous": FORMS.index(form),
        "queue_sensitivity": queue_sensitivity,
    }


OBSERVATIONS: Mapping[str, int] = MappingProxyType(
    {"normal": observe.NORMAL, "small": observe.SMALL, "minimal": observe.MINIMAL}
)
"""The observations by their names in options: nodes, processors, cores and queue; all but cores; the queue alone."""

ATTRIBUTES = ("requested_time_s", "cores", "memory_mib", "bandwidth_gbps")
"""Fields of `workload.model.JOB_DTYPE` that are observed of the waiting jobs, in this order."""

QUARTILES = ("min", "q1", "median", "q3", "max")
"""Statistics of each of `ATTRIBUTES` in an observation, in this order."""

NODE_VALUES = ("on", "booting", "shutting down")
"""States of nodes in an observation, as shares of all, where an agent decides how many are on, in this order."""

HDEEPRM_PERCENTILE = 99
"""Percentile of the workload by which HDeepRM divides what is observed of jobs."""


def read_observation(name: str) -> int:
    """Return the number of an observation in the kernel by its name."""
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
    """Return the meaning of each value of an observation, in order."""
    detail = read_observation(name)
    names = []
    if detail != observe.MINIMAL:
        names = _platform_names(platform, with_cores=detail == observe.NORMAL)
    names += [f"waiting jobs: {quartile} of {attribute}" for attribute in ATTRIBUTES for quartile in QUARTILES]
    names.append("queue: change of its length")
    return [*names, *(f"nodes: share {what}" for what in NODE_VALUES)] if with_nodes else names


def job_limits(workloads: list[Workload], *, compatible: bool) -> NDArray[np.float64]:
    """Return the divisors of the attributes of waiting jobs, shape ``(4,)``.

    - ``workloads``: all jobs that episodes are made of.
    - ``compatible``: whether to take HDeepRM's 99th percentiles instead of the largest values.
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

    ``platform``: the platform. Where it has P-states of its own, instead of hdrl's rules, nothing is known of them:
    serving counts 1, everything else 0. Where processors, or types of nodes, say what they draw unused, the mean over
    the cores is believed.
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

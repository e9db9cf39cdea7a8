"""From what a site says of itself to the flat arrays that simulations need."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import PlatformError, suggest
from hdrl.base.textnumbers import float_of, int_of
from hdrl.settings.batch.site_rules.conf import SiteConf, association_name
from hdrl.settings.batch.site_rules.hostlist import node_names
from hdrl.settings.batch.site_rules.model import (
    ACCOUNT_DTYPE,
    NODE_DTYPE,
    OUTAGE_DTYPE,
    PARTITION_DTYPE,
    QOS_DTYPE,
    RESERVATION_DTYPE,
    UNLIMITED,
    HetjobPrio,
    PreemptBy,
    Preemption,
    PreemptMode,
    PriorityWeights,
    SchedulerParameters,
    SiteRules,
    unlimited,
)
from hdrl.settings.batch.site_rules.values import CPU, GPU, OVER_PARTITION, duration_s, minutes_s

MOST_NAMES = 64
"""Partitions, features and QOS that one word of bits holds."""

_PARAMETERS = {
    "sched_interval": ("sched_interval_s", 1.0),
    "default_queue_depth": ("default_queue_depth", 1),
    "partition_job_depth": ("partition_job_depth", 1),
    "bf_interval": ("bf_interval_s", 1.0),
    "bf_resolution": ("bf_resolution_s", 1.0),
    "bf_window": ("bf_window_s", 60.0),
    "bf_max_job_test": ("bf_max_job_test", 1),
    "bf_max_job_user": ("bf_max_job_user", 1),
    "bf_max_job_part": ("bf_max_job_part", 1),
    "bf_min_age_reserve": ("bf_min_age_reserve_s", 1.0),
    "bf_min_prio_reserve": ("bf_min_prio_reserve", 1),
}
"""Keys of SchedulerParameters, the fields that they set, and what one of their units is; a float: of seconds."""

_FLAGS = ("bf_continue", "bf_busy_nodes")

_HETJOB_PRIO = "bf_hetjob_prio"
"""The key of SchedulerParameters whose values are words."""

_MOST = 2**31 - 1


def rules_of(conf: SiteConf) -> SiteRules:
    """Return the rules of a site.

    Parameters
    ----------
    conf
        Its description; a site without partitions has one, of all nodes.

    Raises
    ------
    PlatformError
        If a partition, a limit or a date makes no sense; the message names the position.
    """
    names = [name for one in conf.nodes for name in node_names(one.names)]
    position = {name: number for number, name in enumerate(names)}
    features = _limited("features", list(dict.fromkeys(word for one in conf.nodes for word in one.features)))
    nodes = np.zeros(len(names), dtype=NODE_DTYPE)
    first = 0
    for one in conf.nodes:
        part = nodes[first : first + one.count]
        part["cores"], part["memory_mib"], part["gpus"], part["weight"] = (
            one.cores,
            one.memory_mib,
            one.gpus,
            one.weight,
        )
        part["features"] = _bits(features.index(word) for word in one.features)
        first += one.count
    partitions, partition_nodes = _partitions(conf, position)
    reservations = [one for one in conf.downtimes if one.kind == "reservation"]
    # Repeated reservations share their lists of nodes.
    listed = {one.nodes: f"{one.kind} of {one.start}" for one in conf.downtimes[::-1]}
    masks = {nodes: _node_mask(nodes, position, where) for nodes, where in listed.items()}
    outages = [
        (node, *one.span_s, one.kind == "drain")
        for one in conf.downtimes
        if one.kind != "reservation"
        for node in np.flatnonzero(masks[one.nodes])
    ]
    qos_names = _limited("QOS", list(conf.qos))
    default = [number for number, one in enumerate(conf.partitions.values()) if one.is_default]
    return SiteRules(
        nodes=nodes,
        node_names=tuple(names),
        partitions=partitions,
        partition_names=tuple(_limited("partitions", list(conf.partitions))) or ("all",),
        partition_nodes=partition_nodes,
        default_partition=default[0] if default else 0,
        feature_names=tuple(features),
        reservations=np.array([one.span_s for one in reservations], dtype=RESERVATION_DTYPE),
        reservation_nodes=np.array([masks[one.nodes] for one in reservations], dtype=np.bool_).reshape(
            len(reservations), len(names)
        ),
        outages=np.array(sorted(outages, key=lambda row: (row[1], row[0])), dtype=OUTAGE_DTYPE),
        qos=_qos(conf, qos_names),
        qos_names=tuple(qos_names),
        accounts=_accounts(conf.accounts),
        account_names=tuple(conf.accounts),
        associations=_associations(conf),
        association_names=tuple(
            association_name(account, user) for account, users in conf.users.items() for user in users
        ),
        scheduler=scheduler_parameters(conf.scheduler),
        weights=priority_weights(conf.scheduler),
        preemption=_preemption(conf),
        over_time_limit_s=_minutes(conf.scheduler, "OverTimeLimit", 0.0),
        counts_memory=conf.counts_memory,
    )


def _limited(what: str, names: list[str]) -> list[str]:
    if len(names) > MOST_NAMES:
        raise PlatformError(f"has {len(names):,} {what}, expected at most {MOST_NAMES}")
    return names


def _bits(positions: Any) -> int:
    return sum(1 << position for position in set(positions))


def _node_mask(listed: str, position: Mapping[str, int], where: str) -> NDArray[np.bool_]:
    """Return the mask of the nodes in a list; nodes that no NodeName describes are left out, an empty list is all."""
    mask = np.full(len(position), not listed)
    named = node_names(listed)
    known = [position[name] for name in named if name in position]
    if named and not known:
        raise PlatformError(f"{where} names no node of the machine, but {named[0]!r}; {suggest(named[0], position)}")
    mask[known] = True
    return mask


def _partitions(conf: SiteConf, position: Mapping[str, int]) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
    if not conf.partitions:
        whole = np.zeros(1, dtype=PARTITION_DTYPE)
        whole["tier"] = whole["job_factor"] = 1
        whole["max_time_s"] = whole["default_time_s"] = np.inf
        whole["max_nodes"] = whole["qos"] = UNLIMITED
        return whole, np.ones((1, len(position)), dtype=np.bool_)
    table = np.zeros(len(conf.partitions), dtype=PARTITION_DTYPE)
    qos = list(conf.qos)
    for row, (name, one) in zip(table, conf.partitions.items(), strict=True):
        row["tier"], row["job_factor"] = one.tier, one.priority
        row["max_time_s"] = np.inf if one.max_time_s is None else one.max_time_s
        row["default_time_s"] = np.inf if one.default_time_s is None else one.default_time_s
        row["min_nodes"] = one.min_nodes
        row["max_nodes"] = UNLIMITED if one.max_nodes is None else one.max_nodes
        row["is_exclusive"], row["grace_s"] = one.is_exclusive, one.grace_s
        row["preempt_mode"] = _mode(conf, one.preempt_mode, f"partition {name}")
        row["qos"] = qos.index(one.qos) if one.qos in qos else UNLIMITED
    masks = [_node_mask(one.nodes, position, f"partition {name}") for name, one in conf.partitions.items()]
    return table, np.array(masks, dtype=np.bool_)


_WITHIN = ("WITHIN", "PRIORITY")

_YOUNGEST_FIRST = "preempt_youngest_first"
"""The key of SchedulerParameters that PreemptParameters knows as ``youngest_first``."""


def _preemption(conf: SiteConf) -> Preemption:
    kind = conf.scheduler.get("PreemptType", "").lower()
    by = PreemptBy.PARTITION if "partition_prio" in kind else PreemptBy.QOS if "qos" in kind else PreemptBy.NOTHING
    text = conf.scheduler.get("PreemptExemptTime", "0")
    words = re.split(r"[,\s]+", conf.scheduler.get("PreemptParameters", "").lower())
    keys = [key for key, _ in _parameter_words(conf.scheduler)]
    modes = [conf.scheduler.get("PreemptMode", ""), *(one.preempt_mode for one in conf.partitions.values())]
    modes += [row.get("PreemptMode", "") for row in conf.qos.values()]
    return Preemption(
        by=by,
        exempt_s=0.0 if text == "-1" else _minutes(conf.scheduler, "PreemptExemptTime", 0.0),
        is_youngest_first="youngest_first" in words or _YOUNGEST_FIRST in keys,
        is_within=any(word in _WITHIN for text in modes for word in text.upper().split(",")),
        restart_s=conf.restart_s,
    )


def _mode(conf: SiteConf, text: str, where: str) -> PreemptMode:
    """Return the PreemptMode of a partition or a QOS, by default the site's; GANG only says how jobs share time.

    Without JobRequeue, jobs that should be requeued are cancelled.
    """
    if text.lower() in ("", "cluster"):
        text, where = conf.scheduler.get("PreemptMode", ""), "the site"
    words = [word for word in text.upper().split(",") if word not in ("", "GANG", *_WITHIN)]
    if not words:
        return PreemptMode.OFF
    if words[0] not in PreemptMode.__members__:
        raise PlatformError(f"{where} has PreemptMode {words[0][:40]!r}; {suggest(words[0], PreemptMode.__members__)}")
    if words[0] == "REQUEUE" and conf.scheduler.get("JobRequeue") == "0":
        return PreemptMode.CANCEL
    return PreemptMode[words[0]]


def scheduler_parameters(scheduler: Mapping[str, str]) -> SchedulerParameters:
    """Return the scheduler parameters of a site; keys that no simulation follows are left out (`ignored_parameters`).

    Parameters
    ----------
    scheduler
        Keys of ``slurm.conf`` with their texts.

    Raises
    ------
    PlatformError
        If a value is no number, or no word that its key knows.
    """
    found: dict[str, Any] = {}
    for key, text in _parameter_words(scheduler):
        if key in _FLAGS:
            found[key] = True
        elif key == _HETJOB_PRIO:
            known = [one.name.lower() for one in HetjobPrio if one]
            if text.lower() not in known:
                raise PlatformError(f"SchedulerParameters has {key}={text[:40]!r}; {suggest(text, known)}")
            found[key] = HetjobPrio[text.upper()]
        elif key in _PARAMETERS:
            name, unit = _PARAMETERS[key]
            try:
                number = int_of(text)
            except ValueError:
                raise PlatformError(f"SchedulerParameters has {key}={text[:40]!r}, expected a whole number") from None
            if number < 0:  # Slurm's way to say never
                number = 2**31 - 1
            found[name] = number * unit
    return SchedulerParameters(**found)


def ignored_parameters(scheduler: Mapping[str, str]) -> list[str]:
    """Return the keys of SchedulerParameters that no simulation follows."""
    known = {*_FLAGS, *_PARAMETERS, _HETJOB_PRIO, _YOUNGEST_FIRST}
    return [key for key, _ in _parameter_words(scheduler) if key not in known]


def _parameter_words(scheduler: Mapping[str, str]) -> list[tuple[str, str]]:
    words = re.split(r"[,\s]+", scheduler.get("SchedulerParameters", ""))
    pairs = [word.partition("=")[::2] for word in words if word]
    return [(key.strip().lower(), text.strip()) for key, text in pairs]


def priority_weights(scheduler: Mapping[str, str]) -> PriorityWeights:
    """Return the multifactor priority of a site.

    Raises
    ------
    PlatformError
        If a value is no number.
    """
    flags = [word.strip().upper() for word in scheduler.get("PriorityFlags", "").split(",")]

    def weight(key: str) -> int:
        text = scheduler.get(f"PriorityWeight{key}", "0")
        try:
            return int_of(text)
        except ValueError:
            raise PlatformError(f"PriorityWeight{key} is {text[:40]!r}, expected a whole number") from None

    # Without accounting, jobs belong to no association, and no age accrues to them.
    has_accounting = not scheduler.get("AccountingStorageType", "").lower().endswith("/none")
    calc_period_s = _minutes(scheduler, "PriorityCalcPeriod", 300.0)
    if not 0 < calc_period_s < np.inf:
        raise PlatformError(
            f"PriorityCalcPeriod is {scheduler['PriorityCalcPeriod'][:40]!r}, expected at least a minute"
        )
    return PriorityWeights(
        age=weight("Age") if has_accounting else 0,
        max_age_s=_minutes(scheduler, "PriorityMaxAge", 7 * 86400.0),
        fairshare=weight("Fairshare") if has_accounting else 0,
        is_fair_tree="NO_FAIR_TREE" not in flags,
        half_life_s=_minutes(scheduler, "PriorityDecayHalfLife", 7 * 86400.0),
        calc_period_s=calc_period_s,
        job_size=weight("JobSize"),
        favor_small=scheduler.get("PriorityFavorSmall", "NO").upper() == "YES",
        is_relative_to_time="SMALL_RELATIVE_TO_TIME" in flags,
        partition=weight("Partition"),
        qos=weight("QOS"),
        is_basic=scheduler.get("PriorityType", "").lower().endswith("basic"),
    )


def _minutes(scheduler: Mapping[str, str], key: str, default_s: float) -> float:
    text = scheduler.get(key)
    if text is None:
        return default_s
    try:
        return float(minutes_s(text))
    except ValueError:
        raise PlatformError(f"{key} is {text[:40]!r}, expected minutes or days-hours:minutes:seconds") from None


def _count(row: Mapping[str, str], where: str, *keys: str) -> int:
    """Return the first of several columns that is set, `UNLIMITED` if none is."""
    for key in keys:
        text = row.get(key, "")
        if text:
            try:
                number = int_of(text)
            except ValueError:
                number = _MOST + 1
            if abs(number) > _MOST:
                raise PlatformError(f"{where} has {key} {text[:40]!r}, expected a whole number up to {_MOST:,}")
            return number
    return UNLIMITED


def _resource(row: Mapping[str, str], where: str, kind: str, *keys: str) -> int:
    """Return the amount in the first of several lists of resources that limits a kind, `UNLIMITED` if none does."""
    for key in keys:
        amounts = dict(part.partition("=")[::2] for part in row.get(key, "").split(","))
        try:
            found = float_of(amounts[kind]) if kind in amounts else np.inf
        except ValueError:
            raise PlatformError(f"{where} has {key} {row[key][:40]!r}, expected for instance {kind}=64") from None
        if np.isfinite(found) and found >= 0:
            return int(min(found, _MOST))
    return UNLIMITED


def _both(row: Mapping[str, str], where: str, *keys: str) -> tuple[int, int]:
    """Return the CPUs and the GPUs that lists of resources limit."""
    return _resource(row, where, CPU, *keys), _resource(row, where, GPU, *keys)


def _qos(conf: SiteConf, names: Sequence[str]) -> NDArray[np.void]:
    """Return the QOS; the columns are those of ``sacctmgr show qos -P``."""
    table = np.zeros(len(names), dtype=QOS_DTYPE)
    for position, (name, row) in enumerate(conf.qos.items()):
        where = f"QOS {name}"
        others = [word for word in row.get("Preempt", "").split(",") if word in names]
        mode = row.get("PreemptMode", "")
        try:
            max_s, grace_s = duration_s(row.get("MaxWall", "")), duration_s(row.get("GraceTime", ""))
            exempt_s = duration_s(row.get("PreemptExemptTime", ""))
        except ValueError as error:
            raise PlatformError(f"{where}: {error}") from None
        table[position] = (
            max(_count(row, where, "Priority"), 0),
            _bits(map(list(names).index, others)),
            _mode(conf, mode, where),
            0.0 if np.isnan(grace_s) else grace_s,
            exempt_s,
            np.inf if np.isnan(max_s) else max_s,
            *_both(row, where, "GrpTRES"),
            *_both(row, where, "MaxTRES", "MaxTRESPerJob"),
            *_both(row, where, "MaxTRESPU", "MaxTRESPerUser"),
            _count(row, where, "GrpJobs"),
            _count(row, where, "GrpSubmit", "GrpSubmitJobs"),
            _count(row, where, "MaxJobsPU", "MaxJobsPerUser"),
            _count(row, where, "MaxSubmitPU", "MaxSubmitJobsPerUser", "MaxSubmitJobsPU"),
            OVER_PARTITION in row.get("Flags", "").split(","),
        )
    return table


def _accounts(accounts: Mapping[str, Mapping[str, str]]) -> NDArray[np.void]:
    """Return the accounts; the columns are those of ``sacctmgr show assoc -P``."""
    names = {name: position for position, name in enumerate(accounts)}
    table = unlimited(ACCOUNT_DTYPE, len(names))
    for position, (name, row) in enumerate(accounts.items()):
        parent = row.get("ParentName", "")
        table[position] = _account(row, f"account {name}", names.get(parent, -1) if parent != name else -1)
    return table


def _associations(conf: SiteConf) -> NDArray[np.void]:
    """Return the users in accounts with settings of their own, as accounts below these."""
    positions = {name: position for position, name in enumerate(conf.accounts)}
    rows = [
        _account(row, f"user {user} of account {account}", positions[account])
        for account, users in conf.users.items()
        for user, row in users.items()
    ]
    return np.array(rows, dtype=ACCOUNT_DTYPE)


def _account(row: Mapping[str, str], where: str, parent: int) -> tuple[float, ...]:
    """Return the values of `ACCOUNT_DTYPE` in an association."""
    share = row.get("Share", "1")
    try:
        shares = 1 if share in ("", "parent") else int(float_of(share))
    except ValueError:
        raise PlatformError(f"{where} has Share {share[:40]!r}, expected a whole number") from None
    text = row.get("MaxWall", "")
    try:
        max_s = duration_s(text)
    except ValueError:
        raise PlatformError(f"{where} has MaxWall {text[:40]!r}, expected days-hours:minutes:seconds") from None
    return (
        parent,
        shares,
        max_s,
        *_both(row, where, "GrpTRES"),
        *_both(row, where, "MaxTRES", "MaxTRESPerJob"),
        _count(row, where, "GrpJobs"),
        _count(row, where, "GrpSubmit", "GrpSubmitJobs"),
        _count(row, where, "MaxJobs"),
        _count(row, where, "MaxSubmit", "MaxSubmitJobs"),
    )

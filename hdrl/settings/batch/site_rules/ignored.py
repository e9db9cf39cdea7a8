"""Settings of a site that decide about schedules, but that no simulation follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hdrl.settings.batch.site_rules.values import CPU, GPU, OVER_PARTITION

_NO, _NO_LIMIT, _UP = ("NO",), ("UNLIMITED", "INFINITE", "0"), ("UP", "UNKNOWN", "IDLE", "CLOUD", "FUTURE")

_OF_LINES: Mapping[str, Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "nodename": {
        "corespeccount": ("CoreSpecCount", _NO_LIMIT),
        "cpuspeclist": ("CpuSpecList", ()),
        "memspeclimit": ("MemSpecLimit", _NO_LIMIT),
        "state": ("State", _UP),
    },
    "partitionname": {
        "maxcpuspernode": ("MaxCPUsPerNode", _NO_LIMIT),
        "maxcpuspersocket": ("MaxCPUsPerSocket", _NO_LIMIT),
        "oversubscribe": ("OverSubscribe", ("NO", "EXCLUSIVE")),
        "shared": ("Shared", ("NO", "EXCLUSIVE")),
        "state": ("State", _UP),
        "exclusiveuser": ("ExclusiveUser", _NO),
        "exclusivetopo": ("ExclusiveTopo", _NO),
        "lln": ("LLN", _NO),
        "reqresv": ("ReqResv", _NO),
    },
}
"""Keys of lines of nodes and partitions: how Slurm writes them, and values that have no effect."""

_OF_SITE: Mapping[str, tuple[str, ...]] = {
    "SchedulerType": ("SCHED/BACKFILL",),
    "PriorityWeightAssoc": ("0",),
    "PriorityWeightTRES": (),
    "PriorityUsageResetPeriod": ("NONE",),
    "FairShareDampeningFactor": ("1",),
}
"""Keys of ``slurm.conf``, and values that have no effect or are followed."""

_OF_FLAGS = ("", "DenyOnLimit", OVER_PARTITION)
"""Flags of a QOS that are followed."""

_FLAGS = ("", "FAIR_TREE", "NO_FAIR_TREE", "SMALL_RELATIVE_TO_TIME")
"""Values of PriorityFlags that are followed."""

_RESOURCES = ("GrpTRES", "MaxTRES", "MaxTRESPerJob", "MaxTRESPU", "MaxTRESPerUser")
"""Limits of trackable resources, of which those of CPUs and GPUs are followed."""

_OF_QOS = (
    *("Name", "ID", "Description", "Priority", "Preempt", "PreemptMode", "PreemptExemptTime", "GraceTime", "MaxWall"),
    *("GrpTRES", "GrpJobs", "GrpSubmit", "GrpSubmitJobs", "MaxTRES", "MaxTRESPerJob", "MaxTRESPU", "MaxTRESPerUser"),
    *("MaxJobsPU", "MaxJobsPerUser", "MaxSubmitPU", "MaxSubmitJobsPU", "MaxSubmitJobsPerUser"),
)
_OF_NO_EFFECT = (
    *("Cluster", "Account", "ParentName", "Par Name", "User", "Partition", "ID", "LFT", "RGT", "Lineage", "Comment"),
    *("Flags", "QOS", "QOSLevel", "QOS_RAW", "Def QOS", "DefaultQOS"),
)
_OF_ACCOUNTS = (
    *_OF_NO_EFFECT,
    *("Share", "Fairshare", "GrpTRES", "GrpJobs", "GrpSubmit", "GrpSubmitJobs", "MaxTRES", "MaxTRESPerJob", "MaxJobs"),
    *("MaxSubmit", "MaxSubmitJobs", "MaxWall"),
)
"""Columns of sacctmgr that are followed, or set no limit."""

_MOST_SHOWN = 5
"""Names that are listed; a site may have thousands of users."""


def sets_something(row: Mapping[str, str]) -> bool:
    """Tell whether the row of a user in ``sacctmgr show assoc -P`` sets a limit or shares."""
    return any(column not in _OF_NO_EFFECT and (column, text) != ("Share", "1") for column, text in row.items())


def ignored_of_line(kind: str, values: Mapping[str, str]) -> Iterator[str]:
    """Yield the settings of a line of nodes (``nodename``) or of a partition (``partitionname``)."""
    for key, (title, without_effect) in _OF_LINES[kind].items():
        text = values.get(key, "")
        if text and text.upper().partition(":")[0] not in without_effect:
            yield f"{title}={text}"


def limits_not_enforced(scheduler: Mapping[str, str], rows: Iterable[Mapping[str, str]]) -> str | None:
    """Return a sentence if Slurm enforces no limits, although rows of sacctmgr set some; simulations obey them."""
    words = scheduler.get("AccountingStorageEnforce", "")
    has_limits = any(column.startswith(("Grp", "Max")) and text for row in rows for column, text in row.items())
    if not has_limits or not {"limits", "safe", "all"}.isdisjoint(words.lower().replace(" ", "").split(",")):
        return None
    given = f"AccountingStorageEnforce={words} has no 'limits'" if words else "AccountingStorageEnforce is not set"
    return f"{given}: Slurm enforces no limits of QOS and accounts, but simulations do"


def ignored_settings(
    scheduler: Mapping[str, str],
    qos: Mapping[str, Mapping[str, str]],
    accounts: Mapping[str, Mapping[str, str]],
    users: Mapping[str, Mapping[str, Mapping[str, str]]],
    partition_qos: Mapping[str, str],
) -> list[str]:
    """Return the settings of a site, its QOS, accounts and users, each with the names of those that have it.

    Parameters
    ----------
    scheduler
        Keys of ``slurm.conf`` with their texts.
    qos, accounts
        Columns of sacctmgr, by name.
    users
        Columns of sacctmgr, by account and user.
    partition_qos
        The QOS of each partition that has one.
    """
    found = [
        f"{key}={scheduler[key]}"
        for key, without_effect in _OF_SITE.items()
        if scheduler.get(key) and scheduler[key].upper() not in without_effect
    ]
    flags = [word.strip() for word in scheduler.get("PriorityFlags", "").split(",")]
    found += [f"PriorityFlags={word}" for word in flags if word.upper() not in _FLAGS]
    unknown: dict[str, list[str]] = {}
    for partition, name in partition_qos.items():
        if name not in qos:
            unknown.setdefault(name, []).append(partition)
    found += [
        f"QOS={name} of partition {_listed(having)}, which --qos does not describe" for name, having in unknown.items()
    ]
    of_users = {f"{user} of {account}": row for account, rows in users.items() for user, row in rows.items()}
    kinds = (("QOS", _OF_QOS, qos), ("account", _OF_ACCOUNTS, accounts), ("user", _OF_ACCOUNTS, of_users))
    for kind, followed, rows in kinds:
        names: dict[str, list[str]] = {}
        for name, row in rows.items():
            for column in _ignored_columns(row, followed):
                names.setdefault(column, []).append(name)
        found += [f"{column} of {kind} {_listed(having)}" for column, having in names.items()]
    return found


def _listed(names: list[str]) -> str:
    """Return names with commas, the first ones and the number of all if there are many."""
    more = f", ... ({len(names):,})" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more


def _ignored_columns(row: Mapping[str, str], followed: tuple[str, ...]) -> Iterator[str]:
    for column, text in row.items():
        if column in _RESOURCES and column in followed:
            kinds = (part.partition("=")[0] for part in text.split(","))
            yield from (f"{column}={kind}" for kind in kinds if kind not in ("", CPU, GPU, "billing"))
        elif column == "Flags":
            yield from (f"Flags={word}" for word in text.split(",") if word not in _OF_FLAGS)
        elif column == "Share" and text == "parent":
            yield "Share=parent"
        elif column not in followed and text not in ("1.000000", "cluster"):
            yield column

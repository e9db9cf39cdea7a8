"""Accounts and QOS for a Slurm that hdrl runs: a database of its own, and its contents.

MariaDB keeps the database in the folder of the run and listens on a socket there alone, so that the rights of the
folder protect it. Its clock is that of the host: only Slurm's own dates are kept in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import SimulationError
from hdrl.settings.batch.site_rules.model import UNLIMITED, PreemptBy, PreemptMode, SiteJobs, SiteRules
from hdrl.slurm.conf import clock_text, message_timeout_s, user_name

PACKAGES = ("slurmdbd", "mariadb-server-core", "mariadb-client-core")
"""Debian's packages with what is needed."""

COMMANDS = ("slurmdbd", "sacctmgr", "mariadb-install-db", "my_print_defaults", "mariadbd")

QOS, ACCOUNTS = "qos.txt", "accounts.txt"
"""Files with what `sacctmgr` prints of them."""

CLUSTER = "hdrl"

SOCKET = "database.sock"
SOCKET_VARIABLE = "MYSQL_UNIX_PORT"
"""The environment variable by which clients of MariaDB find its socket."""

SHOWN = {
    QOS: ("show", "qos", "-P", "format=Name,Priority,GraceTime,Preempt,PreemptMode,PreemptExemptTime,GrpTRES,GrpJobs"),
    ACCOUNTS: ("show", "assoc", "-P", "format=Account,ParentName,User,Share,GrpTRES,GrpJobs"),
}
"""The arguments of `sacctmgr`, by the file that gets its output."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")

_SLURMDBD_CONF = """DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
AuthType=auth/none
CommunicationParameters=NoAddrCache,NoCtldInAddrAny,NoInAddrAny
SlurmUser={user}
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser={user}
StorageLoc=slurm
MessageTimeout={timeout}
TCPTimeout={timeout}
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/slurmdbd.pid
"""


@dataclass(frozen=True, slots=True)
class Accounting:
    """Contents of the database.

    Attributes
    ----------
    accounts
        Name, parent and settings of each account, in the words of `sacctmgr`, parents first; those by which
        jobs are submitted have one user each.
    submitted_by
        For each job, the account by which it is submitted, and its QOS; empty: none.
    qos
        Name and settings of each QOS, in the words of `sacctmgr`.
    """

    accounts: tuple[tuple[str, str, tuple[str, ...]], ...]
    submitted_by: tuple[tuple[str, str], ...]
    qos: tuple[tuple[str, tuple[str, ...]], ...]

    def commands(self, user: str) -> list[tuple[str, ...]]:
        """Return the arguments of `sacctmgr` that put it into the database.

        Parameters
        ----------
        user
            Who submits all jobs.
        """
        found: list[tuple[str, ...]] = [("add", "cluster", CLUSTER)]
        names = [name for name, _ in self.qos]
        found += [("add", "qos", name) for name in names if name != "normal"]  # which Slurm has anyway
        found += [("modify", "qos", name, "set", *words) for name, words in self.qos]
        found += [("add", "account", name, f"parent={parent}", *words) for name, parent, words in self.accounts]
        leaves = ",".join(sorted({account for account, _ in self.submitted_by}))
        found.append(("add", "user", user, f"account={leaves}", *([f"qos={','.join(names)}"] if names else [])))
        return [("-i", *one) for one in found]


def needs_accounting(rules: SiteRules | None) -> bool:
    """Return whether a site has rules that Slurm follows with a database only."""
    if rules is None:
        return False
    has_weights = bool(rules.weights.fairshare or rules.weights.qos) and not rules.weights.is_basic
    return has_weights or rules.preemption.by == PreemptBy.QOS or len(rules.qos) > 0 or len(rules.accounts) > 0


def accounting_of(rules: SiteRules, site_requests: SiteJobs) -> Accounting:
    """Return the contents of a database for the jobs of a site.

    One user submits all jobs. So each user of an account is an account below it, which has that one user.

    Raises
    ------
    SimulationError
        If Slurm would do something else than requested; the message names it.
    """
    for problem in _refused(rules, site_requests):
        raise SimulationError(f"simulator 'slurm' does not support {problem}")
    parents = [
        (
            name,
            rules.account_names[row["parent"]] if row["parent"] >= 0 else "root",
            (f"fairshare={row['shares']}", *_group_limits(row)),
        )
        for name, row in zip(rules.account_names, rules.accounts, strict=True)
    ]
    accounts = [one for one in parents if one[1] == "root"]
    while len(accounts) < len(parents):
        known = {name for name, _, _ in accounts}
        accounts += [one for one in parents if one[0] not in known and one[1] in known]
    jobs = site_requests.jobs
    pairs = zip(jobs["account"].tolist(), jobs["user"].tolist(), strict=True)
    leaves = [_leaf(rules, account, user) for account, user in pairs]
    accounts += [(name, parent, ("fairshare=1",)) for name, parent in sorted(set(leaves))]
    of_jobs = [rules.qos_names[qos] if qos >= 0 else "" for qos in jobs["qos"].tolist()]
    qos = tuple((name, _qos_words(rules, number)) for number, name in enumerate(rules.qos_names))
    return Accounting(tuple(accounts), tuple((leaf, one) for (leaf, _), one in zip(leaves, of_jobs, strict=True)), qos)


def _leaf(rules: SiteRules, account: int, user: int) -> tuple[str, str]:
    """Return the account that stands for a user of an account, and that account."""
    own = f"u{user}" if user >= 0 else "nobody"
    return (f"{rules.account_names[account]}_{own}", rules.account_names[account]) if account >= 0 else (own, "root")


def _refused(rules: SiteRules, site_requests: SiteJobs) -> list[str]:
    """Return the requests and limits that Slurm would not follow as a simulation does."""
    jobs, found = site_requests.jobs, []
    for what, names in (("account", rules.account_names), ("QOS", rules.qos_names)):
        found += [
            f"{what} {name!r}, expected small letters, digits and _ (at most 40)"
            for name in names
            if not _NAME.fullmatch(name) or name == "root"
        ]
    found += _refused_limits(rules)
    if (rules.weights.fairshare or len(rules.accounts)) and np.any(jobs["account"] < 0):
        found.append("jobs without an account of the site, where it has fair share or accounts")
    if len(rules.qos) and np.any(jobs["qos"] < 0):
        found.append("jobs without a QOS of the site, where it has some")
    if rules.preemption.by == PreemptBy.QOS:
        found += _refused_preemption(rules)
    if rules.preemption.restart_s or rules.preemption.is_within:
        found.append("jobs that run longer after a restart, or PreemptMode=WITHIN")
    return found


def _refused_limits(rules: SiteRules) -> Iterator[str]:
    tables = (rules.qos, rules.accounts)
    if len(rules.associations) or _has_limits(tables, "user_cores", "user_gpus", "user_jobs"):
        yield "limits of each user, since one user submits all jobs"
    if _has_limits(tables, "job_cores", "job_gpus"):
        yield "limits of each job of a QOS or an account"
    if _has_limits(tables, "user_submitted", "group_submitted", "max_time_s"):
        yield "limits of QOS or accounts on submissions and times"
    if _has_limits(tables, "group_gpus"):
        yield "limits of GPUs"
    if np.any(rules.partitions["qos"] != UNLIMITED):
        yield "QOS of partitions"


def _has_limits(tables: tuple[NDArray[np.void], ...], *names: str) -> bool:
    """Return whether a QOS or an account has one of some limits."""
    values = [one[name] for one in tables for name in names if name in (one.dtype.names or ())]
    return any(bool(np.any((one >= 0) & np.isfinite(one))) for one in values)


def _refused_preemption(rules: SiteRules) -> Iterator[str]:
    taken = int(np.bitwise_or.reduce(rules.qos["preempts"])) if len(rules.qos) else 0
    for number, (name, row) in enumerate(zip(rules.qos_names, rules.qos, strict=True)):
        mode = PreemptMode(int(row["preempt_mode"]))
        if taken >> number & 1 and mode != PreemptMode.REQUEUE:
            yield f"QOS {name!r} whose jobs are preempted by PreemptMode={mode.name}, expected REQUEUE"
        if taken >> number & 1 and row["grace_s"] > 0:
            yield f"QOS {name!r} whose jobs are preempted after a GraceTime"


def _qos_words(rules: SiteRules, number: int) -> tuple[str, ...]:
    row = rules.qos[number]
    taken = [name for other, name in enumerate(rules.qos_names) if int(row["preempts"]) >> other & 1]
    return (
        f"Priority={row['priority']}",
        *([f"Preempt={','.join(taken)}"] if taken else []),
        *([] if np.isnan(row["exempt_s"]) else [f"PreemptExemptTime={clock_text(row['exempt_s'])}"]),
        *_group_limits(row),
    )


def _group_limits(row: np.void) -> tuple[str, ...]:
    """Return the limits of all jobs of a QOS or an account together."""
    return (
        *([f"GrpTRES=cpu={row['group_cores']}"] if row["group_cores"] != UNLIMITED else []),
        *([f"GrpJobs={row['group_jobs']}"] if row["group_jobs"] != UNLIMITED else []),
    )


def conf_lines(port: int) -> list[str]:
    """Return the lines of ``slurm.conf`` that make Slurm use the database."""
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={port}",
        "AccountingStorageEnforce=associations,limits,qos",
    ]


def plan_of(accounting: Accounting, folder: Path, port: int, speed: float) -> dict[str, Any]:
    """Write the configuration of slurmdbd into a folder; return the accounting plan of `hdrl.slurm.driver`."""
    user = user_name()
    (folder / "database").mkdir()
    path = folder / "slurmdbd.conf"
    path.touch(mode=0o600)  # Slurm takes no other one
    path.write_text(_SLURMDBD_CONF.format(folder=folder, port=port, user=user, timeout=message_timeout_s(speed)))
    return {
        "made_by": ["--no-defaults", *_NEW, *_where(folder, user)],
        "database": ["--no-defaults", *_SMALL, *_where(folder, user), f"--socket={folder / SOCKET}"],
        "socket": str(folder / SOCKET),
        "port": port,
        "commands": accounting.commands(user),
        "shown": SHOWN,
    }


def _where(folder: Path, user: str) -> list[str]:
    place = folder / "database"
    return [f"--user={user}", f"--datadir={place}", f"--tmpdir={place}", "--innodb-log-file-size=16M"]


_NEW = ("--auth-root-authentication-method=normal", "--skip-test-db")
_SMALL = (
    "--skip-networking",
    "--skip-grant-tables",  # no names and no passwords: the folder belongs to this user alone
    "--skip-log-bin",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-buffer-pool-size=64M",
    "--innodb-lock-wait-timeout=900",
)
"""Arguments of MariaDB: for a new database, and for one that is small and open to the owner of its folder alone."""

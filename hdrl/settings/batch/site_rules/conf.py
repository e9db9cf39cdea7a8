"""Description of a site: nodes, partitions, weights, limits; from ``slurm.conf`` or a descriptor of hdrl's own."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from hdrl.base.errors import PlatformError, ReadError, quoted, suggest
from hdrl.base.files import open_bytes, read_json, read_text
from hdrl.options.block import Block
from hdrl.options.reading import checked
from hdrl.settings.batch.site_rules.hostlist import MAX_NODES, node_names
from hdrl.settings.batch.site_rules.ignored import ignored_of_line, sets_something
from hdrl.settings.batch.site_rules.values import gres_gpus, memory_kb, minutes_s

SCHEDULER_KEYS = (
    *(
        "AccountingStorageEnforce",
        "AccountingStorageType",
        "SchedulerType",
        "SchedulerParameters",
        "SelectType",
        "SelectTypeParameters",
        "PriorityType",
        "PriorityFlags",
    ),
    *(
        "PriorityCalcPeriod",
        "PriorityDecayHalfLife",
        "PriorityFavorSmall",
        "PriorityMaxAge",
        "PriorityUsageResetPeriod",
    ),
    *("PriorityWeightAge", "PriorityWeightAssoc", "PriorityWeightFairshare", "PriorityWeightJobSize"),
    *("PriorityWeightPartition", "PriorityWeightQOS", "PriorityWeightTRES", "PreemptType", "PreemptMode"),
    *("PreemptExemptTime", "PreemptParameters", "KillWait", "OverTimeLimit", "EnforcePartLimits"),
    *("MaxArraySize", "MaxJobCount"),
    *("FairShareDampeningFactor", "RequeueExit", "JobRequeue", "DefMemPerCPU", "MaxMemPerCPU", "DefMemPerNode"),
)
"""Keys of ``slurm.conf`` that decide about schedules; all others stay out of what is written."""

_MOST_CORES = 2**20


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes that are alike."""

    names: str  # their names, a list as Slurm writes it
    count: int  # their number
    # resources of each; memory 0: unknown
    cores: int
    memory_mib: int = 0
    gpus: int = 0
    features: tuple[str, ...] = ()  # words that jobs may ask for
    weight: int = 1  # Slurm takes nodes of a low weight first


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: which nodes its jobs may use, and under which limits."""

    nodes: str = ""  # list of nodes; empty: all of them
    # limits of its jobs; ``None``: none
    max_time_s: float | None = None
    default_time_s: float | None = None
    tier: int = 1  # ``PriorityTier``
    priority: int = 1  # ``PriorityJobFactor``
    max_nodes: int | None = None  # most nodes of a job; ``None``: any number
    is_default: bool = False  # True if jobs that name none go there
    min_nodes: int = 0  # fewest nodes of a job
    is_exclusive: bool = False  # True if jobs get whole nodes (``OverSubscribe=EXCLUSIVE``)
    preempt_mode: str = ""  # ``PreemptMode``; empty: the site's
    grace_s: float = 0.0  # ``GraceTime``: how long a job may run on when another takes its nodes
    qos: str = ""  # ``QOS``: its limits hold for all jobs of the partition; empty: none


@dataclass(frozen=True, slots=True)
class Downtime:
    """Time in which nodes start no jobs."""

    # dates in ISO 8601 with a zone
    start: str
    end: str
    nodes: str = ""  # list of nodes; empty: all of them
    # ``"reservation"`` (jobs that would end within it do not start), ``"failure"`` (jobs are requeued) or ``"drain"``
    # (jobs end in peace)
    kind: str = "reservation"

    @property
    def span_s(self) -> tuple[float, float]:
        """Begin and end in seconds since 1970."""
        return _date_s(self.start), _date_s(self.end)


def _date_s(text: str) -> float:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"date {text!r} has no time zone, expected for instance 2026-01-01T00:00:00Z")
    return found.timestamp()


@dataclass(frozen=True, slots=True)
class SiteConf:
    """Description of a site."""

    name: str = ""
    nodes: tuple[Nodes, ...] = ()
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    scheduler: Mapping[str, str] = field(default_factory=dict)
    qos: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    accounts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    users: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    """Settings of users in accounts, by account and user."""
    downtimes: tuple[Downtime, ...] = ()
    notes: tuple[str, ...] = ()
    restart_s: float = 0.0
    """Additional run time of a requeued job after each restart, in seconds."""

    @property
    def counts_memory(self) -> bool:
        """True if memory is a resource that jobs take."""
        return "MEMORY" in self.scheduler.get("SelectTypeParameters", "").upper()

    def nodes_of(self, partition: str) -> frozenset[str]:
        """Return the names of the nodes of a partition."""
        found = self.partitions.get(partition)
        listed = found.nodes if found is not None and found.nodes else ",".join(one.names for one in self.nodes)
        return frozenset(node_names(listed))


def read_conf(path: str | Path) -> SiteConf:
    """Read ``slurm.conf``, or a descriptor (JSON).

    Raises
    ------
    ReadError
        If it is neither, or makes no sense.
    """
    path = Path(path)
    return _read_descriptor(path) if path.suffix.lower() == ".json" else _read_slurm_conf(path)


def read_qos(path: Path) -> dict[str, dict[str, str]]:
    """Read the output of ``sacctmgr show qos -P``: the settings, by name.

    Raises
    ------
    ReadError
        If it is no such table.
    """
    return _by_name(path, "Name", _sacctmgr_rows(path, "Name", "qos"), "expected each once")


@dataclass(frozen=True, slots=True)
class Associations:
    """Contents of ``sacctmgr show assoc -P``: settings of accounts, and of users in accounts."""

    accounts: Mapping[str, Mapping[str, str]]
    users: Mapping[str, Mapping[str, Mapping[str, str]]]
    n_of_partitions: int  # rows of a user in an account in one partition, which are left out

    def joined_to(self, conf: SiteConf) -> SiteConf:
        """Return a site with these accounts and users instead of its own."""
        note = f"no simulation follows associations of users with one partition: {self.n_of_partitions:,}"
        notes = (*conf.notes, note) if self.n_of_partitions else conf.notes
        return replace(conf, accounts=self.accounts, users=self.users, notes=notes)


def read_associations(path: Path) -> Associations:
    """Read the output of ``sacctmgr show assoc -P``.

    Users without any setting of their own are left out.

    Raises
    ------
    ReadError
        If it is no such table.
    """
    columns = "Account,ParentName,User,Partition,Share,GrpJobs,GrpTRES,GrpSubmit,MaxJobs,MaxTRES,MaxSubmit,MaxWall"
    what = f"assoc format={columns}"
    rows = _sacctmgr_rows(path, "Account", what)
    for _, row in rows:
        if _PARENT in row:
            row["ParentName"] = row.pop(_PARENT)
    expected = "expected one cluster ('sacctmgr show assoc where cluster=...') and columns User and Partition"
    accounts = _by_name(path, "Account", [one for one in rows if "User" not in one[1]], expected)
    users: dict[str, dict[str, dict[str, str]]] = {}
    n_of_partitions = 0
    for number, row in rows:
        if "User" not in row:
            continue
        account, user = row.pop("Account"), row.pop("User")
        if row.pop("Partition", ""):
            n_of_partitions += 1
            continue
        if account not in accounts:
            raise ReadError(
                path,
                f"has a user of account {quoted(account)}, but not this account, expected all rows that "
                "'sacctmgr show assoc' prints",
                line=number,
            )
        if user in users.setdefault(account, {}):
            raise ReadError(
                path, f"has user {quoted(user)} of account {quoted(account)} again, {expected}", line=number
            )
        users[account][user] = row
    found: dict[str, dict[str, dict[str, str]]] = {}
    for account, of_it in users.items():
        own = {user: row for user, row in of_it.items() if sets_something(row)}
        found |= {account: own} if own else {}
    return Associations(accounts, found, n_of_partitions)


_PARENT = "Par Name"
"""The title that sacctmgr prints over ParentName."""


def association_name(account: str, user: str) -> str:
    """Return the name of a user in an account in the columns of jobs."""
    return f"{account}/{user}"


def _by_name(
    path: Path, key: str, rows: Iterable[tuple[int, dict[str, str]]], expected: str
) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for number, row in rows:
        name = row.pop(key)
        if name in found:
            raise ReadError(path, f"has {key} {quoted(name)} again, {expected}", line=number)
        found[name] = row
    return found


def _sacctmgr_rows(path: Path, key: str, what: str) -> list[tuple[int, dict[str, str]]]:
    """Return the number of each row that has a key, and the cells that are set in it."""
    lines = [line for line in read_text(path).splitlines() if line.strip()]
    header = lines[0].split("|") if lines else []
    if key not in header:
        raise ReadError(path, f"has no column {key}, expected what 'sacctmgr show {what} -P' prints", line=1)
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("|")
        if len(cells) != len(header):
            raise ReadError(path, f"has {len(cells)} fields, expected {len(header)}", line=number)
        row = {name: text for name, text in zip(header, cells, strict=True) if name and text}
        if key in row:
            rows.append((number, row))
    return rows


class _Line:
    """One line of ``slurm.conf``: its keys in lower case."""

    def __init__(self, path: Path, number: int, text: str) -> None:
        self._path, self._number = path, number
        self.values: dict[str, str] = {}
        for found in re.finditer(r'([A-Za-z_]+)\s*\+?=\s*("[^"]*"|\S+)', text):
            self.values[found[1].lower()] = found[2].strip('"')
        self.key = next(iter(self.values), "")

    def error(self, problem: str) -> ReadError:
        return ReadError(self._path, problem, line=self._number)

    def integer(self, key: str, default: int, most: int) -> int:
        text = self.values.get(key)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) > most:
            raise self.error(f"{key} is {quoted(text)}, expected a whole number up to {most:,}")
        return int(text)

    def listed(self, key: str) -> list[str]:
        try:
            return node_names(self.values.get(key, ""))
        except ValueError as error:
            raise self.error(f"{key} {error}") from None

    def limit_s(self, key: str, default: float | None) -> float | None:
        text = self.values.get(key)
        if text is None:
            return default
        try:
            found = minutes_s(text)
        except ValueError:
            raise self.error(f"{key} is {quoted(text)}, expected minutes or days-hours:minutes:seconds") from None
        return float(found) if np.isfinite(found) else None


def _lines(path: Path) -> Iterator[_Line]:
    with open_bytes(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace")
        held, first = "", 0
        for number, raw in enumerate(text, start=1):
            line = re.sub(r"(?<!\\)#.*", "", raw.rstrip("\r\n"))
            first = first or number
            if line.rstrip().endswith("\\"):
                held += line.rstrip()[:-1] + " "
                continue
            whole, start = held + line, first
            held, first = "", 0
            if whole.strip():
                yield _Line(path, start, whole if "=" in whole else re.sub(r"^\s*(\S+)\s+", r"\1=", whole))


class _SlurmConf:
    """Contents of one ``slurm.conf``, line by line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = ""
        self._scheduler: dict[str, str] = {}
        self._nodes: list[Nodes] = []
        self._names: set[str] = set()
        self._ignored: dict[str, list[str]] = {}
        self._sets: dict[str, tuple[str, str]] = {}
        self._partitions: list[_Line] = []
        self._defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}}
        self._notes: list[str] = []
        self._included = {path}

    def add(self, line: _Line) -> None:
        """Take one line."""
        if line.key in self._defaults:
            self._add_nodes_or_partition(line)
        elif line.key == "nodeset":
            self._sets[line.values["nodeset"]] = (line.values.get("nodes", ""), line.values.get("feature", ""))
        elif line.key == "clustername":
            self._name = line.values[line.key]
        elif line.key == "include":
            self._include(line.values[line.key].replace("%c", self._name))
        elif line.key in _SCHEDULER:
            self._scheduler[_SCHEDULER[line.key]] = line.values[line.key]

    def _include(self, text: str) -> None:
        """Read an included file, if it lies beside this one or below; its folder on the cluster is not looked at."""
        path = self._path.parent / text.strip("/")
        path = path if path.is_file() else self._path.parent / Path(text).name
        if not path.is_file():
            self._notes.append(
                f"{self._path.name} includes {quoted(text)}, which was not read: put it beside this file, or pass it "
                "by --conf"
            )
        elif path not in self._included:
            self._included.add(path)
            for line in _lines(path):
                self.add(line)

    def _add_nodes_or_partition(self, line: _Line) -> None:
        defaults = self._defaults[line.key]
        if line.values[line.key].upper() == "DEFAULT":
            defaults |= {key: text for key, text in line.values.items() if key != line.key}
            return
        line.values = {**defaults, **line.values}
        if line.key == "partitionname":
            if line.values.get("nodes"):
                self._note_ignored(line, "partition")
                self._partitions.append(line)
            else:
                self._notes.append(f"partition {quoted(line.values[line.key])} has no nodes and is left out")
            return
        if line.values.get("state", "").upper() == "FUTURE":
            self._notes.append(f"nodes {quoted(line.values[line.key])} are FUTURE: the machine has none of them")
            return
        self._note_ignored(line, "nodes")
        self._nodes.append(_nodes(line))
        again = _add_names(self._names, self._nodes[-1])
        if again is not None:
            raise line.error(f"describes node {quoted(again)} twice")
        if len(self._names) > MAX_NODES:
            raise line.error(f"{len(self._names):,} nodes, more than {MAX_NODES:,}")

    def _note_ignored(self, line: _Line, kind: str) -> None:
        for setting in ignored_of_line(line.key, line.values):
            self._ignored.setdefault(f"{setting} of {kind}", []).append(line.values[line.key])

    def conf(self) -> SiteConf:
        """Return the contents of all lines.

        Raises
        ------
        ReadError
            If that is nothing.
        """
        sets = {
            name: nodes or ",".join(one.names for one in self._nodes if feature in one.features)
            for name, (nodes, feature) in self._sets.items()
        }
        partitions = {line.values["partitionname"]: _partition(line, sets) for line in self._partitions}
        if not self._nodes and not partitions and not self._scheduler and not self._notes:
            raise ReadError(
                self._path, "names no nodes, partitions or rules, expected slurm.conf or a descriptor (.json)"
            )
        ignored = [f"no simulation follows {what} {', '.join(names)}" for what, names in self._ignored.items()]
        return SiteConf(self._name, tuple(self._nodes), partitions, self._scheduler, notes=(*self._notes, *ignored))


def _add_names(known: set[str], nodes: Nodes) -> str | None:
    """Add the names of nodes to others; return the first one that is there already, ``None`` if each is new."""
    names = node_names(nodes.names)
    again = next((name for name in names if name in known), None)
    known.update(names)
    return again if again is not None or len(set(names)) == len(names) else names[0]


_SCHEDULER = {key.lower(): key for key in SCHEDULER_KEYS}


def _read_slurm_conf(path: Path) -> SiteConf:
    found = _SlurmConf(path)
    for line in _lines(path):
        found.add(line)
    return found.conf()


def _nodes(line: _Line) -> Nodes:
    names = line.listed(line.key)
    sockets = line.integer("socketsperboard", 0, _MOST_CORES) * line.integer("boards", 1, _MOST_CORES)
    sockets = sockets or line.integer("sockets", 1, _MOST_CORES)
    per_socket = line.integer("corespersocket", 1, _MOST_CORES) * line.integer("threadspercore", 1, _MOST_CORES)
    cores = line.integer("cpus", line.integer("procs", sockets * per_socket, _MOST_CORES), _MOST_CORES)
    if not names or not 1 <= cores <= _MOST_CORES:
        raise line.error(f"{quoted(line.values[line.key])} has {cores:,} CPUs, expected at least one node and one CPU")
    try:
        gpus = gres_gpus(line.values.get("gres", ""))
        memory_mib = memory_kb(line.values.get("realmemory", "0")) / 1024
    except ValueError as error:
        raise line.error(f"Gres or RealMemory: {error}") from None
    if not memory_mib < 2**40 or not (np.isnan(gpus) or gpus < _MOST_CORES):
        raise line.error("Gres or RealMemory is more than any node has")
    features = line.values.get("features", line.values.get("feature", ""))
    return Nodes(
        names=line.values[line.key],
        count=len(names),
        cores=cores,
        memory_mib=int(memory_mib),
        gpus=0 if np.isnan(gpus) else int(gpus),
        features=tuple(one for one in features.split(",") if one),
        weight=line.integer("weight", 1, 2**32),
    )


def _partition(line: _Line, sets: Mapping[str, str]) -> Partition:
    listed = line.values.get("nodes", "")
    parts = [sets.get(part, part) for part in re.split(r",(?![^\[]*\])", listed)]
    is_all = "ALL" in (part.upper() for part in parts)
    line.values["nodes"] = "" if is_all else ",".join(filter(None, parts))
    if listed and not is_all and not line.listed("nodes"):
        raise line.error(f"Nodes={listed[:40]} names no node, expected nodes, ALL or a NodeSet")
    most = line.values.get("maxnodes", "UNLIMITED")
    return Partition(
        nodes=line.values["nodes"],
        max_time_s=line.limit_s("maxtime", None),
        default_time_s=line.limit_s("defaulttime", None),
        tier=line.integer("prioritytier", line.integer("priority", 1, 65533), 65533),
        priority=line.integer("priorityjobfactor", line.integer("priority", 1, 65533), 65533),
        max_nodes=None if most.upper() in ("UNLIMITED", "INFINITE") else line.integer("maxnodes", 1, MAX_NODES),
        is_default=line.values.get("default", "NO").upper() == "YES",
        min_nodes=line.integer("minnodes", 0, MAX_NODES),
        is_exclusive=line.values.get("oversubscribe", line.values.get("shared", "NO")).upper() == "EXCLUSIVE",
        preempt_mode=line.values.get("preemptmode", ""),
        qos="" if line.values.get("qos", "").upper() == "N/A" else line.values.get("qos", ""),
        grace_s=float(line.integer("gracetime", 0, 10**9)),
    )


Text = Annotated[str, Field(max_length=100_000)]
Time = Annotated[float, Field(gt=0, le=1e12)]


class _NodesInFile(Block):
    """Nodes that are alike, in a descriptor."""

    names: Text
    cores: Annotated[int, Field(ge=1, le=_MOST_CORES)]
    memory_mib: Annotated[int, Field(ge=0, le=2**40)] = 0
    gpus: Annotated[int, Field(ge=0, le=_MOST_CORES)] = 0
    features: list[Text] = Field(default_factory=list)
    weight: Annotated[int, Field(ge=0, le=2**32)] = 1


class _PartitionInFile(Block):
    """A partition in a descriptor."""

    nodes: Text = ""
    max_time_s: Time | None = None
    default_time_s: Time | None = None
    tier: Annotated[int, Field(ge=0, le=65533)] = 1
    priority: Annotated[int, Field(ge=0, le=65533)] = 1
    max_nodes: Annotated[int, Field(ge=0, le=MAX_NODES)] | None = None
    is_default: bool = False
    min_nodes: Annotated[int, Field(ge=0, le=MAX_NODES)] = 0
    is_exclusive: bool = False
    preempt_mode: Text = ""
    grace_s: Annotated[float, Field(ge=0, le=1e12)] = 0.0
    qos: Text = ""


class _DowntimeInFile(Block):
    """A reservation, failure or drain in a descriptor."""

    start: Text
    end: Text
    nodes: Text = ""
    kind: Literal["reservation", "failure", "drain"] = "reservation"


class _SiteInFile(Block):
    """A descriptor."""

    name: Text = ""
    nodes: list[_NodesInFile] = Field(min_length=1)
    partitions: dict[str, _PartitionInFile] = Field(default_factory=dict)
    scheduler: dict[str, Text] = Field(default_factory=dict)
    qos: dict[str, dict[str, Text]] = Field(default_factory=dict)
    accounts: dict[str, dict[str, Text]] = Field(default_factory=dict)
    users: dict[str, dict[str, dict[str, Text]]] = Field(default_factory=dict)
    downtimes: list[_DowntimeInFile] = Field(default_factory=list)
    restart_s: Annotated[float, Field(ge=0, le=1e12)] = 0.0


def _read_descriptor(path: Path) -> SiteConf:
    found = checked(_SiteInFile, read_json(path), path)
    nodes = []
    for position, one in enumerate(found.nodes):
        try:
            count = len(node_names(one.names))
        except ValueError as error:
            raise ReadError(path, f"nodes[{position}].names {error}") from None
        if count == 0:
            raise ReadError(path, f"nodes[{position}].names names no node")
        nodes.append(Nodes(one.names, count, one.cores, one.memory_mib, one.gpus, tuple(one.features), one.weight))
    if sum(one.count for one in nodes) > MAX_NODES:
        raise ReadError(path, f"has more than {MAX_NODES:,} nodes")
    known: set[str] = set()
    for position, kind in enumerate(nodes):
        again = _add_names(known, kind)
        if again is not None:
            raise ReadError(path, f"nodes[{position}].names describes node {quoted(again)} twice")
    _check_names(path, found)
    partitions = {name: Partition(**one.model_dump()) for name, one in found.partitions.items()}
    return SiteConf(
        found.name,
        tuple(nodes),
        partitions,
        found.scheduler,
        found.qos,
        found.accounts,
        found.users,
        tuple(_downtimes(path, found)),
        restart_s=found.restart_s,
    )


def _check_names(path: Path, found: _SiteInFile) -> None:
    for name, partition in found.partitions.items():
        try:
            node_names(partition.nodes)
        except ValueError as error:
            raise ReadError(path, f"partitions.{name}.nodes {error}") from None
    for account in found.users:
        if account not in found.accounts:
            near = suggest(account, found.accounts)
            raise ReadError(path, f"users.{account}: the site has no such account; {near}")


def _downtimes(path: Path, found: _SiteInFile) -> Iterator[Downtime]:
    for position, entry in enumerate(found.downtimes):
        downtime = Downtime(**entry.model_dump())
        try:
            start_s, end_s = downtime.span_s
            node_names(entry.nodes)
        except ValueError as error:
            raise ReadError(path, f"downtimes[{position}]: {error}") from None
        if end_s <= start_s:
            raise ReadError(path, f"downtimes[{position}]: ends at {entry.end}, expected a date after {entry.start}")
        yield downtime


def descriptor(conf: SiteConf) -> dict[str, Any]:
    """Return the descriptor of a site, as `read_conf` reads it."""
    nodes = [asdict(one) for one in conf.nodes]
    for one in nodes:
        del one["count"]
    partitions = {name: asdict(one) for name, one in conf.partitions.items()}
    for row in partitions.values():
        if not row["qos"]:
            del row["qos"]
    return {
        "name": conf.name,
        "nodes": nodes,
        "partitions": partitions,
        "scheduler": dict(conf.scheduler),
        "qos": {name: dict(values) for name, values in conf.qos.items()},
        "accounts": {name: dict(values) for name, values in conf.accounts.items()},
        **({"users": {name: dict(of_it) for name, of_it in conf.users.items()}} if conf.users else {}),
        "downtimes": [asdict(one) for one in conf.downtimes],
        **({"restart_s": conf.restart_s} if conf.restart_s else {}),
    }


def joined(confs: Iterable[SiteConf]) -> SiteConf:
    """Return the joint contents of several files; the later ones add to the earlier.

    Raises
    ------
    PlatformError
        If two of them describe one node.
    """
    result = SiteConf()
    known: set[str] = set()
    for one in confs:
        for nodes in one.nodes:
            again = _add_names(known, nodes)
            if again is not None:
                raise PlatformError(f"two files describe node {quoted(again)}; is one of them included by the other?")
        result = replace(
            result,
            name=one.name or result.name,
            nodes=(*result.nodes, *one.nodes),
            partitions={**result.partitions, **one.partitions},
            scheduler={**result.scheduler, **one.scheduler},
            qos={**result.qos, **one.qos},
            accounts={**result.accounts, **one.accounts},
            users={**result.users, **one.users},
            downtimes=(*result.downtimes, *one.downtimes),
            notes=(*result.notes, *one.notes),
            restart_s=one.restart_s or result.restart_s,
        )
    return result


def check_partitions(conf: SiteConf) -> list[str]:
    """Return a sentence for each partition that names nodes that the site does not have."""
    known = frozenset(name for one in conf.nodes for name in node_names(one.names))
    notes = []
    for name, partition in conf.partitions.items():
        lacking = [one for one in node_names(partition.nodes) if one not in known] if known else []
        if lacking:
            notes.append(
                f"partition {name} names {len(lacking):,} nodes that no NodeName describes, such as "
                f"{quoted(lacking[0])} ({suggest(lacking[0], known)})"
            )
    return notes

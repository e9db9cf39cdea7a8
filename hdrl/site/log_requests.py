"""The requests of the jobs of a site, as the columns beside their log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.site_rules.conf import SiteConf, association_name
from hdrl.settings.batch.site_rules.hostlist import node_names
from hdrl.site.joining import JoinedJobs
from hdrl.site.records import Dump
from hdrl.site.submitline import parse_requests

NOT_THERE = "dependencies on jobs that the accounting does not have: they are fulfilled"
NO_SINGLETON = "dependencies of the kind singleton without an earlier job of that name: they are fulfilled"
UNKNOWN_GPUS = "jobs with GPUs that no node of their partition has: they get cores alone"
UNKNOWN_FEATURES = "jobs that ask for features that no node has, which they get nevertheless"


@dataclass(frozen=True, slots=True)
class LogRequests:
    """The columns of a log."""

    rows: list[dict[str, str]]  # cells by column of each job that asks for anything, see `site_rules.columns`
    left_out: Counter[str]  # numbers of requests that are not in them, by reason

    @property
    def n_following(self) -> int:
        """Number of jobs that are submitted a think time after the end of another one."""
        return sum("think_s" in cells for cells in self.rows)


def requests_of_log(
    dump: Dump,
    jobs: JoinedJobs,
    conf: SiteConf,
    numbers: NDArray[np.float64],
    first_s: float,
    accounts: Sequence[str],
    users: Sequence[str],
    *,
    by_dependencies: bool,
) -> LogRequests:
    """Return the requests of the jobs of a log to their site.

    Parameters
    ----------
    numbers
        Their numbers in the log, in the order of the records.
    first_s
        Date 0 of the log in seconds since 1970.
    accounts, users
        Names of accounts and users by their number in the records, as the log is to have them.
    by_dependencies
        True if jobs wait for others, for dates and throttles of arrays themselves; else the dates at which they could
        start stand for all of these.
    """
    return _RequestBuilder(dump, jobs, conf, numbers, first_s, accounts, users).build(by_dependencies=by_dependencies)


def _most_gpus(conf: SiteConf, partition: str) -> int:
    """Return the GPUs of the node of a partition that has most of them."""
    names = conf.nodes_of(partition)
    return max((one.gpus for one in conf.nodes if not names.isdisjoint(node_names(one.names))), default=0)


def _first_components(records: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the position of the first component of the het job of each job, -1 if no other component of it is left."""
    found = np.full(len(records), -1, dtype=np.int64)
    parts = np.flatnonzero(records["het"] >= 0)
    parts = parts[np.lexsort((records["component"][parts], records["het"][parts]))]
    _, first, counts = np.unique(records["het"][parts], return_index=True, return_counts=True)
    found[parts] = np.where(np.repeat(counts, counts) > 1, np.repeat(parts[first], counts), -1)
    return found


def _group_number(number: str) -> str:
    """Return the number of an array or a het job in the columns: the number of its first job."""
    return str(int(number) % 2**31)


class _RequestBuilder:
    """Makes the cells of all jobs."""

    def __init__(
        self,
        dump: Dump,
        jobs: JoinedJobs,
        conf: SiteConf,
        numbers: NDArray[np.float64],
        first_s: float,
        accounts: Sequence[str],
        users: Sequence[str],
    ) -> None:
        self._records = jobs.records
        self._numbers = [str(int(number)) for number in numbers.tolist()]
        self._conf = conf
        self._first_s = first_s
        self._accounts = accounts
        self._users = users
        self._texts = [parse_requests(text) for text in dump.names["requests"].texts()]
        self._features = {word for one in conf.nodes for word in one.features}
        self._has_gpus = any(one.gpus for one in conf.nodes)
        self._gpus = [_most_gpus(conf, name) for name in dump.names["partition"].texts()] if self._has_gpus else []
        self._left_out: Counter[str] = Counter()
        self._tasks: dict[int, list[tuple[int, str]]] = {}
        self._het = _first_components(jobs.records).tolist()

    def build(self, *, by_dependencies: bool) -> LogRequests:
        """Return the cells of all jobs."""
        records = self._records
        chosen = records["requests"] >= 0
        if self._conf.accounts:
            chosen |= records["account"] >= 0
        if self._has_gpus:
            chosen |= records["gpus"] > 0
        chosen |= np.array(self._het) >= 0
        if by_dependencies:
            chosen |= (records["task"] >= 0) | (records["after"] >= 0)
            self._note_tasks()
        rows = []
        of_lines = [self._of_line(requests) for requests in self._texts]
        known = {number for number, name in enumerate(self._accounts) if name in self._conf.accounts}
        names = ("requests", "gpus", "nodes", "partition", "account", "user")
        numbers, gpus, nodes, partitions, accounts, users = (records[name].tolist() for name in names)
        for position in np.flatnonzero(chosen).tolist():
            number = numbers[position]
            requests = self._texts[number] if number >= 0 else {}
            named, has_unknown = of_lines[number] if number >= 0 else ({}, False)
            if has_unknown:
                self._left_out[UNKNOWN_FEATURES] += 1
            cells = {"job": self._numbers[position], **named}
            if self._has_gpus and gpus[position] > 0:
                cells |= self._gpus_of(gpus[position], nodes[position], partitions[position])
            if accounts[position] in known:
                cells |= self._association(self._accounts[accounts[position]], users[position])
            cells |= self._het_group(position)
            if by_dependencies:
                cells |= self._waiting(records[position], requests, cells["job"])
            if len(cells) > 1:
                rows.append(cells)
        return LogRequests(rows, self._left_out)

    def _note_tasks(self) -> None:
        """Note the tasks of each array, and what the log calls them."""
        jobs, tasks, components = (self._records[name].tolist() for name in ("job", "task", "component"))
        for job, task, component, number in zip(jobs, tasks, components, self._numbers, strict=True):
            if component > 0:  # dependencies on a het job are on its first component
                continue
            self._tasks.setdefault(job, []).append((task, number))

    def _of_line(self, requests: dict[str, str]) -> tuple[dict[str, str], bool]:
        """Return the requests in a command line, and whether it names features that the site lacks."""
        cells: dict[str, str] = {name: requests[name] for name in ("nodes", "exclusive", "nice") if name in requests}
        if cells.get("nice") == "0":
            del cells["nice"]
        features = requests.get("features", "")
        is_known = not features or set(features.split(",")) <= self._features
        if features and is_known:
            cells["features"] = features
        partitions = [one for one in requests.get("partitions", "").split(",") if one in self._conf.partitions]
        if len(partitions) > 1:
            cells["partitions"] = ",".join(partitions)
        return cells, not is_known

    def _association(self, account: str, user: int) -> dict[str, str]:
        """Return the account of a job, and its user in this account where the site limits that one."""
        name = self._users[user] if user >= 0 else ""
        is_limited = name in self._conf.users.get(account, {})
        return {"account": account} | ({"association": association_name(account, name)} if is_limited else {})

    def _het_group(self, position: int) -> dict[str, str]:
        """Return the het job of a job, if it is a component."""
        first = self._het[position]
        return {} if first < 0 else {"het_group": _group_number(self._numbers[first])}

    def _gpus_of(self, n_gpus: float, n_nodes: float, partition: int) -> dict[str, str]:
        """Return the GPUs of a job on each of its nodes, if its partition has nodes with enough."""
        on_each = -(-int(n_gpus) // max(int(n_nodes), 1))
        if partition >= 0 and on_each > self._gpus[partition]:
            self._left_out[UNKNOWN_GPUS] += 1
            return {}
        return {"gpus": str(on_each)} | ({"nodes": str(int(n_nodes))} if n_nodes > 1 else {})

    def _waiting(self, record: np.void, requests: dict[str, str], number: str) -> dict[str, str]:
        """Return the conditions that a job waits for: dates, other jobs, the throttle of its array."""
        cells: dict[str, str] = {}
        if record["task"] >= 0 and "throttle" in requests:
            first = self._tasks[int(record["job"])][0][1]  # the number of the array itself may be secret
            cells |= {"array": _group_number(first), "array_limit": requests["throttle"]}
        if "hold" in requests or "begin" in requests:
            cells["begin_s"] = repr(float(record["eligible_s"] - self._first_s))
        text = requests.get("dependencies", "")
        if not text and record["after"] >= 0:  # field 17 of a log in SWF
            text = f"afterany:{int(record['after'])}"
        dependencies = ",".join(self._dependencies(record, text, number))
        if dependencies:
            cells["dependencies"] = dependencies
            if record["think_s"] >= 0:
                cells["think_s"] = repr(float(record["think_s"]))
        return cells

    def _dependencies(self, record: np.void, text: str, number: str) -> Iterator[str]:
        for part in filter(None, text.split(",")):
            if part == "singleton":
                earlier = self._earlier_of_name(record)
                if earlier is None:
                    self._left_out[NO_SINGLETON] += 1
                else:
                    yield f"singleton:{earlier}"
                continue
            kind, *others = part.split(":")
            # The other failed at the site, as this one ran; no simulation makes it fail.
            shown = "afterany" if kind == "afternotok" else kind
            for other in others:
                name, plus, minutes = other.partition("+")
                job, _, task = name.partition("_")
                wanted = int(task) if task else int(record["task"]) if kind == "aftercorr" else None
                found = [
                    one
                    for at, one in self._tasks.get(int(job), [])
                    if wanted is None or at == wanted or (at < 0 and kind == "aftercorr")
                ]
                if not found:
                    self._left_out[NOT_THERE] += 1
                yield from (f"{shown}:{one}{plus}{minutes}" for one in found if one != number)

    def _earlier_of_name(self, record: np.void) -> str | None:
        records = self._records
        same = (records["user"] == record["user"]) & (records["name"] == record["name"])
        same &= records["submit_s"] < record["submit_s"]
        positions = np.flatnonzero(same)
        return self._numbers[int(positions[np.argmax(records["submit_s"][positions])])] if len(positions) else None

"""The machine of a site: a platform file with its nodes, and which nodes are in which partitions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import SimulationError, WorkloadError, quoted, readable
from hdrl.base.files import read_json
from hdrl.batch import Platform, build_platform
from hdrl.settings.batch.site_rules.conf import Nodes, Partition, SiteConf
from hdrl.settings.batch.site_rules.hostlist import MAX_NODES, node_names
from hdrl.settings.batch.site_rules.machine import platform_of
from hdrl.settings.batch.site_rules.rules import rules_of
from hdrl.settings.batch.site_rules.simulator import check_rules
from hdrl.site.joining import JoinedJobs
from hdrl.site.records import Dump


def n_cores(conf: SiteConf) -> int:
    """Return the cores of all nodes."""
    return sum(one.count * one.cores for one in conf.nodes)


def peak_cores(start_s: NDArray[np.float64], run_s: NDArray[np.float64], cores: NDArray[np.int64]) -> int:
    """Return the most cores that jobs had at one time.

    Parameters
    ----------
    start_s, run_s, cores
        Start, run time and number of cores of each job, shape ``(n_jobs,)``.
    """
    if len(start_s) == 0:
        return 0
    end_s = start_s + run_s
    starts, ends = np.argsort(start_s, kind="stable"), np.argsort(end_s, kind="stable")
    freed = np.append(0, np.cumsum(cores[ends]))
    # What ends at the date of a start frees its cores first.
    n_ended = np.searchsorted(end_s[ends], start_s[starts], side="right")
    return int(np.max(np.cumsum(cores[starts]) - freed[n_ended]))


def completed(conf: SiteConf, dump: Dump, jobs: JoinedJobs) -> SiteConf:
    """Return the site with nodes, if it does not say them: those that the dump describes or names, else one.

    Raises
    ------
    WorkloadError
        If there is no job to see a machine in.
    """
    if conf.nodes:
        return conf
    if dump.nodes:
        nodes = tuple(Nodes(name, 1, max(cores, 1), memory, gpus) for name, cores, memory, gpus, _ in dump.nodes)
        return replace(conf, nodes=nodes)
    records = jobs.records
    peak = peak_cores(records["start_s"], records["run_s"], records["cores"])
    if peak == 0:
        raise WorkloadError("the dump holds no job that ran, which would show the machine; name slurm.conf by --conf")
    said = None if dump.takes_whole_nodes else _header_size(dump)
    named = _named_nodes(dump, jobs)
    if named and sum(named.values()) >= peak:
        grouped = [
            Nodes(",".join(names), len(names), cores)
            for cores, names in ((cores, [name for name, _ in group]) for cores, group in _by_cores(named))
        ]
        note = (
            f"no slurm.conf: {len(named):,} nodes as jobs name them, each with the most cores that one of its jobs had "
            "there"
        )
        return replace(conf, nodes=tuple(grouped), notes=(*conf.notes, note))
    if said:
        n_nodes, cores = said
        note = f"no description of nodes: {n_nodes:,} nodes of {cores:,} cores, as the header of the log says"
        return replace(conf, nodes=(Nodes(f"node[1-{n_nodes}]", n_nodes, cores),), notes=(*conf.notes, note))
    note = f"no description of nodes: one machine of {peak:,} cores, the most that jobs had at one time"
    return replace(conf, nodes=(Nodes("machine", 1, peak),), notes=(*conf.notes, note))


def _header_size(dump: Dump) -> tuple[int, int] | None:
    """Return nodes and cores of each that the header of a log says."""
    numbers = {}
    for key in ("MaxProcs", "MaxNodes"):
        word = dump.header.get(key, "").split()[:1]
        if word and word[0].isascii() and word[0].isdigit() and len(word[0]) < 10:
            numbers[key] = int(word[0])
    cores, nodes = numbers.get("MaxProcs", 0), numbers.get("MaxNodes", 0)
    if cores < 1:
        return None
    if 1 <= nodes <= MAX_NODES and cores % nodes == 0:
        return nodes, cores // nodes
    return 1, cores


def _named_nodes(dump: Dump, jobs: JoinedJobs) -> dict[str, int]:
    """Return the nodes that jobs name, each with the most cores that one job had there."""
    records = jobs.records
    found: Counter[str] = Counter()
    texts = dump.names["node_list"].texts()
    pairs, _ = _unique_pairs(records["node_list"], records["cores"])
    for number, cores in pairs:
        if number < 0:
            continue
        names = _nodes_in(texts[number])
        for name in names:
            found[name] = max(found[name], -(-cores // len(names)))
        if len(found) > MAX_NODES:
            return {}
    return dict(sorted(found.items()))


def _unique_pairs(first: NDArray[Any], second: NDArray[Any]) -> tuple[list[tuple[int, int]], None]:
    pairs = np.unique(np.stack([first.astype(np.int64), second.astype(np.int64)]), axis=1)
    return [(int(one), int(other)) for one, other in pairs.T], None


def _by_cores(named: dict[str, int]) -> Any:
    ordered = sorted(named.items(), key=lambda pair: (pair[1], pair[0]))
    return groupby(ordered, key=lambda pair: pair[1])


def partitions_of(conf: SiteConf, dump: Dump, jobs: JoinedJobs) -> SiteConf:
    """Return the site with the partitions that jobs name, if it describes none."""
    if conf.partitions:
        return conf
    texts = dump.names["partition"].texts()
    used = np.unique(jobs.records["partition"])
    found = {texts[number]: Partition() for number in used.tolist() if number >= 0}
    return replace(conf, partitions=found)


def unknown_names(conf: SiteConf, dump: Dump, jobs: JoinedJobs) -> list[str]:
    """Return a sentence each on jobs whose partition, and on jobs with a node, that the site's description lacks.

    Raises
    ------
    WorkloadError
        If the description has the partition or a node of no job: it is another site's.
    """
    known_nodes = frozenset(name for one in conf.nodes for name in node_names(one.names))
    kinds = (
        ("partition", "name a partition", frozenset(conf.partitions), lambda text: text.split(",")),
        ("node_list", "ran on nodes", known_nodes, _nodes_in),
    )
    sentences, strangers = [], []
    names_one, is_known = np.zeros(jobs.n_jobs, dtype=bool), np.zeros(jobs.n_jobs, dtype=bool)
    for column, verb, known, names_in in kinds:
        if not known:
            continue
        # The last entry is for jobs that name none, whose number is -1. Lists are long and many, so only counts stay.
        n_names, n_lacking, examples = [], [], []
        for text in (*dump.names[column].texts(), ""):
            names = names_in(text) if text else []
            lacking = [name for name in names if name not in known]
            n_names.append(len(names))
            n_lacking.append(len(lacking))
            examples.append(lacking[: _MOST_SHOWN + 1])
        numbers = jobs.records[column]
        named, lacked = np.array(n_names)[numbers], np.array(n_lacking)[numbers]
        names_one |= named > 0
        is_known |= named > lacked
        n_jobs = int(np.count_nonzero(lacked))
        if n_jobs:
            used = np.unique(numbers[lacked > 0]).tolist()
            some = list(dict.fromkeys(name for number in used for name in examples[number]))
            shown = ", ".join(map(quoted, some[:_MOST_SHOWN])) + (", ..." if len(some) > _MOST_SHOWN else "")
            sentences.append(
                f"{n_jobs:,} of {jobs.n_jobs:,} jobs {verb} that the description of the site lacks: {shown}"
            )
            strangers.append(shown)
    if np.any(names_one) and not np.any(is_known):
        has = ", ".join([*conf.partitions, *(one.names for one in conf.nodes)][:_MOST_SHOWN])
        raise WorkloadError(
            f"--conf describes another site: its partitions and nodes are {readable(has)}, but the jobs name "
            f"{' and '.join(strangers)}; pass the slurm.conf of the cluster in the dump"
        )
    return sentences


_MOST_SHOWN = 5


def _nodes_in(text: str) -> list[str]:
    """Return the nodes in a list of an accounting row; none in what is no list, such as ``None assigned``."""
    try:
        return [] if " " in text else node_names(text)
    except ValueError:
        return []


def ruled(platform: Platform, conf: SiteConf) -> tuple[Platform, str]:
    """Return the machine with the rules of its site, and why it has none if they cannot be simulated.

    Parameters
    ----------
    platform
        The machine, whose nodes are those of the site.
    """
    rules = rules_of(conf)
    try:
        check_rules(rules)
    except SimulationError as error:
        return platform, f"the rules of the site are left out of simulations: {error}"
    return replace(platform, site=rules), ""


def machine_of(conf: SiteConf, name: str, *, has_rules: bool) -> Platform:
    """Return the machine of a site that was imported."""
    platform = build_platform(platform_of(conf), name=name)
    return replace(platform, site=rules_of(conf)) if has_rules else platform


def keeps_rules(platform_file: Path) -> bool:
    """Tell whether the platform file of an imported site is there and names the rules of the site.

    Raises
    ------
    ReadError
        If it cannot be read.
    """
    description = read_json(platform_file) if platform_file.is_file() else None
    return isinstance(description, dict) and description.get("site_rules") is not None


def scaled(conf: SiteConf, share: float) -> SiteConf:
    """Return a site with another number of nodes: each kind of nodes in each partition grows or shrinks alike.

    Parameters
    ----------
    share
        Of the number of nodes; at least one node of each kind stays.
    """
    lists = {name: one.nodes for name, one in conf.partitions.items()}
    lists |= {f"\0{one.nodes}": one.nodes for one in conf.downtimes}
    members = {name: frozenset(node_names(listed)) for name, listed in lists.items() if listed}
    chosen: dict[str, list[str]] = {name: [] for name in members}
    nodes = []
    for one in conf.nodes:
        kept: list[str] = []
        for positions, group in groupby(
            node_names(one.names), key=lambda node: tuple(name for name, of_it in members.items() if node in of_it)
        ):
            names = list(group)
            count = max(1, round(len(names) * share))
            names = [*names[:count], *(f"{names[-1]}x{extra}" for extra in range(1, count - len(names) + 1))]
            kept += names
            for name in positions:
                chosen[name] += names
        nodes.append(replace(one, names=",".join(kept), count=len(kept)))
    partitions = {
        name: replace(one, nodes=",".join(chosen[name])) if one.nodes else one for name, one in conf.partitions.items()
    }
    downtimes = [replace(one, nodes=",".join(chosen[f"\0{one.nodes}"])) if one.nodes else one for one in conf.downtimes]
    return replace(conf, nodes=tuple(nodes), partitions=partitions, downtimes=tuple(downtimes))

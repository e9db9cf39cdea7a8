"""From accounting data to the folder of a site: machine, workload, and what was read, joined and left out."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.base.arguments import convert_paths, paths_of
from hdrl.base.errors import OptionsError, OutputError, UnknownName, WorkloadError
from hdrl.base.files import write_json
from hdrl.base.hashing import sha256_of_file
from hdrl.batch import build_platform, fits, workload_from_swf, write_swf
from hdrl.settings.batch.site_rules.columns import write_columns
from hdrl.settings.batch.site_rules.conf import (
    SiteConf,
    check_partitions,
    descriptor,
    joined,
    read_associations,
    read_conf,
    read_qos,
)
from hdrl.settings.batch.site_rules.ignored import ignored_settings, limits_not_enforced
from hdrl.settings.batch.site_rules.machine import platform_of
from hdrl.settings.batch.site_rules.rules import ignored_parameters
from hdrl.site.downtimes import Downtimes, read_downtimes
from hdrl.site.folder import COLUMNS, LOG, NAMES, OPTIONS, PAGE, PLATFORM, REPORT, SITE, TEXT
from hdrl.site.found import SiteImport
from hdrl.site.gpufiles import FOLDER, has_gpus, write_gpu_files
from hdrl.site.joining import JoinedJobs, jobs_of, join_components
from hdrl.site.log import hashed, log_of, read_key
from hdrl.site.machine import completed, n_cores, partitions_of, peak_cores, ruled, unknown_names
from hdrl.site.page import page_of, text_of, write_forms
from hdrl.site.readers import Choices, read_dump
from hdrl.site.records import NAME_COLUMNS, SIMILAR_COLUMNS, AttemptState, Dump, Names
from hdrl.site.replay import DEFAULT_JOBS, Replays, replay
from hdrl.site.report import report_of
from hdrl.site.values import Clock, find_zone

TOO_WIDE = "more cores (or memory, or other nodes) than the machine or their partition has"


@dataclass(frozen=True, slots=True)
class ImportChoices:
    """Choices for the import of accounting data as a site.

    Attributes
    ----------
    confs
        Files that describe the site: ``slurm.conf``, or a descriptor (JSON).
    qos
        Output of ``sacctmgr show qos -P``.
    form
        Format of the dumps, ``"auto"``: by their first lines.
    mapping
        File with the meaning of the columns of a table in CSV.
    nodes_field
        Field of a log in SWF that holds the number of nodes.
    cluster
        Name of the cluster to import, where the accounting covers several.
    zone
        Time zone of dates that say none; ``None``: UTC.
    key
        File with the key that names are hashed with; ``None``: names stay.
    n_replayed
        Number of the last jobs that are replayed; ``None``: all; 0: none.
    accounts
        Output of ``sacctmgr show assoc -P``.
    downtimes
        Maintenance, failures and drains of nodes: output of ``scontrol show res``, or a table in CSV.
    by_dependencies
        True if jobs wait for what they waited for, instead of being submitted when they could start.
    similar
        Columns of `records.SIMILAR_COLUMNS` in which jobs are equal, up to numbers, that predictions by name take to be
        similar; none: jobs with equal names.
    """

    confs: tuple[Path, ...] = ()
    qos: Path | None = None
    form: str = "auto"
    mapping: Path | None = None
    nodes_field: int | None = None
    cluster: str | None = None
    zone: str | None = None
    key: Path | None = None
    n_replayed: int | None = DEFAULT_JOBS
    accounts: Path | None = None
    downtimes: Path | None = None
    by_dependencies: bool = False
    similar: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        convert_paths(self, ("qos", "mapping", "key", "accounts", "downtimes"), ("confs",))


def import_site(
    dumps: str | Path | Sequence[str | Path],
    out: str | Path,
    choices: ImportChoices | None = None,
    *,
    force: bool = False,
    progress: Callable[[str], None] | None = None,
) -> SiteImport:
    """Make the folder of a site from accounting data; it appears whole or not at all.

    Parameters
    ----------
    progress
        Called with what is done next.

    Raises
    ------
    HdrlError
        If a file cannot be read, no job is left, or the folder cannot be written.
    """
    out = Path(out)
    choices = choices or ImportChoices()
    progress = progress or _ignore_message
    _check_out(out, force=force)
    found = read_site(dumps, choices, progress)
    progress("writing")
    _write(found, out, force=force)
    return found


def _check_left(jobs: JoinedJobs, dump: Dump, path: Path) -> None:
    if jobs.n_jobs == 0:
        shown = ", ".join(f"{count:,} {reason}" for reason, count in (dump.skipped + jobs.left_out).items())
        unread = "".join(f"; {note}" for note in dump.notes if "unreadable" in note or "cannot be read" in note)
        raise WorkloadError(f"{path}: no job is left of {dump.n_rows:,} rows; left out: {shown}{unread}")


def _ignore_message(text: str) -> None:
    del text


def read_site(
    dumps: str | Path | Sequence[str | Path], choices: ImportChoices, progress: Callable[[str], None]
) -> SiteImport:
    """Read accounting data, and replay the end of it.

    Raises
    ------
    OptionsError
        If there is no dump.
    WorkloadError
        If no job is left.
    HdrlError
        If a file cannot be read.
    """
    if not (paths := paths_of(dumps)):
        raise OptionsError("no dump given, expected at least one file of accounting data")
    zone = find_zone(choices.zone)
    key = None if choices.key is None else read_key(choices.key)
    conf = joined(map(read_conf, choices.confs))
    if choices.qos is not None:
        conf = replace(conf, qos=read_qos(choices.qos))
    clock = Clock(zone)
    if choices.accounts is not None:
        conf = _under_secret_names(read_associations(choices.accounts).joined_to(conf), key)
    downtimes = None if choices.downtimes is None else read_downtimes(choices.downtimes, clock)
    has_rules = bool(conf.partitions)
    reading = Choices(clock, choices.mapping, choices.nodes_field, "submit_line" in choices.similar)
    parts = []
    for path in paths:
        progress(f"reading {path.name}")
        parts.append(read_dump(path, reading, choices.form))
    dump = together(parts)
    choose_cluster(dump, choices.cluster)
    _check_similar(dump, choices.similar)
    _take_whole_nodes(dump, conf)
    progress("joining")
    jobs = jobs_of(dump, keeps_components=has_rules)
    _check_left(jobs, dump, paths[0])
    conf = _with_downtimes(conf, downtimes, jobs, clock)
    cautions = unknown_names(conf, dump, jobs)
    conf = partitions_of(completed(conf, dump, jobs), dump, jobs)
    name = conf.name or paths[0].name.partition(".")[0]
    platform = build_platform(platform_of(conf), name=name)
    platform, why_none = ruled(platform, conf) if has_rules else (platform, "")
    has_rules = platform.site is not None
    if not has_rules:
        join_components(jobs)
    _leave_out(jobs, jobs.records["cores"] <= n_cores(conf), conf)
    make_log = functools.partial(
        log_of,
        *(dump, jobs, conf, name, choices.zone or "UTC", key),
        similar=choices.similar,
        by_dependencies=choices.by_dependencies,
    )
    log = make_log(has_rules=has_rules)
    if conf.counts_memory or has_rules:
        can_run = fits(workload_from_swf(log.log, platform, bandwidth="none"), platform)
        if not np.all(can_run):
            _leave_out(jobs, can_run, conf)
            log = make_log(has_rules=has_rules)
    if choices.n_replayed == 0:
        replays = Replays((), 0, 0, 0, log.log.n_rows)
    else:
        replays = replay(
            log.log,
            platform,
            n_jobs=choices.n_replayed,
            n_attempts=jobs.n_attempts,
            partitions=log.names["partition"],
            first_s=log.first_s,
            progress=progress,
        )
    files = [(path.name, sha256_of_file(path)) for path in paths]
    found = SiteImport(files, dump, jobs, conf, log, platform, replays, choices.zone or "UTC")
    found.is_anonymous, found.similar = key is not None, choices.similar
    found.cautions = cautions
    found.notes = [*cautions, *([why_none] if why_none else []), *_notes(found, clock, choices)]
    return found


def _with_downtimes(conf: SiteConf, downtimes: Downtimes | None, jobs: JoinedJobs, clock: Clock) -> SiteConf:
    """Return a site with its downtimes, repeated over the time of the jobs."""
    if downtimes is None:
        return conf
    submit_s, end_s = jobs.records["submit_s"], jobs.records["start_s"] + jobs.records["run_s"]
    return downtimes.joined_to(conf, float(np.nanmin(submit_s)), float(np.nanmax(end_s)), clock)


def _check_similar(dump: Dump, similar: Sequence[str]) -> None:
    """Check that the accounting has some columns."""
    for column in similar:
        if column not in SIMILAR_COLUMNS:
            raise UnknownName("column of similar jobs", column, SIMILAR_COLUMNS)
        if not dump.names[column]:
            raise OptionsError(f"--similar {column}: no job in the dump has this column; export it, or leave it out")


def _under_secret_names(conf: SiteConf, key: bytes | None) -> SiteConf:
    """Return a site with accounts and users under the names that the log has for them."""
    if key is None:
        return conf
    accounts = {}
    for name, row in conf.accounts.items():
        parent = {"ParentName": hashed(key, "account", row["ParentName"])} if "ParentName" in row else {}
        accounts[hashed(key, "account", name)] = {**row, **parent}
    users = {
        hashed(key, "account", account): {hashed(key, "user", user): row for user, row in rows.items()}
        for account, rows in conf.users.items()
    }
    return replace(conf, accounts=accounts, users=users)


OTHER_CLUSTERS = "rows of other clusters"
LISTED_LATER = "waiting tasks of arrays that a later export lists"


def choose_cluster(dump: Dump, cluster: str | None) -> None:
    """Keep the attempts of one cluster; several at once are no machine."""
    names = dump.names["cluster"].texts()
    if cluster is None:
        if len(names) > 1:
            raise OptionsError(
                f"the accounting covers {len(names):,} clusters; choose one by --cluster: {', '.join(names[:8])}"
            )
        return
    if cluster not in names:
        raise UnknownName("cluster in the accounting", cluster, names)
    is_there = dump.records["cluster"] == names.index(cluster)
    dump.skipped[OTHER_CLUSTERS] += int(np.count_nonzero(~is_there))
    dump.records = dump.records[is_there]


def _take_whole_nodes(dump: Dump, conf: SiteConf) -> None:
    """Give each job with a number of nodes all their cores: as many as most nodes have, else one a node."""
    if not dump.takes_whole_nodes:
        return
    sizes: Counter[int] = Counter()
    for one in conf.nodes:
        sizes[one.cores] += one.count
    cores = sizes.most_common(1)[0][0] if sizes else 1
    records = dump.records
    is_known = records["nodes"] > 0
    for column in ("cores", "requested_cores"):
        records[column][is_known] = records["nodes"][is_known] * cores
    if not sizes:
        dump.notes.append("no description of nodes: each core of the machine represents a whole node")
    elif len(sizes) > 1:
        dump.notes.append(f"nodes differ: each node of a job counts {cores:,} cores, as most nodes have")


def _leave_out(jobs: JoinedJobs, can_run: Any, conf: SiteConf) -> None:
    het = jobs.records["het"]
    can_run = can_run & ~np.isin(het, het[~can_run & (het >= 0)])
    n_wide = int(np.count_nonzero(~can_run))
    if n_wide == 0:
        return
    if n_wide == jobs.n_jobs:
        least = int(jobs.records["cores"].min())
        raise WorkloadError(
            f"no job fits on the {n_cores(conf):,} cores of the machine, the smallest requests {least:,}: "
            "is this the slurm.conf of the dump?"
        )
    jobs.left_out[TOO_WIDE] += n_wide
    jobs.records, jobs.n_attempts = jobs.records[can_run], jobs.n_attempts[can_run]


def together(parts: Sequence[Dump]) -> Dump:
    """Return several dumps as one; names get the same numbers in all of them."""
    if len(parts) == 1:
        return parts[0]
    names = {column: Names() for column in NAME_COLUMNS}
    for part in parts:
        for column in NAME_COLUMNS:
            texts = part.names[column].texts()
            numbers = np.array([*(names[column][text] for text in texts), -1], dtype=np.int32)
            part.records[column] = numbers[part.records[column]]
    _number_apart(parts)
    _leave_out_listed_later(parts)
    return Dump(
        ", ".join(dict.fromkeys(part.form for part in parts)),
        np.concatenate([part.records for part in parts]),
        names,
        sum(part.n_rows for part in parts),
        sum((part.skipped for part in parts), Counter()),
        list(dict.fromkeys(note for part in parts for note in part.notes)),
        [node for part in parts for node in part.nodes],
        parts[0].header,
        any(part.takes_whole_nodes for part in parts),
    )


def _number_apart(parts: Sequence[Dump]) -> None:
    """Raise the numbers of jobs in logs in SWF that begin anew: each log counts its jobs from 1."""
    jobs, submit_s = np.zeros(0, dtype=np.int64), np.zeros(0)
    for part in parts:
        if part.form != "swf":
            continue
        records = part.records
        _, ours, theirs = np.intersect1d(records["job"], jobs, return_indices=True)
        if np.any(records["submit_s"][ours] != submit_s[theirs]):
            offset = int(jobs.max())
            records["job"] += offset
            records["after"][records["after"] >= 0] += offset
            part.notes.append(f"jobs of a log that uses the numbers of an earlier one have {offset:,} added to theirs")
        jobs, submit_s = np.append(jobs, records["job"]), np.append(submit_s, records["submit_s"])


def _leave_out_listed_later(parts: Sequence[Dump]) -> None:
    """Leave out ranges of waiting tasks of arrays that a later export lists one by one, or as a shorter range."""
    later = np.zeros(0, dtype=np.int64)
    latest_s = [
        float(np.max(part.records["submit_s"], initial=0, where=part.records["submit_s"] > 0)) for part in parts
    ]
    for position in np.argsort(latest_s, kind="stable")[::-1].tolist():
        part = parts[position]
        records = part.records
        ids = records["job"] * 1024 + records["cluster"]
        is_listed = (records["task"] < 0) & (records["state"] == AttemptState.PENDING)
        is_listed[is_listed] = np.isin(ids[is_listed], later)
        if np.any(is_listed):
            part.skipped[LISTED_LATER] += int(np.count_nonzero(is_listed))
            part.records = records[~is_listed]
        later = np.union1d(later, ids[(records["task"] >= 0) | (records["n_tasks"] > 1)])


def _many(n: int, what: str) -> str:
    """Return a number and a noun, in the plural unless it is one."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def _notes(found: SiteImport, clock: Clock, choices: ImportChoices) -> list[str]:
    """Return warnings of all that could mislead a reader, the most important first."""
    conf = found.conf
    notes = [*_notes_on_machine(found), *_notes_on_dates(clock, choices)]
    if found.log.n_without_limit:
        jobs = _many(found.log.n_without_limit, "job")
        notes.append(f"{jobs} had no limit: hdrl plans a year for each, as Slurm does")
    if found.log.n_without_request:
        jobs = _many(found.log.n_without_request, "job")
        notes.append(f"{jobs} have no requested time: hdrl takes the run time, which no scheduler has")
    if found.jobs.lost_core_s > 0:
        hours = f"{found.jobs.lost_core_s / 3600:,.2f} core hours"
        notes.append(f"attempts before a requeue used {hours}, which simulations leave out")
    notes.append("accounting holds no power: 10 W a core is assumed, so energies are not those of the site")
    return [*notes, *found.jobs.notes, *found.log.notes, *found.dump.notes, *conf.notes, *check_partitions(conf)]


def _notes_on_machine(found: SiteImport) -> Iterator[str]:
    """Yield a note on each property of the machine that simulations leave out."""
    records, conf = found.jobs.records, found.conf
    if len(conf.partitions) > 1 and found.platform.site is None:
        yield "partitions are not enforced in simulations: any job may start on any node"
    if found.platform.site is not None:
        ignored = ignored_parameters(conf.scheduler)
        if ignored:
            yield f"SchedulerParameters that no simulation follows: {', '.join(ignored)}"
        partition_qos = {name: one.qos for name, one in conf.partitions.items() if one.qos}
        for setting in ignored_settings(conf.scheduler, conf.qos, conf.accounts, conf.users, partition_qos):
            yield f"no simulation follows {setting}"
        of_users = (row for rows in conf.users.values() for row in rows.values())
        unenforced = limits_not_enforced(conf.scheduler, (*conf.qos.values(), *conf.accounts.values(), *of_users))
        if unenforced is not None:
            yield unenforced
    if found.log.requests is not None:
        for reason, n_jobs in found.log.requests.left_out.items():
            yield f"{n_jobs:,} {reason}"
    n_gpu_jobs = int(np.count_nonzero(records["gpus"] > 0))
    if n_gpu_jobs and found.platform.site is None:
        where = f"; the folder {FOLDER} has them for the setting of GPU clusters" if has_gpus(conf, found.jobs) else ""
        yield f"{_many(n_gpu_jobs, 'job')} took GPUs, which are not enforced in simulations of batch jobs{where}"
    yield from _notes_on_waiting(found)
    peak = peak_cores(records["start_s"], records["run_s"], records["cores"])
    if peak > n_cores(conf):
        yield (
            f"jobs had up to {peak:,} cores at one time, the machine has {n_cores(conf):,}: another slurm.conf, or "
            "oversubscribed cores"
        )


def _notes_on_waiting(found: SiteImport) -> Iterator[str]:
    """Yield notes on the treatment of jobs that waited for others in simulations."""
    requests = found.log.requests
    n_after = int(np.count_nonzero(found.jobs.records["after"] >= 0))
    jobs = f"{_many(n_after, 'job')} waited for another"
    if n_after and found.log.log.header.get("Note", "").startswith("Submission dates are the dates from"):
        how = "--replay-dependencies simulates" if requests is not None else "--conf and --replay-dependencies simulate"
        yield (
            f"{jobs}: fields 17 and 18 of the log say so; simulations take the date from which it could start at the "
            f"site instead ({how} the wait)"
        )
    elif n_after and requests is None:
        yield (
            f"{jobs}, which simulations without the rules of a site ignore (--conf names slurm.conf; --set "
            "workload.think_times=true follows fields 17 and 18 of the log)"
        )
    if requests is not None and requests.n_following:
        following = _many(requests.n_following, "job")
        yield (
            f"simulations submit {following} a think time after the end of another one (fields 17 and 18); waits count "
            "from there"
        )


def _notes_on_dates(clock: Clock, choices: ImportChoices) -> Iterator[str]:
    if clock.n_local and choices.zone is None:
        yield "dates without a zone count as UTC; --zone names the zone of the site"
    if clock.n_ambiguous:
        dates = _many(clock.n_ambiguous, "date")
        yield (
            f"{dates} in an hour that clocks repeat or skip: the earlier one counts, unless another date of the job is "
            "between"
        )


def _check_out(out: Path, *, force: bool) -> None:
    if not out.exists():
        if not out.parent.is_dir():
            raise OutputError(f"{out}: its folder {out.parent} does not exist")
        return
    if not force:
        raise OutputError(f"{out}: exists already, expected the name of a new folder (--force replaces an import)")
    if not (out / REPORT).is_file() or out.is_symlink():
        raise OutputError(f"{out}: is not a folder that 'hdrl site import' made, so --force does not replace it")


def _write(found: SiteImport, out: Path, *, force: bool) -> None:
    """Write the folder beside its destination, then move it there."""
    try:
        folder = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    except OSError as error:
        raise OutputError(f"{out}: cannot be written ({error.strerror})") from None
    try:
        _write_files(found, folder)
        umask = os.umask(0)
        os.umask(umask)
        folder.chmod(0o777 & ~umask)
        if force and out.exists():
            old = folder.with_name(f"{folder.name}.old")
            out.rename(old)
            folder.rename(out)
            shutil.rmtree(old)
        else:
            folder.rename(out)
    except OSError as error:
        raise OutputError(f"{out}: cannot be written ({error.strerror or error})") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_files(found: SiteImport, folder: Path) -> None:
    rules = {} if found.platform.site is None else {"site_rules": SITE}
    write_json(folder / PLATFORM, rules | platform_of(found.conf))
    write_swf(found.log.log, folder / LOG)
    if found.log.requests is not None and found.log.requests.rows:
        write_columns(folder / COLUMNS, found.log.requests.rows)
    write_json(folder / SITE, descriptor(found.conf))
    write_json(folder / NAMES, found.log.names)
    options = {
        "seed": 1,
        "platform_file_path": PLATFORM,
        "workload_file_path": LOG,
        "nb_jobs": found.jobs.n_jobs,
        "workload": {"bandwidth": "none"},
        "pybatsim": {"agent": {"type": "CLASSIC", "policy_pair": "fcfs+easy"}, "env": {"objective": "makespan"}},
    }
    write_json(folder / OPTIONS, options)
    if has_gpus(found.conf, found.jobs):
        write_gpu_files(folder, found)
    report = report_of(found)
    found.notes.extend(write_forms(report, folder, (REPORT, TEXT, PAGE), text_of, page_of))

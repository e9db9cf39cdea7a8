"""The compiled simulator of sites against the plain one, on small worlds drawn at random."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from hdrl.batch import Platform, SwfLog, Workload, build_platform, check_fits, unknown_rows, workload_from_swf
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.site_rules.conf import Downtime, Nodes, Partition, SiteConf, association_name
from hdrl.settings.batch.site_rules.machine import platform_of
from hdrl.settings.batch.site_rules.model import (
    DEPENDENCY_DTYPE,
    UNLIMITED,
    DependencyKind,
    SiteJobs,
    SiteRules,
    undemanding_jobs,
)
from hdrl.settings.batch.site_rules.rules import rules_of
from hdrl.settings.batch.site_rules.simulator import SiteSimulator
from tests.settings.batch.site_rules.oracle import TO_START, Oracle
from tests.settings.batch.site_rules.worlds import play

BACKFILLING = {"fcfs": codes.NO_BACKFILLING, "fcfs+easy": codes.EASY_FCFS, "fcfs+conservative": codes.CONSERVATIVE}


def random_machine(
    rng: np.random.Generator,
    *,
    has_reservations: bool = False,
    has_preemption: bool = False,
    has_limits: bool = False,
    has_repeated: bool = False,
) -> Platform:
    """Return a machine of some nodes in one to three partitions, which overlap."""
    nodes = (
        Nodes("a[1-3]", 3, int(rng.choice([2, 4])), features=("x",)),
        Nodes("b[1-3]", 3, 4, gpus=2, features=("x", "y"), weight=int(rng.choice([1, 5]))),
    )
    partitions = {"main": Partition(is_default=True, nodes=str(rng.choice(["", "a[1-3],b1"])))}
    if rng.random() < 0.7:
        tier = int(rng.choice([1, 2]))
        partitions["wide"] = Partition(nodes="a3,b[1-3]", tier=tier, is_exclusive=bool(rng.random() < 0.2))
    if rng.random() < 0.5:
        partitions["few"] = Partition(max_nodes=2, min_nodes=int(rng.choice([0, 2])), max_time_s=900.0)
    if has_preemption:
        for name, mode in zip(
            partitions, rng.choice(["off", "requeue", "cancel", "suspend"], len(partitions)), strict=True
        ):
            grace_s = float(rng.choice([0, 120]))
            partitions[name] = replace(
                partitions[name], preempt_mode=str(mode), grace_s=grace_s, tier=int(rng.integers(1, 4))
            )
    downtimes = random_downtimes(rng, has_repeated=has_repeated) if has_reservations else []
    scheduler, qos = {}, {}
    if has_preemption:
        scheduler = {"PreemptType": "preempt/partition_prio", "PreemptExemptTime": str(rng.choice(["0", "2"]))}
        scheduler["PreemptParameters"] = str(rng.choice(["", "youngest_first"]))
        if rng.random() < 0.5:
            scheduler["PreemptType"] = "preempt/qos"
            for name, preempts in (("low", ""), ("middle", "low"), ("high", "low,middle")):
                mode = str(rng.choice(["requeue", "cancel", "suspend"]))
                qos[name] = {"Preempt": preempts, "PreemptMode": mode, "Priority": str(len(qos))}
                qos[name]["GraceTime"] = str(rng.choice(["00:00:00", "00:02:00"]))
    conf = SiteConf("drawn", nodes, partitions, scheduler, qos, downtimes=tuple(downtimes))
    if has_limits:
        conf = with_random_limits(rng, conf)
    return replace(build_platform(platform_of(conf), name="drawn"), site=rules_of(conf))


def random_downtimes(rng: np.random.Generator, *, has_repeated: bool) -> list[Downtime]:
    """Return two reservations, drains or failures, and others that begin at equal intervals."""
    downtimes = []
    for kind in rng.choice(["reservation", "reservation", "drain", "failure"], size=2):
        start = int(rng.integers(0, 40))
        length = int(rng.integers(1, 15))
        stamp = [f"1970-01-01T00:{minute:02d}:00Z" for minute in (start, start + length)]
        downtimes.append(Downtime(*stamp, nodes=str(rng.choice(["a[2-3]", "b[1-3]", "b1"])), kind=str(kind)))
    for _ in range(2 if has_repeated else 0):
        nodes, period_s, length_s = (
            str(rng.choice(["a1", "a[2-3]", "b1"])),
            rng.integers(200, 600),
            rng.integers(60, 700),
        )
        for position in range(6):
            start_s = int(position * period_s)
            span = [datetime.fromtimestamp(date_s, UTC).isoformat() for date_s in (start_s, start_s + int(length_s))]
            downtimes.append(Downtime(*span, nodes=nodes))
    return downtimes


LIMITS: dict[str, tuple[str, ...]] = {
    "GrpTRES": ("cpu=6", "cpu=12", "cpu=8,gres/gpu=1", "gres/gpu=2"),
    "GrpJobs": ("1", "2", "4"),
    "GrpSubmit": ("3", "8"),
    "MaxTRES": ("cpu=4", "cpu=6,gres/gpu=1"),
    "MaxWall": ("00:10:00", "00:20:00"),
}
OF_QOS = LIMITS | {
    "MaxTRESPU": ("cpu=4", "cpu=8,gres/gpu=2"),
    "MaxJobsPU": ("1", "2"),
    "MaxSubmitPU": ("2", "5"),
    "Flags": ("OverPartQOS",),
}
OF_ACCOUNTS = LIMITS | {"MaxJobs": ("1", "2"), "MaxSubmit": ("2", "5")}
"""Limits, and values that a drawn QOS or association may have."""


def with_random_limits(rng: np.random.Generator, conf: SiteConf) -> SiteConf:
    """Return a site with limits of QOS, some of them of partitions, of accounts, and of users in accounts."""

    def draw(limits: dict[str, tuple[str, ...]]) -> dict[str, str]:
        return {name: str(rng.choice(texts)) for name, texts in limits.items() if rng.random() < 0.2}

    names = tuple(conf.qos) or ("short", "long")
    qos = {name: {**conf.qos.get(name, {}), **draw(OF_QOS)} for name in names}
    partitions = {name: replace(one, qos=str(rng.choice(["", "", *names]))) for name, one in conf.partitions.items()}
    parents = {"all": "root", "bio": "all", "phys": "all", "optics": "phys"}
    accounts = {name: {"ParentName": parent, **draw(OF_ACCOUNTS)} for name, parent in parents.items()}
    users = {name: {user: draw(OF_ACCOUNTS) for user in "012" if rng.random() < 0.5} for name in parents}
    return replace(conf, qos=qos, partitions=partitions, accounts=accounts, users=users)


def put_into_accounts(rng: np.random.Generator, rules: SiteRules, jobs: np.ndarray) -> None:
    """Draw users, accounts and GPUs of jobs."""
    jobs["account"] = rng.integers(-1, len(rules.accounts), len(jobs))
    jobs["user"] = rng.integers(0, 3, len(jobs))
    jobs["gpus"][rng.random(len(jobs)) < 0.2] = 1
    known = {name: position for position, name in enumerate(rules.association_names)}
    for row in jobs:
        name = association_name((*rules.account_names, "")[row["account"]], str(row["user"]))
        row["association"] = known.get(name, UNLIMITED)


def random_jobs(
    rng: np.random.Generator,
    platform: Platform,
    n_jobs: int,
    *,
    has_wishes: bool,
    has_het_jobs: bool = False,
    has_think_times: bool = False,
) -> Workload:
    """Return jobs that want all sorts of things."""
    rows = unknown_rows(n_jobs)
    rows["job_number"] = np.arange(1, n_jobs + 1)
    rows["submit_s"] = np.sort(rng.integers(0, 1200, n_jobs))
    rows["run_s"] = rng.integers(10, 600, n_jobs)
    rows["requested_s"] = rows["run_s"] * rng.choice([1, 1.5, 4], n_jobs)
    rows["requested_processors"] = rng.choice([1, 1, 2, 4, 6], n_jobs)
    groups = np.full(n_jobs, UNLIMITED)
    if has_het_jobs:
        groups = np.where(rng.random(n_jobs) < 0.6, np.sort(rng.integers(0, n_jobs // 3, n_jobs)), UNLIMITED)
        for group in np.unique(groups[groups >= 0]):
            rows["submit_s"][groups == group] = rows["submit_s"][groups == group].min()
        groups = groups[np.argsort(rows["submit_s"], kind="stable")]
    workload = workload_from_swf(SwfLog("drawn", rows), platform, bandwidth="none", shift=False)
    jobs = undemanding_jobs(n_jobs)
    jobs["het_group"] = groups
    n_partitions = len(platform.site.partition_names) if platform.site is not None else 1
    jobs["partitions"] = rng.integers(0, 2**n_partitions, n_jobs)
    if platform.site is not None and platform.site.qos_names:
        jobs["qos"] = rng.integers(-1, len(platform.site.qos_names), n_jobs)
    dependencies = []
    if has_wishes:
        submit_s = workload.jobs["submit_s"]
        pick = rng.random(n_jobs)
        jobs["begin_s"][pick < 0.1] = (submit_s + 300)[pick < 0.1]
        jobs["held_until_s"][(pick > 0.1) & (pick < 0.2)] = 800
        is_cancelled = (pick > 0.2) & (pick < 0.35)
        jobs["cancelled_s"][is_cancelled] = (submit_s + rng.choice([0, 60, 400], n_jobs))[is_cancelled]
        jobs["is_exclusive"][(pick > 0.35) & (pick < 0.45)] = 1
        jobs["nodes"][(pick > 0.45) & (pick < 0.55)] = 2
        in_array = (pick > 0.55) & (pick < 0.7) & (groups < 0)
        jobs["array"][in_array], jobs["array_limit"][in_array] = 0, 2
        jobs["features"][(pick > 0.7) & (pick < 0.75)] = 1
        for job in range(1, n_jobs):
            # Of a het job only the first component waits for others.
            if rng.random() < 0.2 and (groups[job] < 0 or groups[job] not in groups[:job]):
                delay_s = float(rng.choice([0, 60]))
                dependencies.append((job, int(rng.integers(0, job)), int(rng.integers(0, 4)), delay_s))
    for job in range(1, n_jobs if has_think_times else 0):
        if rng.random() < 0.5:
            think_s = float(rng.choice([0, 1.5, 60, 900]))
            dependencies.append((job, int(rng.integers(0, job)), DependencyKind.THINK, think_s))
    dependencies.sort(key=lambda one: one[0])
    if platform.site is not None and len(platform.site.accounts):
        put_into_accounts(rng, platform.site, jobs)
    site = SiteJobs(jobs=jobs, dependencies=np.array(dependencies, dtype=DEPENDENCY_DTYPE))
    return check_fits(replace(workload, site=site), platform, oversized="drop")


def starts_of(platform: Platform, workload: Workload, policy: str) -> tuple[list[float], list[dict[int, int]]]:
    """Return the last start of each job, and how many cores it got on each node."""
    simulator = SiteSimulator(platform, workload)
    simulator.run_pair(codes.JOB_FIRST, codes.CORE_FIRST, BACKFILLING[policy])
    assert platform.site is not None
    node_of_core = np.repeat(np.arange(len(platform.site.nodes)), platform.site.nodes["cores"])
    trace = simulator.trace
    nodes = [dict(Counter(node_of_core[trace.cores_of(job)].tolist())) for job in range(len(workload.jobs))]
    return [float(one) if one >= 0 else np.inf for one in trace.records["start_s"]], nodes


KINDS = ["partitions", "reservations", "repeated reservations", "wishes", "preemption"]
RARE = {
    "preemption": [529, 1009, 3269],
    "het, wishes": [79],
    "het, reservations": [2336],
    "het, preemption": [47, 126, 671, 1285, 1625, 2674],
}
"""Worlds beyond the first ones in which one of the two once was wrong: the simulator about the end of the queue, where
a job could start with MaxNodes once others had taken nodes, or after a preemption; the oracle about jobs suspended
beyond their limits, and about the nodes that a plan tries first; both about plans for now on nodes of jobs that had not
been preempted (3269, where the simulator wrote beyond its array of cores)."""

LIMITED = ["limits", "limits, wishes", "limits, preemption"]

THINKING = ["think times", "think times, wishes", "think times, preemption"]


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        *((policy, kind) for policy in BACKFILLING for kind in KINDS + THINKING),
        *((policy, kind) for policy in BACKFILLING for kind in LIMITED),
        *((policy, f"het, {kind}") for policy in ("fcfs+easy", "fcfs+conservative") for kind in [*KINDS, "limits"]),
    ],
)
def test_starts_are_those_of_the_oracle(policy: str, kind: str):
    differ = []
    for seed in [*range(25), *RARE.get(kind, [])]:
        rng = np.random.default_rng(seed)
        platform = random_machine(
            rng,
            has_reservations=kind.endswith("reservations"),
            has_preemption=kind.endswith("preemption"),
            has_limits="limits" in kind,
            has_repeated="repeated" in kind,
        )
        workload = random_jobs(
            rng,
            platform,
            14,
            has_wishes=kind.endswith("wishes"),
            has_het_jobs=kind.startswith("het"),
            has_think_times=kind.startswith("think times"),
        )
        oracle = Oracle(platform, workload, policy)
        expected = oracle.run()
        starts_s, nodes = starts_of(platform, workload, policy)
        if starts_s != pytest.approx(expected, abs=1e-6) or nodes != [one.last_nodes for one in oracle.jobs]:
            differ.append(seed)
    assert differ == []


@pytest.mark.parametrize("policy", ["slurm", "multifactor+easy"])
def test_no_job_starts_beyond_a_limit(policy: str):
    n_waited = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        platform = random_machine(rng, has_limits=True)
        workload = random_jobs(rng, platform, 30, has_wishes=False)
        trace = play(platform, workload, policy).trace
        start_s = trace.records["start_s"]
        end_s, oracle = start_s + trace.records["run_s"], Oracle(platform, workload, "fcfs")
        assert trace.site is not None
        for job in np.flatnonzero(start_s >= 0).tolist():
            beside = np.flatnonzero((start_s >= 0) & (start_s < start_s[job]) & (end_s > start_s[job])).tolist()
            placed = [(oracle.jobs[one], int(trace.site["partition"][one])) for one in (job, *beside)]
            assert not oracle._exceeds(*placed[0], placed[1:], TO_START), seed
            n_waited += start_s[job] > workload.jobs["submit_s"][job]
    assert n_waited > 100

"""What a Slurm of ours is told of accounts and QOS, and what it does with them."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hdrl.base.errors import SimulationError
from hdrl.batch import simulate
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulators import SlurmSettings
from hdrl.settings.batch.site_rules.conf import Nodes, SiteConf
from hdrl.settings.batch.site_rules.model import SiteJobs, SiteRules, undemanding_jobs
from hdrl.settings.batch.site_rules.rules import rules_of
from hdrl.settings.batch.workload.model import Workload
from hdrl.slurm import cluster
from hdrl.slurm.accounting import COMMANDS, accounting_of, needs_accounting
from hdrl.slurm.recorded import keep_run, read_run
from hdrl.slurm.rules import scheduling_of
from hdrl.testing import JobSpec, Node, Processor, small_platform, small_workload

from .test_failures import command_lines, stand_ins

ACCOUNTS = {"optics": {"Share": "2", "ParentName": "physics"}, "physics": {"Share": "3"}, "biology": {"Share": "1"}}
QOS = {"normal": {"Priority": "1"}, "high": {"Priority": "9", "Preempt": "normal", "PreemptExemptTime": "00:01:30"}}
SHARES = {"PriorityWeightFairshare": "1000", "PriorityDecayHalfLife": "90", "PriorityFlags": "NO_FAIR_TREE"}
PREEMPTS = {"PriorityWeightQOS": "1000", "PreemptType": "preempt/qos", "PreemptMode": "REQUEUE"}


def rules(accounts: dict[str, dict[str, str]], qos: dict[str, dict[str, str]], **scheduler: str) -> SiteRules:
    return rules_of(SiteConf(nodes=(Nodes("n1", 1, 4),), accounts=accounts, qos=qos, scheduler=scheduler))


def asked(*rows: tuple[int, int, int]) -> SiteJobs:
    """Return what jobs ask for: account, user and QOS of each."""
    jobs = undemanding_jobs(len(rows))
    jobs["account"], jobs["user"], jobs["qos"] = np.array(rows).T
    return SiteJobs(jobs=jobs)


def test_users_of_an_account_are_accounts_below_it() -> None:
    found = accounting_of(rules(ACCOUNTS, {}), asked((0, 7, -1), (2, 7, -1), (0, 3, -1), (0, 7, -1)))
    assert found.accounts == (
        ("physics", "root", ("fairshare=3",)),
        ("biology", "root", ("fairshare=1",)),
        ("optics", "physics", ("fairshare=2",)),
        ("biology_u7", "biology", ("fairshare=1",)),
        ("optics_u3", "optics", ("fairshare=1",)),
        ("optics_u7", "optics", ("fairshare=1",)),
    )
    assert [account for account, _ in found.submitted_by] == ["optics_u7", "biology_u7", "optics_u3", "optics_u7"]
    assert found.commands("ann")[-1] == ("-i", "add", "user", "ann", "account=biology_u7,optics_u3,optics_u7")


def test_qos_are_set_once_all_are_known() -> None:
    found = accounting_of(rules({}, QOS, **PREEMPTS), asked((-1, 7, 1), (-1, -1, 0)))
    assert found.submitted_by == (("u7", "high"), ("nobody", "normal"))
    assert found.commands("ann")[1:4] == [
        ("-i", "add", "qos", "high"),
        ("-i", "modify", "qos", "normal", "set", "Priority=1"),
        ("-i", "modify", "qos", "high", "set", "Priority=9", "Preempt=normal", "PreemptExemptTime=00:01:30"),
    ]
    assert found.commands("ann")[-1] == ("-i", "add", "user", "ann", "account=nobody,u7", "qos=normal,high")


def test_limits_of_all_jobs_of_an_account_or_a_qos() -> None:
    limits = {"GrpTRES": "cpu=4", "GrpJobs": "2"}
    found = accounting_of(rules({"optics": limits}, {"high": limits}), asked((0, 7, 0)))
    assert found.accounts[0] == ("optics", "root", ("fairshare=1", "GrpTRES=cpu=4", "GrpJobs=2"))
    assert found.qos == (("high", ("Priority=0", "GrpTRES=cpu=4", "GrpJobs=2")),)


def test_lines_of_slurm_conf() -> None:
    lines = scheduling_of(rules(ACCOUNTS, QOS, **SHARES, **PREEMPTS, PreemptExemptTime="2"))
    wanted = {"PriorityFlags=NO_FAIR_TREE", "PriorityWeightFairshare=1000", "PriorityDecayHalfLife=01:30:00"}
    wanted |= {"PriorityWeightQOS=1000", "PreemptType=preempt/qos", "PreemptMode=REQUEUE", "PreemptExemptTime=00:02:00"}
    assert wanted <= set(lines)
    assert not any("Preempt" in line or "Fair" in line for line in scheduling_of(rules({}, {})))


def test_only_what_needs_a_database_gets_one() -> None:
    assert not needs_accounting(rules({}, {}, PriorityWeightAge="5"))
    assert needs_accounting(rules(ACCOUNTS, {}))
    assert needs_accounting(rules({}, QOS))
    assert needs_accounting(rules({}, {}, PriorityWeightFairshare="5"))
    assert not needs_accounting(rules({}, {}, PriorityWeightFairshare="5", PriorityType="priority/basic"))


@pytest.mark.parametrize(
    ("accounts", "qos", "scheduler", "job", "problem"),
    [
        ({"Optics": {}}, {}, {}, (0, 1, -1), "account 'Optics', expected small letters, digits and _"),
        ({"root": {}}, {}, {}, (0, 1, -1), "account 'root'"),
        ({"optics": {"MaxJobs": "4"}}, {}, {}, (0, 1, -1), "limits of each user"),
        ({"optics": {"GrpTRES": "gres/gpu=4"}}, {}, {}, (0, 1, -1), "limits of GPUs"),
        ({}, {"low": {"MaxTRES": "cpu=4"}}, {}, (-1, 1, 0), "limits of each job of a QOS or an account"),
        ({}, {"low": {"MaxWall": "60"}}, {}, (-1, 1, 0), "limits of QOS or accounts on submissions and times"),
        (
            {},
            QOS | {"normal": {"GraceTime": "60"}},
            PREEMPTS,
            (-1, 1, 0),
            "QOS 'normal' .* after a GraceTime",
        ),
        (ACCOUNTS, {}, {}, (-1, 1, -1), "jobs without an account of the site"),
        ({}, QOS, {}, (-1, 1, -1), "jobs without a QOS of the site"),
        ({}, QOS, PREEMPTS | {"PreemptMode": "CANCEL"}, (-1, 1, 0), "QOS 'normal' whose jobs are preempted by"),
        ({}, QOS, PREEMPTS | {"PreemptMode": "REQUEUE,WITHIN"}, (-1, 1, 0), "or PreemptMode=WITHIN"),
    ],
)
def test_what_slurm_would_not_follow(
    accounts: dict[str, dict[str, str]],
    qos: dict[str, dict[str, str]],
    scheduler: dict[str, str],
    job: tuple[int, int, int],
    problem: str,
) -> None:
    with pytest.raises(SimulationError, match=f"simulator 'slurm' does not support .*{problem}"):
        accounting_of(rules(accounts, qos, **scheduler), asked(job))


# ------------------------------------------------------------------ with a database


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"slurmdbd": None}, "needs slurmdbd, which is not on PATH: make slurm, or apt-get install slurmctld slurmd"),
        ({"my_print_defaults": None}, "mariadb-server-core mariadb-client-core"),
        ({"mariadb-install-db": "sys.exit('no room')"}, "Slurm: mariadb-install-db ended with code 1: no room"),
        ({"mariadb-install-db": "print('full'); sys.exit(1)"}, "Slurm: mariadb-install-db ended with code 1: full"),
        ({"mariadbd": "sys.exit(3)"}, "Slurm: mariadbd ended with code 3"),
        ({"slurmdbd": "import time; time.sleep(60)"}, "Slurm: slurmdbd does not listen after 1 s"),
        (
            {"sacctmgr": "sys.exit('sacctmgr: error: denied')"},
            "Slurm: sacctmgr ended with code 1: sacctmgr: error: denied",
        ),
    ],
)
def test_a_database_that_misbehaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str | None], problem: str
) -> None:
    stand_ins(tmp_path, monkeypatch, names=(*cluster.COMMANDS, *COMMANDS), **{**STAND_INS, **changes})
    temporary = Path(tempfile.mkdtemp(prefix="fails-"))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    workload = replace(small_workload(JobSpec(0.0, 2)), site=asked((-1, 1, 0)))
    settings = SlurmSettings(speed=1.0, timeout_s=1.0)
    with pytest.raises(SimulationError) as caught:
        simulate(site({}, QOS), workload, "slurm", simulator="slurm", slurm=settings, energy=False)
    assert problem in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert list(temporary.iterdir()) == []
    temporary.rmdir()
    assert not [one for one in command_lines() if str(tmp_path) in one or str(temporary) in one]


DBD = """
import os, re, socket, time
text = open(os.environ["SLURM_CONF"].replace("slurm.conf", "slurmdbd.conf")).read()
port = int(re.search(r"DbdPort=(\\d+)", text)[1])
server = socket.create_server(("127.0.0.1", port))
time.sleep(60)
"""
STAND_INS = {
    "mariadb-install-db": "",
    "my_print_defaults": "",
    "mariadbd": "import os, time; open(os.environ['MYSQL_UNIX_PORT'], 'w'); time.sleep(60)",
    "slurmdbd": DBD,
    "sacctmgr": "",
}
"""A database that begins, and does nothing else."""


@pytest.fixture
def _needs_slurmdbd() -> None:
    try:
        cluster.find_commands(accounting=True)
    except SimulationError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


def site(accounts: dict[str, dict[str, str]], qos: dict[str, dict[str, str]], **scheduler: str) -> Platform:
    return replace(small_platform(Node((Processor(4, 1.0),))), site=rules(accounts, qos, **scheduler))


def played(platform: Platform, workload: Workload, folder: Path) -> list[int]:
    """Return the jobs in the order in which a real Slurm started them last, and keep its run."""
    settings = SlurmSettings(speed=100.0, max_overhead_s=120.0)
    found = simulate(platform, workload, "slurm", simulator="slurm", slurm=settings, folder=folder, energy=False)
    keep_run(folder, folder / "kept")
    return [int(job) for job in np.argsort(found.records["start_s"], kind="stable")]


@pytest.mark.usefixtures("_needs_slurmdbd")
def test_who_has_used_more_waits(tmp_path: Path) -> None:
    weights = {"PriorityWeightFairshare": "100000", "PriorityCalcPeriod": "1", "AccountingStorageType": "slurmdbd"}
    platform = site({"optics": {}, "biology": {}}, {}, **weights, PriorityDecayHalfLife="60")
    jobs = [JobSpec(float(at), 4, gflop=300.0, requested_time_s=600.0) for at in (0, 10, 20)]
    workload = replace(small_workload(*jobs), site=asked((0, 1, -1), (0, 1, -1), (1, 2, -1)))
    assert played(platform, workload, tmp_path) == [0, 2, 1]
    run = read_run(tmp_path / "kept")
    assert run.platform.site is not None
    assert {"optics_u1", "biology_u2"} <= set(run.platform.site.account_names)
    again = simulate(run.platform, run.workload, "slurm", energy=False)
    assert np.argsort(again.records["start_s"]).tolist() == [0, 2, 1]


@pytest.mark.usefixtures("_needs_slurmdbd")
def test_a_job_of_a_higher_qos_takes_the_nodes_of_another_one_which_begins_anew(tmp_path: Path) -> None:
    # The higher QOS runs one job at a time.
    platform = site({}, QOS | {"high": QOS["high"] | {"GrpJobs": "1"}}, **PREEMPTS)
    jobs = [JobSpec(0.0, 4, gflop=900.0, requested_time_s=1800.0)]
    jobs += [JobSpec(300.0 + at, 2, gflop=60.0, requested_time_s=600.0) for at in (0, 1)]
    workload = replace(small_workload(*jobs), site=asked((-1, 1, 0), (-1, 1, 1), (-1, 1, 1)))
    assert played(platform, workload, tmp_path) == [1, 2, 0]
    run = read_run(tmp_path / "kept")
    assert run.platform.site is not None
    assert run.platform.site.qos["group_jobs"].tolist() == [-1, 1]
    assert run.start_s[2] > run.start_s[1] + 60
    assert "JobState=PREEMPTED" in (tmp_path / "slurm" / "jobcomp.txt").read_text()
    # It waits from when it came, and runs as long as it did the last time.
    assert run.start_s[0] > run.start_s[1] > run.eligible_s[1] > run.eligible_s[0]
    assert run.workload.jobs["requested_time_s"].tolist() == [1800, 600, 600]
    again = simulate(run.platform, run.workload, "slurm", energy=False)
    assert again.site is not None
    assert again.site["n_restarts"].tolist() == [1, 0, 0]

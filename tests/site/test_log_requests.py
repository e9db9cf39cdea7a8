"""What jobs asked for in the lines that submitted them, and what an import makes of it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from hdrl.base.errors import PlatformError, ReadError
from hdrl.batch import read_platform, read_swf, read_workload, simulate
from hdrl.settings.batch.site_rules.conf import SiteConf, read_associations, read_conf
from hdrl.settings.batch.site_rules.model import DependencyKind
from hdrl.settings.batch.site_rules.rules import rules_of
from hdrl.site import ImportChoices, WhatIf, import_site, what_if
from hdrl.site.downtimes import AFTER_S, MOST, read_downtimes
from hdrl.site.machine import n_cores, scaled
from hdrl.site.submitline import OPTIONS, options_of, parse_requests, read_submit_line, requests_text
from hdrl.site.values import Clock
from hdrl.site.whatifpage import answer_text

CONF = """\
ClusterName=asked
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=30,nohold_on_prolog_fail
PriorityType=priority/multifactor
PriorityWeightAge=1000
NodeName=a[1-4] CPUs=4 Feature=ib,new
NodeName=b[1-2] CPUs=8 Feature=ib
PartitionName=main Nodes=a[1-4] Default=YES MaxTime=60
PartitionName=big Nodes=b[1-2] PriorityTier=2
"""
HEADER = (
    "JobID|JobIDRaw|User|Account|JobName|Partition|Submit|Eligible|Start|End|TimelimitRaw|AllocCPUS|State|SubmitLine\n"
)


def row(job: str, submit: int, eligible: int, start: int, end: int, line: str, **changes: object) -> str:
    values = {"raw": job.partition("_")[0], "cores": 4, "partition": "main", "account": "bio", "name": "run"} | changes
    dates = [f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}" for second in (submit, eligible, start, end)]
    return (
        f"{job}|{values['raw']}|ann|{values['account']}|{values['name']}|{values['partition']}|{'|'.join(dates)}|5|"
        f"{values['cores']}|COMPLETED|{line}\n"
    )


ROWS = (
    row("1", 0, 0, 0, 60, "sbatch -n 4 j.sh")
    + row("2", 5, 60, 60, 120, "sbatch --dependency=afterok:1 -C ib&new --nice=50 -n 4 j.sh -N 3")
    + row("3", 6, 200, 200, 260, "sbatch --begin=now+194 --exclusive -N 1 j.sh")
    + row("4", 7, 7, 7, 60, "sbatch -p main,big -n 4 --wrap true", partition="big")
    + row("5_1", 8, 8, 8, 60, "sbatch -a 1-2%1 -n 4 j.sh", raw="5")
    + row("5_2", 8, 60, 60, 99, "sbatch -a 1-2%1 -n 4 j.sh", raw="6")
    + row("7", 9, 9, 9, 60, "sbatch -C [rack1|rack2] -d singleton -n 4 j.sh", name="other")
    + row("8", 300, 300, 300, 360, "sbatch -d singleton,after:99 -n 4 j.sh", name="other")
)


def imported(folder: Path, *, by_dependencies: bool = False, **changes: object) -> Path:
    (folder / "sacct.txt").write_text(HEADER + ROWS)
    (folder / "slurm.conf").write_text(CONF)
    choices = ImportChoices(confs=(folder / "slurm.conf",), by_dependencies=by_dependencies, **changes)  # type: ignore[arg-type]
    import_site([folder / "sacct.txt"], folder / "site", choices)
    return folder / "site"


@pytest.mark.parametrize(
    ("line", "requests"),
    [
        ("sbatch j.sh", {}),
        ("sbatch -N2-4 -C gpu j.sh", {"nodes": "2", "features": "gpu"}),
        ("sbatch --nodes=2 --constraint='gpu&ib' --wrap 'sleep -N 9'", {"nodes": "2", "features": "gpu,ib"}),
        ("sbatch -n 4 j.sh -N 7 --exclusive", {}),
        ("sbatch --parsable -o /dev/null -N 1 --exclusive -t 2 j.sh", {"nodes": "1", "exclusive": "1"}),
        ("srun --nice -n 1 hostname", {"nice": "100"}),
        ("sbatch --nice=-20 -p a j.sh", {"nice": "-20"}),
        ("sbatch -p a,b j.sh", {"partitions": "a,b"}),
        ("sbatch -d afterok:1:2_3+4,singleton j.sh", {"dependencies": "afterok:1:2_3+4,singleton"}),
        ("sbatch --array=0-9%3 -H j.sh", {"throttle": "3", "hold": "1"}),
        ("sbatch --begin 16:00 j.sh", {"begin": "16:00"}),
        # Slurm takes the first letters of a long option, if they are those of no other.
        (
            "sbatch --depend=afterok:1 --part a,b --exclus --nic j.sh",
            {"dependencies": "afterok:1", "partitions": "a,b", "exclusive": "1", "nice": "100"},
        ),
        ("sbatch --exclude=n1 --nodelist=n2 --parsable --const gpu j.sh", {"features": "gpu"}),
        ("", {}),
    ],
)
def test_submit_lines(line: str, requests: dict[str, str]):
    assert read_submit_line(line) == read_submit_line(options_of(line)) == (requests, [])
    assert parse_requests(requests_text(requests)) == requests


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("sbatch -C [rack1|rack2] j.sh", "features that is not understood"),
        ("sbatch --nice=much j.sh", "nice that is not understood"),
        ("sbatch -d afterok:1?afterok:2 j.sh", "dependencies that is not understood"),
        ("sbatch --exclusive=mcs j.sh", "exclusive that is not understood"),
        ("sbatch -N many j.sh", "nodes that is not understood"),
    ],
)
def test_what_is_not_understood_is_told(line: str, problem: str):
    assert read_submit_line(line) == read_submit_line(options_of(line)) == ({}, [problem])


def test_options_say_what_whole_lines_say():
    draws = np.random.default_rng(3)
    words = (
        *OPTIONS,
        *(
            "-n",
            "-t",
            "-J",
            "--mem=2G",
            "--ntasks",
            "-v",
            "-vv",
            "-Q",
            "--requeue",
            "--wrap=a",
            "-",
            "--",
            "--nodelist=n1",
        ),
        *("x.sh", "./run", "4", "a,b", "1-3", "-N2", "-pmain,b", "--nodes=2", "--exclusive=user", "--nice=5", "-N=3"),
        *("-dafterok:5", "--dependency=afterany:3_4", "--array=1-9%2", "fast&new", "--constraint=x|y", "--begin=now+1"),
    )
    for _ in range(2000):
        line = " ".join(["srun", *draws.choice(words, draws.integers(0, 9))])
        assert read_submit_line(options_of(line)) == read_submit_line(line), line


def test_an_import_writes_rules_and_columns(tmp_path: Path):
    site = imported(tmp_path)
    assert json.loads((site / "platform.json").read_text())["site_rules"] == "site.json"
    platform = read_platform(site / "platform.json")
    assert platform.site is not None
    assert platform.site.partition_names == ("main", "big")
    workload = read_workload(site / "jobs.swf", platform, bandwidth="none")
    assert workload.site is not None
    ids = {name: position for position, name in enumerate(workload.job_ids)}
    jobs = workload.site.jobs
    assert jobs["features"][ids["2"]] == 3
    assert jobs["nice"][ids["2"]] == 50
    assert (jobs["nodes"][ids["3"]], jobs["is_exclusive"][ids["3"]]) == (1, 1)
    assert jobs["partitions"][ids["4"]] == 3
    assert jobs["partitions"][ids["1"]] == 1
    # Dates at which jobs could start stand for dependencies, begin dates and throttles.
    assert len(workload.site.dependencies) == 0
    assert np.all(jobs["array"] == -1)
    assert workload.jobs["submit_s"][ids["2"]] == 60
    assert workload.site.origin_s == 1767225600
    notes = " ".join(json.loads((site / "import.json").read_text())["notes"])
    assert "1 features that is not understood, left out" in notes
    assert "no simulation follows: nohold_on_prolog_fail" in notes


def test_jobs_with_gpus_take_them_on_all_their_nodes(tmp_path: Path):
    (tmp_path / "slurm.conf").write_text("NodeName=g[1-4] CPUs=64 Gres=gpu:a100:4\nPartitionName=gpu Nodes=ALL\n")
    dates = "2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:01:00|5"
    (tmp_path / "sacct.txt").write_text(
        "JobID|Partition|Submit|Eligible|Start|End|TimelimitRaw|AllocCPUS|AllocNodes|AllocTRES|State\n"
        f"1|gpu|{dates}|16|2|cpu=16,gres/gpu:a100=8,gres/gpu=8,node=2|COMPLETED\n"
        f"2|gpu|{dates}|4|1|cpu=4,gres/gpu=2,node=1|COMPLETED\n"
    )
    choices = ImportChoices(confs=(tmp_path / "slurm.conf",), n_replayed=0)
    columns = import_site([tmp_path / "sacct.txt"], tmp_path / "site", choices).log.log.columns
    assert columns is not None
    # The 16 cores of the first job would fit on one node, which has 4 of its 8 GPUs.
    assert [dict(cells) for _, cells in columns.rows] == [
        {"job": "1", "gpus": "4", "nodes": "2"},
        {"job": "2", "gpus": "2"},
    ]


def test_an_import_by_dependencies(tmp_path: Path):
    site = imported(tmp_path, by_dependencies=True)
    workload = read_workload(site / "jobs.swf", read_platform(site / "platform.json"), bandwidth="none")
    assert workload.site is not None
    ids = {name: position for position, name in enumerate(workload.job_ids)}
    jobs = workload.site.jobs
    assert workload.jobs["submit_s"][ids["2"]] == 5
    assert workload.site.dependencies.tolist() == [
        (ids["2"], ids["1"], DependencyKind.AFTER_OK, 0),
        (ids["8"], ids["7"], DependencyKind.SINGLETON, 0),
    ]
    assert jobs["begin_s"][ids["3"]] == 200
    assert jobs["array"][[ids["5"], ids["6"]]].tolist() == [5, 5]
    assert jobs["array_limit"][[ids["5"], ids["6"]]].tolist() == [1, 1]
    notes = " ".join(json.loads((site / "import.json").read_text())["notes"])
    assert "1 dependencies on jobs that the accounting does not have" in notes
    assert "1 dependencies of the kind singleton without an earlier job" in notes


def test_jobs_that_waited_for_a_failure_run_after_its_job(tmp_path: Path):
    (tmp_path / "slurm.conf").write_text(CONF)
    rows = row("1", 0, 0, 0, 60, "sbatch j.sh").replace("COMPLETED", "FAILED")
    rows += row("2", 5, 60, 60, 120, "sbatch -d afternotok:1 j.sh")
    (tmp_path / "sacct.txt").write_text(HEADER + rows)
    choices = ImportChoices(confs=(tmp_path / "slurm.conf",), by_dependencies=True)
    found = import_site([tmp_path / "sacct.txt"], tmp_path / "site", choices)
    slurm = found.replays.replays[0]
    assert (slurm.policy, slurm.n_never, slurm.whole.n_jobs) == ("slurm", 0, 2)


def test_jobs_that_never_start_in_a_replay_are_counted(tmp_path: Path):
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "accounts.txt").write_text("Account|ParentName|User|MaxTRES\nbio|root||cpu=3\n")
    rows = row("1", 0, 0, 0, 60, "sbatch j.sh")
    rows += row("2", 5, 60, 60, 99, "sbatch j.sh", account="x") + row("3", 6, 70, 70, 99, "sbatch j.sh", account="x")
    (tmp_path / "sacct.txt").write_text(HEADER + rows)
    choices = ImportChoices(confs=(tmp_path / "slurm.conf",), accounts=tmp_path / "accounts.txt")
    import_site([tmp_path / "sacct.txt"], tmp_path / "site", choices)
    said = json.loads((tmp_path / "site" / "import.json").read_text())["certainty"]
    assert "2 jobs are compared, 1 that ran at the site never start under slurm (over MaxTRES=cpu of a job: 1)." in said


def test_jobs_of_a_log_follow_those_of_fields_17_and_18(tmp_path: Path):
    lines = (
        "1 0 0 60 4 -1 -1 4 60 -1 1 1 1 1 -1 1 -1 -1\n",
        "2 5 60 30 4 -1 -1 4 60 -1 1 1 1 1 -1 2 1 -1\n",
        "3 90 60 30 4 -1 -1 4 60 -1 1 1 1 1 -1 2 1 7\n",
    )
    (tmp_path / "log.swf").write_text("; Partition: 1 main\n; Partition: 2 big\n" + "".join(lines))
    (tmp_path / "slurm.conf").write_text(CONF)
    choices = ImportChoices(confs=(tmp_path / "slurm.conf",), by_dependencies=True)
    found = import_site([tmp_path / "log.swf"], tmp_path / "site", choices)
    note = (
        "simulations submit 1 job a think time after the end of another one (fields 17 and 18); waits count from there"
    )
    assert note in found.notes
    # In all replays the first two run from 0 and from 60 on, and the third comes 7 s after the end of the first.
    assert [one.whole.mean_wait_s for one in found.replays.replays] == [pytest.approx((0 + 55 + 0) / 3)] * 3
    platform = read_platform(tmp_path / "site" / "platform.json")
    load = read_workload(tmp_path / "site" / "jobs.swf", platform)
    assert load.site.dependencies.tolist() == [
        (1, 0, DependencyKind.AFTER_ANY, 0),
        (2, 0, DependencyKind.THINK, 7),
    ]
    assert load.site.jobs["partitions"].tolist() == [1, 2, 2]
    log = read_swf(tmp_path / "site" / "jobs.swf")
    assert log.rows["think_s"].tolist() == [-1, -1, 7]
    assert "1 of 3 jobs are submitted after the end" in log.dependencies(has_rules=True)
    assert "2 of 3 jobs name a preceding job" in log.dependencies()


def test_an_anonymous_site_simulates_as_the_plain_one(tmp_path: Path):
    (tmp_path / "key").write_bytes(b"k" * 32)
    loads = []
    for name, key in (("plain", None), ("secret", tmp_path / "key")):
        (tmp_path / name).mkdir()
        site = imported(tmp_path / name, by_dependencies=True, key=key, n_replayed=0)
        platform = read_platform(site / "platform.json")
        loads.append(read_workload(site / "jobs.swf", platform, bandwidth="none"))
    plain, secret = loads
    assert secret.job_ids != plain.job_ids
    columns = [name for name in plain.site.jobs.dtype.names if name != "array"]
    assert secret.site.jobs[columns].tolist() == plain.site.jobs[columns].tolist()
    assert secret.site.dependencies.tolist() == plain.site.dependencies.tolist()
    arrays = [load.site.jobs["array"] for load in loads]
    assert np.array_equal(*(np.unique(one, return_inverse=True)[1] for one in arrays))
    starts = [simulate(platform, load, "slurm", energy=False).records["start_s"] for load in loads]
    assert np.array_equal(*starts)


def test_only_the_jobs_that_are_replayed_have_columns(tmp_path: Path):
    site = imported(tmp_path, by_dependencies=True, n_replayed=3)
    log = read_swf(site / "jobs.swf")
    assert log.columns is not None
    some = log.columns.of_jobs({"2", "8"})
    assert [cells["job"] for _, cells in some.rows] == ["2", "8"]
    assert all(not cells["dependencies"] for _, cells in some.rows)


def test_downtimes_from_a_table_and_from_slurm(tmp_path: Path):
    (tmp_path / "down.csv").write_text("start,end,nodes,kind\n2026-01-01T00:00:00,2026-01-02T00:00:00,a[1-2],drain\n")
    (tmp_path / "res.txt").write_text(
        "ReservationName=m StartTime=2026-01-01T01:00:00 EndTime=2026-01-01T02:00:00 Duration=01:00:00\n"
        "   Nodes=b1 NodeCnt=1 CoreCnt=8 Features=(null) PartitionName=main Flags=MAINT,WEEKLY,SPEC_NODES\n\n"
        "ReservationName=class StartTime=2026-01-01T01:00:00 EndTime=2026-01-01T02:00:00\n   Nodes=b2 Flags=DAILY\n"
    )
    table = read_downtimes(tmp_path / "down.csv", Clock(None)).found
    assert [(one.nodes, one.kind, one.span_s[1] - one.span_s[0]) for one in table] == [("a[1-2]", "drain", 86400)]
    read = read_downtimes(tmp_path / "res.txt", Clock(None))
    slurm = read.joined_to(SiteConf(), DAY_S, 4 * DAY_S - AFTER_S, Clock(None))
    assert [(one.nodes, one.kind, one.span_s[1] - one.span_s[0]) for one in slurm.downtimes] == [
        ("b1", "reservation", 3600)
    ]
    assert "1 reservations are for users" in slurm.notes[0]
    assert slurm.notes[1] == (
        "res.txt: reservation 'm' repeats (WEEKLY): simulations have 1 of them, from 2026-01-01T01:00:00+00:00 to "
        "2026-01-01T02:00:00+00:00, also before the one that Slurm shows"
    )


DAY_S = 86400.0


def repetitions(folder: Path, flag: str, zone: str, shown: str, first: str, last: str) -> list[str]:
    """Return when a reservation of an hour begins, on the clocks of its zone, and check that it ends 60 minutes on.

    Parameters
    ----------
    shown
        The begin of the reservation that Slurm shows.
    first, last
        Dates of the log.
    """
    begin = datetime.fromisoformat(shown)
    (folder / "res.txt").write_text(
        f"ReservationName=m StartTime={shown} EndTime={(begin + timedelta(minutes=60)).isoformat()}\n"
        f"   Nodes=b1 Flags=MAINT,{flag},SPEC_NODES\n"
    )
    clock = Clock(ZoneInfo(zone))
    period = clock.second(first), clock.second(last) - AFTER_S
    found = read_downtimes(folder / "res.txt", clock).joined_to(SiteConf(), *period, clock).downtimes
    assert {one.span_s[1] - one.span_s[0] for one in found} == {3600}
    begins = [datetime.fromtimestamp(one.span_s[0], ZoneInfo(zone)) for one in found]
    return [one.replace(tzinfo=None).isoformat(" ", "minutes") for one in begins]


@pytest.mark.parametrize(
    ("flag", "shown", "first", "last", "expected"),
    [
        # 2026-03-27 is a Friday; in Madrid, clocks skip an hour on Sunday, 2026-03-29 at 2:00.
        (
            "DAILY",
            "2026-03-30T06:00:00",
            "2026-03-27T06:59:00",
            "2026-03-31T06:00:01",
            ["2026-03-27 06:00", "2026-03-28 06:00", "2026-03-29 06:00", "2026-03-30 06:00", "2026-03-31 06:00"],
        ),
        # One that ends as the log begins does not count, nor one that begins as it ends.
        (
            "DAILY",
            "2026-03-30T06:00:00",
            "2026-03-29T07:00:00",
            "2026-03-31T06:00:00",
            ["2026-03-30 06:00"],
        ),
        (
            "WEEKLY",
            "2026-03-27T06:00:00",
            "2026-03-14T00:00:00",
            "2026-04-11T00:00:00",
            ["2026-03-20 06:00", "2026-03-27 06:00", "2026-04-03 06:00", "2026-04-10 06:00"],
        ),
        (
            "WEEKDAY",
            "2026-03-27T23:00:00",
            "2026-03-25T23:59:00",
            "2026-03-31T00:00:00",
            ["2026-03-25 23:00", "2026-03-26 23:00", "2026-03-27 23:00", "2026-03-30 23:00"],
        ),
        (
            "WEEKEND",
            "2026-04-04T06:00:00",
            "2026-03-28T00:00:00",
            "2026-04-05T00:00:00",
            ["2026-03-28 06:00", "2026-03-29 06:00", "2026-04-04 06:00"],
        ),
        # Clocks go from 1:59 to 3:00.
        (
            "HOURLY",
            "2026-03-29T04:30:00",
            "2026-03-29T00:00:00",
            "2026-03-29T05:00:00",
            ["2026-03-28 23:30", "2026-03-29 00:30", "2026-03-29 01:30", "2026-03-29 03:30", "2026-03-29 04:30"],
        ),
        # What Slurm shows counts even beyond the log.
        (
            "DAILY",
            "2026-07-01T06:00:00",
            "2026-01-01T06:59:00",
            "2026-01-01T09:00:00",
            ["2026-01-01 06:00", "2026-07-01 06:00"],
        ),
    ],
)
def test_reservations_repeat_at_the_same_time_of_the_clock(
    tmp_path: Path, flag: str, shown: str, first: str, last: str, expected: list[str]
):
    assert repetitions(tmp_path, flag, "Europe/Madrid", shown, first, last) == expected


def test_reservations_that_last_longer_than_their_period_count_once(tmp_path: Path):
    text = (
        "ReservationName=m StartTime=2026-01-01T01:00:00 EndTime=9026-01-01T02:00:00\n   Nodes=b1 Flags=MAINT,DAILY\n"
    )
    (tmp_path / "res.txt").write_text(text)
    clock = Clock(None)
    found = read_downtimes(tmp_path / "res.txt", clock).joined_to(SiteConf(), 0.0, 1e12, clock)
    assert len(found.downtimes) == 1
    assert found.notes == (
        "res.txt: reservation 'm' repeats (DAILY), but lasts longer than that: only the date shown counts",
    )


def test_long_words_are_read_in_no_time(tmp_path: Path):
    line = "ReservationName=m StartTime=2026-01-01T01:00:00 EndTime=2026-01-01T02:00:00 Flags=MAINT "
    (tmp_path / "res.txt").write_text(line + "x" * 1_000_000)
    begin_s = time.process_time()
    assert len(read_downtimes(tmp_path / "res.txt", Clock(None)).found) == 1
    assert time.process_time() - begin_s < 10


def test_reservations_do_not_repeat_for_ever(tmp_path: Path):
    text = (
        "ReservationName=m StartTime=2026-01-01T01:00:00 EndTime=2026-01-01T02:00:00\n   Nodes=b1 Flags=MAINT,HOURLY\n"
    )
    (tmp_path / "res.txt").write_text(text)
    clock = Clock(None)
    last_s = clock.second("2026-01-01T03:00:00")
    found = read_downtimes(tmp_path / "res.txt", clock).joined_to(SiteConf(), 0.0, last_s, clock)
    assert len(found.downtimes) == MOST
    assert found.downtimes[-1].span_s[1] == last_s + AFTER_S


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("begin,end\n", r"csv:1: has the column 'begin'"),
        ("start\n", r"csv:1: has no columns start and end"),
        ("start,end\n2026-01-01T00:00:00,soon\n", r"csv:2: has 'soon' for a date"),
        ("start,end\n2026-01-02T00:00:00,2026-01-01T00:00:00\n", r"csv:2: ends at 2026-01-01"),
        ("start,end,kind\n2026-01-01T00:00:00,2026-01-02T00:00:00,rest\n", r"csv:2: has the kind 'rest'"),
        ("start,end,nodes\n2026-01-01T00:00:00,2026-01-02T00:00:00,a[1\n", r"csv:2: nodes has a bracket"),
    ],
)
def test_downtimes_that_make_no_sense(tmp_path: Path, text: str, message: str):
    (tmp_path / "down.csv").write_text(text)
    with pytest.raises(ReadError, match=message):
        read_downtimes(tmp_path / "down.csv", Clock(None))


def test_accounts_of_sacctmgr(tmp_path: Path):
    (tmp_path / "assoc.txt").write_text(
        "Account|ParentName|User|Share|GrpTRES\nroot|||1|\nphysics|root||3|cpu=16\nphysics||ann|1|\n"
    )
    found = read_associations(tmp_path / "assoc.txt")
    assert found.accounts == {
        "root": {"Share": "1"},
        "physics": {"ParentName": "root", "Share": "3", "GrpTRES": "cpu=16"},
    }
    assert found.users == {}
    site = imported(tmp_path, accounts=tmp_path / "assoc.txt")
    rules = read_platform(site / "platform.json").site
    assert rules is not None
    assert rules.account_names == ("root", "physics")


ASSOCIATIONS = """Account|Par Name|User|Partition|Share|MaxJobs|GrpTRES|MaxTRESMins
root||||1|||
labs|root|||1|9||
bio|labs|||1|||
bio||ann||3||cpu=4|7
bio||ann|main|1|1||
bio||bob||1|||
"""


def test_limits_of_users_hold_in_simulations_and_those_that_do_not_are_named(tmp_path: Path):
    (tmp_path / "assoc.txt").write_text(ASSOCIATIONS)
    site = imported(tmp_path, accounts=tmp_path / "assoc.txt")
    notes = " ".join(json.loads((site / "import.json").read_text())["notes"])
    assert "o simulation follows MaxTRESMins of user ann of bio" in notes
    assert "o simulation follows associations of users with one partition: 1" in notes
    platform = read_platform(site / "platform.json")
    rules = platform.site
    assert rules is not None
    assert rules.accounts["parent"].tolist() == [-1, 0, 1]
    assert (rules.association_names, rules.associations["shares"].tolist()) == (("bio/ann",), [3])
    assert (rules.associations["parent"].tolist(), rules.associations["group_cores"].tolist()) == ([2], [4])
    load = read_workload(site / "jobs.swf", platform)
    assert load.site.jobs["association"].tolist() == [0] * load.n_jobs
    # All jobs are of this user in this account, so that only one of four cores runs at a time.
    records = simulate(platform, load, "fcfs").records
    started = np.flatnonzero(records["start_s"] >= 0)
    starts_s, ends_s = (records[started]["start_s"], (records["start_s"] + records["run_s"])[started])
    order = np.argsort(starts_s)
    assert np.all(starts_s[order][1:] >= ends_s[order][:-1])


def test_users_of_a_shared_site_have_secret_names(tmp_path: Path):
    (tmp_path / "assoc.txt").write_text(ASSOCIATIONS)
    (tmp_path / "key").write_bytes(bytes(range(32)))
    site = imported(tmp_path, accounts=tmp_path / "assoc.txt", key=tmp_path / "key")
    for path in site.iterdir():
        assert not any(name in path.read_text() for name in ("labs", "bio", "bob", "|ann", '"ann', "/ann", " ann "))
    platform = read_platform(site / "platform.json")
    assert platform.site is not None
    assert platform.site.accounts["parent"].tolist() == [-1, 0, 1]
    load = read_workload(site / "jobs.swf", platform)
    assert load.site.jobs["association"].tolist() == [0] * load.n_jobs


def test_jobs_of_users_that_the_site_does_not_limit_any_more_are_counted(tmp_path: Path):
    (tmp_path / "assoc.txt").write_text(ASSOCIATIONS)
    site = imported(tmp_path, accounts=tmp_path / "assoc.txt")
    rules = json.loads((site / "site.json").read_text())
    del rules["users"]
    (site / "site.json").write_text(json.dumps(rules))
    load = read_workload(site / "jobs.swf", read_platform(site / "platform.json"))
    reason = "jobs of a user whom the site does not limit, with limits of the account"
    assert load.origin["site"] == {reason: load.n_jobs}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Account|User|MaxJobs\nbio|ann|1\n", r"txt:2: has a user of account 'bio', but not this account"),
        ("Account|User|MaxJobs\nbio||\nbio|ann|1\nbio|ann|2\n", r"txt:4: has user 'ann' of account 'bio' again"),
    ],
)
def test_associations_that_make_no_sense(tmp_path: Path, text: str, message: str):
    (tmp_path / "assoc.txt").write_text(text)
    with pytest.raises(ReadError, match=message):
        read_associations(tmp_path / "assoc.txt")


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"MaxJobs": "many"}, "user ann of account bio has MaxJobs 'many', expected a whole number"),
        ({"MaxJobs": "99999999999"}, "has MaxJobs '99999999999', expected a whole number up to 2,147,483,647"),
        ({"MaxWall": "long"}, "user ann of account bio has MaxWall 'long', expected days"),
        ({"GrpTRES": "gres/gpu=x"}, "has GrpTRES 'gres/gpu=x', expected for instance gres/gpu=64"),
    ],
)
def test_limits_of_users_that_make_no_sense(tmp_path: Path, limit: dict[str, str], message: str):
    conf = read_conf(imported(tmp_path) / "site.json")
    with pytest.raises(PlatformError, match=message):
        rules_of(replace(conf, accounts={"bio": {}}, users={"bio": {"ann": limit}}))


def test_a_partition_has_the_qos_that_slurm_conf_names(tmp_path: Path):
    (tmp_path / "qos.txt").write_text("Name|GrpTRES\nfew|cpu=4\n")
    (tmp_path / "slurm.conf").write_text(
        CONF.replace("PartitionName=big", "PartitionName=big QOS=few") + "AccountingStorageEnforce=limits\n"
    )
    (tmp_path / "sacct.txt").write_text(HEADER + ROWS)
    choices = ImportChoices(confs=(tmp_path / "slurm.conf",), qos=tmp_path / "qos.txt")
    found = import_site([tmp_path / "sacct.txt"], tmp_path / "site", choices)
    assert not any("QOS" in note for note in found.notes)
    rules = read_platform(tmp_path / "site" / "platform.json").site
    assert rules is not None
    assert rules.partitions["qos"].tolist() == [-1, 0]


def test_a_machine_grows_and_shrinks_with_its_partitions(tmp_path: Path):
    conf = read_conf(imported(tmp_path) / "site.json")
    larger, smaller = scaled(conf, 1.5), scaled(conf, 0.5)
    assert (n_cores(larger), n_cores(smaller)) == (6 * 4 + 3 * 8, 2 * 4 + 8)
    assert (len(larger.nodes_of("main")), len(larger.nodes_of("big"))) == (6, 3)
    assert smaller.nodes_of("main") == {"a1", "a2"}
    assert scaled(conf, 1.0).nodes_of("big") == conf.nodes_of("big")


def test_waits_by_partition(tmp_path: Path):
    site = imported(tmp_path, n_replayed=0)
    question = WhatIf(("+50%",), ("slurm", "fcfs+easy"), window=6, n_windows=1, warm_up=0)
    answer = what_if(site, question, n_workers=1)
    numbers = answer["rows"][0]["numbers"]
    # Only the job that asks for both may run in big.
    assert numbers["partition big"][0] == 0
    assert {"partition main", "partition big"} <= numbers.keys()
    assert answer["question"]["site_rules"]
    assert "Mean waits by partition" in answer_text(answer)
    free = what_if(site, replace(question, site_rules=False, policies=("fcfs+easy",)), n_workers=1)
    assert "Partitions are not enforced: any job may start on any node." in free["notes"]
    assert "partition main" not in free["rows"][0]["numbers"]

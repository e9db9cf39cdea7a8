"""Rules beside a platform, columns beside a log: read, attached, carried along, refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from hdrl.base.errors import PlatformError, ReadError, WorkloadError
from hdrl.batch import check_fits, fits, read_platform, read_swf, read_workload
from hdrl.settings.batch.site_rules.columns import COLUMNS, SiteColumns, read_columns, write_columns
from hdrl.settings.batch.site_rules.conf import Nodes, SiteConf, read_conf
from hdrl.settings.batch.site_rules.model import DependencyKind, HetjobPrio, PreemptMode
from hdrl.settings.batch.site_rules.rules import ignored_parameters, rules_of, scheduler_parameters
from hdrl.slurm.recorded import read_run

RECORDED = Path(__file__).parents[5] / "shared" / "slurm" / "runs"

SITE = {
    "name": "ours",
    "nodes": [
        {"names": "n[1-4]", "cores": 8, "memory_mib": 16000, "features": ["ib"]},
        {"names": "g[1-2]", "cores": 4, "memory_mib": 32000, "gpus": 2, "features": ["ib", "a100"], "weight": 10},
    ],
    "partitions": {
        "main": {"nodes": "n[1-4]", "max_time_s": 7200, "is_default": True, "priority": 10},
        "gpu": {"nodes": "g[1-2]", "max_nodes": 1, "tier": 3},
        "all": {"nodes": "", "min_nodes": 2},
    },
    "scheduler": {
        "SchedulerParameters": "bf_interval=20,bf_window=2880,bf_continue,bf_max_job_test=-1,defer,bf_hetjob_prio=avg",
        "PriorityWeightAge": "1000",
        "PriorityMaxAge": "0-06:00:00",
        "PriorityFlags": "NO_FAIR_TREE",
    },
    "qos": {"high": {"Priority": "10", "Preempt": "low", "PreemptMode": "requeue", "MaxWall": "01:00:00"}, "low": {}},
    "accounts": {"root": {}, "physics": {"ParentName": "root", "Share": "3", "GrpTRES": "cpu=16,mem=4G"}},
    "downtimes": [
        {"start": "2026-01-01T01:00:00Z", "end": "2026-01-01T02:00:00Z", "nodes": "n[3-4]"},
        {"start": "2026-01-01T03:00:00Z", "end": "2026-01-01T04:00:00Z", "nodes": "g1", "kind": "failure"},
    ],
}
BEGAN_S = 1767225600  # 2026-01-01
PLATFORM = {
    "site_rules": "site.json",
    "clusters": [
        {
            "id": "site",
            "nodes": [{"type": "n", "number": 4}, {"type": "g", "number": 2}],
            "local_links": {"type": "100 Gigabit Ethernet", "latency": "0us"},
        }
    ],
    "global_links": {"type": "100 Gigabit Ethernet", "latency": "0us"},
    "types": {
        "processors": {
            name: {"cores": cores, "clock_rate": 1.0, "dpflops_per_cycle": 1.0, "mem_bw": 1e9, "power": 10.0}
            for name, cores in (("p8", 8), ("p4", 4))
        },
        "nodes": {
            name: {"processors": [{"type": kind, "number": 1}], "memory": {"capacity": 1e9}}
            for name, kind in (("n", "p8"), ("g", "p4"))
        },
    },
}
LOG = """; UnixStartTime: {began}
; SiteColumns: jobs.site.csv
; Partition: 0 main
; Partition: 1 gpu
; Partition: 2 elsewhere
; Queue: 0 low
1 100 -1 60 8 -1 -1 8 120 -1 1 0 -1 -1 0 0 -1 -1
2 200 -1 60 4 -1 -1 4 120 -1 1 1 -1 -1 -1 1 -1 -1
3 300 -1 60 4 -1 -1 4 120 -1 1 1 -1 -1 -1 2 -1 -1
4 400 -1 60 1 -1 -1 1 120 -1 1 1 -1 -1 -1 -1 -1 -1
"""
COLUMNS_FILE = """job,partitions,features,gpus,account,begin_s,nice,dependencies
2,,a100,2,physics,,-100,
4,"main,all",,,,450.5,,"afterok:1,after:2+5"
"""


def site_folder(folder: Path, *, site: object = SITE, columns: str = COLUMNS_FILE, log: str = LOG) -> Path:
    (folder / "platform.json").write_text(json.dumps(PLATFORM))
    (folder / "site.json").write_text(json.dumps(site))
    (folder / "jobs.swf").write_text(log.replace("{began}", str(BEGAN_S)))
    (folder / "jobs.site.csv").write_text(columns)
    return folder


def test_a_platform_has_the_rules_beside_it(tmp_path: Path):
    platform = read_platform(site_folder(tmp_path) / "platform.json")
    rules = platform.site
    assert rules is not None
    assert rules.node_names == ("n1", "n2", "n3", "n4", "g1", "g2")
    assert rules.nodes["features"].tolist() == [1, 1, 1, 1, 3, 3]
    assert rules.partition_nodes.tolist() == [[True] * 4 + [False] * 2, [False] * 4 + [True] * 2, [True] * 6]
    assert rules.partitions["max_time_s"].tolist() == [7200, np.inf, np.inf]
    assert rules.partitions["max_nodes"].tolist() == [-1, 1, -1]
    assert (rules.scheduler.bf_interval_s, rules.scheduler.bf_window_s) == (20, 2880 * 60)
    assert rules.scheduler.bf_continue
    assert rules.scheduler.bf_max_job_test == 2**31 - 1
    assert rules.scheduler.bf_hetjob_prio == HetjobPrio.AVG
    with pytest.raises(PlatformError, match="SchedulerParameters has bf_hetjob_prio='most'; "):
        scheduler_parameters({"SchedulerParameters": "bf_hetjob_prio=most"})
    assert ignored_parameters(SITE["scheduler"]) == ["defer"]
    assert (rules.weights.age, rules.weights.max_age_s, rules.weights.is_fair_tree) == (1000, 6 * 3600, False)
    assert rules.qos["preempts"].tolist() == [2, 0]
    assert rules.qos["preempt_mode"].tolist() == [PreemptMode.REQUEUE, PreemptMode.OFF]
    assert rules.qos["max_time_s"].tolist() == [3600, np.inf]
    assert rules.accounts["parent"].tolist() == [-1, 0]
    assert rules.accounts["group_cores"].tolist() == [-1, 16]
    assert rules.reservations["start_s"].tolist() == [BEGAN_S + 3600]
    assert rules.reservation_nodes.tolist() == [[False, False, True, True, False, False]]
    assert rules.outages.tolist() == [(4, BEGAN_S + 3 * 3600, BEGAN_S + 4 * 3600, 0)]


def test_rules_count_in_the_hash_of_a_platform_and_only_where_it_has_some(tmp_path: Path):
    with_rules = read_platform(site_folder(tmp_path) / "platform.json")
    plain = {key: value for key, value in PLATFORM.items() if key != "site_rules"}
    (tmp_path / "plain.json").write_text(json.dumps(plain))
    without = read_platform(tmp_path / "plain.json")
    assert without.site is None
    assert without.sha256() != with_rules.sha256()
    (tmp_path / "site.json").write_text(json.dumps({**SITE, "qos": {}}))
    assert read_platform(tmp_path / "platform.json").sha256() != with_rules.sha256()
    assert read_platform(tmp_path / "platform.json") != with_rules


def test_jobs_have_the_columns_beside_their_log(tmp_path: Path):
    platform = read_platform(site_folder(tmp_path) / "platform.json")
    workload = read_workload(tmp_path / "jobs.swf", platform)
    site = workload.site
    assert site is not None
    # The log names a partition that the site lacks: job 3 goes to the default one.
    assert site.jobs["partitions"].tolist() == [1, 2, 0, 5]
    assert workload.origin["site"] == {"jobs of partitions that the site lacks, which go to its default one": 1}
    assert site.jobs["qos"].tolist() == [1, -1, -1, -1]
    assert site.jobs["features"].tolist() == [0, 2, 0, 0]
    assert site.jobs["gpus"].tolist() == [0, 2, 0, 0]
    assert site.jobs["account"].tolist() == [-1, 1, -1, -1]
    assert site.jobs["nice"].tolist() == [0, -100, 0, 0]
    assert site.jobs["begin_s"].tolist() == [-np.inf, -np.inf, -np.inf, 350.5]  # the first submission is date 0
    assert site.origin_s == BEGAN_S + 100
    assert site.dependencies.tolist() == [(3, 0, DependencyKind.AFTER_OK, 0), (3, 1, DependencyKind.AFTER, 300)]


def test_a_window_takes_the_columns_with_it(tmp_path: Path):
    platform = read_platform(site_folder(tmp_path) / "platform.json")
    whole = read_workload(tmp_path / "jobs.swf", platform)
    window = whole.window(1, 3)
    assert window.site is not None
    assert window.site.jobs["partitions"].tolist() == [2, 0, 5]
    assert window.site.jobs["begin_s"].tolist() == [-np.inf, -np.inf, 250.5]
    assert window.site.origin_s == BEGAN_S + 200
    # The job that ended before the window has fulfilled its dependency.
    assert window.site.dependencies.tolist() == [(2, 0, DependencyKind.AFTER, 300)]
    later = read_workload(tmp_path / "jobs.swf", platform, start=1).site
    assert later is not None
    assert all(
        np.array_equal(one, two) for (_, one), (_, two) in zip(later.columns(), window.site.columns(), strict=True)
    )
    assert window.sha256() != whole.take(np.array([1, 2, 3])).sha256()


def test_columns_mean_nothing_on_a_machine_without_rules(tmp_path: Path):
    site_folder(tmp_path)
    workload = read_workload(tmp_path / "jobs.swf", read_platform("homogeneous:40"))
    assert workload.site is None
    assert read_swf(tmp_path / "jobs.swf").columns is not None


def test_jobs_that_no_partition_can_run_are_found(tmp_path: Path):
    log = (
        LOG
        + "5 500 -1 60 12 -1 -1 12 120 -1 1 1 -1 -1 -1 1 -1 -1\n6 600 -1 60 32 -1 -1 32 120 -1 1 1 -1 -1 -1 0 -1 -1\n"
    )
    platform = read_platform(site_folder(tmp_path, log=log) / "platform.json")
    workload = read_workload(tmp_path / "jobs.swf", platform)
    assert fits(workload, platform).tolist() == [True, True, True, True, False, True]  # gpu has 4 cores on one node
    with pytest.raises(WorkloadError, match="'w0!5' asks for 12 cores, which none of its partitions"):
        check_fits(workload, platform)
    assert check_fits(workload, platform, oversized="drop").n_jobs == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"nodes": SITE["nodes"][:1], "partitions": {}, "downtimes": []},
            r"has 6 nodes with 40 cores, but site.json has 4 with 32",
        ),
        ({"partitions": {"main": {"nodes": "x[1-3]"}}}, r"partition main names no node of the machine, but 'x1'"),
        ({"scheduler": {"SchedulerParameters": "bf_interval=often"}}, r"bf_interval='often', expected a whole number"),
        ({"scheduler": {"PriorityMaxAge": "old"}}, r"PriorityMaxAge is 'old', expected minutes"),
        ({"qos": {"high": {"GrpTRES": "cpu=all"}}}, r"QOS high has GrpTRES 'cpu=all'"),
        ({"partitions": {f"p{n}": {} for n in range(65)}}, r"has 65 partitions, expected at most 64"),
        (
            {"downtimes": [{"start": "2026-01-01", "end": "2026-01-02"}]},
            r"downtimes\[0\]: date '2026-01-01' has no time zone",
        ),
        ({"downtimes": [{"start": "2026-01-02T00:00Z", "end": "2026-01-01T00:00Z"}]}, r"ends at 2026-01-01"),
    ],
)
def test_rules_that_make_no_sense_are_refused(tmp_path: Path, change: dict[str, object], message: str):
    site_folder(tmp_path, site={**SITE, **change})
    with pytest.raises((PlatformError, ReadError), match=message):
        read_platform(tmp_path / "platform.json")


@pytest.mark.parametrize("name", ["../site.json", "/etc/passwd", "..", ""])
def test_rules_are_only_read_beside_the_platform(tmp_path: Path, name: str):
    site_folder(tmp_path)
    (tmp_path / "platform.json").write_text(json.dumps({**PLATFORM, "site_rules": name}))
    with pytest.raises(PlatformError, match="site_rules"):
        read_platform(tmp_path / "platform.json")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("job,colour\n", r"csv:1: has the column 'colour'"),
        ("nodes\n3\n", r"has no column job"),
        ("job,nodes\n9,1\n", r"csv:2: .*names job 9, which the log does not have"),
        ("job,nodes\n1,many\n", r"csv:2: has 'many', expected a whole"),
        ("job,partitions\n1,mian\n", r"csv:2: .*names the partition 'mian'.*main"),
        ("job,begin_s\n1,nan\n", r"csv:2: .*has the date 'nan'"),
        ("job,dependencies\n1,later:2\n", r"csv:2: .*dependencies has 'later:2'"),
        ("job,dependencies\n1,afterok\n", r"csv:2: .*dependencies has 'afterok'"),
        ("job,nodes\n1\n", r"csv:2: .*has 1 cells, expected 2"),
        ("job,het_group\n1,-1\n", r"csv:2: .*has the het_group '-1', expected a whole number, at least 0"),
        ("job,het_group,array\n1,1,\n2,1,3\n", r"csv.* has job 2 in an array and in a het job, expected one of them"),
    ],
)
def test_columns_that_make_no_sense_are_refused(tmp_path: Path, columns: str, message: str):
    platform = read_platform(site_folder(tmp_path, columns=columns) / "platform.json")
    with pytest.raises(ReadError, match=message):
        read_workload(tmp_path / "jobs.swf", platform)


def test_jobs_of_federations_have_large_numbers():
    columns = SiteColumns(Path("columns"), ((2, {"job": "2684354561", "het_group": "7"}),))
    assert columns.het_groups(np.array([2684354561.0, 1.0])).tolist() == [7, -1]


def test_het_jobs_have_at_most_so_many_components(tmp_path: Path):
    lines = [f"{number} 100 -1 60 1 -1 -1 1 120 -1 1 1 -1 -1 -1 0 -1 -1\n" for number in range(1, 130)]
    log = LOG.partition("1 100")[0] + "".join(lines)
    for n_components in (128, 129):
        columns = "job,het_group\n" + "".join(f"{number},5\n" for number in range(1, n_components + 1))
        platform = read_platform(site_folder(tmp_path, log=log, columns=columns) / "platform.json")
        if n_components == 128:
            site = read_workload(tmp_path / "jobs.swf", platform).site
            assert site is not None
            assert np.count_nonzero(site.jobs["het_group"] == 5) == 128
            continue
        with pytest.raises(ReadError, match="has 129 jobs with het_group 5, expected at most 128"):
            read_workload(tmp_path / "jobs.swf", platform)


def test_columns_are_only_read_beside_the_log(tmp_path: Path):
    platform = read_platform(
        site_folder(tmp_path, log=LOG.replace("jobs.site.csv", "../jobs.site.csv")) / "platform.json"
    )
    with pytest.raises(ReadError, match="expected the name of a file in the same folder"):
        read_workload(tmp_path / "jobs.swf", platform)


def test_columns_that_were_written_are_read_again(tmp_path: Path):
    rows = [{"job": "7", "nice": "-5", "dependencies": "afterok:3,after:4+2"}, {"job": "8", "partitions": "a,b"}]
    write_columns(tmp_path / "jobs.site.csv", rows)
    assert (tmp_path / "jobs.site.csv").read_text().splitlines()[0] == "job,partitions,nice,dependencies"
    assert [cells for _, cells in read_columns(tmp_path / "jobs.site.csv").rows] == rows
    assert set(COLUMNS) >= {"job", "partitions"}


def test_a_site_without_partitions_has_one_of_all_nodes():
    rules = rules_of(SiteConf(nodes=(Nodes("n[1-3]", 3, 4),)))
    assert rules.partition_names == ("all",)
    assert rules.partition_nodes.all()


needs_recordings = pytest.mark.skipif(
    not RECORDED.is_dir(), reason="the recorded runs of Slurm are not beside this checkout"
)


@needs_recordings
@pytest.mark.parametrize(("name", "n_jobs"), [("plain-101", 80), ("partitions-201", 80), ("mixed-301", 87)])
def test_recorded_runs_are_read(name: str, n_jobs: int):
    run = read_run(RECORDED / name)
    assert run.workload.n_jobs == n_jobs
    assert np.count_nonzero(np.isfinite(run.start_s)) == n_jobs
    assert np.all(run.start_s[np.isfinite(run.start_s)] >= run.workload.jobs["submit_s"][np.isfinite(run.start_s)])
    site = run.workload.site
    assert site is not None
    if name == "mixed-301":
        assert len(site.dependencies) == 3
        assert np.count_nonzero(site.jobs["array"] >= 0) == 10
        assert np.count_nonzero(np.isfinite(site.jobs["cancelled_s"])) == 3
        assert np.count_nonzero(np.isfinite(site.jobs["held_until_s"])) == 1
        assert run.platform.site.reservation_nodes.tolist() == [[False] * 4 + [True] * 4]


@needs_recordings
def test_the_conf_of_a_recording():
    conf = read_conf(RECORDED / "mixed-301" / "slurm.conf")
    rules = rules_of(conf)
    assert rules.partition_names == ("main", "wide", "debug")
    assert rules.partitions["tier"].tolist() == [1, 1, 5]
    # Without accounting, jobs of this Slurm have no age.
    assert (rules.weights.age, rules.weights.job_size, rules.weights.partition) == (0, 2000, 3000)
    assert rules.scheduler.bf_window_s == 2880 * 60

"""From accounting data to a folder that other commands take, with a report that counts everything."""

import errno
import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from hdrl.base.errors import HdrlError, OutputError, ReadError
from hdrl.batch import read_platform, read_swf, read_workload, simulate
from hdrl.launcher.main import cli
from hdrl.metrics.orders import discordant_share
from hdrl.settings.batch.site_rules.conf import joined, read_qos
from hdrl.settings.batch.site_rules.ignored import limits_not_enforced
from hdrl.site import ImportChoices, example, import_site, read_conf, read_report
from hdrl.site.importing import OTHER_CLUSTERS, TOO_WIDE
from hdrl.site.joining import CANCELLED, PENDING
from hdrl.site.log import UNLIMITED_S

RECORDED = Path(__file__).parents[3] / "shared" / "slurm"

CONF = """\
ClusterName=tiny
SelectTypeParameters=CR_Core  # no memory
SchedulerParameters=bf_interval=30,bf_continue
NodeName=DEFAULT CPUs=4 RealMemory=1000
NodeName=a[1-2] \\
    State=UNKNOWN
NodeName=g1 CPUs=8 Gres=gpu:a100:2 Features=fast,new
NodeSet=all Nodes=a[1-2],g1
PartitionName=DEFAULT State=UP
PartitionName=main Nodes=a[1-2] Default=YES MaxTime=1-00:00:00
PartitionName=gpu Nodes=g1 MaxTime=UNLIMITED PriorityTier=3
PartitionName=any Nodes=all MaxNodes=3
StoragePass=secret
"""
HEADER = "JobID|User|Account|JobName|Partition|QOS|Submit|Eligible|Start|End|TimelimitRaw|AllocCPUS|AllocTRES|State\n"
ROW = (
    "{id}|{user}|{account}|run|{partition}|normal|{at}00|{at}00|{at}{start:02d}|{at}{end:02d}|{limit}|{cores}|{tres}|"
    "COMPLETED\n"
)


def row(job: int, start: int, end: int, **changes: object) -> str:
    values = {"user": "ann", "account": "bio", "partition": "main", "limit": 5, "cores": 4, "tres": "cpu=4"} | changes
    return ROW.format(id=job, at="2025-01-01T00:00:", start=start, end=end, **values)


def write(folder: Path, rows: str, conf: str = CONF) -> tuple[Path, Path]:
    (folder / "sacct.txt").write_text(HEADER + rows)
    (folder / "slurm.conf").write_text(conf)
    return folder / "sacct.txt", folder / "slurm.conf"


THREE = row(1, 0, 20) + row(2, 0, 30) + row(3, 30, 50, cores=16, partition="any", user="bob")


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in words], prog_name="hdrl")


def fails(message: str, *words: str | Path) -> None:
    done = call(*words)
    errors = [line for line in done.stderr.splitlines() if "error: " in line]
    assert (done.exit_code, len(errors)) == (2, 1), done.stderr
    assert message in errors[0]


def test_a_replay_is_as_far_as_it_is_by_hand(tmp_path: Path):
    dump, conf = write(tmp_path, THREE)
    found = import_site([dump], tmp_path / "site", ImportChoices(confs=(conf,)))
    # All three are eligible at once. 4 + 4 of 16 cores run; the third needs all and starts when both have ended.
    for one in found.replays.replays:
        assert one.whole.discordant_share == 0
        assert (one.whole.mean_wait_s, one.whole.site_mean_wait_s) == pytest.approx((10, 10), abs=1e-3)
        assert list(one.by_partition) == ["any", "main"] or list(one.by_partition) == ["main", "any"]
        assert list(one.by_week) == ["2025-W01"]
    assert "(0.00% of all pairs)" in read_report(tmp_path / "site" / "import.json")["verdict"]
    # The site let the third job go first, though it fitted last: two of three pairs are in another order.
    rows = row(1, 20, 40) + row(2, 20, 50) + row(3, 0, 20, cores=16, partition="any")
    dump, conf = write(tmp_path, rows)
    found = import_site([dump], tmp_path / "other", ImportChoices(confs=(conf,)))
    assert found.replays.nearest is not None
    assert found.replays.nearest.whole.discordant_share == pytest.approx(2 / 3)
    assert "do not believe simulations of this site yet" in read_report(tmp_path / "other" / "import.json")["certainty"]


def test_a_site_without_waits_is_near_a_replay_without_waits(tmp_path: Path):
    dump, conf = write(tmp_path, row(1, 0, 20) + row(2, 0, 30))
    import_site([dump], tmp_path / "site", ImportChoices(confs=(conf,)))
    report = read_report(tmp_path / "site" / "import.json")
    assert report["verdict"].endswith("; its mean wait is 0 s, and no job waited at the site.")
    assert "far" not in report["certainty"]
    # The site started both at once on more cores than this machine has, so that one waits here.
    dump, conf = write(tmp_path, "".join(row(job, 0, 20, cores=16, partition="any") for job in (1, 2)))
    import_site([dump], tmp_path / "other", ImportChoices(confs=(conf,)))
    report = read_report(tmp_path / "other" / "import.json")
    assert report["verdict"].endswith("s, and no job waited at the site.")
    assert "That is far" in report["certainty"]


def test_commands_take_the_folder_as_it_is(tmp_path: Path):
    dump, conf = write(tmp_path, THREE)
    done = call("site", "import", dump, "--conf", conf, "-o", tmp_path / "site")
    assert done.exit_code == 0, done.stderr
    assert "3 rows, 3 job ids, 3 jobs kept" in done.stdout
    site = tmp_path / "site"
    platform = read_platform(site / "platform.json")
    assert (platform.n_nodes, platform.n_cores) == (3, 16)
    workload = read_workload(site / "jobs.swf", platform)
    assert workload.n_dropped == {}
    assert workload.jobs["cores"].tolist() == [4, 4, 16]
    ran = call("run", site / "options.json", "--out", tmp_path / "run")
    assert ran.exit_code == 0, ran.stderr
    where = ("-p", site / "platform.json", "-w", site / "jobs.swf", "-j", 1)
    compared = call("compare", "sjf+easy", "fcfs+easy", *where, "--out", tmp_path / "compared")
    assert compared.exit_code == 0, compared.stderr
    shown = call("site", "show", site)
    assert shown.stdout == (site / "import.txt").read_text()
    assert json.loads(call("site", "show", site, "--json").stdout) == read_report(site / "import.json")
    page = (site / "import.html").read_text()
    assert "Import of tiny" in page
    assert read_platform(site / "platform.json").site is not None
    assert "not enforced" not in page


def test_what_slurm_conf_says(tmp_path: Path):
    _, path = write(tmp_path, "")
    conf = read_conf(path)
    assert conf.name == "tiny"
    assert [(one.names, one.count, one.cores, one.gpus) for one in conf.nodes] == [("a[1-2]", 2, 4, 0), ("g1", 1, 8, 2)]
    assert conf.nodes[1].features == ("fast", "new")
    assert conf.partitions["main"].max_time_s == 86400
    assert conf.partitions["gpu"].max_time_s is None
    assert (conf.partitions["gpu"].tier, conf.partitions["any"].max_nodes) == (3, 3)
    assert conf.nodes_of("any") == {"a1", "a2", "g1"}
    assert not conf.counts_memory
    assert conf.scheduler == {"SelectTypeParameters": "CR_Core", "SchedulerParameters": "bf_interval=30,bf_continue"}


def test_a_site_that_was_written_is_read_again(tmp_path: Path):
    dump, conf = write(tmp_path, THREE)
    import_site([dump], tmp_path / "site", ImportChoices(confs=(conf,), n_replayed=0))
    assert read_conf(tmp_path / "site" / "site.json") == read_conf(conf)
    assert "secret" not in (tmp_path / "site" / "site.json").read_text()
    again = import_site([dump], tmp_path / "again", ImportChoices(confs=(tmp_path / "site" / "site.json",)))
    assert again.platform.n_cores == 16


def test_several_files_describe_a_site(tmp_path: Path):
    (tmp_path / "a.conf").write_text("ClusterName=x\nInclude nodes.conf\n")
    (tmp_path / "b.conf").write_text("NodeName=n1 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2\n")
    conf = joined([read_conf(tmp_path / "a.conf"), read_conf(tmp_path / "b.conf")])
    assert (conf.name, conf.nodes[0].cores) == ("x", 16)
    assert "'nodes.conf', which was not read" in conf.notes[0]
    (tmp_path / "b.conf").rename(tmp_path / "nodes.conf")
    conf = read_conf(tmp_path / "a.conf")
    assert (conf.nodes[0].cores, conf.notes) == (16, ())
    (tmp_path / "nodes.conf").write_text("NodeName=n1 CPUs=2\ninclude /etc/slurm/a.conf\n")
    assert read_conf(tmp_path / "a.conf").nodes[0].cores == 2
    (tmp_path / "qos.txt").write_text("Name|Priority|GrpTRES\nnormal|0|\nhigh|100|cpu=8\n")
    assert read_qos(tmp_path / "qos.txt") == {
        "normal": {"Priority": "0"},
        "high": {"Priority": "100", "GrpTRES": "cpu=8"},
    }


def test_sets_of_nodes_by_feature_and_nodes_of_the_future(tmp_path: Path):
    path = tmp_path / "slurm.conf"
    text = (
        "nodename=n[1-2]x[1-2] cpus=2 feature=old\nNodeName=m1 CPUs=2 Features=new,fast\n"
        "NodeName=m[2-9] CPUs=2 State=FUTURE\nNodeSet=quick Feature=fast\nPARTITIONNAME=q NODES=quick\n"
    )
    path.write_text(text)
    conf = read_conf(path)
    assert conf.nodes_of("q") == {"m1"}
    assert [one.count for one in conf.nodes] == [4, 1]
    assert "'m[2-9]' are FUTURE" in conf.notes[0]
    path.write_text(text.replace("Feature=fast", "Feature=odd"))
    with pytest.raises(ReadError, match="Nodes=quick names no node"):
        read_conf(path)


def test_what_no_simulation_follows_is_named(tmp_path: Path):
    text = (
        CONF.replace("NodeName=g1", "NodeName=g1 CoreSpecCount=1 State=DRAIN")
        .replace("PartitionName=main", "PartitionName=main QOS=part OverSubscribe=FORCE:4 MaxCPUsPerNode=UNLIMITED")
        .replace("PartitionName=gpu", "PartitionName=gpu QOS=part")
        + "SchedulerType=sched/builtin\nPriorityWeightTRES=CPU=10\nPriorityWeightAssoc=0\n"
        'PriorityFlags=NO_FAIR_TREE,MAX_TRES\nPartitionName=closed Nodes=""\n'
    )
    dump, conf = write(tmp_path, THREE, text)
    head = "Name|Flags|UsageFactor|GrpTRES|GrpTRESMins|GrpJobs|MaxTRESPU|MaxTRES\n"
    qos = _written(
        tmp_path / "qos.txt",
        head + "a|DenyOnLimit|1.000000|cpu=8,gres/gpu=4,mem=4G,gres/gpu:a100=2|9|7||\nb|||||||cpu=4,node=2\n",
    )
    choices = ImportChoices(confs=(conf,), qos=qos, n_replayed=0)
    notes = [note for note in import_site([dump], tmp_path / "site", choices).notes if "no simulation follows" in note]
    assert [note.removeprefix("no simulation follows ") for note in notes] == [
        "SchedulerType=sched/builtin",
        "PriorityWeightTRES=CPU=10",
        "PriorityFlags=MAX_TRES",
        "QOS=part of partition main, gpu, which --qos does not describe",
        "GrpTRES=mem of QOS a",
        "GrpTRES=gres/gpu:a100 of QOS a",
        "GrpTRESMins of QOS a",
        "MaxTRES=node of QOS b",
        "CoreSpecCount=1 of nodes g1",
        "State=DRAIN of nodes g1",
        "OverSubscribe=FORCE:4 of partition main",
    ]
    assert "partition 'closed' has no nodes and is left out" in read_conf(conf).notes
    assert "closed" not in read_conf(conf).partitions


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ("", "AccountingStorageEnforce is not set"),
        ("associations,qos", "AccountingStorageEnforce=associations,qos has no 'limits'"),
        ("Safe", ""),
        ("qos, limits", ""),
    ],
)
def test_limits_that_slurm_does_not_enforce_are_named(words: str, note: str):
    scheduler = {"AccountingStorageEnforce": words} if words else {}
    said = f"{note}: Slurm enforces no limits of QOS and accounts, but simulations do" if note else None
    assert limits_not_enforced(scheduler, ({"Share": "1"}, {"MaxWall": "60"})) == said
    assert limits_not_enforced(scheduler, ({"Priority": "1", "MaxWall": ""},)) is None


def test_files_below_slurm_conf_are_included(tmp_path: Path):
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "nodes.conf").write_text("NodeName=n1 CPUs=2\n")
    (tmp_path / "slurm.conf").write_text("Include conf.d/nodes.conf\n")
    assert read_conf(tmp_path / "slurm.conf").nodes[0].cores == 2


def test_limits_that_are_none(tmp_path: Path):
    rows = (
        row(1, 0, 20, limit="UNLIMITED")
        + row(2, 0, 20, limit="UNLIMITED", partition="gpu")
        + row(3, 0, 20, limit="Partition_Limit")
        + row(4, 0, 20, limit="Partition_Limit", partition="nowhere")
        + row(5, 0, 20, limit="Partition_Limit", partition="gpu")
    )
    dump, conf = write(tmp_path, rows)
    found = import_site([dump], tmp_path / "site", ImportChoices(confs=(conf,), n_replayed=0))
    assert found.log.log.rows["requested_s"].tolist() == [86400, UNLIMITED_S, 86400, -1, UNLIMITED_S]
    assert any("nowhere" in note for note in found.notes)


def test_jobs_that_the_machine_cannot_run_are_left_out(tmp_path: Path):
    dump, conf = write(tmp_path, THREE + row(9, 0, 10, cores=17))
    found = import_site([dump], tmp_path / "site", ImportChoices(confs=(conf,)))
    assert found.jobs.left_out == {TOO_WIDE: 1}
    dump, conf = write(tmp_path, row(9, 0, 10, cores=17))
    fails("no job fits on the 16 cores", "site", "import", dump, "--conf", conf, "-o", tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_memory_counts_where_the_site_says_so(tmp_path: Path):
    conf = CONF.replace("CR_Core ", "CR_Core_Memory ")
    header = HEADER.replace("|State", "|ReqMem|State")
    rows = THREE.replace("|COMPLETED", "|1000Mn|COMPLETED")
    rows += row(9, 0, 10, cores=1).replace("|COMPLETED", "|1001M|COMPLETED")
    dump, path = write(tmp_path, "", conf)
    dump.write_text(header + rows)
    found = import_site([dump], tmp_path / "site", ImportChoices(confs=(path,)))
    assert found.jobs.left_out == {TOO_WIDE: 1}
    assert found.log.log.rows["requested_memory_kb"].tolist()[0] == 256000


def test_names_are_hashed_with_the_key(tmp_path: Path):
    dump, conf = write(tmp_path, THREE)
    (tmp_path / "key").write_bytes(b"k" * 32)
    (tmp_path / "other").write_bytes(b"o" * 32)
    made = {}
    for name in ("key", "other", "key"):
        out = tmp_path / "site"
        words = ("--anonymize", tmp_path / name, "--conf", conf, "-o", out, "--force")
        assert call("site", "import", dump, *words).exit_code == 0
        told = "".join(path.read_text() for path in out.iterdir() if path.is_file() and path.name != "import.html")
        assert "ann" not in told.replace("cannot", "")
        assert "bob" not in told
        names = json.loads((out / "names.json").read_text())
        assert names["partition"] == ["main", "any"]
        assert len(set(names["user"])) == 2
        made.setdefault(name, names["user"])
        assert made[name] == names["user"]
    assert set(made["key"]).isdisjoint(made["other"])
    fails("no such file; make a key by", "site", "import", dump, "--anonymize", tmp_path / "none", "-o", tmp_path / "x")
    (tmp_path / "short").write_text("x")
    fails(
        "expected a key of at least 16", "site", "import", dump, "--anonymize", tmp_path / "short", "-o", tmp_path / "x"
    )


def lines_of(*jobs: tuple[str, str, str, str]) -> str:
    """Return rows of jobs with a name, an account, a directory and a line."""
    told = HEADER.replace("|State", "|State|WorkDir|SubmitLine")
    for number, (name, account, where, line) in enumerate(jobs, start=1):
        one = row(number, number, number + 9, account=account).replace("|run|", f"|{name}|")
        told += one.replace("\n", f"|{where}|{line}\n")
    return told


SIMILAR = (
    ("relax_1", "bio", "/home/ann/p1", "sbatch -N 2 relax.sh 17"),
    ("relax_2", "bio", "/home/ann/p2", "sbatch --time=5 relax.sh 18"),
    ("relax_2", "phys2", "/home/ann/p2", "sbatch other.sh"),
    ("7", "phys3", "/home/bob", "sbatch -n 4 relax.sh 9"),
    ("8", "phys3", "", ""),
)


@pytest.mark.parametrize("is_secret", [False, True])
@pytest.mark.parametrize(
    ("similar", "groups"),
    [
        ("", [0, 1, 1, 2, 3]),
        ("name", [0, 0, 0, 1, 2]),
        ("work_dir", [0, 0, 0, 1, -1]),
        ("submit_line", [0, 0, 1, 0, -1]),
        ("account", [0, 0, 1, 2, 2]),
        ("account, name", [0, 0, 1, 2, 3]),
        ("name,account,work_dir,submit_line", [0, 0, 1, 2, 3]),
    ],
)
def test_an_import_says_which_jobs_are_similar(tmp_path: Path, similar: str, groups: list[int], *, is_secret: bool):
    dump, conf = write(tmp_path, "")
    dump.write_text(lines_of(*SIMILAR))
    (tmp_path / "key").write_bytes(b"k" * 32)
    words = [*("--similar", similar), *(["--anonymize", tmp_path / "key"] if is_secret else [])]
    out = tmp_path / "site"
    done = call("site", "import", dump, "--conf", conf, "--replay", "none", "-o", out, *words)
    assert done.exit_code == 0, done.stderr
    numbers = read_swf(out / "jobs.swf").rows["executable"].astype(int).tolist()
    first = dict.fromkeys(number for number in numbers if number >= 0)
    assert [-1 if number < 0 else list(first).index(number) for number in numbers] == groups
    names = json.loads((out / "names.json").read_text())["executable"]
    assert len(names) == len(set(names)) == len(first)
    told = "".join(path.read_text() for path in out.iterdir() if path.is_file())
    assert "/home" not in told
    assert "relax.sh" not in told
    assert not is_secret or "relax" not in told


def test_columns_of_similar_jobs_are_checked(tmp_path: Path):
    dump, conf = write(tmp_path, THREE)
    words = ("site", "import", dump, "--conf", conf, "-o", tmp_path / "x", "--similar")
    fails("no column of similar jobs 'workdir'; did you mean 'work_dir'", *words, "workdir")
    fails("--similar work_dir: no job in the dump has this column; export it", *words, "name,work_dir")
    assert not (tmp_path / "x").exists()


def test_a_description_that_lacks_partitions_or_nodes_of_jobs(tmp_path: Path):
    header = HEADER.replace("|State", "|NodeList|State")
    nodes = ("a1", "b[1-2]", "None assigned")
    rows = [row(job, 0, 20, partition=name) for job, name in enumerate(("main", "debug", "main"), start=1)]
    rows = [text.replace("|COMPLETED", f"|{listed}|COMPLETED") for text, listed in zip(rows, nodes, strict=True)]
    dump, conf = write(tmp_path, "")
    dump.write_text(header + "".join(rows))
    done = call("site", "import", dump, "--conf", conf, "--replay", "none", "-q", "-o", tmp_path / "site")
    assert done.exit_code == 0, done.stderr
    sentences = [
        "1 of 3 jobs name a partition that the description of the site lacks: 'debug'",
        "1 of 3 jobs ran on nodes that the description of the site lacks: 'b1', 'b2'",
    ]
    assert done.stderr.splitlines() == [f"warning: {one}" for one in sentences]
    notes = read_report(tmp_path / "site" / "import.json")["notes"]
    assert notes[:2] == [f"{one}." for one in sentences]
    page = (tmp_path / "site" / "import.html").read_text()
    assert "jobs name a partition that the description of the site lacks" in page
    # One job that fits is enough: partitions come and go. None means that the files are of two sites.
    dump.write_text(header + rows[1])
    message = (
        "--conf describes another site: its partitions and nodes are main, gpu, any, a[1-2], g1, but the jobs name "
    )
    words = ("site", "import", dump, "--conf", conf, "--replay", "none", "-o", tmp_path / "other")
    fails(f"{message}'debug' and 'b1', 'b2'; pass the slurm.conf of the cluster in the dump", *words)
    assert not (tmp_path / "other").exists()


def test_a_machine_is_derived_from_jobs_without_a_description(tmp_path: Path):
    dump, _ = write(tmp_path, THREE)
    found = import_site([dump], tmp_path / "one", ImportChoices())
    assert (found.platform.n_nodes, found.platform.n_cores) == (1, 16)
    text = HEADER.replace("|State", "|NodeList|State") + (
        row(1, 0, 20).replace("|COMPLETED", "|n[1-2]|COMPLETED") + row(2, 20, 30).replace("|COMPLETED", "|n3|COMPLETED")
    )
    dump.write_text(text)
    found = import_site([dump], tmp_path / "two", ImportChoices())
    assert sorted((one.names, one.cores) for one in found.conf.nodes) == [("n1,n2", 2), ("n3", 4)]


def test_whole_nodes_of_a_log(tmp_path: Path):
    text = (
        "1 0 5 10 64 -1 -1 64 20 -1 1 1 1 1 1 1 -1 -1 -1 -1 frontier:excl:2x112\n"
        "2 3 5 10 64 -1 -1 64 20 -1 1 1 1 1 1 1 1 4 -1 -1 frontier:excl:3x112\n"
    )
    (tmp_path / "log.swf").write_text(text)
    site = {"name": "big", "nodes": [{"names": "f[1-4]", "cores": 56}]}
    (tmp_path / "site.json").write_text(json.dumps(site))
    found = import_site([tmp_path / "log.swf"], tmp_path / "a", ImportChoices(confs=(tmp_path / "site.json",)))
    assert found.log.log.rows["processors"].tolist() == [112, 168]
    assert found.log.log.rows["preceding_job"].tolist() == [-1, 1]
    found = import_site([tmp_path / "log.swf"], tmp_path / "b", ImportChoices())
    assert (found.log.log.rows["processors"].tolist(), found.platform.n_cores) == ([2, 3], 5)


def test_logs_that_each_count_from_1(tmp_path: Path):
    first = "1 0 5 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1\n2 9 5 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 1 4\n"
    second = "1 0 5 30 1 -1 -1 1 40 -1 1 1 1 1 1 1 -1 -1\n2 9 5 30 1 -1 -1 1 40 -1 1 1 1 1 1 1 1 4\n"
    (tmp_path / "2024.swf").write_text("; UnixStartTime: 1704067200\n" + first)
    (tmp_path / "2025.swf").write_text("; UnixStartTime: 1735689600\n" + second)
    dumps = [tmp_path / name for name in ("2024.swf", "2025.swf")]
    found = import_site(dumps, tmp_path / "site", ImportChoices())
    rows = found.log.log.rows
    assert rows["job_number"].tolist() == [1, 2, 3, 4]
    assert rows["run_s"].tolist() == [10, 10, 30, 30]
    assert rows["preceding_job"].tolist() == [-1, 1, -1, 3]
    assert "jobs of a log that uses the numbers of an earlier one have 2 added to theirs" in found.notes


def test_dependencies_are_in_fields_17_and_18(tmp_path: Path):
    header = HEADER.replace("|State", "|State|SubmitLine")
    rows = [row(1, 0, 20), row(2, 30, 40).replace("00|2025-01-01T00:00:00|", "00|2025-01-01T00:00:25|")]
    lines = ["sbatch a", "sbatch --dependency=afterok:1 b | c"]
    dump, conf = write(tmp_path, "")
    dump.write_text(header + "".join(f"{one.strip()}|{line}\n" for one, line in zip(rows, lines, strict=True)))
    found = import_site([dump], tmp_path / "site", ImportChoices(confs=(conf,)))
    log = read_swf(tmp_path / "site" / "jobs.swf")
    assert log.rows["preceding_job"].tolist() == [-1, 1]
    assert log.rows["think_s"].tolist() == [-1, 5]
    assert found.log.log.rows["wait_s"].tolist() == [0, 5]


def test_one_of_several_clusters_is_chosen(tmp_path: Path):
    header = HEADER.replace("JobID|", "JobID|Cluster|")
    dump, conf = write(tmp_path, "")
    rows = [row(1, 0, 20).replace("1|", "1|big|", 1), row(1, 5, 25).replace("1|", "1|small|", 1)]
    dump.write_text(header + "".join(rows))
    words = ("site", "import", dump, "--conf", conf, "-o", tmp_path / "out")
    fails("covers 2 clusters; choose one by --cluster: big, small", *words)
    fails("no cluster in the accounting 'bog'; did you mean 'big'?", *words, "--cluster", "bog")
    found = import_site([dump], tmp_path / "site", ImportChoices(confs=(conf,), cluster="small"))
    assert (found.jobs.n_jobs, found.dump.skipped) == (1, {OTHER_CLUSTERS: 1})
    assert found.log.log.rows["wait_s"].tolist() == [5]


def test_orders_are_judged_within_weeks(tmp_path: Path):
    week_s = 7 * 86400
    # In each of three weeks the site starts the second of two jobs first, though both could start at once.
    rows = [
        f"{2 * n + k} {n * week_s} {100 - 50 * k} 10 8 -1 -1 8 60 -1 1 1 1 1 1 1 -1 -1"
        for n in range(3)
        for k in (0, 1)
    ]
    (tmp_path / "log.swf").write_text("; MaxProcs: 8\n" + "\n".join(rows))
    found = import_site([tmp_path / "log.swf"], tmp_path / "site", ImportChoices())
    nearest = found.replays.nearest
    assert nearest is not None
    assert nearest.week_share == 1
    assert nearest.whole.discordant_share == pytest.approx(3 / 15)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=30))
def test_pairs_in_another_order_are_counted(starts: list[tuple[int, int]]):
    first, second = np.array(starts, dtype=float).T
    pairs = [(first[i] - first[j]) * (second[i] - second[j]) < 0 for i in range(len(first)) for j in range(i)]
    assert discordant_share(first, second) == pytest.approx(np.mean(pairs))


def test_mistakes_are_one_line_and_write_nothing(tmp_path: Path):
    dump, _ = write(tmp_path, THREE)
    out = tmp_path / "out"
    bad = tmp_path / "bad"

    def with_conf(text: str, name: str = "bad") -> tuple[str | Path, ...]:
        (tmp_path / name).write_text(text)
        return ("site", "import", dump, "--conf", tmp_path / name, "-o", out)

    fails("no such file", "site", "import", tmp_path / "none", "-o", out)
    mars = ("site", "import", dump, "--zone", "Mars/Olympus", "-o", out)
    fails("no time zone 'Mars/Olympus'; known: Africa/Abidjan", *mars)
    fails("expected a number of jobs, 'all' or 'none'", "site", "import", dump, "--replay", "some", "-o", out)
    fails("--nodes-field is for logs in SWF alone", "site", "import", dump, "--nodes-field", 3, "-o", out)
    fails("needs --mapping", "site", "import", dump, "--format", "csv", "-o", out)
    fails("bad:1: CPUs".lower(), *with_conf("NodeName=n1 CPUs=many"))
    fails("expected a range that rises", *with_conf("NodeName=n[3-1] CPUs=1"))
    fails("has 0 CPUs", *with_conf("NodeName=n1 CPUs=0"))
    fails("names no nodes, partitions or rules", *with_conf("what=ever"))
    fails("bad:2: describes node 'n2' twice", *with_conf("NodeName=n[1-2] CPUs=1\nNodeName=n[2-3] CPUs=1"))
    twice = ("--conf", _written(tmp_path / "nodes.conf", "NodeName=n2 CPUs=1"))
    fails("two files describe node 'n2'", *with_conf("NodeName=n[1-2] CPUs=1"), *twice)
    fails(
        "nodes[1].names describes node 'a' twice",
        *with_conf('{"nodes": [{"names": "a", "cores": 1}, {"names": "a", "cores": 1}]}', "s.json"),
    )
    fails("PriorityCalcPeriod is '0'", *with_conf(f"{CONF}PriorityCalcPeriod=0"))
    shares = _written(tmp_path / "shares", "Cluster|Account|User|Share\nx|bio||1\nx|bio|ann|1\ny|bio||2\n")
    fails("shares:4: has Account 'bio' again, expected one cluster", *with_conf(CONF), "--accounts", shares)
    fails("such as 'Ystday'", "site", "import", _written(bad, HEADER + "1||||||Ystday|Ystday||||||\n"), "-o", out)
    fails("maxtime is 'soon'", *with_conf("NodeName=a\nPartitionName=p Nodes=a MaxTime=soon"))
    fails(
        "nodes[0] has no key 'core'",
        *with_conf('{"nodes": [{"names": "a", "cores": 1, "core": 1}]}', "s.json"),
    )
    fails("exists already", "site", "import", dump, "-o", tmp_path)
    fails("is not a folder that 'hdrl site import' made", "site", "import", dump, "-o", tmp_path, "--force")
    fails("its folder", "site", "import", dump, "-o", tmp_path / "no" / "such")
    fails("no job is left of 1 rows", "site", "import", _written(bad, HEADER + "1|||||||||||||PENDING\n"), "-o", out)
    fails("expected the folder of a site that 'hdrl site import' made", "site", "show", tmp_path / "no")
    is_none = "expected the folder of a site that 'hdrl site import' made"
    fails(is_none, "site", "show", _folder(tmp_path / "f", {"import.json": "{}"}))
    damaged = {"site.json": '{"nodes": [{"names": "a", "cores": 1}]}', "import.json": "{}"}
    fails("is not a report of an import", "site", "show", _folder(tmp_path / "g", damaged))
    fails("no such file", "site", "show", tmp_path / "nothing")
    assert not out.exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _folder(path: Path, files: dict[str, str]) -> Path:
    path.mkdir()
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def test_the_example_becomes_a_site(tmp_path: Path):
    assert call("site", "example", tmp_path / "ex", "-n", 400).exit_code == 0
    fails("is not empty", "site", "example", tmp_path / "ex", "-n", 400)
    dump, conf = tmp_path / "ex" / "sacct.txt", tmp_path / "ex" / "slurm.conf"
    found = import_site([dump], tmp_path / "site", ImportChoices(confs=(conf,)))
    rows = read_report(tmp_path / "site" / "import.json")["rows"]
    assert rows["read"] == len(dump.read_text().splitlines()) - 1
    assert found.jobs.n_ids == 400 == found.jobs.n_jobs + sum(found.jobs.left_out.values())
    assert found.jobs.left_out[PENDING] == 1
    assert found.jobs.left_out[CANCELLED] > 0
    assert found.jobs.joined["requeues"] == rows["attempts"] - 400
    assert found.replays.nearest is not None
    assert found.replays.nearest.whole.discordant_share < 0.05


needs_recordings = pytest.mark.skipif(
    not RECORDED.is_dir(), reason="the recorded runs of Slurm are not beside this checkout"
)


@needs_recordings
def test_the_recorded_export(tmp_path: Path):
    conf = RECORDED / "accounting" / "slurm-accounting.conf"
    found = import_site([RECORDED / "sacct_sample.txt"], tmp_path / "site", ImportChoices(confs=(conf,)))
    assert (found.dump.n_rows, found.jobs.n_ids) == (23, 19)
    assert found.jobs.joined == {"requeues": 4, "array tasks": 4, "het jobs": 1, "components of het jobs": 2}
    assert found.jobs.left_out == {PENDING: 1, CANCELLED: 1}
    assert found.jobs.n_jobs == 19 - 2
    columns = found.log.log.columns
    assert columns is not None
    assert [(cells["job"], cells["het_group"]) for _, cells in columns.rows if "het_group" in cells] == [
        ("12", "12"),
        ("13", "12"),
    ]
    log = found.log.log.rows
    position = {int(number): index for index, number in enumerate(log["job_number"])}
    assert log["processors"][position[15]] == 8  # --exclusive
    assert (log["preceding_job"][position[4]], log["submit_s"][position[4]]) == (1, 137)
    assert found.jobs.records["gpus"][position[5]] == 2
    assert (tmp_path / "site" / "gpu" / "options.json").is_file()
    ran = call("run", tmp_path / "site" / "gpu" / "options.json", "--out", tmp_path / "run")
    assert ran.exit_code == 0, ran.stderr


def test_the_components_of_het_jobs_are_jobs_where_the_site_has_rules(tmp_path: Path):
    run = Path(__file__).parents[1] / "slurm" / "het-run"
    (tmp_path / "slurm.conf").write_bytes(gzip.decompress((run / "slurm.conf.gz").read_bytes()))
    dump, choices = run / "jobcomp.txt.gz", ImportChoices(confs=(tmp_path / "slurm.conf",))
    found = import_site([dump], tmp_path / "site", choices)
    assert (found.jobs.joined["het jobs"], found.jobs.joined["components of het jobs"]) == (9, 21)
    assert found.jobs.n_jobs == found.jobs.n_ids == 72
    nearest = found.replays.nearest
    assert nearest is not None
    assert nearest.whole.discordant_share < 0.02
    platform = read_platform(tmp_path / "site" / "platform.json")
    workload = read_workload(tmp_path / "site" / "jobs.swf", platform)
    assert workload.site is not None
    groups, counts = np.unique(workload.site.jobs["het_group"], return_counts=True)
    assert (groups[0], sorted(counts[1:].tolist())) == (-1, [2] * 6 + [3] * 3)
    for policy in ("slurm", "sjf+easy"):
        start_s = simulate(platform, workload, policy, energy=False).records["start_s"]
        for group in groups[1:]:
            assert len(np.unique(start_s[workload.site.jobs["het_group"] == group])) == 1
    # Without rules nothing starts them together: each het job is one job then.
    whole = read_workload(tmp_path / "site" / "jobs.swf", replace(platform, site=None))
    assert (whole.n_jobs, whole.origin["joined_components"]) == (72 - 21 + 9, 21 - 9)
    assert whole.jobs["cores"].sum() == workload.jobs["cores"].sum()
    alone = import_site([dump], tmp_path / "alone", ImportChoices(n_replayed=0))
    assert alone.jobs.n_jobs == 72 - 21 + 9
    assert alone.log.log.rows["processors"].sum() == found.log.log.rows["processors"].sum()


@needs_recordings
@pytest.mark.parametrize("name", ["plain-101", "partitions-201"])
def test_replays_of_recorded_runs(tmp_path: Path, name: str):
    run = RECORDED / "runs" / name
    choices = ImportChoices(confs=(run / "slurm.conf",))
    found = import_site([run / "jobcomp.txt"], tmp_path / "site", choices)
    asked = json.loads((run / "jobs.json").read_text())["jobs"]
    assert found.jobs.n_jobs == len(asked)
    nearest = found.replays.nearest
    assert nearest is not None
    assert nearest.policy == "slurm"
    assert nearest.whole.discordant_share < 0.02
    assert 0.9 < nearest.whole.wait_ratio < 1.1


def test_bad_settings_are_hdrl_errors(tmp_path: Path):
    with pytest.raises(HdrlError, match="no dump given"):
        import_site([], tmp_path / "site", ImportChoices())


def test_an_example_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(example, "_queue", full_disk)
    with pytest.raises(OutputError, match=r"queue\.txt: cannot be written \(No space left on device\)"):
        example.write_example(tmp_path / "cluster", 200)
    assert list(tmp_path.iterdir()) == []

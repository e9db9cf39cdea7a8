"""Loads: Gavel's jobs one by one, published traces, made-up samples of formats, and what is told about faults."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from hdrl.base.errors import PlatformError, ReadError, UnknownName, WorkloadError
from hdrl.settings.gpu.cluster.machine import read_cluster
from hdrl.settings.gpu.cluster.throughputs import Throughputs, read_throughputs
from hdrl.settings.gpu.loads.gavel_jobs import REFERENCE_TYPE, gavel_load
from hdrl.settings.gpu.loads.load import GpuLoad
from hdrl.settings.gpu.loads.readers import read_trace
from hdrl.settings.gpu.loads.synthetic import Poisson, at_offered_load, poisson_load

TRACES = next(
    (parent / "shared" / "traces" / "gpu" for parent in Path(__file__).parents if (parent / "shared").is_dir()), Path()
)
needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason="the traces are not here")


@pytest.fixture(scope="module")
def table() -> Throughputs:
    return read_throughputs(TRACES / "gavel_simulation_throughputs.json.gz")


@needs_traces
@pytest.mark.parametrize(
    ("seed", "multi", "hours"), [(0, False, 17.415), (1, False, 16.166), (0, True, 17.681), (1, True, 16.338)]
)
def test_jobs_are_those_of_gavel(table: Throughputs, seed: int, multi: object, hours: float) -> None:
    load = gavel_load(table, 5000, jobs_per_hour=2.0, seed=seed, multi_gpu=bool(multi))
    counted = load.jobs[4000:]
    kinds = zip(counted["kind"].tolist(), counted["n_gpus"].tolist(), strict=True)
    rates = [table.rate(REFERENCE_TYPE, (load.kinds[kind], size)) for kind, size in kinds]
    assert (counted["work"] / rates).mean() / 3600 == pytest.approx(hours, abs=5e-4)
    assert load.jobs["arrival_s"][0] == 0.0


@pytest.mark.filterwarnings("error")
def test_a_load_that_would_never_come_is_refused() -> None:
    cluster = read_cluster("drl-gpu")
    with pytest.raises(WorkloadError, match="cannot be scaled to an offered load of 1e-320"):
        poisson_load(Poisson(), 20, 1).scaled(cluster, 1e-320)


@needs_traces
@pytest.mark.parametrize(("name", "offered"), [("heavy", 17.8), ("medium", 41.4), ("low", 0.012)])
def test_the_cut_traces_offer_what_is_known(name: str, offered: float) -> None:
    cluster = read_cluster("drl-gpu")
    load = read_trace(TRACES / f"alibaba_{name}_workload.csv.gz")
    assert load.offered(cluster) == pytest.approx(offered, rel=0.02)
    assert load.scaled(cluster, 0.7).offered(cluster) == pytest.approx(0.7)
    no_gpus = {"heavy": None, "medium": 4519, "low": 5061}[name]
    assert load.n_dropped.get("jobs that ask for 0 GPUs") == no_gpus
    assert "dates begin at 10,251," in load.faults[-1]


@needs_traces
def test_philly_and_openb_are_read_whole() -> None:
    philly = read_trace(TRACES / "philly_sia.csv.gz")
    assert (philly.n_items, int(philly.jobs["n_gpus"].max())) == (82_247, 128)
    openb = read_cluster(str(TRACES / "alibaba2023_openb_node_list_gpu_node.csv"))
    assert (openb.n_nodes, openb.n_units, len(openb.types)) == (1213, 6212, 7)
    pods = read_trace(TRACES / "alibaba2023_openb_pod_list_default.csv")
    assert pods.n_items + sum(pods.n_dropped.values()) == 8152


def test_pods_without_dates_arrive_in_the_order_of_their_list(tmp_path: Path) -> None:
    header, pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli", ("b,2000,16,1,500", "a,1000,16,2,1000")
    found, load = read(tmp_path, "\n".join((header, *pods)))
    assert found == [(0.0, 2.0, 1, 500), (1.0, 2.0, 2, 1000)]
    assert load.faults == ("it has no dates: a pod arrives each second, and takes as many seconds as there are pods",)
    with pytest.raises(ReadError, match="is like 'openb', but has no column"):
        read(tmp_path, f"{header},creation_time\na,1000,16,2,1000,0")


def read(folder: Path, text: str, name: str = "trace.csv", **options: object) -> tuple[list[tuple[float, ...]], object]:
    """Return arrival, work, GPUs and thousandths of the jobs of a trace, and the load."""
    (folder / name).write_text(text)
    load = read_trace(folder / name, **options)  # type: ignore[arg-type]
    return [tuple(row.tolist())[:4] for row in load.jobs], load


def test_formats_are_known_by_their_first_line(tmp_path: Path) -> None:
    helios = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    rows, _ = read(
        tmp_path,
        helios
        + "a,u,v,8,64,1,COMPLETED,2020-04-01 00:00:10+08:00,x,y,50,0\nb,u,v,0,1,1,FAILED,2020-04-01 00:00:00,x,y,5,0\n",
    )
    assert rows == [(0.0, 50.0, 8, 1000)]
    turned = "gpus,arrival_time,priority,runtime,notes\n2,0,1,50,my own\n"
    assert read(tmp_path, turned)[0] == [(0.0, 50.0, 2, 1000)], (
        "columns may be in another order, with others among them"
    )
    attempt = {"start_time": "2017-10-01 00:01:00", "end_time": "2017-10-01 00:02:00"}
    job = {
        "status": "Pass", "vc": "x", "jobid": "j", "submitted_time": "2017-10-01 00:00:30", "user": "u",
        "attempts": [{**attempt, "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]}],
    }  # fmt: skip
    rows, load = read(tmp_path, json.dumps([job, {**job, "attempts": []}]), "log.json")
    assert rows == [(0.0, 60.0, 3, 1000)]
    assert load.n_dropped == {"jobs that never ran": 1}  # type: ignore[attr-defined]
    pai = "j1,tf,1,Terminated,100.0,160.0,600.0,29.3,25.0,T4\nj2,w,4,Terminated,90,100,600,29,50,MISC\n"
    pai += "j3,w,1,Failed,1,2,,,,\n"
    rows, load = read(tmp_path, pai)
    assert rows == [(0.0, 10.0, 2, 1000), (10.0, 60.0, 1, 250)]
    assert load.constraints == (("T4",),)  # type: ignore[attr-defined]
    events = "0,,7,0,,0,u,2,9,0.25,0.1,0,0\n5000000,,7,0,m,1,u,2,9,0.25,0.1,0,0\n9000000,,7,0,m,4,u,2,9,0.25,0.1,0,0\n"
    rows, load = read(tmp_path, events)
    assert rows == [(0.0, 4.0, 2, 1000)]
    assert "no GPUs" in load.faults[-1]  # type: ignore[attr-defined]
    borg = (
        "time,type,collection_id,priority,instance_index,resource_request\n"
        "0,SUBMIT,1,100,0,\"{'cpus': 0.5, 'memory': 0.1}\"\n"
        "1000000,SCHEDULE,1,100,0,\"{'cpus': 0.5, 'memory': 0.1}\"\n"
        "3000000,FINISH,1,100,0,\"{'cpus': 0.5, 'memory': 0.1}\"\n"
    )
    assert read(tmp_path, borg)[0] == [(0.0, 2.0, 4, 1000)]


PHILLY_JOB = {
    "vc": "x", "jobid": "j", "submitted_time": "2017-10-01 00:00:30", "user": "u",
    "attempts": [
        {"start_time": "2017-10-01 00:01:00", "end_time": "2017-10-01 00:02:00", "detail": []},
        {
            "start_time": "2017-10-01 00:03:00", "end_time": "2017-10-01 00:05:00",
            "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}],
        },
    ],
}  # fmt: skip


@pytest.mark.parametrize("nothing", [{"detail": []}, {"detail": None}, {}], ids=["empty", "null", "absent"])
def test_an_attempt_of_philly_that_names_no_gpus_leaves_the_job_in(tmp_path: Path, nothing: dict[str, object]) -> None:
    first, last = PHILLY_JOB["attempts"]
    times = {key: first[key] for key in ("start_time", "end_time")}  # type: ignore[index]
    rows, load = read(tmp_path, json.dumps([{**PHILLY_JOB, "attempts": [{**times, **nothing}, last]}]), "log.json")
    assert rows == [(0.0, 180.0, 2, 1000)]
    assert load.n_dropped == {}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        "\n\ntimestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,2,1,a\n",
        "timestamp\tduration\tnum_gpus\tgpu_time\tcluster\n2017-10-09 07:01:55\t66.0\t2\t1\ta\n",
        "timestamp; duration; num_gpus; gpu_time; cluster\n2017-10-09 07:01:55; 66.0; 2; 1; a\n",
        '"timestamp", "duration","num_gpus","gpu_time","cluster"\n2017-10-09 07:01:55,66.0,2,1,a\n',
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n0,2,0,606,vgg19,66,30\n",
        "job_id|num_gpu|submit_time|start_time|duration|model_size|model_name\n0|2|0|3|66|400|vgg19\n",
        '\n{"jobid": "j", "submitted_time": "2017-10-01 00:01:00", "vc": "x", "attempts": [{"start_time":'
        ' "2017-10-01 00:01:00", "end_time": "2017-10-01 00:02:06", "detail": [{"gpus": ["a", "b"]}]}]}\n\n',
        '{"timestamp": "2017-10-09 07:01:55", "duration": 66, "num_gpus": 2, "gpu_time": null, "cluster": "a"}\n\n',
        '\n[{"submit_time": 3.5, "gpus": 2, "duration": "66", "more": [1]}]',
    ],
    ids=[
        "blank",
        "tabs",
        "semicolons",
        "quotes",
        "tiresias",
        "older tiresias, bars",
        "json lines",
        "rows as json lines",
        "rows as a json list",
    ],
)
def test_first_lines_are_read_as_people_write_them(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text)[0] == [(0.0, 66.0, 2, 1000)]


GAVEL_LINES = {
    6: "LM (batch size 10)\tcd x && python main.py\t--steps\t500\t{}\t1",
    7: "LM (batch size 10)\tcd x && python main.py\t--steps\t1\t500\t{}\t1",
    9: "LM (batch size 10)\tcd x && python main.py\t--steps\t1\t500\t1\t2\t-1.0\t{}",
    10: "LM (batch size 10)\tpython main.py\tx\t--steps\t1\t500\t1\t2\t-1.0\t{}",
}


@needs_traces
@pytest.mark.parametrize("n_cells", list(GAVEL_LINES))
def test_gavels_own_traces_are_read_with_throughputs(tmp_path: Path, n_cells: int) -> None:
    path = tmp_path / "a.trace"
    path.write_text("".join(GAVEL_LINES[n_cells].format(date) + "\n" for date in (6.0, 10.0)))
    with pytest.raises(WorkloadError, match=r"take load\.throughputs to become times"):
        read_trace(path)
    table = read_throughputs(TRACES / "gavel_simulation_throughputs.json.gz")
    load = read_trace(path, throughputs=table)
    assert load.kinds == ("LM (batch size 10)",)
    assert load.jobs["arrival_s"].tolist() == [0.0, 4.0]
    assert load.jobs["priority"].tolist() == [2.0 if n_cells > 7 else 1.0] * 2
    fastest = load.isolated_s(read_cluster("gavel"))
    assert fastest == pytest.approx(500 / table.rate("v100", ("LM (batch size 10)", 1)), rel=1e-9)


def test_sias_job_lists_say_no_durations(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="says no durations"):
        read(tmp_path, "name,time,application,num_replicas,batch_size\ncifar10-0,107,cifar10,6,2048\n")


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [("0.5", [(0.0, 5.0, 1, 500)]), ("1", [(0.0, 5.0, 1, 1000)]), ("2.0", [(0.0, 5.0, 2, 1000)])],
)
def test_a_share_of_a_gpu_stays_one(tmp_path: Path, gpus: str, expected: list[tuple[float, ...]]) -> None:
    assert read(tmp_path, f"{DRL}1,5,{gpus},1\n")[0] == expected


@pytest.mark.parametrize("gpus", ["1_000", "2.5", "\u0663"])
def test_what_is_no_number_of_gpus_leaves_the_job_out(tmp_path: Path, gpus: str) -> None:
    with pytest.raises(WorkloadError, match="left out: 1 jobs"):
        read(tmp_path, f"{DRL}1,5,{gpus},1\n")


def test_faults_are_counted_by_reason(tmp_path: Path) -> None:
    text = "arrival_time,runtime,gpus,priority\n1,5,1,1\n2,-5,1,1\n3,5,0,1\n4,5,-2,1\n5,nan,1,1\n-6,5,1,1\n\n"
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    load = read_trace(tmp_path / "t.csv.gz")
    assert load.n_items == 1
    assert load.faults == (
        "left out: 1 jobs that end before they start, 1 jobs that ask for 0 GPUs, "
        "1 jobs that ask for fewer than 0 GPUs,"
        " 1 jobs without a run time, 1 jobs that arrive before date 0",
    )


DRL = "arrival_time,runtime,gpus,priority\n"
SIA = "timestamp,duration,num_gpus,gpu_time,cluster\n"
PAI_TASK = "j1,tf,{},Terminated,100.0,160.0,600.0,29.3,{},T4\n"
BORG = "time,type,collection_id,priority,instance_index,resource_request\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{SIA}9999-99-99 99:99:99,1,1,1,a\n", "1 jobs with an impossible date"),
        (f"{DRL}1,5,1e300,1\n", "1 jobs whose numbers are beyond all bounds"),
        (f"{DRL}1,1e300,1,1\n", "1 jobs whose numbers are beyond all bounds"),
        (PAI_TASK.format("1e300", "1e308"), "1 jobs whose numbers are beyond all bounds"),
        (f"{BORG}0,SUBMIT,1,100,0,\"{{'cpus': 1e308}}\"\n", "1 tasks that ask for fewer than 0 cores, or for more"),
        (f"{BORG}0,SUBMIT,1,100,0,{'[' * 5000}\n", "1 tasks without cores"),
    ],
)
def test_numbers_that_no_job_has_leave_it_out(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(WorkloadError, match=reason):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "is nested too deeply"),
        (f"{DRL}1,5,1,{'x' * 200_000}\n", r"trace.csv:2: is not CSV: field larger than field limit"),
        (f"{DRL}1,5,1\r,1\n", r"trace.csv:2: has 3 columns, expected 4"),
    ],
)
def test_damaged_traces_are_told_in_a_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ReadError, match=message):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "is nested too deeply"),
        ('{"a": {"(1, 1e999)": {"null": 1}}}', "is not a kind of job with its GPUs"),
        ('{"a": {"' + "(" * 90 + '": {"null": 1}}}', "is not a kind of job with its GPUs"),
        ('{"a": {"(1, 1)": {"null": 1' + "0" * 400 + "}}}", "a number of more than 100 digits, not a throughput"),
    ],
)
def test_damaged_throughputs_are_told_in_a_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(ReadError, match=message):
        read_throughputs(tmp_path / "t.json")


@pytest.mark.parametrize("line", ["a,1,1,99999999999999999999,T4", "a,1,1,8," + "x" * 200_000, "a,1,1,²,T4"])
def test_damaged_lists_of_nodes_are_told_in_a_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "n.csv").write_text(f"sn,cpu_milli,memory_mib,gpu,model\n{line}\n")
    with pytest.raises(ReadError, match=r"n\.csv:2: "):
        read_cluster(str(tmp_path / "n.csv"))


def test_wrong_files_are_told_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="unknown format"):
        read(tmp_path, "a,b\n1,2\n")
    with pytest.raises(ReadError, match=r"trace.csv:1: is like 'philly-sia', but has no column 'duration'"):
        read(tmp_path, "timestamp,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,1,66.0,a\n")
    with pytest.raises(WorkloadError, match=r"trace.csv: holds no jobs"):
        read(tmp_path, "arrival_time,runtime,gpus,priority\n")
    with pytest.raises(ReadError, match=r"trace.csv:3: has 3 columns, expected 4"):
        read(tmp_path, "arrival_time,runtime,gpus,priority\n1,5,1,1\n1,5,1\n")
    with pytest.raises(WorkloadError, match="no job is left"):
        read(tmp_path, "arrival_time,runtime,gpus,priority\n1,5,0,1\n")
    with pytest.raises(UnknownName, match="helios"):
        read(tmp_path, "x", form="helos")
    with pytest.raises(ReadError, match=r"missing\.csv: no such file"):
        read_trace(tmp_path / "missing.csv")
    with pytest.raises(PlatformError, match="drl-gpu"):
        read_cluster("drl-gpus")
    (tmp_path / "c.json").write_text('{"types": {"a": {}}, "nodes": [{"type": "b"}]}')
    with pytest.raises(ReadError, match="type is 'b'"):
        read_cluster(str(tmp_path / "c.json"))
    (tmp_path / "c.json").write_text(
        '{"types": {"a": {"flops": 1e13}, "b": {"flops": 1e-20}}, "nodes": [{"type": "a"}, {"type": "b"}]}'
    )
    with pytest.raises(PlatformError, match="type 'b' has flops 1e-20, expected at least a millionth of those of 'a'"):
        read_cluster(str(tmp_path / "c.json"))


@needs_traces
def test_a_table_without_a_kind_or_a_type_is_told(table: Throughputs) -> None:
    load = gavel_load(table, 10, jobs_per_hour=1.0)
    with pytest.raises(WorkloadError, match="no type of GPUs 'A100'"):
        load.profiles(read_cluster("drl-gpu"))
    with pytest.raises(WorkloadError, match="no throughput of A3C x 2"):
        table.rate("v100", ("A3C", 2))


def test_generated_jobs_are_the_seeds_and_scale() -> None:
    load = poisson_load(Poisson(), 4000, seed=1)
    assert load.sha256() == poisson_load(Poisson(), 4000, seed=1).sha256()
    assert load.sha256() != poisson_load(Poisson(), 4000, seed=2).sha256()
    assert np.diff(load.jobs["arrival_s"]).mean() == pytest.approx(0.4, rel=0.1)
    assert set(load.jobs["n_gpus"].tolist()) == set(range(1, 9))
    cluster = read_cluster("drl-gpu")
    assert at_offered_load(Poisson(), 500, cluster, 0.8, 1).offered(cluster) == pytest.approx(0.8)
    with pytest.raises(WorkloadError, match="jobs_per_s"):
        Poisson(jobs_per_s=0.0)


@pytest.mark.parametrize("read", [read_trace, read_throughputs])
def test_what_is_packed_is_bounded_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read) -> None:
    path = tmp_path / "packed"
    path.write_bytes(gzip.compress(b" " * 2**22))
    monkeypatch.setenv("HDRL_MAX_UNPACKED_MIB", "3")
    with pytest.raises(ReadError, match="packed: holds more than 3 MiB when decompressed"):
        read(path)
    path.write_bytes(gzip.compress(b"nothing" * 100)[:-20])
    with pytest.raises(ReadError, match="packed: cannot be decompressed"):
        read(path)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("philly-sia", "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:00:00,60,1,60,vc\n"),
        (
            "philly",
            '[{"jobid": "a", "user": "u", "vc": "v", "submitted_time": "2017-10-09 07:00:00", "attempts": '
            '[{"start_time": "2017-10-09 07:00:01", "end_time": "2017-10-09 07:01:01", "detail": '
            '[{"ip": "m1", "gpus": ["gpu0"]}]}]}]',
        ),
        ("helios", "job_id,user,gpu_num,state,submit_time,duration\n1,u,1,COMPLETED,2020-04-01 00:00:00,60\n"),
        ("table", "submit_time,gpus,duration\n2026-01-31 12:00:00,1,60\n"),
    ],
)
def test_dates_of_the_calendar_are_no_late_start(form: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(text)
    load = read_trace(tmp_path / "trace.csv")
    assert (load.origin["format"], load.faults) == (form, ())


def test_seconds_that_begin_late_are_reported(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("job_id,num_gpu,submit_time,model_name,duration\n1,1,20000000,resnet,60\n")
    assert read_trace(tmp_path / "trace.csv").faults == (
        "dates begin at 20,000,000 s: they are counted from the first job on",
    )


POD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"


@pytest.mark.parametrize("line", ["a,-4000,16,1,500", "a,4000,-16,1,500"])
def test_a_request_below_zero_leaves_the_job_out(tmp_path: Path, line: str) -> None:
    """It would add cores or memory to its node."""
    _, load = read(tmp_path, f"{POD}\n{line}\nb,2000,16,1,500\n")
    assert load.n_dropped == {"jobs that ask for fewer than 0 cores, or less than no memory": 1}
    jobs = load.jobs.copy()
    jobs["cpu_milli"] = -1
    with pytest.raises(WorkloadError, match=r"job 0 has impossible values: .*cpu_milli -1"):
        GpuLoad("l", jobs)


def test_more_than_a_whole_gpu_leaves_the_job_out(tmp_path: Path) -> None:
    _, load = read(tmp_path, f"{POD}\na,2000,16,1,1200\nb,2000,16,1,500\n")
    assert load.n_dropped == {"jobs that ask for one GPU, and more than all of it": 1}


def test_events_of_google_may_be_unsorted_and_in_json(tmp_path: Path) -> None:
    """As BigQuery exports them."""
    task = {"collection_id": "9", "instance_index": "0", "priority": "2", "resource_request": {"cpus": 0.5, "x": None}}
    events = [{**task, "time": str(date_us), "type": kind} for date_us, kind in ((3e6, "6"), (1e6, "3"), (0, "0"))]
    found, _ = read(tmp_path, "\n".join(map(json.dumps, events)))
    assert found == [(0.0, 2.0, 4, 1000)]


@pytest.mark.parametrize(
    "text",
    [
        "\nsn,cpu_milli,memory_mib,gpu,model\na,4000,16,2,T4\n\n",
        "sn;cpu_milli;memory_mib;gpu;model\r\na;4000;16;2;T4\r\n",
        "sn\tcpu_milli\tmemory_mib\tgpu\tmodel\na\t4000\t16\t2\tT4\n",
        "model , zone, sn , gpu, memory_mib, cpu_milli\nT4 ,b, a, 2, 16, 4000\n",
    ],
    ids=["blank", "semicolons", "tabs", "order"],
)
def test_lists_of_nodes_are_read_as_people_write_them(tmp_path: Path, text: str) -> None:
    for name, content in (("c.csv", text.encode()), ("d.csv.gz", gzip.compress(text.encode()))):
        (tmp_path / name).write_bytes(content)
        cluster = read_cluster(str(tmp_path / name))
        assert (cluster.name, cluster.types[0].name, cluster.nodes.tolist()) == (name[0], "T4", [(0, 2, 4000, 16)])

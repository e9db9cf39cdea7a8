"""Each format of accounting, on a few rows whose jobs are counted by hand."""

import csv
import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hdrl.base.errors import HdrlError, ReadError
from hdrl.site.importing import together
from hdrl.site.joining import CANCELLED, NEVER_STARTED, PENDING, jobs_of, join_components
from hdrl.site.readers import FORMATS, Choices, read_dump
from hdrl.site.readers.sacct import BROKEN, NO_ID, STEPS
from hdrl.site.records import AttemptState
from hdrl.site.submitline import component_line, read_submit_line
from hdrl.site.values import Clock, find_zone

SACCT = """\
JobID|JobIDRaw|User|Account|Partition|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|Re\
qCPUS|AllocTRES|State|SubmitLine
1|1|ann|bio|main|2025-01-01T00:00:00|2025-01-01T00:00:00|2025-01-01T00:00:10|2025-01-01T00:00:20|10|\
2|4|4|cpu=4,node=1|PREEMPTED|sbatch a
1|1|ann|bio|main|2025-01-01T00:00:20|2025-01-01T00:02:00|2025-01-01T00:03:00|2025-01-01T00:04:00|60|\
2|4|4|cpu=4,node=1|COMPLETED|sbatch a
1.batch|1.batch|||||||||||||COMPLETED|
2_1|3|bob|bio|main|2025-01-01T00:00:05|2025-01-01T00:00:05|2025-01-01T00:00:30|2025-01-01T00:00:30|0\
|UNLIMITED|1|1|cpu=1,gres/gpu:a100=2|FAILED|sbatch b | c
2_[2-4%1]|2|bob|bio|main|2025-01-01T00:00:05|Unknown|Unknown|Unknown|0|5|0|1||PENDING|sbatch b
4+0|4|ann|phys|main|2025-01-01T00:01:00|2025-01-01T00:01:00|2025-01-01T00:02:00|2025-01-01T00:03:00|\
60|5|2|2|cpu=2|COMPLETED|sbatch
4+1|5|ann|phys|gpu|2025-01-01T00:01:00|2025-01-01T00:01:00|2025-01-01T00:02:00|2025-01-01T00:03:30|9\
0|5|3|3|cpu=3|COMPLETED|sbatch
6|6|eve|phys|main|2025-01-01T00:02:00|2025-01-01T00:02:00|None|2025-01-01T00:03:00|0|5|0|2||CANCELLE\
D by 7|sbatch
7|7|eve|phys|main|2025-01-01T00:02:30|2025-01-01T00:04:00|2025-01-01T00:04:10|Unknown|50|5|8|1|cpu=8\
|RUNNING|sbatch --dependency=afterok:1 d
broken|row
x|8|eve|phys|main|||||||||||
"""


def read(tmp_path: Path, text: str, form: str = "auto", name: str = "dump.txt", **choices):
    path = tmp_path / name
    path.write_text(text)
    return read_dump(path, Choices(Clock(None), **choices), form)


def test_sacct_joins_and_counts(tmp_path: Path):
    dump = read(tmp_path, SACCT)
    assert dump.form == "sacct"
    assert dump.n_rows == 11
    assert dump.skipped == {STEPS: 1, BROKEN: 1, NO_ID: 1}
    assert dump.n_rows == len(dump.records) + sum(dump.skipped.values())
    jobs = jobs_of(dump)
    assert jobs.n_ids == 7
    assert jobs.joined == {"requeues": 1, "array tasks": 1, "het jobs": 1, "components of het jobs": 2}
    assert jobs.left_out == {PENDING: 3, CANCELLED: 1}
    assert jobs.records["job"].tolist() == [1, 2, 4, 7]
    assert jobs.n_attempts.tolist() == [2, 1, 1, 1]
    first, second, third, last = jobs.records
    assert first["start_s"] - first["eligible_s"] == 180  # from its first submission to its last start
    assert (first["run_s"], first["limit_s"]) == (60, 120)
    assert jobs.lost_core_s == 40
    assert (second["run_s"], second["gpus"], np.isinf(second["limit_s"])) == (1, 2, True)
    assert (third["cores"], third["run_s"]) == (5, 90)
    assert (last["run_s"], last["cores"], last["state"], last["after"]) == (50, 8, AttemptState.RUNNING, 1)


def test_components_of_het_jobs_stay_jobs_where_they_start_together(tmp_path: Path):
    jobs = jobs_of(read(tmp_path, SACCT), keeps_components=True)
    assert (jobs.n_ids, jobs.joined["het jobs"], jobs.joined["components of het jobs"]) == (7, 1, 2)
    assert jobs.records["job"].tolist() == [1, 2, 4, 4, 7]
    first, second = jobs.records[2:4]
    assert first["het"] == second["het"] >= 0
    assert (first["cores"], first["run_s"], second["cores"], second["run_s"]) == (2, 60, 3, 90)
    join_components(jobs)
    assert np.array_equal(jobs.records[["job", "cores"]], jobs_of(read(tmp_path, SACCT)).records[["job", "cores"]])


def test_each_component_asks_for_what_its_part_of_the_line_says():
    line = "sbatch -N 2 --exclusive : -p gpu -C a100 job.sh : -N 9"
    asked = [read_submit_line(component_line(line, component))[0] for component in range(3)]
    assert asked == [{"nodes": "2", "exclusive": "1"}, {"features": "a100"}, {"nodes": "9"}]
    assert component_line("sbatch job.sh", 1) == ""  # the script has the options
    assert component_line(line, -1) == line


def test_columns_of_sacct_come_in_any_order(tmp_path: Path):
    lines = [line.split("|") for line in SACCT.splitlines() if line.count("|") == 15]
    order = list(reversed(range(16)))
    turned = "\n".join("|".join(line[position] for position in order) for line in lines)
    one, other = jobs_of(read(tmp_path, "\n".join(map("|".join, lines)))), jobs_of(read(tmp_path, turned))
    for column in ("job", "task", "eligible_s", "start_s", "run_s", "cores", "gpus", "limit_s"):
        assert np.array_equal(one.records[column], other.records[column], equal_nan=True)


def test_exports_that_overlap_tell_a_job_once(tmp_path: Path):
    running = SACCT.replace(
        "2025-01-01T00:04:00|60|2|4|4|cpu=4,node=1|COMPLETED", "Unknown|30|2|4|4|cpu=4,node=1|RUNNING"
    )
    both = jobs_of(read(tmp_path, running + "".join(SACCT.splitlines(keepends=True)[1:])))
    alone = jobs_of(read(tmp_path, SACCT))
    assert both.records["run_s"].tolist() == alone.records["run_s"].tolist()
    assert both.joined["requeues"] == 1


def test_exports_that_overlap_may_come_in_any_order(tmp_path: Path):
    header = "JobID|Submit|Start|End|ElapsedRaw|AllocCPUS|State\n"
    waits = "1|2025-01-31T10:00:00|Unknown|Unknown|0|0|PENDING\n"
    array = "2_[4-6]|2025-01-31T11:00:00|Unknown|Unknown|0|0|PENDING\n"
    runs = "3|2025-01-31T12:00:00|2025-01-31T23:00:00|Unknown|3600|4|RUNNING\n"
    january = read(tmp_path, header + waits + array + runs)
    ended = "2025-02-01T00:00:00|2025-02-01T09:00:00|32400|4|COMPLETED\n"
    tasks = f"2_4|2025-01-31T11:00:00|{ended}2_[5-6]|2025-01-31T11:00:00|Unknown|Unknown|0|0|PENDING\n"
    done = f"3|2025-01-31T12:00:00|{ended.replace('2025-02-01T00', '2025-01-31T23')}"
    later = f"9|2025-02-02T00:00:00|{ended.replace('02-01', '02-02')}"
    february = read(tmp_path, f"{header}1|2025-01-31T10:00:00|{ended}{tasks}{done}{later}")
    for parts in ([january, february], [february, january]):
        found = jobs_of(together([replace(part, skipped=Counter(part.skipped)) for part in parts]))
        assert sorted(found.records["job"].tolist()) == [1, 2, 3, 9]
        assert found.records["run_s"].tolist() == [32400] * 4
        assert (found.left_out, found.joined["requeues"]) == ({PENDING: 2}, 0)


def test_tables_that_a_spreadsheet_wrote(tmp_path: Path):
    rows = [line.split("|") for line in SACCT.splitlines() if line.count("|") == 15]
    plain = read(tmp_path, "\n".join(map("|".join, rows)))
    for delimiter in (",", ";", "\t"):
        file = io.StringIO()
        csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL).writerows(rows)
        dump = read(tmp_path, "\ufeff" + file.getvalue())
        assert dump.records.tobytes() == plain.records.tobytes()
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    assert read(tmp_path, file.getvalue()).records.tobytes() == plain.records.tobytes()


LINE = "{id}|{submit}|{submit}|{start}|{end}|{run}|{cores}|{state}\n"
TIMES = "JobID|Submit|Eligible|Start|End|ElapsedRaw|AllocCPUS|State\n"


def test_rows_of_a_job_that_changed_its_size_are_one_attempt(tmp_path: Path):
    # Slurm ends a row at each change and begins another one, whose Submit, Eligible and Start are the date of it.
    dates = [f"2025-01-01T00:0{minute}:00" for minute in range(7)]
    rows = [
        LINE.format(id=5, submit=dates[0], start=dates[1], end=dates[3], run=120, cores=16, state="RESIZING"),
        LINE.format(id=5, submit=dates[3], start=dates[3], end=dates[6], run=180, cores=8, state="COMPLETED"),
        LINE.format(id=6, submit=dates[0], start=dates[1], end=dates[3], run=120, cores=4, state="RESIZING"),
    ]
    jobs = jobs_of(read(tmp_path, TIMES + "".join(rows)))
    first, second = jobs.records
    assert (first["start_s"] - first["eligible_s"], first["run_s"], first["cores"], first["state"]) == (60, 300, 16, 0)
    assert (second["run_s"], second["state"]) == (120, AttemptState.RUNNING)
    assert (jobs.n_attempts.tolist(), jobs.joined["requeues"], jobs.lost_core_s) == ([1, 1], 0, 0)
    assert 1 in jobs.joined.values()


def test_arrays_whose_lists_of_tasks_are_cut_off_are_no_steps(tmp_path: Path):
    rows = "".join(
        LINE.format(
            id=number, submit="2025-01-01T00:00:00", start="Unknown", end="Unknown", run=0, cores=0, state="PENDING"
        )
        for number in ("7_[1-3,...]", "8_[1-10,...", "9_4.batch", "9+1.extern")
    )
    dump = read(tmp_path, TIMES + rows)
    assert (dump.skipped, jobs_of(dump).left_out) == ({STEPS: 2}, {PENDING: 13})
    assert any("2 arrays are cut off" in note for note in dump.notes)


def test_dates_that_cannot_be_read_are_shown(tmp_path: Path):
    row = LINE.format(id=1, submit="Ystday 10:00", start="10:01", end="10:02", run=60, cores=1, state="COMPLETED")
    notes = read(tmp_path, TIMES + row).notes
    assert "1 unreadable values of Submit count as unknown, such as 'Ystday 10:00'" in notes


def test_cancelled_jobs_without_nodes_never_started(tmp_path: Path):
    header = "JobID|Submit|Start|End|ElapsedRaw|AllocCPUS|ReqCPUS|State|NodeList\n"
    dates = "2025-01-01T00:00:00|2025-01-01T00:01:00|2025-01-01T00:01:00|0|8|8|CANCELLED"
    jobs = jobs_of(read(tmp_path, f"{header}1|{dates} by 5|None assigned\n2|{dates}|n1\n"))
    assert (jobs.left_out, jobs.records["job"].tolist()) == ({CANCELLED: 1}, [2])


def test_dates_of_a_job_tell_which_of_two_equal_hours_is_meant(tmp_path: Path):
    # In Madrid, clocks showed 02:00 to 03:00 twice on this night.
    header, path = "JobID|Submit|Eligible|Start|End|AllocCPUS|State\n", tmp_path / "dump.txt"
    path.write_text(f"{header}1|{'2025-10-26T02:50:00|' * 2}2025-10-26T02:10:00|2025-10-26T02:30:00|1|COMPLETED\n")
    (job,) = jobs_of(read_dump(path, Choices(Clock(find_zone("Europe/Madrid"))))).records
    assert (job["start_s"] - job["eligible_s"], job["run_s"]) == (1200, 1200)


def test_a_number_that_is_used_again_is_another_job(tmp_path: Path):
    row = "1|{0}|2025-0{1}-01T00:00:00|2025-0{1}-01T00:00:10|2025-0{1}-01T00:00:20|1|COMPLETED\n"
    text = "JobID|User|Submit|Start|End|AllocCPUS|State\n" + row.format("a", 1) + row.format("a", 5)
    jobs = jobs_of(read(tmp_path, text))
    assert (jobs.n_jobs, jobs.joined["requeues"]) == (2, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("JobID|Start|End|AllocCPUS\n1|x|x|1\n", "has no column Submit or Eligible"),
        ("JobID|Submit|Start|End\n1|x|x|1\n", "has no column AllocCPUS or NCPUS"),
        ("nothing\n", "has an unknown format, expected one of: sacct -P"),
        ("", "unknown format"),
        ("JobID|Submit|Start|End|NCPUS\n", "holds no rows"),
        ("{}", "holds no objects with a kind"),
        ('{"jobs": [{"job_id": 1}], "meta": {}}', "is what 'sacct --json' prints, expected that of 'sacct -P'"),
        ('{"items": [1]}', "holds no objects with a kind"),
    ],
)
def test_what_cannot_be_read_says_so(tmp_path: Path, text: str, message: str):
    with pytest.raises(ReadError, match=message) as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value)


JOBCOMP = """\
JobId=2 UserId=ann(7) Name=j JobState=COMPLETED Partition=wide TimeLimit=10 StartTime=2026-01-01T00:04:09 \
EndTime=2026-01-01T00:08:52 NodeList=n[5-8] NodeCnt=4 ProcCnt=32 Tres=cpu=32,mem=1000M,node=1,gres/gpu=3 \
SubmitTime=2026-01-01T00:04:00 EligibleTime=2026-01-01T00:04:08
JobId=3 UserId=bob(8) Name=k JobState=CANCELLED Partition=wide TimeLimit=UNLIMITED StartTime=2026-01-01T00:05:00 \
EndTime=2026-01-01T00:05:00 NodeList=(null) NodeCnt=0 ProcCnt=4 SubmitTime=2026-01-01T00:04:00 \
EligibleTime=2026-01-01T00:04:00
JobId=x
"""


def test_jobcomp(tmp_path: Path):
    dump = read(tmp_path, JOBCOMP)
    assert (dump.form, dump.n_rows, sum(dump.skipped.values())) == ("slurm-jobcomp", 3, 1)
    jobs = jobs_of(dump)
    assert jobs.left_out == {CANCELLED: 1}
    (row,) = jobs.records
    assert (row["run_s"], row["start_s"] - row["eligible_s"], row["limit_s"]) == (283, 1, 600)
    assert (row["cores"], row["nodes"], row["gpus"]) == (32, 4, 3)


PBS = """\
01/01/2025 00:00:00;Q;1.server;queue=batch
01/01/2025 00:00:10;S;1.server;user=ann group=bio jobname=a queue=batch ctime=1735689600 qtime=1735689600 \
etime=1735689600 start=1735689610 Resource_List.ncpus=4 Resource_List.walltime=00:10:00
01/01/2025 00:01:10;E;1.server;user=ann group=bio account="p 1" jobname=a b queue=batch ctime=1735689600 \
qtime=1735689600 etime=1735689605 start=1735689610 end=1735689670 exec_host=n1/0*2+n2/0*2 \
exec_vnode=(n1:ncpus=2)+(n2:ncpus=2) Resource_List.ncpus=4 Resource_List.nodect=2 Resource_List.mem=4gb \
Resource_List.walltime=00:10:00 Exit_status=0
01/01/2025 00:00:00;E;2[3].server;user=bob queue=long ctime=1735689600 etime=1735689600 start=1735689660 \
end=1735689720 Resource_List.ncpus=1 Exit_status=1
01/01/2025 00:00:00;Q;4.server;queue=batch
01/01/2025 00:00:30;Q;5.server;queue=batch
01/01/2025 00:00:40;D;5.server;requestor=ann
01/01/2025 00:10:00;E;2[].server;user=bob queue=long ctime=1735689600 start=1735689660 end=1735689720 \
Resource_List.ncpus=1
01/01/2025 00:00:00;L;license;floating
nothing
"""


def test_pbs(tmp_path: Path):
    dump = read(tmp_path, PBS)
    assert (dump.form, dump.n_rows) == ("pbs", 10)
    jobs = jobs_of(dump)
    assert jobs.left_out == {PENDING: 1, CANCELLED: 1}
    first, second = jobs.records[np.argsort(jobs.records["job"])]
    assert (first["cores"], first["nodes"], first["run_s"], first["limit_s"]) == (4, 2, 60, 600)
    assert first["start_s"] - first["eligible_s"] == 5
    assert first["memory_kb"] == 2**20
    assert dump.names["name"].texts() == ["a b"]
    assert dump.names["account"].texts() == ["p 1"]
    assert (second["job"], second["task"], second["state"]) == (2, 3, AttemptState.FAILED)


LSF_TAIL = " ".join(["-1"] * 19) + ' "" "project" 0 1 "" "" {index} 2048 0 "" ""'
LSF = (
    '"JOB_FINISH" "10.1" 1527327585 7610 1000 33554438 1 1527326745 0 0 1527326746 "ann" "normal" "" "" "" "h" "/w d" '
    '"" "" "" "f" 1 "pac" 2 "n1" "3*n2" 64 60.0 "say ""hi""" "sleep 1" ' + LSF_TAIL.format(index=0) + "\n"
    '"JOB_FINISH" "10.1" 1527327585 7611 1000 33554438 1 1527326745 1527326800 0 0 "bob" "normal" "" "" "" "h" "" '
    '"" "" "" "f" 0 0 32 60.0 "x" "sleep 1" ' + LSF_TAIL.format(index=2) + "\n"
    '"EVENT_ADRSV_FINISH" "10.1" 1\n'
)


def test_lsf(tmp_path: Path):
    dump = read(tmp_path, LSF)
    assert (dump.form, dump.n_rows, len(dump.records)) == ("lsf", 3, 2)
    assert dump.names["name"].texts() == ['say "hi"', "x"]
    assert dump.records["task"].tolist() == [-1, 2]
    jobs = jobs_of(dump)
    assert jobs.left_out == {CANCELLED: 1}
    (row,) = jobs.records
    assert (row["run_s"], row["start_s"] - row["eligible_s"], row["cores"], row["nodes"]) == (839, 1, 4, 2)


def pod(name: str, gpus: int, start: str | None, end: str | None, **metadata):
    status = {"phase": "Succeeded" if end else "Running" if start else "Pending"}
    if start:
        status["startTime"] = start
    if end:
        status["containerStatuses"] = [{"state": {"terminated": {"startedAt": start, "finishedAt": end}}}]
    resources = {"requests": {"cpu": "1500m", "memory": "2Gi"}, "limits": {"nvidia.com/gpu": str(gpus)}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "creationTimestamp": "2025-01-01T00:00:00Z", **metadata},
        "spec": {"containers": [{"resources": resources}]},
        "status": status,
    }


def test_kubernetes(tmp_path: Path):
    workload = {
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "team", "creationTimestamp": "2025-01-01T00:00:00Z"},
        "spec": {"queueName": "q", "podSets": [{"count": 4, "template": {"spec": pod("x", 1, None, None)["spec"]}}]},
        "status": {
            "conditions": [
                {"type": "Admitted", "status": "True", "lastTransitionTime": "2025-01-01T00:01:00Z"},
                {"type": "Finished", "status": "True", "lastTransitionTime": "2025-01-01T00:03:00Z"},
            ]
        },
    }
    gang = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    items = [
        {"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "4"}}},
        pod("g0", 1, "2025-01-01T00:00:10Z", "2025-01-01T00:01:00Z", **gang),
        pod("g1", 1, "2025-01-01T00:00:10Z", "2025-01-01T00:01:10Z", **gang),
        pod("alone", 2, "2025-01-01T00:00:05Z", "2025-01-01T00:00:20Z"),
        pod("waits", 2, None, None),
        pod("of-w", 1, None, None, labels={"kueue.x-k8s.io/queue-name": "q"}),
        {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "team"}, "spec": {"queue": "gold"}},
        workload,
        {"kind": "Service", "metadata": {"name": "s"}},
        pod("odd", 1, "yesterday", None),
    ]
    dump = read(tmp_path, json.dumps({"kind": "List", "items": items}), name="dump.json")
    assert dump.n_rows == len(items) == len(dump.records) + sum(dump.skipped.values())
    assert dump.nodes == [("a", 8, 0, 4, "gpu")]
    jobs = jobs_of(dump)
    assert jobs.left_out == {PENDING: 1}
    found = {
        (int(row["gpus"]), int(row["cores"]), float(row["start_s"] - row["eligible_s"]), float(row["run_s"]))
        for row in jobs.records
    }
    assert found == {(2, 4, 10, 60), (2, 2, 5, 15), (4, 6, 60, 120)}
    assert dump.names["partition"].texts() == ["gold", "q"]


def test_initial_containers_run_before_the_others(tmp_path: Path):
    item = pod("p", 1, "2025-01-01T00:00:10Z", "2025-01-01T00:01:00Z")
    item["spec"]["initContainers"] = [{"resources": {"requests": {"cpu": cpu}}} for cpu in ("4", "3")]
    (job,) = jobs_of(read(tmp_path, json.dumps({"items": [item]}))).records
    assert (job["cores"], job["gpus"]) == (4, 1)  # not 1.5, and not 8.5


def test_pods_run_until_all_containers_ended(tmp_path: Path):
    runs = pod("a", 1, "2025-01-01T00:00:05Z", "2025-01-01T00:00:20Z")
    runs["status"]["phase"] = "Running"
    text = json.dumps({"kind": "List", "items": [runs, pod("b", 1, "2025-01-01T00:00:00Z", "2025-01-01T01:00:00Z")]})
    records = read(tmp_path, text, name="dump.json").records
    assert np.isnan(records["end_s"]).tolist() == [True, False]
    assert jobs_of(read(tmp_path, text, name="dump.json")).records["run_s"].tolist() == [3595, 3600]


def test_csv_by_a_mapping(tmp_path: Path):
    mapping = {
        "columns": {"id": "n", "submit": "in", "start": "go", "run": "took", "cores": "c", "state": "s"},
        "dates": "%d.%m.%Y %H:%M",
        "durations": "min",
        "states": {"ok": "done"},
    }
    (tmp_path / "map.json").write_text(json.dumps(mapping))
    text = "n,in,go,took,c,s\nA,01.02.2025 10:00,01.02.2025 10:05,3,4,ok\nB,01.02.2025 10:00,,,4,pending\nC,x,y,z\n"
    dump = read(tmp_path, text, name="jobs.csv", mapping=tmp_path / "map.json")
    assert (dump.form, dump.n_rows, sum(dump.skipped.values())) == ("csv", 3, 1)
    jobs = jobs_of(dump)
    assert jobs.left_out == {PENDING: 1}
    (row,) = jobs.records
    assert (row["run_s"], row["start_s"] - row["eligible_s"], row["cores"]) == (180, 300, 4)
    mapping["columns"]["cores"] = "cc"
    (tmp_path / "map.json").write_text(json.dumps(mapping))
    with pytest.raises(ReadError, match=r"has no column 'cc' \(columns.cores of .*\); did you mean 'c'\?"):
        read(tmp_path, text, name="jobs.csv", mapping=tmp_path / "map.json")


FRONTIER = (
    "; UnixStartTime: 1704067200\n; Partition: 1 batch\n"
    "1 0 5 7200 280000 -1 -1 2500 7200 -1 1 11 3 -1 2 1 -1 -1 20000 -1 frontier:excl:2500x112\n"
    "2 3 5 60 589824 -1 -1 9 3600 -1 0 12 3 -1 2 1 1 4 -1 600 frontier:excl:9x112\n"
)
"""Lines in the form of the public logs of Frontier, as the loader of ExaDigiT's RAPS describes it.

18 fields, GPUs that were used, a soft limit, and a descriptor: the node counts of field 5 are not reliable there.
"""


def test_swf_of_frontier(tmp_path: Path):
    dump = read(tmp_path, FRONTIER)
    assert (dump.form, dump.takes_whole_nodes) == ("swf", True)
    assert dump.records["nodes"].tolist() == [2500, 9]
    assert dump.records["gpus"].tolist() == [20000, 0]
    assert dump.records["after"].tolist() == [-1, 1]
    assert dump.records["think_s"][1] == 4
    assert dump.names["partition"].texts() == ["batch"]
    assert "number of nodes from the descriptor at the end of lines: 2 jobs, which have whole nodes" in dump.notes
    one = read(tmp_path, FRONTIER.replace("frontier:excl:9x112", "frontier"))
    assert one.records["nodes"].tolist() == [2500, -1]
    assert "jobs without such a number, which have the cores of field 5: 1" in one.notes
    # Nothing else than a descriptor in field 21 says nodes; another field does on request.
    for other in ("excl:9x112", "frontier:excl:9", "frontier:excl:ax112", "nodes=9"):
        text = FRONTIER.replace("frontier:excl:9x112", other).replace("frontier:excl:2500x112", other)
        assert not read(tmp_path, text).takes_whole_nodes
    assert read(tmp_path, FRONTIER, nodes_field=8).records["nodes"].tolist() == [2500, 9]
    with pytest.raises(ReadError, match="expected nodes in field 22"):
        read(tmp_path, FRONTIER, nodes_field=22)


def test_formats_have_names_that_a_message_lists(tmp_path: Path):
    with pytest.raises(HdrlError, match="no format of accounting data 'sact'; did you mean 'sacct'"):
        read(tmp_path, SACCT, "sact")
    assert all(form.help for form in FORMATS.values())
    assert NEVER_STARTED

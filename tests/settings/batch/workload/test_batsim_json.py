from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from hdrl.base.errors import HdrlError, OptionsError, ReadError, WorkloadError
from hdrl.base.seeding import stream
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.workload import (
    StepKind,
    Workload,
    lublin_workload,
    merge,
    read_batsim_json,
    read_custom_workload,
    read_workload,
    write_batsim_json,
)
from hdrl.settings.batch.workload.batsim5 import describe_for_batsim5
from hdrl.settings.batch.workload.batsim5_document import UNIFORMLY
from hdrl.settings.batch.workload.batsim_description import describe_for_batsim
from hdrl.settings.batch.workload.statistics import reference_run_times

GOOD = {
    "nb_res": 4,
    "description": "ours",
    "jobs": [
        {"id": 0, "subtime": 0, "res": 1, "profile": "c"},
        {"id": "w0!two words", "subtime": 1.5, "res": 2, "profile": "d", "walltime": 7, "user": 3, "note": {"id": 5}},
        {"id": "3", "subtime": 2, "res": 4, "profile": "seq", "mem": 12.5, "walltime": -1},
    ],
    "profiles": {
        "c": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0, "req_time": 5, "mem": 8000, "mem_bw": 24},
        "d": {"type": "delay", "delay": 3},
        "t": {"type": "parallel_homogeneous_total", "cpu": 4e9, "ret": 3},
        "inner": {"type": "composed", "seq": ["d", "c"], "ret": 9},
        "seq": {"type": "composed", "seq": ["c", "d"], "repeat": 2},
        "far": {"type": "smpi", "trace": "x"},
    },
}


def written(tmp_path: Path, document: object, name: str = "w.json") -> Path:
    path = tmp_path / name
    path.write_text(json.dumps(document))
    return path


def steps_of(workload: Workload, profile: str) -> list[tuple[int, float, int]]:
    index = workload.profile_names.index(profile)
    return workload.steps[workload.first_step[index] : workload.first_step[index + 1]].tolist()


def test_jobs_and_profiles(tmp_path):
    workload = read_batsim_json(written(tmp_path, GOOD))
    jobs = workload.jobs
    assert workload.job_ids == ("0", "two words", "3")
    assert jobs["submit_s"].tolist() == [0, 1.5, 2]
    assert jobs["cores"].tolist() == [1, 2, 4]
    assert jobs["walltime_s"].tolist() == [-1, 7, -1]
    assert jobs["requested_time_s"].tolist() == [5, 7, -1]
    assert jobs["memory_mib"].tolist() == [8000, 0, 12.5]
    assert jobs["bandwidth_gbps"].tolist() == [24, 0, 0]
    assert jobs["user"].tolist() == [-1, 3, -1]
    assert steps_of(workload, "c") == [(StepKind.COMPUTE, 1e9, 0)]
    assert steps_of(workload, "d") == [(StepKind.DELAY, 3.0, 0)]
    assert steps_of(workload, "seq") == 2 * [(StepKind.COMPUTE, 1e9, 0), (StepKind.DELAY, 3.0, 0)]
    assert steps_of(workload, "far") == []
    assert not jobs.flags.writeable


@pytest.mark.parametrize(
    ("profiles", "expected"),
    [
        ({"x": {"type": "composed", "seq": ["d", "t", "d"]}}, [("DELAY", 3.0, 0), ("COMPUTE_TOTAL", 4e9, 3)]),
        (
            {"x": {"type": "composed", "seq": ["inner", "d"], "repeat": 5}},
            [("DELAY", 3.0, 0), ("COMPUTE", 1e9, 0), ("RETURN", 0.0, 9)],
        ),
        (
            {"x": {"type": "sequence", "seq": ["seq", "d"], "ret": -7}},
            [*(2 * [("COMPUTE", 1e9, 0), ("DELAY", 3.0, 0)]), ("DELAY", 3.0, 0), ("RETURN", 0.0, -7)],
        ),
        ({"x": {"type": "delay", "delay": 1, "ret": 2}}, [("DELAY", 1.0, 2)]),
    ],
)
def test_composed_profiles_are_written_out(tmp_path, profiles, expected):
    document = copy.deepcopy(GOOD)
    document["profiles"] |= profiles
    document["jobs"] = [{"id": 1, "subtime": 0, "res": 1, "profile": "x"}]
    workload = read_batsim_json(written(tmp_path, document))
    assert [(StepKind(k).name, amount, code) for k, amount, code in steps_of(workload, "x")] == expected


def changed(**changes: object) -> dict:
    document = copy.deepcopy(GOOD)
    for key, value in changes.items():
        position, name = document, key
        while "__" in name:
            head, _, name = name.partition("__")
            position = position[int(head)] if isinstance(position, list) else position[head]
        where = int(name) if isinstance(position, list) else name
        if value is None:
            del position[where]
        else:
            position[where] = value
    return document


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"jobs": None}, "has no 'jobs'"),
        ({"profiles": []}, "'profiles' is [], expected an object"),
        ({"jobs": []}, "'jobs' is empty"),
        ({"jobs__1": 7}, "jobs[1]: is 7, expected an object"),
        ({"jobs__1__res": None}, "jobs[1]: has no 'res'"),
        ({"jobs__1__res": 0}, "job 'two words': 'res' is 0, expected a whole number of at least 1"),
        ({"jobs__1__res": 2.0}, "'res' is 2.0"),
        ({"jobs__1__res": True}, "'res' is True"),
        ({"jobs__1__subtime": -1}, "'subtime' is -1, expected a number of at least 0"),
        ({"jobs__1__subtime": "now"}, "'subtime' is 'now'"),
        ({"jobs__1__walltime": 0}, "'walltime' is 0, expected a positive number"),
        ({"jobs__1__profile": "sep"}, "'profile' is 'sep': no such profile; did you mean 'seq'?"),
        ({"jobs__1__id": 1.5}, "jobs[1]: 'id' is 1.5"),
        ({"jobs__1__id": "w1!3"}, "jobs[1]: 'id' is 'w1!3'"),
        ({"jobs__1__id": "abw0c"}, "jobs[1]: 'id' is 'abw0c'"),
        ({"jobs__1__id": "0"}, "job '0' appears twice"),
        ({"jobs__1__user": ["me"]}, "'user' is ['me'], expected a whole number or text"),
        ({"profiles__c": 3}, "profile 'c': is 3, expected an object"),
        ({"profiles__c__cpu": -1}, "profile 'c': 'cpu' is -1"),
        ({"profiles__c__cpu": None}, "profile 'c': 'cpu' is None"),
        ({"profiles__c__cpu": 10**400}, "profile 'c': 'cpu' is 1000"),
        ({"profiles__c__cpu": 1e31}, "profile 'c': 'cpu' is 1e+31, expected at most 1e+30"),
        ({"profiles__c__com": 10**400}, "profile 'c': 'com' is 1000"),
        ({"profiles__d__delay": 1e308}, "profile 'd': 'delay' is 1e+308, expected at most 1e+15"),
        ({"jobs__1__subtime": 1e308}, "job 'two words': 'subtime' is 1e+308, expected at most 1e+15"),
        ({"jobs__1__subtime": 10**400}, "expected at most 1e+15"),
        ({"jobs__1__walltime": 1e16}, "'walltime' is 1e+16, expected at most 1e+15"),
        ({"jobs__1__id": "\ud800"}, "jobs[1].id holds '\\ud800', expected valid Unicode"),
        (
            {"profiles__\ud800": {"type": "delay", "delay": 1}},
            "a key of profiles holds '\\ud800', expected valid Unicode",
        ),
        ({"profiles__c__mem": -1}, "'mem' is -1"),
        ({"profiles__d__ret": 1.5}, "profile 'd': 'ret' is 1.5"),
        ({"profiles__d__type": "dely"}, "profile 'd': 'type' is 'dely'; did you mean 'delay'?"),
        ({"profiles__seq__seq": []}, "profile 'seq': 'seq' is []"),
        ({"profiles__seq__seq": ["cc"]}, "profile 'seq': 'seq' names 'cc': no such profile"),
        ({"profiles__seq__seq": ["d", "seq"]}, "contains itself (seq > seq)"),
        ({"profiles__seq__repeat": 0}, "'repeat' is 0"),
        ({"profiles__seq__repeat": 10**9}, "more than 100000 steps"),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path, changes, message):
    with pytest.raises(ReadError) as error:
        read_batsim_json(written(tmp_path, changed(**changes)))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "profile",
    [
        {"type": "parallel", "cpu": [1], "com": [0]},
        {"type": "parallel_homogeneous", "cpu": 1, "com": 5},
        {"type": "smpi", "trace": "x"},
        {"type": "send", "msg": "x"},
        {"type": "parallel_homogeneous_pfs", "bytes_to_read": 1, "bytes_to_write": 1},
    ],
)
def test_what_only_batsim_can_run_names_profile_and_job(tmp_path, profile):
    workload = read_batsim_json(written(tmp_path, changed(profiles__d=profile)))
    with pytest.raises(WorkloadError, match=r"profile 'd' .*embedded simulator cannot run \(job 'two words'\)"):
        workload.check_simulated()
    with pytest.raises(WorkloadError, match="embedded simulator cannot run"):
        reference_run_times(workload, read_platform("homogeneous:64"))
    workload.take(np.array([workload.job_ids.index("0")])).check_simulated()  # what nobody uses may be anything


OF_BATSIM_5 = {
    "nb_res": 4,
    "jobs": [
        {"id": "b", "subtime": 3, "res": 2, "profile": "uniform", "walltime": 9},
        {"id": "a", "subtime": 3, "res": 1, "profile": "seq", "extra_data": '{"user": "ann", "mem": 3}'},
        {"id": "c", "subtime": 4, "res": 1, "profile": "delay", "extra_data": {"user": "bob"}},
    ],
    "profiles": {
        "uniform": {
            "type": "ParallelTaskHomogeneousProfile", "cpu": 8, "com": 0,
            "generation_strategy": "DefinedAmountsSpreadUniformly",
        },
        "task": {"type": "ParallelTaskHomogeneousProfile", "cpu": 5, "com": 0, "extra_data": '{"req_time": 7}'},
        "seq": {"type": "SequentialCompositionProfile", "repeat": 2, "seq": ["task", "delay"]},
        "delay": {"type": "DelayProfile", "delay": 2, "extra_data": "just a text"},
    },
}  # fmt: skip


def test_workloads_of_batsim_5_are_read_as_batsim_4_would_say_them(tmp_path):
    workload = read_batsim_json(written(tmp_path, OF_BATSIM_5))
    workload.check_simulated()
    assert workload.job_ids == ("a", "b", "c")
    assert workload.jobs["memory_mib"].tolist() == [3, 0, 0]
    assert len(set(workload.jobs["user"][[0, 2]].tolist())) == 2
    assert [workload.steps["kind"].tolist(), workload.steps["amount"].tolist()] == [
        [StepKind.COMPUTE_TOTAL, *[StepKind.COMPUTE, StepKind.DELAY] * 2, StepKind.DELAY],
        [8, 5, 2, 5, 2, 2],
    ]
    described = describe_for_batsim5(describe_for_batsim(workload))
    assert described["profiles"]["uniform"] == OF_BATSIM_5["profiles"]["uniform"]
    assert described["profiles"]["task"] == OF_BATSIM_5["profiles"]["task"]
    assert described["profiles"]["delay"] == OF_BATSIM_5["profiles"]["delay"]


@pytest.mark.parametrize(
    "profile",
    [
        {"type": "ParallelTaskHomogeneousProfile", "cpu": 1, "com": 5, "generation_strategy": UNIFORMLY},
        {"type": "ParallelTaskProfile", "cpu": [1], "com": [0]},
        {"type": "TraceReplayProfile", "trace_type": "SMPI", "filename": "x"},
        {"type": "ForkJoinCompositionProfile", "profiles": ["x"]},
    ],
)  # fmt: skip
def test_what_batsim_5_alone_can_run_is_written_for_it_as_it_was(tmp_path, profile):
    document = {"nb_res": 1, "jobs": [{"id": "1", "subtime": 0, "res": 1, "profile": "p"}], "profiles": {"p": profile}}
    workload = read_batsim_json(written(tmp_path, document))
    with pytest.raises(WorkloadError, match=r"embedded simulator cannot run \(job '1'\)"):
        workload.check_simulated()
    assert describe_for_batsim5(describe_for_batsim(workload)) == document


def test_deep_nesting_is_an_error_not_a_crash(tmp_path):
    profiles = {f"p{i}": {"type": "composed", "seq": [f"p{i + 1}"]} for i in range(5000)}
    profiles["p5000"] = {"type": "delay", "delay": 1}
    document = {"jobs": [{"id": 1, "subtime": 0, "res": 1, "profile": "p0"}], "profiles": profiles}
    with pytest.raises(ReadError, match="nested more than 100"):
        read_batsim_json(written(tmp_path, document))


def test_what_is_read_is_written_as_it_was(tmp_path):
    workload = read_batsim_json(written(tmp_path, GOOD))
    write_batsim_json(workload, tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text()) == GOOD


def test_changes_are_written(tmp_path, learning):
    workload = read_batsim_json(written(tmp_path, GOOD)).window(1, 2)
    write_batsim_json(workload, tmp_path / "out.json.gz", platform=learning)
    again = read_batsim_json(tmp_path / "out.json.gz")
    assert again.jobs.tolist() == workload.jobs.tolist()
    assert again.job_ids == ("two words", "3")
    assert again.extra["jobs"][0]["note"] == {"id": 5}


@pytest.mark.parametrize("walltime", [None, "requested"])
def test_generated_workloads_survive_the_round_trip(tmp_path, gaia, walltime):
    workload = lublin_workload(gaia, 40, seed=3, walltime=walltime)
    write_batsim_json(workload, tmp_path / "out.json", platform=gaia)
    again = read_batsim_json(tmp_path / "out.json")
    assert again.jobs.tolist() == workload.jobs.tolist()
    assert again.steps.tolist() == workload.steps.tolist()
    assert (again.job_ids, again.profile_names) == (workload.job_ids, workload.profile_names)
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["nb_res"] == gaia.n_cores
    profile = document["profiles"]["job_1"]
    assert set(profile) == {"type", "cpu", "com", "req_time", "req_ops", "mem", "mem_bw"}
    assert profile["req_ops"] == pytest.approx(profile["req_time"] * gaia.reference_gflops * 1e9)


def test_steps_survive_the_round_trip_without_descriptions(tmp_path):
    from dataclasses import replace

    document = copy.deepcopy(GOOD)
    document["profiles"]["x"] = {"type": "composed", "seq": ["seq", "inner"]}
    document["jobs"][0]["profile"] = "x"
    document["jobs"][1]["profile"] = "t"
    read = read_batsim_json(written(tmp_path, document))
    write_batsim_json(replace(read, extra={}), tmp_path / "out.json")
    again = read_batsim_json(tmp_path / "out.json")
    for name in ("x", "t", "seq"):
        assert steps_of(again, name) == steps_of(read, name)
    columns = ["submit_s", "cores", "walltime_s", "requested_time_s", "memory_mib", "bandwidth_gbps", "user"]
    assert again.jobs[columns].tolist() == read.jobs[columns].tolist()


def test_custom_workloads_take_the_speed_of_the_platform(tmp_path, gaia, learning):
    path = written(tmp_path, changed(profiles={"c": {**GOOD["profiles"]["c"], "cpu": 1, "req_ops": None}}))
    document = json.loads(path.read_text())
    document["jobs"] = document["jobs"][:1]
    path.write_text(json.dumps(document))
    assert read_custom_workload(path, learning).steps["amount"].tolist() == [4.2 * 5 * 1e9]
    assert read_workload(path, gaia, custom=True).steps["amount"][0] == pytest.approx(gaia.reference_gflops * 5e9)
    with pytest.raises(ReadError, match="profile 'd': 'req_time' is None"):
        read_custom_workload(written(tmp_path, GOOD), learning)


def test_users_of_several_files_are_told_apart_by_their_names(tmp_path):
    users = {"one": ["alice", 0, "bob"], "two": ["carol", "alice", 0]}
    for name, given in users.items():
        jobs = [{"id": k, "subtime": k, "res": 1, "profile": "p", "user": user} for k, user in enumerate(given)]
        document = {"nb_res": 1, "jobs": jobs, "profiles": {"p": {"type": "delay", "delay": 1}}}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    both = read_workload([tmp_path / f"{name}.json" for name in users])
    assert both.jobs["user"].tolist() == [1, 0, 2, 3, 1, 0]


def test_several_files_are_several_sources(tmp_path):
    second = changed(jobs__1__id="w1!two words")
    both = read_workload([written(tmp_path, GOOD), written(tmp_path, second, "second.json")])
    assert both.sources == ("w0", "w1")
    assert both.jobs["source"].tolist() == [0, 0, 0, 1, 1, 1]
    assert both.profile_names == 2 * tuple(GOOD["profiles"])
    one = read_batsim_json(tmp_path / "w.json")
    for i in range(6):
        profile = both.jobs["profile"][i]
        first, last = both.first_step[profile : profile + 2]
        assert both.steps[first:last].tolist() == steps_of(one, both.profile_names[profile])
    with pytest.raises(OptionsError, match="no source"):
        write_batsim_json(both, tmp_path / "out.json")
    write_batsim_json(both, tmp_path / "out.json", source="w1")
    assert json.loads((tmp_path / "out.json").read_text()) == second
    with pytest.raises(WorkloadError):
        merge([])


UNSUPPORTED = {
    "messages", "profiles_comm", "profiles_comm_latency", "smpi", "storage", "stress_comm_easy",
    "usage_trace", "various_profiles", "energy_multicore", "kill_right_after_start", "kill_right_after_start_latency",
    "platform_blank_first", "platform_cluster", "platform_cluster_energy", "platform_cluster_pfs",
    "platform_fewer_watts", "platform_properties", "rapidjson_numbers", "same_date_latency", "schedule_trace",
    "single_executor", "single_executor_same_date", "stretch_near_zero",
}  # fmt: skip


def test_recorded_workloads(shared):
    names, refused = [], set()
    for path in sorted((shared / "batsim-runs").glob("*/workload.json")):
        try:
            workload = read_batsim_json(path)
            workload.check_simulated()
        except WorkloadError:
            refused.add(path.parent.name)
            continue
        names.append(path.parent.name)
        document = json.loads(path.read_text())
        assert workload.n_jobs == len(document["jobs"])
        rows = (path.parent / "out_jobs.csv").read_text().splitlines()
        used = (workload.profile_names[p] for p in workload.jobs["profile"])
        known = {f"{job_id},w0,{name}" for job_id, name in zip(workload.job_ids, used, strict=True)}
        told = {",".join(row.split(",")[:3]) for row in rows[1:] if row.split(",")[1] == "w0"}
        assert told <= known or path.parent.name.startswith("dynamic")
    assert refused == UNSUPPORTED
    assert len(names) >= 30
    assert {"sequence", "hdeeprm_gaia200_padded", "bf_200", "two_workloads"} <= set(names)


def test_recorded_sequence(shared):
    workload = read_batsim_json(shared / "batsim-runs" / "sequence" / "workload.json")
    compute, rest = (StepKind.COMPUTE, 1e8, 0), (StepKind.DELAY, 3.0, 0)
    assert steps_of(workload, "outer") == 2 * [compute, compute, rest]
    assert steps_of(workload, "bad") == [rest, (StepKind.DELAY, 2.0, 3)]


def test_mutated_files_give_nothing_but_our_errors(tmp_path, learning):
    rng = stream(11, "fuzz")
    scraps = [None, True, -1, 0, 1e308, 10**30, "", "w0", [], {}, "c", [["c"]], {"id": 1}, "composed", -0.5]
    path = tmp_path / "fuzz.json"
    outcomes = set()

    def mutate(value: object) -> object:
        if isinstance(value, dict) and value and rng.random() < 0.9:
            key = list(value)[rng.integers(len(value))]
            if rng.random() < 0.15:
                return {k: v for k, v in value.items() if k != key}
            return value | {key: mutate(value[key])}
        if isinstance(value, list) and value and rng.random() < 0.9:
            at = int(rng.integers(len(value)))
            return [*value[:at], mutate(value[at]), *value[at + 1 :]]
        return scraps[rng.integers(len(scraps))]

    for i in range(300):
        document = mutate(GOOD)
        for _ in range(rng.integers(3)):
            document = mutate(document)
        text = json.dumps(document)
        path.write_text(text if i % 5 else text[: int(rng.integers(len(text)))])
        try:
            workload = read_custom_workload(path, learning) if i % 7 == 0 else read_batsim_json(path)
            write_batsim_json(workload, tmp_path / "out.json")
            assert np.array_equal(read_batsim_json(tmp_path / "out.json").jobs, workload.jobs)
        except HdrlError as error:
            outcomes.add("one line" if "\n" not in str(error) else "several lines")
        else:
            outcomes.add("read")
    assert outcomes == {"one line", "read"}


def test_an_id_that_cannot_be_written_is_refused_while_reading(tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    path.write_text(
        '{"nb_res": 1, "jobs": [{"id": "\\ud800", "subtime": 0, "res": 1, "profile": "a"}],'
        ' "profiles": {"a": {"type": "delay", "delay": 1}}}'
    )
    with pytest.raises(ReadError, match=r"jobs\[0\].id holds .*ud800.*, expected valid Unicode"):
        read_batsim_json(path)
    path.write_text(path.read_text().replace("ud800", "udcff"))
    with pytest.raises(ReadError, match=r"jobs\[0\]: 'id' is .*udcff.*, expected valid Unicode"):
        read_batsim_json(path)

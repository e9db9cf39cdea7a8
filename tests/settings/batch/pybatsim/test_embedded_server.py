"""The embedded simulator in Batsim's place: what it says, and what it refuses."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdrl.base.errors import (
    BatsimError,
    DecisionError,
    HdrlError,
    PlatformError,
    ReadError,
    SimulationError,
    WorkloadError,
)
from hdrl.batsim.embedded_server import EmbeddedServer
from hdrl.batsim.exact import BatsimOptions, ExactBatsim
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.platform.simgrid import read_simgrid
from hdrl.settings.batch.simulation import BatchTrace, JobState
from hdrl.settings.batch.workload import merge, read_batsim_json

from ..recorded_runs import RECORDED, need_recorded_runs, recorded_parameters  # noqa: TID252 - of all tests

BEYOND = {
    "--events": "external events",
    "--enable-dynamic-jobs": "registered jobs",
    "--enable-compute-sharing": "shared machines",
    "--forward-profiles-on-submission": "profiles with submissions",
}
"""Options of Batsim that the embedded simulator does not have."""

REFUSED = {
    "kill_job": (BatsimError, "'w0!2' has a composed profile"),
    "kill_twice": (BatsimError, "'w0!2' has a composed profile"),
    "mapping": (BatsimError, "'mapping' is not supported here"),
    "energy_multicore": (WorkloadError, "communicates"),
    "fcfs_200_latency": (SimulationError, "links with latencies"),
    "messages": (WorkloadError, "type 'send'"),
    "profiles_comm": (WorkloadError, "type 'parallel'"),
    "profiles_comm_latency": (SimulationError, "links with latencies"),
    "same_time_latency": (SimulationError, "links with latencies"),
    "single_job_latency": (SimulationError, "links with latencies"),
    "smpi": (SimulationError, "links with latencies"),
    "storage": (WorkloadError, "type .*which the embedded simulator cannot run"),
    "stress_comm_easy": (WorkloadError, "communicates"),
    "usage_trace": (SimulationError, "links with latencies"),
    "various_profiles": (SimulationError, "links with latencies"),
    "kill_right_after_start_latency": (SimulationError, "links with latencies"),
    "platform_blank_first": (WorkloadError, "communicates"),
    "platform_cluster": (SimulationError, "links with latencies"),
    "platform_cluster_energy": (PlatformError, "none with the role 'master'"),
    "platform_router_without_routes": (SimulationError, "links with latencies"),
    "platform_cluster_pfs": (SimulationError, "links with latencies"),
    "platform_fewer_watts": (WorkloadError, "communicates"),
    "platform_properties": (SimulationError, "links with latencies"),
    "pstate_to_virtual": (DecisionError, "is a sleep state or a transition to one"),
    "same_date_latency": (SimulationError, "links with latencies"),
    "schedule_trace": (WorkloadError, "communicates"),
    "single_executor": (WorkloadError, "type 'parallel'"),
    "single_executor_same_date": (WorkloadError, "type 'parallel'"),
    "stretch_near_zero": (WorkloadError, "communicates"),
    "edge-cases/after_end": (BatsimError, "SIMULATION_ENDS asks for CALL_ME_LATER"),
    "edge-cases/big_double": (BatsimError, "38 characters"),
    "edge-cases/busy_host": (DecisionError, "'w0!1': core 0 is not free"),
    "edge-cases/call_now": (BatsimError, "which is not later"),
    "edge-cases/change_reject": (BatsimError, "changes of a job's state are not supported"),
    "edge-cases/change_state": (BatsimError, "changes of a job's state are not supported"),
    "edge-cases/id_contains_w0": (ReadError, "may only come as"),
    "edge-cases/kill_gone": (BatsimError, "'w0!0' does not exist any more"),
    "edge-cases/no_decision": (SimulationError, "1 jobs are waiting"),
    "edge-cases/pstate_no_energy": (BatsimError, "needs energy"),
    "edge-cases/unknown_profile_type": (ReadError, "'type' is 'strange'"),
    "edge-cases/wrong_size": (DecisionError, "asks for 1 cores"),
}
"""Recorded runs that the embedded simulator refuses, and what it says then."""


class Replay:
    """A scheduler that gives recorded replies, and compares what it is told with what was recorded."""

    def __init__(self, folder: Path) -> None:
        text = gzip.decompress((folder / "transcript.jsonl.gz").read_bytes()).decode()
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        self.expected = [line["message"] for line in lines if line["from"] == "batsim"]
        self.replies = [line["message"] for line in lines if line["from"] == "scheduler"]
        self.n_messages = 0

    def exchange(self, message: str) -> str:
        k = self.n_messages
        self.n_messages += 1
        if k == 0:
            expected = json.loads(self.expected[0])
            workloads = expected["events"][0]["data"]["workloads"]
            workloads.update({name: Path(path).name for name, path in workloads.items()})
            assert json.loads(message) == expected
        else:
            assert message == self.expected[k]
        return self.replies[k]


class Scripted:
    """A scheduler that answers with what a function makes of each event."""

    def __init__(self, decide: Callable[[dict[str, Any]], Iterator[tuple[str, dict[str, Any]]]]) -> None:
        self._decide = decide
        self.events: list[dict[str, Any]] = []
        self.messages: list[str] = []

    def exchange(self, message: str) -> str:
        told = json.loads(message)
        self.messages.append(message)
        self.events += told["events"]
        asked = [request for event in told["events"] for request in self._decide(event)]
        requests = [{"timestamp": told["now"], "type": kind, "data": data} for kind, data in asked]
        return json.dumps({"now": told["now"], "events": requests})


def arguments(folder: Path) -> list[str]:
    args: list[str] = json.loads((folder / "run.json").read_text())["args"]
    return args


def server_for(folder: Path) -> EmbeddedServer:
    args = arguments(folder)
    files = [folder / args[i + 1] for i, arg in enumerate(args) if arg == "-w"]
    workload = merge([read_batsim_json(file, source=f"w{k}") for k, file in enumerate(files)])
    return EmbeddedServer(read_simgrid(folder / "platform.xml"), workload, energy="-E" in args)


def recorded() -> list[Any]:
    """Return the recorded runs whose options the embedded simulator has."""
    runs = [path.parent for path in sorted(RECORDED.rglob("run.json"))]
    runs = [folder for folder in runs if not BEYOND.keys() & set(arguments(folder)) and "-w" in arguments(folder)]
    return recorded_parameters(runs)


@pytest.mark.parametrize("folder", recorded())
def test_says_what_batsim_said(folder: Path) -> None:
    """Given the recorded replies, every message is the recorded one, as text."""
    need_recorded_runs()
    replay = Replay(folder)
    name = folder.relative_to(RECORDED).as_posix()
    if name in REFUSED:
        kind, problem = REFUSED[name]
        with pytest.raises(kind, match=problem):
            server_for(folder).run(replay)
        return
    trace = server_for(folder).run(replay)
    assert replay.n_messages == len(replay.expected)
    assert set(trace.records["state"].tolist()) <= {
        JobState.COMPLETED_SUCCESSFULLY,
        JobState.COMPLETED_WALLTIME_REACHED,
        JobState.COMPLETED_FAILED,
        JobState.COMPLETED_KILLED,
        JobState.REJECTED,
    }


PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="main" routing="Full">
  <host id="master_host" speed="1Gf"><prop id="wattage_per_state" value="0:0"/></host>
  {hosts}
</zone></platform>
"""
HOST = """<host id="h{k}" speed="10f,5f"><prop id="wattage_per_state" value="1:2,1:1.5"/></host>"""
LINK = """<link id="l{k}" bandwidth="10GBps" latency="0s"/>"""
ROUTE = """<route src="master_host" dst="h{k}"><link_ctn id="l{k}"/></route>"""
PROFILES = {
    "work": {"type": "parallel_homogeneous", "cpu": 100, "com": 0},
    "shared": {"type": "parallel_homogeneous_total", "cpu": 200, "com": 0},
    "nap": {"type": "delay", "delay": 8},
    "both": {"type": "composed", "seq": ["work", "nap"]},
}


class World:
    """Four hosts of 10 flop/s and some jobs, on files that every simulator can read."""

    def __init__(self, folder: Path, jobs: list[dict[str, Any]]) -> None:
        self.folder = folder
        parts = [template.format(k=k) for template in (HOST, LINK, ROUTE) for k in range(4)]
        (folder / "platform.xml").write_text(PLATFORM.format(hosts="\n".join(parts)))
        document = {"nb_res": 4, "jobs": jobs, "profiles": PROFILES}
        (folder / "workload.json").write_text(json.dumps(document))

    def embedded(self, scheduler: Any, *, energy: bool = True) -> BatchTrace:
        platform = read_simgrid(self.folder / "platform.xml")
        workload = read_batsim_json(self.folder / "workload.json")
        return EmbeddedServer(platform, workload, energy=energy).run(scheduler)

    def exact(self, scheduler: Any) -> None:
        files = BatsimOptions(
            platform=self.folder / "platform.xml", workloads=(self.folder / "workload.json",), energy=True
        )
        ExactBatsim(files).run(scheduler)


def job(name: int, profile: str, res: int = 1, **more: Any) -> dict[str, Any]:
    return {"id": name, "subtime": 0, "res": res, "profile": profile, **more}


def starts_and_kills(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Start jobs 0 to 2 on hosts 0 to 3, slow host 0 down at 2 s, kill them all at 5 s."""
    if event["type"] == "SIMULATION_BEGINS":
        yield "CALL_ME_LATER", {"timestamp": 2}
        yield "CALL_ME_LATER", {"timestamp": 5}
    elif event["type"] == "JOB_SUBMITTED":
        number = event["data"]["job_id"].removeprefix("w0!")
        yield "EXECUTE_JOB", {"job_id": event["data"]["job_id"], "alloc": {"0": "0", "1": "1", "2": "2-3"}[number]}
    elif event["type"] == "REQUESTED_CALL" and event["timestamp"] < 4:
        yield "SET_RESOURCE_STATE", {"resources": "0", "state": "1"}
    elif event["type"] == "REQUESTED_CALL":
        yield "KILL_JOB", {"job_ids": ["w0!0", "w0!1", "w0!2"]}


def test_progress_of_killed_jobs_is_that_of_the_exact_simulator(tmp_path: Path) -> None:
    """At 5 s: 2 s at 10 flop/s and 3 s at 5 flop/s of 100 flop; 5 of 8 s; 5 s of 100 flop on each of two hosts."""
    world = World(tmp_path, [job(0, "work"), job(1, "nap"), job(2, "shared", res=2)])
    embedded, exact = Scripted(starts_and_kills), Scripted(starts_and_kills)
    world.embedded(embedded)
    world.exact(exact)
    assert embedded.events[1:] == exact.events[1:]
    (killed,) = (event["data"] for event in embedded.events if event["type"] == "JOB_KILLED")
    progress = {job_id: told["progress"] for job_id, told in killed["job_progress"].items()}
    assert progress == pytest.approx({"w0!0": 0.35, "w0!1": 0.625, "w0!2": 0.5})


def answer_with(kind: str, data: dict[str, Any]) -> Scripted:
    """Return a scheduler that asks for something when the first job is submitted."""

    def decide(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        if event["type"] == "JOB_SUBMITTED":
            yield kind, data

    return Scripted(decide)


@pytest.mark.parametrize(
    ("kind", "data", "problem"),
    [
        ("EXECUTE_JOB", {"job_id": "w0!7", "alloc": "0"}, "no job 'w0!7'; did you mean 'w0!0'"),
        ("EXECUTE_JOB", {"job_id": "w0!0", "alloc": "9"}, "machine 9 does not exist"),
        ("EXECUTE_JOB", {"job_id": "w0!0", "alloc": "0", "storage_mapping": {}}, "'storage_mapping' is not supported"),
        ("KILL_JOB", {"job_ids": ["w0!0"]}, "composed profile"),
        ("QUERY", {"requests": {"consumed_energy": {}}}, "needs energy"),
        ("SET_RESOURCE_STATE", {"resources": "0", "state": "1"}, "needs energy"),
        ("TO_JOB_MSG", {"job_id": "w0!0", "msg": "hello"}, "messages to jobs are not supported"),
        ("NOTIFY", {"type": "registration_finished"}, "jobs registered by the scheduler are not supported"),
        ("CALL_ME_LATER", {"timestamp": 0}, "not later"),
        ("EXECUTE", {}, "did you mean 'EXECUTE_JOB'"),
    ],
)
def test_what_it_cannot_do_is_said_in_one_line(tmp_path: Path, kind: str, data: dict[str, Any], problem: str) -> None:
    world = World(tmp_path, [job(0, "both")])
    with pytest.raises(BatsimError, match=problem) as caught:
        world.embedded(answer_with(kind, data), energy=False)
    assert "\n" not in str(caught.value)


def first_fit() -> Scripted:
    """Return a scheduler that starts jobs as they come on the first free machines."""
    free: list[int] = []
    waiting: list[dict[str, Any]] = []

    def decide(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        data = event["data"]
        if event["type"] == "SIMULATION_BEGINS":
            free.extend(machine["id"] for machine in data["compute_resources"])
        elif event["type"] == "JOB_SUBMITTED":
            waiting.append(data["job"])
        elif event["type"] == "JOB_COMPLETED":
            ends = [part.split("-") for part in data["alloc"].split()]
            free.extend(core for end in ends for core in range(int(end[0]), int(end[-1]) + 1))
        for asked in list(waiting):
            if asked["res"] <= len(free):
                free.sort()
                cores = [free.pop(0) for _ in range(asked["res"])]
                waiting.remove(asked)
                yield "EXECUTE_JOB", {"job_id": asked["id"], "alloc": " ".join(map(str, cores))}

    return Scripted(decide)


def test_changes_by_rules_of_the_platform_are_not_told(tmp_path: Path) -> None:
    """On a heterogeneous platform cores change their P-states by themselves, and jobs end."""
    platform = read_platform("learning")
    World(tmp_path, [job(k, "nap", res=2) for k in range(4)])
    workload = read_batsim_json(tmp_path / "workload.json")
    scheduler = first_fit()
    trace = EmbeddedServer(platform, workload).run(scheduler)
    assert trace.n_grouped_switches > 0
    assert {event["type"] for event in scheduler.events} == {
        "SIMULATION_BEGINS",
        "JOB_SUBMITTED",
        "NOTIFY",
        "JOB_COMPLETED",
        "SIMULATION_ENDS",
    }
    with pytest.raises(BatsimError, match="by its rules"):
        EmbeddedServer(platform, workload).run(answer_with("SET_RESOURCE_STATE", {"resources": "0", "state": "0"}))


def test_a_second_run_is_the_first_again(tmp_path: Path) -> None:
    world = World(tmp_path, [job(k, "work", res=1 + k % 3, walltime=50) for k in range(8)])
    server = EmbeddedServer(read_simgrid(tmp_path / "platform.xml"), read_batsim_json(tmp_path / "workload.json"))
    first, second = server.run(first_fit()), server.run(first_fit())
    assert np.array_equal(first.records, second.records)
    assert np.array_equal(first.records, world.embedded(first_fit()).records)


@pytest.mark.parametrize(
    ("date_s", "n_messages"), [(672, 2), (61.6, 2), (709, 2), (10, 1), (5.25, 1), (1000, 2), (77, 1)]
)
def test_two_first_jobs_of_one_date_come_as_the_clock_rounds_it(tmp_path: Path, date_s: float, n_messages: int) -> None:
    """The submitter sleeps from 1e-10 s, when the server has its hello; the scheduler's answer takes 1e-10 s of it."""
    left_s = date_s - 1e-10
    woken_s = (1e-10 + 1e-10) + (left_s - 1e-10)
    assert (woken_s < date_s) == (n_messages == 2)
    world = World(tmp_path, [job(k, "nap", subtime=date_s) for k in range(2)])
    embedded, exact = first_fit(), first_fit()
    world.embedded(embedded)
    world.exact(exact)
    assert embedded.messages[1:] == exact.messages[1:]
    assert sum("JOB_SUBMITTED" in message for message in embedded.messages) == n_messages


JOBS = st.lists(
    st.fixed_dictionaries(
        {
            "subtime": st.integers(0, 30),
            "res": st.integers(1, 4),
            "profile": st.sampled_from(["work", "nap", "both", "shared"]),
            "walltime": st.sampled_from([-1, 3, 8, 15, 40]),
        }
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(jobs=JOBS)
def test_random_worlds_are_told_as_by_the_exact_simulator(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[dict[str, Any]]
) -> None:
    described = [{"id": k, **{key: value for key, value in made.items() if value != -1}} for k, made in enumerate(jobs)]
    world = World(tmp_path_factory.mktemp("world"), described)
    embedded, exact = first_fit(), first_fit()
    world.embedded(embedded)
    world.exact(exact)
    assert embedded.events[1:] == exact.events[1:]


REPLY = '{"now": 0.0, "events": [{"timestamp": 0.0, "type": "EXECUTE_JOB", "data": {"job_id": "w0!0", "alloc": "0"}}]}'


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, len(REPLY) - 1), text=st.text(max_size=3))
def test_damaged_replies_give_an_error_or_a_result(
    tmp_path_factory: pytest.TempPathFactory, place: int, text: str
) -> None:
    world = World(tmp_path_factory.mktemp("world"), [job(0, "work")])

    class Damaged:
        def exchange(self, message: str) -> str:
            if "JOB_SUBMITTED" in message:
                return REPLY[:place] + text + REPLY[place + len(text) :]
            return '{"now": 0, "events": []}'

    problem = ""
    try:
        trace = world.embedded(Damaged())
    except HdrlError as error:
        problem = str(error)
    assert "\n" not in problem
    assert problem or trace.records["state"][0] == JobState.COMPLETED_SUCCESSFULLY

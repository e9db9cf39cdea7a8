"""Batsim 5: messages written from its documentation, and two conversations with the real v5.0.0-rc2."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hdrl.base.errors import BatsimError, ReadError, WorkloadError
from hdrl.batsim.batprotocol import Batprotocol, check_first_message, hello
from hdrl.batsim.dialects import Batsim5, new_dialect
from hdrl.batsim.real import BatsimSimulator
from hdrl.launcher.main import cli
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.simulation import JobState
from hdrl.settings.batch.simulation.readers import read_out_jobs
from hdrl.settings.batch.simulators import BatsimSettings
from hdrl.settings.batch.workload.batsim5 import describe_for_batsim5
from hdrl.testing import JobSpec, small_workload

from .stand_ins import command


def _message(now: float, *events: tuple[str, dict[str, Any]]) -> str:
    told = [{"timestamp": now, "event_type": kind, "event": data} for kind, data in events]
    return json.dumps({"now": now, "events": told}) + "\0"


def _reply(now: float, *events: tuple[str, dict[str, Any]]) -> str:
    return json.dumps({"now": now, "events": [{"timestamp": now, "type": kind, "data": data} for kind, data in events]})


def _host(k: int, name: str) -> dict[str, Any]:
    more = {"pstate": 0, "pstate_count": 1, "state": "IDLE", "properties": [], "zone_properties": [], "core_count": 1}
    return {"id": k, "name": name, **more, "computation_speed": [1e9]}


def _begins(names: list[str]) -> tuple[str, dict[str, Any]]:
    data = {
        "host_number": len(names),
        "computation_host_number": len(names),
        "computation_hosts": [_host(k, name) for k, name in enumerate(names)],
        "storage_host_number": 0,
        "storage_hosts": [],
        "batsim_arguments": [],
        "batsim_execution_context_json": "{}",
        "workloads": [{"name": "w0", "filename": "/w.json"}],
        "profiles": [],
    }
    return "SimulationBeginsEvent", data


def _submitted(name: str, res: int) -> tuple[str, dict[str, Any]]:
    job = {"resource_request": res, "walltime": -1.0, "extra_data": "", "profile_id": "p"}
    return "JobSubmittedEvent", {"job_id": f"w0!{name}", "job": job, "submission_time": 0.0}


KILLED = {
    "job_ids": ["w0!0", "w0!1"],
    "progresses": [
        {
            "job_id": "w0!0",
            "wrapper": {
                "kill_progress_type": "KillProgressAtomicProfile",
                "kill_progress": {"profile_id": "w0!p", "progress": 0.25},
            },
        },
        {
            "job_id": "w0!1",
            "wrapper": {
                "kill_progress_type": "KillProgressSequentialProfile",
                "kill_progress": {"profile_id": "w0!s", "current_repetition": 0, "current_task_index": 1},
            },
        },
    ],
}


@pytest.mark.parametrize(
    ("event", "heard"),
    [
        (_submitted("0", 2), ("JOB_SUBMITTED", {"job_id": "w0!0", "job": {"res": 2}})),
        (
            ("JobCompletedEvent", {"job_id": "w0!0", "state": "COMPLETED_KILLED", "return_code": 2**32 - 2}),
            ("JOB_COMPLETED", {"job_id": "w0!0", "job_state": "COMPLETED_KILLED", "return_code": -2, "alloc": "0-1"}),
        ),
        (
            ("JobsKilledEvent", KILLED),
            ("JOB_KILLED", {"job_ids": ["w0!0", "w0!1"], "job_progress": {"w0!0": {"progress": 0.25}}}),
        ),
        (("RequestedCallEvent", {"call_me_later_id": "hdrl-1", "last_periodic_call": False}), ("REQUESTED_CALL", {})),
        (
            ("HostsPStateChangedEvent", {"host_ids": "0-1", "pstate": 3}),
            ("RESOURCE_STATE_CHANGED", {"resources": "0-1", "state": "3"}),
        ),
        (
            ("HostsTurnedOnOffEvent", {"host_ids": "0-1", "state": 4}),
            ("RESOURCE_STATE_CHANGED", {"resources": "0-1", "state": "4"}),
        ),
        (
            (
                "ProbeDataEmittedEvent",
                {"probe_id": "hdrl-energy-1", "data_type": "AggregatedProbeData", "data": {"data": 12.5}},
            ),
            ("ANSWER", {"consumed_energy": 12.5}),
        ),
        (("AllStaticJobsHaveBeenSubmittedEvent", {}), ("NOTIFY", {"type": "no_more_static_job_to_submit"})),
        (("SimulationEndsEvent", {}), ("SIMULATION_ENDS", {})),
    ],
)
def test_what_batsim_says(event: tuple[str, dict[str, Any]], heard: tuple[str, dict[str, Any]]) -> None:
    protocol = Batprotocol()
    protocol.encode(_reply(0.0, ("EXECUTE_JOB", {"job_id": "w0!0", "alloc": "0-1"})))
    told = json.loads(protocol.decode(_message(2.5, event)))
    assert told == {"now": 2.5, "events": [{"timestamp": 2.5, "type": heard[0], "data": heard[1]}]}


@pytest.mark.parametrize(
    ("request_", "kind", "said"),
    [
        (("REJECT_JOB", {"job_id": "w0!0"}), "RejectJobEvent", {"job_id": "w0!0"}),
        (("KILL_JOB", {"job_ids": ["w0!0"]}), "KillJobsEvent", {"job_ids": ["w0!0"]}),
        (
            ("SET_RESOURCE_STATE", {"resources": "0 2", "state": "1"}),
            "ChangeHostsPStateEvent",
            {"host_ids": "0 2", "pstate": 1},
        ),
        (
            # never before the date that was asked for, nor a millisecond late for what cannot be halved
            ("CALL_ME_LATER", {"timestamp": 4.1}),
            "CallMeLaterEvent",
            {"call_me_later_id": "hdrl-1", "when_type": "OneShot", "when": {"time": 4100, "time_unit": "Millisecond"}},
        ),
        (("NOTIFY", {"type": "registration_finished"}), "FinishRegistrationEvent", {}),
        (
            ("EXECUTE_JOB", {"job_id": "w0!0", "alloc": "0-1"}),
            "ExecuteJobEvent",
            {
                "job_id": "w0!0",
                "allocation": {
                    "host_allocation": "0-1",
                    "executor_placement_type": "PredefinedExecutorPlacementStrategyWrapper",
                    "executor_placement": {"strategy": "SpreadOverHostsFirst"},
                },
                "profile_allocation_override": [],
                "storage_placement": [],
            },
        ),
    ],
)
def test_what_is_said_to_batsim(request_: tuple[str, dict[str, Any]], kind: str, said: dict[str, Any]) -> None:
    reply = json.loads(Batprotocol().encode(_reply(1.0, request_)))
    assert reply == {"now": 1.0, "events": [{"timestamp": 1.0, "event_type": kind, "event": said}]}


def test_nodes_that_sleep_are_turned_off_and_on() -> None:
    # ChangeHostsPState is instantaneous in Batsim 5, whatever a node takes to boot.
    protocol = Batprotocol()
    host = {"properties": [{"key": "sleep_pstates", "value": "4:5:6"}, {"key": "role", "value": ""}]}
    hosts = [{"id": number, "name": f"h{number}", **host} for number in range(3)]
    begins = {"computation_hosts": hosts, "workloads": [{"name": "w0", "filename": "w.json"}]}
    protocol.decode(_message(0.0, ("SimulationBeginsEvent", begins)))

    def said(resources: str, state: int) -> tuple[str, dict[str, Any]]:
        data = {"resources": resources, "state": str(state)}
        (event,) = json.loads(protocol.encode(_reply(1.0, ("SET_RESOURCE_STATE", data))))["events"]
        return event["event_type"], event["event"]

    assert said("0-1", 1) == ("ChangeHostsPStateEvent", {"host_ids": "0-1", "pstate": 1})
    assert said("0-1", 4) == ("TurnOnOffHostsEvent", {"host_ids": "0-1", "state": 4})
    assert said("2", 3) == ("ChangeHostsPStateEvent", {"host_ids": "2", "pstate": 3})
    assert said("0-1", 3) == ("TurnOnOffHostsEvent", {"host_ids": "0-1", "state": 3})
    assert said("0-1", 0) == ("ChangeHostsPStateEvent", {"host_ids": "0-1", "pstate": 0})


RUNS_OF_5 = next((p / "shared" / "batsim5-runs" for p in Path(__file__).parents if (p / "shared").is_dir()), Path())


@pytest.mark.skipif(not RUNS_OF_5.is_dir(), reason="../shared/batsim5-runs is not there")
def test_what_the_real_batsim_5_said_and_wrote_is_understood() -> None:
    folder = RUNS_OF_5 / "shortest-high_gflops"
    protocol, heard = Batprotocol(), []
    with gzip.open(folder / "conversation.jsonl.gz", "rt") as lines:
        arguments = json.loads(next(lines))["arguments"]
        said = [json.loads(line) for line in lines]
    for message in said:
        if message["from"] == "batsim" and message["text"]:
            told = json.loads(protocol.decode(message["text"]))
            heard += [event["type"] for event in told["events"]]
            while (more := protocol.more(json.dumps({"now": 0, "events": []}))) is not None:
                heard += [event["type"] for event in json.loads(more)["events"]]
    assert heard[0] == "SIMULATION_BEGINS"
    assert heard[-1] == "SIMULATION_ENDS"
    n_jobs = len(json.loads((folder / "workload.json").read_text())["jobs"])
    assert heard.count("JOB_SUBMITTED") == heard.count("JOB_COMPLETED") == n_jobs
    files = [Path(arguments[1]), [Path(arguments[3])]]
    ours = list(new_dialect(5).arguments(*files, arguments[5], Path("out"), energy=True))
    assert ours == arguments
    jobs = read_out_jobs(folder / "out_jobs.csv")
    assert len(jobs["job_id"]) == n_jobs
    assert not any("!" in text for name in ("job_id", "profile") for text in jobs[name])


def test_energy_is_asked_for_by_a_probe() -> None:
    protocol = Batprotocol()
    protocol.decode(_message(0.0, _begins(["a", "b", "c"])))
    (event,) = json.loads(protocol.encode(_reply(1.0, ("QUERY", {"requests": {"consumed_energy": {}}}))))["events"]
    probe = event["event"]
    assert event["event_type"] == "CreateProbeEvent"
    assert (probe["metrics"], probe["resources"], probe["resources_aggregation_function_type"]) == (
        "Power",
        {"host_ids": "0-2"},
        "Sum",
    )
    assert probe["data_accumulation_strategy"]["reset_mode_type"] == "NoReset"
    assert probe["measurement_triggering_policy"]["temporal_trigger"] == {"time": 1001, "time_unit": "Millisecond"}
    foreign = {"probe_id": "somebody's", "data_type": "AggregatedProbeData", "data": {"data": 1.0}}
    assert json.loads(protocol.decode(_message(2.0, ("ProbeDataEmittedEvent", foreign))))["events"] == []


def test_texts_stay_here_and_events_go_by_date() -> None:
    reply = {
        "now": 3.0,
        "events": [
            {"timestamp": 3.0, "type": "REJECT_JOB", "data": {"job_id": "w0!1"}},
            {"timestamp": 2.0, "type": "SET_JOB_METADATA", "data": {"job_id": "w0!1", "metadata": "x"}},
            {"timestamp": 2.0, "type": "REJECT_JOB", "data": {"job_id": "w0!0"}},
        ],
    }
    said = json.loads(Batprotocol().encode(json.dumps(reply)))["events"]
    assert [(event["timestamp"], event["event"]["job_id"]) for event in said] == [(2.0, "w0!0"), (3.0, "w0!1")]


def test_what_comes_with_the_beginning_is_heard_after_it() -> None:
    protocol = Batprotocol()
    begins = json.loads(protocol.decode(_message(0.0, _begins(["a"]), _submitted("0", 1))))
    assert [event["type"] for event in begins["events"]] == ["SIMULATION_BEGINS"]
    assert begins["events"][0]["data"]["compute_resources"] == [{"id": 0, "name": "a"}]
    more = protocol.more(_reply(0.0, ("REJECT_JOB", {"job_id": "w0!9"})))
    assert more is not None
    assert [event["type"] for event in json.loads(more)["events"]] == ["JOB_SUBMITTED"]
    assert protocol.more(_reply(0.0)) is None
    said = json.loads(protocol.encode(_reply(0.0, ("REJECT_JOB", {"job_id": "w0!0"}))))
    assert [event["event"]["job_id"] for event in said["events"]] == ["w0!9", "w0!0"]


def test_the_handshake() -> None:
    check_first_message((3).to_bytes(4, "little") + b"abc")
    answer = hello()
    assert answer[:4] == (2).to_bytes(4, "little")
    (event,) = json.loads(answer[4:])["events"]
    assert event["event_type"] == "EDCHelloEvent"
    assert event["event"]["decision_component_name"] == "hdrl"
    assert not any(event["event"]["requested_simulation_features"].values())


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b'{"now":0}', "protocol of Batsim 4"),
        ((2).to_bytes(4, "little") + (1).to_bytes(4, "little") + b"x", "an early Batsim 5"),
        (b"", "has 0 bytes, expected the 4"),
        (b"\xff\xff\xff\xff", "expected the 4294967299"),
    ],
)
def test_another_first_message(message: bytes, problem: str) -> None:
    with pytest.raises(BatsimError, match=problem):
        check_first_message(message)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nonsense", "is not JSON"),
        ('{"now": 0}', "no 'events'"),
        ('{"now": 0, "events": [1]}', "expected 'timestamp', 'event_type' and 'event'"),
        (_message(0, ("JobSubmitedEvent", {})), "did you mean 'JobSubmittedEvent'"),
        (_message(0, ("JobSubmittedEvent", {"job_id": "w0!0"})), "JobSubmittedEvent is"),
        (_message(0, ("SimulationErrorEvent", {"message": "bad"})), "Batsim gives up"),
    ],
)
def test_another_message(text: str, problem: str) -> None:
    with pytest.raises(BatsimError, match=problem) as caught:
        Batprotocol().decode(text)
    assert "\n" not in str(caught.value)


def test_a_workload_for_batsim_5() -> None:
    old = {
        "nb_res": 4,
        "date": "today",
        "jobs": [
            {"id": 1, "subtime": 0, "res": 2, "profile": "h", "walltime": -1, "mem": 5},
            {"id": 2, "subtime": 1, "res": 1, "profile": "d", "walltime": 9},
        ],
        "profiles": {
            "h": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 5, "req_time": 3, "ret": 1},
            "t": {"type": "parallel_homogeneous_total", "cpu": 1e9, "com": 0},
            "d": {"type": "delay", "delay": 2, "extra_data": "mine"},
            "c": {"type": "composed", "seq": ["h", "d"], "repeat": 2},
            "p": {"type": "parallel", "cpu": [1], "com": [0]},
            "f": {"type": "parallel_homogeneous_pfs", "bytes_to_read": 1, "host": "nfs"},
            "s": {"type": "data_staging", "nb_bytes": 1, "from": "a", "to": "b"},
            "m": {"type": "smpi", "trace": "x/t.txt"},
            "u": {"type": "usage_trace", "trace": "t.txt"},
        },
    }
    hg, usage = "ParallelTaskHomogeneousProfile", {"trace_type": "FractionalComputation", "filename": "t.txt"}
    assert describe_for_batsim5(old) == {
        "nb_res": 4,
        "jobs": [
            {"id": "1", "subtime": 0, "res": 2, "profile": "h", "extra_data": '{"mem": 5}'},
            {"id": "2", "subtime": 1, "res": 1, "profile": "d", "walltime": 9},
        ],
        "profiles": {
            "h": {"type": hg, "cpu": 1e9, "com": 5, "ret": 1, "extra_data": '{"req_time": 3}'},
            "t": {"type": hg, "cpu": 1e9, "com": 0, "generation_strategy": "DefinedAmountsSpreadUniformly"},
            "d": {"type": "DelayProfile", "delay": 2, "extra_data": "mine"},
            "c": {"type": "SequentialCompositionProfile", "seq": ["h", "d"], "repeat": 2},
            "p": {"type": "ParallelTaskProfile", "cpu": [1], "com": [0]},
            "f": {"type": "ParallelTaskOnStorageHomogeneousProfile", "bytes_to_read": 1, "storage": "nfs"},
            "s": {"type": "ParallelTaskDataStagingBetweenStoragesProfile", "nb_bytes": 1, "from": "a", "to": "b"},
            "m": {"type": "TraceReplayProfile", "trace_type": "SMPI", "filename": "x/t.txt"},
            "u": {"type": "TraceReplayProfile", **usage},
        },
    }


def test_the_command_that_converts(tmp_path: Path) -> None:
    old = {
        "nb_res": 1,
        "jobs": [{"id": 0, "subtime": 0, "res": 1, "profile": "d"}],
        "profiles": {"d": {"type": "delay", "delay": 2}},
    }
    (tmp_path / "old.json").write_text(json.dumps(old))
    done = CliRunner().invoke(
        cli, ["workload", "convert", f"{tmp_path}/old.json", f"{tmp_path}/new.json", "--batsim=5"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "new.json").read_text())["profiles"]["d"]["type"] == "DelayProfile"


@pytest.mark.parametrize(
    ("profile", "problem"),
    [
        ({"type": "send", "msg": {}}, "profile 'x': Batsim 5 has nothing like type 'send'"),
        ({"type": "parallel_homogeneous_total", "cpu": 1, "com": 1}, "profile 'x': Batsim 5 divides 'com'"),
    ],
)
def test_what_batsim_5_cannot_do(profile: dict[str, Any], problem: str) -> None:
    with pytest.raises(WorkloadError, match=problem):
        describe_for_batsim5({"nb_res": 1, "jobs": [], "profiles": {"x": profile}})


SCHEDULE_FIELDS = (
    *("batsim_version", "consumed_joules", "makespan", "max_slowdown", "max_turnaround_time", "max_waiting_time"),
    *("mean_slowdown", "mean_turnaround_time", "mean_waiting_time", "nb_computing_machines", "nb_grouped_switches"),
    *("nb_jobs", "nb_jobs_finished", "nb_jobs_killed", "nb_jobs_rejected", "nb_jobs_success", "nb_machine_switches"),
    *("success_rate", "time_computing", "time_idle", "time_sleeping", "time_switching_off", "time_switching_on"),
    "time_unavailable",
)
"""What schedule.json has, as its documentation says."""

STAND_IN = """
import json, sys, zmq
args = sys.argv
endpoint, config = args[args.index("-s") + 1 : args.index("-s") + 3]
prefix = args[args.index("-e") + 1]
assert json.load(open(args[args.index("-w") + 1]))["profiles"].popitem()[1]["type"] == "ParallelTaskHomogeneousProfile"
socket = zmq.Context().socket(zmq.REQ)
socket.setsockopt(zmq.LINGER, 0)
socket.connect(endpoint)

def say(now, *events):
    socket.send((json.dumps({"now": now, "events": [
        {"timestamp": now, "event_type": kind, "event": data} for kind, data in events]}) + "\\0").encode())
    return [(event["event_type"], event["event"]) for event in json.loads(socket.recv())["events"]]

socket.send(len(config).to_bytes(4, "little") + config.encode())
assert json.loads(socket.recv()[4:])["events"][0]["event_type"] == "EDCHelloEvent"
(first, second) = SUBMITTED
replies = say(0.0, BEGINS, first)
replies += say(1.0, second)
starts = [data["allocation"]["host_allocation"] for kind, data in replies if kind == "ExecuteJobEvent"]
switches = [("HostsPStateChangedEvent", {"host_ids": data["host_ids"], "pstate": data["pstate"]})
            for kind, data in replies if kind == "ChangeHostsPStateEvent"]
assert len(starts) == 2, replies
say(1.5, *switches, ("AllStaticJobsHaveBeenSubmittedEvent", {}))
ended = {"state": "COMPLETED_SUCCESSFULLY", "return_code": 0}
ends = [("JobCompletedEvent", {"job_id": f"w0!{k}", **ended}) for k in (0, 1)]
last = say(5.0, *ends)
back = [("HostsPStateChangedEvent", {"host_ids": data["host_ids"], "pstate": data["pstate"]}) for kind, data in last]
if back:
    say(5.0, *back)
say(6.0, ("SimulationEndsEvent", {}))
rows = [f'{k},w0,p,{k}.0,1,-1.0,1,COMPLETED_SUCCESSFULLY,{k}.0,{5.0 - k},5.0,0.0,{5.0 - k},1.0,{starts[k]},7.0,""'
        for k in (0, 1)]
texts = {"jobs.csv": JOB_HEADER + "\\n" + "\\n".join(rows) + "\\n",
         "schedule.json": json.dumps(SCHEDULE),
         "machine_states.csv": MACHINE_HEADER + "\\n0,0,0,0,0,1\\n",
         "pstate_changes.csv": "time,machine_id,new_pstate\\n",
         "consumed_energy.csv": "time,energy,event_type,wattmin,epower\\n1.0,2.0,s,3.0,4.0\\n"}
for name, text in texts.items():
    open(prefix + name, "w").write(text)
"""


def test_a_whole_conversation(tmp_path: Path) -> None:
    from hdrl.settings.batch.simulation.outputs import JOB_COLUMNS, MACHINE_STATE_COLUMNS
    from hdrl.settings.batch.simulation.readers import read_out_schedule

    platform = read_platform("learning")
    workload = small_workload(JobSpec(0.0, 1), JobSpec(1.0, 1))
    schedule = dict.fromkeys(SCHEDULE_FIELDS, 0.5) | {"batsim_version": "5.0.0", "consumed_joules": 3.5, "nb_jobs": 2}
    known = {
        "BEGINS": _begins(list(platform.core_names)),
        "SUBMITTED": [_submitted("0", 1), _submitted("1", 1)],
        "JOB_HEADER": ",".join(JOB_COLUMNS),
        "MACHINE_HEADER": ",".join(MACHINE_STATE_COLUMNS),
        "SCHEDULE": schedule,
    }
    code = "".join(f"{name} = {value!r}\n" for name, value in known.items()) + STAND_IN
    settings = BatsimSettings(executable=command(tmp_path, code, version="5.0.0-rc2"), timeout_s=20.0, protocol=5)
    folder = tmp_path / "run"
    folder.mkdir()
    with BatsimSimulator(platform, workload, folder=folder, settings=settings) as simulator:
        simulator.run_pair(codes.JOB_FIRST, codes.CORE_HIGH_GFLOPS)
    trace = simulator.trace
    assert set(trace.records["state"].tolist()) == {int(JobState.COMPLETED_SUCCESSFULLY)}
    assert (trace.records["run_s"].tolist(), trace.consumed_j) == ([5.0, 4.0], 3.5)
    assert trace.info["batsim_version"] == "5.0.0-rc2"
    assert read_out_schedule(folder / "out_schedule.csv")["nb_jobs"] == 2


def test_versions_and_protocols_that_do_not_fit(tmp_path: Path) -> None:
    platform, workload = read_platform("learning"), small_workload(JobSpec(0.0, 1))
    for version, protocol in (("v4.2.1", 5), ("5.0.0-rc2", 4)):
        settings = BatsimSettings(executable=command(tmp_path, "", version=version), protocol=protocol)
        with (
            BatsimSimulator(platform, workload, folder=tmp_path, settings=settings) as simulator,
            pytest.raises(BatsimError, match=r"and of Batsim 5 with batsim\.protocol 5"),
        ):
            simulator.reset()
    with pytest.raises(BatsimError, match="expected 4 or 5"):
        new_dialect(6)


def test_a_schedule_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "out_schedule.json").write_text('{"batsim_version": "5,0"}')
    with pytest.raises(ReadError, match="expected names and plain values"):
        Batsim5().settle(tmp_path / "out")

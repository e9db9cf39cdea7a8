"""The decision system: protocol in, protocol out; whatever contradicts what was said before is refused."""

import json
import random  # noqa: TID251 - chooses what to damage
from pathlib import Path
from typing import Any

import pytest

from hdrl.base.errors import BatsimError, DecisionError, HdrlError
from hdrl.batsim.decision_system import DecisionSystem
from hdrl.batsim.exact import BatsimOptions, ExactBatsim
from hdrl.settings.batch.platform import read_platform, write_simgrid
from hdrl.settings.batch.simulation import AskEnergy, CallAt, Kill, News, SetPState, Start
from hdrl.settings.batch.workload import read_workload
from hdrl.settings.batch.workload.batsim_description import write_batsim_json
from hdrl.testing import JobSpec, small_workload
from hdrl.testing.worlds import World

from ..recorded_runs import RECORDED  # noqa: TID252 - of all tests
from .conversations import ROOT


@pytest.fixture
def world() -> World:
    """Return two jobs on the four cores of the platform ``learning``."""
    return World(read_platform("learning"), small_workload(JobSpec(0.0, 2), JobSpec(0.0, 1)))


@pytest.fixture
def system(world: World) -> DecisionSystem:
    """Return a decision system that has heard nothing yet."""
    return DecisionSystem(world.platform, world.workload)


def message(now_s: float, *events: tuple[str, dict[str, Any]]) -> str:
    told = [{"timestamp": now_s, "type": kind, "data": data} for kind, data in events]
    return json.dumps({"now": now_s, "events": told})


def begins(system: DecisionSystem, **config: object) -> tuple[str, dict[str, Any]]:
    names = system.platform.core_names
    machines = [{"id": k, "name": name, "state": "idle", "properties": {}} for k, name in enumerate(names)]
    return "SIMULATION_BEGINS", {"compute_resources": machines, "config": config, "workloads": {"w0": "/w.json"}}


def submitted(job: int, cores: int) -> tuple[str, dict[str, Any]]:
    return "JOB_SUBMITTED", {"job_id": f"w0!{job}", "job": {"id": f"w0!{job}", "res": cores}}


def completed(job: int, alloc: str, state: str = "COMPLETED_SUCCESSFULLY") -> tuple[str, dict[str, Any]]:
    return "JOB_COMPLETED", {"job_id": f"w0!{job}", "job_state": state, "return_code": 0, "alloc": alloc}


NO_MORE = ("NOTIFY", {"type": "no_more_static_job_to_submit"})


def exchange(system: DecisionSystem, text: str, *decisions: Any) -> list[tuple[str, dict[str, Any]]]:
    system.receive(text)
    if decisions:
        system.decide(decisions)
    reply = json.loads(system.reply())
    assert reply["now"] >= system.now_s
    assert all(event["timestamp"] <= reply["now"] for event in reply["events"])
    return [(event["type"], event["data"]) for event in reply["events"]]


def test_a_conversation(system: DecisionSystem) -> None:
    assert exchange(system, message(0.0, begins(system))) == []
    asked = exchange(system, message(1.0, submitted(0, 2), submitted(1, 1)), Start(0, [3, 0]))
    assert asked[0] == ("EXECUTE_JOB", {"job_id": "w0!0", "alloc": "0 3"})
    changes = [
        ("SET_RESOURCE_STATE", {"resources": "0 3", "state": "0"}),
        ("SET_RESOURCE_STATE", {"resources": "1-2", "state": "2"}),
    ]
    assert asked[1:] == changes
    told = [("RESOURCE_STATE_CHANGED", data) for _, data in changes]
    asked = exchange(system, message(1.0, *told, NO_MORE), Kill([0]), CallAt(5.0), AskEnergy())
    assert asked == [
        ("KILL_JOB", {"job_ids": ["w0!0"]}),
        ("CALL_ME_LATER", {"timestamp": 5.0}),
        ("QUERY", {"requests": {"consumed_energy": {}}}),
    ]
    killed = ("JOB_KILLED", {"job_ids": ["w0!0"], "job_progress": {"w0!0": {"profile_name": "p", "progress": 0.25}}})
    system.receive(message(2.0, ("ANSWER", {"consumed_energy": 7.5}), completed(0, "0 3", "COMPLETED_KILLED"), killed))
    view = system.view
    assert [kind for kind, _ in view.news] == [News.ENERGY, News.JOB_COMPLETED, News.JOB_KILLED]
    assert view.energy_j == 7.5
    assert view.power_w > 0
    assert view.free_cores.tolist() == [0, 1, 2, 3]
    assert view.outcome(0)[0].name == "COMPLETED_KILLED"
    assert view.progress(0) == 0.25
    with pytest.raises(DecisionError, match="cannot be killed"):
        system.decide([Kill([0])])
    assert [event["type"] for event in json.loads(system.reply())["events"]] == ["SET_RESOURCE_STATE"]
    assert not system.is_over
    assert not system.is_stuck, "a call is still awaited"


def test_dynamic_registration_is_declined(system: DecisionSystem) -> None:
    text = message(0.0, begins(system, **{"dynamic-jobs-enabled": True}))
    assert exchange(system, text) == [("NOTIFY", {"type": "registration_finished"})]


def test_being_stuck(system: DecisionSystem) -> None:
    exchange(system, message(0.0, begins(system)))
    exchange(system, message(1.0, submitted(0, 2), submitted(1, 1), NO_MORE))
    assert system.is_stuck
    assert "2 jobs are waiting" in system.deadlock_message()


CONTRADICTIONS = [
    ("{", "is not JSON"),
    ("[]", "has no 'now' or no 'events'"),
    ('{"now": "x", "events": []}', "'now' of Batsim's message is 'x'"),
    ('{"now": 2, "events": 3}', "'events' of Batsim's message is '3'"),
    ('{"now": 2, "events": []}', "without events"),
    ('{"now": 2, "events": [3]}', "expected 'timestamp', 'type' and 'data'"),
    ('{"now": NaN, "events": []}', "NaN is not a JSON number"),
    (message(0.5, NO_MORE), "before the last one"),
    (
        json.dumps({"now": 2, "events": [{"timestamp": 3, "type": "NOTIFY", "data": {"type": "x"}}]}),
        "after the message's",
    ),
    (message(2, ("JOB_SUBMITED", {})), "did you mean 'JOB_SUBMITTED'"),
    (message(2, ("JOB_COMPLETED", {"job_id": "w0!0"})), "JOB_COMPLETED has no 'job_state'"),
    (message(2, ("JOB_SUBMITTED", {"job_id": 3, "job": {}})), "'job_id' is '3', expected a string"),
    (message(2, submitted(0, 2)), "job 'w0!0' is RUNNING, expected NOT_SUBMITTED"),
    (message(2, submitted(7, 2)), "no job 'w0!7'; did you mean 'w0!"),
    (message(2, completed(1, "2")), "job 'w0!1' is NOT_SUBMITTED, expected RUNNING"),
    (message(2, completed(0, "0-2")), "job 'w0!0' ran on '0-2', not '0-1'"),
    (message(2, completed(0, "9")), "machine 9 does not exist"),
    (message(2, completed(0, "0-1", "DONE")), "ended as 'DONE'"),
    (message(2, completed(0, "0-1"), completed(0, "0-1")), "is COMPLETED_SUCCESSFULLY, expected RUNNING"),
    (message(2, submitted(1, 3)), "asks for '3' cores, expected 1"),
    (message(2, ("REQUESTED_CALL", {})), "the scheduler did not request it"),
    (message(2, ("ANSWER", {"consumed_energy": 1.0})), "the scheduler did not request it"),
    (
        message(2, ("RESOURCE_STATE_CHANGED", {"resources": "0", "state": "1"})),
        "the scheduler did not request P-state 1 of '0'",
    ),
    (
        message(2, ("JOB_KILLED", {"job_ids": ["w0!0"], "job_progress": {}})),
        "the scheduler did not request to kill job 'w0!0'",
    ),
    (message(2, ("JOB_KILLED", {"job_ids": [], "job_progress": {}})), "the scheduler did not request it"),
    (message(2, ("NOTIFY", {"type": "event_machine_unavailable", "resources": "0"})), "hdrl supports none"),
    (message(2, ("SIMULATION_ENDS", {})), "2 jobs have not ended, for instance 'w0!0'"),
]


@pytest.mark.parametrize(("text", "problem"), CONTRADICTIONS)
def test_contradictions_are_refused(system: DecisionSystem, text: str, problem: str) -> None:
    exchange(system, message(0.0, begins(system)))
    exchange(system, message(1.0, submitted(0, 2)), Start(0, [0, 1]))
    with pytest.raises(BatsimError) as caught:
        system.receive(text)
    assert problem in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_the_beginning_must_fit(system: DecisionSystem, world: World) -> None:
    def refuses(text: str) -> str:
        with pytest.raises(BatsimError) as caught:
            DecisionSystem(world.platform, world.workload).receive(text)
        return str(caught.value)

    kind, data = begins(system)
    machines = data["compute_resources"]
    assert "expected first and alone" in refuses(message(0.0, NO_MORE))
    assert "expected first and alone" in refuses(message(0.0, (kind, data), NO_MORE))
    assert "3 machines, but platform 'learning' has 4" in refuses(
        message(0.0, (kind, data | {"compute_resources": machines[:3]}))
    )
    swapped = [machines[0], machines[2] | {"id": 1}, machines[1] | {"id": 2}, machines[3]]
    assert "machine 1 is" in refuses(message(0.0, (kind, data | {"compute_resources": swapped})))
    assert "workloads w0, w1, expected w0" in refuses(message(0.0, (kind, data | {"workloads": {"w0": "", "w1": ""}})))
    assert "Redis" in refuses(message(0.0, (kind, data | {"config": {"redis-enabled": True}})))
    assert "has no 'config'" in refuses(message(0.0, (kind, {"compute_resources": machines, "workloads": {"w0": ""}})))
    system.receive(message(0.0, (kind, data)))
    with pytest.raises(BatsimError, match="before the last one was answered"):
        system.receive(message(1.0, NO_MORE))
    system.reply()
    with pytest.raises(BatsimError, match="SIMULATION_BEGINS again"):
        system.receive(message(1.0, (kind, data)))


def test_nothing_after_the_end(world: World) -> None:
    system = DecisionSystem(world.platform, world.workload)
    exchange(system, message(0.0, begins(system)))
    exchange(system, message(1.0, submitted(0, 2), submitted(1, 1), NO_MORE), Start(0, [0, 1]), Start(1, [2]))
    exchange(system, message(9.0, completed(0, "0-1"), completed(1, "2")))
    exchange(system, message(9.0, ("SIMULATION_ENDS", {})))
    assert system.is_over
    with pytest.raises(BatsimError, match="after SIMULATION_ENDS"):
        system.receive(message(9.0, ("SIMULATION_ENDS", {})))


class Overheard:
    """A scheduler that lets the decision system decide, and notes what it is told."""

    def __init__(self, system: DecisionSystem) -> None:
        self.system = system
        self.told: list[str] = []

    def exchange(self, text: str) -> str:
        self.told.append(text)
        if self.system.receive(text):
            self.system.schedule_pair(1, 1)
        return self.system.reply()


def test_damaged_messages_give_one_line_or_are_understood(tmp_path: Path) -> None:
    platform = read_platform("learning")
    workload = read_workload(ROOT / "workloads" / "learning.json", platform)
    write_simgrid(platform, tmp_path / "platform.xml")
    write_batsim_json(workload, tmp_path / "workload.json", platform=platform)
    options = BatsimOptions(platform=tmp_path / "platform.xml", workloads=(tmp_path / "workload.json",), energy=True)
    overheard = Overheard(DecisionSystem(platform, workload))
    ExactBatsim(options).run(overheard)
    assert len(overheard.told) > 3
    choose = random.Random(1)
    refusals = []
    for _ in range(300):
        system = DecisionSystem(platform, workload)
        damaged = choose.randrange(len(overheard.told))
        try:
            for k, text in enumerate(overheard.told):
                Overheard(system).exchange(_damaged(text, choose) if k == damaged else text)
        except HdrlError as error:
            refusals.append(str(error))
    assert len(refusals) > 200
    assert all(len(text.splitlines()) == 1 and len(text) < 600 for text in refusals)


def _damaged(text: str, choose: random.Random) -> str:
    begin = choose.randrange(len(text))
    end = min(len(text), begin + choose.randrange(1, 12))
    kind = choose.randrange(4)
    if kind == 0:
        return text[:begin] + text[end:]
    if kind == 1:
        return text[:begin] + "".join(chr(choose.randrange(32, 0x2FF)) for _ in range(end - begin)) + text[end:]
    if kind == 2:
        return text[:begin]
    return text[:begin] + choose.choice(["null", "-1", "1e400", "[]", "{}", '"', "0"]) + text[end:]


@pytest.mark.parametrize("name", ["hdeeprm_gaia200_padded", "hdeeprm_learning4_2jobs"])
def test_messages_of_the_real_batsim_are_understood(name: str) -> None:
    from hdrl.batsim.incoming import parse_message

    from .conversations import Replay

    if not (RECORDED / name).is_dir():
        pytest.skip(f"no recorded runs in {RECORDED}")
    messages = [parse_message(text) for text in Replay(RECORDED / name).expected]
    assert messages[0].events[0].kind == "SIMULATION_BEGINS"
    assert messages[-1].events[0].kind == "SIMULATION_ENDS"


def test_a_pstate_of_a_policy(system: DecisionSystem) -> None:
    exchange(system, message(0.0, begins(system)))
    asked = exchange(system, message(1.0, submitted(0, 2)), SetPState([1, 0], 1))
    assert asked == [("SET_RESOURCE_STATE", {"resources": "0-1", "state": "1"})]


def test_a_workload_by_another_name(system: DecisionSystem) -> None:
    kind, data = begins(system)
    exchange(system, message(0.0, (kind, data | {"workloads": {"144d46": "/w.json"}})))
    told = "JOB_SUBMITTED", {"job_id": "144d46!0", "job": {"id": "144d46!0", "res": 2}}
    asked = exchange(system, message(1.0, told), Start(0, [0, 1]))
    assert asked[0] == ("EXECUTE_JOB", {"job_id": "144d46!0", "alloc": "0-1"})

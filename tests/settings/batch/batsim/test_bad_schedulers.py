"""Whatever a scheduler says, the answer is a simulation or one clear line."""

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdrl.base.errors import BatsimError, HdrlError
from hdrl.batsim.exact import ExactBatsim
from hdrl.batsim.exact.protocol import dump, parse_reply, with_id

from .conversations import WORLDS, Scripted, options_of

JOB = "w0!limited"


def _first_submission(kind: str, data: object) -> Scripted:
    """Make a scheduler that asks for one thing when the first job is submitted."""
    asked = []

    def decide(message: dict[str, Any]) -> list[dict[str, Any]]:
        if not asked and message["events"][0]["type"] == "JOB_SUBMITTED":
            asked.append(True)
            return [{"type": kind, "data": data}]
        return []

    return Scripted(decide)


@pytest.mark.parametrize(
    ("kind", "data", "problem"),
    [
        ("EXECUTE_JOB", {"job_id": JOB, "alloc": "0-7"}, "machine 7 does not exist"),
        ("EXECUTE_JOB", {"job_id": JOB, "alloc": ""}, "no machine is named"),
        ("EXECUTE_JOB", {"job_id": JOB, "alloc": "a"}, "'a' is neither an id"),
        ("EXECUTE_JOB", {"job_id": JOB, "alloc": "1-0"}, "range '1-0' is empty"),
        ("EXECUTE_JOB", {"job_id": JOB, "alloc": "0"}, "requests 2 machines but gets 1"),
        ("EXECUTE_JOB", {"job_id": JOB}, "no 'alloc'"),
        ("EXECUTE_JOB", {"job_id": JOB, "alloc": "0-1", "maping": {}}, "did you mean 'mapping'"),
        (
            "EXECUTE_JOB",
            {"job_id": JOB, "alloc": "0", "mapping": {"0": "0", "1": "1"}},
            "'mapping' has index 1, but the allocation has 1 hosts",
        ),
        ("EXECUTE_JOB", {"job_id": JOB, "alloc": "0", "mapping": {"0": 0}}, "integers in strings"),
        ("EXECUTE_JOB", {"job_id": JOB, "alloc": "0-1", "additional_io_job": 3}, "expected an object"),
        ("EXECUTE_JOB", {"job_id": JOB, "alloc": "0-1", "additional_io_job": {"alloc": "0"}}, "'profile_name' is"),
        ("EXECUTE_JOB", {"job_id": "w0!limitd", "alloc": "0-1"}, "did you mean 'w0!limited'"),
        ("EXECUTE_JOB", {"job_id": "nonsense", "alloc": "0-1"}, "is not a job id"),
        ("EXECUTE_JOB", {"job_id": "w0!late", "alloc": "0-1"}, "cannot start, it is NOT_SUBMITTED"),
        ("REJECT_JOB", {"job_id": "w0!late"}, "cannot be rejected"),
        ("KILL_JOB", {"job_ids": [JOB]}, "cannot be killed, it is SUBMITTED"),
        ("KILL_JOB", {"job_ids": []}, "expected an array of job ids"),
        ("KILL_JOB", {"job_ids": ["w0!nobody"]}, "no job 'w0!nobody'"),
        ("CALL_ME_LATER", {"timestamp": -1}, "not later"),
        ("CALL_ME_LATER", {"timestamp": "soon"}, "expected a number"),
        ("SET_RESOURCE_STATE", {"resources": "0", "state": "1"}, "-E is not given"),
        ("QUERY", {"requests": {"consumed_energy": {}}}, "-E is not given"),
        ("QUERY", {"requests": {"temperature": {}}}, "expected"),
        ("REGISTER_JOB", {"job_id": "w0!9", "job": {}}, "--enable-dynamic-jobs is not given"),
        ("NOTIFY", {"type": "registration_finnished"}, "did you mean 'registration_finished'"),
        ("SET_JOB_METADATA", {"job_id": JOB, "metadata": 'a "quoted" text'}, "without double quotes"),
        ("TO_JOB_MSG", {"job_id": JOB, "msg": 3}, "expected a string"),
        ("CHANGE_JOB_STATE", {"job_id": JOB, "job_state": "COMPLETED_SUCCESSFULLY"}, "did not complete"),
        ("EXECUTE_JOBS", {}, "did you mean 'EXECUTE_JOB'"),
        ("REJECT_JOB", {"job_id": JOB, "why": ""}, "'why' that Batsim does not expect"),
        ("REJECT_JOB", [], "expected an object"),
    ],
)
def test_a_request_that_batsim_cannot_follow(kind: str, data: object, problem: str) -> None:
    with pytest.raises(BatsimError) as caught:
        ExactBatsim(options_of(WORLDS / "kills")).run(_first_submission(kind, data))
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"resources": "0", "state": "2"}, "has P-states 0 to 1, not 2"),
        ({"resources": "0", "state": 1}, "a P-state, as a string"),
        ({"resources": "5", "state": "1"}, "machine 5 does not exist"),
    ],
)
def test_a_pstate_that_a_machine_cannot_go_to(data: object, problem: str) -> None:
    with pytest.raises(BatsimError, match=problem):
        ExactBatsim(options_of(WORLDS / "speed_change")).run(_first_submission("SET_RESOURCE_STATE", data))


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "is not JSON"),
        ("garbage", "is not JSON"),
        ("[]", "no 'now'"),
        ('{"now": 0}', "no 'events'"),
        ('{"now": "0", "events": []}', "expected a number"),
        ('{"now": NaN, "events": []}', "NaN"),
        ('{"now": true, "events": []}', "expected a number"),
        ('{"now": 0, "events": {}}', "expected an array"),
        ('{"now": 0, "events": [1]}', "expected 'timestamp', 'type' and 'data'"),
        ('{"now": 0, "events": [{"timestamp": 1, "type": "REJECT_JOB", "data": {"job_id": ""}}]}', "after its 'now'"),
        ('{"now": 0, "events": [{"timestamp": null, "type": "REJECT_JOB", "data": {}}]}', "expected a number"),
        ("[" * 100000, "is not JSON"),
    ],
)
def test_a_reply_that_is_none(reply: str, problem: str) -> None:
    with pytest.raises(BatsimError, match=problem) as caught:
        parse_reply(reply)
    assert len(str(caught.value)) < 500


def test_a_date_in_the_past_means_nothing() -> None:
    folder = WORLDS / "latencies"

    class Behind(Scripted):
        def exchange(self, message: str) -> str:
            reply = json.loads(super().exchange(message))
            reply["now"] = -5.0
            for event in reply["events"]:
                event["timestamp"] = -7.0
            return json.dumps(reply)

    def decide(message: dict[str, Any]) -> list[dict[str, Any]]:
        if message["events"][0]["type"] == "JOB_SUBMITTED":
            return [{"type": "EXECUTE_JOB", "data": {"job_id": "w0!1", "alloc": "0"}}]
        return []

    result = ExactBatsim(options_of(folder)).run(Behind(decide))
    assert result.outputs.jobs == (folder / "out_jobs.csv").read_text().splitlines()[1:]


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.sampled_from([JOB, "0", "0-1", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["now", "job_id", "alloc"]), inner),
    max_leaves=4,
)
_kinds = st.sampled_from(["EXECUTE_JOB", "KILL_JOB", "CALL_ME_LATER", "NOTIFY", "REGISTER_JOB", "TO_JOB_MSG"])
_members = st.sampled_from(["job_id", "alloc", "job_ids", "timestamp", "type", "job", "msg", "mapping"])
_events = st.fixed_dictionaries(
    {"timestamp": st.just(0.0) | _json, "type": _kinds | _json, "data": st.dictionaries(_members, _json) | _json}
)


@settings(max_examples=60, deadline=None)
@given(events=st.lists(_events, max_size=3))
def test_random_replies_give_a_result_or_a_clear_error(events: list[dict[str, Any]]) -> None:
    replies = iter([json.dumps({"now": 0.0, "events": []}), json.dumps({"now": 0.0, "events": events})])

    class Random:
        def exchange(self, message: str) -> str:
            return next(replies, '{"now": 0, "events": []}')

    with contextlib.suppress(HdrlError):
        ExactBatsim(options_of(WORLDS / "kills")).run(Random())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (1e9, "1000000000.000000"),
        (1e-9, "0.000000"),
        (-0.5, "-0.500000"),
        (True, "true"),
        (None, "null"),
        ('a"b\\c\n\x1f é', '"a\\"b\\\\c\\n\\u001F é"'),
        ({"a": [1, 2.5, {}]}, '{"a":[1,2.500000,{}]}'),
        (2**64, "18446744073709551616.000000"),
    ],
)
def test_messages_are_written_as_batsim_writes_them(value: object, text: str) -> None:
    assert dump(value) == text


@pytest.mark.parametrize("value", [1e24, 10**400])
def test_a_number_too_long_for_batsim(value: float) -> None:
    with pytest.raises(BatsimError, match="characters"):
        dump(value)


def test_every_id_in_a_description_becomes_the_full_one() -> None:
    description = {"id": 3, "x": {"id": "y", "z": [{"id": 1}]}, "name": "id"}
    assert with_id(description, "w0!3") == {"id": "w0!3", "x": {"id": "w0!3", "z": [{"id": "w0!3"}]}, "name": "id"}


def test_a_description_that_is_nested_too_deeply(tmp_path: Path) -> None:
    deep = "[" * 940 + "]" * 940
    path = tmp_path / "workload.json"
    path.write_text(
        '{"nb_res": 1, "profiles": {"p": {"type": "delay", "delay": 1}}, '
        f'"jobs": [{{"id": 1, "subtime": 0, "res": 1, "profile": "p", "x": {deep}}}]}}'
    )
    options = dataclasses.replace(options_of(WORLDS / "kills"), workloads=(path,))
    with pytest.raises(HdrlError, match="nested too deeply"):
        ExactBatsim(options).run(Scripted(lambda message: []))

"""Given the recorded answers of a scheduler, the embedded simulator says and writes what the real Batsim did.

All recorded runs are listed: as supported, or with what they need that the embedded simulator does not have. What
it does not have is refused, never approximated.
"""

from __future__ import annotations

import gzip
import json

import pytest

from hdrl.base.errors import DecisionError, HdrlError, ReadError, SimulationError, WorkloadError

from .recorded import RUNS, Conversation, NotSayableError, check_files, replay

SUPPORTED = [
    "begins_unused_profiles",
    "bf_200",
    "call_me_later",
    "consume_time",
    "energy_on",
    "forward_profiles",
    "hdeeprm_gaia200_padded",
    "hdeeprm_learning4_2jobs",
    "hdeeprm_learning4_50jobs",
    "host_order",
    "kill_job",
    "kill_twice",
    "metadata",
    "platform_vivaldi",
    "platform_without_routes",
    "pstate_mid_job",
    "pstate_with_execute",
    "query_energy",
    "reject",
    "rounding",
    "same_time",
    "sequence",
    "single_job",
    "single_job_energy",
    "sleep_wake",
    "stress_killer",
    "two_contending",
    "two_workloads",
    "walltime",
    "wattmin_long_double",
    "zero_delay_seq",
    "edge-cases/equal_walltime_ptask",
    "edge-cases/future_order",
    "edge-cases/nested_id",
    "edge-cases/same_pstate",
    "edge-cases/tiny_ptask",
    "edge-cases/wt0",
    "edge-cases/wt2",
    "edge-cases/wt4",
]

LATENCY = (SimulationError, "links with latencies")
PROFILE = (WorkloadError, "profile")
REFUSED: dict[str, tuple[type[HdrlError], str]] = {
    "energy_multicore": PROFILE,  # communication
    "fcfs_200_latency": LATENCY,
    "messages": PROFILE,  # send and receive
    "kill_right_after_start": PROFILE,
    "kill_right_after_start_latency": LATENCY,
    "platform_blank_first": PROFILE,
    "platform_cluster": LATENCY,
    "platform_cluster_pfs": LATENCY,
    "platform_fewer_watts": PROFILE,
    "platform_properties": LATENCY,
    "platform_router_without_routes": LATENCY,
    "mean_slowdown_last_digit": PROFILE,
    "profiles_comm": PROFILE,
    "profiles_comm_latency": LATENCY,
    "pstate_to_virtual": (DecisionError, "sleep state"),
    "rapidjson_numbers": PROFILE,
    "same_date_latency": LATENCY,
    "same_time_latency": LATENCY,
    "schedule_trace": PROFILE,
    "single_executor": PROFILE,
    "single_executor_same_date": PROFILE,
    "single_job_latency": LATENCY,
    "smpi": LATENCY,
    "storage": PROFILE,
    "stress_comm_easy": PROFILE,
    "stretch_near_zero": PROFILE,
    "usage_trace": LATENCY,
    "various_profiles": LATENCY,
    "edge-cases/after_end": (SimulationError, "has ended"),
    "edge-cases/busy_host": (DecisionError, "not free"),
    "edge-cases/call_now": (DecisionError, "in the future"),
    "edge-cases/kill_gone": (DecisionError, "already got the message of its end"),
    "edge-cases/no_decision": (SimulationError, "jobs are waiting"),
    "edge-cases/unknown_profile_type": (ReadError, "strange"),
    "edge-cases/wrong_size": (DecisionError, "asks for 1 cores"),
}
"""Runs that the inputs or the decisions give away, and how they are refused."""

NOT_SAYABLE = {
    "dynamic_register": "--enable-dynamic-jobs",
    "dynamic_register_ack": "--enable-dynamic-jobs",
    "energy_row_order_sharing": "--enable-compute-sharing",
    "energy_rows_sleep_and_end": "--enable-compute-sharing",
    "event_unavailable_then_switched": "--events",
    "event_unavailable_twice": "--events",
    "sleep_while_unavailable": "--events",
    "external_events": "--events",
    "generic_event": "--events",
    "mapping": "mapping",
    "platform_cluster_energy": "-m",
    "rapidjson_dynamic": "--enable-dynamic-jobs",
    "sharing": "--enable-compute-sharing",
    "stress_submitter": "--enable-dynamic-jobs",
    "edge-cases/change_reject": "CHANGE_JOB_STATE",
    "edge-cases/change_state": "CHANGE_JOB_STATE",
    "edge-cases/dyn_not_finished": "--enable-dynamic-jobs",
    "edge-cases/event_after_jobs": "--events",
    "edge-cases/same_profile": "--enable-dynamic-jobs",
    "edge-cases/same_profile_later": "--enable-dynamic-jobs",
    "edge-cases/same_profile_later_reuse": "--enable-dynamic-jobs",
}
"""Runs with options of Batsim, or requests, for which the simulator has no words."""

ELSEWHERE = {
    "edge-cases/big_double": "Batsim stopped while it printed a number; there is no conversation",
    "edge-cases/id_contains_w0": "Batsim stopped at a job id that is none of ours to refuse; there is no conversation",
    "edge-cases/no_workload": "a simulation without any workload file",
    "edge-cases/pstate_no_energy": "P-states without energy, which Batsim refuses and the embedded simulator can do",
}


def recorded_names() -> set[str]:
    """Return the names of all recorded runs."""
    return {path.parent.relative_to(RUNS).as_posix() for path in RUNS.rglob("run.json")}


def test_every_recorded_run_is_listed():
    if not RUNS.is_dir():
        pytest.skip(f"no recorded runs in {RUNS}")
    lists = [SUPPORTED, REFUSED, NOT_SAYABLE, ELSEWHERE]
    named = [name for some in lists for name in some]
    assert sorted(named) == sorted(set(named))
    assert set(named) - recorded_names() == set()
    assert recorded_names() - set(named) == set()


@pytest.mark.parametrize("name", SUPPORTED)
def test_recorded_run(name: str):
    conversation = Conversation.read(RUNS / name)
    conversation.check_options()
    trace = replay(conversation, conversation.simulator())
    check_files(conversation, trace)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str):
    conversation = Conversation.read(RUNS / name)
    error, text = REFUSED[name]
    with pytest.raises(error, match=text) as caught:
        say_all(conversation)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NOT_SAYABLE)
def test_not_sayable(name: str):
    conversation = Conversation.read(RUNS / name)
    with pytest.raises(NotSayableError, match=NOT_SAYABLE[name]):
        say_all(conversation)


def say_all(conversation: Conversation) -> None:
    conversation.check_options()
    replay(conversation, conversation.simulator(), check=False)


def test_the_rest():
    """What neither replays nor can be refused: the reasons given above hold."""
    if not RUNS.is_dir():
        pytest.skip(f"no recorded runs in {RUNS}")
    for name in ("big_double", "id_contains_w0"):
        text = gzip.decompress((RUNS / "edge-cases" / name / "transcript.jsonl.gz").read_bytes()).decode()
        assert '"from": "scheduler"' not in text or not (RUNS / "edge-cases" / name / "out_jobs.csv").read_text()
    arguments = json.loads((RUNS / "edge-cases" / "no_workload" / "run.json").read_text())["args"]
    assert "-w" not in arguments
    assert not (RUNS / "edge-cases" / "pstate_no_energy" / "out_jobs.csv").read_text()


def test_pstates_without_energy():
    """Batsim stops at the first request for a P-state without energy; here speeds follow it all the same."""
    conversation = Conversation.read(RUNS / "edge-cases" / "pstate_no_energy")
    without = replay(conversation, conversation.simulator(), check=False)
    twin = Conversation.read(RUNS / "pstate_mid_job")
    assert without.records["run_s"][0] == -1.0  # the conversation ends before the job does
    assert replay(twin, twin.simulator(energy=False), check=False).records["run_s"][0] == pytest.approx(35.0, abs=1e-6)

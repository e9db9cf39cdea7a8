"""Our own policies, in HDeepRM's compatibility mode, against whole recorded runs of HDeepRM 0.3.1 on Batsim 4.2.1."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from hdrl.settings.batch.kernel import codes, entries
from hdrl.settings.batch.platform import Platform, pstate_rules, read_platform
from hdrl.settings.batch.policies import read_pair, simulate
from hdrl.settings.batch.simulation import EmbeddedSimulator
from hdrl.settings.batch.simulation.outputs import format_overutilizations, schedule_values
from hdrl.settings.batch.simulation.texts import interval_texts
from hdrl.settings.batch.workload import Workload, read_batsim_json

from .recorded import RUNS, Conversation, check_files, check_message, job_numbers

MODE = "hdeeprm-0.3.1"
PLATFORMS = {
    "hdeeprm_gaia200_padded": "gaia",
    "hdeeprm_learning4_2jobs": "learning",
    "hdeeprm_learning4_50jobs": "learning",
}
WALL_CLOCK = {"scheduling_time", "simulation_time"}


@pytest.fixture(scope="module", params=PLATFORMS)
def run(request: pytest.FixtureRequest) -> tuple[Conversation, Platform, Workload, str, int]:
    """Return a recorded run: conversation, platform, jobs, policy and seed."""
    conversation = Conversation.read(RUNS / request.param)
    options = json.loads((conversation.folder / "options.json").read_text())
    ((job, cores),) = options["pybatsim"]["env"]["actions"]["selection"][0].items()
    platform = read_platform(PLATFORMS[request.param], rules=pstate_rules(compatibility=MODE))
    workload = read_batsim_json(conversation.folder / "workload.json")
    return conversation, platform, workload, f"{job}-{cores[0]}", int(options["seed"])


def test_files(run: tuple[Conversation, Platform, Workload, str, int]):
    conversation, platform, workload, policy, seed = run
    trace = simulate(platform, workload, policy, seed=seed, compatibility=MODE)
    check_files(conversation, trace)
    spans = json.loads(format_overutilizations(trace))
    assert spans == json.loads((conversation.folder / "overutilizations.json").read_text())
    with (conversation.folder / "out_schedule.csv").open(newline="") as file:
        expected = next(csv.DictReader(file))
    check_schedule(schedule_values(trace), expected)


def check_schedule(found: dict[str, Any], expected: dict[str, str]) -> None:
    for name in set(expected) - WALL_CLOCK - {"batsim_version"}:
        # Times in states are added up in another order than Batsim does; the rest is printed alike.
        assert float(found[name]) == pytest.approx(float(expected[name]), rel=1e-9, abs=1.1e-6), name


def answered(simulator: EmbeddedSimulator) -> list[dict[str, Any]]:
    """Return the answer that has just been given, as Batsim's scheduler writes it."""
    state = simulator._state
    workload = simulator.workload
    events = []
    for op in state.ops[: int(state.scalars["n_ops"][0])]:
        alloc = interval_texts(state.pool, op["first"][None], op["n"][None])[0]
        if op["kind"] == codes.EXECUTE:
            data = {"job_id": f"w0!{workload.job_ids[op['subject']]}", "alloc": alloc}
            events.append({"timestamp": op["time_s"], "type": "EXECUTE_JOB", "data": data})
        else:
            assert op["kind"] == codes.SET_PSTATE
            data = {"resources": alloc, "state": str(op["subject"])}
            events.append({"timestamp": op["time_s"], "type": "SET_RESOURCE_STATE", "data": data})
    return events


def test_whole_conversation(run: tuple[Conversation, Platform, Workload, str, int]):
    """Every message that we are told, and every request that we answer with, in order."""
    conversation, platform, workload, policy, seed = run
    simulator = EmbeddedSimulator(platform, workload, seed=seed, compatibility=MODE)
    pair, numbers = read_pair(policy), job_numbers(workload)
    view = simulator.reset()
    for message, answer in zip(conversation.told, conversation.answers, strict=True):
        check_message(message, view, numbers)
        if view.is_over:
            break
        if simulator._state.scalars["news"][0] and len(view.waiting):
            entries.schedule_pair(simulator._borrowed, pair.job_key, pair.core_key)
        entries.answer(simulator._borrowed)
        assert answered(simulator) == answer["events"]
        view = simulator._advance()
    assert view.is_over


def test_the_platforms_are_those_of_the_runs(run: tuple[Conversation, Platform, Workload, str, int]):
    conversation, platform, *_ = run
    recorded = conversation.simulator().platform
    assert recorded.n_cores == platform.n_cores
    assert (recorded.speed_flops == platform.speed_flops).all()
    assert (recorded.full_w == platform.full_w).all()
    assert (recorded.message_s == platform.message_s).all()


def test_other_pairs_differ():
    """The comparison is one: another policy does not give the recorded run."""
    folder: Path = RUNS / "hdeeprm_learning4_50jobs"
    conversation = Conversation.read(folder)
    platform = read_platform("learning", rules=pstate_rules(compatibility=MODE))
    trace = simulate(platform, read_batsim_json(folder / "workload.json"), "smallest-high_cores", compatibility=MODE)
    with pytest.raises(AssertionError):
        check_files(conversation, trace)

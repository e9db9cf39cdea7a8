"""Small worlds recorded with the exact engine: what is said and written must be the same, and is checked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdrl.settings.batch.simulation import JobState

from .recorded import Conversation, check_files, job_numbers, replay

WORLDS = Path(__file__).parent / "worlds"
OK, FAILED = JobState.COMPLETED_SUCCESSFULLY, JobState.COMPLETED_FAILED
WALLTIME, KILLED = JobState.COMPLETED_WALLTIME_REACHED, JobState.COMPLETED_KILLED

BY_HAND: dict[str, dict[str, tuple[JobState, float, float, float]]] = {
    "one_job": {"w0!1": (OK, 3, 13, 1000)},
    "slowest_core": {"w0!1": (OK, 0, 10, 3200), "w0!2": (OK, 10, 20, 2000)},
    "queue": {"w0!1": (OK, 0, 10, -1), "w0!2": (OK, 10, 20, -1), "w0!3": (OK, 20, 24, -1)},
    "same_date": {
        "w0!1": (OK, 5, 15, -1),
        "w0!10": (OK, 5, 15, -1),
        "w0!2": (OK, 15, 25, -1),
        "w0!20": (OK, 15, 25, -1),
    },
    "walltimes": {
        "w0!cut": (WALLTIME, 0, 4, 400),
        "w0!delay_equal": (WALLTIME, 0, 5, 50),
        "w0!delay_short": (OK, 0, 5, 50),
        "w0!just": (OK, 0, 10, 1000),
    },
    "steps": {"w0!fails": (FAILED, 0, 3, 120), "w0!all": (OK, 0, 10, 640)},
    "totals": {"w0!1": (OK, 0, 10, -1), "w0!2": (OK, 10, 30, -1)},
    "kills": {
        "w0!computes": (KILLED, 0, 4, 400),
        "w0!sleeps": (KILLED, 0, 4, 40),
        "w0!steps": (KILLED, 0, 4, 40),
        "w0!next": (OK, 4, 14, 2600),
    },
    "reject": {"w0!2": (JobState.REJECTED, -1, -2, -1), "w0!1": (OK, 0, 10, -1)},
    "pstates": {"w0!1": (OK, 0, 12, 2080), "w0!2": (OK, 0, 12, 1040)},
    "busy_scheduler": {"w0!1": (OK, 2, 12, -1), "w0!2": (OK, 4.5, 14.5, -1)},
    "rounding": {"w0!1": (OK, 0, 7 / 3, -1), "w0!2": (OK, 7 / 3, 8 / 3, -1), "w0!3": (OK, 2.666667, 12.666667, -1)},
    "two_sources": {
        "w0!1": (OK, 0, 10, -1),
        "w1!1": (OK, 10, 20, -1),
        "w1!7": (OK, 20, 30, -1),
        "w0!2": (OK, 30, 40, -1),
    },
}
"""State, start, end and energy of each job."""


def test_every_world_is_listed():
    assert {path.name for path in WORLDS.iterdir() if path.is_dir()} == set(BY_HAND)


@pytest.mark.parametrize("name", BY_HAND)
def test_world(name: str):
    conversation = Conversation.read(WORLDS / name)
    trace = replay(conversation, conversation.simulator())
    check_files(conversation, trace)
    numbers = job_numbers(trace.workload)
    assert sorted(numbers[full] for full in BY_HAND[name]) == sorted(trace.completion_order.tolist())
    for full, (state, start_s, end_s, energy_j) in BY_HAND[name].items():
        record = trace.records[numbers[full]]
        assert record["state"] == state
        assert float(record["start_s"]) == pytest.approx(start_s, abs=1e-6)
        assert float(record["start_s"] + record["run_s"]) == pytest.approx(end_s, abs=1e-6)
        assert float(record["energy_j"]) == pytest.approx(energy_j, rel=1e-6)


@pytest.mark.parametrize("name", ["kills", "speed_change"])
def test_worlds_of_the_exact_engine(name: str):
    conversation = Conversation.read(Path(__file__).parents[1] / "batsim" / "worlds" / name)
    check_files(conversation, replay(conversation, conversation.simulator()))

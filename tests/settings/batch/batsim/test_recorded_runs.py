"""The exact engine against recorded runs of the real Batsim: same messages, same files, to the last digit."""

from pathlib import Path

import pytest

from hdrl.base.errors import BatsimError, HdrlError, WorkloadError
from hdrl.batsim.exact import ExactBatsim

from ..recorded_runs import RECORDED, need_recorded_runs  # noqa: TID252 - of all tests
from .conversations import Replay, options_of, recorded, replay

NOT_SIMULATED = {"smpi"}

STOPS = {
    "after_end": "reply to SIMULATION_ENDS",
    "busy_host": "machine 0 .* is computing w0!0",
    "call_now": "not later",
    "change_reject": "did not complete",
    "change_state": "did not complete",
    "kill_gone": "does not exist any more",
    "pstate_no_energy": "-E is not given",
    "same_profile_later": "no longer accessible",
    "wrong_size": "requests 1 machines but gets 3",
}
"""Edge cases in which Batsim stops, and what is said of them."""

CONTRADICTED = {
    "event_unavailable_then_switched": r"machine_available at 200.*machine 0 \(h0\) is idle: Batsim would stop here",
    "event_unavailable_twice": r"machine_unavailable at 5.*machine 0 \(h0\) is unavailable: Batsim would stop here",
}
"""Runs whose external events contradict what has happened: Batsim stops, and what is said of it."""

DEADLOCKS = {"no_decision", "dyn_not_finished"}

REFUSED_AT_START = {"id_contains_w0": "contains the workload's name", "unknown_profile_type": "type .* is unknown"}


@pytest.mark.parametrize("folder", recorded("."))
def test_says_and_writes_what_batsim_did(folder: Path) -> None:
    need_recorded_runs()
    if folder.name in NOT_SIMULATED:
        with pytest.raises(WorkloadError, match=r"'smpi' .* is not simulated"):
            ExactBatsim(options_of(folder))
        return
    if folder.name in CONTRADICTED:
        scheduler = Replay(folder)
        with pytest.raises(HdrlError, match=CONTRADICTED[folder.name]):
            ExactBatsim(options_of(folder)).run(scheduler)
        assert scheduler.n_messages == len(scheduler.expected)
        return
    result = replay(folder)
    assert not result.deadlocked


@pytest.mark.parametrize("folder", recorded("edge-cases"))
def test_ends_where_batsim_stops_or_hangs(folder: Path) -> None:
    need_recorded_runs()
    name = folder.name
    if name in REFUSED_AT_START:
        with pytest.raises(WorkloadError, match=REFUSED_AT_START[name]):
            ExactBatsim(options_of(folder))
    elif name == "big_double":
        with pytest.raises(BatsimError, match="characters"):
            ExactBatsim(options_of(folder)).run(Unasked())
    elif name in STOPS:
        scheduler = Replay(folder)
        with pytest.raises(HdrlError, match=f"{STOPS[name]}.*Batsim|Batsim.*{STOPS[name]}"):
            ExactBatsim(options_of(folder)).run(scheduler)
        assert scheduler.n_messages == len(scheduler.expected)
    else:
        assert replay(folder).deadlocked == (name in DEADLOCKS)


def test_no_recorded_run_is_forgotten() -> None:
    need_recorded_runs()
    edge_cases = {path.name for path in (RECORDED / "edge-cases").iterdir()}
    assert edge_cases >= STOPS.keys() | DEADLOCKS | REFUSED_AT_START.keys() | {"big_double"}


class Unasked:
    """A scheduler that must not be asked."""

    def exchange(self, message: str) -> str:
        raise AssertionError(message)

"""Random small worlds under random legal schedulers: what must hold whatever happens."""

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdrl.batsim.exact import BatsimOptions, ExactBatsim, Result
from hdrl.batsim.exact.idsets import format_ids, parse_ids

from ..recorded_runs import RECORDED  # noqa: TID252 - of all tests
from .conversations import ids_of

N_HOSTS = 3
SPEEDS = (1e8, 5e7)
IDLE_W, EPSILON_W, FULL_W = (10.0, 8.0), (20.0, 15.0), (100.0, 60.0)

STATEMENT = RECORDED / "emulator.py"
"""An executable statement of what Batsim does, that replays a scheduler's replies."""

PLATFORM = f"""<platform version="4.1"><zone id="main" routing="Full">
<host id="master_host" speed="1Gf"><prop id="wattage_per_state" value="0:0"/></host>
{
    "".join(
        f'<host id="h{k}" speed="100Mf, 50Mf"><prop id="wattage_per_state" value="10:20:100, 8:15:60"/></host>'
        for k in range(N_HOSTS)
    )
}
<link id="wire" bandwidth="100MBps" latency="LATENCY"/>
{"".join(f'<route src="master_host" dst="h{k}"><link_ctn id="wire"/></route>' for k in range(N_HOSTS))}
</zone></platform>"""

_jobs = st.lists(
    st.fixed_dictionaries(
        {
            "subtime": st.integers(0, 20) | st.floats(0, 20).map(lambda value: round(value, 3)),
            "res": st.integers(1, N_HOSTS),
            "kind": st.sampled_from(["work", "sleep", "both"]),
            "seconds": st.integers(1, 20),
            "walltime": st.sampled_from([-1, 5, 12.5, 1000]),
        }
    ),
    min_size=1,
    max_size=6,
)


class Whim:
    """A scheduler that draws what to do, and notes what it knows of the machines."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self.free = set(range(N_HOSTS))
        self.waiting: list[dict[str, Any]] = []
        self.running: set[str] = set()
        self.pstates: list[tuple[float, int, int]] = []
        self.conversation: list[tuple[str, str]] = []

    def exchange(self, message: str) -> str:
        data = json.loads(message)
        for event in data["events"]:
            self._note(event["type"], event["data"])
        asked: list[dict[str, Any]] = []
        if not any(event["type"] == "SIMULATION_ENDS" for event in data["events"]):
            asked = [*self._starts(), *self._whims(data["now"])]
        events = [{"timestamp": data["now"], **request} for request in asked]
        self.conversation.append((message, json.dumps({"now": data["now"], "events": events})))
        return self.conversation[-1][1]

    def _note(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "JOB_SUBMITTED":
            self.waiting.append(data["job"])
        elif kind == "JOB_COMPLETED":
            ids = set(ids_of(data["alloc"]))
            assert not ids & self.free
            self.free |= ids
            self.running.discard(data["job_id"])

    def _starts(self) -> list[dict[str, Any]]:
        starts = []
        for job in list(self.waiting):
            # with nothing running somebody must start, or the simulation would be stuck
            if job["res"] <= len(self.free) and (not self.running or self._draw(st.booleans())):
                ids = sorted(self.free)[: job["res"]]
                self.free -= set(ids)
                self.waiting.remove(job)
                self.running.add(job["id"])
                starts.append({"type": "EXECUTE_JOB", "data": {"job_id": job["id"], "alloc": " ".join(map(str, ids))}})
        return starts

    def _whims(self, now_s: float) -> list[dict[str, Any]]:
        whim = self._draw(st.sampled_from(["nothing", "nothing", "kill", "pstate", "call"]))
        if whim == "kill" and self.running:
            return [{"type": "KILL_JOB", "data": {"job_ids": [sorted(self.running)[0]]}}]
        if whim == "pstate" and len(self.pstates) < 6:
            machine, pstate = self._draw(st.integers(0, N_HOSTS - 1)), self._draw(st.integers(0, 1))
            self.pstates.append((now_s, machine, pstate))
            return [{"type": "SET_RESOURCE_STATE", "data": {"resources": str(machine), "state": str(pstate)}}]
        if whim == "call" and self.running:
            return [{"type": "CALL_ME_LATER", "data": {"timestamp": now_s + self._draw(st.integers(1, 9))}}]
        return []


def _profile(kind: str, seconds: int) -> dict[str, Any]:
    if kind == "sleep":
        return {"type": "delay", "delay": seconds}
    if kind == "work":
        return {"type": "parallel_homogeneous", "cpu": seconds * SPEEDS[0], "com": 0}
    return {"type": "composed", "seq": [f"sleep{seconds}", f"work{seconds}"]}


def _simulate(folder: Path, jobs: list[dict[str, Any]], scheduler: Whim, latency: str = "0s") -> Result:
    (folder / "platform.xml").write_text(PLATFORM.replace("LATENCY", latency))
    kinds = [(kind, job["seconds"]) for job in jobs for kind in ("sleep", "work", "both")]
    listed = [
        {
            "id": k,
            "profile": f"{job['kind']}{job['seconds']}",
            **{key: job[key] for key in ("subtime", "res", "walltime")},
        }
        for k, job in enumerate(jobs)
    ]
    profiles = {f"{kind}{seconds}": _profile(kind, seconds) for kind, seconds in kinds}
    (folder / "workload.json").write_text(json.dumps({"nb_res": N_HOSTS, "jobs": listed, "profiles": profiles}))
    options = BatsimOptions(platform=folder / "platform.xml", workloads=(folder / "workload.json",), energy=True)
    return ExactBatsim(options).run(scheduler)


@settings(max_examples=40, deadline=None)
@given(jobs=_jobs, data=st.data())
def test_what_always_holds(jobs: list[dict[str, Any]], data: st.DataObject) -> None:
    scheduler = Whim(data.draw)
    with tempfile.TemporaryDirectory() as folder:
        result = _simulate(Path(folder), jobs, scheduler)
    rows = [line.split(",") for line in result.outputs.jobs]
    assert not result.deadlocked
    assert sorted(int(row[0]) for row in rows) == list(range(len(jobs)))
    _check_no_core_twice(rows)
    _check_times(jobs, rows)
    if not scheduler.pstates:
        _check_work(jobs, rows)
    _check_energy(result, scheduler, rows, jobs)


@pytest.mark.skipif(not STATEMENT.exists(), reason=f"no {STATEMENT}")
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=25, deadline=None)
@given(jobs=_jobs, latency=st.sampled_from(["0s", "20us", "1ms"]), data=st.data())
def test_agrees_with_the_executable_statement(jobs: list[dict[str, Any]], latency: str, data: st.DataObject) -> None:
    """Replaying the same replies gives the same messages and the same rows, to the last digit."""
    spec = importlib.util.spec_from_file_location("batsim_statement", STATEMENT)
    assert spec is not None
    assert spec.loader is not None
    statement = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(statement)
    scheduler = Whim(data.draw)
    with tempfile.TemporaryDirectory() as folder:
        result = _simulate(Path(folder), jobs, scheduler, latency)
        messages, replies = zip(*scheduler.conversation, strict=True)
        other = statement.Batsim(folder, ["-w", f"{folder}/workload.json", "-E"], replies, messages)
        other.simulate()  # it compares the messages itself, and exits where they differ
    assert len(other.sent) == len(messages)
    assert result.outputs.jobs == other.jobs_csv
    assert result.outputs.machine_states == other.states_csv
    assert result.outputs.pstate_changes == other.pstate_csv
    assert result.outputs.energy == other.energy_csv
    row = other.schedule_row()
    assert {key: result.schedule[key] for key in row} == row


def _check_no_core_twice(rows: list[list[str]]) -> None:
    for k, one in enumerate(rows):
        for other in rows[:k]:
            if set(ids_of(one[14])) & set(ids_of(other[14])):
                assert float(one[8]) >= float(other[10]) - 2e-6 or float(other[8]) >= float(one[10]) - 2e-6


def _check_times(jobs: list[dict[str, Any]], rows: list[list[str]]) -> None:
    for row in rows:
        job = jobs[int(row[0])]
        assert float(row[8]) >= job["subtime"] - 1e-6
        assert len(ids_of(row[14])) == job["res"]
        if job["walltime"] > 0:
            assert float(row[9]) <= job["walltime"] + 1e-6


def _check_work(jobs: list[dict[str, Any]], rows: list[list[str]]) -> None:
    """A job that succeeds takes the time of its work at full speed: nothing shares anything here."""
    for row in rows:
        job = jobs[int(row[0])]
        needed_s = job["seconds"] * (2 if job["kind"] == "both" else 1)
        if row[7] == "COMPLETED_SUCCESSFULLY":
            assert abs(float(row[9]) - needed_s) < 1e-5
        elif row[7] == "COMPLETED_WALLTIME_REACHED":
            assert abs(float(row[9]) - job["walltime"]) < 1e-5


def _check_energy(result: Result, scheduler: Whim, rows: list[list[str]], jobs: list[dict[str, Any]]) -> None:
    """Energy never falls, and lies between idle power and full power all the time."""
    lines = [line.split(",") for line in result.outputs.energy]
    energies_j = [float(line[1]) for line in lines]
    assert energies_j == sorted(energies_j)
    for (at_s, now_j), (before_s, before_j) in zip(
        [(float(line[0]), float(line[1])) for line in lines[1:]],
        [(float(line[0]), float(line[1])) for line in lines[:-1]],
        strict=True,
    ):
        elapsed_s = at_s - before_s
        assert N_HOSTS * min(IDLE_W) * (elapsed_s - 2e-6) - 1e-3 <= now_j - before_j
        assert now_j - before_j <= N_HOSTS * max(FULL_W) * (elapsed_s + 2e-6) + 1e-3
    simple = not scheduler.pstates and all(row[7] == "COMPLETED_SUCCESSFULLY" for row in rows)
    if simple and all(job["kind"] == "work" for job in jobs):
        busy_s = sum(float(row[9]) * jobs[int(row[0])]["res"] for row in rows)
        idle_s = float(result.schedule["makespan"]) * N_HOSTS - busy_s
        expected_j = busy_s * FULL_W[0] + idle_s * IDLE_W[0]
        assert abs(energies_j[-1] - expected_j) < 1e-3 * len(rows)


@given(st.sets(st.integers(0, 40), min_size=1))
def test_sets_of_ids_survive_writing_and_reading(ids: set[int]) -> None:
    assert parse_ids(format_ids(ids), 41) == sorted(ids)

"""Schedulers that put hosts to sleep, in Batsim's protocol: on the embedded simulator and on the exact one.

Between the dates of arrivals no two coincide here; the recorded run of the real Batsim is in `test_embedded_server`.
"""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdrl.errors import DecisionError
from hdrl.settings.batch.batsim.embedded_server import EmbeddedServer, ProtocolServer
from hdrl.settings.batch.batsim.exact import BatsimOptions, ExactBatsim, Result
from hdrl.settings.batch.batsim.simulators import ExactSimulator
from hdrl.settings.batch.platform import read_simgrid
from hdrl.settings.batch.simulation.hosts import hosts_arrays
from hdrl.settings.batch.simulation.outputs import HOST_STATES
from hdrl.settings.batch.simulation.trace import Trace
from hdrl.settings.batch.workload import read_batsim_json

HOST = """<host id="h{k}" speed="100Mf, 50Mf, 25Mf, 1f, {down}f, {up}f, 1f, {nap}f, {wake}f">
<prop id="sleep_pstates" value="3:4:5, 6:7:8"/>
<prop id="wattage_per_state"
 value="10:20:100, 8:15:60, 7:9:40, 1:1:1, 30:30:30, 40:40:40, 3:3:3, 12:13:14, 15:16:17"/></host>
<route src="master_host" dst="h{k}"><link_ctn id="wire"/></route>"""
OFF, SUSPENDED, ON, SLOW = "3", "6", "0", "1"


def _write(folder: Path, ways_s: list[tuple[float, float]], jobs: list[tuple[float, int, float]]) -> None:
    """Write hosts with the seconds of their ways off and back, and jobs by date, hosts and seconds.

    To be suspended takes a quarter as long, and the way back a fifth; every other job is a delay.
    """
    hosts = [
        HOST.format(k=k, down=1 / down_s, up=1 / up_s, nap=4 / down_s, wake=5 / up_s)
        for k, (down_s, up_s) in enumerate(ways_s)
    ]
    (folder / "platform.xml").write_text(
        '<platform version="4.1"><zone id="main" routing="Full"><host id="master_host" speed="1Gf">'
        '<prop id="wattage_per_state" value="0:0"/></host><link id="wire" bandwidth="100MBps" latency="0s"/>'
        f"{''.join(hosts)}</zone></platform>"
    )
    profiles = {
        f"p{k}": {"type": "parallel_homogeneous", "cpu": run_s * 1e8, "com": 0}
        if k % 2
        else {"type": "delay", "delay": run_s}
        for k, (_, _, run_s) in enumerate(jobs)
    }
    rows = [{"id": k, "subtime": date_s, "res": n, "profile": f"p{k}"} for k, (date_s, n, _) in enumerate(jobs)]
    (folder / "workload.json").write_text(json.dumps({"nb_res": len(ways_s), "jobs": rows, "profiles": profiles}))


def _ids(text: str) -> set[int]:
    ids: set[int] = set()
    for part in text.split():
        first, _, last = part.partition("-")
        ids.update(range(int(first), int(last or first) + 1))
    return ids


class Sleepy:
    """Starts jobs in their order, and sends some hosts that are free to sleep, several at a time; drawn by chance.

    A request that wakes hosts may also name some that are on.
    """

    def __init__(self, seed: int, n_hosts: int) -> None:
        self.conversation: list[tuple[str, str]] = []
        self.n_mixed = 0
        self._draw = np.random.default_rng(seed)
        self._all = set(range(n_hosts))
        self._free, self._asleep = set(self._all), set[int]()
        self._coming, self._going = set[int](), set[int]()
        self._wakes: dict[tuple[frozenset[int], str], set[int]] = {}
        self._waiting: list[dict[str, Any]] = []
        self._running: set[str] = set()

    def exchange(self, message: str) -> str:
        now_s, events = json.loads(message)["now"], json.loads(message)["events"]
        for event in events:
            self._hear(event["type"], event["data"])
        asked = [] if events[-1]["type"] == "SIMULATION_ENDS" else [*self._starts(), *self._naps(), *self._calls()]
        reply = {"now": now_s, "events": [{"timestamp": now_s, "type": kind, "data": data} for kind, data in asked]}
        self.conversation.append((message, json.dumps(reply)))
        return self.conversation[-1][1]

    def _hear(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "JOB_SUBMITTED":
            self._waiting.append(data["job"])
        elif kind == "JOB_COMPLETED":
            self._free |= _ids(data["alloc"])
            self._running.discard(data["job_id"])
        elif kind == "RESOURCE_STATE_CHANGED" and data["state"] in (OFF, SUSPENDED):
            self._asleep |= _ids(data["resources"])
            self._going -= _ids(data["resources"])
        elif kind == "RESOURCE_STATE_CHANGED":
            here = self._wakes.pop((frozenset(_ids(data["resources"])), data["state"]), set())
            self._free |= here
            self._coming -= here

    def _starts(self) -> list[tuple[str, dict[str, str]]]:
        starts = []
        while self._waiting and self._waiting[0]["res"] <= len(self._free):
            job = self._waiting.pop(0)
            hosts = self._some(self._free, job["res"])
            self._free -= set(hosts)
            self._running.add(job["id"])
            starts.append(("EXECUTE_JOB", {"job_id": job["id"], "alloc": " ".join(map(str, hosts))}))
        return starts

    def _naps(self) -> list[tuple[str, dict[str, str]]]:
        naps = []
        if self._free and self._draw.random() < 0.2:
            naps.append(self._state(self._some(self._free, 1), str(self._draw.choice([ON, SLOW]))))
        if self._free and self._draw.random() < 0.6:
            hosts = self._some(self._free, int(self._draw.integers(1, len(self._free), endpoint=True)))
            self._free -= set(hosts)
            self._going |= set(hosts)
            naps.append(self._state(hosts, str(self._draw.choice([OFF, SUSPENDED]))))
        return naps

    def _calls(self) -> list[tuple[str, dict[str, str]]]:
        """Wake some hosts if jobs wait for them, all of them if nothing else is going on."""
        must = not (self._running or self._going or self._coming)
        if not (self._asleep and self._waiting and (must or self._draw.random() < 0.4)):
            return []
        n = len(self._asleep) if must else int(self._draw.integers(1, len(self._asleep), endpoint=True))
        hosts = self._some(self._asleep, n)
        self._asleep -= set(hosts)
        self._coming |= set(hosts)
        woken = set(hosts)
        others = self._all - self._asleep - self._coming - self._going
        if others and self._draw.random() < 0.5:
            hosts = [*hosts, *self._some(others, int(self._draw.integers(1, len(others), endpoint=True)))]
            self.n_mixed += 1
        state = str(self._draw.choice([ON, ON, SLOW]))
        self._wakes[frozenset(hosts), state] = woken
        return [self._state(hosts, state)]

    def _some(self, hosts: set[int], n: int) -> list[int]:
        return [int(host) for host in self._draw.choice(sorted(hosts), n, replace=False)]

    def _state(self, hosts: list[int], state: str) -> tuple[str, dict[str, str]]:
        return "SET_RESOURCE_STATE", {"resources": " ".join(map(str, hosts)), "state": state}


class Again:
    """Gives the replies of a conversation, and compares the messages; those of the beginning name other files."""

    def __init__(self, conversation: list[tuple[str, str]]) -> None:
        self._left = list(conversation)

    def exchange(self, message: str) -> str:
        expected, reply = self._left.pop(0)
        assert message == expected or "SIMULATION_BEGINS" in expected
        return reply


def _embedded(folder: Path, scheduler: Any) -> Trace:
    platform, workload = read_simgrid(folder / "platform.xml"), read_batsim_json(folder / "workload.json")
    return EmbeddedServer(platform, workload).run(scheduler)


def _exact(folder: Path, scheduler: Any) -> Trace:
    platform, workload = read_simgrid(folder / "platform.xml"), read_batsim_json(folder / "workload.json")
    with ExactSimulator(platform, workload, energy=True, platform_file=folder / "platform.xml") as simulator:
        return ProtocolServer(simulator).run(scheduler)


def _batsim(folder: Path, scheduler: Any) -> Result:
    files = {"platform": folder / "platform.xml", "workloads": (folder / "workload.json",)}
    return ExactBatsim(BatsimOptions(**files, energy=True, host_table=True)).run(scheduler)


def _compare_hosts(trace: Trace, result: Result) -> None:
    """Compare what each host did with what the exact engine noted of it while it happened."""
    table = list(csv.DictReader((result.hosts or "").splitlines()))
    for name, column in zip((f"time_{state}" for state in HOST_STATES), HOST_STATES, strict=True):
        assert hosts_arrays(trace)[f"{column}_s"] == pytest.approx([float(row[name]) for row in table], abs=2e-5)
    for name, column in (("consumed_joules", "energy_j"), ("energy_waste", "wasted_j"), ("nb_switches", "n_switches")):
        assert hosts_arrays(trace)[column] == pytest.approx([float(row[name]) for row in table], rel=1e-6, abs=1e-2)


@pytest.mark.parametrize("simulate", [_embedded, _exact])
def test_random_worlds_as_in_batsim(tmp_path: Path, simulate: Callable[[Path, Any], Trace]) -> None:
    n_requests = n_mixed = 0
    for seed in range(12):
        draw = np.random.default_rng(seed)
        ways_s = [(draw.uniform(1, 9), draw.uniform(2, 20)) for _ in range(draw.integers(1, 6))]
        jobs = [
            (round(draw.uniform(0, 60), 2), int(draw.integers(1, len(ways_s), endpoint=True)), draw.uniform(1, 30))
            for _ in range(9)
        ]
        _write(tmp_path, ways_s, jobs)
        scheduler = Sleepy(seed, len(ways_s))
        result = _batsim(tmp_path, scheduler)
        trace = simulate(tmp_path, Again(scheduler.conversation))
        told = [line.split(",") for line in result.outputs.pstate_changes]
        n_requests += sum(row[2] == "-2" for row in told)
        n_mixed += scheduler.n_mixed
        assert [int(row[2]) for row in told] == trace.pstate_changes["pstate"].tolist()
        states = [line.split(",") for line in result.outputs.machine_states]
        names = ("sleeping", "switching_on", "switching_off", "idle", "computing")
        assert [[int(n) for n in row[1:]] for row in states] == [
            [int(row[name]) for name in names] for row in trace.machine_states
        ]
        assert trace.consumed_j == pytest.approx(float(result.schedule["consumed_joules"]), rel=1e-9, abs=1e-6)
        _compare_hosts(trace, result)
    assert n_requests > 50
    assert n_mixed > 20


@pytest.mark.parametrize("simulate", [_embedded, _exact])
def test_two_requests_at_once_by_hand(tmp_path: Path, simulate: Callable[[Path, Any], Trace]) -> None:
    """Hosts 0 and 1 sleep by one request, told after 8 s, when the slower one does; host 2, asked later, after 2 s."""
    _write(tmp_path, [(8.0, 3.0), (1.0, 5.0), (2.0, 1.0)], [(10.0, 1, 5.0)])
    told = []

    class Told:
        def exchange(self, message: str) -> str:
            data = json.loads(message)
            asked: list[tuple[str, dict[str, str]]] = []
            for event in data["events"]:
                if event["type"] == "RESOURCE_STATE_CHANGED":
                    told.append((data["now"], event["data"]["resources"], event["data"]["state"]))
                    asked += [("EXECUTE_JOB", {"job_id": "w0!0", "alloc": "1"})] * (len(told) == 3)
                elif event["type"] == "SIMULATION_BEGINS":
                    asked += [("SET_RESOURCE_STATE", {"resources": text, "state": OFF}) for text in ("0-1", "2")]
                elif event["type"] == "JOB_SUBMITTED":
                    asked.append(("SET_RESOURCE_STATE", {"resources": "1-2", "state": SLOW}))
            events = [{"timestamp": data["now"], "type": kind, "data": data_} for kind, data_ in asked]
            return json.dumps({"now": data["now"], "events": events})

    trace = simulate(tmp_path, Told())
    assert [(text, state) for _, text, state in told] == [("2", OFF), ("0-1", OFF), ("1-2", SLOW)]
    assert [date_s for date_s, _, _ in told] == pytest.approx([2.0, 8.0, 15.0], abs=1e-5)
    assert trace.records["start_s"] == pytest.approx([15.0], abs=1e-5)


@pytest.mark.parametrize("simulate", [_embedded, _exact])
def test_a_request_for_hosts_that_sleep_and_for_one_that_computes(
    tmp_path: Path, simulate: Callable[[Path, Any], Trace]
) -> None:
    """Host 0 halves its speed at once, in the middle of its job; host 1 comes from off and host 2 was suspended."""
    _write(tmp_path, [(4.0, 5.0)] * 3, [(1.0, 1, 9.0), (20.0, 1, 10.0), (25.0, 1, 3.0)])
    told = []

    class Told:
        def exchange(self, message: str) -> str:
            data = json.loads(message)
            asked: list[tuple[str, dict[str, str]]] = []
            for event in data["events"]:
                job_id = event["data"].get("job_id")
                if event["type"] in ("RESOURCE_STATE_CHANGED", "JOB_COMPLETED"):
                    told.append((data["now"], event["data"].get("resources", job_id)))
                elif event["type"] == "SIMULATION_BEGINS":
                    states = (("1", OFF), ("2", SUSPENDED))
                    asked += [("SET_RESOURCE_STATE", {"resources": ids, "state": state}) for ids, state in states]
                elif job_id == "w0!2":
                    asked += [
                        ("SET_RESOURCE_STATE", {"resources": "0-2", "state": SLOW}),
                        ("REJECT_JOB", {"job_id": job_id}),
                    ]
                elif job_id is not None:
                    asked.append(("EXECUTE_JOB", {"job_id": job_id, "alloc": "0"}))
            events = [{"timestamp": data["now"], "type": kind, "data": data_} for kind, data_ in asked]
            return json.dumps({"now": data["now"], "events": events})

    trace = simulate(tmp_path, Told())
    assert [what for _, what in told] == ["2", "1", "w0!0", "0-2", "w0!1"]
    # The second job has half of its 10 s of work left at 25 s, which takes twice as long.
    assert [date_s for date_s, _ in told] == pytest.approx([1.0, 4.0, 10.0, 30.0, 35.0], abs=1e-5)
    hosts = hosts_arrays(trace)
    assert hosts["switching_on_s"] == pytest.approx([0.0, 5.0, 1.0], abs=1e-5)
    assert hosts["sleeping_s"] == pytest.approx([0.0, 21.0, 24.0], abs=1e-5)


@pytest.mark.parametrize(
    ("first", "then", "problem"),
    [
        (("SET_RESOURCE_STATE", {"resources": "0", "state": OFF}), ("EXECUTE_JOB", None), "core 0 is not free"),
        (
            ("SET_RESOURCE_STATE", {"resources": "0", "state": OFF}),
            ("SET_RESOURCE_STATE", {"resources": "0-1", "state": SUSPENDED}),
            "node 0 is off: a node is switched off that is on, and on that is off",
        ),
        (
            ("EXECUTE_JOB", None),
            ("SET_RESOURCE_STATE", {"resources": "0", "state": OFF}),
            "node 0 cannot be switched off: jobs hold cores of it",
        ),
        (("SET_RESOURCE_STATE", {"resources": "0", "state": "4"}), None, "is a sleep state, or on the way to one"),
    ],
)
def test_what_is_refused(tmp_path: Path, first: Any, then: Any, problem: str) -> None:
    _write(tmp_path, [(2.0, 3.0), (2.0, 3.0)], [(10.0, 1, 50.0), (30.0, 1, 5.0)])
    script = [first, then]

    class Asks:
        def exchange(self, message: str) -> str:
            data = json.loads(message)
            asked = [script.pop(0)] if data["events"][0]["type"] == "JOB_SUBMITTED" and script else []
            job = {"job_id": data["events"][0]["data"].get("job_id"), "alloc": "0"}
            events = [{"timestamp": data["now"], "type": kind, "data": what or job} for kind, what in asked]
            return json.dumps({"now": data["now"], "events": events})

    with pytest.raises(DecisionError, match=problem):
        _embedded(tmp_path, Asks())


def test_fcfs_sched_sleep_of_pybatsim(tmp_path: Path) -> None:
    """Idle hosts are off after 2 s, and on again 4 s after the second job has come."""
    pytest.importorskip("batsim", reason="PyBatsim is not installed")
    from hdrl.settings.batch.pybatsim import HostedScheduler

    _write(tmp_path, [(2.0, 4.0)] * 4, [(1.0, 1, 10.0), (50.0, 4, 10.0)])
    (tmp_path / "sleeper.py").write_text(
        "from schedulers.fcfsSchedSleep import FcfsSchedSleep\n\n\n"
        "class Sleeper(FcfsSchedSleep):\n"
        "    def onMachinePStateChanged(self, machines, new_pstate):\n"
        "        super().onMachinePStateChanged(machines, int(new_pstate))\n"
    )
    for simulate in (_embedded, _exact):
        with HostedScheduler(tmp_path / "sleeper.py", None) as scheduler:
            trace = simulate(tmp_path, scheduler)
        assert trace.records["start_s"] == pytest.approx([1.0, 54.0], abs=1e-5)
        assert trace.time_in_state_s["sleeping"] > 4 * 30

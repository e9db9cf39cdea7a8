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

from hdrl.base.errors import DecisionError
from hdrl.batsim.embedded_server import EmbeddedServer, ProtocolServer
from hdrl.batsim.exact import BatsimOptions, ExactBatsim, Result
from hdrl.batsim.simulators import ExactSimulator
from hdrl.settings.batch.platform import read_simgrid
from hdrl.settings.batch.simulation.hosts import hosts_arrays
from hdrl.settings.batch.simulation.trace import HOST_STATES, BatchTrace
from hdrl.settings.batch.workload import read_batsim_json

HOST = """<host id="h{k}" speed="{speeds}">{asleep}<prop id="wattage_per_state" value="{watts}"/></host>
<route src="master_host" dst="h{k}"><link_ctn id="wire"/></route>"""
ALIKE = ("on", "slow", "least", "off", "down", "up", "nap", "to_nap", "from_nap")
KINDS = (
    ALIKE,
    ("on", "slow", "nap", "least", "up", "down", "off", "from_nap", "to_nap"),
    ("on", "slow", "least", "off", "down", "up", "least", "least", "least"),
    ("on", "slow", *["least"] * 7),
)
"""What each P-state of a host is; those of others may be something else, or they do not sleep."""
WATTS = {
    **{"on": "10:20:100", "slow": "8:15:60", "least": "7:9:40", "off": "1:1:1", "down": "30:30:30", "up": "40:40:40"},
    **{"nap": "3:3:3", "to_nap": "12:13:14", "from_nap": "15:16:17"},
}
OFF, SUSPENDED, ON, SLOW, LEAST = "3", "6", "0", "1", "2"
"""P-states of hosts of the first kind; they are on and slow in the first two ones, whatever their kind."""

Asked = list[tuple[str, dict[str, str]]]
"""Types and data of requests."""


def _host(k: int, kind: tuple[str, ...], down_s: float, up_s: float) -> str:
    ways = {"down": 1 / down_s, "up": 1 / up_s, "to_nap": 4 / down_s, "from_nap": 5 / up_s}
    speeds = {"on": 1e8, "slow": 5e7, "least": 2.5e7, "off": 1.0, "nap": 1.0, **ways}
    trips = (("off", "down", "up"), ("nap", "to_nap", "from_nap"))
    asleep = [":".join(str(kind.index(name)) for name in trip) for trip in trips if trip[0] in kind]
    return HOST.format(
        k=k,
        speeds=", ".join(f"{speeds[name]}f" for name in kind),
        asleep=f'<prop id="sleep_pstates" value="{", ".join(asleep)}"/>' if asleep else "",
        watts=", ".join(WATTS[name] for name in kind),
    )


def _write(
    folder: Path,
    ways_s: list[tuple[float, float]],
    jobs: list[tuple[float, int, float]],
    kinds: list[tuple[str, ...]] | None = None,
) -> None:
    """Write hosts with the seconds of their ways off and back, and jobs by date, hosts and seconds.

    To be suspended takes a quarter as long, and the way back a fifth; every other job is a delay.
    """
    kinds = kinds or [ALIKE] * len(ways_s)
    hosts = [_host(k, kind, *seconds) for k, (kind, seconds) in enumerate(zip(kinds, ways_s, strict=True))]
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

    A request that sends hosts to sleep, or wakes them, may also name some that are on and stay so.
    """

    def __init__(self, seed: int, kinds: list[tuple[str, ...]]) -> None:
        self.conversation: list[tuple[str, str]] = []
        self.n_mixed = self.n_there_and_back = 0
        self._kinds = kinds
        self._draw = np.random.default_rng(seed)
        self._free, self._asleep, self._on_way = set(range(len(kinds))), set[int](), set[int]()
        self._requests: dict[tuple[frozenset[int], str], tuple[set[int], set[int]]] = {}
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
        elif kind == "RESOURCE_STATE_CHANGED":
            falling, waking = self._requests.pop((frozenset(_ids(data["resources"])), data["state"]))
            self._asleep |= falling
            self._free |= waking
            self._on_way -= falling | waking

    def _starts(self) -> Asked:
        starts = []
        while self._waiting and self._waiting[0]["res"] <= len(self._free):
            job = self._waiting.pop(0)
            hosts = self._some(self._free, job["res"])
            self._free -= set(hosts)
            self._running.add(job["id"])
            starts.append(("EXECUTE_JOB", {"job_id": job["id"], "alloc": " ".join(map(str, hosts))}))
        return starts

    def _naps(self) -> Asked:
        naps = []
        if self._free and self._draw.random() < 0.2:
            naps += self._request(self._some(self._free, 1), str(self._draw.choice([ON, SLOW])))
        if self._free and self._draw.random() < 0.6:
            naps += self._request(self._several(self._free), str(self._draw.choice([OFF, SUSPENDED, LEAST])))
        return naps

    def _calls(self) -> Asked:
        """Wake some hosts if jobs wait for them, all of them if nothing else is going on."""
        must = not (self._running or self._on_way)
        if not (self._asleep and self._waiting and (must or self._draw.random() < 0.4)):
            return []
        hosts = sorted(self._asleep) if must else self._several(self._asleep)
        others = set(range(len(self._kinds))) - self._asleep - self._on_way
        if others and self._draw.random() < 0.5:
            hosts = [*hosts, *self._several(others)]
        return self._request(hosts, str(self._draw.choice([ON, SLOW] if must else [ON, SLOW, LEAST, OFF])))

    def _some(self, hosts: set[int], n: int) -> list[int]:
        return [int(host) for host in self._draw.choice(sorted(hosts), n, replace=False)]

    def _several(self, hosts: set[int]) -> list[int]:
        return self._some(hosts, int(self._draw.integers(1, len(hosts), endpoint=True)))

    def _request(self, hosts: list[int], state: str) -> Asked:
        """Ask for a P-state of those hosts that can have it."""
        role = {host: self._kinds[host][int(state)] for host in hosts}
        falling = {host for host in hosts if role[host] in ("off", "nap") and host in self._free}
        staying = {host for host in hosts if role[host] in ("on", "slow", "least")}
        hosts = [host for host in hosts if host in falling | staying]
        if not hosts or (frozenset(hosts), state) in self._requests:
            return []
        waking = staying & self._asleep
        self.n_mixed += bool(falling | waking) and bool(staying - waking)
        self.n_there_and_back += bool(falling and waking)
        self._free -= falling
        self._asleep -= waking
        self._on_way |= falling | waking
        self._requests[frozenset(hosts), state] = falling, waking
        return [("SET_RESOURCE_STATE", {"resources": " ".join(map(str, hosts)), "state": state})]


class Again:
    """Gives the replies of a conversation, and compares the messages; those of the beginning name other files."""

    def __init__(self, conversation: list[tuple[str, str]]) -> None:
        self._left = list(conversation)

    def exchange(self, message: str) -> str:
        expected, reply = self._left.pop(0)
        assert message == expected or "SIMULATION_BEGINS" in expected
        return reply


class Scripted:
    """Answers each event with what a function of the date and the event asks for."""

    def __init__(self, answer: Callable[[float, dict[str, Any]], Asked]) -> None:
        self._answer = answer

    def exchange(self, message: str) -> str:
        """Return the requests, all at the date of the message."""
        told = json.loads(message)
        asked = [one for event in told["events"] for one in self._answer(told["now"], event)]
        events = [{"timestamp": told["now"], "type": kind, "data": data} for kind, data in asked]
        return json.dumps({"now": told["now"], "events": events})


def _embedded(folder: Path, scheduler: Any) -> BatchTrace:
    platform, workload = read_simgrid(folder / "platform.xml"), read_batsim_json(folder / "workload.json")
    return EmbeddedServer(platform, workload).run(scheduler)


def _exact(folder: Path, scheduler: Any) -> BatchTrace:
    platform, workload = read_simgrid(folder / "platform.xml"), read_batsim_json(folder / "workload.json")
    with ExactSimulator(platform, workload, energy=True, platform_file=folder / "platform.xml") as simulator:
        return ProtocolServer(simulator).run(scheduler)


def _batsim(folder: Path, scheduler: Any) -> Result:
    files = {"platform": folder / "platform.xml", "workloads": (folder / "workload.json",)}
    return ExactBatsim(BatsimOptions(**files, energy=True, host_table=True)).run(scheduler)


def _compare_hosts(trace: BatchTrace, result: Result) -> None:
    """Compare what each host did with what the exact engine noted of it while it happened."""
    table = list(csv.DictReader((result.hosts or "").splitlines()))
    for name, column in zip((f"time_{state}" for state in HOST_STATES), HOST_STATES, strict=True):
        assert hosts_arrays(trace)[f"{column}_s"] == pytest.approx([float(row[name]) for row in table], abs=2e-5)
    for name, column in (("consumed_joules", "energy_j"), ("energy_waste", "wasted_j"), ("nb_switches", "n_switches")):
        assert hosts_arrays(trace)[column] == pytest.approx([float(row[name]) for row in table], rel=1e-6, abs=1e-2)


@pytest.mark.parametrize("simulate", [_embedded, _exact])
def test_random_worlds_as_in_batsim(tmp_path: Path, simulate: Callable[[Path, Any], BatchTrace]) -> None:
    schedulers = [_compare_world(tmp_path, simulate, seed) for seed in (*range(13), 111)]
    assert sum(scheduler.n_mixed for scheduler in schedulers) > 20
    assert sum(scheduler.n_there_and_back for scheduler in schedulers) > 0
    n_to_sleep = sum(reply.count('"state": "3"') for one in schedulers for _, reply in one.conversation)
    assert n_to_sleep > 50


def _compare_world(folder: Path, simulate: Callable[[Path, Any], BatchTrace], seed: int) -> Sleepy:
    """Compare what a scheduler does in a world whose hosts sleep alike, or in every second one differently."""
    draw = np.random.default_rng(seed)
    ways_s = [(draw.uniform(1, 9), draw.uniform(2, 20)) for _ in range(draw.integers(1, 6))]
    jobs = [
        (round(draw.uniform(0, 60), 2), int(draw.integers(1, len(ways_s), endpoint=True)), draw.uniform(1, 30))
        for _ in range(9)
    ]
    kinds = [KINDS[draw.integers(len(KINDS)) if seed % 2 else 0] for _ in ways_s]
    _write(folder, ways_s, jobs, kinds)
    scheduler = Sleepy(seed, kinds)
    result = _batsim(folder, scheduler)
    trace = simulate(folder, Again(scheduler.conversation))
    told = [line.split(",") for line in result.outputs.pstate_changes]
    assert [int(row[2]) for row in told] == trace.pstate_changes["pstate"].tolist()
    states = [line.split(",") for line in result.outputs.machine_states]
    names = ("sleeping", "switching_on", "switching_off", "idle", "computing")
    assert [[int(n) for n in row[1:]] for row in states] == [
        [int(row[name]) for name in names] for row in trace.machine_states
    ]
    assert trace.consumed_j == pytest.approx(float(result.schedule["consumed_joules"]), rel=1e-9, abs=1e-6)
    _compare_hosts(trace, result)
    return scheduler


@pytest.mark.parametrize("simulate", [_embedded, _exact])
def test_two_requests_at_once_by_hand(tmp_path: Path, simulate: Callable[[Path, Any], BatchTrace]) -> None:
    """Hosts 0 and 1 sleep by one request, told after 8 s, when the slower one does; host 2, asked later, after 2 s."""
    _write(tmp_path, [(8.0, 3.0), (1.0, 5.0), (2.0, 1.0)], [(10.0, 1, 5.0)])
    told = []

    def answer(now_s: float, event: dict[str, Any]) -> Asked:
        asked: Asked = []
        if event["type"] == "RESOURCE_STATE_CHANGED":
            told.append((now_s, event["data"]["resources"], event["data"]["state"]))
            asked += [("EXECUTE_JOB", {"job_id": "w0!0", "alloc": "1"})] * (len(told) == 3)
        elif event["type"] == "SIMULATION_BEGINS":
            asked += [("SET_RESOURCE_STATE", {"resources": text, "state": OFF}) for text in ("0-1", "2")]
        elif event["type"] == "JOB_SUBMITTED":
            asked.append(("SET_RESOURCE_STATE", {"resources": "1-2", "state": SLOW}))
        return asked

    trace = simulate(tmp_path, Scripted(answer))
    assert [(text, state) for _, text, state in told] == [("2", OFF), ("0-1", OFF), ("1-2", SLOW)]
    assert [date_s for date_s, _, _ in told] == pytest.approx([2.0, 8.0, 15.0], abs=1e-5)
    assert trace.records["start_s"] == pytest.approx([15.0], abs=1e-5)


@pytest.mark.parametrize("simulate", [_embedded, _exact])
def test_a_request_for_hosts_that_sleep_and_for_one_that_computes(
    tmp_path: Path, simulate: Callable[[Path, Any], BatchTrace]
) -> None:
    """Host 0 halves its speed at once, in the middle of its job; host 1 comes from off and host 2 was suspended."""
    _write(tmp_path, [(4.0, 5.0)] * 3, [(1.0, 1, 9.0), (20.0, 1, 10.0), (25.0, 1, 3.0)])
    told = []

    def answer(now_s: float, event: dict[str, Any]) -> Asked:
        asked: Asked = []
        job_id = event["data"].get("job_id")
        if event["type"] in ("RESOURCE_STATE_CHANGED", "JOB_COMPLETED"):
            told.append((now_s, event["data"].get("resources", job_id)))
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
        return asked

    trace = simulate(tmp_path, Scripted(answer))
    assert [what for _, what in told] == ["2", "1", "w0!0", "0-2", "w0!1"]
    # The second job has half of its 10 s of work left at 25 s, which takes twice as long.
    assert [date_s for date_s, _ in told] == pytest.approx([1.0, 4.0, 10.0, 30.0, 35.0], abs=1e-5)
    hosts = hosts_arrays(trace)
    assert hosts["switching_on_s"] == pytest.approx([0.0, 5.0, 1.0], abs=1e-5)
    assert hosts["sleeping_s"] == pytest.approx([0.0, 21.0, 24.0], abs=1e-5)


@pytest.mark.parametrize("simulate", [_embedded, _exact])
def test_a_request_by_which_one_host_wakes_and_another_falls_asleep(
    tmp_path: Path, simulate: Callable[[Path, Any], BatchTrace]
) -> None:
    """P-state 2 is a slow one of host 0, which comes from off in 5 s, and a nap of host 1, which goes there in 1 s."""
    _write(tmp_path, [(4.0, 5.0)] * 2, [(10.0, 1, 4.0), (20.0, 1, 4.0)], [ALIKE, KINDS[1]])
    told = []

    def answer(now_s: float, event: dict[str, Any]) -> Asked:
        asked: Asked = []
        if event["type"] in ("RESOURCE_STATE_CHANGED", "JOB_COMPLETED"):
            told.append((event["data"].get("resources"), event["data"].get("state"), now_s))
        elif event["type"] == "SIMULATION_BEGINS":
            # P-state 3 is off for host 0, and one of many for host 1, which has it at once.
            asked.append(("SET_RESOURCE_STATE", {"resources": "0-1", "state": OFF}))
        elif event["type"] == "JOB_SUBMITTED":
            job = {"job_id": event["data"]["job_id"], "alloc": "1" if now_s < 15 else "0"}
            asked.append(("EXECUTE_JOB", job))
        if event["type"] == "JOB_COMPLETED" and now_s < 15:
            asked.append(("SET_RESOURCE_STATE", {"resources": "0-1", "state": LEAST}))
        return asked

    trace = simulate(tmp_path, Scripted(answer))
    assert [what for *what, _ in told] == [["0-1", OFF], [None, None], ["0-1", LEAST], [None, None]]
    # The first job is a delay; the second one computes 4 s at full speed, which is four times that of P-state 2.
    assert [date_s for *_, date_s in told] == pytest.approx([4.0, 14.0, 19.0, 36.0], abs=1e-5)
    hosts = hosts_arrays(trace)
    assert hosts["sleeping_s"] == pytest.approx([10.0, 21.0], abs=1e-5)
    assert hosts["switching_on_s"] == pytest.approx([5.0, 0.0], abs=1e-5)
    assert hosts["switching_off_s"] == pytest.approx([4.0, 1.0], abs=1e-5)
    assert hosts["energy_j"] == pytest.approx(
        [4 * 30 + 10 * 1 + 5 * 40 + 1 * 7 + 16 * 40, 14 * 7 + 1 * 14 + 21 * 3], abs=1e-3
    )


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
        (("SET_RESOURCE_STATE", {"resources": "0", "state": "4"}), None, "is a sleep state or a transition to one"),
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
    from hdrl.batsim.pybatsim import HostedScheduler

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

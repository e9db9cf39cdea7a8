"""Small worlds, solved by hand."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hdrl.base.errors import BatsimError
from hdrl.batsim.exact import BatsimOptions, ExactBatsim

from .conversations import WORLDS, FirstComeFirstServed, Replay, Scripted, options_of, replay

SMALL = sorted(path.parent for path in WORLDS.glob("*/run.json"))


@pytest.mark.parametrize("folder", SMALL, ids=lambda path: path.name)
def test_a_small_world_is_replayed(folder: Path) -> None:
    assert not replay(folder).deadlocked


def test_a_wrong_digit_is_noticed() -> None:
    scheduler = Replay(WORLDS / "latencies")
    scheduler.expected[1] = scheduler.expected[1].replace("1.001001", "1.001002")
    with pytest.raises(AssertionError, match="message 1 differs"):
        ExactBatsim(options_of(WORLDS / "latencies")).run(scheduler)


def test_progress_of_killed_jobs() -> None:
    scheduler = Replay(WORLDS / "kills")
    events = [event for message in scheduler.expected for event in json.loads(message)["events"]]
    killed = next(event["data"] for event in events if event["type"] == "JOB_KILLED")
    assert killed["job_progress"] == {
        "w0!sleeps": {"profile_name": "sleep", "progress": 0.275},
        "w0!works": {"profile_name": "work", "progress": 0.5},
    }


def test_the_same_simulation_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    options = options_of(WORLDS / "speed_change")
    texts = []
    for run in ("one", "two"):
        result = ExactBatsim(options).run(FirstComeFirstServed())
        schedule = result.schedule | {"scheduling_time": "", "simulation_time": ""}
        paths = result.outputs.write(str(tmp_path / run), schedule)
        assert {path.name for path in paths} == {path.name for path in tmp_path.glob(f"{run}_*")}
        texts.append([path.read_text() for path in paths])
    assert texts[0] == texts[1]
    assert len(texts[0]) == 5


def _world(
    tmp_path: Path, jobs: list[dict[str, object]], profiles: dict[str, object], **options: object
) -> BatsimOptions:
    path = tmp_path / "workload.json"
    path.write_text(json.dumps({"nb_res": 2, "jobs": jobs, "profiles": profiles}))
    return BatsimOptions(platform=WORLDS / "kills" / "platform.xml", workloads=(path,), **options)  # type: ignore[arg-type]


def _column(lines: list[str], column: int) -> list[str]:
    return [line.split(",")[column] for line in lines]


def test_two_jobs_share_a_host(tmp_path: Path) -> None:
    """10 s and 5 s of work that begin together on one core: 5 s each by 10 s, and the rest alone until 15 s."""
    profiles = {f"w{k}": {"type": "parallel_homogeneous", "cpu": k * 1e8, "com": 0} for k in (5, 10)}
    jobs = [{"id": k, "subtime": 0, "res": 1, "profile": f"w{k}"} for k in (5, 10)]

    class Together(FirstComeFirstServed):
        def exchange(self, message: str) -> str:
            reply = json.loads(super().exchange(message))
            for event in reply["events"]:
                event["data"]["alloc"] = "0"
            return json.dumps(reply)

    result = ExactBatsim(_world(tmp_path, jobs, profiles, compute_sharing=True)).run(Together())
    assert dict(zip(_column(result.outputs.jobs, 0), _column(result.outputs.jobs, 10), strict=True)) == {
        "5": "10.000000",
        "10": "15.000000",
    }


def test_a_job_that_ends_during_a_change_of_pstates_writes_its_energy_first(tmp_path: Path) -> None:
    """Both have read all energies in the same round; then each change of a P-state takes the server one more."""
    profiles = {"p": {"type": "delay", "delay": 1.2e-10}}  # ends with the message that carries the next request
    path = tmp_path / "workload.json"
    jobs = [{"id": 1, "subtime": 5, "res": 1, "profile": "p"}]
    path.write_text(json.dumps({"nb_res": 2, "jobs": jobs, "profiles": profiles}))

    def decide(message: dict[str, Any]) -> list[dict[str, Any]]:
        if not any(event["type"] == "JOB_SUBMITTED" for event in message["events"]):
            return []
        return [
            {"type": "EXECUTE_JOB", "data": {"job_id": "w0!1", "alloc": "1"}},
            {"type": "SET_RESOURCE_STATE", "data": {"resources": "0-1", "state": "1"}},
        ]

    options = BatsimOptions(platform=WORLDS / "speed_change" / "platform.xml", workloads=(path,), energy=True)
    result = ExactBatsim(options).run(Scripted(decide))
    assert _column(result.outputs.energy, 2) == ["s", "p", "e", "p"]


def test_bytes_bound_a_job(tmp_path: Path) -> None:
    """1 GB each way over one wire of 100 MB/s, shared by both directions: 20 s; the flops take 10 s."""
    profiles = {"p": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 1e9}}
    jobs = [{"id": 1, "subtime": 0, "res": 2, "profile": "p"}]
    result = ExactBatsim(_world(tmp_path, jobs, profiles)).run(FirstComeFirstServed())
    assert _column(result.outputs.jobs, 9) == ["20.000000"]


def test_total_amounts_are_shared_out(tmp_path: Path) -> None:
    profiles = {"p": {"type": "parallel_homogeneous_total", "cpu": 1e9, "com": 0}}
    jobs = [{"id": 1, "subtime": 0, "res": 2, "profile": "p"}]
    result = ExactBatsim(_world(tmp_path, jobs, profiles)).run(FirstComeFirstServed())
    assert _column(result.outputs.jobs, 9) == ["5.000000"]


def test_a_job_may_fail(tmp_path: Path) -> None:
    profiles = {"p": {"type": "delay", "delay": 3, "ret": 4}}
    jobs = [{"id": 1, "subtime": 0, "res": 1, "profile": "p"}]
    result = ExactBatsim(_world(tmp_path, jobs, profiles)).run(FirstComeFirstServed())
    assert _column(result.outputs.jobs, 7) == ["COMPLETED_FAILED"]
    assert result.schedule["nb_jobs_killed"] == "1"


def test_jobs_of_one_date_come_in_the_order_of_their_ids_as_text(tmp_path: Path) -> None:
    profiles = {"p": {"type": "delay", "delay": 1}}
    jobs = [{"id": k, "subtime": 0, "res": 2, "profile": "p"} for k in (2, 10, 1)]
    result = ExactBatsim(_world(tmp_path, jobs, profiles)).run(FirstComeFirstServed())
    assert _column(result.outputs.jobs, 0) == ["1", "10", "2"]


def test_nobody_starts_the_jobs(tmp_path: Path) -> None:
    profiles = {"p": {"type": "delay", "delay": 1}}
    jobs = [{"id": 1, "subtime": 2, "res": 3, "profile": "p"}]  # there are only two machines
    result = ExactBatsim(_world(tmp_path, jobs, profiles)).run(FirstComeFirstServed())
    assert result.deadlocked
    assert result.waiting == ["w0!1"]
    assert "1 jobs never ended (w0!1)" in result.deadlock()
    assert result.outputs.jobs == []


def test_machine_limits(tmp_path: Path) -> None:
    profiles = {"p": {"type": "delay", "delay": 1}}
    options = _world(tmp_path, [{"id": 1, "subtime": 0, "res": 1, "profile": "p"}], profiles, max_machines=1)
    assert [machine.name for machine in ExactBatsim(options).context.machines.all] == ["a"]


def test_jobs_that_wait_for_a_message_that_nobody_sends(tmp_path: Path) -> None:
    profiles = {"wait": {"type": "recv", "polltime": 0.5}, "p": {"type": "delay", "delay": 20}}
    jobs = [{"id": k, "subtime": k / 4, "res": 1, "profile": "wait"} for k in range(2)]
    with pytest.raises(BatsimError, match=r"waits for a message .* Batsim would go on forever"):
        ExactBatsim(_world(tmp_path, jobs, profiles)).run(FirstComeFirstServed())
    for job in jobs:
        job["walltime"] = 30.0
    result = ExactBatsim(_world(tmp_path, jobs, profiles)).run(FirstComeFirstServed())
    assert _column(result.outputs.jobs, 7) == ["COMPLETED_WALLTIME_REACHED"] * 2


_WITHOUT_NUMPY = """\
import sys
from pathlib import Path
import hdrl.launcher.batsim, hdrl.batsim.connection
from hdrl.batsim.exact import BatsimOptions, ExactBatsim
class Nobody:
    def exchange(self, message):
        now = message[message.index(":") + 1:message.index(",")]
        return '{"now":' + now + ',"events":[]}'
files = dict(platform=Path(sys.argv[1], "platform.xml"), workloads=(Path(sys.argv[1], "workload.json"),))
ExactBatsim(BatsimOptions(**files, energy=True, schedule_trace=True)).run(Nobody())
print("numpy" in sys.modules)
"""


def test_a_small_simulation_loads_no_numpy() -> None:
    command = [sys.executable, "-c", _WITHOUT_NUMPY, str(WORLDS / "speed_change")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "False\n"

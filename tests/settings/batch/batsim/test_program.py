"""Schedulers in C++: what they receive, and how each failure is one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hdrl.base.errors import BatsimError
from hdrl.base.pyfiles import UntrustedFile, refuse_python
from hdrl.batch import simulate
from hdrl.batsim import program
from hdrl.batsim.embedded_server import ProtocolServer
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.simulation.embedded import EmbeddedSimulator
from hdrl.settings.batch.simulators import BatsimProgram
from hdrl.settings.batch.workload import read_workload

EXAMPLE = Path(__file__).parents[4] / "examples" / "batsim_sjf.cpp"
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, program.COMPILERS)), reason="needs a C++ compiler, found none on PATH"
)


@pytest.fixture(scope="module")
def world() -> tuple[Any, Any]:
    platform = read_platform("homogeneous:2280")
    return platform, read_workload("lublin_gaia_1000", platform, n_jobs=60, memory="none", bandwidth="none")


class StartNothing:
    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def exchange(self, message: str) -> str:
        self.messages.append(json.loads(message))
        rejected = [
            {"timestamp": event["timestamp"], "type": "REJECT_JOB", "data": {"job_id": event["data"]["job_id"]}}
            for event in self.messages[-1]["events"]
            if event["type"] == "JOB_SUBMITTED"
        ]
        return json.dumps({"now": self.messages[-1]["now"], "events": rejected})


def test_messages_hide_what_jobs_do(world: tuple[Any, Any]) -> None:
    platform, workload = world
    scheduler = StartNothing()
    ProtocolServer(EmbeddedSimulator(platform, workload, energy=False), energy=False, hides_work=True).run(scheduler)
    events = [event for message in scheduler.messages for event in message["events"]]
    begins = next(event["data"] for event in events if event["type"] == "SIMULATION_BEGINS")
    assert list(begins["profiles"].values()) == [{}]
    jobs = [event["data"]["job"] for event in events if event["type"] == "JOB_SUBMITTED"]
    assert [job["walltime"] for job in jobs] == workload.jobs["requested_time_s"].tolist()
    assert set().union(*jobs) <= {"id", "subtime", "res", "walltime", "profile", "user", "queue"}
    assert [job["profile"] for job in jobs] == [str(number) for number in range(60)]


def test_results_do_not_name_a_scheduler_either() -> None:
    with pytest.raises(UntrustedFile, match=r"mine\.cpp"):
        refuse_python({"candidates": ["sjf+easy", "mine.cpp"]}, "results")


@needs_compiler
def test_the_example_schedules_as_the_policy_that_it_copies(world: tuple[Any, Any]) -> None:
    platform, workload = world
    found = simulate(platform, workload, BatsimProgram(EXAMPLE), energy=False)
    expected = simulate(platform, workload, "sjf+easy_sjbf", energy=False)
    assert found.records["start_s"].tolist() == expected.records["start_s"].tolist()


@needs_compiler
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("int main() { return 3; }", "does not listen on the socket that its argument names; .* ended with code 3"),
        ("int main() { retrun 3; }", "cannot compile the scheduler: .*retrun"),
        ("#include <zmq_none.h>\nint main() {}", "cannot compile the scheduler: .*zmq_none"),
        (EXAMPLE.read_text().replace("while (!is_over)", "while (false)"), "closed the connection before"),
        (EXAMPLE.read_text().replace("EXECUTE_JOB", "EXECUTE_JOBS"), "EXECUTE_JOBS"),
    ],
)
def test_each_failure_is_one_line(source: str, said: str, tmp_path: Path, world: tuple[Any, Any]) -> None:
    (tmp_path / "mine.cpp").write_text(source)
    with pytest.raises(BatsimError, match=said) as caught:
        simulate(*world, BatsimProgram(tmp_path / "mine.cpp"), energy=False)
    assert "\n" not in str(caught.value)


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch, world: tuple[Any, Any]) -> None:
    monkeypatch.setattr(program, "COMPILERS", ("no-such-compiler",))
    program._compiled.cache_clear()
    with pytest.raises(BatsimError, match="needs a compiler, found none of no-such-compiler on PATH"):
        simulate(*world, BatsimProgram(EXAMPLE), energy=False)

"""A handler of a simulation as in batsim-py: worlds solved by hand."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from hdrl.base.errors import DecisionError, SimulationError
from hdrl.batch import read_platform, write_simgrid
from hdrl.batsim import (
    BatsimOptions,
    ExactBatsim,
    Host,
    HostEvent,
    HostState,
    Job,
    JobEvent,
    JobState,
    SimulatorEvent,
    SimulatorHandler,
)

from .conversations import FirstComeFirstServed

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="main" routing="Full">
  <host id="master_host" speed="1Gf"><prop id="wattage_per_state" value="0:0"/></host>
  {hosts}
  <link id="net" bandwidth="1GBps" latency="0s"/>
  {routes}
</zone></platform>
"""
HOST = """<host id="h{k}" speed="100Mf, 50Mf, 1f, 0.5f, 0.25f"><prop id="sleep_pstates" value="2:3:4"/>
<prop id="wattage_per_state" value="95:190, 90:150, 9:9, 120:120, 110:110"/></host>"""
JOBS = [("a", 1, 2, 60), ("b", 2, 1, -1), ("c", 3, 1, 30)]
"""Name, submission, hosts, walltime; each computes for 10 s."""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    hosts = [HOST.format(k=k) for k in range(2)]
    routes = [f'<route src="master_host" dst="h{k}"><link_ctn id="net"/></route>' for k in range(2)]
    (tmp_path / "p.xml").write_text(PLATFORM.format(hosts="".join(hosts), routes="".join(routes)))
    jobs = [{"id": n, "subtime": s, "res": r, "walltime": w, "profile": "ten"} for n, s, r, w in JOBS]
    profiles = {"ten": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}}
    (tmp_path / "w.json").write_text(json.dumps({"nb_res": 2, "jobs": jobs, "profiles": profiles}))
    return tmp_path / "p.xml", tmp_path / "w.json"


def _first_come_first_served(handler: SimulatorHandler, job: Job) -> None:
    while handler.queue:
        free = [host.id for host in handler.platform.hosts if not host.is_allocated]
        if len(free) < handler.queue[0].res:
            return
        handler.allocate(handler.queue[0].id, free[: handler.queue[0].res])


def test_decisions_by_listeners(files: tuple[Path, Path]) -> None:
    told: list[tuple[str, str]] = []
    with SimulatorHandler() as handler:
        for event in (JobEvent.SUBMITTED, JobEvent.COMPLETED):
            handler.subscribe(event, lambda job: _first_come_first_served(handler, job))
        for event in (JobEvent.ALLOCATED, JobEvent.STARTED, JobEvent.COMPLETED):
            handler.subscribe(event, lambda job, name=event.name: told.append((name, job.name)))
        handler.subscribe(SimulatorEvent.SIMULATION_ENDS, lambda sender: told.append(("ENDS", str(sender.is_running))))
        handler.start(*files)
        ended: list[Job] = []
        handler.subscribe(JobEvent.COMPLETED, ended.append)
        while handler.is_running:
            handler.proceed_time()
        assert handler.is_submitter_finished
    assert told[:3] == [("ALLOCATED", "a"), ("STARTED", "a"), ("ALLOCATED", "b")]
    assert told[-1] == ("ENDS", "False")
    a, b, c = ended
    assert (a.start_time, a.stop_time, b.start_time, c.start_time) == pytest.approx((1, 11, 11, 11), abs=1e-5)
    assert (b.waiting_time, b.runtime, b.slowdown) == pytest.approx((9, 10, 1.9), abs=1e-5)
    assert (a.per_processor_slowdown, b.per_processor_slowdown) == pytest.approx((1, 1.9), abs=1e-5)
    assert c.state == JobState.COMPLETED_SUCCESSFULLY
    assert handler.result is not None
    assert handler.result.hosts is not None
    direct = ExactBatsim(BatsimOptions(platform=files[0], workloads=(files[1],), energy=True))
    assert handler.result.outputs.jobs == direct.run(FirstComeFirstServed()).outputs.jobs


def test_the_agenda_says_when_hosts_are_free(files: tuple[Path, Path]) -> None:
    with SimulatorHandler() as handler:
        handler.start(*files)
        assert [reservation.release_time for reservation in handler.agenda] == [0, 0]
        handler.proceed_time(1)
        handler.allocate("w0!a", [0, 1])
        handler.proceed_time(2.5)
        assert handler.current_time == pytest.approx(3.5)
        assert [job.name for job in handler.queue] == ["b", "c"]
        assert [r.release_time for r in handler.agenda] == pytest.approx([57.5, 57.5])
        handler.kill_job("w0!a")
        handler.proceed_time()
        assert handler.current_time == pytest.approx(3.5)
        handler.allocate("w0!b", [1])
        assert [(r.host.id, r.release_time) for r in handler.agenda] == [(0, 0), (1, math.inf)]
        assert [job.id for job in handler.jobs] == ["w0!b", "w0!c"]


def test_hosts_that_sleep_are_woken_for_jobs(files: tuple[Path, Path]) -> None:
    """Off in 2 s; job b gets the host at 2.5 s, which is on 4 s later; after a quarter of a second it slows down."""
    states: list[tuple[float, int, HostState]] = []
    with SimulatorHandler() as handler:
        handler.subscribe(
            HostEvent.STATE_CHANGED, lambda host: states.append((handler.current_time, host.id, host.state))
        )
        handler.start(*files)
        handler.switch_off([0])
        assert handler.platform.get_host(0).power == 120
        handler.proceed_time(2.5)
        assert handler.platform.get_host(0).power == 9
        handler.reject_job("w0!a")
        handler.allocate("w0!b", [0])
        assert handler.platform.get_host(0).is_switching_on
        handler.proceed_time(4.25)
        handler.switch_power_state(0, 1)
        handler.reject_job("w0!c")
        while handler.is_running:
            handler.proceed_time()
    expected = [
        (0, HostState.SWITCHING_OFF),
        (2, HostState.SLEEPING),
        (2.5, HostState.SWITCHING_ON),
        (6.5, HostState.IDLE),
        (6.5, HostState.COMPUTING),
        # a quarter of a second at full speed, the rest at half of it
        (6.75 + 2 * 9.75, HostState.IDLE),
    ]
    assert [(pytest.approx(date, abs=1e-4), state) for date, state in expected] == [(d, s) for d, _, s in states]


def test_calls_at_dates_and_an_end(files: tuple[Path, Path]) -> None:
    dates: list[float] = []
    with SimulatorHandler() as handler:
        handler.start(*files, simulation_time=7)
        for date in (4, 0.5, 4):
            handler.set_callback(date, dates.append)
        while handler.is_running:
            handler.proceed_time()
        assert dates == pytest.approx([0.5, 4, 4])
        assert handler.current_time == pytest.approx(7)
        with pytest.raises(SimulationError, match="no simulation is running"):
            handler.proceed_time()
        handler.start(*files)
        with pytest.raises(SimulationError, match="close it first"):
            handler.start(*files)
        handler.proceed_time(5)
        with pytest.raises(SimulationError, match="deadlock"):
            handler.proceed_time()


@pytest.mark.parametrize(
    ("decide", "problem"),
    [
        (lambda handler: handler.allocate("w0!x", [0, 1]), "no job 'w0!x'; did you mean"),
        (lambda handler: handler.allocate("w0!a", [0]), "asks for 2 hosts, not 1"),
        (lambda handler: handler.allocate("w0!a", [0, 7]), "no host 7; ids are 0 to 1"),
        (lambda handler: [handler.allocate("w0!a", [0, 1]), handler.allocate("w0!b", [1])], "to job 'w0!a'"),
        (lambda handler: [handler.reject_job("w0!a"), handler.reject_job("w0!a")], "no job 'w0!a'"),
        (lambda handler: handler.kill_job("w0!a"), "is SUBMITTED, expected one that runs"),
        (lambda handler: handler.switch_on([0]), "is idle, expected one that sleeps"),
        (lambda handler: [handler.switch_off([0]), handler.switch_off([0])], "is switching_off, expected an idle"),
        (lambda handler: handler.switch_power_state(0, 2), "no P-state 2"),
        (lambda handler: handler.set_callback(1, print), "expected a later date"),
        (lambda handler: handler.proceed_time(-1), "cannot proceed"),
    ],
)
def test_what_cannot_be_decided(files: tuple[Path, Path], decide: Any, problem: str) -> None:
    with SimulatorHandler() as handler:
        handler.start(*files)
        handler.proceed_time(2)
        with pytest.raises(DecisionError, match=problem):
            decide(handler)
        free: list[Host] = [host for host in handler.platform.hosts if not host.is_allocated]
        assert len(free) in (0, 2)


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    page = (Path(__file__).parents[4] / "docs" / "batsim.md").read_text(encoding="utf-8")
    (workload,) = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("workload.json").write_text(workload)
    write_simgrid(read_platform("homogeneous:4"), Path("platform.xml"))
    codes = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(codes) == 2
    for code in codes:
        exec(code, {})
    makespan, wait, *_ = capsys.readouterr().out.split()
    assert f"This prints {makespan} " in page
    assert float(wait) == 27.5
    assert Path("out_jobs.csv").is_file()

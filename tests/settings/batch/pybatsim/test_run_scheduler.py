"""PyBatsim's schedulers, as they are, in this process."""

import itertools
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import hdrl.batsim.pybatsim.require as requirements
from hdrl.base.errors import (
    BatsimError,
    DecisionError,
    HdrlError,
    MissingExtra,
    ReadError,
    SimulationError,
    UnknownName,
)
from hdrl.batsim.pybatsim import HostedScheduler, MissingPyBatsim, run_scheduler, scheduler_names
from hdrl.launcher.main import cli
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.simulation import BatchTrace, JobState, write_batsim_files
from hdrl.settings.batch.workload import read_batsim_json

from .conftest import N_HOSTS, World

pytest.importorskip("batsim", reason="PyBatsim is not installed")

RECORDED = Path(__file__).parents[5] / "shared" / "batsim-runs"
DETERMINISTIC = ("easyBackfill", "schedFcfs", "schedEasySjfBackfill")
ENDED = {JobState.COMPLETED_SUCCESSFULLY, JobState.COMPLETED_WALLTIME_REACHED}


def check_sane(trace: BatchTrace) -> None:
    """Check that every job ran once, after it was submitted, on cores of its own."""
    jobs, records = trace.workload.jobs, trace.records
    assert {JobState(state) for state in records["state"]} <= ENDED
    assert np.all(records["start_s"] >= jobs["submit_s"] - 1e-6)
    assert records["n_cores"].tolist() == jobs["cores"].tolist()
    ends_s = records["start_s"] + records["run_s"]
    for one, other in itertools.combinations(range(trace.workload.n_jobs), 2):
        overlap_s = min(ends_s[one], ends_s[other]) - max(records["start_s"][one], records["start_s"][other])
        if overlap_s > 1e-6:
            assert not set(trace.cores_of(one).tolist()) & set(trace.cores_of(other).tolist())


def jobs_file(trace: BatchTrace, folder: Path) -> bytes:
    folder.mkdir()
    write_batsim_files(trace, folder)
    return (folder / "out_jobs.csv").read_bytes()


@pytest.mark.parametrize("name", [*DETERMINISTIC, "fillerSched", "schedFiller"])
def test_schedulers_run_unmodified(world: World, name: str):
    trace = run_scheduler(name, world.platform, world.workload)
    check_sane(trace)
    assert trace.info["policy"] == f"pybatsim {name}"
    assert 0 < trace.info["scheduling_time_s"] <= trace.info["simulation_time_s"]


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_both_simulators_give_the_same_schedule(world: World, tmp_path: Path, name: str):
    embedded = run_scheduler(name, world.platform, world.workload, energy=False)
    exact = run_scheduler(
        name, world.platform, world.workload, simulator="exact", energy=False, platform_file=world.platform_file
    )
    assert exact.info["simulator"] == "exact"
    assert jobs_file(embedded, tmp_path / "embedded") == jobs_file(exact, tmp_path / "exact")


def test_schedulers_differ(world: World):
    """Otherwise the comparison of simulators would compare little."""
    starts = {name: run_scheduler(name, world.platform, world.workload).records["start_s"] for name in DETERMINISTIC}
    assert starts["schedFcfs"].sum() > starts["easyBackfill"].sum()
    assert len({tuple(start.tolist()) for start in starts.values()}) == 3


def test_easy_backfilling_on_a_recorded_workload(tmp_path: Path):
    """200 jobs on 32 hosts: a schedule that repeats, is the same on both simulators, and about as good as batsched's.

    batsched's EASY chooses otherwise among free hosts, so that single jobs may differ.
    """
    folder = RECORDED / "bf_200"
    if not folder.is_dir():
        pytest.skip(f"no recorded runs in {RECORDED}")
    platform, workload = read_platform(folder / "platform.xml"), read_batsim_json(folder / "workload.json")
    first = run_scheduler("easyBackfill", platform, workload, energy=False)
    again = run_scheduler("easyBackfill", platform, workload, energy=False)
    exact = run_scheduler(
        "easyBackfill",
        platform,
        workload,
        simulator="exact",
        energy=False,
        platform_file=folder / "platform.xml",
    )
    check_sane(first)
    files = [jobs_file(trace, tmp_path / str(k)) for k, trace in enumerate((first, again, exact))]
    assert files[0] == files[1] == files[2]
    lines = (folder / "out_jobs.csv").read_text().splitlines()
    waits_s = np.array([float(line.split(",")[11]) for line in lines[1:]])
    mean_wait_s = float((first.records["start_s"] - workload.jobs["submit_s"]).mean())
    assert 0.5 * waits_s.mean() < mean_wait_s < 2 * waits_s.mean()


def test_a_heterogeneous_platform(tmp_path: Path):
    """Cores change their P-states on both simulators, and the scheduler neither knows nor cares."""
    platform = read_platform("learning")
    described = [{"id": k, "subtime": 1 + k, "res": 1 + k % 3, "walltime": 40, "profile": "p"} for k in range(8)]
    profiles = {"p": {"type": "parallel_homogeneous", "cpu": 4e10, "com": 0, "mem": 10, "mem_bw": 30}}
    (tmp_path / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": described, "profiles": profiles}))
    workload = read_batsim_json(tmp_path / "w.json")
    embedded = run_scheduler("easyBackfill", platform, workload)
    exact = run_scheduler("easyBackfill", platform, workload, simulator="exact")
    check_sane(embedded)
    assert embedded.n_grouped_switches == exact.n_grouped_switches > 0
    assert np.allclose(embedded.records["start_s"], exact.records["start_s"], rtol=0, atol=5e-7)
    assert np.allclose(embedded.records["run_s"], exact.records["run_s"], rtol=0, atol=5e-7)


def scheduler_file(folder: Path, text: str) -> Path:
    path = folder / "mine.py"
    path.write_text(f"from batsim.batsim import BatsimScheduler\n\n\nclass Mine(BatsimScheduler):\n{text}")
    return path


EVERYTHING = """
    def onSimulationBegins(self):
        self.asked = self.told = False
        self.bs.wake_me_up_at(50)
    def onJobSubmission(self, job):
        from procset import ProcSet
        if job.id.endswith("!1"):
            self.bs.reject_jobs([job])
            return
        self.free = getattr(self, "free", ProcSet((0, self.bs.nb_compute_resources - 1)))
        if len(self.free) < job.requested_resources:
            self.bs.reject_jobs([job])
            return
        job.allocation = ProcSet(*list(self.free)[: job.requested_resources])
        self.free -= job.allocation
        self.bs.execute_jobs([job])
        self.bs.set_job_metadata(job.id, f"asks for {job.requested_resources}")
    def onJobCompletion(self, job):
        self.free |= job.allocation
    def onRequestedCall(self):
        self.bs.request_consumed_energy()
        running = [job for job in self.bs.jobs.values() if job.allocation and job.finish_time is None]
        self.bs.kill_jobs(running)
        self.n_killed = len(running)
    def onReportEnergyConsumed(self, consumed_energy):
        assert consumed_energy > 0
        self.asked = True
    def onJobsKilled(self, jobs):
        assert len(jobs) == self.n_killed > 0
        assert all(0 < job.progress["progress"] < 1 for job in jobs)
        self.told = True
    def onSimulationEnds(self):
        assert self.asked and self.told and self.options == {"x": [1]}
        print("all has been told")
"""


@pytest.mark.parametrize("simulator", ["embedded", "exact"])
def test_all_that_a_scheduler_can_ask_for(
    world: World, tmp_path: Path, simulator: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
):
    path = scheduler_file(tmp_path, EVERYTHING)
    with caplog.at_level(logging.DEBUG, logger="hdrl.batsim.pybatsim.host"):
        trace = run_scheduler(
            path,
            world.platform,
            world.workload,
            simulator=simulator,
            options={"x": [1]},
            platform_file=world.platform_file,
        )
    states = trace.records["state"].tolist()
    assert states[1] == JobState.REJECTED
    assert states.count(JobState.COMPLETED_KILLED) >= 1
    assert trace.metadata[0] == "asks for 1"
    assert "mine: all has been told" in caplog.messages
    assert capsys.readouterr() == ("", "")  # what a scheduler prints is logged


def test_nothing_is_left_behind(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No files in the current folder, no handlers of loggers, no limits, no paths; PyBatsim is as it was."""
    import batsim.batsim
    import batsim.network

    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    known = [logger for logger in logging.Logger.manager.loggerDict.values() if isinstance(logger, logging.Logger)]
    before = (list(sys.path), sys.getrecursionlimit(), sum(len(logger.handlers) for logger in known))
    run_scheduler("schedFcfs", world.platform, world.workload)
    known = [logger for logger in logging.Logger.manager.loggerDict.values() if isinstance(logger, logging.Logger)]
    assert (list(sys.path), sys.getrecursionlimit(), sum(len(logger.handlers) for logger in known)) == before
    assert list(Path.cwd().iterdir()) == []
    assert batsim.batsim.NetworkHandler is batsim.network.NetworkHandler


def test_two_schedulers_do_not_disturb_each_other(world: World):
    """Message by message in turn, both decide as they do alone."""
    from hdrl.batsim.embedded_server import EmbeddedServer

    alone = run_scheduler("easyBackfill", world.platform, world.workload).records
    with HostedScheduler("easyBackfill") as one, HostedScheduler("easyBackfill") as other:

        class Both:
            def exchange(self, message: str) -> str:
                reply = one.exchange(message)
                assert other.exchange(message) == reply
                return reply

        both = EmbeddedServer(world.platform, world.workload).run(Both()).records
    assert np.array_equal(alone, both)


def test_names():
    names = scheduler_names()
    assert {*DETERMINISTIC, "fillerSched"} <= set(names)
    with pytest.raises(UnknownName, match="no scheduler of PyBatsim 'easyBackfil'; did you mean 'easyBackfill'"):
        HostedScheduler("easyBackfil")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("    pass", r"'mine' failed: NotImplementedError: no message \(.*batsim.py:\d+\)"),
        ("    def onSimulationBegins(self):\n        1 / 0", r"ZeroDivisionError: division by zero \(.*mine.py:6\)"),
        ("    def __init__(self, options):\n        super().__init__(option)", r"NameError: .* \(.*mine.py:6\)"),
        ("    def onSimulationBegins(self):\n        raise SystemExit('enough')", "failed: it exits with enough"),
        ("    def onJobSubmission(self, job):\n        self.bs.wake_me_up_at(0)", "asks for a call at 0.000000"),
    ],
)
def test_failures_are_told_in_one_line(world: World, tmp_path: Path, text: str, problem: str):
    with pytest.raises(BatsimError, match=problem) as caught:
        run_scheduler(scheduler_file(tmp_path, text), world.platform, world.workload)
    assert "\n" not in str(caught.value)


def test_other_mistakes(world: World, tmp_path: Path):
    with pytest.raises(ReadError, match="no such file, expected a scheduler"):
        run_scheduler(tmp_path / "nowhere.py", world.platform, world.workload)
    (tmp_path / "model.pt").write_bytes(b"PK")
    with pytest.raises(ReadError, match=r"model.pt: is not a Python file, expected a scheduler for PyBatsim"):
        run_scheduler(tmp_path / "model.pt", world.platform, world.workload)
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(BatsimError, match=r"'empty' failed: Module .* contains no scheduler named Empty"):
        run_scheduler(tmp_path / "empty.py", world.platform, world.workload)
    with pytest.raises(UnknownName, match="no simulator 'exakt'; did you mean 'exact'"):
        run_scheduler("easyBackfill", world.platform, world.workload, simulator="exakt")
    idle = scheduler_file(tmp_path, "    def onJobSubmission(self, job):\n        pass")
    with pytest.raises(SimulationError, match="jobs are waiting"):
        run_scheduler(idle, world.platform, world.workload)
    with pytest.raises(DecisionError, match="is not free"):
        run_scheduler("randomSched", world.platform, world.workload)


def test_a_job_larger_than_the_machine_is_rejected_by_the_scheduler(world: World, tmp_path: Path):
    document = json.loads(world.workload_file.read_text())
    document["jobs"][3]["res"] = N_HOSTS + 1
    world.workload_file.write_text(json.dumps(document))
    trace = run_scheduler("easyBackfill", world.platform, world.workload)
    assert trace.records["state"].tolist().count(JobState.REJECTED) == 1


def test_without_pybatsim(monkeypatch: pytest.MonkeyPatch, world: World):
    for name in ("batsim", "batsim.batsim", "batsim.tools", "batsim.tools.launcher"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPyBatsim) as caught:
        run_scheduler("easyBackfill", world.platform, world.workload)
    assert isinstance(caught.value, MissingExtra)
    assert str(caught.value) == (
        "this needs PyBatsim 3.2.1: pip install 'hdrl[pybatsim]' && pip install --no-deps pybatsim==3.2.1"
    )
    assert requirements.INSTALL in str(caught.value)


def test_the_modules_can_be_imported_without_pybatsim():
    code = (
        "import sys; sys.modules['batsim'] = None; import hdrl.batsim.pybatsim, hdrl.launcher.pybatsim; "
        "print('docopt' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


@pytest.fixture
def options_file(world: World) -> Path:
    path = world.platform_file.with_name("options.json")
    options: dict[str, Any] = {
        "platform_file_path": "platform.xml",
        "workload_file_path": "workload.json",
        "pybatsim": {"agent": {"policy_pair": "first-high_gflops"}},
    }
    path.write_text(json.dumps(options))
    return path


@pytest.mark.parametrize("simulator", ["embedded", "exact"])
def test_the_command(options_file: Path, tmp_path: Path, simulator: str):
    args = ["pybatsim", "easyBackfill", str(options_file), "--simulator", simulator, "--out", str(tmp_path / "results")]
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 0, result.output
    assert "n_finished 30" in result.output
    names = {path.name for path in (tmp_path / "results").iterdir()}
    assert {"out_jobs.csv", "out_schedule.csv", "metrics.json", "options.resolved.json"} <= names
    again = CliRunner().invoke(cli, args)
    assert again.exit_code == 2
    assert "results" in again.output


@pytest.mark.parametrize("simulator", ["embedded", "exact"])
def test_quiet_prints_the_folder_only(options_file: Path, tmp_path: Path, simulator: str):
    out = tmp_path / "results"
    args = ["easyBackfill", str(options_file), "--simulator", simulator, "--out", str(out), "--quiet"]
    result = CliRunner().invoke(cli, ["pybatsim", *args])
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{out}\n", "")


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["easyBackfil"], "did you mean 'easyBackfill'"),
        (["easyBackfill", "-o", "["], "--options is not JSON"),
        (["easyBackfill", "-o", "[]"], "expected an object"),
        (["easyBackfill", "--simulator", "batsim"], "no simulator 'batsim'"),
    ],
)
def test_mistakes_on_the_command_line(options_file: Path, tmp_path: Path, args: list[str], problem: str):
    out = tmp_path / "results"
    result = CliRunner().invoke(cli, ["pybatsim", *args, str(options_file), "--out", str(out)])
    assert result.exit_code == 2
    assert problem in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not out.exists()


def test_all_errors_are_of_one_family():
    assert issubclass(MissingPyBatsim, HdrlError)

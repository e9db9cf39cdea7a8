"""hdrl's decision system as a scheduler of PyBatsim: in this process, and as two processes on a socket."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("batsim", reason="PyBatsim is not installed")

from hdrl.base.errors import BatsimError, OptionsError
from hdrl.batsim.pybatsim import run_scheduler
from hdrl.batsim.pybatsim.scheduler import Scheduler, SchedulerSettings
from hdrl.settings.batch.platform import Platform, read_platform, write_simgrid
from hdrl.settings.batch.policies import simulate
from hdrl.settings.batch.simulation import JobState, write_batsim_files
from hdrl.settings.batch.workload import Workload, read_batsim_json

from .conftest import World

ROOT = Path(__file__).parents[4]
PLACE = ROOT / "hdrl" / "batsim" / "pybatsim" / "scheduler.py"
PYBATSIM = [sys.executable, "-c", "from batsim.cmds.launcher import main; raise SystemExit(main())"]
BATSIM = [sys.executable, "-c", "from hdrl.launcher.batsim import main; main(prog_name='hdrl-batsim')"]


def free_endpoint() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def run_both(
    folder: Path, options: dict[str, Any], scheduler: str = str(PLACE), *more: str
) -> tuple[int, str, "subprocess.CompletedProcess[str]"]:
    """Run pybatsim and hdrl-batsim on the files of a folder; return how pybatsim ended, what it said, and Batsim's end.

    ZeroMQ connects whenever the other side is there, so nobody waits for anybody.
    """
    endpoint = free_endpoint()
    command = [*PYBATSIM, scheduler, "-v", "warning", "-t", "0", "-s", endpoint, "-o", json.dumps(options)]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pybatsim:
        try:
            arguments = ["-p", "platform.xml", "-w", "workload.json", "-E", "-s", endpoint, "--timeout", "30", *more]
            batsim = subprocess.run([*BATSIM, *arguments], cwd=folder, capture_output=True, text=True, timeout=60)
            said = pybatsim.communicate(timeout=30)[0]
        finally:
            pybatsim.kill()
    return pybatsim.returncode, said, batsim


def check_same_files(folder: Path, platform: Platform, workload: Workload, policy: Any, seed: int = 0) -> None:
    """Compare Batsim's files with those of the embedded run; the last digit of sums of energy may differ."""
    (folder / "embedded").mkdir()
    write_batsim_files(simulate(platform, workload, policy, seed=seed), folder / "embedded")
    for name in ("machine_states", "pstate_changes"):
        assert (folder / f"out_{name}.csv").read_text() == (folder / "embedded" / f"out_{name}.csv").read_text()
    found, expected = (
        [line.split(",") for line in (place / "out_jobs.csv").read_text().splitlines()]
        for place in (folder, folder / "embedded")
    )
    assert [row[:15] + row[16:] for row in found] == [row[:15] + row[16:] for row in expected]
    energies_j = [[float(row[15]) for row in rows[1:]] for rows in (found, expected)]
    assert energies_j[0] == pytest.approx(energies_j[1], rel=1e-12)


def test_two_processes_decide_as_one(world: World):
    """``pybatsim`` and ``hdrl-batsim`` on a socket give what the embedded simulator gives, random draws included."""
    folder = world.platform_file.parent
    code, said, batsim = run_both(folder, {"platform": "platform.xml", "policy": "first-random", "seed": 5})
    assert batsim.returncode == 0, batsim.stderr
    assert code == 0, said
    assert "scheduled: 30" in said
    check_same_files(folder, world.platform, world.workload, "first-random", seed=5)


def test_two_processes_on_a_heterogeneous_platform(tmp_path: Path):
    """The scheduler changes P-states through PyBatsim as cores of one processor compete for its memory."""
    platform = read_platform("learning")
    write_simgrid(platform, tmp_path / "platform.xml")
    jobs = [{"id": k, "subtime": 1 + k, "res": 1 + k % 3, "walltime": 100 * (k + 1), "profile": "p"} for k in range(10)]
    profiles = {"p": {"type": "parallel_homogeneous", "cpu": 4e10, "com": 0, "mem": 10, "mem_bw": 30}}
    (tmp_path / "workload.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
    code, said, batsim = run_both(tmp_path, {"platform": "platform.xml", "policy": "smallest-low_power"})
    assert batsim.returncode == 0, batsim.stderr
    assert code == 0, said
    check_same_files(tmp_path, platform, read_batsim_json(tmp_path / "workload.json"), "smallest-low_power")
    assert len((tmp_path / "out_pstate_changes.csv").read_text().splitlines()) > 20


def test_a_scheduler_of_pybatsim_in_a_process_of_its_own(world: World, tmp_path: Path):
    """With ``hdrl-batsim`` in Batsim's place it does what it does when hosted here."""
    code, said, batsim = run_both(tmp_path, {}, "easyBackfill")
    assert (code, batsim.returncode) == (0, 0), said + batsim.stderr
    hosted = run_scheduler("easyBackfill", world.platform, world.workload)
    (tmp_path / "hosted").mkdir()
    write_batsim_files(hosted, tmp_path / "hosted")
    texts = [(folder / "out_machine_states.csv").read_text() for folder in (tmp_path, tmp_path / "hosted")]
    assert texts[0] == texts[1]


HOST = """<host id="{0}" speed="100Mf,50Mf,25Mf,1f,0.5f,0.05f">
 <prop id="wattage_per_state" value="30:30:100,20:20:80,15:15:60,9.75:9.75:9.75,120:120:120,100:100:100"/>
 <prop id="wattage_off" value="10"/><prop id="sleep_pstates" value="3:4:5"/></host>
"""
LINK = '<link id="link" bandwidth="125MBps" latency="0" sharing_policy="FATPIPE"/>'
ROUTES = "".join(
    f'<route src="{one}" dst="{other}"><link_ctn id="link"/></route>\n'
    for one, other in (("master_host", "h0"), ("master_host", "h1"), ("h0", "h1"))
)
SLEEPERS = f"""<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="main" routing="Full">
<host id="master_host" speed="1Gf"><prop id="wattage_per_state" value="0:0"/></host>
{HOST.format("h0")}{HOST.format("h1")}{LINK}
{ROUTES}</zone></platform>
"""
PROFILES = {
    "wait": {"type": "delay", "delay": 20},
    "ask": {"type": "send", "msg": {"type": "accept"}},
    "hear": {"type": "recv", "regex": "accepted", "success": "wait", "failure": "ask", "timeout": "ask"},
    "talk": {"type": "composed", "repeat": 1, "seq": ["ask", "hear"]},
}
# The scheduler compares the P-state, which Batsim tells as text, with numbers.
SLEEPER = """
from schedulers.fcfsSchedSleep import FcfsSchedSleep

class Sleeper(FcfsSchedSleep):
    def onMachinePStateChanged(self, machines, new_pstate):
        super().onMachinePStateChanged(machines, int(new_pstate))
"""


@pytest.mark.parametrize(
    ("scheduler", "profile", "more"),
    [("randomSched", "wait", ["--enable-compute-sharing"]), ("schedSendRecv", "talk", []), ("sleeper.py", "wait", [])],
)
def test_pybatsims_schedulers_that_need_more_of_batsim(tmp_path: Path, scheduler: str, profile: str, more: list[str]):
    """Machines that are shared, messages to jobs, machines that sleep."""
    jobs = [{"id": k, "subtime": 5 + 10 * k, "res": 1 + k % 2, "walltime": 300, "profile": profile} for k in range(6)]
    if profile == "talk":
        jobs = [job | {"res": 1} for job in jobs]
    (tmp_path / "platform.xml").write_text(SLEEPERS)
    (tmp_path / "workload.json").write_text(json.dumps({"nb_res": 2, "jobs": jobs, "profiles": PROFILES}))
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    code, said, batsim = run_both(tmp_path, {}, scheduler, *more)
    assert (code, batsim.returncode) == (0, 0), said + batsim.stderr
    rows = (tmp_path / "out_jobs.csv").read_text().splitlines()[1:]
    assert len(rows) == 6
    assert all("COMPLETED_SUCCESSFULLY" in row for row in rows)
    slept = {row.rpartition(",")[2] for row in (tmp_path / "out_pstate_changes.csv").read_text().splitlines()[1:]}
    assert ("3" in slept) == (scheduler == "sleeper.py")


def test_a_mistake_ends_both_processes(world: World):
    """pybatsim says what is wrong in one line and goes; hdrl-batsim notices instead of waiting for ever."""
    folder = world.platform_file.parent
    (folder / "other.xml").write_text(world.platform_file.read_text().replace('"h7"', '"i7"'))
    code, said, batsim = run_both(folder, {"platform": "other.xml"})
    assert code == 1
    lines = [line for line in said.splitlines() if not line.startswith("Scheduler: ")]
    assert len(lines) == 1
    assert re.match(r"hdrl: .*SIMULATION_BEGINS: machine 7 is 'h7', expected 7 'i7'", lines[0])
    assert batsim.returncode == 2
    assert "closed the connection" in batsim.stderr


POLICY = """
from hdrl.batch import Annotate, AskEnergy, CallAt, Kill, News, Reject, Start

def policy(view):
    if view.now_s == 0:
        yield CallAt(40.0)
    if (News.REQUESTED_CALL, 0) in view.news:
        yield AskEnergy()
        yield Kill([int(view.running[0])])
    free = view.free_cores.tolist()
    for job in view.waiting.tolist():
        asked = int(view.workload.jobs[job]["cores"])
        if asked > 6:
            yield Reject(job)
        elif asked <= len(free):
            yield Start(job, [free.pop(0) for _ in range(asked)])
            yield Annotate(job, f"at {view.now_s}")
"""


@pytest.mark.parametrize("policy", ["fcfs+easy", "sjf+conservative-low_power", "priority.py+easy", "es-generalist"])
def test_backfilling_reaches_pybatsim(world: World, policy: str):
    folder = world.platform_file.parent
    (folder / "priority.py").write_text("def priority(job, now_s):\n    return -job.cores\n")
    name = str(folder / policy) if ".py" in policy else policy
    options = {"platform": str(world.platform_file), "workload": str(world.workload_file), "policy": name}
    hosted = run_scheduler(PLACE, world.platform, world.workload, options=options)
    alone = simulate(world.platform, world.workload, name)
    assert np.array_equal(hosted.records, alone.records)
    plain = simulate(world.platform, world.workload, "first-high_gflops")
    assert not np.array_equal(hosted.records["start_s"], plain.records["start_s"])


def test_weights_of_a_model_decide_through_pybatsim(world: World, generalist_model: Path):
    options = {"platform": str(world.platform_file), "workload": str(world.workload_file)}
    hosted, expected = (
        run_scheduler(PLACE, world.platform, world.workload, options=options | {"policy": name})
        for name in (str(generalist_model), "es-generalist")
    )
    assert np.array_equal(hosted.records, expected.records)
    with pytest.raises(BatsimError, match=r"nowhere\.pt: no such file"):
        run_scheduler(PLACE, world.platform, world.workload, options=options | {"policy": "nowhere.pt"})


@pytest.mark.parametrize("policy", ["shortest-high_gflops", "first-random", "mine.py"])
def test_it_decides_as_hdrl_does(world: World, policy: str):
    """All kinds of requests go through PyBatsim and come out the same."""
    folder = world.platform_file.parent
    (folder / "mine.py").write_text(POLICY)
    name: Any = str(folder / policy) if policy.endswith(".py") else policy
    options = {"platform": str(world.platform_file), "workload": str(world.workload_file), "policy": name, "seed": 3}
    hosted = run_scheduler(PLACE, world.platform, world.workload, options=options)
    if policy.endswith(".py"):
        namespace: dict[str, Any] = {}
        exec(POLICY, namespace)
        name = namespace["policy"]
    alone = simulate(world.platform, world.workload, name, seed=3)
    assert np.array_equal(hosted.records, alone.records)
    assert hosted.metadata == alone.metadata
    assert (JobState.COMPLETED_KILLED in alone.records["state"]) == policy.endswith(".py")


def test_the_file_is_where_it_is_said_to_be():
    done = subprocess.run([sys.executable, "-m", "hdrl.batsim.pybatsim"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(done.stdout.strip()).samefile(PLACE)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "have no 'platform'"),
        ({"platform": "gaia", "polcy": "x"}, "no key 'polcy'; did you mean 'policy'"),
        ({"platform": 3}, "'platform' is 3, expected str"),
        ({"platform": "gaia", "seed": True}, "'seed' is True, expected int"),
        ({"platform": "gaia", "compatibility": 1}, "'compatibility' is 1, expected str or NoneType"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], problem: str):
    with pytest.raises(OptionsError, match=problem):
        SchedulerSettings.read(options)


KEYS = st.sampled_from([*SchedulerSettings.__dataclass_fields__, "Platform", "", "policy_pair"])
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers(), max_size=2)


@settings(max_examples=100)
@given(options=st.dictionaries(KEYS, VALUES, max_size=4))
def test_options_are_taken_as_they_are_or_refused(options: dict[str, Any]):
    problem = ""
    try:
        read = SchedulerSettings.read(options)
    except OptionsError as error:
        problem = str(error)
    assert "\n" not in problem
    assert problem or {key: getattr(read, key) for key in options} == options


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"platform": "gaia", "policy": "shortest-hicor"}, "shortest-hicor"),
        ({"platform": "gaia", "policy": "nowhere.py"}, "nowhere.py: no such file"),
        ({"platform": "nowhere.xml"}, "nowhere.xml"),
        ({"platform": "{folder}/platform.xml", "workload": "nowhere.json"}, "nowhere.json: no such file"),
        ({"platform": "{folder}/platform.xml", "policy": "{folder}/empty.py"}, "defines no policy"),
    ],
)
def test_mistakes_are_told_in_one_line(world: World, options: dict[str, str], problem: str):
    folder = world.platform_file.parent
    (folder / "empty.py").write_text("")
    options = {"workload": str(world.workload_file)} | options
    options = {key: value.format(folder=folder) for key, value in options.items()}
    with pytest.raises(BatsimError, match=f"'scheduler' failed: it exits with hdrl: .*{problem}") as caught:
        run_scheduler(PLACE, world.platform, world.workload, options=options)
    assert "\n" not in str(caught.value)


def test_silence_is_explained():
    with pytest.raises(SystemExit, match="-t 0 waits forever"):
        Scheduler({"platform": "gaia"}).onDeadlock()

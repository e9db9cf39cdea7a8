"""A Batsim that dies, hangs, talks nonsense or never comes: one line within its time, and nothing left running."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from hdrl.base import guard
from hdrl.base.errors import BatsimError, HdrlError, OutputError
from hdrl.base.process import Process
from hdrl.batsim.process import find_executable, version_of
from hdrl.batsim.real import BatsimSimulator
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.simulators import BatsimSettings
from hdrl.testing import JobSpec, small_workload
from hdrl.testing.worlds import World

from .stand_ins import batsim_command, children, command, saying

PATIENT_S = 20.0
"""For what is told at once, however busy the machine."""

ENDS = '{"now": 1, "events": [{"timestamp": 1, "type": "SIMULATION_ENDS", "data": {}}]}'


@pytest.fixture
def world() -> World:
    """Return one job on the platform ``learning``."""
    return World(read_platform("learning"), small_workload(JobSpec(0.0, 2)))


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    before = children()
    yield
    assert children() == before


def begins(world: World) -> str:
    machines = [{"id": k, "name": name} for k, name in enumerate(world.platform.core_names)]
    data = {"compute_resources": machines, "config": {}, "workloads": {"w0": "/w.json"}}
    return json.dumps({"now": 0.0, "events": [{"timestamp": 0.0, "type": "SIMULATION_BEGINS", "data": data}]})


def run(world: World, folder: Path, executable: str, *, timeout_s: float) -> BatsimSimulator:
    folder = folder / "run"
    folder.mkdir()
    settings = BatsimSettings(executable=executable, timeout_s=timeout_s)
    with BatsimSimulator(*_parts(world), folder=folder, settings=settings) as simulator:
        simulator.run_pair(codes.JOB_FIRST, codes.CORE_HIGH_GFLOPS)
    return simulator


def _parts(world: World) -> tuple:  # type: ignore[type-arg]
    return world.platform, world.workload


def fails(world: World, folder: Path, executable: str, *, timeout_s: float = PATIENT_S) -> str:
    began_s = time.monotonic()
    with pytest.raises(HdrlError) as caught:
        run(world, folder, executable, timeout_s=timeout_s)
    assert time.monotonic() - began_s < timeout_s + 6.0
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("code", "problems"),
    [
        ("print('one'); print('no host'); sys.exit(3)", ["batsim ended with code 3 before SIM", "one | no host"]),
        ("sys.exit(0)", ["batsim ended with code 0 before SIMULATION_ENDS", "its log is empty"]),
        ("import os\nos.abort()", ["batsim was ended by SIGABRT before SIMULATION_ENDS"]),
        ("import time\ntime.sleep(60)", ["Batsim has not connected within 1 s"]),
        ("import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(60)", ["has not connected within 1 s"]),
        (saying(), ["Batsim has sent nothing within 2 s"]),
        (saying("garbage"), ["is not JSON"]),
        (saying('{"now": 0, "events": []}'), ["without events"]),
        (saying("BEGINS"), ["Batsim has sent nothing within 2 s"]),
        (saying("BEGINS", then="print('lost', flush=True); os.kill(os.getpid(), 9)"), ["SIGKILL", "ends: lost"]),
        (saying("BEGINS", then="socket.recv(); socket.close(); time.sleep(60)"), ["closed the connection before SIM"]),
        (saying("BEGINS", then="socket.recv(); socket.close(); time.sleep(1); sys.exit(3)"), ["code 3 before SIM"]),
        (saying("BEGINS", ENDS), ["1 jobs have not ended, for instance 'w0!0'"]),
        (saying("BEGINS", "BEGINS"), ["SIMULATION_BEGINS again"]),
        (saying() + "socket.send_multipart([b'a', b'b'])\ntime.sleep(60)", ["has sent nothing within 2 s"]),
        (saying(then="socket.send_multipart([b'a', b'b']); time.sleep(60)"), ["has 2 parts, expected one"]),
        (saying(then="socket.send(b'\\xff'); time.sleep(60)"), ["is not UTF-8 text"]),
    ],
)  # fmt: skip
def test_a_batsim_that_misbehaves(world: World, tmp_path: Path, code: str, problems: list[str]) -> None:
    code = code.replace("b'BEGINS'", repr(begins(world).encode()))
    timeout_s = next((float(problem.split()[-2]) for problem in problems if "within" in problem), PATIENT_S)
    told = fails(world, tmp_path, command(tmp_path, code), timeout_s=timeout_s)
    for problem in problems:
        assert problem in told


@pytest.mark.parametrize("version", ["5.0.0-rc1", "v3.0.0", "v2.9.1"])
def test_another_version(world: World, tmp_path: Path, version: str) -> None:
    told = fails(world, tmp_path, command(tmp_path, "", version=version))
    known = "Batsim 3.1 to 4.2, and of Batsim 5 with batsim.protocol 5"
    assert told == f"batsim is version {version!r}; hdrl speaks the protocol of {known}"


@pytest.mark.parametrize("version", ["v3.1.0", "v4.2.1", "4.1.0-12-gabcdef", "unknown"])
def test_versions_that_are_let_pass(tmp_path: Path, version: str) -> None:
    assert version_of(command(tmp_path, "", version=version)) == version


def test_no_version(tmp_path: Path) -> None:
    path = tmp_path / "batsim"
    path.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    path.chmod(0o755)
    with pytest.raises(BatsimError, match=r"batsim --version has not answered within 0\.3 s"):
        version_of(str(path), timeout_s=0.3)
    path.write_text(f"#!{sys.executable}\nprint('broken')\nraise SystemExit(4)\n")
    with pytest.raises(BatsimError, match="ended with code 4 when asked for its version; its log ends: broken"):
        version_of(str(path))
    path.write_text("#!/nonexistent/interpreter\n")
    with pytest.raises(BatsimError, match=r"when asked for its version; its log ends: .*cannot be started"):
        version_of(str(path))


def test_no_batsim() -> None:
    with pytest.raises(
        BatsimError, match=r"no executable 'batsimm' on PATH: install Batsim .*'exact' simulates the same"
    ):
        find_executable("batsimm")
    with pytest.raises(BatsimError, match=r"no executable '/none/batsim': install"):
        find_executable("/none/batsim")


def test_a_taken_port(world: World, tmp_path: Path) -> None:
    context = zmq.Context()
    socket = context.socket(zmq.REP)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    settings = BatsimSettings(executable=batsim_command(tmp_path), endpoint=f"tcp://127.0.0.1:{port}")
    simulator = BatsimSimulator(*_parts(world), settings=settings)
    with simulator, pytest.raises(BatsimError, match=r"cannot listen on .*Address already in use"):
        simulator.reset()
    socket.close()
    context.term()


def test_several_side_by_side(world: World, tmp_path: Path) -> None:
    executable = batsim_command(tmp_path)
    ends: list[float] = []

    def simulate(k: int) -> None:
        folder = tmp_path / str(k)
        folder.mkdir()
        ends.append(run(world, folder, executable, timeout_s=30.0).trace.end_s)

    threads = [threading.Thread(target=simulate, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ends) == 3
    assert len(set(ends)) == 1


def test_interruption_ends_batsim(world: World, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    executable = command(tmp_path, saying(begins(world)))
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.7)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(world, tmp_path, executable, timeout_s=30.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_batsim_ends_with_a_starter_that_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    child = command(tmp_path, f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
    code = (
        "import sys, time; from pathlib import Path; from hdrl.base.process import Process; "
        f"p = Process([{child!r}], folder=Path({str(tmp_path)!r}), log=Path({str(tmp_path / 'log')!r})); time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code])
    _wait_until(lambda: note.exists() and note.read_text())
    starter.kill()
    starter.wait()
    batsim = int(note.read_text())
    _wait_until(lambda: not _runs(batsim))


def _wait_until(condition) -> None:  # type: ignore[no-untyped-def]
    deadline_s = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("first", ["", "trap '' TERM; "], ids=["asked", "deaf"])
def test_what_batsim_has_started_ends_too(tmp_path: Path, first: str) -> None:
    note = tmp_path / "pid"
    path = tmp_path / "wrapper"
    path.write_text(f"#!/bin/sh\n({first}exec sleep 60) &\necho $! > {note}\nwait\n")
    path.chmod(0o755)
    with Process([str(path)], folder=tmp_path, log=tmp_path / "log"):
        _wait_until(lambda: note.exists() and note.read_text().strip())
    # A signal that was sent is not yet a signal that was taken: on a busy machine the last of it takes its time.
    _wait_until(lambda: not _runs(int(note.read_text())))


class Elsewhere:
    """A Batsim that somebody else runs: it waits for its files, and connects."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder = folder
        self._arguments = arguments

    def __enter__(self) -> None:
        code = (
            "import sys, time; from pathlib import Path; folder = Path(sys.argv[1])\n"
            "while not (folder / 'workload.json').exists(): time.sleep(0.02)\n"
            "from hdrl.launcher.batsim import main\n"
            "main(['-p', str(folder / 'platform.xml'), '-w', str(folder / 'workload.json'), '-e', str(folder / 'out'),"
            " '-q', *sys.argv[2:]])"
        )
        self._process = subprocess.Popen([sys.executable, "-c", code, str(self._folder), *self._arguments])

    def __exit__(self, *_: object) -> None:
        self._process.wait(10)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_batsim_that_connects(world: World, tmp_path: Path) -> None:
    shared, folder = tmp_path / "shared", tmp_path / "run"
    shared.mkdir()
    folder.mkdir()
    endpoint = f"tcp://127.0.0.1:{_free_port()}"
    settings = BatsimSettings(wait_for="connect", folder=shared, endpoint=endpoint, timeout_s=20.0)
    with (
        Elsewhere(shared, "-E", "-s", endpoint),
        BatsimSimulator(*_parts(world), folder=folder, settings=settings) as one,
    ):
        one.run_pair(codes.JOB_FIRST, codes.CORE_HIGH_GFLOPS)
    assert one.trace.records["run_s"] > 0
    assert (folder / "out_jobs.csv").read_bytes() == (shared / "out_jobs.csv").read_bytes()
    again = BatsimSimulator(*_parts(world), folder=folder, settings=settings)
    with again, pytest.raises(OutputError, match=r"out_consumed_energy\.csv: is there already"):
        again.reset()


def test_a_batsim_that_never_connects(world: World, tmp_path: Path) -> None:
    settings = BatsimSettings(wait_for="connect", folder=tmp_path, timeout_s=0.3)
    simulator = BatsimSimulator(*_parts(world), settings=settings)
    with simulator, pytest.raises(BatsimError, match=r"0\.0\.1:\d+: Batsim has not connected within 0\.3 s"):
        simulator.reset()
    with pytest.raises(BatsimError, match="which needs it"):
        BatsimSimulator(*_parts(world), settings=BatsimSettings(wait_for="connect"))


def test_strangers_at_the_port_do_not_matter(world: World, tmp_path: Path) -> None:
    import socket

    shared = tmp_path / "shared"
    shared.mkdir()
    port = _free_port()
    settings = BatsimSettings(wait_for="connect", folder=shared, endpoint=f"tcp://127.0.0.1:{port}", timeout_s=20.0)
    simulator = BatsimSimulator(*_parts(world), settings=settings)

    def knock() -> None:
        _wait_until(lambda: (shared / "workload.json").exists())
        socket.create_connection(("127.0.0.1", port)).close()

    knocker = threading.Thread(target=knock)
    knocker.start()
    with simulator, Elsewhere(shared, "-E", "-s", f"tcp://127.0.0.1:{port}"):
        simulator.run_pair(codes.JOB_FIRST, codes.CORE_HIGH_GFLOPS)
    knocker.join()
    assert simulator.n_done == 1


def test_incomplete_files(world: World, tmp_path: Path) -> None:
    """A Batsim that says it is done, but has not written what it should have."""
    breaking = (
        "from hdrl.launcher.batsim import main\nfrom pathlib import Path\n"
        "try:\n    main()\nexcept SystemExit:\n    path = Path('out_jobs.csv')\n"
        "    path.write_text(path.read_text().replace('w0', 'w7'))\n"
    )
    assert "no job 'w7!0'; did you mean 'w0!0'?" in fails(world, tmp_path, command(tmp_path, breaking))


def test_the_guard_is_by_itself() -> None:
    """It must start without hdrl, for it is run isolated."""
    command = [sys.executable, "-I", "-S", guard.__file__, "/bin/sh", "-c", "kill -TERM $$"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as process:
        assert process.wait(10) == 128 + signal.SIGTERM

"""``hdrl-batsim`` in place of ``batsim``: a scheduler at the other end of a socket, files, and clear errors."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq
from click.testing import CliRunner, Result

from hdrl.launcher.batsim import main

from .conversations import WORLDS, FirstComeFirstServed

LATENCIES = WORLDS / "latencies"
INPUTS = ["-p", str(LATENCIES / "platform.xml"), "-w", str(LATENCIES / "workload.json")]


def _free_endpoint() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


@contextlib.contextmanager
def _serving(serve: Callable[["zmq.Socket[bytes]"], None]) -> Iterator[str]:
    """Run a scheduler in a thread; yield its endpoint."""
    context = zmq.Context()
    replier = context.socket(zmq.REP)
    replier.setsockopt(zmq.LINGER, 0)
    replier.setsockopt(zmq.RCVTIMEO, 10_000)
    endpoint = f"tcp://127.0.0.1:{replier.bind_to_random_port('tcp://127.0.0.1')}"

    def run() -> None:
        with contextlib.suppress(zmq.ZMQError):
            serve(replier)
        replier.close()

    thread = threading.Thread(target=run)
    thread.start()
    yield endpoint
    thread.join(timeout=10)
    assert not thread.is_alive()
    context.term()


def _run(endpoint: str, folder: Path, *more: str) -> Result:
    return CliRunner().invoke(main, [*INPUTS, "-s", endpoint, "-e", str(folder / "out"), *more])


def _answers(*replies: str) -> Callable[["zmq.Socket[bytes]"], None]:
    def serve(replier: "zmq.Socket[bytes]") -> None:
        for reply in replies:
            replier.recv()
            replier.send(reply.encode("latin-1"))

    return serve


def _first_come_first_served(replier: "zmq.Socket[bytes]") -> None:
    scheduler = FirstComeFirstServed()
    message = ""
    while "SIMULATION_ENDS" not in message:
        message = replier.recv().decode()
        replier.send(scheduler.exchange(message).encode())


def test_a_whole_simulation(tmp_path: Path) -> None:
    with _serving(_first_come_first_served) as endpoint:
        result = _run(endpoint, tmp_path, "--timeout", "10")
    assert result.exit_code == 0, result.output
    assert "jobs=1, finished=1, success=1" in result.stderr
    for name in ("jobs", "machine_states"):
        assert (tmp_path / f"out_{name}.csv").read_text() == (LATENCIES / f"out_{name}.csv").read_text()
    written = {"out_jobs.csv", "out_machine_states.csv", "out_schedule.csv", "out_schedule.trace"}
    assert {path.name for path in tmp_path.iterdir()} == written


def test_no_trace_of_the_schedule_if_it_is_not_wanted(tmp_path: Path) -> None:
    with _serving(_first_come_first_served) as endpoint:
        result = _run(endpoint, tmp_path, "--timeout", "10", "--disable-schedule-tracing")
    assert result.exit_code == 0, result.output
    assert not (tmp_path / "out_schedule.trace").exists()


def test_quiet_and_without_machine_states(tmp_path: Path) -> None:
    with _serving(_first_come_first_served) as endpoint:
        result = _run(endpoint, tmp_path, "-q", "--disable-machine-state-tracing", "--disable-schedule-tracing")
    assert result.exit_code == 0
    assert result.output == ""
    assert {path.name for path in tmp_path.iterdir()} == {"out_jobs.csv", "out_schedule.csv"}


def _fails(result: Result, code: int, problem: str) -> None:
    assert result.exit_code == code, result.output
    assert problem in result.stderr
    assert result.stderr.startswith("hdrl-batsim: error: ")
    assert result.stderr.count("\n") == 1


def test_starts_without_the_compiled_kernel() -> None:
    code = (
        "import sys, hdrl.launcher.batsim, hdrl.batsim.connection\n"
        "import hdrl.batsim.exact.simulation\n"
        "print([name for name in ('asyncio', 'numba', 'polars', 'pydantic', 'scipy', 'zmq') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_nobody_is_there(tmp_path: Path) -> None:
    _fails(_run(_free_endpoint(), tmp_path, "--timeout", "0.1"), 2, "no scheduler is there within 0.1 s")


def test_no_answer(tmp_path: Path) -> None:
    done = threading.Event()

    def serve(replier: "zmq.Socket[bytes]") -> None:
        replier.recv()
        done.wait(10)

    with _serving(serve) as endpoint:
        result = _run(endpoint, tmp_path, "--timeout", "0.3")
        done.set()
    _fails(result, 2, "the scheduler gave no answer within 0.3 s")


def test_a_scheduler_that_goes_away(tmp_path: Path) -> None:
    def serve(replier: "zmq.Socket[bytes]") -> None:
        replier.recv()

    with _serving(serve) as endpoint:
        result = _run(endpoint, tmp_path)
    _fails(result, 2, "closed the connection while an answer was due")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("garbage", "is not JSON"),
        ("\xff", "is not UTF-8 text"),
        ('{"now": 0, "events": [{"timestamp": 0, "type": "EXECUTE", "data": {}}]}', "did you mean 'EXECUTE_JOB'"),
    ],
)
def test_garbage(tmp_path: Path, reply: str, problem: str) -> None:
    with _serving(_answers(reply)) as endpoint:
        result = _run(endpoint, tmp_path)
    _fails(result, 2, problem)
    assert list(tmp_path.iterdir()) == []


def test_a_deadlock_is_told_after_the_files_are_written(tmp_path: Path) -> None:
    nothing = json.dumps({"now": 0, "events": []})
    with _serving(_answers(nothing, nothing, nothing)) as endpoint:
        result = _run(endpoint, tmp_path)
    _fails(result, 1, "1 jobs never ended (w0!1)")
    assert (tmp_path / "out_schedule.csv").exists()


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["-W", "flow.xml"], "hdrl-batsim does not simulate -W/--workflow (workflows)"),
        (["--WS", "flow.xml", "3"], "hdrl-batsim does not simulate --WS/--workflow-start (workflows)"),
        (["--enable-redis"], "hdrl-batsim does not simulate --enable-redis"),
        (["--no-sched"], "--no-sched"),
        (["--sg-cfg", "host/model:ptask_L07"], "hdrl-batsim does not simulate --sg-cfg (options of SimGrid)"),
        (["-r", "a"], "expected HOST1,HOST2:ROLE"),
        (["-r", "a:storrage"], "did you mean 'storage'"),
        (["-r", "nobody:storage"], "no host 'nobody'"),
        (["-m", "nobody"], "no host 'nobody'"),
        (["-s", "nonsense"], "is not a socket endpoint"),
        (["-e", "nowhere/at/all/out"], "no folder 'nowhere/at/all'"),
        (["-w", "nowhere.json"], "nowhere.json: no such file"),
        (["--events", "nowhere.txt"], "nowhere.txt: no such file"),
        (["--sched-cfg-file", "nowhere.txt"], "nowhere.txt: no such file"),
        (["--sched-cfg", "a", "--sched-cfg-file", "b"], "exclude each other"),
        (["-E", "-p", str(WORLDS / "README.md")], "is not XML: not well-formed"),
    ],
)
def test_options_that_make_no_sense(args: list[str], problem: str) -> None:
    _fails(CliRunner().invoke(main, [*INPUTS, *args]), 2, problem)


@pytest.mark.parametrize(
    ("args", "problem"),
    [([], "Missing option '-p'"), (["--energ"], "No such option"), (["-p", "x", "-v", "loud"], "'loud' is not one of")],
)
def test_usage(args: list[str], problem: str) -> None:
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 2
    assert problem in result.stderr


@pytest.mark.parametrize(
    ("args", "text"), [(["--version"], "v4.2.1\n"), (["--simgrid-version"], "3.34.0\n"), (["-h"], "Usage: hdrl-batsim")]
)
def test_information(args: list[str], text: str) -> None:
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0
    assert result.output.startswith(text)


def test_the_execution_context() -> None:
    result = CliRunner().invoke(main, [*INPUTS, "--dump-execution-context", "-e", "here"])
    context = json.loads(result.output)
    assert context["socket_endpoint"] == "tcp://localhost:28000"
    assert context["export_prefix"] == "here"


def test_what_the_scheduler_is_told_of_the_options(tmp_path: Path) -> None:
    config = tmp_path / "config.txt"
    config.write_text("some text")
    told = []

    def serve(replier: "zmq.Socket[bytes]") -> None:
        told.append(json.loads(replier.recv())["events"][0]["data"])
        replier.send(b"enough")

    flags = [
        "--enable-dynamic-jobs",
        "--acknowledge-dynamic-jobs",
        "--enable-profile-reuse",
        "--forward-unknown-events",
    ]
    flags += ["--forward-profiles-on-submission", "--enable-compute-sharing", "--disable-storage-sharing"]
    with _serving(serve) as endpoint:
        _run(endpoint, tmp_path, *flags, "--sched-cfg-file", str(config), "-r", "b:storage")
    assert told[0]["config"].pop("sched-config") == "some text"
    expected = {key: True for key in told[0]["config"] if not key.startswith("redis")}
    assert {key: value for key, value in told[0]["config"].items() if not key.startswith("redis")} == expected
    assert (told[0]["allow_compute_sharing"], told[0]["allow_storage_sharing"]) == (True, False)
    assert [machine["name"] for machine in told[0]["storage_resources"]] == ["b"]
    assert told[0]["storage_resources"][0]["properties"]["role"] == "storage"

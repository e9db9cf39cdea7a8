"""The process in which a stranger's file runs: what it can reach, and that nothing of it stays."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("scipy", reason="needs scipy (the extra report)")

from hdrl.bench.cell import known_sockets, run_cell
from hdrl.launcher.main import cli
from tests.bench.processes import running

TASK = "batch-gaia"
POLICY = "\ndef priorities(jobs, now_s):\n    return jobs['requested_time_s']\n"

REFUSING = """
echo 0 > /proc/sys/user/max_user_namespaces && ! unshare -U true || exit 77
exec "$@"
"""
"""What a shell does in a space of its own so that the system refuses any other."""

ASKING = """
import json, sys
from hdrl.bench.cell import run_cell
print(json.dumps(run_cell(json.loads(sys.argv[1]), seconds=int(sys.argv[2]))))
"""

PredictorAdapter = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "mine.py").write_text(POLICY)
    arguments = ["run", f"{folder / 'mine.py'}+easy", "--tasks", TASK, "-o", str(folder / "result"), "-j", "1"]
    done = CliRunner().invoke(cli, ["bench", *arguments])
    assert done.exit_code == 0, done.output
    return folder / "result"


@pytest.fixture
def asked(made: Path, tmp_path: Path) -> PredictorAdapter:
    folder = Path(shutil.copytree(made, tmp_path / "result"))

    def ask(body: str, *, seconds: int = 60) -> dict[str, Any]:
        (folder / "entry" / "mine.py").write_text(body + POLICY)
        return run_cell({"folder": str(folder), "task": TASK, "windows": [0]}, seconds=seconds)

    return ask


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import ctypes; ctypes.CDLL(None)._exit(3)", "ended with code 3 "),
        ("import ctypes; ctypes.CDLL(None)._exit(201)", "ended with code 201 "),
        ("import ctypes; print('last words', flush=True); ctypes.string_at(0)", "was ended by SIGSEGV (its log ends: "),
        ("import ctypes; print('last words', flush=True); ctypes.string_at(0)", "last words); it may take 60 s"),
        ("raise ValueError('no')", "mine.py:1: ValueError: no"),
    ],
)
def test_how_a_process_has_ended_is_said(asked: PredictorAdapter, body: str, said: str) -> None:
    answer = asked(body)
    assert said in answer["problem"]
    assert answer["rows"] == []


def test_what_a_policy_prints_is_no_answer(asked: PredictorAdapter) -> None:
    answer = asked("import atexit, sys; print('{}'); print('[]', file=sys.stderr); atexit.register(print, 'late')")
    assert answer["problem"] == ""
    assert len(answer["rows"]) == 2


def of_daemon(seconds: str) -> str:
    return f"import subprocess, time; subprocess.Popen(['sleep', '{seconds}'], start_new_session=True)\ntime.sleep(60)"


def test_what_leaves_the_session_does_not_outlive_the_time(asked: PredictorAdapter) -> None:
    seconds = f"97{os.getpid()}"
    began_s = time.monotonic()
    assert asked(of_daemon(seconds), seconds=3)["problem"] == "it took longer than 6 s"
    assert time.monotonic() - began_s < 30
    assert not running("sleep", seconds)


def test_nor_does_it_where_the_system_gives_no_spaces_of_names(made: Path, tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    folder, mark = Path(shutil.copytree(made, tmp_path / "result")), f"96{os.getpid()}"
    request = json.dumps({"folder": str(folder), "task": TASK, "windows": [0]})

    def ask(body: str, seconds: int) -> dict[str, Any]:
        (folder / "entry" / "mine.py").write_text(body + POLICY)
        words = ["unshare", "-Ur", "sh", "-c", REFUSING, "sh", sys.executable, "-c", ASKING, request, str(seconds)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        if not done.stdout and done.returncode in (1, 77):
            pytest.skip(f"needs spaces of users ({done.stderr.strip()})")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    assert ask(of_daemon(mark), 3)["problem"] == "it took longer than 6 s"
    assert not running("sleep", mark)
    answer = ask("", 60)
    assert (answer["problem"], len(answer["rows"])) == ("", 2)


REACHING = """
import os, socket
for address in {addresses!r}:
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(address)
    except OSError:
        continue
    raise ValueError(f"reached {{address}}")
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
if int(status["CapEff"], 16) or int(status["CapPrm"], 16):
    raise ValueError(f"can do {{status['CapEff']}}")
others = [name for name in os.listdir("/proc") if name.isdecimal() and int(name) > 100]
if others:
    raise ValueError(f"sees {{others}}")
"""


def test_sockets_and_other_processes_are_out_of_sight(asked: PredictorAdapter, tmp_path: Path) -> None:
    path, abstract = str(tmp_path / "a socket"), f"\0hdrl-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        for server, address in zip(servers, (path, abstract), strict=True):
            server.bind(address)
            server.listen()
            server.settimeout(0.1)
        assert path in known_sockets()
        answer = asked(REACHING.format(addresses=[path, abstract]))
        if answer["sockets"]:
            pytest.skip("needs a system that lets a process enter a space of mounts")
        assert answer["problem"] == ""
        assert (answer["network"], answer["sockets"]) == (False, False)
        for server in servers:
            with pytest.raises(TimeoutError):
                server.accept()
        with socket.socket(socket.AF_UNIX) as client:  # it is hidden from that process alone
            client.connect(path)


FORKING = """
import os, signal
from hdrl.bench.cell import bound_processes, confine
has_spaces = confine(60)
if (child := os.fork()) == 0:
    if bound_processes(has_spaces=has_spaces):
        os._exit(77)
    for _ in range(1000):
        try:
            if os.fork() == 0:
                signal.pause()
        except BlockingIOError:
            os._exit(0)
    os._exit(1)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_policy_that_forks_without_end_is_stopped() -> None:
    """Root, who has no bound, plays somebody else."""
    is_root = os.getuid() == 0
    if is_root and shutil.which("setpriv") is None:
        pytest.skip("needs another user than root, or setpriv")
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if is_root else []
    done = subprocess.run([*other, sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60)
    if done.returncode == 77:
        pytest.skip("needs Linux 5.14, and spaces of users")
    assert done.returncode == 0, done.stderr

"""The page of something that still runs, for browsers of this machine alone."""

import http.client
import json
import math
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from hdrl.base.errors import ReadError
from hdrl.experiment.compare.points import PointResult
from hdrl.experiment.compare.pointstore import PointStore, Scope
from hdrl.experiment.locks import FolderLock, is_held, lock
from hdrl.experiment.run.inputs import SWEEP_FILE
from hdrl.launcher.main import cli
from hdrl.launcher.stopping import Terminated
from hdrl.launcher.watch import MOST_CONNECTIONS, PageServer, server_of
from hdrl.report.live import is_finished, live_page
from hdrl.setting import SETTINGS

pytest.importorskip("jinja2", reason="reports need jinja2")
pytest.importorskip("matplotlib", reason="pictures need matplotlib")


@pytest.fixture
def training(tmp_path: Path) -> Path:
    folder = tmp_path / "learning"
    folder.mkdir()
    (folder / "options.resolved.json").write_text('{"learning": {"iterations": 40}, "runs": 1}')
    (folder / "training.csv").write_text("iteration,n_steps,loss,probability.void\n1,16,0.5,0.1\n2,32,0.25,0.2\n")
    return folder


@pytest.fixture
def comparison(tmp_path: Path) -> Path:
    folder = tmp_path / "compared"
    folder.mkdir()
    (folder / "sweep.json").write_text('{"metrics": ["mean_wait_s"]}')
    return folder


@contextmanager
def served(folder: Path) -> Iterator[PageServer]:
    with server_of(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server: PageServer, path: str | None = None, host: str | None = None) -> tuple[int, bool, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    connection.request("GET", server.path if path is None else path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    status, page = answer.status, answer.read().decode()
    connection.close()
    return status, "setTimeout(() => location.reload(), 5000)" in page, page


def test_a_training_is_shown_while_it_runs(training: Path):
    with served(training) as server:
        status, refresh, page = ask(server)
        assert (status, refresh) == (200, True)
        assert "2 of 40 iterations are done." in page
        assert ">2</" in page  # a count has no decimals
        assert "Loss" in page
        assert "probability.void" not in page
        with (training / "training.csv").open("a") as file:
            file.write("3,48,0.125,0.3\n4,6")  # the last row is being written
        assert "3 of 40 iterations are done." in ask(server)[2]


def test_a_page_comes_back_when_its_folder_does(training: Path):
    with served(training) as server:
        training.rename(training.parent / "away")
        status, refresh, page = ask(server)
        assert (status, refresh) == (503, True)
        assert "learning: no such folder" in page
        (training.parent / "away").rename(training)
        assert ask(server)[0] == 200


def test_several_runs_are_finished_when_none_is_made_any_more(tmp_path: Path):
    (tmp_path / ".run_0.abc").mkdir()
    assert not is_finished(tmp_path)
    (tmp_path / ".run_0.abc").rename(tmp_path / "run_0")
    assert not is_finished(tmp_path), "the next one may begin in a moment"
    os.utime(tmp_path / "run_0", (0, 0))
    assert is_finished(tmp_path)
    (tmp_path / ".run_1.abc").mkdir()
    assert not is_finished(tmp_path)


def test_others_get_nothing(training: Path):
    with served(training) as server:
        assert ask(server, "/training.csv")[0] == 404
        port = server.server_address[1]
        assert ask(server, host=f"evil.example:{port}")[0] == 404
        assert ask(server, host=f"localhost:{port}")[0] == 200


def test_only_the_whole_address_shows_the_page(training: Path):
    with served(training) as server, served(training) as other:
        for path in ("/", server.path[:-1], f"{server.path}../", f"{server.path}x", other.path, "/é"):
            assert ask(server, quote(path))[0] == 404, path
        assert len(server.path) > 20
        assert server.path != other.path
        assert server.address == f"http://127.0.0.1:{server.server_address[1]}{server.path}"


def test_idle_connections_are_few_and_end(training: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hdrl.launcher.watch.REQUEST_S", 0.1)
    before = threading.active_count()
    with served(training) as server:
        idle = []
        for _ in range(100):
            idle.append(socket.create_connection(server.server_address))
            time.sleep(0.005)  # the system lets connections wait for seconds where many come at once
        for number, one in enumerate(idle):
            if number % 2:
                with suppress(OSError):
                    one.send(b"GET / HTTP/1.1\r\nX: ")
        wait_until(lambda: ask_or_none(server) == 200)
        assert threading.active_count() <= before + 1 + MOST_CONNECTIONS
        for one in idle:
            one.settimeout(5)
            with suppress(ConnectionError):
                while one.recv(1000):
                    pass
            one.close()


def test_a_request_that_trickles_in_is_ended(training: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hdrl.launcher.watch.REQUEST_S", 0.5)
    with served(training) as server, socket.create_connection(server.server_address) as one:

        def trickles() -> bool:
            try:
                one.send(b"G")
            except OSError:
                return False
            return True

        wait_until(lambda: not trickles())


def test_a_reader_that_leaves_is_no_traceback(training: Path, capfd: pytest.CaptureFixture[str]):
    with served(training) as server:
        for _ in range(5):
            with socket.create_connection(server.server_address) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.send(f"GET {server.path} HTTP/1.1\r\nHost: localhost:1\r\n\r\n".encode())
        assert ask(server)[0] == 200
    assert capfd.readouterr().err == ""


def ask_or_none(server: PageServer) -> int | None:
    try:
        return ask(server)[0]
    except (OSError, http.client.HTTPException):
        return None


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(100):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("waited in vain")


def test_a_comparison_is_shown_without_a_verdict(comparison: Path):
    assert "0 simulations are done." in live_page(comparison)
    metrics = SETTINGS["batch"].measures.metrics
    numbers = [0.8, *(7.5 if name == "mean_wait_s" else None for name in metrics)]
    lines = [
        {"identity": {}},
        *({"point": f"{case}/fcfs+easy/0", "numbers": numbers, "problem": ""} for case in (0, 1)),
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (comparison / "points.jsonl").write_text(text + '{"point": "2/fcfs')
    page = live_page(comparison)
    assert "2 simulations are done." in page
    assert "fcfs+easy" in page
    assert "7.50" in page


SCOPE = Scope(n_cases=2, n_points=6, may_grow=False)


@contextmanager
def working(folder: Path, scope: Scope) -> Iterator[PointStore]:
    """Work on a comparison as its process does; a new one begins in an empty folder."""
    sweep = (folder / SWEEP_FILE).read_bytes()
    (folder / SWEEP_FILE).unlink()
    with closing(PointStore(folder, {}, SETTINGS["batch"].measures.metrics, scope)) as store:
        (folder / SWEEP_FILE).write_bytes(sweep)
        yield store


def result(value: float, problem: str = "") -> PointResult:
    return PointResult(dict.fromkeys(SETTINGS["batch"].measures.metrics, value), 0.5, problem)


def test_a_comparison_says_how_much_is_left_and_what_has_failed(comparison: Path):
    with working(comparison, SCOPE) as store:
        store.add({"0/fcfs+easy/0": result(7.5), "0/my.py/0": result(math.nan, "my.py: no such job")})
        page = live_page(comparison)
    assert "2 of 6 simulations are done." in page
    assert "my.py failed in 1 of 1 simulations; the first: my.py: no such job" in page
    assert "The page refreshes itself." in page
    page = live_page(comparison)
    assert "No process works on it any more: it was stopped." in page
    assert f"hdrl compare --resume --out {comparison}" in page


def test_windows_that_choose_the_baseline_are_apart(comparison: Path):
    with working(comparison, replace(SCOPE, may_grow=True)) as store:
        store.add({"0/fcfs+easy/0": result(7.5), "2/fcfs+easy/0": result(1.0), "3/sjf+easy/0": result(2.0)})
        page = live_page(comparison)
    assert "3 of at least 6 simulations are done." in page
    judging, _, choosing = page.partition("Simulations on other windows, to choose the baseline")
    assert "7.50" in judging
    assert "sjf+easy" not in judging
    assert "sjf+easy" in choosing


def test_of_several_protocols_the_last_one_is_shown(comparison: Path):
    whole = comparison.parent / "held"
    (whole / "windows").mkdir(parents=True)
    (whole / "windows" / "summary.json").touch()
    comparison.rename(whole / "padded")
    with working(whole / "padded", SCOPE):
        page = live_page(whole)
        assert not is_finished(whole)
    assert "Progress of the comparison in held/padded" in page
    assert "it was stopped. To go on: the same command" in live_page(whole)
    (whole / "held_out.json").touch()
    assert is_finished(whole)
    with pytest.raises(ReadError, match=r"windows.summary\.json"):  # the report of the first one
        live_page(whole)


def test_of_several_conditions_the_last_one_is_shown(comparison: Path):
    whole = comparison.parent / "varied"
    (whole / "as_given").mkdir(parents=True)
    (whole / "as_given" / SWEEP_FILE).write_text("{}")
    os.utime(whole / "as_given" / SWEEP_FILE, (0, 0))
    (whole / "as_given" / "summary.json").touch()
    comparison.rename(whole / "a_seed=1")
    with working(whole / "a_seed=1", SCOPE):
        page = live_page(whole)
        assert not is_finished(whole)
    assert "Progress of the comparison in varied/a_seed=1" in page
    (whole / "robust.json").touch()
    assert is_finished(whole)
    with pytest.raises(ReadError, match=r"as_given.summary\.json"):
        live_page(whole)


def test_a_training_that_was_stopped_is_told(training: Path):
    lock = FolderLock(training)
    lock.take()
    assert "The page refreshes itself." in live_page(training)
    lock.release()
    assert f"it was stopped. To go on: hdrl-launch --resume {training}" in live_page(training)
    (training / "options.resolved.json").write_text('{"learning": {"iterations": 2}, "runs": 1}')
    assert "it was stopped" not in live_page(training), "what comes after the last iteration is on its way"


def test_looking_at_a_lock_keeps_nobody_from_it(training: Path):
    fcntl = pytest.importorskip("fcntl", reason="there are no such locks here")
    assert is_held(training) is False
    assert is_held(training / "nosuch") is None
    with (training / "training.csv").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        with (training / "training.csv").open() as file:
            threading.Timer(0.05, looking.close).start()
            assert lock(file.fileno())
            assert is_held(training / "training.csv") is True
            with (training / "training.csv").open() as other:
                assert not lock(other.fileno())


def test_ctrl_c_ends_it_and_is_no_error(training: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(_: PageServer) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    for stop, code in ((interrupt, 0), (Mock(side_effect=Terminated(signal.SIGTERM)), 143)):
        monkeypatch.setattr(PageServer, "serve_forever", stop)
        done = CliRunner().invoke(cli, ["watch", str(training)], prog_name="hdrl")
        assert done.exit_code == code, stop
        assert ("error" in done.stderr) == (code != 0)


def test_what_is_nothing_is_one_line(tmp_path: Path):
    with pytest.raises(ReadError, match="is not the folder of a run, a training or a comparison"):
        live_page(tmp_path)
    (tmp_path / "file").touch()
    for name, says in (("nosuch", "no such folder; a run creates it after"), ("file", "is a file, expected")):
        done = CliRunner().invoke(cli, ["watch", str(tmp_path / name)], prog_name="hdrl")
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
        assert says in done.stderr

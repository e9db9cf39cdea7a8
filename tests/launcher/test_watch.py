"""The page of something that still runs, for browsers of this machine alone."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from hdrl.errors import ReadError
from hdrl.launcher.main import cli
from hdrl.launcher.watch import server_of
from hdrl.report.live import live_page

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
def served(folder: Path) -> Iterator[int]:
    with server_of(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def ask(port: int, path: str = "/", host: str | None = None) -> tuple[int, str | None, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    found = answer.status, answer.getheader("Refresh"), answer.read().decode()
    connection.close()
    return found


def test_a_training_is_shown_while_it_runs(training: Path):
    with served(training) as port:
        status, refresh, page = ask(port)
        assert (status, refresh) == (200, "5")
        assert "2 of 40 iterations are done." in page
        assert ">2</" in page  # a count has no decimals
        assert "Loss" in page
        assert "probability.void" not in page
        with (training / "training.csv").open("a") as file:
            file.write("3,48,0.125,0.3\n4,6")  # the last row is being written
        assert "3 of 40 iterations are done." in ask(port)[2]


def test_others_get_nothing(training: Path):
    with served(training) as port:
        assert ask(port, "/training.csv")[0] == 404
        assert ask(port, host=f"evil.example:{port}")[0] == 404
        assert ask(port, host=f"localhost:{port}")[0] == 200


def test_a_comparison_is_shown_without_a_verdict(comparison: Path):
    from hdrl.setting import SETTINGS

    assert "0 simulations are done." in live_page(comparison)
    metrics = SETTINGS["batch"].metrics
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


def test_what_is_nothing_is_one_line(tmp_path: Path):
    with pytest.raises(ReadError, match="is no run, training or comparison"):
        live_page(tmp_path)
    done = CliRunner().invoke(cli, ["watch", str(tmp_path / "nosuch")], prog_name="hdrl")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)

"""The main job as people start it: a process of its own, the real simulator."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hdrl.launcher.launch import _number

ROOT = Path(__file__).parents[2]


@pytest.fixture
def launch() -> list[str]:
    """Return the start of the command line."""
    return [sys.executable, "-c", "from hdrl.launcher.launch import launch; launch(prog_name='hdrl-launch')"]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "timing.json"}


def test_processes_give_equal_bytes(launch: list[str], tmp_path: Path):
    """Neither the hashes of strings nor the current folder nor the form of a path get into the results."""
    options = ROOT / "examples" / "demo.json"
    (tmp_path / "elsewhere").mkdir()
    changes = ["--set", "nb_jobs=300", "--set", "pybatsim.agent.policy_pair=random-random"]
    for name, folder, spelling in (("a", ROOT, "examples/demo.json"), ("b", tmp_path / "elsewhere", str(options))):
        subprocess.run(
            [*launch, spelling, *changes, "--quiet", "--out", str(tmp_path / name)],
            cwd=folder,
            env=os.environ | {"PYTHONHASHSEED": str(ord(name))},
            check=True,
            capture_output=True,
            timeout=300,
        )
    assert len(contents(tmp_path / "a")) == 10
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated"), (signal.SIGHUP, "terminated")]
)
def test_a_signal_leaves_finished_runs_only(launch: list[str], tmp_path: Path, number: signal.Signals, word: str):
    process = subprocess.Popen(
        [*launch, "examples/demo.json", "--set", "nb_jobs=300", "-nr", "2000", "--out", str(tmp_path / "out")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: (tmp_path / "out" / "run_1").is_dir() or process.poll() is not None)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + number, err
    assert out == ""
    assert err.splitlines()[-1] == f"hdrl-launch: error: {word}"
    assert "Traceback" not in err
    finished = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert finished[:2] == ["run_0", "run_1"]
    assert finished == sorted(f"run_{index}" for index in range(len(finished))), "nothing half-written"
    assert all(len(contents(tmp_path / "out" / name)) == 10 for name in finished)


def wait_until(happened) -> None:
    deadline = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10000.0, "10,000"),
        (0.0, "0"),
        (float("nan"), "-"),
        (12.3456, "12.346"),
        (1234567.5, "1,234,567.500"),
        (6.905394996492581e18, "6.90539e+18"),
        (3e-7, "3e-07"),
        (-2.5, "-2.500"),
    ],
)
def test_numbers_are_for_people(value: float, text: str):
    assert _number(value) == text

"""Whatever a user's policy does instead of deciding, a command says it in a line with the place, and fails."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli

EXIT = os._exit

MISTAKES = {
    "return None": "mine.py:1: policy(view) returned None, expected a list of decisions",
    "return 5": "mine.py:1: policy(view) returned 5, expected a list of decisions",
    "return [None]": "mine.py: ",
    "import sys; sys.exit(0)": "mine.py:2: SystemExit: 0",
    "import os; os._exit(0)": "mine.py:2: SystemExit: os._exit(0)",
    "exec('raise ValueError(1)')": "mine.py:2: ValueError: 1",
    "raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})": "mine.py:2: Mute: its error message cannot be",
    "raise BaseException('bare')": "mine.py:2: BaseException: bare",
    "raise GeneratorExit": "mine.py:2: GeneratorExit: no message",
    "raise StopIteration": "mine.py:2: StopIteration: no message",
    "raise ValueError('a\\nb' * 5000)": "mine.py:2: ValueError: a ba ba b",
    "yield 1 / 0": "mine.py:2: ZeroDivisionError",
    "from hdrl.batch import CallAt; return [CallAt('x')]": "mine.py: a call at 'x': expected a date in seconds",
    "from hdrl.batch import CallAt; return [CallAt(10**400)]": "mine.py: ",
}


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.py"
    path.write_text(f"def policy(view):\n    {text}\n")
    return path


def told(result: Result, name: str, path: Path) -> str:
    """Return the one line that a command has ended with, without the folder of the file."""
    assert result.exit_code == 2, result.stderr
    lines = [line for line in result.stderr.splitlines() if "error: " in line]
    assert len(lines) == 1
    assert "Traceback" not in result.stderr
    assert len(lines[0]) < 1000
    return lines[0].removeprefix(f"{name}: error: ").replace(str(path), "mine.py")


@pytest.mark.parametrize(("text", "message"), MISTAKES.items())
def test_a_run_tells_what_a_policy_did_instead(small_world: Path, tmp_path: Path, text: str, message: str):
    path = written(tmp_path, text)
    result = CliRunner().invoke(launch, [str(path), str(small_world), "--out", str(tmp_path / "out")])
    assert told(result, "launch", path).startswith(message)
    assert os._exit is EXIT


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("text", ["return None", "import sys; sys.exit(0)", "import os; os._exit(0)"])
def test_a_comparison_tells_what_a_policy_did_instead(small_world: Path, tmp_path: Path, workers: str, text: str):
    path = written(tmp_path, text)
    where = ["-p", "homogeneous:4", "-w", str(tmp_path / "jobs.swf"), "--windows", "1", "-j", workers]
    result = CliRunner().invoke(cli, ["compare", str(path), *where, "--out", str(tmp_path / "out")], prog_name="hdrl")
    assert told(result, "hdrl", path).startswith(MISTAKES[text])


def test_a_priority_that_no_number_can_hold(small_world: Path, tmp_path: Path):
    path = tmp_path / "mine.py"
    path.write_text("def priority(job, now_s):\n    return 10**5000\n")
    result = CliRunner().invoke(launch, [str(path), str(small_world), "--out", str(tmp_path / "out")])
    assert "is a number of more than 100 digits, expected a number" in told(result, "launch", path)


def test_what_refuses_to_be_looked_at_is_no_agent(small_world: Path, tmp_path: Path):
    path = tmp_path / "mine.py"
    path.write_text(
        "class Shy:\n    def __getattribute__(self, name):\n        raise ValueError(name)\n\n\npolicy = Shy()\n"
    )
    result = CliRunner().invoke(launch, [str(path), str(small_world), "--out", str(tmp_path / "out")])
    assert told(result, "launch", path).startswith("mine.py")


def test_a_policy_may_be_made_of_text(small_world: Path, tmp_path: Path):
    path = tmp_path / "mine.py"
    path.write_text("exec('def policy(view):\\n    raise ValueError(1)')\n")
    result = CliRunner().invoke(launch, [str(path), str(small_world), "--out", str(tmp_path / "out")])
    assert told(result, "launch", path) == "mine.py:<string>: ValueError: 1"


def test_ctrl_c_that_nobody_has_pressed(small_world: Path, tmp_path: Path):
    path = written(tmp_path, "raise KeyboardInterrupt")
    where = ["-p", "homogeneous:4", "-w", str(tmp_path / "jobs.swf"), "--windows", "1", "-j", "2"]
    result = CliRunner().invoke(cli, ["compare", str(path), *where, "--out", str(tmp_path / "out")], prog_name="hdrl")
    assert told(result, "hdrl", path) == "mine.py:2: KeyboardInterrupt: no message"


@pytest.mark.parametrize("text", ["import sys; sys.exit(0)", "import os; os._exit(0)", "raise BaseException('bare')"])
def test_a_file_that_ends_the_process_is_an_error(small_world: Path, tmp_path: Path, text: str):
    (tmp_path / "mine.py").write_text(f"{text}\n")
    result = CliRunner().invoke(launch, [str(tmp_path / "mine.py"), str(small_world), "--out", str(tmp_path / "out")])
    assert told(result, "launch", tmp_path / "mine.py").startswith("mine.py:1: ")
    assert not (tmp_path / "out").exists()

"""Names that no file system takes end every command in one line."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli

LONG = "x" * 300
NO_JOB = "~nosuchuser/x"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        *((cli, [name, LONG]) for name in ("report", "clean", "metrics")),
        (launch, ["OPTIONS", "-im", LONG]),
        (launch, ["OPTIONS", "--out", LONG]),
        (launch, ["--resume", LONG]),
        (launch, ["OPTIONS", "--set", f"platform_file_path={NO_JOB}.json"]),
        (launch, ["OPTIONS", "--set", f"workload_file_path={NO_JOB}.swf"]),
        (launch, ["OPTIONS", "--setting", f"{NO_JOB}.py"]),
        (cli, ["compare", "fcfs", "-p", f"{NO_JOB}.json", "-w", f"{NO_JOB}.swf"]),
        (cli, ["compare", "fcfs", "-p", "homogeneous:²", "--loads", "0.5"]),
        (cli, ["compare", "fcfs", "-p", f"homogeneous:{'9' * 5000}", "--loads", "0.5"]),
        (cli, ["compare", "[" * 100_000, "-p", "homogeneous:4", "--loads", "0.5"]),
        (cli, ["compare", "models/**.pt", "-p", "homogeneous:4", "--loads", "0.5"]),
        (cli, ["compare", "fcfs", "-p", "homogeneous:4", "--loads", "0.5", "--set", f"windows={'[' * 100_000}"]),
        (cli, ["run", "OPTIONS", "--setting", "pipelines", "--set", f"platform={'9' * 5000}cpu"]),
    ],
)
def test_a_name_that_cannot_be_is_one_line(small_world: Path, stand_in, command: click.Command, words: list[str]):
    result = CliRunner().invoke(command, [word.replace("OPTIONS", str(small_world)) for word in words])
    assert result.exit_code == 2, result.exception
    assert len([line for line in result.stderr.splitlines() if ": error: " in line]) == 1
    assert "Traceback" not in result.stderr

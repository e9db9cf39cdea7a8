"""What docs/reports.md and docs/experiments.md show is run."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

for library in ("jinja2", "matplotlib"):
    pytest.importorskip(library, reason="reports need it: pip install 'hdrl[report]'")

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
SIZE = re.compile(r"\d+\.\d MB")


@pytest.mark.parametrize("name", ["reports.md", "experiments.md"])
def test_the_commands_print_what_stands_there(name: str, tmp_path: Path):
    for folder in ("examples", "platforms", "workloads"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    blocks = BLOCK.findall((ROOT / "docs" / name).read_text(encoding="utf-8"))
    commands = [pair for block in blocks for pair in COMMAND.findall(block)]
    assert len(commands) >= 2
    for command, expected in commands:
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=os.environ | {"PATH": path, "COLUMNS": "80"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout
        wanted, found = SIZE.sub("n MB", expected), SIZE.sub("n MB", done.stdout)
        assert doctest.OutputChecker().check_output(wanted, found, doctest.ELLIPSIS), f"{command}\n{done.stdout}"


def test_the_table_of_experiments_is_whole():
    text = (ROOT / "docs/experiments.md").read_text(encoding="utf-8")
    for options in (ROOT / "experiments").glob("*/experiment.json"):
        assert f"`{options.parent.name}`" in text

"""A full disk behind what is printed is one line, not a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("main:cli", ["list", "policies"]),
        ("main:cli", ["--help"]),
        ("main:cli", ["options", "schema"]),
        ("launch:launch", ["--version"]),
    ],
)
def test_a_full_disk_is_one_line(program: str, words: list[str]):
    module, name = program.split(":")
    code = f"from hdrl.launcher.{module} import {name} as main; main(prog_name='hdrl')"
    with FULL.open("wb") as full:
        done = subprocess.run([sys.executable, "-c", code, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.stderr == "hdrl: error: the output cannot be written (No space left on device)\n"
    assert done.returncode == 2

"""A full disk behind what is printed, or too little memory, is one line, not a traceback."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from hdrl.launcher.errors import OneLine, one_line

FULL = Path("/dev/full")


@pytest.mark.parametrize(("text", "shown"), [("Unable to allocate 745. GiB", "745. GiB"), ("", "no more is free")])
def test_too_little_memory_is_one_line(text: str, shown: str):
    with (
        pytest.raises(click.ClickException, match=f"the memory does not suffice .*{shown}") as caught,
        one_line("hdrl"),
    ):
        raise MemoryError(text)
    assert isinstance(caught.value, OneLine)
    assert caught.value.exit_code == 2


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
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

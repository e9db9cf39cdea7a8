"""Files of runs, trainings and comparisons are those that were recorded, on every processor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.compiled.backends import JIT_DISABLED

PROGRAM = Path(__file__).parents[1] / "goldens.py"
QUICK = ["run-gaia", "run-conservative", "run-twice", "train-picks", "compare-best"]


@pytest.mark.skipif(JIT_DISABLED, reason="without a compiler torch computes, which chooses by the processor")
def test_files_are_those_that_were_recorded() -> None:
    names = [] if os.environ.get("HDRL_PORTABLE") == "all" else QUICK
    words = [sys.executable, str(PROGRAM), "verify", *names]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("all bytes are as before\n", 0), done.stderr


def test_an_unknown_command_is_told() -> None:
    words = [sys.executable, str(PROGRAM), "verify", "run-gia"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("run-gia: expected one of run-gaia, ")

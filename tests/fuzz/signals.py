"""Signals at random times: a command ends soon, with one line, its exit code, and no half-written file."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from .judge import Finding

ROOT = Path(__file__).parents[2]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENDS_WITHIN_S = 90


def _interrupted(command: list[str], out: Path, draw: random.Random, latest_s: float) -> Finding | None:
    shutil.rmtree(out, ignore_errors=True)
    code = "from hdrl.launcher.main import cli; cli(prog_name='hdrl')"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # Before hdrl runs at all, Python itself answers signals; its traceback is none of ours.
    time.sleep(draw.uniform(0.5, latest_s))
    number = draw.choice(SIGNALS)
    process.send_signal(number)
    try:
        _, told = process.communicate(timeout=ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Finding(command, f"goes on {ENDS_WITHIN_S} s after {number.name}")
    if process.returncode not in (0, 128 + number):
        return Finding(command, f"exit code {process.returncode} after {number.name}: {told[-500:]}")
    if "Traceback" in told:
        return Finding(command, f"traceback after {number.name}: {told[-1500:]}")
    left = [path.name for path in out.rglob(".*") if path.is_file() and not path.name.startswith(".run_")]
    return Finding(command, f"half-written files after {number.name}: {left[:5]}") if left else None


_DEMO = str(ROOT / "examples" / "demo.json")
INTERRUPTED: dict[str, tuple[list[str], float]] = {
    "run": (["run", _DEMO, "--set", "nb_jobs=2000", "-nr", "100"], 3.0),
    "compare": (
        ["compare", "fcfs+easy", "sjf+easy", "-p", "gaia", "--loads", "0.8", "--windows", "200:400", "-j", "2"],
        5.0,
    ),
    "train": (["run", str(ROOT / "examples" / "train.json"), "--set", "learning.iterations=1000", "--quiet"], 8.0),
}
"""Commands that are interrupted, and how many seconds after their start at the latest."""


def interrupted(name: str, out: Path, draw: random.Random) -> Finding | None:
    """Interrupt a command at a random time; return what it did wrong.

    Parameters
    ----------
    name
        Which of `INTERRUPTED`.
    out
        Where it writes.
    draw
        What draws the time and the signal.
    """
    command, latest_s = INTERRUPTED[name]
    return _interrupted(command, out, draw, latest_s)

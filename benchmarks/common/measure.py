"""Measuring functions and whole processes."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder of the checkout."""

LAUNCH = (sys.executable, "-c", "from hdrl.launcher.launch import launch; launch(prog_name='hdrl-launch')")
"""The command line of hdrl-launch, found without looking for installed scripts."""


@dataclass(frozen=True, slots=True)
class Process:
    """One finished process.

    Attributes
    ----------
    wall_s
        From its start to its end.
    cpu_s
        Processor time that it took, in user code and for it in the system; other programs hardly change it.
    peak_mib
        The most memory that it held at one time.
    stderr
        What it wrote there.
    """

    wall_s: float
    cpu_s: float
    peak_mib: float
    stderr: str


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a process that is measured.

    Parameters
    ----------
    variables
        Variables to add.
    """
    result = os.environ | dict(variables or {})
    result.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process would compile the sources of hdrl anew
    return result


def run_process(command: Sequence[str], *, variables: Mapping[str, str] | None = None) -> Process:
    """Run a process to its end and measure it.

    Parameters
    ----------
    command
        The command line.
    variables
        Variables to add to the environment.

    Raises
    ------
    SystemExit
        If the process fails; with what it wrote on stderr.
    """
    with tempfile.TemporaryFile("w+") as stderr:
        start_s = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=stderr, cwd=ROOT, env=environment(variables)
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start_s
        process.returncode = os.waitstatus_to_exitcode(status)
        stderr.seek(0)
        text = stderr.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with code {process.returncode}\n{text}")
    # Linux counts kibibytes, macOS bytes.
    per_mib = 2**20 if sys.platform == "darwin" else 2**10
    return Process(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / per_mib, text)


def time_in_turn(
    functions: Mapping[str, Callable[[], object]], n: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Return the seconds that functions take, each called ``n`` times, one after the other in turn.

    What slows the machine down for a while then slows all of them down, and ratios stay fair.

    Parameters
    ----------
    functions
        What to call, by name.
    n
        How many rounds, at least 1.
    clock
        Tells the time in seconds: `time.process_time` for the processor's.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(n):
        for name, function in functions.items():
            start_s = clock()
            function()
            seconds[name].append(clock() - start_s)
    return seconds


def ratio_of_medians(slow: Sequence[float], fast: Sequence[float]) -> float:
    """Return how many times longer one takes than the other.

    Parameters
    ----------
    slow, fast
        Measured times of both.
    """
    return statistics.median(slow) / statistics.median(fast)


def compile_first() -> None:
    """Compile the simulator in a process of its own if it is not yet compiled, so that no measurement includes it."""
    code = "from hdrl.settings.batch.kernel import warm_up; warm_up(lambda text: print(text, flush=True))"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)

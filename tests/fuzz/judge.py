"""What a command may do with a bad input: work, or end with one line and exit code 2. Nothing else."""

from __future__ import annotations

import contextlib
import signal
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from click.testing import CliRunner

from hdrl.launcher.main import cli

LIMIT_S = 240
"""A command that takes longer on one of the small inputs hangs; the first of all may have to compile."""

MAX_LINE = 1200


class Hangs(BaseException):
    """A command took too long."""


@dataclass(frozen=True)
class Finding:
    """A command that did something else.

    Parameters
    ----------
    command
        The command line.
    problem
        What it did.
    """

    command: Sequence[str]
    problem: str


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def stop(number: int, frame: object) -> NoReturn:
        raise Hangs

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _problem_of(result: Any, caught: Sequence[warnings.WarningMessage]) -> str:
    """Return what is wrong with the end of a command; empty if nothing is."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        last = traceback.extract_tb(result.exc_info[2])[-1]
        return f"{type(result.exception).__name__}: {str(result.exception)[:300]} ({last.filename}:{last.lineno})"
    told = [line for line in result.stderr.splitlines() if "error: " in line]
    if caught:
        return f"warning: {caught[0].message} ({caught[0].filename}:{caught[0].lineno})"
    if "Traceback" in result.stderr + result.stdout:
        return f"traceback: {result.stderr[-500:]}"
    has_failed = result.exit_code == 1 and " failed in " in result.stderr  # a candidate of a comparison
    if result.exit_code not in (0, 2) and not has_failed:
        return f"exit code {result.exit_code}: {result.stderr[-300:]}"
    if result.exit_code and len(told) != 1:
        return f"{len(told)} lines of errors: {result.stderr[-300:]}"
    if any(len(line) > MAX_LINE for line in told):
        return f"a line of {max(map(len, told))} characters: {told[0][:200]}"
    if any(not character.isprintable() for line in told for character in line):
        return f"control characters: {told[0][:200]!r}"
    return ""


def judged(command: Sequence[str], out: Path | None = None) -> Finding | None:
    """Run a command in this process; return what it did wrong.

    Parameters
    ----------
    command
        The arguments of ``hdrl``.
    out
        A folder that must not be there after it failed; half-written files must be nowhere.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _limited():
                result = CliRunner().invoke(cli, list(command), prog_name="hdrl")
        except Hangs:
            return Finding(command, f"takes more than {LIMIT_S} s")
    caught = [one for one in caught if not issubclass(one.category, ResourceWarning | DeprecationWarning)]
    problem = _problem_of(result, caught)
    if not problem and out is not None and out.exists():
        left = [path.name for path in out.rglob(".*") if path.is_file()]
        if left:
            problem = f"half-written files: {left[:5]}"
        elif result.exit_code == 2 and not any(out.iterdir()):
            problem = "an empty folder is left"
    return Finding(command, problem) if problem else None

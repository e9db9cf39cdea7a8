"""Functions that tests send to workers."""

import os
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from hdrl.base.errors import HdrlError, ReadError


def double(task: int) -> int:
    return 2 * task


def slow_first(task: int) -> int:
    """Return the tasks in another order than they come."""
    time.sleep(0.3 if task == 0 else 0.0)
    return task


def leaves_files(task: int) -> None:
    """Make a temporary file; fail over the first task while the second goes on."""
    Path(tempfile.mkdtemp(prefix="hdrl-left-"), "file").touch()
    time.sleep(0.5 if task == 0 else 30.0)
    raise ReadError("jobs.swf", "is empty")


def my_process(task: int) -> int:
    return os.getpid()


def bad(task: int) -> int:
    if task == 3:
        raise ReadError("jobs.swf", "is empty")
    return task


def buggy(task: int) -> int:
    return 1 // task


@dataclass(frozen=True)
class DiesOnce:
    """Kills its own process at one task, the first time that it comes."""

    folder: Path
    task: int = 2
    every_time: bool = False

    def __call__(self, task: int) -> int:
        mark = self.folder / "died"
        if task == self.task and (self.every_time or not mark.exists()):
            with mark.open("a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 * task


def leaves(task: int) -> int:
    raise SystemExit(0)


def gives_up(task: int) -> int:
    raise KeyboardInterrupt


@dataclass(frozen=True)
class Sleeps:
    """Leaves its process id and takes long."""

    folder: Path
    seconds: float = 60.0

    def __call__(self, task: int) -> int:
        if task == 0:
            return 0
        (self.folder / f"{os.getpid()}.pid").touch()
        time.sleep(self.seconds)
        return task


class Adder:
    """A role without torch."""

    def add(self, parts):
        return sum(parts), len(parts)

    def fail(self):
        raise HdrlError("no more")

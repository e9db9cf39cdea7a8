"""Tasks in processes of this machine.

The pools of the standard library give up as a whole when one process dies, and do not say over which task. So each
worker here is a process with a pipe of its own, and holds one task at a time.

Where nothing else runs in this process, a worker is a copy of it (a *fork*): it has loaded all that it needs, which
spares 0.3 s of processor time for each. With other threads, whose locks a copy would never release, it is a new one.
A new one runs the user's script again only if the work is defined there.

Workers put temporary files into a folder that we remove, since a worker that is stopped cannot remove its own.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import multiprocessing
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from hdrl.distributed.attempts import MAX_ATTEMPTS, Attempted, OnResult, Starting, attempt, repeated_failure

ENDING = frozenset({signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])})
"""Signals that end a process."""

PATIENCE_S = 5.0
"""Time that a worker may take to end after the request, in seconds."""

_PR_SET_PDEATHSIG = 1
"""Number of the request to Linux for a signal when the parent ends."""

_SCRIPT = "__main__"
"""Name of the module of the user's script."""

_WAITS_S = 10 * (0.001,)
"""A thread that has ended may still be there for a moment."""


def run_in_processes(
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    *,
    n_workers: int,
    keep: OnResult,
    describe: Callable[[Any], str],
    starting: Starting = contextlib.nullcontext,
    meanwhile: Callable[[], object] | None = None,
) -> None:
    """Work on tasks in processes, see `hdrl.distributed.run_tasks`.

    Raises
    ------
    WorkerDied
        If the worker of one task dies too often.
    HdrlError
        If the function raises one.
    """
    pending = collections.deque(range(len(tasks)))
    n_attempts = [0] * len(tasks)
    workers: list[_Worker] = []
    folder = tempfile.mkdtemp(prefix="hdrl-")
    try:
        while pending or workers:
            if pending and len(workers) < n_workers:
                with starting():
                    new = [
                        _Worker(function, tasks, workers, folder)
                        for _ in range(min(n_workers - len(workers), len(pending)))
                    ]
                for worker in new:
                    worker.give(pending.popleft(), tasks)
            if meanwhile is not None:
                meanwhile()
                meanwhile = None
            # A pipe whose other end is gone is ready too, so deaths need no separate look.
            for connection in wait([worker.connection for worker in workers]):
                worker = next(worker for worker in workers if worker.connection is connection)
                index, outcome = worker.take()
                if outcome is None:
                    workers.remove(worker)
                    n_attempts[index] += 1
                    if n_attempts[index] >= MAX_ATTEMPTS:
                        raise repeated_failure(describe(tasks[index]), worker.describe_exit())
                    worker.stop()
                    pending.appendleft(index)
                    continue
                keep(index, outcome.unwrap())
                if pending:
                    worker.give(pending.popleft(), tasks)
                else:
                    workers.remove(worker)
                    worker.close_pipe()
    finally:
        for worker in workers:
            worker.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _without_script(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[None]:
    """Start a process that does not run the user's script again, unless the work is defined there.

    A script without ``if __name__ == "__main__"`` would start workers in turn.
    """
    script = sys.modules[_SCRIPT]
    if _SCRIPT.encode() not in bytes(ForkingPickler.dumps((function, tasks))):
        sys.modules[_SCRIPT] = types.ModuleType(_SCRIPT)
    try:
        yield
    finally:
        sys.modules[_SCRIPT] = script


def is_alone() -> bool:
    """Return True if this process has a single thread, in any library: then a copy of it is whole."""
    threads = Path("/proc/self/task")
    if threading.active_count() > 1 or not threads.is_dir():  # not Linux: its own libraries may not survive it
        return False
    for wait_s in _WAITS_S:
        if len(list(threads.iterdir())) == 1:
            return True
        time.sleep(wait_s)
    return False


class _Worker:
    """A process, the pipe to it, and the task that it holds; it joins the others when it has started.

    ``folder``: for its temporary files.
    """

    def __init__(
        self, function: Callable[[Any], Any], tasks: Sequence[Any], workers: list[_Worker], folder: str
    ) -> None:
        forks = is_alone()
        context: Any = multiprocessing.get_context("fork" if forks else "spawn")
        self.connection, theirs = context.Pipe()
        # Who holds a copy of our end of a pipe would keep it open for the worker at the other one.
        copied = [self.connection, *(worker.connection for worker in workers)] if forks else []
        self._process: BaseProcess = context.Process(target=_work, args=(theirs, function, copied, folder), daemon=True)
        self._index = -1
        try:
            with _without_ctrl_c(forks=forks), contextlib.nullcontext() if forks else _without_script(function, tasks):
                self._process.start()
        finally:
            theirs.close()
        workers.append(self)

    def give(self, index: int, tasks: Sequence[Any]) -> None:
        """Send a task."""
        self._index = index
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its death shows when the answer is read
            self.connection.send(tasks[index])

    def take(self) -> tuple[int, Attempted | None]:
        """Return the index of the task and its result; ``None`` if the process died over it."""
        try:
            return self._index, self.connection.recv()
        except (EOFError, OSError):
            return self._index, None

    def describe_exit(self) -> str:
        """Describe the end of the process."""
        self._process.join(PATIENCE_S)
        code = self._process.exitcode
        if code is None:
            return "without closing its end"
        if code < 0:
            hint = " (is there enough memory?)" if code == -signal.SIGKILL else ""
            return f"by signal {signal.Signals(-code).name}{hint}"
        return f"with exit code {code}"

    def close_pipe(self) -> None:
        """Let the process end by itself: closing the pipe is the last word."""
        self.connection.close()
        self._process.join(PATIENCE_S)
        self.stop()

    def stop(self) -> None:
        """End the process at once."""
        self.connection.close()
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(PATIENCE_S)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._process.close()


def _work(connection: Connection, function: Callable[[Any], Any], copied: Sequence[Connection], folder: str) -> None:
    """Answer tasks until the other end closes."""
    _end_with_parent()
    tempfile.tempdir = folder
    for one in copied:
        one.close()
    for number in ENDING:
        if callable(signal.getsignal(number)):  # what a copy answers is not ours
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent stops us
    _mask(signal.SIG_UNBLOCK)
    with contextlib.suppress(EOFError, OSError), connection:
        while True:
            task = connection.recv()
            try:
                outcome = attempt(function, task)
            except KeyboardInterrupt:  # no signal: the task itself has raised it
                outcome = Attempted(problem=traceback.format_exc(), is_expected=False)
            connection.send(outcome)


def _end_with_parent() -> None:
    """Have the system end this process with the one that started it, where the system can.

    A copy of a killed process would otherwise finish its task first, and hold the locks on its results until then.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


@contextlib.contextmanager
def _without_ctrl_c(*, forks: bool = False) -> Iterator[None]:
    """Start a process that Ctrl-C does not reach before `_work` ignores it: it inherits what is blocked here.

    Nor does any other signal end us while we send it a task: it would complain about half of that. A signal that
    comes meanwhile arrives here afterwards.
    """
    if not forks:
        resource_tracker.ensure_running()  # if it starts within, it unblocks the signal
    with _deferred():
        before = _mask(signal.SIG_BLOCK)
        try:
            yield
        finally:
            _mask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _deferred() -> Iterator[None]:
    """Let the signals that end a process wait, whichever thread takes them: Python answers in the main one alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    answered = [number for number in ENDING if callable(signal.getsignal(number))]
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in answered}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for missed in came:
            signal.raise_signal(missed)


def _mask(how: int, signals: Iterable[int] = ENDING) -> set[int]:
    """Block or unblock the signals that end a process, where that can be done; return what was blocked."""
    return set(signal.pthread_sigmask(how, signals)) if hasattr(signal, "pthread_sigmask") else set()

"""A scheduler of PyBatsim in this process: a message goes in as text, its reply comes out.

PyBatsim calls the scheduler while it reads from its network. Here its network is a slot for one message and one for the
reply, so that any simulator can call it: no socket, no thread, and nothing of PyBatsim or the scheduler is changed.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hdrl.base.closing import Closing
from hdrl.base.errors import BatsimError, HdrlError, ReadError, UnknownName
from hdrl.batsim.pybatsim.require import require_pybatsim, scheduler_names

_log = logging.getLogger(__name__)

RECURSION_LIMIT = 10_000
"""PyBatsim's limit for the whole process; here it holds while a scheduler decides."""


class HostedScheduler(Closing):
    """A scheduler of PyBatsim, hosted in this process.

    It serves one simulation. What it prints and logs goes to Python's logging, as debug messages of this module.

    Parameters
    ----------
    name
        The name of a scheduler that PyBatsim brings, such as ``"easyBackfill"``; or the path of a Python file, as
        the command ``pybatsim`` takes it.
    options
        The scheduler's options (``-o`` of the command).

    Raises
    ------
    MissingPyBatsim
        If PyBatsim is not installed.
    UnknownName, ReadError
        If there is no such scheduler, or no such file.
    BatsimError
        If it cannot be made.
    """

    def __init__(self, name: str | Path, options: Mapping[str, Any] | None = None) -> None:
        self.name = Path(name).stem if _is_path(str(name)) else str(name)
        self._pybatsim = require_pybatsim()
        self._check_name(str(name))
        self._slot = _Slot()
        self._batsim: Any = None
        self._handlers_before = set(map(id, _handlers()))
        self._folder = tempfile.TemporaryDirectory(prefix="hdrl-pybatsim-")
        with self._closed_after_errors(), self._scheduler_context():
            self._scheduler = self._make(str(name), _Options(options or {}, Path(self._folder.name)))

    def close(self) -> None:
        """Close the files and forget the loggers that the scheduler has opened."""
        for logger in _loggers():
            for handler in list(logger.handlers):
                if id(handler) not in self._handlers_before:
                    logger.removeHandler(handler)
                    handler.close()
        self._folder.cleanup()

    def exchange(self, message: str) -> str:
        """Answer a message of Batsim; raise BatsimError with the line where the scheduler fails."""
        self._slot.message = message
        with self._closed_after_errors(), self._scheduler_context():
            if self._batsim is None:
                self._batsim = self._begin()
            else:
                self._batsim.do_next_event()
        return self._slot.reply

    def _check_name(self, name: str) -> None:
        if not _is_path(name):
            if name not in scheduler_names():
                raise UnknownName("scheduler of PyBatsim", name, scheduler_names())
        elif not Path(name).is_file():
            raise ReadError(name, "no such file, expected a scheduler for PyBatsim")
        elif not name.endswith(".py"):
            raise ReadError(
                name,
                "is not a Python file, expected a scheduler for PyBatsim; hdrl-launch and hdrl compare play models",
            )

    def _make(self, name: str, options: _Options) -> Any:
        from batsim.tools.launcher import instanciate_scheduler

        before = list(sys.path)
        try:
            return instanciate_scheduler(name, options)
        finally:
            sys.path[:] = before

    def _begin(self) -> Any:
        """Make PyBatsim's Batsim object: it takes the first message and answers it before it is made."""
        with _replaced(self._pybatsim, "NetworkHandler", lambda *args, **more: self._slot):  # noqa: ARG005
            return self._pybatsim.Batsim(self._scheduler, network_endpoint="", timeout=0)

    @contextlib.contextmanager
    def _scheduler_context(self) -> Iterator[None]:
        """Let the scheduler feel at home: it prints, recurses deeply, and may fail in any way."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
        said = _OutputStream(self.name)
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                yield
        except HdrlError:
            raise
        except (Exception, SystemExit) as error:
            raise BatsimError(f"PyBatsim's scheduler {self.name!r} failed: {_in_one_line(error, said)}") from error
        finally:
            sys.setrecursionlimit(limit)

    @contextlib.contextmanager
    def _closed_after_errors(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


class _Options(dict[str, Any]):
    """A scheduler's options, and where it writes if they do not say.

    Schedulers of the newer kind always write a file of events, into the current folder by default.
    """

    def __init__(self, options: Mapping[str, Any], folder: Path) -> None:
        super().__init__(options)
        self._folder = folder

    def get(self, key: str, default: Any = None) -> Any:
        """Return an option, or its default."""
        return super().get(key, str(self._folder / "out") if key == "export-prefix" else default)


class _Slot:
    """PyBatsim's network, for one message and one reply."""

    def __init__(self) -> None:
        self.message = ""
        self.reply = ""

    def bind(self) -> None:
        """Do nothing: no other process connects."""

    def recv(self, *, blocking: bool = False) -> Any:
        """Return the message."""
        return json.loads(self.recv_string(blocking=blocking))

    def recv_string(self, *, blocking: bool = False) -> str:  # noqa: ARG002 - the message is there
        """Return the text of the message."""
        return self.message

    def send(self, reply: Any) -> None:
        """Keep the reply."""
        self.reply = json.dumps(reply)

    def close(self) -> None:
        """Do nothing."""


class _OutputStream(io.TextIOBase):
    """Stream for the output of a scheduler, line by line."""

    def __init__(self, name: str) -> None:
        self.last = ""
        self._name = name

    def writable(self) -> bool:
        """Say yes."""
        return True

    def write(self, text: str) -> int:
        """Log a text; remember its last line."""
        for line in filter(None, map(str.strip, text.splitlines())):
            self.last = line
            _log.debug("%s: %s", self._name, line)
        return len(text)


def _is_path(name: str) -> bool:
    """Tell a file from a name as PyBatsim does."""
    return "." in name or "/" in name


def _loggers() -> list[logging.Logger]:
    known = list(logging.Logger.manager.loggerDict.values())
    return [logging.getLogger(), *(logger for logger in known if isinstance(logger, logging.Logger))]


def _handlers() -> list[logging.Handler]:
    return [handler for logger in _loggers() for handler in logger.handlers]


def _in_one_line(error: BaseException, said: _OutputStream) -> str:
    """Describe the exception and its position; PyBatsim itself exits after it has printed why."""
    if isinstance(error, SystemExit):
        return said.last or f"it exits with {error.code}"
    frames = traceback.extract_tb(error.__traceback__)
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text} ({frames[-1].filename}:{frames[-1].lineno})"


@contextlib.contextmanager
def _replaced(module: Any, name: str, value: Callable[..., Any]) -> Iterator[None]:
    """Give a module's global another value for a while."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)

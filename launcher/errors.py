"""Errors on the command line: one line on stderr and an exit code, never a traceback for a user's mistake."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pathlib
import signal
import sys
from collections.abc import Iterator
from typing import IO, Any

import click
from click.exceptions import NoArgsIsHelpError

from hdrl.base.errors import MAX_SHOWN_PATH, HdrlError, readable
from hdrl.base.pipes import file_of_pipe, is_pipe
from hdrl.launcher.process import check_numba_threads, one_blas_thread, rare_collections
from hdrl.launcher.stopping import Terminated, handle_signals

MAX_LINE = 1000
"""Characters of the longest line, for it to be readable."""


_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
"""Of these, those without a file name are about what is printed: a full disk behind ``> FILE``."""


class OneLine(click.ClickException):
    """An error that is shown as ``<program>: error: <message>``."""

    def __init__(self, program: str, message: str, exit_code: int = 2) -> None:
        super().__init__(readable(" ".join(message.split()), MAX_LINE))
        self.program = program
        self.exit_code = exit_code  # type: ignore[misc]

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the line to stderr."""
        click.echo(f"{self.program}: error: {self.message}", file=file, err=True)


def after_signal(program: str, message: str, number: int) -> OneLine:
    """Return the end of a command after a signal, with the exit code that shells use for it."""
    return OneLine(program, message, exit_code=128 + number)


class CleanErrors(click.Command):
    """A command that ends with one line after an `HdrlError`, a wrong command line or a signal."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the command line; raise `OneLine` if it makes no sense."""
        program = parent.find_root().info_name if parent is not None else info_name
        _escape_unprintable()
        with one_line(program or "hdrl"):
            given = [_with_file(arg) for arg in args] if parent is None else args
            return super().make_context(info_name, given, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; raise `OneLine` if what the user gave is wrong, or the user interrupted it."""
        one_blas_thread()
        with one_line(ctx.find_root().info_name or "hdrl"), handle_signals(), rare_collections():
            check_numba_threads()
            return super().invoke(ctx)


def _with_file(argument: str) -> str:
    """Return an argument that names a pipe, alone or after ``KEY=``, with the file that holds what came through it."""
    key, sign, name = argument.rpartition("=")
    return f"{key}{sign}{file_of_pipe(name)}" if is_pipe(name) else argument


def _escape_unprintable() -> None:
    """Print letters that the terminal's encoding lacks as escapes, as names of files may hold any."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _discard_stdout() -> None:
    """Discard the rest of the output: Python would fail once more when it ends."""
    with contextlib.suppress(OSError, ValueError), pathlib.Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@contextlib.contextmanager
def one_line(program: str) -> Iterator[None]:
    """Turn errors that a user can cause into `OneLine`; errors of our own keep their traceback."""
    try:
        yield
    except HdrlError as error:
        raise OneLine(program, str(error)) from None
    except NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
        raise OneLine(program, f"{error.format_message()}{hint}") from None
    except OSError as error:
        if error.filename is None and error.errno in _OUTPUT_ERRORS:
            _discard_stdout()
            raise OneLine(program, f"the output cannot be written ({error.strerror})") from None
        if error.filename is None or error.errno is None:
            raise
        name = readable(str(error.filename), MAX_SHOWN_PATH)
        raise OneLine(program, f"{name}: cannot be used ({error.strerror})") from None
    except MemoryError as error:  # absurd numbers of jobs, users or cores
        raise OneLine(program, f"the memory does not suffice ({str(error) or 'no more is free'})") from None
    except Terminated as error:
        raise after_signal(program, "terminated", error.number) from None
    except KeyboardInterrupt:
        raise after_signal(program, "interrupted", signal.SIGINT) from None

"""Python files of users: an agent, a policy or a setting, given by its path, and which of them may run.

A file is compiled and run under a module name of its own; neither ``sys.path`` nor the folder of the file is touched.

`run_file` is the only function that runs one. It runs what the user has named: on the command line, in a script, or in
options of their own for a command that runs something. Results and models are data: `refuse_python` rejects what they
name, until the user trusts them (``--trust``).
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, NoReturn, TypeAlias

from hdrl.base.errors import MAX_SHOWN_PATH, DecisionError, HdrlError, readable, suggest
from hdrl.base.files import read_text

SUFFIX = ".py"
CPP_SUFFIX = ".cpp"
"""A scheduler that speaks Batsim's protocol: compiling and starting it is running it."""
SUFFIX_MARKS = ("", "+", "-", "@")
"""First characters of a suffix that may follow the path of a policy file."""

NO_COLUMN = "no field of name "
"""Beginning of NumPy's message about a missing column of an array."""


TRUST = "--trust"
"""The option by which a user lets the Python files run that results and models name."""


class AgentError(HdrlError):
    """A file with an agent or a policy is wrong, or fails while it decides."""


class UntrustedFile(HdrlError):
    """Data names a Python file or a program, which only the user may let run.

    ``instead``: what the user can do other than to trust the data.
    """

    def __init__(self, where: str | Path, name: str, instead: str = "", what: str = "the Python file") -> None:
        self.name, self.instead, self.what = name, instead, what
        place, file = readable(str(where), MAX_SHOWN_PATH), readable(name, MAX_SHOWN_PATH)
        known = f"{instead}, or {TRUST}" if instead else TRUST
        super().__init__(
            f"{place}: names {what} {file}, which hdrl runs only with your permission (if you trust it: {known})"
        )


def is_policy_file(name: str) -> bool:
    """Return whether a policy is given by a Python file, with or without backfilling."""
    return split_policy_file(name)[0].endswith(SUFFIX)


def split_policy_file(name: str) -> tuple[str, str]:
    """Return the path of a policy file, and what follows it: ``("my.py", "+easy-low_power")``.

    A text that goes on otherwise (``"my.pyx"``) is a path as a whole.
    """
    base, dot, suffix = name.rpartition(SUFFIX)
    return (base + dot, suffix) if dot and suffix[:1] in SUFFIX_MARKS else (name, "")


def python_named(data: Any) -> str:
    """Return the first text in data that names a file of Python or C++; empty if none does."""
    left = [data]
    while left:
        one = left.pop()
        if isinstance(one, str) and _NAMES_CODE.search(one):
            return one
        if isinstance(one, Mapping):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple)):
            left += one
    return ""


def refuse_python(data: Any, where: str | Path) -> None:
    """Refuse data in which any text names a file of Python or C++."""
    found = _NAMES_CODE.search(name := python_named(data))
    if found:
        raise UntrustedFile(where, name, what=f"the {'C++' if found[1].lower() == 'cpp' else 'Python'} file")


def trust_words(data: Any) -> str:
    """Return the option that a command needs in addition to go on with data: ``" --trust"`` if they name code."""
    return f" {TRUST}" if python_named(data) else ""


# `run_file` takes no file without the first suffix, comparisons none without one of both, and `SUFFIX_MARKS` and the
# ":" of objectives are no letters: so no text without a match names one.
_NAMES_CODE = re.compile(r"\.(py|cpp)($|\W)", re.IGNORECASE)


Within: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Gets the text of a file and gives what the file is run within."""


class RanFile(NamedTuple):
    """A file that has been run: its module, where it is, its hash, and what followed its name."""

    module: ModuleType
    path: Path
    sha256: str
    suffix: str


def run_policy_file(name: str, within: Within = nullcontext) -> RanFile:
    """Run the file of a policy or an agent that the user has named."""
    base, suffix = split_policy_file(name)
    path = Path(base)
    module, digest = run_file(path, within, trust=True)
    return RanFile(module, path, digest, suffix)


def run_file(path: Path, within: Within = nullcontext, *, trust: bool) -> tuple[ModuleType, str]:
    """Run a Python file; return the module that it makes, and the SHA-256 of its text."""
    if not trust:
        raise UntrustedFile(path.parent, path.name)
    if path.suffix != SUFFIX:
        raise AgentError(f"{path}: is not a Python file, expected a name that ends in {SUFFIX}")
    source = read_text(path)
    digest = hashlib.sha256(source.encode()).hexdigest()
    with within(source):
        return _run_module(path, source, f"hdrl_agent_{digest[:16]}"), digest


def _locate_error(error: BaseException, path: Path) -> AgentError | None:
    """Return an error that names the line of a file, or ``None`` if the file had no part in it."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [str(frame.lineno) for frame in frames if frame.filename == str(path)]
    if not lines:  # code that the file has made of text
        made = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        lines = [readable(one.f_code.co_filename) for one in made if one.f_globals.get("__file__") == str(path)]
    if not lines:
        return None
    return AgentError(f"{path}:{lines[-1]}: {type(error).__name__}: {one_line(error)}{_hint(error)}")


def _hint(error: BaseException) -> str:
    """Return a hint for the author, after a semicolon; empty if nothing is known."""
    if isinstance(error, ModuleNotFoundError) and str(error.name).split(".")[0] == "hdeeprm":
        return "; its classes are in hdrl.compat.hdeeprm.bases"
    if isinstance(error, AttributeError) and error.name:
        if columns := _columns(error.obj):
            return f"; its columns are read by [...], {suggest(error.name, columns)}"
        if type(error.obj).__module__.startswith("hdrl."):
            known = getattr(error.obj, "_fields", None) or [name for name in dir(type(error.obj)) if name[0] != "_"]
            return f"; {suggest(error.name, known)}"
    # NumPy does not say which array it was.
    if isinstance(error, ValueError) and (asked := str(error).removeprefix(NO_COLUMN)) != str(error):
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        columns = tuple(name for value in frame.f_locals.values() for name in _columns(value))
        return f"; {suggest(asked, columns)}" if columns else ""
    return ""


def _columns(value: object) -> tuple[str, ...]:
    """Return the names of the columns of an array of rows; of anything else, none."""
    return getattr(getattr(value, "dtype", None), "names", None) or ()


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line; that of a user's own class may fail itself."""
    try:
        text = str(error)
    except Exception as second:  # noqa: BLE001
        return f"its error message cannot be displayed ({type(second).__name__})"
    return readable(" ".join(text.split()), MAX_SHOWN_PATH) or "no message"


def check_call(function: Callable[..., Any] | None, words: str, path: Path) -> None:
    """Refuse a function that cannot be called with these arguments, or does not answer at once."""
    code = getattr(function, "__code__", None)
    if function is None or code is None:
        return
    found = f"{path}:{code.co_firstlineno}: {function.__name__}{inspect.signature(function)}"
    if inspect.iscoroutinefunction(function):
        raise AgentError(f"{found} is a coroutine, expected a function {function.__name__}({words})")
    try:
        inspect.signature(function).bind(*words.split(", "))
    except TypeError:
        raise AgentError(f"{found} takes other arguments, expected {function.__name__}({words})") from None


class located_errors:
    """The boundary of a user's code: what it does instead of its work becomes one error with its file and line.

    Neither ``sys.exit`` nor ``os._exit`` ends the process from there, since that would look like success. Ctrl-C, where
    it is not ignored, and errors without a part of the file in them pass.

    ``path`` is ``None`` for code that is no user's.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._exit = os._exit

    def __enter__(self) -> None:
        """Begin."""
        if self._path is not None:
            self._exit = os._exit
            os._exit = _refuse_exit(os._exit)  # type: ignore[assignment]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End, with an error that names the file if there is one."""
        if self._path is None:
            return
        os._exit = self._exit
        if isinstance(error, HdrlError):
            located = _with_path(error, self._path)
            if located is not error:
                raise located from None
        elif error is not None and not _is_signal(error):
            found = _found(error, self._path)
            if found is not None:
                raise found from error


def _is_signal(error: BaseException) -> bool:
    """Tell whether a signal was the cause: Ctrl-C, unless it is ignored, or another one, which is of a subclass."""
    if type(error) is KeyboardInterrupt:
        return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    return isinstance(error, KeyboardInterrupt)


def _refuse_exit(leave: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
    """Return a substitute for ``os._exit`` while a user's code runs; children of that code end as always."""
    process = os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != process:
            leave(status)
        raise SystemExit(f"os._exit({status})")

    return refuse


def _with_path(error: HdrlError, path: Path) -> HdrlError:
    """Return an error about what an agent did, with its file before it if it is not."""
    text = str(error)
    if not isinstance(error, (AgentError, DecisionError)) or text.startswith(str(path)):
        return error
    kind = AgentError if isinstance(error, AgentError) else DecisionError
    return kind(f"{path}: {text.removeprefix(f'{path.name}: ')}")


def _found(error: BaseException, path: Path) -> AgentError | None:
    """Return the error to blame on the file, ``None`` if the file is not at fault."""
    if isinstance(error, NotImplementedError):  # a method of a base that has to be overridden
        return AgentError(f"{path}: {error or 'a method is missing that its base does not define'}")
    found = _locate_error(error, path)
    if found is None and not isinstance(error, Exception):
        return AgentError(f"{path}: {type(error).__name__}: {one_line(error)}")
    return found


def _run_module(path: Path, source: str, name: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = str(path)
    try:
        code = compile(source, str(path), "exec")
    except SyntaxError as error:
        raise AgentError(f"{path}:{error.lineno or 1}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:  # NUL characters, absurd nesting
        raise AgentError(f"{path}: is not Python ({error})") from None
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        with located_errors(path):
            exec(code, module.__dict__)
    except HdrlError:
        raise
    except Exception as error:
        raise AgentError(f"{path}: {type(error).__name__}: {one_line(error)}") from error
    return module

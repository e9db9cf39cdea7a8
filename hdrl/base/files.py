"""Reading and writing files: clear errors on the way in, all or nothing on the way out."""

from __future__ import annotations

import contextlib
import errno
import functools
import gzip
import io
import json
import math
import os
import re
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NoReturn

from hdrl.base.errors import OptionsError, OutputError, ReadError, readable, suggest
from hdrl.base.pipes import file_of_pipe, is_pipe


def expanded(path: str | Path) -> Path:
    """Return a path with ``~`` and ``~name`` replaced by the home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ReadError(path, "has no home folder, expected ~ of a known user or a path without it") from None


def find_file(name: str | Path, shipped: Mapping[str, Path], what: str) -> Path:
    """Return the file that is given by a path, or by the name of one that comes with hdrl.

    Parameters
    ----------
    name
        A path or a bare name. A file of that name in the current folder comes first. What comes through a pipe
        (``/dev/stdin``) is kept in a file.
    what
        Their kind, for messages: ``"platform"``.

    Raises
    ------
    ReadError
        If a bare name is neither.
    """
    if is_pipe(name):
        return file_of_pipe(str(name))
    path = Path(name)
    try:
        is_file = path.is_file()
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise ReadError(path, f"cannot be read ({error.strerror})") from None
    if is_file or path.suffix or len(path.parts) > 1:
        return path
    if str(name) in shipped:
        return shipped[str(name)]
    if path.is_dir():
        raise ReadError(name, f"is a folder, expected a file or the name of a shipped {what}")
    raise ReadError(name, f"no such file, and no shipped {what} of that name; {suggest(str(name), shipped)}")


UNPACKED_VARIABLE = "HDRL_MAX_UNPACKED_MIB"
"""Name of the environment variable with the MiB to which a compressed file may grow."""

_CHUNK_BYTES = 2**17

DEFAULT_MAX_UNPACKED_MIB = 512
"""More than all but a few public logs need; a damaged or hostile file of some MB would fill the memory."""


def max_unpacked_bytes() -> int:
    """Return the largest size of the contents of a compressed file, in bytes."""
    text = os.environ.get(UNPACKED_VARIABLE, "")
    if not text:
        return DEFAULT_MAX_UNPACKED_MIB * 2**20
    if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) == 0:
        raise OptionsError(f"{UNPACKED_VARIABLE} is {readable(repr(text))}, expected a whole number of MiB, at least 1")
    return int(text) * 2**20


_GZIP_BEGINS = b"\x1f\x8b"


def is_plain_file(path: Path, max_bytes: int) -> bool:
    """Return whether a path is a file, no link, and `read_text` reads at most ``max_bytes`` bytes from it."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > max_bytes:
            return False
        with path.open("rb") as file:
            return file.read(2) != _GZIP_BEGINS
    except (OSError, ValueError):  # ValueError: no path at all
        return False


class _Bounded(io.RawIOBase):
    """Stream of a compressed file, a pipe or a device, up to a bound."""

    def __init__(self, path: Path, content: Any) -> None:
        self._path = path
        self._bound = self._left = max_unpacked_bytes()
        self._content = content

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n_bytes: int = self._content.readinto(buffer)
        self._left -= n_bytes
        if self._left < 0:
            most = f"{self._bound // 2**20:,} MiB"
            what = " when decompressed" if isinstance(self._content, gzip.GzipFile) else ""
            raise ReadError(self._path, f"holds more than {most}{what}; set {UNPACKED_VARIABLE} to read it")
        return n_bytes


@contextlib.contextmanager
def open_bytes(path: Path, *, by_content: bool = False) -> Iterator[IO[bytes]]:
    """Open a file to be read; what gzip has packed, or has a name that ends in ``.gz``, is decompressed piece by piece.

    Parameters
    ----------
    by_content
        True if a name that ends in ``.gz`` means nothing: some download tools unpack what they fetch.

    Yields
    ------
    IO[bytes]
        The open file.

    Raises
    ------
    ReadError
        If the file is missing, no file, unreadable, truncated, or too large when decompressed or for the memory.
    """
    try:
        with path.open("rb") as file:
            if (path.suffix != ".gz" or by_content) and file.peek(2)[:2] != _GZIP_BEGINS:
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    yield file
                else:  # a device may have no end
                    with io.BufferedReader(_Bounded(path, file), _CHUNK_BYTES) as stream:
                        yield stream
                return
            with (
                gzip.GzipFile(fileobj=file) as content,
                io.BufferedReader(_Bounded(path, content), _CHUNK_BYTES) as stream,
            ):
                yield stream
    except (FileNotFoundError, NotADirectoryError):
        raise ReadError(path, "no such file") from None
    except IsADirectoryError:
        raise ReadError(path, "is a folder, expected a file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ReadError(path, f"cannot be decompressed ({error})") from None
    except MemoryError:
        raise ReadError(path, "does not fit into the memory") from None
    except OSError as error:
        raise ReadError(path, f"cannot be read ({error.strerror})") from None


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file; a name that ends in ``.gz`` is decompressed."""
    path = Path(path)
    with open_bytes(path) as stream:
        try:
            return stream.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ReadError(path, f"is not UTF-8 text (byte {error.start})") from None


def read_json(path: str | Path, *, read_float: Callable[[str], float] = float) -> Any:
    """Return the contents of a JSON file.

    ``read_float`` makes a number of a text with a point or an exponent.

    Raises
    ------
    ReadError
        If it cannot be read, is no JSON, repeats a key within an object, or holds NaN, an infinity or a text that
        cannot be written again.
    """
    text = read_text(path)
    if not text.strip():
        raise ReadError(path, "is empty, expected JSON")

    def no_constant(constant: str) -> NoReturn:
        raise ReadError(path, f"holds {constant}, expected finite numbers")

    def finite(number: str) -> float:
        value = read_float(number)
        if not math.isfinite(value):
            raise ReadError(path, f"holds {number}, expected finite numbers")
        return value

    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise ReadError(path, f"key {twice!r} appears twice in one object")
        return result

    try:
        data = json.loads(text, parse_constant=no_constant, parse_float=finite, object_pairs_hook=no_duplicates)
    except json.JSONDecodeError as error:
        raise ReadError(path, f"is not JSON: {error.msg}", line=error.lineno, column=error.colno) from None
    except (RecursionError, MemoryError):
        raise ReadError(path, "is nested too deeply, or does not fit into the memory") from None
    except ValueError as error:  # an integer of thousands of digits
        raise ReadError(path, f"is not usable JSON: {error}") from None
    _check_writable(path, text, data)
    return data


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_HALF = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Halves of surrogate pairs, but for those by which Python writes bytes of file names that are not UTF-8."""


def _check_writable(path: str | Path, text: str, data: Any) -> None:
    """Refuse texts and keys of a JSON file that no file in UTF-8 can hold."""
    left: list[tuple[str, Any]] = [] if _SURROGATE.search(text) is None else [("", data)]
    while left:
        position, one = left.pop()
        if isinstance(one, str) and _HALF.search(one) is not None:
            raise ReadError(path, f"{readable(position) or 'it'} holds {readable(repr(one))}, expected valid Unicode")
        if isinstance(one, dict):
            left += [("a key" + (f" of {position}" if position else ""), key) for key in one]
            left += [(f"{position}.{key}".lstrip("."), value) for key, value in one.items()]
        elif isinstance(one, list):
            left += [(f"{position}[{number}]", value) for number, value in enumerate(one)]


@contextlib.contextmanager
def output_errors(path: str | Path, what: str = "written") -> Iterator[None]:
    """Say in one line that a file or folder cannot be written, or made, ..."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileExistsError) and error.filename and not Path(error.filename).is_dir():
            raise OutputError(f"{error.filename}: is a file, expected a folder") from None
        raise OutputError(f"{path}: cannot be {what} ({error.strerror or error})") from None


@contextlib.contextmanager
def atomic_write_bytes(path: str | Path) -> Iterator[IO[bytes]]:
    """Write a binary file so that it appears whole or not at all."""
    path = Path(path)
    temporary: Path | None = None
    try:
        with output_errors(path):
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            temporary = Path(name)
            umask = os.umask(0)
            os.umask(umask)
            os.fchmod(handle, 0o666 & ~umask)
            with os.fdopen(handle, "wb") as raw:
                yield raw
            temporary.replace(path)
            temporary = None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[IO[str]]:
    """Write a text file, whole or not at all; gzip it, without a date, if its name ends in ``.gz``."""
    path = Path(path)
    with atomic_write_bytes(path) as raw:
        binary: IO[bytes] = raw
        if path.suffix == ".gz":
            binary = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)  # type: ignore[assignment]
        # The name of a file need not be text; pages and notes name such a file by its bytes.
        with io.TextIOWrapper(binary, encoding="utf-8", errors="backslashreplace", newline="") as text:
            yield text


def without_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by name as JSON can hold them: ``None`` for numbers that are not finite."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }


def check_new(path: Path, *, force: bool = False) -> None:
    """Refuse to replace a file, unless the user asks for that.

    Raises
    ------
    OutputError
        If it exists.
    """
    if path.exists() and not force:
        raise OutputError(f"{path}: exists already, expected the name of a new file (--force replaces it)")


def write_json(path: str | Path, value: object, *, indent: int | None = 2) -> None:
    """Write a value as JSON, atomically.

    NaN and infinities are refused. Without ``indent``, all is one line.
    """
    with atomic_write(path) as out:
        json.dump(value, out, indent=indent, allow_nan=False)
        out.write("\n")


_MANY_LINKS = 40
"""Symbolic links in a path beyond which the system gives up, too."""


def _trusted_users() -> frozenset[int]:
    """Return the users whose files this user has to trust: this one, root, and root outside of a container."""
    return frozenset((0, os.geteuid(), _owner_of_the_system()))


@functools.cache
def _owner_of_the_system() -> int:
    return Path("/").stat().st_uid


def changeable_reason(found: os.stat_result) -> str:
    """Describe how users other than this one and root can change a file or folder; empty if they cannot."""
    if not hasattr(os, "geteuid"):  # not POSIX
        return ""
    if found.st_uid not in _trusted_users():
        return f"belongs to user {found.st_uid}"
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        return "is writable by everybody"
    # A group with the number of its only user holds no other user.
    if found.st_mode & stat.S_IWGRP and not found.st_mode & stat.S_ISVTX and found.st_gid not in (0, found.st_uid):
        return f"is writable by group {found.st_gid}"
    return ""


def unsafe_reason(folder: Path) -> str:
    """Describe how users other than this one and root can change the target of a path; empty if they cannot.

    Every folder of the path counts, those included that symbolic links lead through.

    Folders that do not exist yet count as safe.
    """
    if not hasattr(os, "geteuid"):
        return ""
    left, seen, n_links = list(reversed(folder.absolute().parts)), Path(), 0
    while left:
        part = left.pop()
        if part == "..":  # links before it have been followed
            seen = seen.parent
            continue
        here = seen / part
        try:
            found = here.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            return f"{here} cannot be looked at ({error.strerror})"
        if stat.S_ISLNK(found.st_mode):
            n_links += 1
            if n_links > _MANY_LINKS:
                return f"{here} leads nowhere"
            if found.st_uid not in _trusted_users():
                return f"{here} belongs to user {found.st_uid}"
            target = here.readlink()
            left += reversed(target.parts)
            seen = Path() if target.is_absolute() else seen
            continue
        if why := changeable_reason(found):
            return f"{here} {why}"
        seen = here
    return ""


def read_own(path: Path) -> bytes:
    """Return the contents of a file that only this user and root can have written.

    The file is no symbolic link, and no other user can put files into its folder (`unsafe_reason`).

    Raises
    ------
    PermissionError
        If it is no such file.
    OSError
        If it cannot be read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        found = os.fstat(file.fileno())
        is_enclosed = path.parent.stat().st_mode & 0o011 == 0  # closed to other users
        is_others = hasattr(os, "geteuid") and found.st_uid not in _trusted_users()
        if not stat.S_ISREG(found.st_mode) or is_others or (changeable_reason(found) and not is_enclosed):
            raise PermissionError(errno.EPERM, "is not a file of this user", str(path))
        return file.read()


CACHE_VARIABLE = "HDRL_CACHE"
"""Name of the environment variable with the folder for what is kept between runs."""


def user_folder(name: str) -> Path:
    """Return a folder for what is kept between runs; it need not exist.

    It is in the folder that ``HDRL_CACHE`` names, else in ``hdrl`` in the user's folder for caches
    (``XDG_CACHE_HOME``, by default ``~/.cache``).

    Raises
    ------
    ReadError
        If the user has no home folder and none is named.
    """
    if chosen := os.environ.get(CACHE_VARIABLE):
        return expanded(chosen) / name
    return Path(os.environ.get("XDG_CACHE_HOME") or expanded("~/.cache")) / "hdrl" / name

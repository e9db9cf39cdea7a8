"""Downloads over HTTP that continue where an interrupted one ended.

What has come of a file lies beside a note (``<file>.json``) that says which version of it the server was sending. The
next download asks for the rest of that very version; a server that has another one by now, or that cannot send parts
of files, sends all of it, and what was there is replaced.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from hdrl.base.errors import FetchError, MissingExtra, OutputError, ReadError
from hdrl.base.files import read_json, write_json

if TYPE_CHECKING:
    from requests import Response

Progress = Callable[[int, int | None], None]
"""Gets the bytes that are there, and all bytes of the file (``None``: the server does not say)."""

TIMEOUT_S = (15.0, 60.0)
"""Patience for a connection, and for the next bytes."""

CHUNK_BYTES = 1 << 15

_NO_FILE = (404, 410)
_RANGE_NOT_SATISFIABLE = 416
_MAX_DIGITS = 18
_MAX_REASON = 60


@dataclass(frozen=True, slots=True)
class _Version:
    """Version of the file that the server was sending."""

    url: str
    validator: str
    size_bytes: int | None


@contextlib.contextmanager
def partial_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for what has come so far, alone; whatever is in it stays there for the next time.

    Its folder is made, and goes again if nothing came.

    Yields
    ------
    BinaryIO
        The file; what is written to it goes to its end, at once.

    Raises
    ------
    FetchError
        If another process has it open.
    OutputError
        If it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b", buffering=0)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror})") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_own_file = path.stat().st_ino == os.fstat(file.fileno()).st_ino
        except OSError:
            is_own_file = False
        if not is_own_file:
            raise FetchError(f"{path}: another process is fetching it")
        try:
            yield file
        finally:
            if path.is_file() and path.stat().st_size == 0:
                discard(path)
            with contextlib.suppress(OSError):  # others are in it
                path.parent.rmdir()


def discard(path: Path) -> None:
    """Remove a partial file, and the note beside it."""
    path.unlink(missing_ok=True)
    _note(path).unlink(missing_ok=True)


def download(url: str, path: Path, file: BinaryIO, *, max_bytes: int, progress: Progress | None = None) -> None:
    """Download a file, or what is missing of it.

    Parameters
    ----------
    path, file
        The partial file, open as by `partial_file`. After an error or Ctrl-C it holds the received bytes.
    max_bytes
        Largest file that is accepted, whether or not the server says how large it is.
    progress
        Called at the beginning and after each chunk.

    Raises
    ------
    MissingExtra
        If requests is not installed.
    FetchError
        If the server cannot be reached, has no such file, or too large a one, or the connection ends early.
    OutputError
        If it cannot be written.
    """
    report: Progress = progress or (lambda _n_bytes, _size_bytes: None)
    version = _read_note(path, url) if os.fstat(file.fileno()).st_size else None
    if version is not None and version.size_bytes == os.fstat(file.fileno()).st_size:
        report(version.size_bytes, version.size_bytes)
        return
    # From a server that cannot continue what we have, we request all of it.
    if not _get(url, path, file, version, max_bytes, report) and not _get(url, path, file, None, max_bytes, report):
        raise FetchError(f"{url}: the server sends a part of the file, expected all of it")


def require_requests() -> None:
    """Find out before anything else whether what fetches is there."""
    try:
        import requests  # noqa: F401 (importing is how it finds out)
    except ImportError:
        raise MissingExtra("requests", "fetch") from None


def _get(url: str, path: Path, file: BinaryIO, version: _Version | None, max_bytes: int, progress: Progress) -> bool:
    """Ask once; return whether the answer was one to this question."""
    require_requests()
    import requests
    from urllib3.exceptions import HTTPError

    n_bytes = os.fstat(file.fileno()).st_size if version is not None else 0
    size_bytes: int | None = None
    headers = {"Accept-Encoding": "identity"}  # the file as it is
    if version is not None:
        headers |= {"Range": f"bytes={n_bytes}-", "If-Range": version.validator}
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_S) as answer:
            if answer.status_code == _RANGE_NOT_SATISFIABLE and version is not None:
                return False
            _check_status(url, answer)
            if answer.status_code == requests.codes.partial_content:
                if version is None or _first_byte(answer) != n_bytes:
                    return False
            else:
                n_bytes = 0
            size_bytes = _size(url, answer, n_bytes, max_bytes)
            file.truncate(n_bytes)
            _write_note(path, url, answer, size_bytes)
            _copy(answer, file, n_bytes, size_bytes, progress, max_bytes)
    except requests.RequestException as error:
        raise FetchError(f"{url}: {_failure_reason(error)}") from None
    except HTTPError:
        raise _ended_early(url, file, size_bytes) from None
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from None
    if size_bytes is not None and os.fstat(file.fileno()).st_size != size_bytes:
        raise _ended_early(url, file, size_bytes)
    return True


def _copy(
    answer: Response, file: BinaryIO, n_bytes: int, size_bytes: int | None, progress: Progress, max_bytes: int
) -> None:
    progress(n_bytes, size_bytes)
    # Some servers call the compression of the file an encoding of the answer: it must not be undone.
    for chunk in answer.raw.stream(CHUNK_BYTES, decode_content=False):
        n_bytes += len(chunk)
        if n_bytes > max_bytes:
            file.truncate(0)  # how much would follow is unknown
            raise FetchError(f"{answer.url}: has more than {max_bytes:,} bytes, {_allowed(max_bytes)}")
        file.write(chunk)
        progress(n_bytes, size_bytes)


def _check_status(url: str, answer: Response) -> None:
    status = answer.status_code
    if status in _NO_FILE:
        raise FetchError(f"{url}: the server has no such file ({status})")
    if status not in (200, 206):
        reason = answer.reason or ""
        shown = f" {reason}" if reason.isprintable() and 0 < len(reason) <= _MAX_REASON else ""
        raise FetchError(f"{url}: the server answers {status}{shown}, expected the file")


def _first_byte(answer: Response) -> int | None:
    match = re.fullmatch(rf"bytes (\d{{1,{_MAX_DIGITS}}})-\d+/(\d+|\*)", answer.headers.get("Content-Range", ""))
    return int(match[1]) if match else None


def _size(url: str, answer: Response, n_bytes: int, max_bytes: int) -> int | None:
    """Return the size of the whole file, if the server says it, of which the answer lacks the first bytes."""
    length = answer.headers.get("Content-Length", "")
    if not length.isdecimal() or len(length) > _MAX_DIGITS:
        return None
    size_bytes = n_bytes + int(length)
    if size_bytes > max_bytes:
        raise FetchError(f"{url}: has {size_bytes:,} bytes, {_allowed(max_bytes)}")
    return size_bytes


def _allowed(max_bytes: int) -> str:
    return f"expected at most {max_bytes:,}; --max-mib, in Python max_bytes, allows more"


def _failure_reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.exceptions.SSLError):
        return "the server cannot prove who it is (its certificate is not accepted)"
    if isinstance(error, requests.Timeout):
        return "the server does not answer in time"
    if isinstance(error, requests.ConnectionError):
        return "the server cannot be reached"
    return f"cannot be fetched ({type(error).__name__})"


def _ended_early(url: str, file: BinaryIO, size_bytes: int | None) -> FetchError:
    n_bytes = os.fstat(file.fileno()).st_size
    of = "" if size_bytes is None else f" of {size_bytes:,}"
    return FetchError(
        f"{url}: the connection ended after {n_bytes:,}{of} bytes; they are kept; fetch again to continue"
    )


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _write_note(path: Path, url: str, answer: Response, size_bytes: int | None) -> None:
    tag = answer.headers.get("ETag", "")
    # A weak tag promises the same meaning, not the same bytes.
    validator = tag if tag.startswith('"') else answer.headers.get("Last-Modified", "")
    write_json(_note(path), asdict(_Version(url, validator, size_bytes)))


def _read_note(path: Path, url: str) -> _Version | None:
    """Return the version of a partial file, if the server can use that."""
    try:
        version = _Version(**read_json(_note(path)))
    except (ReadError, TypeError):
        return None
    is_usable = version.url == url and isinstance(version.validator, str) and version.validator
    return version if is_usable else None

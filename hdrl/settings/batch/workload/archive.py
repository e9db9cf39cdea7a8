"""Logs of the Parallel Workloads Archive by name: fetched once, checked, kept in a folder of the user.

The archive: https://www.cs.huji.ac.il/labs/parallel/workload/ (D. Feitelson, D. Tsafrir, D. Krakov, *Experience with
Using the Parallel Workloads Archive*, JPDC 74, 2014). It asks that those who provided a log are named where it is used.

A log whose size and SHA-256 are not pinned in ``data/archive.json`` is trusted at the first download: both are
recorded beside it (``<file>.json``), and every later download and use must agree with them.
"""

from __future__ import annotations

import difflib
import gzip
import shutil
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hdrl.base.errors import FetchError, OptionsError, OutputError, ReadError, UnknownName
from hdrl.base.files import (
    CACHE_VARIABLE,
    UNPACKED_VARIABLE,
    atomic_write_bytes,
    max_unpacked_bytes,
    read_json,
    unsafe_reason,
    user_folder,
    write_json,
)
from hdrl.base.hashing import sha256_of_file
from hdrl.settings.batch.workload.download import Progress, discard, download, partial_file, require_requests
from hdrl.settings.batch.workload.swf import read_swf

ARCHIVE_URL = "https://www.cs.huji.ac.il/labs/parallel/workload"

_REGISTRY = Path(__file__).parent / "data" / "archive.json"
_PARTIAL = "partial"
_ROWS_LOOKED_AT = 100
_CHUNK_BYTES = 1 << 20

MAX_BYTES = 1 << 30
"""Largest file that is accepted unless more is allowed."""


@dataclass(frozen=True, slots=True)
class ArchiveLog:
    """A log that can be fetched.

    Attributes
    ----------
    name
        Its short name, for instance ``KTH-SP2``.
    title
        System and years.
    path
        Folder and file in the archive.
    version
        Conversion of the log; ``cln``: without flurries and other anomalies.
    n_jobs_recorded
        Jobs of the system's log before cleaning, as the archive says; ``None``: not known here.
    size_bytes, sha256
        Of the compressed file; ``None``: not pinned.
    acknowledgement
        Acknowledgement of those who provided it; ``None``: as the header of the log and its page say.
    """

    name: str
    title: str
    path: str
    version: str
    n_jobs_recorded: int | None
    size_bytes: int | None
    sha256: str | None
    acknowledgement: str | None

    @property
    def file(self) -> str:
        """Name of the file, which is also its name in the folder."""
        return self.path.rpartition("/")[2]

    @property
    def page(self) -> str:
        """The page of the archive on this log."""
        return f"{ARCHIVE_URL}/{self.path.rpartition('/')[0]}/index.html"


@dataclass(frozen=True, slots=True)
class FetchedLog:
    """A log that was fetched.

    Attributes
    ----------
    log
        The log.
    path
        The file.
    size_bytes, sha256
        Of the file.
    is_new
        True if it was downloaded now.
    thanks
        The ``Acknowledge`` lines of its header; empty if there are none.
    """

    log: ArchiveLog
    path: Path
    size_bytes: int
    sha256: str
    is_new: bool
    thanks: str


@dataclass(frozen=True, slots=True)
class _Expected:
    """Expected properties of a file, and their source."""

    size_bytes: int | None
    sha256: str | None
    source: str


def archive_logs() -> dict[str, ArchiveLog]:
    """Return the logs that can be fetched, by name, sorted."""
    entries: dict[str, dict[str, Any]] = read_json(_REGISTRY)["logs"]
    return {name: ArchiveLog(name, **entry) for name, entry in sorted(entries.items())}


def find_archive_log(name: str) -> ArchiveLog:
    """Return a log by its name; upper and lower case are the same.

    Raises
    ------
    UnknownName
        If there is none; it says the nearest.
    """
    logs = archive_logs()
    known = {one.casefold(): one for one in logs}
    if name.casefold() in known:
        return logs[known[name.casefold()]]
    error = UnknownName("log of the Parallel Workloads Archive", name, logs)
    near = difflib.get_close_matches(name.casefold(), known, n=1)
    if near:
        error.args = (f"no log {name!r} of the Parallel Workloads Archive; did you mean {known[near[0]]!r}?",)
    raise error


def fetch_folder() -> Path:
    """Return the folder in which fetched logs are kept; it need not exist.

    It is ``workloads`` in the folder that ``HDRL_CACHE`` names, else in ``hdrl`` in the user's folder for caches
    (``XDG_CACHE_HOME``, by default ``~/.cache``).
    """
    return user_folder("workloads")


def fetch_log(
    name: str,
    *,
    folder: str | Path | None = None,
    base_url: str = ARCHIVE_URL,
    max_bytes: int = MAX_BYTES,
    progress: Progress | None = None,
) -> FetchedLog:
    """Return a log of the archive, downloaded if it is not there yet.

    It appears under its name only when it is whole, has the expected size and SHA-256, and is a log. What an
    interrupted download leaves is in the folder ``partial`` beside it, and the next call continues from there.
    A file that is there and is not what it should be is downloaded again.

    Parameters
    ----------
    folder
        Folder of the file; `fetch_folder` by default.
    base_url
        Address of the archive, or of a mirror with the same folders.
    max_bytes
        Largest file that is accepted; 1 GiB by default.
    progress
        Gets the bytes that are there and all bytes (``None``: not known).

    Raises
    ------
    UnknownName
        If there is no such log.
    MissingExtra
        If requests is not installed.
    FetchError
        If it cannot be had, or is not what it should be.
    OutputError
        If it cannot be written.
    """
    require_requests()
    log = find_archive_log(name)
    url = f"{_checked_url(base_url)}/{log.path}"
    kept_in = Path(folder) if folder is not None else fetch_folder()
    if folder is None and (why := unsafe_reason(kept_in)):
        raise FetchError(f"{kept_in}: others could replace logs there: {why}; name another folder in {CACHE_VARIABLE}")
    target = kept_in / log.file
    expected = _expected(log, target)
    if target.is_file():
        found = _looked_at(log, target, expected)
        if found is not None:
            return found
    return _download(log, url, target, expected, max_bytes, progress)


def copy_log(fetched: FetchedLog, out: str | Path) -> None:
    """Write a fetched log to another file, compressed if its name ends in ``.gz``.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    opener = open if Path(out).suffix == ".gz" else gzip.open
    with atomic_write_bytes(out) as target, opener(fetched.path, "rb") as source:
        shutil.copyfileobj(source, target)


def _download(
    log: ArchiveLog, url: str, target: Path, expected: _Expected, max_bytes: int, progress: Progress | None
) -> FetchedLog:
    partial = target.parent / _PARTIAL / log.file
    with partial_file(partial) as file:
        download(url, partial, file, max_bytes=max_bytes, progress=progress)
        try:
            _check(url, partial, expected)
            thanks = _check_is_log(url, partial)
        except FetchError:
            discard(partial)
            raise
        fetched = FetchedLog(log, target, partial.stat().st_size, _sha256(partial), is_new=True, thanks=thanks)
        _write_record(fetched, url)
        try:
            partial.replace(target)
        except OSError as error:
            raise OutputError(f"{target}: cannot be written ({error.strerror})") from None
        discard(partial)
    return fetched


def _looked_at(log: ArchiveLog, path: Path, expected: _Expected) -> FetchedLog | None:
    """Return the log that is there, if it is what it should be."""
    try:
        _check(str(path), path, expected)
        thanks = _check_is_log(str(path), path)
    except FetchError:
        return None
    fetched = FetchedLog(log, path, path.stat().st_size, _sha256(path), is_new=False, thanks=thanks)
    if not _record(path).is_file():
        _write_record(fetched, None)
    return fetched


def _check(what: str, path: Path, expected: _Expected) -> None:
    """Compare size and SHA-256."""
    size_bytes = path.stat().st_size
    if expected.size_bytes is not None and size_bytes != expected.size_bytes:
        raise FetchError(f"{what}: has {size_bytes:,} bytes, expected {expected.size_bytes:,} ({expected.source})")
    if expected.sha256 is not None and (found := _sha256(path)) != expected.sha256:
        raise FetchError(f"{what}: its SHA-256 is {found}, expected {expected.sha256} ({expected.source})")


def _check_is_log(what: str, path: Path) -> str:
    """Find out that a file is a whole gzip file and a log, and return the acknowledgement in its header."""
    try:
        left = max_unpacked_bytes()
        with gzip.open(path) as content:
            while n_bytes := len(content.read(_CHUNK_BYTES)):
                left -= n_bytes
                if left < 0:
                    text = f"holds more than {max_unpacked_bytes() // 2**20:,} MiB when decompressed"
                    raise FetchError(f"{what}: {text}; set {UNPACKED_VARIABLE} to keep it")
        log = read_swf(path, max_rows=_ROWS_LOOKED_AT)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FetchError(f"{what}: is not a whole gzip file ({error})") from None
    except OSError as error:
        raise ReadError(path, f"cannot be read ({error.strerror})") from None
    except ReadError as error:
        where = "" if error.line is None else f" (line {error.line})"
        raise FetchError(f"{what}: is not a log in the Standard Workload Format{where}") from None
    return log.header.get("Acknowledge", "")


def _sha256(path: Path) -> str:
    try:
        return sha256_of_file(path)
    except OSError as error:
        raise ReadError(path, f"cannot be read ({error.strerror})") from None


def _checked_url(base_url: str) -> str:
    if not base_url.startswith(("https://", "http://")):
        raise OptionsError(f"base URL {base_url!r}: expected https://... or http://...")
    return base_url.rstrip("/")


def _record(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _write_record(fetched: FetchedLog, url: str | None) -> None:
    """Write down what was fetched, unless that was done before: the first record is the one that counts."""
    record = _record(fetched.path)
    if not record.is_file():
        now = datetime.now(UTC).isoformat(timespec="seconds")
        data = {"url": url, "recorded": now, "size_bytes": fetched.size_bytes, "sha256": fetched.sha256}
        write_json(record, data)


def _expected(log: ArchiveLog, path: Path) -> _Expected:
    """Return the pinned properties, else the recorded ones."""
    if log.sha256 is not None:
        return _Expected(log.size_bytes, log.sha256, "as the archive had it")
    record = _record(path)
    if not record.is_file():
        return _Expected(log.size_bytes, None, "as the archive had it")
    data = read_json(record)
    if not isinstance(data, dict) or not isinstance(data.get("size_bytes"), int) or not data.get("sha256"):
        raise ReadError(
            record, "is not a record of a download, expected size_bytes and sha256; remove it to start anew"
        )
    return _Expected(
        data["size_bytes"], data["sha256"], f"as at the first download; if the log was replaced, remove {record}"
    )

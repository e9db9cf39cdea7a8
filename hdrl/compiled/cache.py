"""Cache of compiled code on disk: a folder named after a hash of the sources.

Numba itself only looks at the file of the function that Python calls, and would run stale code after a change
elsewhere. The folder lies in the user's folder for caches, so that every installation with the same sources finds it,
else beside this package, else in a temporary one.

What is in it runs as machine code. So it is used only where no one but this user and root can have written it: every
folder of its path and every file is looked at (`hdrl.base.files.unsafe_reason`, `hdrl.base.files.read_own`).
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from hdrl.base.errors import ReadError
from hdrl.base.files import changeable_reason, unsafe_reason, user_folder
from hdrl.compiled.backends import IS_FAST, JIT_DISABLED, NUMBA_VERSION, PLAIN_NUMBA
from hdrl.compiled.intact import damaged_in, remove_damaged

_HERE = Path(__file__).parent
_LOG = logging.getLogger(__name__)

CHOSEN_VARIABLE = "NUMBA_CACHE_DIR"
"""Name of the environment variable with the folder to use instead; Numba's own."""

KEPT_S = 30 * 86400.0
"""Folders of other sources are removed when no process has used them for that long."""

_STAMP = "-numba-"


def _files_of(sources: Iterable[Path]) -> Iterator[Path]:
    """Yield files, of folders those in Python."""
    for source in sources:
        yield from sorted(source.rglob("*.py")) if source.is_dir() else [source]


def source_hash(sources: Iterable[Path]) -> str:
    """Return a hash of the sources that compiled code depends on; those of this package are among them.

    ``sources``: files, and folders of which every Python file counts.
    """
    digest = hashlib.sha256()
    for path in _files_of([_HERE, *sources]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_parents() -> list[Path]:
    """Return the folders in which compiled code may be kept, the best one first."""
    chosen = os.environ.get(CHOSEN_VARIABLE)
    if chosen:
        return [Path(chosen)]
    with contextlib.suppress(ReadError):  # no home folder
        return [user_folder("compiled"), _HERE / "__pycache__"]
    return [_HERE / "__pycache__"]


def _is_writable(folder: Path) -> bool:
    try:
        _make_private(folder)
        if unsafe_reason(folder):  # another process made it first, or a folder above it
            return False
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _make_private(folder: Path) -> None:
    """Make a folder that only this user may enter; what another one could have put into it before is removed."""
    for one in reversed([folder, *folder.parents]):
        with contextlib.suppress(FileExistsError):
            one.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        folder.unlink()
    elif changeable_reason(found) and found.st_uid == os.geteuid():
        shutil.rmtree(folder)
    else:
        return
    folder.mkdir(mode=0o700)


def _is_shared(folder: Path) -> bool:
    """Tell whether only root may change a folder, which holds sound code: in the image of a container, for instance."""
    return IS_FAST and folder.is_dir() and not os.access(folder, os.W_OK) and not damaged_in(folder)


@cache
def _unsafe_reason(parent: Path) -> str:
    """Return why code in a folder cannot be trusted, and log it once; empty if it can."""
    why = unsafe_reason(parent)
    if why:
        _LOG.warning(
            "no compiled code is kept in %s, where others could replace it: %s. Take that right away, or name another "
            "folder in %s",
            parent,
            why,
            CHOSEN_VARIABLE,
        )
    return why


def cache_folder(prefix: str, sources: Iterable[Path]) -> Path:
    """Return the folder in which compiled code is kept; it exists and is writable.

    Damaged files in it are removed, and so are folders of other sources beside it that were unused for a month.

    - ``prefix``: how its name begins, for instance ``"hdrl-gpu"``.
    - ``sources``: what the code is compiled from: files, and folders of which every Python file counts.
    """
    if PLAIN_NUMBA:  # so that the code of the two ways lies apart
        prefix = f"plain-{prefix}"
    name = f"{prefix}-{source_hash(sources)}"
    parents = cache_parents()
    for parent in parents:
        if _unsafe_reason(parent.absolute()) or _is_foreign(parent / name):
            continue
        if _is_shared(parent / name):
            return parent / name
        if _is_writable(parent / name):
            _remove_unused(parent, prefix, name)
            if remove_damaged(parent / name):
                _LOG.warning("%s: the compiled code there was damaged; it is compiled again", parent / name)
                for stamp in (parent / name).glob(f"*{_STAMP}*"):
                    stamp.unlink(missing_ok=True)
            return parent / name
    folder = _temporary_folder(parents) / name
    folder.mkdir(mode=0o700)
    return folder


def _is_foreign(folder: Path) -> bool:
    """Tell whether a folder of code belongs to another user: it may lie in one that all may fill, such as /tmp."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    is_other = hasattr(os, "geteuid") and found.st_uid not in (0, os.geteuid())
    if is_other:
        _LOG.warning("%s: no compiled code is taken from there, since it belongs to user %d", folder, found.st_uid)
    return is_other


def _remove_unused(parent: Path, prefix: str, name: str) -> None:
    """Remove folders of other sources after a while; note that this one is used."""
    now_s = time.time()
    with contextlib.suppress(OSError):
        os.utime(parent / name)
    for other in parent.glob(f"{prefix}-*"):
        with contextlib.suppress(OSError):
            if other.name != name and now_s - other.stat().st_mtime > KEPT_S:
                shutil.rmtree(other, ignore_errors=True)


def _temporary_folder(parents: list[Path]) -> Path:
    """Return a folder that goes when this process ends; processes that it starts find it, too."""
    folder = Path(tempfile.mkdtemp(prefix="hdrl-compiled-"))
    _LOG.warning(
        "no folder for compiled code can be written (%s); it is compiled at every start. Name one in %s",
        ", ".join(str(parent) for parent in parents),
        CHOSEN_VARIABLE,
    )
    os.environ[CHOSEN_VARIABLE] = str(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@dataclass
class _Announcements:
    """Announcements of compilation that this process has made.

    - ``listener``: gets the announcements; by default the log.
    - ``expected``: folders that `compile_once` fills, which has its own announcements.
    - ``surprising``: folders that something else filled.
    """

    listener: Callable[[str], None] = _LOG.warning
    expected: set[Path] = field(default_factory=set)
    surprising: set[Path] = field(default_factory=set)


_announcements = _Announcements()


@contextlib.contextmanager
def announcing(listener: Callable[[str], None]) -> Iterator[None]:
    """Send announcements of compiling to a listener instead of the log.

    Parameters
    ----------
    listener
        Gets a line before compiling that takes long.
    """
    before = _announcements.listener
    _announcements.listener = listener
    try:
        yield
    finally:
        _announcements.listener = before


SIMULATOR = "compiling the simulator (the first time only, about half a minute)"
"""Message about the compilation of simulation code."""


def announce_compiling(folder: Path, text: str = SIMULATOR) -> None:
    """Say that code is compiled into a folder now, once, unless `compile_once` has said so.

    A caller of a simulation or an environment in Python would otherwise wait for half a minute without a reason.
    """
    if folder not in _announcements.expected | _announcements.surprising:
        _announcements.surprising.add(folder)
        _announcements.listener(text)


def compile_once(
    folder: Path, name: str, text: str, run: Callable[[], object], message: Callable[[str], None] | None
) -> None:
    """Run a function that fills the cache if it has never run here; later processes load the code from the cache.

    - ``text``: what to say before it takes long.
    - ``run``: calls the functions in question.
    - ``message``: gets the text; ``None``: the listener of `announcing` gets it.
    """
    stamp = folder / f"{name}{_STAMP}{NUMBA_VERSION}"
    if JIT_DISABLED or stamp.exists():
        return
    _announcements.expected.add(folder)
    if folder not in _announcements.surprising:
        (message or _announcements.listener)(text)
    run()
    with contextlib.suppress(PermissionError):  # a shared folder that only root may change
        stamp.touch()


@dataclass(frozen=True)
class CachedCode:
    """Compiled code on disk.

    ``used_s``: when it was last used, in seconds since 1970.
    """

    folder: Path
    n_bytes: int
    used_s: float


def cached_code() -> list[CachedCode]:
    """Return all compiled code that is kept on disk, by folder."""
    found = []
    for parent in cache_parents():
        for folder in sorted([*parent.glob("hdrl-*"), *parent.glob("plain-hdrl-*")]):
            n_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            found.append(CachedCode(folder, n_bytes, folder.stat().st_mtime))
    return found


def clear_cached_code() -> int:
    """Remove all compiled code that is kept on disk; return how many bytes it took."""
    found = cached_code()
    for one in found:
        shutil.rmtree(one.folder, ignore_errors=True)
    return sum(one.n_bytes for one in found)

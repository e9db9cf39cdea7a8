"""Where compiled code is kept on disk: in a folder named after a hash of the sources that it is made of.

Numba itself only looks at the file of the function that Python calls, and would run stale code after a change
elsewhere. The folder lies beside this package where that is writable, else in the user's cache folder, else in a
temporary one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numba

from hdrl.compiled.ways import JIT_DISABLED, PLAIN_NUMBA

_HERE = Path(__file__).parent


def _files_of(sources: Iterable[Path]) -> Iterator[Path]:
    """Yield files, of folders those in Python."""
    for source in sources:
        yield from sorted(source.rglob("*.py")) if source.is_dir() else [source]


def source_hash(sources: Iterable[Path]) -> str:
    """Return a hash of the sources that compiled code depends on; those of this package are among them.

    Parameters
    ----------
    sources
        Files, and folders of which every Python file counts.
    """
    digest = hashlib.sha256()
    for path in _files_of([_HERE, *sources]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def cache_folder(prefix: str, sources: Iterable[Path]) -> Path:
    """Return the folder in which compiled code is kept; it exists and is writable.

    Folders of earlier versions of the sources beside it are removed.

    Parameters
    ----------
    prefix
        How its name begins, for instance ``"hdrl-gpu"``.
    sources
        What the code is compiled from: files, and folders of which every Python file counts.
    """
    if PLAIN_NUMBA:  # what is compiled in either way does not get in the way of the other
        prefix = f"plain-{prefix}"
    name = f"{prefix}-{source_hash(sources)}"
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hdrl"
    parents = [Path(chosen)] if chosen else [_HERE / "__pycache__", user]
    for parent in parents:
        if _is_writable(parent / name):
            for stale in parent.glob(f"{prefix}-*"):
                if stale.name != name:
                    shutil.rmtree(stale, ignore_errors=True)
            return parent / name
    return Path(tempfile.mkdtemp(prefix=f"{prefix}-"))


def compile_once(folder: Path, name: str, text: str, run: Callable[[], object], message: Callable[[str], None]) -> None:
    """Do what makes compiled code if it has never been done here; later processes load the code from the cache.

    Parameters
    ----------
    folder
        The folder of the cache.
    name
        What of it is compiled.
    text
        What to say before it takes long.
    run
        Calls the functions in question.
    message
        Told the text.
    """
    stamp = folder / f"{name}-numba-{numba.__version__}"
    if JIT_DISABLED or stamp.exists():
        return
    message(text)
    run()
    stamp.touch()

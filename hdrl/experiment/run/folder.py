"""Run folders: they appear whole or not at all, and never replace anything."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from hdrl.errors import OutputError


def check_free(folder: Path) -> None:
    """Check that a folder does not exist, or is empty.

    Parameters
    ----------
    folder
        The folder that is to be made.

    Raises
    ------
    OutputError
        If it holds something, or is a file.
    """
    try:
        if folder.is_dir():
            if any(folder.iterdir()):
                goes_on = "; --resume continues the training in it" if (folder / "resume.json").is_file() else ""
                raise OutputError(
                    f"{folder}: is not empty, expected a new folder (nothing is ever overwritten){goes_on}"
                )
        elif folder.exists():
            raise OutputError(f"{folder}: is a file, expected a new folder")
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written ({error.strerror or error})") from None


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Fill a folder under a temporary name next to it; rename it when all went well.

    Parameters
    ----------
    folder
        The folder to make; it must not exist, or be empty.

    Yields
    ------
    Path
        The folder to write to meanwhile.

    Raises
    ------
    OutputError
        If it cannot be made.
    """
    check_free(folder)
    temporary: Path | None = None
    try:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        except OSError as error:
            raise OutputError(f"{folder}: cannot be made ({error.strerror or error})") from None
        yield temporary
        check_free(folder)
        _publish(temporary, folder)
        temporary = None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def default_folder(options_sha256: str, now: datetime) -> Path:
    """Return the name of a run folder: ``runs/<time>-<hash>``.

    Parameters
    ----------
    options_sha256
        Hash of the options.
    now
        The time of the start.
    """
    return Path("runs") / f"{now:%Y%m%d-%H%M%S}-{options_sha256[:8]}"


def _publish(temporary: Path, folder: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    try:
        temporary.chmod(0o777 & ~umask)
        temporary.rename(folder)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made ({error.strerror or error})") from None

"""Which runs, trainings and comparisons there are in a folder, and what came of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hdrl.errors import ReadError
from hdrl.figures.folders import read_object


@dataclass(frozen=True, slots=True)
class Listed:
    """The folder of a run, a training or a comparison.

    Attributes
    ----------
    folder
        Where it is.
    kind
        ``run``, ``training`` or ``comparison``.
    is_complete
        Whether it is finished; otherwise it can be resumed.
    result
        The verdict of a comparison; what was run on what otherwise.
    """

    folder: Path
    kind: str
    is_complete: bool
    result: str


def list_runs(folder: str | Path) -> list[Listed]:
    """Return what was run in a folder and the folders in it, the newest last.

    Raises
    ------
    ReadError
        If there is no such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ReadError(folder, "no such folder")
    found = list(_found(folder))
    return sorted(found, key=lambda one: (one.folder.stat().st_mtime, one.folder))


def _found(folder: Path) -> Iterator[Listed]:
    listed = _listed(folder)
    if listed is not None:
        yield listed
        return
    for inside in sorted(folder.iterdir()):
        if inside.is_dir() and not inside.is_symlink() and not inside.name.startswith("."):
            yield from _found(inside)


def _listed(folder: Path) -> Listed | None:
    """Return what a folder is; ``None`` if hdrl has not made it."""
    summary, resumable = folder / "summary.json", (folder / "resume.json").is_file()
    if (folder / "sweep.json").is_file():
        if not summary.is_file() and not resumable:  # a sweep file alone is a question that nobody has run
            return None
        verdict = read_object(summary).get("verdict") or "nothing to compare"
        return Listed(folder, "comparison", summary.is_file(), str(verdict) if summary.is_file() else "")
    if not (folder / "options.resolved.json").is_file():
        return None
    kind = "training" if resumable else "run"
    return Listed(folder, kind, (folder / "metrics.json").is_file(), _what(folder))


def _what(folder: Path) -> str:
    origin = read_object(folder / "provenance.json")
    parts = [origin.get(key) for key in ("agent", "workload", "platform")]
    names = [part.get("name") if isinstance(part, dict) else part for part in parts]
    return ", ".join(str(name) for name in names if name)

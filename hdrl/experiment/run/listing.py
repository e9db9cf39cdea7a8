"""Runs, trainings and comparisons in a folder, and their results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hdrl.base.errors import ReadError
from hdrl.figures.folders import read_object
from hdrl.figures.numbers import metric_form
from hdrl.setting import BATCH, SETTINGS


@dataclass(frozen=True, slots=True)
class Listed:
    """The folder of a run, a training or a comparison."""

    folder: Path
    kind: str  # ``run``, ``training`` or ``comparison``
    is_complete: bool  # True if it is finished; otherwise it can be resumed
    result: str  # the verdict of a comparison; otherwise policy, workload and machine, and the metric that matters most
    when: datetime  # date of the last change, local time


def list_runs(folder: str | Path) -> list[Listed]:
    """Return the runs of a folder and of the folders in it, the newest last."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ReadError(folder, "is a file, expected a folder of runs" if folder.exists() else "no such folder")
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
    """Return the entry of a folder; ``None`` if hdrl has not made it."""
    summary, resumable = folder / "summary.json", (folder / "resume.json").is_file()
    if (folder / "sweep.json").is_file():
        if not summary.is_file() and not resumable:  # a sweep file alone, which was not run
            return None
        verdict = read_object(summary).get("verdict") or "nothing to compare"
        when = _written(folder, summary)
        return Listed(folder, "comparison", summary.is_file(), str(verdict) if summary.is_file() else "", when)
    if not (folder / "options.resolved.json").is_file():
        return None
    kind, metrics = "training" if resumable else "run", folder / "metrics.json"
    return Listed(folder, kind, metrics.is_file(), _title_of(folder), _written(folder, metrics))


def _written(folder: Path, last: Path) -> datetime:
    """Return the date at which a folder was finished: by the file that is written last, if it is there."""
    path = last if last.is_file() else folder
    return datetime.fromtimestamp(path.stat().st_mtime).astimezone()


def _title_of(folder: Path) -> str:
    origin = read_object(folder / "provenance.json")
    parts = [origin.get(key) for key in ("agent", "workload", "platform")]
    names = [part.get("name") if isinstance(part, dict) else part for part in parts]
    return ", ".join([*(str(name) for name in names if name), *_main_metric(folder)])


def _main_metric(folder: Path) -> list[str]:
    """Return the first metric that the setting of a run compares by, with its value; none if it is not known.

    To list folders runs no Python file, so nothing is known of settings from files.
    """
    name = read_object(folder / "options.resolved.json").get("setting", BATCH)
    if name not in SETTINGS:
        return []
    setting, values = SETTINGS[name], read_object(folder / "metrics.json")
    for name in setting.measures.compared:
        value = values.get(name)
        if isinstance(value, int | float):
            return [f"{name} {metric_form(name, setting.measures.metrics.get(name), [value]).quantity(value)}"]
    return []

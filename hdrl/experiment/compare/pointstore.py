"""Finished points on disk: kept through Ctrl-C and kills, taken up again by the next run."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from hdrl.base.errors import OutputError, ReadError, readable
from hdrl.base.files import output_errors, read_json
from hdrl.experiment.compare.points import PointResult
from hdrl.experiment.locks import is_held, lock

POINTS_FILE = "points.jsonl"
PROVENANCE_FILE = "provenance.json"


@dataclass(frozen=True, slots=True)
class Scope:
    """Size of a comparison."""

    n_cases: int  # number of cases that judge candidates; those with higher numbers choose the baseline
    n_points: int  # number of points
    may_grow: bool  # True if a baseline that is chosen may come on top


class PointStore:
    """The finished points of a comparison: one line each in ``points.jsonl``, after a line that identifies it.

    It refuses a folder of another comparison, or one in which another process works. ``scope`` is for those that watch
    it.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], metrics: Iterable[str], scope: Scope) -> None:
        self._metrics, self._scope = tuple(metrics), scope
        self._path = folder / POINTS_FILE
        self._results: dict[str, PointResult] = {}
        with output_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            is_fresh = not self._path.exists()
            if is_fresh and any(folder.iterdir()):
                raise OutputError(f"{folder}: is not empty and holds no unfinished comparison; expected a new folder")
            self._file: IO[bytes] = self._path.open("a+b")
        try:
            if not lock(self._file.fileno()):
                raise OutputError(f"{folder}: another process is working on this comparison")
            if is_fresh:
                self._begin(identity)
            else:
                self._read(folder, identity)
        except BaseException:
            self._file.close()
            raise

    @property
    def results(self) -> Mapping[str, PointResult]:
        """The finished points by key."""
        return self._results

    def add(self, results: Mapping[str, PointResult]) -> None:
        """Keep finished points."""
        self._results.update(results)
        for key, result in results.items():
            values = [result.metrics[name] for name in self._metrics]
            numbers = [number_as_json(value) for value in (result.offered_load, *values)]
            weeks = [[number_as_json(week[name]) for name in self._metrics] for week in result.weeks]
            line = {"point": key, "numbers": numbers, "problem": result.problem}
            self._write(line | ({"weeks": weeks} if weeks else {}))
        with output_errors(self._path):
            self._file.flush()

    def close(self) -> None:
        """Let go of the file, which stays."""
        self._file.close()

    def discard(self) -> None:
        """Delete the file, and the folder if nothing else is in it."""
        self._file.close()
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._path.parent.rmdir()

    def _write(self, line: Mapping[str, Any]) -> None:
        with output_errors(self._path):
            self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")

    def _read(self, folder: Path, identity: Mapping[str, Any]) -> None:
        """Read the finished points; drop a last line that was not written completely."""
        self._file.seek(0)
        complete_to = 0
        is_first = True
        for number, text in enumerate(iter(self._file.readline, b""), start=1):
            if not text.endswith(b"\n"):
                break
            try:
                line = json.loads(text)
                if is_first:
                    check_identity(folder, dict(line["identity"]), identity)
                else:
                    self._results[line["point"]] = _result_of(line, self._metrics)
            except (ValueError, KeyError, TypeError):
                raise OutputError(
                    f"{self._path}:{number}: is not a line of a comparison; expected a new folder"
                ) from None
            is_first = False
            complete_to = self._file.tell()
        self._file.truncate(complete_to)
        self._file.seek(complete_to)
        if is_first:
            self._begin(identity)

    def _begin(self, identity: Mapping[str, Any]) -> None:
        self._write({"identity": identity, "scope": asdict(self._scope)})
        with output_errors(self._path):
            self._file.flush()


def number_as_json(value: float) -> float | str | None:
    """Return a number as JSON can hold it: ``None`` for a missing one, ``"inf"`` or ``"-inf"`` beyond all bounds."""
    return value if math.isfinite(value) else None if math.isnan(value) else str(value)


def _result_of(line: Mapping[str, Any], names: Sequence[str]) -> PointResult:
    load, *values = (math.nan if number is None else float(number) for number in line["numbers"])
    weeks = tuple(
        {name: math.nan if number is None else float(number) for name, number in zip(names, week, strict=True)}
        for week in line.get("weeks", ())
    )
    return PointResult(dict(zip(names, values, strict=True)), load, str(line["problem"]), weeks)


@dataclass(frozen=True, slots=True)
class UnfinishedComparison:
    """State of an unfinished comparison."""

    points: Mapping[str, PointResult]  # the finished points by key, ``case/candidate/seed``
    scope: Scope | None  # size of the comparison; ``None``: not known
    is_worked_on: bool | None  # True if a process works on it; ``None``: not known


def read_unfinished(folder: Path, metrics: Iterable[str]) -> UnfinishedComparison:
    """Return the results of a comparison so far, while another process works on it."""
    path = folder / POINTS_FILE
    if not path.is_file():
        return UnfinishedComparison({}, None, None)
    names = tuple(metrics)
    try:
        # The last line may be half written; the first one says what is compared.
        first, *lines = [json.loads(line) for line in path.read_bytes().rpartition(b"\n")[0].splitlines()] or [{}]
        points = {line["point"]: _result_of(line, names) for line in lines}
        scope = Scope(**first["scope"]) if "scope" in first else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReadError(path, f"holds no points of a comparison ({error})") from None
    return UnfinishedComparison(points, scope, is_held(path))


def check_identity(folder: Path, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Check that a folder holds the requested comparison."""
    if any(found.get(key) != value for key, value in expected.items()):
        what = _difference(found, expected)
        raise OutputError(f"{folder}: holds another comparison ({what}); expected a new folder")


def _difference(found: Mapping[str, Any], expected: Mapping[str, Any], place: str = "") -> str:
    """Name the first entry that differs, with its values unless they are hashes or lists."""
    name = next(key for key in (*expected, *found) if found.get(key) != expected.get(key))
    there, here = found.get(name), expected.get(name)
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        return _difference(there, here, f"{place}{name}.")
    if all(isinstance(value, str | int | float) and len(str(value)) < _SHORT for value in (there, here)):
        return f"{place}{name} is {readable(str(there))}, not {readable(str(here))}"
    return f"{place}{name} differs"


_SHORT = 40
"""Number of characters from which a value is not shown in a message: hashes are longer."""


def finished_identity(folder: Path) -> Mapping[str, Any] | None:
    """Return the identity of the finished comparison in a folder; ``None`` if it holds none."""
    path = folder / PROVENANCE_FILE
    if not path.is_file() or (folder / POINTS_FILE).exists():
        return None
    data = read_json(path)
    identity = data.get("identity") if isinstance(data, dict) else None
    return identity if isinstance(identity, dict) else None

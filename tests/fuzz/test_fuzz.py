"""Whatever is in a file, and whenever a signal comes: a command works, or ends with one line and exit code 2.

``make fuzz`` goes on for as long as ``HDRL_FUZZ_SECONDS`` says, with other damage for each ``HDRL_FUZZ_SEED``; without
them, a few fixed inputs of each kind are tried. What is found can be repeated: the message says seed and number.
"""

import itertools
import os
import random
import shlex
import shutil
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hdrl.launcher.main import cli
from hdrl.report.page import charts

from . import areas
from .areas import AREAS, Places
from .judge import Finding
from .mutations import MAX_UNPACKED_MIB
from .signals import INTERRUPTED, interrupted

SECONDS = float(os.environ.get("HDRL_FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("HDRL_FUZZ_SEED", "0"))
FIRST = int(os.environ.get("HDRL_FUZZ_FIRST", "0"))
N_AREAS = len(AREAS) + len(INTERRUPTED)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    return Places(tmp_path_factory.mktemp("fuzz"))


@pytest.fixture(autouse=True)
def _little_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HDRL_MAX_UNPACKED_MIB", str(MAX_UNPACKED_MIB))


@pytest.fixture(autouse=True)
def _each_picture_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw pictures of reports in one width alone, unless there is time: drawing takes most of it."""
    if not SECONDS:
        monkeypatch.setattr(charts, "_svg", weak_cache(charts._svg))


def weak_cache(draw: Callable[[Any, tuple[float, float]], str]) -> Callable[[Any, tuple[float, float]], str]:
    drawn: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def once(drawing: Any, size_in: tuple[float, float]) -> str:
        if drawing not in drawn:
            drawn[drawing] = draw(drawing, size_in)
        return drawn[drawing]

    return once


def numbers(n: int) -> Iterator[int]:
    """Yield numbers of inputs: ``n`` of them, or as many as there is time for."""
    end_s = time.monotonic() + SECONDS / N_AREAS
    for number in itertools.count(FIRST):
        if time.monotonic() > end_s if SECONDS else number >= n:
            return
        yield number


def search(name: str, n: int, case: Callable[[random.Random], Finding | None]) -> None:
    """Try inputs of a kind; fail with one line for each way in which a command did not end in order."""
    found: dict[str, str] = {}
    tried = 0
    for number in numbers(n):
        tried += 1
        finding = case(random.Random(f"{SEED} {name} {number}"))
        if finding is not None:
            found.setdefault(finding.problem, f"input {number} ({shlex.join(finding.command)}): {finding.problem}")
    print(f"{name}: {tried} inputs")
    if found:
        pytest.fail("\n".join(found.values()), pytrace=False)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("area", AREAS)
def test_bad_inputs_end_in_one_line(area: str, places: Places):
    case, n = AREAS[area]
    search(area, n, lambda draw: case(places, draw))


class Undamaged(Places):
    """Good files only."""

    def damaged(self, name: str, draw: random.Random) -> Path:
        return super().damaged("", draw)

    def damaged_folder(self, folder: Path, draw: random.Random) -> Path:
        del draw
        shutil.rmtree(self.bad, ignore_errors=True)
        return Path(shutil.copytree(folder, self.bad))


class Nth(random.Random):
    """Draws the same place everywhere, so that each command of an area has its turn."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place

    def choice(self, seq: Sequence[Any]) -> Any:
        return seq[self.place % len(seq)]

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return self.place % (start if stop is None else stop)


@pytest.fixture(scope="module")
def undamaged(tmp_path_factory: pytest.TempPathFactory) -> Places:
    return Undamaged(tmp_path_factory.mktemp("undamaged"))


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("area", AREAS)
def test_what_is_damaged_was_good(area: str, undamaged: Places, monkeypatch: pytest.MonkeyPatch):
    """An area whose commands refuse the good files, too, tries nothing but refusals."""
    tried: dict[tuple[str, ...], str] = {}

    def run(command: Sequence[str], out: Path | None = None) -> None:
        del out
        if tuple(command) not in tried:
            ended = CliRunner().invoke(cli, list(command), prog_name="hdrl")
            tried[tuple(command)] = "" if ended.exit_code == 0 else f"{shlex.join(command)}: {ended.output[-300:]}"

    monkeypatch.setattr(areas, "judged", run)
    monkeypatch.setattr(areas, "AGENTS", ["def priority(job, now_s):\n    return job.submit_s"])
    case, _ = AREAS[area]
    for place in range(MOST_COMMANDS):
        before = len(tried)
        case(undamaged, Nth(place))
        if len(tried) == before:
            break
    problems = [problem for problem in tried.values() if problem]
    assert tried
    assert not problems, "\n".join(problems)


MOST_COMMANDS = 20
"""More than any area has."""


@pytest.mark.parametrize("name", INTERRUPTED)
def test_signals_end_commands_in_order(name: str, tmp_path: Path):
    search(f"signals to {name}", 1, lambda draw: interrupted(name, tmp_path / "out", draw))

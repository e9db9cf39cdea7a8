"""Whatever is in a file, and whenever a signal comes: a command works, or ends with one line and exit code 2.

``make fuzz`` goes on for as long as ``HDRL_FUZZ_SECONDS`` says, with other damage for each ``HDRL_FUZZ_SEED``; without
them, a few fixed inputs of each kind are tried. What is found can be repeated: the message says seed and number.
"""

import itertools
import os
import random
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", INTERRUPTED)
def test_signals_end_commands_in_order(name: str, tmp_path: Path):
    search(f"signals to {name}", 1, lambda draw: interrupted(name, tmp_path / "out", draw))

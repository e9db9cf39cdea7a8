"""What the page on PyBatsim says is run."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("batsim", reason="PyBatsim is not installed")

from hdrl.batsim.pybatsim.require import INSTALL
from hdrl.batsim.pybatsim.scheduler import SchedulerSettings

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "pybatsim.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder that looks like the checkout, in which commands may write."""
    for name in ("examples", "workloads"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def run(words: list[str], folder: Path) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        words, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def matches(expected: str, found: str) -> bool:
    return doctest.OutputChecker().check_output(expected, found, doctest.ELLIPSIS)


def test_the_command(checkout: Path):
    (text,) = [text for kind, text in BLOCKS if kind == "console"]
    command, expected = text.removeprefix("$ ").split("\n", 1)
    assert matches(expected, run(["sh", "-c", command], checkout))


def test_the_python(checkout: Path):
    (code,) = [text for kind, text in BLOCKS if kind == "python"]
    (expected,) = [text for kind, text in BLOCKS if kind == "text"]
    assert run([sys.executable, "-c", code], checkout) == expected


def test_the_installation_is_that_of_the_error():
    assert f"{INSTALL}\n" in [text for kind, text in BLOCKS if kind == "sh"]


def test_the_table_of_options_is_complete():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(SchedulerSettings.__dataclass_fields__)

"""docs/how-to-add.md is run section by section, as a reader would: files are saved, commands and Python run."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch (the extra learn)")
pytest.importorskip("pandas", reason="needs pandas (the extra frames)")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to-add.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^##? ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
BLOCK = re.compile(r"^```([\w ]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOY = ROOT / "tests" / "settings" / "mmc.py"


def run(words: list[str] | str, folder: Path) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path, "COLUMNS": "80", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        words, shell=isinstance(words, str), cwd=folder, env=environment, text=True, capture_output=True, timeout=300
    )
    assert done.returncode == 0, f"{words}\n{done.stderr}{done.stdout}"
    return done.stdout


def matches(expected: str, found: str) -> bool:
    return doctest.OutputChecker().check_output(expected, found, doctest.ELLIPSIS)


@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_works_as_it_is_written(title: str, tmp_path: Path):
    for name in ("examples", "platforms", "workloads"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "mmc.py").symlink_to(TOY)
    printed = ""
    n_run = 0
    for kind, text in BLOCK.findall(SECTIONS[title]):
        name = re.match(r"# (\w+\.py)\n", text)
        if kind == "python excerpt":
            assert text in TOY.read_text(encoding="utf-8")
        elif kind == "console":
            parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
            for command, expected in zip(parts[1::2], parts[2::2], strict=True):
                found = run(command, tmp_path)
                assert matches(expected, found), f"$ {command}\n{found}"
                n_run += 1
        elif kind == "text":
            assert matches(text, printed)
        elif kind == "json":
            (tmp_path / "queue.json").write_text(text, encoding="utf-8")
        elif name:
            (tmp_path / name[1]).write_text(text, encoding="utf-8")
        else:
            assert kind == "python"
            printed = run([sys.executable, "-W", "error", "-c", text], tmp_path)
            n_run += 1
    assert n_run >= 1


def test_every_file_that_it_names_exists():
    named = set(re.findall(r"`((?:hdrl|agents|tests)/[\w/]+(?:\.py)?)`", PAGE))
    assert len(named) >= 10
    assert [name for name in named if not (ROOT / name).exists()] == []

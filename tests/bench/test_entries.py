"""docs/bench-entries.md: each section is typed, where its library is installed."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="needs scipy (the extra report)")

from hdrl.batsim.program import COMPILERS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "bench-entries.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CPP = "A C++ scheduler with Batsim's protocol"
NEEDS = {"Stable-Baselines3": "sb3_contrib", "CleanRL": "torch", "RLlib": "torch", CPP: ""}
STUB = Path(__file__).parent / "rllib_stub"


def test_every_section_is_typed_or_has_nothing_to_type() -> None:
    assert {name for name, text in SECTIONS.items() if BLOCK.search(text)} == set(NEEDS)


@pytest.mark.parametrize("section", NEEDS)
def test_what_a_section_says_is_what_happens(section: str, tmp_path: Path) -> None:
    if NEEDS[section]:
        pytest.importorskip(NEEDS[section], reason=f"needs {NEEDS[section]}")
    elif not any(map(shutil.which, COMPILERS)):
        pytest.skip("needs a C++ compiler, found none on PATH")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | {
        "PATH": path,
        "COLUMNS": "80",
        "SB3_LOGDIR": str(tmp_path / "logs"),
        "OMP_NUM_THREADS": "1",
    }
    if section == "RLlib":
        try:
            importlib.import_module("ray.rllib")
        except ImportError:  # it pins libraries that others need in other versions
            environment["PYTHONPATH"] = str(STUB)
    for kind, text in BLOCK.findall(SECTIONS[section]):
        if kind == "python":
            (tmp_path / "train.py").write_text(text, encoding="utf-8")
            continue
        parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
        for command, expected in zip(parts[1::2], parts[2::2], strict=True):
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=300
            )
            found = done.stderr + done.stdout
            assert done.returncode == 0, f"$ {command}\n{found}"
            assert doctest.OutputChecker().check_output(expected, found, doctest.ELLIPSIS), f"$ {command}\n{found}"

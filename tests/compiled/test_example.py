"""The example of the package runs in all three ways, with the same result."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hdrl.compiled
from hdrl.compiled.backends import is_tried

WAYS = {"fast": {}, "plain Numba": {"HDRL_PLAIN_NUMBA": "1"}, "plain Python": {"NUMBA_DISABLE_JIT": "1"}}


def example() -> str:
    """Return the lines of the docstring that are indented."""
    lines = inspect.getdoc(hdrl.compiled).splitlines()
    return "\n".join(line[4:] for line in lines if line.startswith("    ") or not line)


def run(folder: Path, way: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("NUMBA_DISABLE_JIT",)}
    environment |= {"NUMBA_CACHE_DIR": str(folder / "cache")} | WAYS[way]
    (folder / "example.py").write_text(example())
    command = [sys.executable, "-W", "error", str(folder / "example.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("way", WAYS)
def test_the_example_of_the_package_runs(tmp_path: Path, way: str) -> None:
    expected = example().rsplit("# ", 1)[1].strip()
    assert run(tmp_path, way).strip() == expected
    kept = [path.name for path in (tmp_path / "cache").rglob("*") if path.suffix in (".nbi", ".code")]
    assert len(kept) == (0 if way == "plain Python" else 1), "the entry alone is kept"
    assert run(tmp_path, way).strip() == expected, "from the cache"


@pytest.mark.parametrize(
    ("version", "tried"),
    [("0.60.1", False), ("0.61.0", True), ("0.68.1", True), ("0.69.0rc1", True), ("0.70.0", False), ("1.0.0", False)],
)
def test_versions_that_nobody_has_tried_are_told(version: str, *, tried: bool) -> None:
    assert is_tried(version) is tried

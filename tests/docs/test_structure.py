"""docs/design.md tells what the structure costs now: the numbers of its last column are counted here."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from pathlib import Path

from hdrl.batch import JobPickVectorEnv
from hdrl.settings.gpu.envs.env import GpuClusterVectorEnv

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "hdrl" / "settings" / "batch" / "kernel"
PREFIX = "hdrl.settings.batch.kernel"
ROWS = {
    cells[0]: [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\d|\d", cells[-1])]
    for line in (ROOT / "docs" / "design.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}


def imports_within_kernel() -> dict[str, set[str]]:
    files = {f"{PREFIX}.{path.stem}".removesuffix(".__init__"): path for path in KERNEL.glob("*.py")}
    imports: dict[str, set[str]] = {}
    for name, path in files.items():
        found: set[str] = set()
        for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(one, ast.ImportFrom) and one.module:
                found |= {f"{one.module}.{alias.name}" for alias in one.names} | {one.module}
        imports[name] = found & (files.keys() - {PREFIX})
    return imports


def test_the_batch_kernel_has_so_many_files_and_layers() -> None:
    imports = imports_within_kernel()

    @cache
    def layer(name: str) -> int:
        return 1 + max(map(layer, imports[name]), default=0)

    found = [len(list(KERNEL.rglob("*.py"))), max(map(layer, imports))]
    assert found == ROWS["files of the batch kernel, layers among them"]


def test_a_setting_in_one_file_has_so_many_lines() -> None:
    n_lines = len((ROOT / "tests" / "settings" / "mmc.py").read_text(encoding="utf-8").splitlines())
    assert ROWS["lines of a whole setting in one file, the queue M/M/c"] == [n_lines]


def test_constructors_take_so_many_arguments() -> None:
    classes = (JobPickVectorEnv, GpuClusterVectorEnv)
    found = [len(inspect.signature(one).parameters) for one in classes]
    assert found == ROWS["arguments of the constructors of JobPick and GpuCluster"]


def test_there_are_about_so_many_lines() -> None:
    n_lines = sum(
        len(path.read_text(encoding="utf-8").splitlines())
        for folder in ("hdrl", "agents", "launcher")
        for path in (ROOT / folder).rglob("*.py")
    )
    (said,) = ROWS["lines of `hdrl`, `agents` and `launcher`"]
    assert abs(n_lines / said - 1) < 0.02, f"{n_lines:,} lines"

"""Benchmarks run rarely: what they take from hdrl must still be there."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def trees(source: str) -> Iterator[ast.AST]:
    """Yield the code of a file, and that of the programs in its texts."""
    tree = ast.parse(source)
    yield tree
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "from hdrl" in node.value:
            try:
                yield ast.parse(node.value)
            except SyntaxError:  # it only tells of code
                continue


@pytest.mark.parametrize("path", sorted(BENCHMARKS.rglob("*.py")), ids=lambda path: path.stem)
def test_names_that_they_import_exist(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for tree in trees(path.read_text()):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("hdrl", "common")):
                module = importlib.import_module(str(node.module))
                for name in node.names:
                    assert hasattr(module, name.name) or importlib.import_module(f"{node.module}.{name.name}")


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("common.report")


OLD = """# Benchmarks

## Last measured

### Steps

Words above.

| what | median |
|---|---:|
| old | 1 s |

Measured on 2001-01-01, 1 processors.

Words below.

### Others

| what | median |
|---|---:|
| other | 2 s |

## Where the time goes
"""


def test_a_table_takes_the_place_of_the_last_one(common: Any) -> None:
    report = common.Report("Steps", state="2026-11-24, 2 processors.")
    report.add("new", [0.5, 0.25], at_most=1.0)
    made = report.placed_in(OLD)
    table = (
        "| what | median | min - max | n | target | verdict | ratio |\n|---|---:|---:|---:|---|---|---|\n"
        "| new | 0.375 s | 0.250 - 0.500 | 2 | <= 1 s | met |  |\n\nMeasured on 2026-11-24, 2 processors.\n"
    )
    begin, end = OLD.index("| what"), OLD.index("\nWords below")
    assert made == OLD[:begin] + table + OLD[end:]
    assert report.placed_in(made) == made


def test_a_new_table_comes_to_the_end_of_what_was_measured(common: Any) -> None:
    report = common.Report("New", notes=["A note."], state="today.")
    report.add("new", [3.0])
    made, rest = report.placed_in(OLD), "\n\nMeasured on today.\n\nA note.\n\n## Where the time goes\n"
    assert made.startswith(OLD[: OLD.index("## Where")] + "### New\n\n| what")
    assert made.endswith(f"| new | 3.00 s |  | 1 |  |  |  |{rest}")
    assert report.placed_in("").startswith("### New\n\n| what")


def test_the_plain_simulator_is_where_a_benchmark_looks_for_it(common: Any) -> None:
    del common
    assert (importlib.import_module("comparison").ORACLE / "oracle" / "simulator.py").is_file()

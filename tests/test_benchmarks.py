"""Benchmarks run rarely: what they take from hdrl must still be there."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

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
def test_names_that_they_import_exist(path: Path) -> None:
    for tree in trees(path.read_text()):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hdrl"):
                module = importlib.import_module(str(node.module))
                for name in node.names:
                    assert hasattr(module, name.name) or importlib.import_module(f"{node.module}.{name.name}")

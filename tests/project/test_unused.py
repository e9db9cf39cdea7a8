"""No name that only its own module may use is left behind when nobody uses it any more."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for folder in ("hdrl", "agents", "experiments", "launcher", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
]


def private_names(tree: ast.Module) -> Iterator[str]:
    """Yield the private names that a module defines; a decorator may have registered what it is given."""
    for node in tree.body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.decorator_list:
            names.append(node.name)
        yield from (name for name in names if name.startswith("_") and not name.startswith("__"))


def unused(text: str) -> list[str]:
    words = Counter(re.findall(r"\w+", text))
    return [name for name in private_names(ast.parse(text)) if words[name] < 2]


def test_every_private_name_is_used() -> None:
    found = {str(path.relative_to(ROOT)): unused(path.read_text()) for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "text",
    [
        "_LEFT = 1\n",
        "_left: int = 1\n",
        "_left, _used = 1, 2\nprint(_used)\n",
        "def _left(): ...\n",
        "class _Left: ...\n",
    ],
)
def test_an_unused_name_is_found(text: str) -> None:
    assert len(unused(text)) == 1

"""docs/glossary.md names what there is, each term once."""

import importlib
import re
from pathlib import Path

import pytest

import hdrl

PAGE = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| term")
]


def find(dotted: str) -> object:
    """Return what a name below hdrl stands for; packages may load their names late."""
    found: object = hdrl
    position = "hdrl"
    for name in dotted.split("."):
        position += f".{name}"
        try:
            found = importlib.import_module(position)
        except ModuleNotFoundError:
            found = getattr(found, name)
    return found


def names_of(cell: str) -> list[str]:
    """Return the dotted names of a cell whose first word is something in hdrl."""
    quoted = re.findall(r"`([a-z_]+(?:\.\w+)*)`", cell)
    return [name for name in quoted if not name.endswith(".py") and ("." in name or f"hdrl/{name}" in PLACES)]


PLACES = {f"hdrl/{path.stem}" for path in Path(hdrl.__file__).parent.iterdir()}
NAMES = [name for row in ROWS for name in names_of(row[1])]


def test_every_row_explains_one_term():
    assert len(ROWS) > 60
    assert all(len(row) == 3 and row[0] and row[2].endswith((".", ".)", "...")) for row in ROWS)
    terms = [term for row in ROWS for term in row[0].split(", ")]
    assert sorted(set(terms)) == sorted(terms)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_exists(name: str):
    if name.startswith(("learn.", "agents.")):
        pytest.importorskip("torch", reason="needs torch (the extra learn)")
    find(name)

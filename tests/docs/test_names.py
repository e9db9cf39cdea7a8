"""Every name of hdrl that a page mentions exists: `hdrl.envs.RowLayout`, `hdrl/base/windows.py`, another page."""

import ast
import builtins
import importlib
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MANUAL, NOTES = sorted((ROOT / "docs").glob("*.md")), sorted((ROOT / "experiments").glob("*/README.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *MANUAL, *NOTES]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
PYTHON = re.compile(r"^ *```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
OF_READERS = {"docs/agents.md": {"env"}}
"""Names in blocks of Python that stand for objects of the reader: the text around them says so."""
NEED_TORCH = ("hdrl.learn", "hdrl.agents", "hdrl.experiment.Model")


def exists(dotted: str) -> bool:
    """Tell whether a dotted name leads somewhere; the last part may be an attribute, or one of a class."""
    found: object = None
    place = ""
    for name in dotted.split("."):
        place = f"{place}.{name}".lstrip(".")
        try:
            found = importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name is not None and not error.name.startswith("hdrl"):
                pytest.skip(f"needs {error.name}")
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
    return True


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_names_lead_somewhere(page: Path):
    names = set(re.findall(r"`@?(hdrl(?:\.\w+)+)", page.read_text(encoding="utf-8")))
    if any(name.startswith(NEED_TORCH) for name in names):
        pytest.importorskip("torch", reason="needs torch (the extra learn)")
    assert sorted(name for name in names if not exists(name)) == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_files_and_links_lead_somewhere(page: Path):
    text = page.read_text(encoding="utf-8")
    files = set(re.findall(r"`((?:hdrl|agents|launcher|tests|examples)/[\w/.]+)`", text))
    positions = [ROOT / name.replace("hdrl/agents", "agents") for name in files]
    links = [page.parent / link for link in re.findall(r"\]\((?!https?:)([^)#]+)", text)]
    assert sorted(str(place) for place in (*positions, *links) if not place.exists()) == []


def test_the_reference_names_modules():
    lines = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8").splitlines()
    named = [line for line in lines if line.startswith(":::")]
    assert named
    assert [line for line in named if not re.fullmatch(r"::: hdrl[\w.]*", line)] == []


def names_in(code: str) -> tuple[set[str], set[str]]:
    """Return the names that Python code reads, and those that it defines anywhere."""
    read, defined = set(), set()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Name(name, ast.Load()):
                read.add(name)
            case ast.Name(name) | ast.arg(name) | ast.FunctionDef(name) | ast.ClassDef(name):
                defined.add(name)
            case ast.alias(name, other):
                defined.add(other or name.partition(".")[0])
    return read, defined


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_blocks_of_python_define_what_they_use(page: Path):
    blocks = PYTHON.findall(page.read_text(encoding="utf-8"))
    read, defined = names_in("\n".join(map(textwrap.dedent, blocks)))
    of_readers = OF_READERS.get(str(page.relative_to(ROOT)), set())
    assert read - defined - set(dir(builtins)) == of_readers

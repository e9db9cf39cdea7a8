"""Every name of hdrl that a page mentions exists: `hdrl.envs.RowLayout`, `hdrl/base/windows.py`, another page."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MANUAL, NOTES = sorted((ROOT / "docs").glob("*.md")), sorted((ROOT / "experiments").glob("*/README.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *MANUAL, *NOTES]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
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

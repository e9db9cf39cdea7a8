"""docs/where.md leads to places that exist: what a section names beside its files stands in one of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTIONS = (ROOT / "docs" / "where.md").read_text(encoding="utf-8").split("\n## ")[1:]


@pytest.mark.parametrize("section", SECTIONS, ids=[one.splitlines()[0].replace(" ", "-") for one in SECTIONS])
def test_names_stand_in_the_files_of_their_section(section: str) -> None:
    code = [word for line in section.split("\n\n") for word in re.findall(r"`([^`]+)`", " ".join(line.split()))]
    text = "\n".join((ROOT / word).read_text(encoding="utf-8") for word in code if (ROOT / word).is_file())
    words = [word for word in code if re.fullmatch(r"[A-Za-z_]\w*", word)]
    assert [word for word in words if not re.search(rf"\b{word}\b", text)] == []
    assert text
    assert "\nTests" in section

"""The documentation site lists every page, its pictures come from commands, and the notebook prints what it shows.

The commands of the gallery are run by ``make gallery``; other tests draw every kind of picture.
"""

import contextlib
import io
import json
import re
import runpy
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from hdrl.launcher.main import cli

ROOT = Path(__file__).parents[2]
GENERATED = {"index.md"}
"""Pages that the site makes of something else: the README."""


def named_pages(part: object) -> list[str]:
    if isinstance(part, str):
        return [part]
    parts = part.values() if isinstance(part, dict) else part
    return [page for one in parts for page in named_pages(one)]


def test_every_page_is_listed_once():
    listed = named_pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert sorted(listed) == sorted({path.name for path in (ROOT / "docs").glob("*.md")} | GENERATED)


def test_every_picture_of_the_gallery_is_drawn_by_a_command_on_it():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    shown = re.findall(r"\]\(pictures/(\w+\.png)\)", page)
    drawn = dict(re.findall(r"^\$ hdrl plot (\w+) .* -s (\w+)\.png$", page, re.MULTILINE))
    assert shown == [f"{name}.png" for name in drawn.values()]
    told = CliRunner().invoke(cli, ["plot", "--help"]).output
    assert [kind for kind in drawn if f"  {kind} " not in told] == []
    assert all((ROOT / "docs" / "pictures" / name).is_file() for name in shown)


def test_the_notebook_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    notebook = json.loads((ROOT / "examples" / "first_look.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) == 4
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(cells, start=1):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        assert printed.getvalue() == "".join(text for one in cell["outputs"] for text in one["text"])


def test_cells_of_sentences_name_their_columns():
    hook = runpy.run_path(str(ROOT / "docs" / "site.py"))["on_page_content"]
    row = "<tr><td>a</td><td>{}</td></tr>"
    table = "<table><thead><tr><th>key</th><th>what &amp; <code>why</code></th></tr></thead><tbody>{}</tbody></table>"
    short = table.format(row.format("b"))
    assert hook(short) == short
    marked = hook(short + table.format(row.format("<b>word</b> " * 20) * 2))
    assert marked.startswith(short + "<table data-sentences>")
    assert re.findall(r'<td data-label="(.*?)">', marked) == ["key", "what &amp; why"] * 2

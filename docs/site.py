"""What the documentation site shows from outside this folder: the README as its first page, and files that pages link.

MkDocs reads this (``hooks`` in mkdocs.yml). In a checkout all links lead to files; on the site, links out of this
folder lead to copies under ``source/``, each module of the reference has a page of its own, and on a phone the cells of
tables that hold sentences stand below each other (``assets/tables.css``).
"""

from __future__ import annotations

import html
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
_OUTSIDE = re.compile(r"\]\(\.\./([^)#]+)(#[^)]*)?\)")
_OF_README = re.compile(r"\]\((?!https?:|#|source/)([^)#]+)(#[^)]*)?\)")
_MODULE = re.compile(r"^::: (hdrl[\w.]*)\n((?: +.*\n)*)\n?", re.MULTILINE)
"""A module of the reference, and the options of its page."""

_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_SENTENCE = 60
"""Characters of a cell from which its table is one of sentences."""


def on_config(config: Any) -> Any:
    """List the pages of modules below the reference."""
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    modules: list[Any] = [{match[1]: f"reference/{match[1]}.md"} for match in _MODULE.finditer(reference)]
    for part in config["nav"]:
        for pages in part.values():
            if isinstance(pages, list) and {"Reference": "reference.md"} in pages:
                pages[pages.index({"Reference": "reference.md"})] = {"Reference": ["reference.md", *modules]}
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the README, and whatever a page links outside this folder."""
    from mkdocs.structure.files import File

    linked = set()
    for page in list(files.documentation_pages()):
        linked.update(match[1] for match in _OUTSIDE.finditer(Path(page.abs_src_path).read_text(encoding="utf-8")))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = {file.src_uri for file in files}

    def moved(match: re.Match[str]) -> str:
        target = match[1].removeprefix("docs/")
        if match[1] != target and target in pages:
            return f"]({target}{match[2] or ''})"
        linked.add(match[1])
        return f"]({_copied(match[1])})"

    files.append(File.generated(config, "index.md", content=_OF_README.sub(moved, readme)))
    for match in _MODULE.finditer((ROOT / "docs" / "reference.md").read_text(encoding="utf-8")):
        files.append(File.generated(config, f"reference/{match[1]}.md", content=f"# {match[1]}\n\n{match[0]}"))
    for name in sorted(linked):
        files.append(File.generated(config, _copied(name), content=(ROOT / name).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links out of this folder lead to the copies, and the page of the reference to the modules."""
    if page.file.src_uri == "reference.md":
        markdown = _MODULE.sub(lambda match: f"- [{match[1]}](reference/{match[1]}.md)\n", markdown)
    return _OUTSIDE.sub(lambda match: f"]({_copied(match[1])})", markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Mark tables of sentences, and name the column of each of their cells."""
    return _TABLE.sub(lambda match: _labelled(match[0]), content)


def _labelled(table: str) -> str:
    heads = [html.escape(html.unescape(_TAG.sub("", head))) for head in re.findall(r"<th.*?</th>", table, re.DOTALL)]
    cells = re.findall(r"<td.*?</td>", table, re.DOTALL)
    if max((len(_TAG.sub("", cell)) for cell in cells), default=0) < _SENTENCE:
        return table
    positions = itertools.count()
    return re.sub("<td", lambda _: f'<td data-label="{heads[next(positions) % len(heads)]}"', table).replace(
        "<table>", "<table data-sentences>", 1
    )


def _copied(name: str) -> str:
    """Return where a file is copied to; as text where a browser would not show it."""
    return f"source/{name}" if Path(name).suffix in {".png", ".svg"} else f"source/{name}.txt"

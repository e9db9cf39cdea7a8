"""How hdrl speaks, in its manual and its messages: a thing does not hear, a job is no person, no word is coined."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
DEFINES = {"glossary.md"}
"""Pages that explain names of the code, which may be such words."""

WORDS = re.compile(
    r"\b(told|lent|heard|hears?|nobody|somebody|whoever|whomever|birth|for ever|so many)\b"
    r"|\b(is|are|was|were|be) asked\b|\bgo(es)? by\b|\bof no known\b"
)

MESSAGES_OF = ("hdrl", "agents", "launcher", "experiments")
KEYS = re.compile(r"[a-z_]+")
"""Strings of one word are names and keys: they are part of file formats."""


def prose(text: str) -> str:
    """Return a page without its code."""
    return re.sub(r"`[^`]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in DEFINES], ids=lambda page: page.name)
def test_the_manual_is_in_plain_words(page: Path):
    lines = enumerate(prose(page.read_text(encoding="utf-8")).splitlines(), start=1)
    assert not [(number, match.group()) for number, line in lines for match in WORDS.finditer(line)]


def messages(path: Path) -> list[tuple[int, str]]:
    """Return the strings of a file that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone)
    return [(node.lineno, node.value) for node in constants if isinstance(node.value, str)]


@pytest.mark.parametrize("folder", MESSAGES_OF)
def test_messages_are_in_plain_words(folder: str):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match.group()}: {text[:60]}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in messages(path)
        if not KEYS.fullmatch(text) and (match := WORDS.search(text))
    ]
    assert not found, "\n".join(found)


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs and the items of lists of a page, without tables, headings, pictures and HTML."""
    kept = "\n".join(line for line in prose(text).splitlines() if not line.lstrip().startswith(("|", "#", "!", "<")))
    linked = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", kept)
    return re.split(r"\n\s*\n|\n\s*[-*] |\n\s*\d+\. ", linked)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_and_lines_are_short(page: Path):
    text = page.read_text(encoding="utf-8")
    sentences = [one for part in paragraphs(text) for one in re.split(r"(?<=[.!?])\s+", part) if len(one.split()) > 2]
    words = sum(len(one.split()) for one in sentences)
    assert words <= 20 * len(sentences), f"{words / len(sentences):.1f} words a sentence"
    fence = re.sub(r"^ *```.*?^ *```$", lambda match: "\n" * match.group().count("\n"), text, flags=re.M | re.S)
    lines = enumerate(fence.splitlines(), start=1)
    breakable = [number for number, line in lines if len(line) > 120 and not re.match(r" *[|#!<>]|\S*$", line)]
    assert not breakable, f"lines of more than 120 characters: {breakable}"

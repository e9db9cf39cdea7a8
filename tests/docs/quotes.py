"""Numbers that pages quote from experiments: which claim each of them is.

``quotes.csv`` has a line for each quoted number: the page, what stands before the number (``…`` for any decimal), the
experiment, the row and the column of its claim, and whether its interval is quoted, too. Intervals that no experiment
claims have the experiment ``-`` and say in place of the row where they are from.

After references were recorded anew, ``python tests/docs/quotes.py`` writes the claimed numbers into the pages.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hdrl.experiment.reproduce.claims import Claim
from hdrl.experiment.reproduce.recipe import read_experiment

ROOT = Path(__file__).parents[2]
NUMBER = r"-?\d[\d,]*\.\d+"
INTERVAL = re.compile(r"(-?\d+\.\d+)\s\[(-?\d+\.\d+),\s(-?\d+\.\d+)\]")
NOWHERE = "-"
"""The experiment of what no experiment claims."""


class Quote(NamedTuple):
    """A number on a page."""

    page: str
    before: str
    experiment: str
    row: str
    column: str
    form: str

    def match(self, text: str) -> re.Match[str]:
        """Return where it stands: the groups are its numbers.

        Raises
        ------
        ValueError
            If what stands before it is not on the page, or more than once.
        """
        before = r"\s+".join(re.escape(word).replace("…", NUMBER) for word in self.before.split())
        after = r"\s\[(-?\d+\.\d+),\s(-?\d+\.\d+)\]" if self.form == "interval" else ""
        found = list(re.finditer(rf"(?<!\S){before}\s*(-?\d+(?:\.\d+)?){after}", text))
        if len(found) != 1:
            raise ValueError(f"{self.page}: {len(found)} places have a number behind {self.before!r}, expected one")
        return found[0]

    def claimed(self, quoted: tuple[str, ...]) -> list[str]:
        """Return the claimed numbers with as many decimals as the quoted ones have.

        Raises
        ------
        ValueError
            If the experiment claims no such number.
        """
        claim = claims_of(self.experiment).get((self.row, self.column))
        if claim is None:
            raise ValueError(f"{self.page}: {self.experiment} claims no {self.row!r}, {self.column!r}")
        numbers = (claim.value, claim.low, claim.high)[: len(quoted)]
        return [rounded(number, text) for number, text in zip(numbers, quoted, strict=True)]


def rounded(number: float, like: str) -> str:
    """Return a number with as many decimals as a text has."""
    return f"{number:.{len(like.partition('.')[2])}f}"


@cache
def claims_of(experiment: str) -> dict[tuple[str, str], Claim]:
    """Return what hdrl has recorded of an experiment, or what was published where it has not."""
    claims = read_experiment(experiment).claims()
    return {one.place: one for one in sorted(claims, key=lambda one: one.source == "hdrl")}


def quotes() -> list[Quote]:
    """Return all quotes."""
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        return [Quote(**line) for line in csv.DictReader(file)]


def text_of(page: str) -> str:
    """Return a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def pages() -> list[str]:
    """Return README, the manual, and the notes on experiments."""
    found = [*(ROOT / "docs").glob("*.md"), *(ROOT / "experiments").glob("*/README.md")]
    return ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in found)]


def write() -> None:
    """Write the claimed numbers into the pages."""
    for page in pages():
        text = text_of(page)
        changes = []
        for quote in quotes():
            if quote.page == page and quote.experiment != NOWHERE:
                match = quote.match(text)
                for number, claimed in enumerate(quote.claimed(match.groups()), start=1):
                    changes.append((match.span(number), claimed))
        for (first, end), claimed in sorted(changes, reverse=True):
            text = text[:first] + claimed + text[end:]
        if text != text_of(page):
            (ROOT / page).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()

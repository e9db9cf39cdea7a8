"""Tables of references and of results, as files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from hdrl.base.csvfiles import atomic_table, cell_text, csv_rows, read_table
from hdrl.base.errors import ReadError, readable
from hdrl.base.files import read_text
from hdrl.experiment.reproduce.claims import (
    KINDS,
    RULE,
    SIGNS,
    SOURCES,
    Claim,
    Difference,
    side_of,
    sign_words,
)
from hdrl.experiments.findings import Finding, Place

T = TypeVar("T", bound=str)

REQUIRED = ("row", "column", "value")
_DEFAULTS = {"kind": "value", "source": "hdrl"}
COLUMNS = (
    *("row", "column", "kind", "value", "low", "high", "tolerance"),
    *("rule", "n", "deviation", "null", "sign", "source"),
)
"""Columns of a reference. One without kinds holds values, and one without sources what hdrl recorded."""

RESULT_COLUMNS = ("row", "column", "value", "low", "high", "null")
TRAINING_COLUMNS = ("row", "column", "training", "value")


def read_reference(path: Path, relative_tolerance: float) -> list[Claim]:
    """Read what an experiment claims.

    Values without a tolerance of their own get ``relative_tolerance``, a share of the value.
    """
    (_, names), *rows = list(csv_rows(path, read_text(path))) or [(1, [])]
    if not set(REQUIRED) <= set(names):
        raise ReadError(path, f"must have the columns {', '.join(REQUIRED)}", line=1)
    for name in names:
        if name not in COLUMNS:
            raise ReadError(path, f"has a column {readable(name)}; known: {', '.join(COLUMNS)}", line=1)
    claims: dict[tuple[str, str, str], Claim] = {}
    for number, row in (one for one in rows if one[1]):
        claim = _claim(path, number, dict(itertools.zip_longest(names, row[: len(names)], fillvalue="")))
        if math.isnan(claim.tolerance):
            is_relative = claim.kind == "value" and not math.isnan(claim.value)
            claim = replace(claim, tolerance=abs(claim.value) * relative_tolerance if is_relative else 0.0)
        key = (*claim.place, claim.source)
        if key in claims:
            raise ReadError(path, f"{key[0]!r}, {key[1]!r} is claimed twice", line=number)
        claims[key] = claim
    return list(claims.values())


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a reference, as text by column."""

    path: Path
    number: int
    cells: Mapping[str, str]

    def wrong(self, what: str) -> ReadError:
        return ReadError(self.path, what, line=self.number)

    def one_of(self, name: str, known: Sequence[T]) -> T:
        text = self.cells.get(name, "") or _DEFAULTS.get(name, "")
        for one in known:
            if text == one:
                return one
        raise self.wrong(f"{name} is {readable(text)}, expected {', '.join(known)}")

    def number_of(self, name: str, *, least: float = -math.inf) -> float:
        text = self.cells.get(name, "")
        try:
            found = float(text) if text else math.nan
        except ValueError:
            raise self.wrong(f"{name} is {readable(text)}, expected a number") from None
        if math.isinf(found) or found < least:
            at_least = f" of {least:g} or more" if least > -math.inf else ""
            raise self.wrong(f"{name} is {text}, expected a finite number{at_least}")
        return found


def _claim(path: Path, number: int, cells: Mapping[str, str]) -> Claim:
    """Return a line as a claim."""
    line = _Line(path, number, cells)
    null, n = line.number_of("null"), line.number_of("n", least=2)
    claim = Claim(
        cells["row"],
        cells["column"],
        line.one_of("kind", KINDS),
        value=line.number_of("value"),
        low=line.number_of("low"),
        high=line.number_of("high"),
        tolerance=line.number_of("tolerance", least=0),
        n=0 if math.isnan(n) else int(n),
        deviation=line.number_of("deviation", least=0),
        null=None if math.isnan(null) else null,
        sign=line.one_of("sign", SIGNS) if cells.get("sign") else None,
        source=line.one_of("source", SOURCES),
    )
    _check_number(line, claim)
    _check_sign(line, claim)
    return claim


def _check_number(line: _Line, claim: Claim) -> None:
    if claim.kind == "spread":
        rule = line.cells.get("rule", "")
        if rule != RULE:
            raise line.wrong(f"rule is {readable(rule)!r}, expected {RULE!r}")
        if not claim.n or math.isnan(claim.deviation) or math.isnan(claim.value):
            raise line.wrong("a spread needs the value, n trainings and their deviation")
    if claim.kind != "value" and not math.isnan(claim.tolerance):
        raise line.wrong(f"a {claim.kind} has no tolerance of its own")


def _check_sign(line: _Line, claim: Claim) -> None:
    if (claim.sign is None) != (claim.null is None):
        raise line.wrong("has a null without a sign, or a sign without a null, expected both or none")
    if claim.sign is None or claim.null is None:
        if claim.kind == "sign":
            raise line.wrong("claims a sign, but has none")
    elif side_of(claim.interval(), claim.null) != claim.sign:
        low, high = claim.interval()
        raise line.wrong(f"claims {sign_words(claim)}, but its own interval is [{low:.6g}, {high:.6g}]")


def write_reference(path: Path, claims: Sequence[Claim], relative_tolerance: float) -> None:
    """Write what an experiment claims, with those columns that it needs.

    Values with ``relative_tolerance`` have none of their own in the file.
    """
    lines = [_line(claim, relative_tolerance) for claim in claims]
    names = [name for name in COLUMNS if name in (*REQUIRED, *_DEFAULTS) or any(line[name] for line in lines)]
    with atomic_table(path, names) as write_row:
        for line in lines:
            write_row([line[name] for name in names])


def _line(claim: Claim, relative_tolerance: float) -> dict[str, str]:
    has_own = claim.kind == "value" and not (
        math.isnan(claim.value) or claim.tolerance == abs(claim.value) * relative_tolerance
    )
    return {
        "row": claim.row,
        "column": claim.column,
        "kind": claim.kind,
        "value": cell_text(claim.value),
        "low": cell_text(claim.low),
        "high": cell_text(claim.high),
        "tolerance": cell_text(claim.tolerance) if has_own else "",
        "rule": RULE if claim.kind == "spread" else "",
        "n": str(claim.n) if claim.n else "",
        "deviation": cell_text(claim.deviation),
        "null": cell_text(claim.null),
        "sign": claim.sign or "",
        "source": claim.source,
    }


def write_results(path: Path, trainings: Path, results: Mapping[Place, Finding]) -> None:
    """Write what an experiment found, and the numbers of single trainings if there were some."""
    if any(one.trainings for one in results.values()):
        with atomic_table(trainings, TRAINING_COLUMNS) as write_row:
            for place, one in results.items():
                for number, value in enumerate(one.trainings, start=1):
                    write_row((*place, number, cell_text(float(value))))
    with atomic_table(path, RESULT_COLUMNS) as write_row:
        for place, one in results.items():
            write_row((*place, *map(cell_text, (one.value, one.low, one.high, one.null))))


def read_results(path: Path, trainings: Path) -> dict[Place, Finding]:
    """Read what `write_results` wrote."""
    by_place: dict[Place, list[float]] = {}
    if trainings.is_file():
        for row, column, _, value in read_table(trainings, TRAINING_COLUMNS):
            by_place.setdefault((row, column), []).append(_number(trainings, value))
    found = {}
    for row, column, value, low, high, null in read_table(path, RESULT_COLUMNS):
        found[row, column] = Finding(
            _number(path, value),
            _number(path, low),
            _number(path, high),
            trainings=tuple(by_place.get((row, column), ())),
            null=_number(path, null) if null else None,
        )
    return found


def write_differences(path: Path, found: Sequence[Difference]) -> None:
    """Write the claims that do not hold."""
    with atomic_table(path, ("row", "column", "kind", "claimed", "found", "allowed")) as write_row:
        for one in found:
            allowed = "" if math.isinf(one.allowed) else repr(one.allowed)
            write_row((one.row, one.column, one.kind, one.claimed, one.found, allowed))


def _number(path: Path, text: str) -> float:
    try:
        return float(text) if text else math.nan
    except ValueError:
        raise ReadError(path, f"has {readable(text)} where a number belongs") from None

"""Tables of references and of results, as files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from hdrl.base.csvfiles import atomic_table, cell_text, csv_rows, read_table
from hdrl.base.errors import ReadError, readable
from hdrl.base.files import read_text
from hdrl.base.textnumbers import float_of
from hdrl.experiment.reproduce.claims import (
    RULE,
    Claim,
    Difference,
    Kind,
    Sign,
    Source,
    side_of,
    sign_words,
)
from hdrl.experiments.findings import Finding, Place
from hdrl.options.reading import checked

REQUIRED = ("row", "column", "value")
COLUMNS = (
    *("row", "column", "kind", "value", "low", "high", "tolerance"),
    *("rule", "n", "deviation", "null", "sign", "source"),
)
"""Columns of a reference. One without kinds holds values, and one without sources what hdrl recorded."""

RESULT_COLUMNS = ("row", "column", "value", "low", "high", "null")
TRAINING_COLUMNS = ("row", "column", "training", "value")


class _Line(BaseModel):
    """A line of a reference; cells that are empty are left out."""

    model_config = ConfigDict(defer_build=True)

    row: str = ""
    column: str = ""
    kind: Kind = "value"
    value: FiniteFloat = math.nan
    low: FiniteFloat = math.nan
    high: FiniteFloat = math.nan
    tolerance: Annotated[FiniteFloat, Field(ge=0)] | None = None
    rule: str = ""
    n: Annotated[int, Field(ge=2)] = 0
    deviation: Annotated[FiniteFloat, Field(ge=0)] = math.nan
    null: FiniteFloat | None = None
    sign: Sign | None = None
    source: Source = "hdrl"

    @model_validator(mode="after")
    def _check_number(self) -> Self:
        if self.kind == "spread":
            if self.rule != RULE:
                raise ValueError(f"rule is {readable(self.rule)!r}, expected {RULE!r}")
            if not self.n or math.isnan(self.deviation) or math.isnan(self.value):
                raise ValueError("a spread needs the value, n trainings and their deviation")
        if self.kind != "value" and self.tolerance is not None:
            raise ValueError(f"a {self.kind} has no tolerance of its own")
        return self

    @model_validator(mode="after")
    def _check_sign(self) -> Self:
        if (self.sign is None) != (self.null is None):
            raise ValueError("has a null without a sign, or a sign without a null, expected both or none")
        claim = self.claim(0.0)
        if claim.sign is None or claim.null is None:
            if self.kind == "sign":
                raise ValueError("claims a sign, but has none")
        elif side_of(claim.interval(), claim.null) != claim.sign:
            low, high = claim.interval()
            raise ValueError(f"claims {sign_words(claim)}, but its own interval is [{low:.6g}, {high:.6g}]")
        return self

    def claim(self, relative_tolerance: float) -> Claim:
        """Return the claim of the line; see `read_reference`."""
        tolerance = self.tolerance
        if tolerance is None:
            is_relative = self.kind == "value" and not math.isnan(self.value)
            tolerance = abs(self.value) * relative_tolerance if is_relative else 0.0
        return Claim(**{name: value for name, value in self if name != "rule"} | {"tolerance": tolerance})


def read_reference(path: Path, relative_tolerance: float) -> list[Claim]:
    """Read the claims of an experiment.

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
        cells = {name: text for name, text in zip(names, row, strict=False) if text}
        claim = checked(_Line, cells, path, line=number, whole="").claim(relative_tolerance)
        key = (*claim.place, claim.source)
        if key in claims:
            raise ReadError(path, f"{key[0]!r}, {key[1]!r} is claimed twice", line=number)
        claims[key] = claim
    return list(claims.values())


def write_reference(path: Path, claims: Sequence[Claim], relative_tolerance: float) -> None:
    """Write the claims of an experiment, with those columns that it needs.

    Values with ``relative_tolerance`` have none of their own in the file.
    """
    lines = [_line(claim, relative_tolerance) for claim in claims]
    names = [name for name in COLUMNS if name in (*REQUIRED, "kind", "source") or any(line[name] for line in lines)]
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
    """Write the findings of an experiment, and the numbers of single trainings if there were some."""
    if any(one.trainings for one in results.values()):
        with atomic_table(trainings, TRAINING_COLUMNS) as write_row:
            for position, one in results.items():
                for number, value in enumerate(one.trainings, start=1):
                    write_row((*position, number, cell_text(float(value))))
    with atomic_table(path, RESULT_COLUMNS) as write_row:
        for position, one in results.items():
            write_row((*position, *map(cell_text, (one.value, one.low, one.high, one.null))))


def read_results(path: Path, trainings: Path) -> dict[Place, Finding]:
    """Read the files of `write_results`."""
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
        return float_of(text) if text else math.nan
    except ValueError:
        raise ReadError(path, f"has {readable(text)} where a number belongs") from None

"""Claims of an experiment: numbers, numbers within the spread over trainings, and on which side of no effect.

A claim must be able to fail. A *value* holds within a stated tolerance; simulations give the same bytes everywhere. A
*spread* holds if another group of as many trainings may well have that mean. A *sign* says on which side of the number
without an effect (its *null*) the whole interval lies; an effect has always one.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hdrl.experiments.findings import Finding, Place
from hdrl.metrics.statistics.student import student_quantile

Kind = Literal["value", "spread", "sign"]
Sign = Literal["below", "above", "no difference shown"]
Source = Literal["hdrl", "published"]

KINDS: tuple[Kind, ...] = ("value", "spread", "sign")

RULE = "99 % prediction"
"""The one rule that gives the tolerance of a spread, as references name it: see `Claim.allowed`."""

RATIO_OF = "ratio of "
"""Prefix of columns with ratios to the baseline of a comparison."""

_PREDICTION, _CONFIDENCE = 0.99, 0.95
_ROUNDING = 1e-9
"""By which share numbers may differ that are equal but for the order of sums."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of a reference: a number, and the side on which its interval lies."""

    # its row and column in the table
    row: str
    column: str
    kind: Kind  # kind of the claim about the number: ``"value"`` and ``"spread"`` claim it, ``"sign"`` only its side
    # the number and the ends of its interval, as they were found; NaN where there is none
    value: float
    low: float = math.nan
    high: float = math.nan
    tolerance: float = 0.0  # of a value: by how much a result may differ from it, not negative
    # number of trainings of its mean, and their standard deviation; 0 and NaN if it is no mean of trainings
    n: int = 0
    deviation: float = math.nan
    null: float | None = None  # the number if there were no effect; ``None`` for what is no effect
    sign: Sign | None = None  # on which side of the null the interval lies; ``None`` for what is no effect
    source: Source = "hdrl"  # ``"hdrl"`` recorded the number, or it was ``"published"`` by the source of the experiment

    @property
    def place(self) -> Place:
        """Row and column."""
        return self.row, self.column

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of its claims: the kind of its number, and a sign if it has one."""
        found: list[Kind] = [self.kind] if self.kind != "sign" else []
        if self.sign is not None:
            found.append("sign")
        return found

    @property
    def without_effect(self) -> float | None:
        """The number if there were no effect: its null, or 1 for a ratio to the baseline that claims no side."""
        return 1.0 if self.null is None and self.column.startswith(RATIO_OF) else self.null

    @property
    def is_effect(self) -> bool:
        """True if it claims a difference, by a side or by a ratio that is not 1."""
        if self.sign is not None:
            return self.sign in ("below", "above")
        return self.without_effect is not None and math.isfinite(self.value) and self.value != self.without_effect

    @property
    def allowed(self) -> float:
        """Largest difference of a result from the claim.

        The tolerance of a spread is half the 99 % prediction interval of the mean of `n` new trainings,
        ``t(0.995, n - 1) * deviation * sqrt(2 / n)``: of 100 such numbers one is missed by chance where trainings
        differ.
        """
        if self.kind == "spread":
            spread = student_quantile((1 + _PREDICTION) / 2, self.n - 1) * self.deviation * math.sqrt(2 / self.n)
            return max(spread, _ROUNDING * abs(self.value))
        return self.tolerance if self.kind == "value" else math.inf

    def interval(self) -> tuple[float, float]:
        """Return the interval that was recorded, see `interval_of`."""
        return interval_of(Finding(self.value, self.low, self.high), self.n, self.deviation)


@dataclass(frozen=True, slots=True)
class Difference:
    """A claim that does not hold."""

    # its row in the table, with the column
    row: str
    column: str
    kind: Kind  # kind of the violated claim
    # claimed and found values, in words
    claimed: str
    found: str
    gap: float | None = None  # by how much the numbers differ; ``None`` where no number came out, or a side is claimed
    allowed: float = math.inf  # by how much they may differ


def as_findings(results: Mapping[Place, float | Finding]) -> dict[Place, Finding]:
    """Return results whose floats are findings, too."""
    return {position: one if isinstance(one, Finding) else Finding(float(one)) for position, one in results.items()}


def claim_of(position: Place, finding: Finding, *, null: float | None = None, tolerance: float = 0.0) -> Claim | None:
    """Return the claim that follows from a finding; ``None`` if an effect or a training has no number.

    ``null`` is the number without an effect, if the finding does not say it.
    """
    null = finding.null if finding.null is not None else null
    n, deviation = spread_of(finding)
    has_number = math.isfinite(finding.value) and not (n and math.isnan(deviation))
    if not has_number and (n or null is not None):
        return None
    sign = None if null is None else sign_of(finding, null)
    return Claim(
        *position,
        kind="spread" if n else "value",
        value=finding.value,
        low=finding.low,
        high=finding.high,
        tolerance=0.0 if n else tolerance,
        n=n,
        deviation=deviation if n else math.nan,
        null=null,
        sign=sign,
    )


def spread_of(finding: Finding) -> tuple[int, float]:
    """Return the number of trainings and their standard deviation; 0 and NaN if there are fewer than two."""
    n = len(finding.trainings)
    if n < 2:
        return 0, math.nan
    if not all(math.isfinite(one) for one in finding.trainings):
        return n, math.nan
    return n, statistics.stdev(finding.trainings)


def interval_of(finding: Finding, n: int = 0, deviation: float = math.nan) -> tuple[float, float]:
    """Return the interval that decides on which side an effect lies.

    It is the finding's own; where that has none, the 95 % interval of the mean of its trainings; without trainings the
    number itself, since a simulation is exact.

    ``n`` trainings and their ``deviation`` count where the finding does not hold them.
    """
    if not (math.isnan(finding.low) or math.isnan(finding.high)):
        return finding.low, finding.high
    if finding.trainings:
        n, deviation = spread_of(finding)
    if n < 2:
        return finding.value, finding.value
    half = student_quantile((1 + _CONFIDENCE) / 2, n - 1) * deviation / math.sqrt(n)
    return finding.value - half, finding.value + half


def sign_of(finding: Finding, null: float) -> Sign:
    """Return on which side of a number the whole interval of a finding lies."""
    return side_of(interval_of(finding), null)


def side_of(interval: tuple[float, float], null: float) -> Sign:
    """Return on which side of a number an interval lies."""
    low, high = interval
    return "below" if high < null else "above" if low > null else "no difference shown"


def differences(claims: Sequence[Claim], found: Mapping[Place, Finding]) -> list[Difference]:
    """Return the claims that do not hold. Numbers without a claim are no differences."""
    return [one for claim in claims for one in _differences(claim, found.get(claim.place))]


def _differences(claim: Claim, finding: Finding | None) -> list[Difference]:
    if finding is None:
        return [Difference(*claim.place, kind, _number(claim.value), "nothing") for kind in claim.kinds[:1]]
    result = []
    if claim.kind != "sign":
        pairs = [(claim.value, finding.value)]
        if claim.kind == "value" and not math.isnan(claim.low):
            pairs += [(claim.low, finding.low), (claim.high, finding.high)]
        for wanted, value in pairs:
            if not _is_near(value, wanted, claim.allowed):
                gap = value - wanted
                texts = _number(wanted), _number(value)
                result.append(
                    Difference(*claim.place, claim.kind, *texts, None if math.isnan(gap) else gap, claim.allowed)
                )
                break
    if claim.sign is not None and claim.null is not None and sign_of(finding, claim.null) != claim.sign:
        low, high = interval_of(finding)
        result.append(
            Difference(*claim.place, "sign", sign_words(claim), f"{_number(finding.value)} [{low:.4g}, {high:.4g}]")
        )
    return result


def sign_words(claim: Claim) -> str:
    """Return the side that is claimed: ``"below 1"``, ``"above 0"``, ``"no difference from 1 shown"``."""
    if claim.sign == "no difference shown":
        return f"no difference from {claim.null:.6g} shown"
    return f"{claim.sign} {claim.null:.6g}"


def _is_near(value: float, wanted: float, allowed: float) -> bool:
    if math.isnan(wanted) or math.isnan(value):
        return math.isnan(wanted) and math.isnan(value)
    return abs(value - wanted) <= allowed


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.10g}"


def counts(claims: Sequence[Claim]) -> dict[Kind, int]:
    """Return the number of claims of each kind; a line with a number and a sign claims two things."""
    found = Counter(kind for claim in claims for kind in claim.kinds)
    return {kind: found[kind] for kind in KINDS}


def count_words(claims: Sequence[Claim]) -> str:
    """Return the number of claims of each kind, and of those with published numbers, in words."""
    by_kind = counts(claims)
    words = {"value": "value", "spread": "within the spread", "sign": "sign"}
    plural = {"value": "values", "spread": "within the spread", "sign": "signs"}
    parts = [f"{n:,} {(words if n == 1 else plural)[kind]}" for kind, n in by_kind.items() if n]
    n_published = sum(counts([one for one in claims if one.source == "published"]).values())
    n_recorded = sum(by_kind.values()) - n_published
    origin = [f"{n_published:,} published"] * bool(n_published) + [f"{n_recorded:,} recorded by hdrl"] * bool(
        n_recorded
    )
    return f"{', '.join(parts)} ({', '.join(origin)})" if parts else "nothing"


@dataclass(frozen=True, slots=True)
class NullTest:
    """Result of putting the baseline in place of the claimed candidate."""

    n_effects: int  # number of claimed effects
    passing: tuple[Claim, ...]  # the effects that would still be found, without any
    by_sign_alone: int  # number that fail by their sign alone: the tolerance of the number holds the null, too
    n_same: int  # number of claims that no difference was shown; these stand
    n_numbers: int  # number of claimed numbers that are no effects


def null_test(claims: Sequence[Claim]) -> NullTest:
    """Put the baseline in place of everything that is claimed: each effect has its null, and its interval, too."""
    effects = [one for one in claims if one.is_effect]
    passing, by_sign = [], 0
    for claim in effects:
        failed = {one.kind for one in differences([claim], {claim.place: null_finding(claim)})}
        if not failed:
            passing.append(claim)
        by_sign += failed == {"sign"}
    n_same = sum(one.sign == "no difference shown" for one in claims)
    return NullTest(len(effects), tuple(passing), by_sign, n_same, len(claims) - len(effects) - n_same)


def null_finding(claim: Claim) -> Finding:
    """Return the finding that the baseline would have in place of the claimed candidate."""
    null = claim.value if claim.without_effect is None else claim.without_effect
    has_ends = not math.isnan(claim.low)
    ends = (null, null) if has_ends else (math.nan, math.nan)
    return Finding(null, *ends, trainings=(null,) * claim.n)


def recorded(
    results: Mapping[Place, Finding], earlier: Sequence[Claim], nulls: Mapping[Place, float], relative_tolerance: float
) -> list[Claim]:
    """Return a reference anew, from what was found: every number, its kind and its sign.

    Published numbers stay as they are, and so do tolerances of values that are not the common one.

    ``nulls`` are the numbers without an effect that the recipe names. Values without a tolerance of their own get
    ``relative_tolerance``, a share of the value.
    """
    own = {one.place: one for one in earlier if one.source == "hdrl" and one.kind == "value"}
    published: dict[Place, list[Claim]] = {}
    for one in earlier:
        if one.source == "published":
            published.setdefault(one.place, []).append(one)
    claims: list[Claim] = []
    for position, finding in results.items():
        claims += published.pop(position, [])
        tolerance = 0.0 if math.isnan(finding.value) else relative_tolerance * abs(finding.value)
        old = own.get(position)
        if old is not None and old.tolerance != relative_tolerance * abs(old.value):
            tolerance = old.tolerance
        claim = claim_of(position, finding, null=nulls.get(position), tolerance=tolerance)
        if claim is not None:
            claims.append(claim)
    left = [one for those in published.values() for one in those]
    return [*left, *claims]

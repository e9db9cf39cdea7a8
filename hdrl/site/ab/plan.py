"""The plan of a switchback experiment: which of two policies schedules when.

Blocks of whole days form pairs. Each pair has one block of each policy, and a coin decides which comes first. All that
an analysis claims rests on these coins.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hdrl.base.errors import OptionsError, UnknownName, quoted
from hdrl.base.files import read_json
from hdrl.base.seeding import stream
from hdrl.metrics.catalogue import MetricInfo
from hdrl.metrics.statistics import CONFIDENCE
from hdrl.metrics.tasks import DISTRIBUTIONS
from hdrl.options.block import Block
from hdrl.options.reading import validated
from hdrl.site.values import find_zone

Pairing = Literal["next", "week"]

PAIRINGS: tuple[Pairing, ...] = ("next", "week")
"""A block is paired with the one after it, or with the same weekday of the week after."""

METRIC = "mean_bounded_slowdown"

MOST_DAYS = 3660

DAY_S = 86400.0

Text = Annotated[str, Field(min_length=1, max_length=200)]


class PlannedBlock(Block):
    """Some days under one policy."""

    begin: Text = Field(description="Its first second, ISO 8601 with the zone.")
    end: Text = Field(description="The second after its last one.")
    policy: Text = Field(description="Policy that schedules.")
    pair: Annotated[int, Field(ge=1)] = Field(description="Number of its pair.")

    @property
    def span_s(self) -> tuple[float, float]:
        """Begin and end in seconds since 1970."""
        return datetime.fromisoformat(self.begin).timestamp(), datetime.fromisoformat(self.end).timestamp()


class AbPlan(Block):
    """Contents of the file of a plan."""

    policies: Annotated[list[Text], Field(min_length=2, max_length=2)] = Field(
        description="The two policies; ratios refer to the first."
    )
    metric: Text = Field(description="The metric that decides.")
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = Field(description="Of the interval, over all looks together.")
    zone: Text = Field(description="Time zone in which blocks begin at midnight.")
    wash_out_s: Annotated[float, Field(ge=0)] = Field(
        description="Jobs that become eligible so soon after the begin of a block do not count."
    )
    settle_s: Annotated[float, Field(ge=0)] = Field(
        description="So long after its end the numbers of a block are taken; what happens later does not change them."
    )
    seed: Annotated[int, Field(ge=0)] = Field(description="Seed of the random order.")
    blocks: Annotated[list[PlannedBlock], Field(min_length=2)] = Field(description="The blocks in their order.")

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        of_pair: dict[int, list[str]] = {}
        for block in self.blocks:
            try:
                begin_s, end_s = block.span_s
            except (ValueError, OverflowError):
                raise ValueError(f"block {block.begin} to {block.end} has no dates in ISO 8601") from None
            if not begin_s < end_s:
                raise ValueError(f"block {block.begin} ends before it begins")
            of_pair.setdefault(block.pair, []).append(block.policy)
        for one, other in itertools.pairwise(self.blocks):
            if other.span_s[0] < one.span_s[1]:
                raise ValueError(f"block {other.begin} begins before the one before it ends")
        if len(set(self.policies)) < 2:
            raise ValueError(f"policies are both {self.policies[0]}, expected two")
        for pair, policies in of_pair.items():
            if sorted(policies) != sorted(self.policies):
                raise ValueError(f"pair {pair} has {' and '.join(policies)}, expected {' and '.join(self.policies)}")
        if self.metric not in METRICS:
            raise ValueError(f"metric is {self.metric}, expected one of {', '.join(METRICS)}")
        return self

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self.blocks) // 2


METRICS: Mapping[str, MetricInfo] = DISTRIBUTIONS
"""Metrics that a block of accounting data has."""


@dataclass(frozen=True, slots=True)
class PlanChoices:
    """Choices for a plan.

    Attributes
    ----------
    policies
        The two policies; the first is what runs today.
    start
        The first day.
    n_days, block_days
        Length of the whole and of a block.
    wash_out_s, settle_s
        As of an `AbPlan`; ``None``: a quarter of a block.
    pairing
        Pairing of the blocks.
    metric, confidence, zone, seed
        As of an `AbPlan`.
    """

    policies: tuple[str, ...]
    start: date
    n_days: int
    block_days: int = 1
    wash_out_s: float | None = None
    settle_s: float = DAY_S
    pairing: Pairing = "next"
    metric: str = METRIC
    confidence: float = CONFIDENCE
    zone: str = "UTC"
    seed: int = 0


def plan_ab(choices: PlanChoices) -> AbPlan:
    """Return a plan: each pair of blocks has both policies, in an order that a coin decides.

    Raises
    ------
    OptionsError
        If the days make no whole pairs, or a number is out of range.
    UnknownName
        If there is no such metric.
    """
    wash_out_s = wash_out_of(choices)
    if choices.metric not in METRICS:
        raise UnknownName("metric", choices.metric, METRICS)
    if len(choices.policies) != 2 or len(set(choices.policies)) < 2:
        raise OptionsError(f"--policies has {', '.join(choices.policies) or 'none'}; expected two different ones: A,B")
    round_days, per_round = days_of_round(choices.pairing, choices.block_days)
    if choices.n_days < round_days or choices.n_days % round_days:
        near = max(1, round(choices.n_days / round_days)) * round_days
        raise OptionsError(
            f"--days is {choices.n_days}, expected whole rounds of {round_days} days, for instance {near}"
        )
    if choices.n_days > MOST_DAYS:
        raise OptionsError(f"--days is {choices.n_days:,}, expected at most {MOST_DAYS:,}")
    if not wash_out_s < choices.block_days * DAY_S:
        raise OptionsError(
            f"--wash-out is {wash_out_s / 3600:g} h, expected less than a block of {24 * choices.block_days} h"
        )
    coins = stream(choices.seed, "ab/plan").integers(0, 2, choices.n_days // choices.block_days // 2).tolist()
    dates = _midnights(choices)
    blocks = []
    for number, (begin, end) in enumerate(itertools.pairwise(dates)):
        at_round, position = divmod(number, 2 * per_round)
        is_second, within = divmod(position, per_round)
        pair = at_round * per_round + within
        policy = choices.policies[coins[pair] ^ is_second]
        blocks.append(PlannedBlock(begin=begin, end=end, policy=policy, pair=pair + 1))
    return AbPlan(
        policies=list(choices.policies),
        metric=choices.metric,
        confidence=choices.confidence,
        zone=choices.zone,
        wash_out_s=wash_out_s,
        settle_s=choices.settle_s,
        seed=choices.seed,
        blocks=blocks,
    )


def wash_out_of(choices: PlanChoices) -> float:
    """Return the wash-out in seconds: a quarter of a block unless it is said."""
    return choices.block_days * DAY_S / 4 if choices.wash_out_s is None else choices.wash_out_s


def days_of_round(pairing: Pairing, block_days: int) -> tuple[int, int]:
    """Return the days after which all pairs are whole, and how many pairs these are.

    Raises
    ------
    OptionsError
        If blocks of this length have no partner a week later.
    """
    if pairing == "next":
        return 2 * block_days, 1
    if 7 % block_days:
        raise OptionsError(f"--block is {block_days}d, expected 1d or 7d with --pairing week")
    return 14, 7 // block_days


def _midnights(choices: PlanChoices) -> list[str]:
    """Return the beginnings of the blocks, and the end of the last: midnights of the zone, whatever clocks do."""
    zone = find_zone(choices.zone) or UTC
    n_blocks = choices.n_days // choices.block_days
    try:
        days = [choices.start + timedelta(days=number * choices.block_days) for number in range(n_blocks + 1)]
    except OverflowError:
        raise OptionsError(f"--start {choices.start}: {choices.n_days:,} days after it there is no date") from None
    return [datetime(day.year, day.month, day.day, tzinfo=zone).isoformat() for day in days]


def read_plan(path: str | Path) -> AbPlan:
    """Read a plan.

    Raises
    ------
    ReadError
        If the file cannot be read.
    OptionsError
        If it is no plan.
    """
    path = Path(path)
    return validated(AbPlan, read_json(path), str(path))


def duration_of(text: str, option: str) -> float:
    """Return a duration such as ``6h``, ``90min`` or ``1d`` in seconds.

    Raises
    ------
    OptionsError
        If it is none.
    """
    units = {"min": 60.0, "h": 3600.0, "d": DAY_S}
    for unit, seconds in units.items():
        number = text.removesuffix(unit)
        if number != text and number.isascii() and number.isdigit() and len(number) < 6:
            return int(number) * seconds
    raise OptionsError(f"{option} is {quoted(text)}, expected a duration such as 90min, 6h or 1d")


def block_days_of(text: str) -> int:
    """Return the length of a block such as ``1d`` in days.

    Raises
    ------
    OptionsError
        If it is no number of whole days.
    """
    days, rest = divmod(duration_of(text, "--block"), DAY_S)
    if rest or not days:
        raise OptionsError(f"--block is {quoted(text)}, expected whole days such as 1d")
    return int(days)

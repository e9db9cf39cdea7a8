"""Options for learning by several workers: the scheme, the number of workers, and the speed of each."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from hdrl.options.block import Block
from hdrl.options.numbers import Number

Count = Annotated[int, Field(ge=1, le=100_000)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Death = Annotated[tuple[Seconds, Annotated[int, Field(ge=0)]], Field(strict=False)]

_VISITS = ("visit_iterations", "epsilon")
"""Options of agents for single configurations alone."""

SCHEMES = ("sync", "sync_backup", "async", "ong", "gorila", "apex")


class DelayOptions(Block):
    """Durations of the workers in virtual time, which decide the order of their gradients."""

    compute_s: Annotated[float, Field(gt=0, le=1e9)] = Field(
        default=1.0, description="Seconds that a worker takes for a batch: its steps and its gradient."
    )
    network_s: Seconds = Field(default=0.0, description="Seconds of a message, in one direction.")
    update_s: Annotated[float, Field(gt=0, le=1e9)] = Field(
        default=0.25, description="apex: seconds that the learner takes for a batch."
    )
    spread: Annotated[float, Field(ge=0, le=5)] = Field(
        default=0.0, description="Standard deviation of the logarithm of computing times; 0: always the same."
    )
    stragglers: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=0, description="Number of slow workers, the last ones."
    )
    slowdown: Annotated[float, Field(ge=1, le=1e6)] = Field(
        default=10.0, description="Factor by which slow workers take longer than the others."
    )
    deaths: Annotated[tuple[Death, ...], Field(strict=False)] = Field(
        default=(), description="Deaths of workers: [[seconds, number from 0], ...]; another worker replaces it."
    )


class DistributedOptions(Block):
    """Options for learning by several workers together."""

    scheme: Literal["sync", "sync_backup", "async", "ong", "gorila", "apex"] = Field(
        description="Synchronisation of the workers, and location of the replay."
    )
    workers: Count = Field(
        default=2, description="Number of workers, which share the environments and each batch; apex: actors."
    )
    backup: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=0, description="sync_backup: additional workers, so that a step does not wait for the slowest."
    )
    servers: Count = Field(default=1, description="Number of servers that share the weights.")
    allotment: Literal["simulations", "configurations"] = Field(
        default="simulations",
        description="simulations: every worker simulates the whole training load; configurations: each has its own"
        " configurations of the load.",
    )
    reliance: Literal["pooled", "none", "carried", "nearest"] = Field(
        default="pooled",
        description="Initial weights of the agent of a configuration. pooled: one agent for all; none:"
        " random ones; carried: the weights of the previous configuration; nearest: the weights of the nearest"
        " trained one.",
    )
    visit_iterations: Count = Field(
        default=1,
        description="One agent for each configuration: iterations on one before the next one.",
    )
    epsilon: Literal["visit", "configuration", "all"] = Field(
        default="visit",
        description="One agent for each configuration: steps with which the share of random actions falls, those of"
        " this visit, of all visits to this configuration, or of all configurations.",
    )
    push_every: Count = Field(
        default=1,
        description="async: batches of a worker between two messages; apex: steps in a message.",
    )
    fetch_every: Count = Field(
        default=1,
        description="async: batches of a worker between two fetches of the weights; apex: messages.",
    )
    rule: Literal["agent", "sgd", "adagrad", "rmsprop"] | None = Field(
        default=None, description="Optimiser of the servers; null: the scheme's, agent: the agent's."
    )
    max_staleness: Number | None = Field(
        default=None, description="Servers drop gradients of weights that are older by more updates; null: none."
    )
    order: Literal["virtual", "arrival"] = Field(
        default="virtual",
        description="virtual: messages count in the order of virtual time, so every run gives the same bytes; "
        "arrival: in the order of arrival, only on Ray and not repeatable.",
    )
    delays: DelayOptions = Field(default_factory=DelayOptions, description="Virtual time.")

    @model_serializer(mode="wrap")
    def _without_unused_parts(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the ways from one configuration to the next where there are none: files stay as they were."""
        data: dict[str, Any] = handler(self)
        if self.reliance == "pooled":
            data = {name: value for name, value in data.items() if name not in ("reliance", *_VISITS)}
        return data

    @model_validator(mode="after")
    def _check_reliance(self) -> Self:
        where = "learning.distributed"
        if self.reliance == "pooled":
            for name in _VISITS:
                if name in self.model_fields_set and getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(
                        f"{where}.{name} is for one agent for each configuration, expected {where}.reliance none,"
                        " carried or nearest"
                    )
            return self
        if self.order != "virtual" or self.delays.deaths:
            name = "order arrival" if self.order != "virtual" else "delays.deaths"
            raise ValueError(f"{where}.{name} is for reliance pooled, not {self.reliance}")
        if self.allotment == "configurations" and self.scheme != "sync":
            raise ValueError(
                f"{where}.scheme is {self.scheme}, but with allotment configurations and reliance {self.reliance} each"
                " worker learns by itself, expected sync"
            )
        return self

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        where = "learning.distributed"
        if self.scheme != "sync_backup" and self.backup:
            raise ValueError(f"{where}.backup is {self.backup}, but only scheme sync_backup has backups, expected 0")
        if self.scheme == "sync_backup" and not self.backup:
            raise ValueError(f"{where}.backup is 0, expected at least 1 with scheme sync_backup")
        intervals = [name for name in ("push_every", "fetch_every") if getattr(self, name) != 1]
        if intervals and self.scheme not in ("async", "apex"):
            raise ValueError(f"{where}.{intervals[0]} is for the schemes async and apex, not {self.scheme}, expected 1")
        if self.scheme == "async" and self.fetch_every % self.push_every:
            raise ValueError(
                f"{where}.fetch_every is {self.fetch_every}, expected a multiple of push_every, {self.push_every}"
            )
        if self.scheme == "apex" and (self.servers > 1 or self.rule is not None):
            raise ValueError(f"{where}.scheme apex has one learner, expected neither servers nor rule")
        for when, number in self.delays.deaths:
            if number >= self.workers + self.backup:
                raise ValueError(
                    f"{where}.delays.deaths names worker {number} at {when:g} s, expected 0 to "
                    f"{self.workers + self.backup - 1}"
                )
        if self.delays.stragglers > self.workers + self.backup:
            raise ValueError(
                f"{where}.delays.stragglers is {self.delays.stragglers}, but there are "
                f"{self.workers + self.backup} workers"
            )
        return self

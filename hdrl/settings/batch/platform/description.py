"""The format of platform descriptions and type libraries, as models that check what they are given.

The keys are HDeepRM's, so that its files can be used as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from hdrl.options.problems import problem_of
from hdrl.settings.batch.platform.quantities import TIME_UNITS, gbit_per_s, quantity

M = TypeVar("M", bound="Strict")

Name = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=1, le=2**24)]
Positive = Annotated[float, Field(ge=1e-6, le=1e12)]
NotNegative = Annotated[float, Field(ge=0, le=1e12)]


def _checked(convert: Callable[[str], float], *, may_be_zero: bool) -> AfterValidator:
    """Return a validator that keeps the text and refuses what `convert` refuses."""

    def check(text: str) -> str:
        try:
            value = convert(text)
        except ValueError as error:
            raise PydanticCustomError("quantity", "{problem}", {"problem": str(error)}) from None
        if value == 0 and not may_be_zero:
            raise PydanticCustomError("quantity", "{problem}", {"problem": f"{text!r} must be more than 0"})
        return text

    return AfterValidator(check)


Bandwidth = Annotated[str, _checked(gbit_per_s, may_be_zero=False)]
Time = Annotated[str, _checked(lambda text: quantity(text, TIME_UNITS), may_be_zero=True)]


class Strict(BaseModel):
    """A model without type conversions or unknown keys."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class ProcessorEntry(Strict):
    """A processor type: numbers as in `platform.ProcessorType`, under HDeepRM's keys."""

    type: Name = "CPU"
    uarch: str = ""
    id: str = ""
    cores: Count
    clock_rate: Positive
    dpflops_per_cycle: Positive
    mem_bw: Positive
    power: NotNegative
    llc_size: NotNegative = 0.0
    source: str = ""


class Memory(Strict):
    """The memory of a node: capacity in GB and the name of its type."""

    capacity: Positive
    type: Name | None = None


class ProcessorUse(Strict):
    """How many processors of a type a node has."""

    type: Name
    number: Count


class NodeEntry(Strict):
    """A node type."""

    processors: list[ProcessorUse] = Field(min_length=1)
    memory: Memory
    id: str = ""
    source: str = ""


class NetworkEntry(Strict):
    """A network type: bandwidth of one link, in each direction."""

    bandwidth: Bandwidth
    source: str = ""


class MemoryEntry(Strict):
    """A memory type."""

    latency: Time | None = None
    source: str = ""


class Types(Strict):
    """Types by name. A key that begins with an underscore (``_doc``) is a remark."""

    nodes: dict[Name, NodeEntry] = Field(default_factory=dict)
    processors: dict[Name, ProcessorEntry] = Field(default_factory=dict)
    networks: dict[Name, NetworkEntry] = Field(default_factory=dict)
    memories: dict[Name, MemoryEntry] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _drop_remarks(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            kind: {k: v for k, v in entries.items() if not str(k).startswith("_")}
            if isinstance(entries, dict)
            else entries
            for kind, entries in value.items()
        }


class LinkUse(Strict):
    """A kind of link: the name of a network type, and a latency such as ``"0us"``."""

    type: Name
    latency: Time


class NodeUse(Strict):
    """How many nodes of a type a cluster has."""

    type: Name
    number: Count


class ClusterEntry(Strict):
    """A cluster."""

    id: Name
    nodes: list[NodeUse] = Field(min_length=1)
    local_links: LinkUse


class PlatformDescription(Strict):
    """A whole platform; ``job_limits`` tells that it is one of HDeepRM 0.1, and is not used otherwise."""

    clusters: list[ClusterEntry] = Field(min_length=1)
    global_links: LinkUse
    types: Types = Field(default_factory=Types)
    job_limits: dict[str, Any] | None = None


def validated(model: type[M], value: object) -> M:
    """Return a value as a model.

    Parameters
    ----------
    model
        What it should be.
    value
        What was read.

    Raises
    ------
    ValueError
        If it is something else; the message names the place, one line.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise ValueError(str(problem_of(model, error, "the file"))) from None

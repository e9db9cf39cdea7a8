"""The format of platform descriptions and type libraries, as models that check what they are given.

The keys are HDeepRM's, so that its files can be used as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Self, TypeGuard, TypeVar

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from hdrl.options.block import Block
from hdrl.options.problems import problem_of
from hdrl.settings.batch.node_power import NodePowerOptions
from hdrl.settings.batch.platform.homogeneous import ENDLESS_GBPS
from hdrl.settings.batch.platform.model import FittedCurve, SpeedCurve
from hdrl.settings.batch.simgrid.quantities import TIME_UNITS, gbit_per_s, quantity

M = TypeVar("M", bound=Block)

Name = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=1, le=2**24)]
Positive = Annotated[float, Field(ge=1e-6, le=1e12)]
NotNegative = Annotated[float, Field(ge=0, le=1e12)]
Parameter = Annotated[float, Field(ge=-1e12, le=1e12)]


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


def _error(problem: str) -> PydanticCustomError:
    return PydanticCustomError("told", "{problem}", {"problem": problem})


def _is_number(value: object) -> TypeGuard[float]:
    # Larger numbers are refused when their own keys are checked.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LARGEST


_LARGEST = 1e100


PROCESSOR_KEYS = {
    "kind": "type",
    "microarchitecture": "uarch",
    "cores": "cores",
    "clock_ghz": "clock_rate",
    "flops_per_cycle": "dpflops_per_cycle",
    "memory_bandwidth_gbps": "mem_bw",
    "power_w": "power",
    "llc_mb": "llc_size",
    "source": "source",
}
"""HDeepRM's keys of processor types by the names of `platform.ProcessorType`, in the order of files."""

POWER_KEYS = ("static_power", "dynamic_power", "min_power")
MB_PER_GB = 1000

CURVE_KEYS: tuple[str, ...] = SpeedCurve.__slots__
FIT_KEYS: tuple[str, ...] = FittedCurve.__slots__
"""Keys of IRMaSim's modelV1 and modelV2."""


def _fitted(fit: dict[str, Any], cores: object, bandwidth_gbps: object) -> dict[str, Any]:
    """Return the fields of a processor with a fit; one for all of it, since each costs time whenever hdrl starts."""
    lacking = [key for key in FIT_KEYS if key not in fit]
    if lacking:
        raise _error(f"{lacking[0]} is missing, aaa to dbb, pidle and p00 to p20 belong together")
    if _is_number(fit["pidle"]) and fit["pidle"] < 0:
        raise _error(f"pidle is {fit['pidle']:g}, expected at least 0")
    power_w = 0.0  # of what is wrong, which is refused later
    if isinstance(cores, int) and all(map(_is_number, fit.values())):
        power_w = FittedCurve(**fit).serving_w(cores)
    return {"fit": fit, "power": power_w, "mem_bw": ENDLESS_GBPS if bandwidth_gbps is None else bandwidth_gbps}


class ProcessorEntry(Block):
    """A processor type: numbers as in `platform.ProcessorType`, under HDeepRM's keys and IRMaSim's.

    IRMaSim's come in groups: ``static_power``, ``dynamic_power`` and ``min_power`` stand for ``power``, and ``b`` to
    ``dd`` may stand for ``mem_bw``, which is then the demand ``c`` at which contention begins. ``aaa`` to ``p20``, of
    its modelV2, stand for ``power`` and ``mem_bw``, which it does not limit.
    """

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
    static_power: NotNegative | None = None
    dynamic_power: NotNegative | None = None
    min_power: Annotated[float, Field(ge=0, le=1)] | None = None
    b: Annotated[float, Field(lt=0, ge=-1e12)] | None = None
    c: Positive | None = None
    da: Parameter | None = None
    db: Parameter | None = None
    dc: Positive | None = None
    dd: NotNegative | None = None
    fit: dict[str, Parameter] | None = None

    @model_validator(mode="before")
    @classmethod
    def _sums_up(cls, value: Any) -> Any:
        """Take the power of the whole processor, and its bandwidth, from IRMaSim's keys."""
        if not isinstance(value, dict):
            return value
        if "fit" in value:
            raise _error("fit is not a key, its numbers stand beside the others")
        given = dict(value)
        static, dynamic, cores = (given.get(key) for key in ("static_power", "dynamic_power", "cores"))
        if _is_number(static) and _is_number(dynamic) and _is_number(cores):
            given["power"] = static + cores * dynamic
        if given.get("c") is not None:  # values that are no numbers are refused under their own key
            given.setdefault("mem_bw", given["c"] / MB_PER_GB if _is_number(given["c"]) else ENDLESS_GBPS)
        if any(key in given for key in FIT_KEYS):
            given |= _fitted({key: given.pop(key) for key in FIT_KEYS if key in given}, cores, given.get("mem_bw"))
        return given

    @model_validator(mode="after")
    def _groups_are_whole(self) -> Self:
        for keys in (POWER_KEYS, CURVE_KEYS):
            lacking = [key for key in keys if getattr(self, key) is None]
            if 0 < len(lacking) < len(keys):
                raise _error(f"{lacking[0]} is missing, {', '.join(keys)} belong together")
        return self


class NodeMemory(Block):
    """The memory of a node: capacity in GB and the name of its type."""

    capacity: Positive
    type: Name | None = None


class ProcessorUse(Block):
    """Number of processors of a type in a node."""

    type: Name
    number: Count


class NodeEntry(Block):
    """A node type; ``node_power`` takes the place of what the options say of switching nodes."""

    processors: list[ProcessorUse] = Field(min_length=1)
    memory: NodeMemory
    id: str = ""
    source: str = ""
    node_power: NodePowerOptions | None = None


class NetworkEntry(Block):
    """A network type: bandwidth of one link, in each direction."""

    bandwidth: Bandwidth
    source: str = ""


class MemoryEntry(Block):
    """A memory type."""

    latency: Time | None = None
    source: str = ""


class Types(Block):
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


class LinkUse(Block):
    """A kind of link: the name of a network type, and a latency such as ``"0us"``."""

    type: Name
    latency: Time


class NodeUse(Block):
    """Number of nodes of a type in a cluster."""

    type: Name
    number: Count


class ClusterEntry(Block):
    """A cluster."""

    id: Name
    nodes: list[NodeUse] = Field(min_length=1)
    local_links: LinkUse


class PlatformDescription(Block):
    """A whole platform; ``job_limits`` tells that it is one of HDeepRM 0.1, and is not used otherwise.

    ``site_rules`` is the name of a file beside this one that says which rules the site has, see `reader`.
    """

    clusters: list[ClusterEntry] = Field(min_length=1)
    global_links: LinkUse
    types: Types = Field(default_factory=Types)
    job_limits: dict[str, Any] | None = None
    site_rules: Name | None = None


def validated(model: type[M], value: object) -> M:
    """Return a value as a model.

    Raises
    ------
    ValueError
        If it is something else; the message names the position, one line.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise ValueError(str(problem_of(model, error, "the file"))) from None

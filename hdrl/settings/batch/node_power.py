"""Time and power of switching nodes: as platforms keep them, and as options and descriptions of platforms give them.

The defaults of the latter are those of the former.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from hdrl.base.errors import PlatformError
from hdrl.options.block import Block
from hdrl.options.numbers import Positive

Fraction = Annotated[float, Field(ge=0, le=100)]


def _check_powers(block: NodePower | SuspendPower, where: str, names: Iterable[str]) -> None:
    """Refuse times that are not above 0 and powers below 0."""
    for name in names:
        value = getattr(block, name)
        if not (0 <= value < math.inf) or (name.endswith("_s") and value == 0):
            expected = "seconds above 0" if name.endswith("_s") else "a fraction of the peak, at least 0"
            raise PlatformError(f"{name} of {where} is {value!r}, expected {expected}")


@dataclass(frozen=True, slots=True)
class SuspendPower:
    """Cost of suspending nodes to memory and of resuming them: seconds, and power as fractions of a core's peak.

    Attributes
    ----------
    suspend_s, resume_s
        Durations of suspending and resuming, in seconds, above 0.
    suspend_power, resume_power, suspended_power
        Power of a core of a node meanwhile, and while the node is suspended.
    """

    suspend_s: float = 5.0
    resume_s: float = 10.0
    suspend_power: float = 0.5
    resume_power: float = 0.6
    suspended_power: float = 0.1

    def __post_init__(self) -> None:
        """Check the numbers."""
        _check_powers(self, "node_power.suspend", self.__slots__)


@dataclass(frozen=True, slots=True)
class NodePower:
    """Cost of switching nodes off and on: seconds, and power as fractions of a core's peak.

    Attributes
    ----------
    boot_s, shutdown_s
        Durations of booting and shutting down, in seconds, above 0.
    boot_power, shutdown_power, off_power
        Power of a core of a node meanwhile, and while the node is off.
    idle_power
        Power of a core without a job while its node is on, in place of the fractions of P2 and P3.
    suspend
        Cost of suspending nodes, a second sleep state; ``None``: they can be switched off alone.
    """

    boot_s: float = 150.0
    shutdown_s: float = 30.0
    boot_power: float = 0.65
    shutdown_power: float = 0.55
    off_power: float = 0.05
    idle_power: float = 0.5
    suspend: SuspendPower | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        _check_powers(self, "node_power", [name for name in self.__slots__ if name != "suspend"])

    @classmethod
    def read(cls, numbers: Mapping[str, Any]) -> Self:
        """Return the numbers of options, or of a stored platform, by name.

        Parameters
        ----------
        numbers
            The numbers by the names of the attributes, those of ``suspend`` likewise.
        """
        suspend = numbers.get("suspend")
        return cls(**{**numbers, "suspend": None if suspend is None else SuspendPower(**suspend)})

    def stored(self) -> dict[str, Any]:
        """Return the same by name; without ``suspend`` where there is none."""
        keys = asdict(self)
        if self.suspend is None:
            del keys["suspend"]
        return keys


_SUSPEND, _OFF = SuspendPower(), NodePower()


class SuspendOptions(Block):
    """Cost of suspending nodes to memory and of resuming them; powers as in `NodePowerOptions`."""

    suspend_s: Positive = Field(default=_SUSPEND.suspend_s, description="Duration of suspending a node.")
    resume_s: Positive = Field(default=_SUSPEND.resume_s, description="Duration of the transition back.")
    suspend_power: Fraction = Field(
        default=_SUSPEND.suspend_power, description="Power of cores while their node is being suspended."
    )
    resume_power: Fraction = Field(
        default=_SUSPEND.resume_power, description="Power of cores while their node is being resumed."
    )
    suspended_power: Fraction = Field(
        default=_SUSPEND.suspended_power, description="Power of cores while their node is suspended."
    )


class NodePowerOptions(Block):
    """Cost of switching nodes off and on; powers are fractions of what a core draws at its peak."""

    boot_s: Positive = Field(default=_OFF.boot_s, description="Duration of booting a node.")
    shutdown_s: Positive = Field(default=_OFF.shutdown_s, description="Duration of shutting down a node.")
    boot_power: Fraction = Field(default=_OFF.boot_power, description="Power of cores while their node boots.")
    shutdown_power: Fraction = Field(
        default=_OFF.shutdown_power, description="Power of cores while their node shuts down."
    )
    off_power: Fraction = Field(default=_OFF.off_power, description="Power of cores while their node is off.")
    idle_power: Fraction = Field(
        default=_OFF.idle_power, description="Power of cores without a job while their node is on."
    )
    suspend: SuspendOptions | None = Field(
        default=None, description="Times and powers of suspending nodes, the second sleep state; null: no such state."
    )

    @model_serializer(mode="wrap")
    def _omit_missing_suspend(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave the key out where it is empty, so that the files of a run stay as they always were."""
        keys: dict[str, Any] = handler(self)
        if keys.get("suspend", 0) is None:
            del keys["suspend"]
        return keys

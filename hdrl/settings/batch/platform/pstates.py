"""P-states and contention: how fast a core runs and what it draws, in one place.

Every core has the same ladder of P-states, scaled by its own peak speed and power:

====  =========================================================  =========  =========
P     when                                                       speed      power
====  =========================================================  =========  =========
0     serves a job                                               100 %      100 %
1     serves a job while its processor's bandwidth is            contended  100 %
      over-committed
2     free, but another core of its processor serves a job       0          15 %
3     its whole processor is free                                0          5 %
4...  further contended speeds, if the contention model has      contended  100 %
      more than one
====  =========================================================  =========  =========

SimGrid knows no speed of zero, so P2 and P3 run at 0.001 flop/s; nothing is computed on them. Processor types may say
themselves what P2 and P3 draw (`model.SplitPower`), instead of 15 and 5 %.

As in IRMaSim, processors may draw nothing until their first job starts. That is a P-state, too, the last of the ladder.

Where nodes may be switched off (`NodePower`), three more follow, the last ones of the ladder: off, on the way to it,
and on the way back; and three more where they may be suspended, too. As in Batsim, a way is a P-state in which one flop
takes as long as the way does. Nodes of other types may have other numbers; the P-states are the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from hdrl.errors import PlatformError, UnknownName
from hdrl.settings.batch.registries import COMPATIBILITY_MODES, CONTENTION_MODELS, HDEEPRM, IRMASIM, ContentionModel

SERVING = 0
CONTENDED = 1
FREE = 2
IDLE = 3
FIRST_EXTRA_LEVEL = 4
"""P-state of the second contended speed (the first one is `CONTENDED`)."""

STOPPED_FLOPS = 0.001
"""Speed written for the P-states in which nothing runs, in flop/s."""


def contention_model(name: str) -> ContentionModel:
    """Return a contention model by its name.

    Parameters
    ----------
    name
        One of `hdrl.settings.batch.registries.CONTENTION_MODELS`.

    Raises
    ------
    UnknownName
        If there is no such model.
    """
    return CONTENTION_MODELS[name]


def _check_powers(block: NodePower | SuspendPower, where: str, names: Iterable[str]) -> None:
    """Refuse times that are not above 0 and powers below 0."""
    for name in names:
        value = getattr(block, name)
        if not (0 <= value < math.inf) or (name.endswith("_s") and value == 0):
            expected = "seconds above 0" if name.endswith("_s") else "a fraction of the peak, at least 0"
            raise PlatformError(f"{name} of {where} is {value!r}, expected {expected}")


@dataclass(frozen=True, slots=True)
class SuspendPower:
    """What it takes to suspend nodes to memory and to resume them: seconds, and power as fractions of a core's peak.

    Attributes
    ----------
    suspend_s, resume_s
        How long suspending and resuming take, in seconds, above 0.
    suspend_power, resume_power, suspended_power
        What a core of a node draws meanwhile, and while the node is suspended.
    """

    suspend_s: float = 5.0
    resume_s: float = 10.0
    suspend_power: float = 0.5
    resume_power: float = 0.6
    suspended_power: float = 0.1

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises
        ------
        PlatformError
            If a time is not above 0, or a power below 0.
        """
        _check_powers(self, "node_power.suspend", self.__slots__)


@dataclass(frozen=True, slots=True)
class NodePower:
    """What it takes to switch nodes off and on: seconds, and power as fractions of a core's peak.

    Attributes
    ----------
    boot_s, shutdown_s
        How long booting and shutting down take, in seconds, above 0.
    boot_power, shutdown_power, off_power
        What a core of a node draws meanwhile, and while the node is off.
    idle_power
        What a core without a job draws while its node is on, in place of the fractions of P2 and P3.
    suspend
        What it takes to suspend nodes, a second sleep state; ``None``: they can be switched off alone.
    """

    boot_s: float = 150.0
    shutdown_s: float = 30.0
    boot_power: float = 0.65
    shutdown_power: float = 0.55
    off_power: float = 0.05
    idle_power: float = 0.5
    suspend: SuspendPower | None = None

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises
        ------
        PlatformError
            If a time is not above 0, or a power below 0.
        """
        _check_powers(self, "node_power", [name for name in self.__slots__ if name != "suspend"])

    @property
    def rungs(self) -> list[tuple[tuple[float, float], ...]]:
        """Of each sleep state, flop/s and share of the peak power there, on the way to it, and on the way back."""
        ways = [(self.off_power, self.shutdown_power, self.shutdown_s, self.boot_power, self.boot_s)]
        if self.suspend is not None:
            there = self.suspend
            ways.append(
                (there.suspended_power, there.suspend_power, there.suspend_s, there.resume_power, there.resume_s)
            )
        return [
            ((STOPPED_FLOPS, asleep), (1.0 / down_s, down), (1.0 / up_s, up)) for asleep, down, down_s, up, up_s in ways
        ]

    @classmethod
    def read(cls, numbers: Mapping[str, Any]) -> Self:
        """Return what options, or a stored platform, tell by name.

        Parameters
        ----------
        numbers
            The numbers by the names of the attributes, those of ``suspend`` likewise.
        """
        suspend = numbers.get("suspend")
        return cls(**{**numbers, "suspend": None if suspend is None else SuspendPower(**suspend)})

    def stored(self) -> dict[str, Any]:
        """Return the same by name; without ``suspend`` where there is none."""
        told = asdict(self)
        if self.suspend is None:
            del told["suspend"]
        return told


@dataclass(frozen=True, slots=True)
class PStateRules:
    """Speed and power of the P-states, as fractions of a core's peak.

    Attributes
    ----------
    name
        The name of the rules.
    contention
        The contended speeds.
    power_factors
        Power of P0 to P3 as fractions of the peak, as the simulators charge it.
    decision_power_factors
        The same as the decision system believes it (it differs in the compatibility mode only).
    decimals
        Decimals to which Gflop/s and watts are rounded, or ``None`` for no rounding.
    mib_per_gb
        Megabytes that a "GB" of a node's memory holds.
    node_power
        What it takes to switch nodes off that do not say so themselves; ``None``: they are always on.
    """

    name: str
    contention: ContentionModel
    power_factors: tuple[float, float, float, float] = (1.0, 1.0, 0.15, 0.05)
    decision_power_factors: tuple[float, float, float, float] = (1.0, 1.0, 0.15, 0.05)
    decimals: int | None = None
    mib_per_gb: int = 1024
    node_power: NodePower | None = None

    @property
    def unused_pstate(self) -> int | None:
        """P-state of the cores of processors that have not served a job yet; ``None``: they are in P3."""
        if self.name != IRMASIM:
            return None
        return FIRST_EXTRA_LEVEL + max(0, len(self.contention.speed_factors) - 1)


def pstate_rules(
    contention: str = "step", *, compatibility: str | None = None, node_power: NodePower | None = None
) -> PStateRules:
    """Return the P-state rules of a contention model, today's, HDeepRM's or IRMaSim's.

    HDeepRM 0.3.1 rounds speeds and powers to three decimals on their way into the platform
    file, charges 25 % for P2 there while its decision system believes 15 %, and counts 1000 MB in a GB.
    IRMaSim charges nothing for processors that have not served a job yet.

    Parameters
    ----------
    contention
        The name of a contention model.
    compatibility
        ``None``, or one of `registries.COMPATIBILITY_MODES`, where nodes are always on.
    node_power
        What it takes to switch nodes off that do not say so themselves; ``None``: they are always on.

    Raises
    ------
    UnknownName
        If a name is unknown.
    """
    model = contention_model(contention)
    if compatibility is None:
        return PStateRules("default", model, node_power=node_power)
    if compatibility == HDEEPRM:
        return PStateRules(compatibility, model, power_factors=(1.0, 1.0, 0.25, 0.05), decimals=3, mib_per_gb=1000)
    if compatibility == IRMASIM:
        return PStateRules(compatibility, model)
    raise UnknownName("compatibility mode", compatibility, COMPATIBILITY_MODES)

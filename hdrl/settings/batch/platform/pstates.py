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

from dataclasses import dataclass

from hdrl.base.errors import UnknownName
from hdrl.settings.batch.contention import CONTENTION_MODELS, ContentionModel
from hdrl.settings.batch.node_power import NodePower
from hdrl.settings.batch.simulators import COMPATIBILITY_MODES, HDEEPRM, IRMASIM

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
        One of `hdrl.settings.batch.contention.CONTENTION_MODELS`.

    Raises
    ------
    UnknownName
        If there is no such model.
    """
    return CONTENTION_MODELS[name]


def sleeping_rungs(power: NodePower) -> list[tuple[tuple[float, float], ...]]:
    """Return flop/s and share of the peak power in each sleep state, on the way to it, and on the way back.

    ``power``: what it takes to switch a node.
    """
    ways = [(power.off_power, power.shutdown_power, power.shutdown_s, power.boot_power, power.boot_s)]
    if power.suspend is not None:
        there = power.suspend
        ways.append((there.suspended_power, there.suspend_power, there.suspend_s, there.resume_power, there.resume_s))
    return [
        ((STOPPED_FLOPS, asleep), (1.0 / down_s, down), (1.0 / up_s, up)) for asleep, down, down_s, up, up_s in ways
    ]


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
        Cost of switching off nodes that do not define it themselves; ``None``: they are always on.
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
    compatibility
        ``None``, or one of `simulators.COMPATIBILITY_MODES`, where nodes are always on.
    node_power
        Cost of switching off nodes that do not define it themselves; ``None``: they are always on.

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

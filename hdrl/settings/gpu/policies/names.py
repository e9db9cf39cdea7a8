"""The policies by name: an order, a placement, and a rule for what is behind a job that does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hdrl.base.errors import HdrlError, OptionsError, UnknownName
from hdrl.settings.gpu.kernel import codes
from hdrl.settings.gpu.policies.advisors import NAMES as ADVISORS
from hdrl.settings.gpu.policies.advisors import NEVER, is_advisor
from hdrl.settings.gpu.policies.shares import SHARES
from hdrl.settings.gpu.policies.weights import start_weights


@dataclass(frozen=True, slots=True)
class Order:
    """Order in which waiting jobs are served."""

    code: int  # its number in compiled code
    help: str  # description and source
    preempts: bool = False  # True if running jobs give way to waiting ones that come before them
    rule: str = "strict"  # rule for the jobs behind one that does not fit, unless the policy says so
    needs_durations: bool = False  # True if it uses true durations of jobs
    weights: tuple[float, ...] = ()  # of an index, see `hdrl.settings.gpu.policies.weights`


BY_HAND = "steady-gittins"
"""The order that follows the index with its weights by hand: where evolution begins."""

ORDERS: Mapping[str, Order] = MappingProxyType(
    {
        "fifo": Order(codes.FIFO, "by arrival"),
        "sjf": Order(codes.SJF, "shortest job first", needs_durations=True),
        "ljf": Order(codes.LJF, "longest job first", needs_durations=True),
        "smallest": Order(codes.SMALLEST, "fewest GPUs first, what Tiresias calls SJF"),
        "priority": Order(codes.PRIORITY, "largest priority first"),
        "srtf": Order(codes.SRTF, "shortest remaining time first", preempts=True, rule="skip", needs_durations=True),
        "srsf": Order(
            codes.SRSF,
            "shortest remaining service first: time x GPUs (Tiresias)",
            preempts=True,
            rule="skip",
            needs_durations=True,
        ),
        "las": Order(codes.LAS, "least attained service: time, in queues (Tiresias)", preempts=True, rule="skip"),
        "las-2d": Order(
            codes.LAS_2D, "least attained service: GPU time, in queues (Tiresias)", preempts=True, rule="skip"
        ),
        "gittins": Order(codes.GITTINS, "largest Gittins index of GPU time (Tiresias)", preempts=True, rule="skip"),
        "qssf": Order(
            codes.QSSF, "least GPU time that jobs of the same group, user and name took first (QSSF, Hu 2021)"
        ),
        "drf": Order(codes.DRF, "users with the smallest dominant share first (Ghodsi 2011)", rule="skip"),
        BY_HAND: Order(
            codes.INDEX,
            "gittins+history with a lead for running jobs: the index with its weights by hand",
            preempts=True,
            rule="skip",
            weights=tuple(start_weights().tolist()),
        ),
    }
)
"""All orders by name. ``gittins`` uses the distribution of GPU times, not those of single jobs."""

HISTORY = "history"
"""The suffix of an order that uses predictions from jobs that have ended, not the true durations."""

BY_HISTORY: Mapping[str, int] = MappingProxyType(
    {
        "sjf": codes.SJF_HISTORY,
        "srtf": codes.SRTF_HISTORY,
        "srsf": codes.SRSF_HISTORY,
        "gittins": codes.GITTINS_HISTORY,
    }
)
"""The orders that can."""

PLACEMENTS: Mapping[str, int] = MappingProxyType(
    {
        "consolidated": codes.CONSOLIDATED,
        "random": codes.RANDOM,
        "first-fit": codes.FIRST_FIT,
        "best-fit": codes.BEST_FIT,
        "worst-fit": codes.WORST_FIT,
        "dot-product": codes.DOT_PRODUCT,
        "packing": codes.PACKING,
        "clustering": codes.CLUSTERING,
        "fgd": codes.FGD,
    }
)
"""All placements by name; the first is the one of policies that name none."""

RULES: Mapping[str, int] = MappingProxyType({"strict": codes.STRICT, "skip": codes.SKIP, "easy": codes.EASY})
"""Rules for the jobs behind one that does not fit."""

PREEMPT = "preempt"
"""The word that makes any order preempt."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy.

    Attributes
    ----------
    order, placement, rule
        Names of `ORDERS`, `PLACEMENTS` and `RULES`.
    preempts
        True if running jobs give way.
    history
        True if the order uses predictions.
    weights
        Of an index, see `hdrl.settings.gpu.policies.weights`.
    advisor
        Advisor of jobs that adapt, see `hdrl.settings.gpu.policies.advisors`.
    """

    order: str
    placement: str = "consolidated"
    rule: str = "strict"
    preempts: bool = False
    advisor: str = NEVER
    history: bool = False
    weights: tuple[float, ...] = ()

    @property
    def code(self) -> int:
        """The number of its order in compiled code."""
        return BY_HISTORY[self.order] if self.history else ORDERS[self.order].code

    @property
    def learns(self) -> bool:
        """True if it uses predictions from jobs that have ended."""
        return self.code >= codes.SJF_HISTORY

    @property
    def name(self) -> str:
        """Its name: what differs from the order's own is behind it."""
        order = ORDERS[self.order]
        parts = [self.order]
        if self.history:
            parts.append(HISTORY)
        if self.placement != next(iter(PLACEMENTS)):
            parts.append(self.placement)
        if self.rule != order.rule:
            parts.append(self.rule)
        if self.preempts != order.preempts:
            parts.append(PREEMPT)
        if self.advisor != NEVER:
            parts.append(self.advisor)
        return "+".join(parts)

    @property
    def needs_durations(self) -> bool:
        """True if it uses true durations of jobs."""
        return (ORDERS[self.order].needs_durations and not self.history) or self.rule == "easy"

    @property
    def draws(self) -> bool:
        """True if its results depend on the seed, whatever the tie rule."""
        return self.placement == "random"


def read_policy(text: str) -> Policy:
    """Read a policy: ``order[+history][+placement][+rule][+preempt][+advisor]``: ``sjf+fgd``, ``srsf+history``.

    Raises
    ------
    UnknownName
        If a part has no meaning.
    OptionsError
        If parts contradict each other.
    """
    first, *parts = (part.strip().lower().replace("_", "-") for part in text.split("+"))
    if first in SHARES:
        then = "leave out the rest of the name" if parts else "hdrl.gpu.simulate_rounds simulates it"
        raise OptionsError(f"policy {text!r}: {first} allocates GPUs in its own rounds; {then}")
    if first not in ORDERS:
        raise UnknownName("policy of GPU clusters", first, [*ORDERS, *SHARES])
    order = ORDERS[first]
    given: dict[str, str] = {}
    for part in parts:
        what = "placement" if part in PLACEMENTS else "rule" if part in RULES else part
        what = "advisor" if is_advisor(part) else what
        if what not in ("placement", "rule", "advisor", PREEMPT, HISTORY):
            raise UnknownName("placement, rule or advisor", part, [*PLACEMENTS, *RULES, PREEMPT, HISTORY, *ADVISORS])
        if what in given:
            raise OptionsError(f"policy {text!r} names its {what} twice: {given[what]} and {part}")
        given[what] = part
    rule, preempts = given.get("rule", order.rule), order.preempts or PREEMPT in given
    if rule == "easy" and preempts:
        raise OptionsError(
            f"policy {text!r}: EASY reserves GPUs for jobs without preemption; remove preemption from the name"
        )
    if first == "drf" and (rule != "skip" or preempts):
        raise OptionsError(f"policy {text!r}: drf has a rule of its own, leave {rule!r} and {PREEMPT!r} out")
    if HISTORY in given and first not in BY_HISTORY:
        raise OptionsError(
            f"policy {text!r}: {first} does not use predictions from history, expected {', '.join(BY_HISTORY)}"
        )
    placement, advisor = given.get("placement", next(iter(PLACEMENTS))), given.get("advisor", NEVER)
    return Policy(first, placement, rule, preempts, advisor, HISTORY in given, order.weights)


def learns(text: str) -> bool:
    """Return True if a name is that of a policy that uses predictions from history.

    The name may also be that of a file or of another kind of policy.
    """
    try:
        return text not in SHARES and read_policy(text).learns
    except HdrlError:
        return False


def policy_names() -> list[str]:
    """Return the names of all orders by themselves, by history, with each placement, and with EASY those that wait."""
    names = [*ORDERS, *(f"{order}+{HISTORY}" for order in BY_HISTORY)]
    names += [f"{order}+easy" for order, one in ORDERS.items() if not one.preempts and order != "drf"]
    names += [f"{order}+{placement}" for order in ORDERS for placement in list(PLACEMENTS)[1:]]
    return names

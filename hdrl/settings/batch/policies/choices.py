"""Parts of a policy of the kernel: its numbers there, core selections and backfilling by name."""

from __future__ import annotations

from dataclasses import dataclass

from hdrl.base.errors import UnknownName
from hdrl.settings.batch import options
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.beginning import NO_RULE, PolicyRule
from hdrl.settings.batch.site_rules import codes as site_codes

CORE_SELECTIONS: dict[str, int] = {
    **{name: number for number, name in enumerate(options.CORE_SELECTIONS)},
    "low_cores": codes.CORE_LOW_CORES,
    "first": codes.CORE_FIRST,
}
"""Number of each core selection in the kernel (``CORE_*`` in `kernel.codes`): HDeepRM's, and two of IRMaSim."""

OLDER_CORE_SELECTIONS = {"high_flops": "high_gflops", "low_energy": "low_power"}
"""Names of HDeepRM 0.1.0 and of some rows of 0.3.0, and what they are called today."""

OTHER_JOB_SELECTIONS = {"longest": "ljf", "low_mem_ops": "low_mem_bw"}
"""Names of IRMaSim, and what they are called here."""

NODE = "-node_"
"""Separator of job selection and node selection in the name of a policy that chooses nodes."""

BACKFILLINGS: dict[str, int] = {
    "easy": codes.EASY_FCFS,
    "easy_sjbf": codes.EASY_SJBF,
    "easy_priority": codes.EASY_PRIORITY,
    "conservative": codes.CONSERVATIVE,
}
"""Number of each kind of backfilling in the kernel."""

EASY_ORDERS = ("easy", "easy_sjbf", "easy_priority")
"""The orders of EASY backfilling, each of which makes a heuristic of a priority."""

DEFAULT_CORE_SELECTION = "high_gflops"


@dataclass(frozen=True, slots=True)
class PolicyPair:
    """A job selection, a core selection and possibly backfilling.

    Attributes
    ----------
    name
        Today's name, for instance ``"shortest-high_gflops"``.
    job_key, core_key, backfilling
        Their numbers in the kernel (``JOB_*``, ``CORE_*``, and ``NO_BACKFILLING``, ``EASY_*`` or ``CONSERVATIVE`` of
        `kernel.codes`).
    rule
        Predictor of run times, and a gate.
    is_clairvoyant
        True if its predictor knows true run times.
    """

    name: str
    job_key: int
    core_key: int
    backfilling: int = codes.NO_BACKFILLING
    rule: PolicyRule = NO_RULE
    is_clairvoyant: bool = False

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The job key, the core key and the backfilling."""
        return self.job_key, self.core_key, self.backfilling


def read_choices(backfilling: str | None, core_selection: str) -> tuple[int, int]:
    """Return the numbers of a core selection and of a kind of backfilling in the kernel.

    Parameters
    ----------
    core_selection
        Its name; older names are understood.

    Raises
    ------
    UnknownName
        If there is no such backfilling or core selection.
    """
    core = OLDER_CORE_SELECTIONS.get(core_selection, core_selection)
    if core not in CORE_SELECTIONS:
        raise UnknownName("core selection", core_selection, CORE_SELECTIONS)
    if backfilling is None:
        return CORE_SELECTIONS[core], codes.NO_BACKFILLING
    if backfilling not in BACKFILLINGS:
        raise UnknownName("backfilling", backfilling, BACKFILLINGS)
    return CORE_SELECTIONS[core], BACKFILLINGS[backfilling]


SITE_POLICIES: dict[str, tuple[int, int]] = {
    "slurm": (site_codes.MULTIFACTOR, site_codes.SLURM_CYCLE),
    "multifactor": (site_codes.MULTIFACTOR, codes.NO_BACKFILLING),
    **{f"multifactor+{name}": (site_codes.MULTIFACTOR, number) for name, number in BACKFILLINGS.items()},
}
"""Job key and backfilling of each, as numbers of `site_rules.codes` and `kernel.codes`."""


def site_policy(name: str) -> PolicyPair:
    """Return a policy of `SITE_POLICIES`."""
    key, backfilling = SITE_POLICIES[name]
    return PolicyPair(name, key, CORE_SELECTIONS[DEFAULT_CORE_SELECTION], backfilling)

"""Policies that only the simulator `site` plays: Slurm's own, and the multifactor priority with each backfilling."""

from __future__ import annotations

from hdrl.settings.batch.kernel import codes as kernel_codes
from hdrl.settings.batch.policies.choices import BACKFILLINGS, CORE_SELECTIONS, DEFAULT_CORE_SELECTION, PolicyPair
from hdrl.settings.batch.site_rules import codes

SITE_POLICIES: dict[str, tuple[int, int]] = {
    "slurm": (codes.MULTIFACTOR, codes.SLURM_CYCLE),
    "multifactor": (codes.MULTIFACTOR, kernel_codes.NO_BACKFILLING),
    **{f"multifactor+{name}": (codes.MULTIFACTOR, number) for name, number in BACKFILLINGS.items()},
}
"""Job key and backfilling of each, as numbers of `site_rules.codes` and `kernel.codes`."""


def site_policy(name: str) -> PolicyPair:
    """Return a policy of `SITE_POLICIES`.

    Parameters
    ----------
    name
        For instance ``"slurm"``.
    """
    key, backfilling = SITE_POLICIES[name]
    return PolicyPair(name, key, CORE_SELECTIONS[DEFAULT_CORE_SELECTION], backfilling)

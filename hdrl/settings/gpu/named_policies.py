"""The policies of GPU clusters, as comparisons and agents from files ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hdrl.setting import PolicyBook
from hdrl.settings.gpu.policies.names import HISTORY, ORDERS, PLACEMENTS, policy_names, read_policy
from hdrl.settings.gpu.policies.shares import SHARES

ALIASES: Mapping[str, str] = MappingProxyType({"fcfs": "fifo", "first-fit": "fifo+first-fit+skip"})
"""Names of the DRL scheduler's baselines; first fit takes the first job, and the first node, that go together."""


class GpuPolicies(PolicyBook):
    """The policies."""

    default_baseline = "fifo"

    def names(self) -> Sequence[str]:
        """Return the names of all policies; `policies.names.read_policy` reads more of them."""
        return (*policy_names(), *SHARES)

    def groups(self) -> Mapping[str, Sequence[str]]:
        """Return the policies that a word stands for.

        ``heuristics``: every order with the usual placement, by history where it can, and EASY; the opponents that a
        learned policy has to beat.
        ``blind``: those of them that know nothing of how long jobs take. ``placements``: FIFO with every placement.
        ``shares``: Gavel's policies, in its rounds, but for those that need throughputs of pairs.
        """
        plain = [name for name in policy_names() if name.partition("+")[2] in ("", "easy", HISTORY)]
        return {
            "heuristics": plain,
            "blind": [name for name in plain if not read_policy(name).needs_durations],
            "placements": ["fifo", *(f"fifo+{placement}" for placement in list(PLACEMENTS)[1:])],
            "shares": [name for name, one in SHARES.items() if not one.packs],
            "preemptive": [name for name, one in ORDERS.items() if one.preempts],
        }

    def read(self, text: str) -> str:
        """Return the name of a policy."""
        name = text.strip().lower().replace("_", "-")
        name = text = ALIASES.get(name, name)
        return name if name in SHARES else read_policy(text).name

    def draws(self, policy: str) -> bool:
        """Return whether the results of a policy depend on the seed; rounds draw in which order types are served."""
        return policy in SHARES or read_policy(policy).draws

    def uses_hidden_information(self, policy: Any) -> bool:
        """Return whether a policy uses true durations of jobs, for which traces hold no estimates, or the future."""
        if policy in SHARES:
            return SHARES[policy].uses_work
        one = read_policy(policy)
        return one.needs_durations or one.advisor == "oracle"

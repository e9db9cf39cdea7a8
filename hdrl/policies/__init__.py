"""Decision makers by name, and the call that simulates under one."""

from hdrl.policies.pairs import VOID, PolicyPair, action_table, pair_names, priority_names, read_pair
from hdrl.policies.simulation import PolicyFunction, simulate

__all__ = [
    "VOID",
    "PolicyFunction",
    "PolicyPair",
    "action_table",
    "normalise_policy_name",
    "pair_names",
    "policy_names",
    "priority_names",
    "read_pair",
    "simulate",
]


def policy_names() -> list[str]:
    """Return the names of all policies."""
    return [*pair_names(), VOID, *priority_names()]


def normalise_policy_name(name: str) -> str:
    """Return today's name of a policy; the names of all versions of HDeepRM are understood.

    Parameters
    ----------
    name
        A name, for instance ``"first-low_energy"``.

    Raises
    ------
    UnknownName
        If there is no such policy.
    """
    return name if name == VOID else read_pair(name).name

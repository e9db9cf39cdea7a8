"""Decision makers by name, by path or as functions, and the call that simulates under one."""

from hdrl.base.pyfiles import AgentError, is_policy_file
from hdrl.settings.batch.policies.backfilling import Conservative, Easy
from hdrl.settings.batch.policies.choices import SITE_POLICIES, PolicyPair
from hdrl.settings.batch.policies.clairvoyance import is_clairvoyant
from hdrl.settings.batch.policies.completion import MAPPINGS, Duplex, MaxMin, MinMin
from hdrl.settings.batch.policies.indexed import shipped_indices
from hdrl.settings.batch.policies.pairs import VOID, action_table, pair_names, priority_names, read_pair
from hdrl.settings.batch.policies.predicted import OwnPrediction
from hdrl.settings.batch.policies.priorities import OwnPriority, WaitingJob
from hdrl.settings.batch.policies.pyfile import load_policy
from hdrl.settings.batch.policies.python_policies import is_in_python, policy_in_python
from hdrl.settings.batch.policies.simulation import PolicyFunction, is_conservative, needs_site, simulate

__all__ = [
    "VOID",
    "AgentError",
    "Conservative",
    "Duplex",
    "Easy",
    "MaxMin",
    "MinMin",
    "OwnPrediction",
    "OwnPriority",
    "PolicyFunction",
    "PolicyPair",
    "WaitingJob",
    "action_table",
    "is_clairvoyant",
    "is_conservative",
    "is_policy_file",
    "load_policy",
    "needs_site",
    "normalise_policy_name",
    "pair_names",
    "policy_names",
    "priority_names",
    "read_pair",
    "simulate",
]


def policy_names() -> list[str]:
    """Return the names of all policies."""
    return [*pair_names(), VOID, *priority_names(), *MAPPINGS, *shipped_indices(), *SITE_POLICIES]


def normalise_policy_name(name: str) -> str:
    """Return today's name of a policy; the names of all versions of HDeepRM are understood.

    Parameters
    ----------
    name
        A name, for instance ``"first-low_energy"``; the path of a Python file stays as it is.

    Raises
    ------
    UnknownName
        If there is no such policy.
    """
    if is_in_python(name):
        return policy_in_python(name).name
    return name if name == VOID or is_policy_file(name) else read_pair(name).name

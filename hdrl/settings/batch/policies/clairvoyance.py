"""Policies that use what no scheduler can know: true run times."""

from __future__ import annotations

from typing import Any

import numpy as np

from hdrl.base.pyfiles import is_policy_file
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.beginning import NO_RULE
from hdrl.settings.batch.policies.choices import PolicyPair
from hdrl.settings.batch.policies.pairs import VOID, read_pair
from hdrl.settings.batch.policies.predicted import OwnPrediction
from hdrl.settings.batch.policies.priorities import OwnPriority
from hdrl.settings.batch.policies.pyfile import load_policy
from hdrl.settings.batch.policies.python_policies import is_in_python, policy_in_python
from hdrl.settings.batch.workload.model import Workload

EXACT_ESTIMATES = "exact"
"""The model of estimates that gives policies the true run times."""

LACKING = 0.9
"""Share of the jobs of a log that must run exactly as long as requested for the log to have no requested times."""

_BLIND_KEYS = frozenset(
    (
        codes.JOB_RANDOM,
        codes.JOB_FIRST,
        codes.JOB_SMALLEST,
        codes.JOB_LARGEST,
        codes.JOB_LOW_MEM,
        codes.JOB_LOW_MEM_BW,
    )
)
"""Job keys that do not look at requested times."""


def looks_at_times(policy: Any) -> bool:
    """Tell whether a policy may look at how long jobs are said to run.

    ``policy``: a name, a path, a function or an `OwnPriority`; of those in Python it is not known, and assumed.
    """
    if not isinstance(policy, str):
        return True
    if policy == VOID:
        return False
    if is_policy_file(policy):
        return True
    if is_in_python(policy):
        return policy_in_python(policy).looks_at_times
    pair: PolicyPair = read_pair(policy)
    is_ruled = pair.rule != NO_RULE
    return is_ruled or pair.backfilling != codes.NO_BACKFILLING or pair.job_key not in _BLIND_KEYS


def has_exact_estimates(workload: Workload) -> bool:
    """Tell whether the requested times of a workload are the run times, as where a log has no requested times."""
    if workload.origin.get("estimates") == EXACT_ESTIMATES:
        return True
    history = workload.history
    if history is None or not len(history.run_s):
        return False
    return bool(np.mean(history.requested_time_s == history.run_s) >= LACKING)


def is_clairvoyant(policy: Any, workload: Workload | None = None) -> bool:
    """Tell whether a policy knows true run times.

    A policy in Python says so itself: ``policy.clairvoyant = True`` on the function, or ``clairvoyant = True`` in its
    file. Any policy that looks at requested times is clairvoyant on a workload whose estimates are exact.

    Parameters
    ----------
    policy
        A name, a path, a function or an `OwnPriority`.
    workload
        Its workload; ``None``: only the policy counts.

    Raises
    ------
    HdrlError
        If there is no such policy, or its file is wrong.
    """
    if workload is not None and has_exact_estimates(workload) and looks_at_times(policy):
        return True
    if isinstance(policy, str):
        if not is_policy_file(policy):
            return policy != VOID and not is_in_python(policy) and read_pair(policy).is_clairvoyant
        policy = load_policy(policy)
    if isinstance(policy, (OwnPriority, OwnPrediction)):
        return policy.clairvoyant
    module = getattr(policy, "__globals__", {})
    return bool(getattr(policy, "clairvoyant", False) or module.get("clairvoyant", False))

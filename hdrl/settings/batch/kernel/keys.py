"""The job keys: HDeepRM's selections and the priorities of the literature.

In the formulas ``r`` is the requested time in seconds, or what is predicted instead (``length_s``), ``n`` the number of
cores, ``s`` the date of submission and ``w`` the time waited so far. The smallest value is served first. A number that
is none of theirs gives NaN.

References
----------
W. Tang, Z. Lan, N. Desai, D. Buettner, "Fault-aware, utility-based job scheduling on Blue Gene/P systems", CLUSTER 2009
(WFP3, UNICEF). D. Carastan-Santos, R. Y. de Camargo, "Obtaining Dynamic Scheduling Policies with Simulation and
Machine Learning", SC'17 (F1 to F4).
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes

_FIRST_LEARNED = codes.JOB_F1
_FIRST_RELATIVE = codes.JOB_F1_RELATIVE
_LAST_LEARNED = codes.JOB_F4_RELATIVE


@jit
def changes_with_time(key):
    """Tell whether the order of two waiting jobs may change while they wait."""
    return key in (codes.JOB_LXF, codes.JOB_WFP3, codes.JOB_UNICEF)


@jit
def _waiting_key(state, job, key, length_s):
    """Return the keys that grow with the time waited (negative: the largest is served first)."""
    row = state.jobs[job]
    wait_s = max(0.0, state.scalars[0].message_s - row.submit_s)
    requested_s = max(length_s, 1.0)
    if key == codes.JOB_LXF:
        return -(wait_s + requested_s) / requested_s
    if key == codes.JOB_WFP3:
        return -((wait_s / requested_s) ** 3) * row.n_requested
    if key != codes.JOB_UNICEF:
        return np.nan
    if row.n_requested == 1:  # log2(1) is 0: a serial job goes first
        return -np.inf
    return -wait_s / (math.log2(row.n_requested) * requested_s)


@jit
def _learned_key(state, job, key, length_s):
    """Return the functions F1 to F4."""
    row = state.jobs[job]
    date_s = row.submit_s
    if key >= _FIRST_RELATIVE:
        date_s -= state.scalars[0].first_submit_s
        key -= _FIRST_RELATIVE - _FIRST_LEARNED
    log_date = math.log10(max(date_s, 1.0))
    requested_s = max(length_s, 1.0)
    n = row.n_requested
    if key == codes.JOB_F1:
        return math.log10(requested_s) * n + 870.0 * log_date
    if key == codes.JOB_F2:
        return math.sqrt(requested_s) * n + 25600.0 * log_date
    if key == codes.JOB_F3:
        return requested_s * n + 6860000.0 * log_date
    if key == codes.JOB_F4:
        return requested_s * math.sqrt(n) + 530000.0 * log_date
    return np.nan


@jit
def _static_key(state, job, key, length_s):
    row = state.jobs[job]
    value = np.nan
    if key == codes.JOB_RANDOM:  # who draws does so from the list by arrival
        value = np.float64(row.rank)
    elif key == codes.JOB_FIRST:
        value = row.submit_s
    elif key == codes.JOB_SHORTEST:
        value = length_s
    elif key == codes.JOB_SMALLEST:
        value = np.float64(row.n_requested)
    elif key == codes.JOB_LOW_MEM:
        value = row.memory_mib
    elif key == codes.JOB_LOW_MEM_BW:
        value = row.bandwidth_gbps
    elif key == codes.JOB_LONGEST:
        value = -length_s
    elif key == codes.JOB_LARGEST:
        value = -np.float64(row.n_requested)
    elif key == codes.JOB_SAF:
        value = length_s * row.n_requested
    return value


@jit
def job_key(state, job, key, length_s):
    """Return the value of a job key of a job said to take some time; the smallest is served first."""
    if _FIRST_LEARNED <= key <= _LAST_LEARNED:
        return _learned_key(state, job, key, length_s)
    if changes_with_time(key):
        return _waiting_key(state, job, key, length_s)
    return _static_key(state, job, key, length_s)

"""Orders of jobs: job keys, and an index with a gate.

The *keys* are HDeepRM's selections and the priorities of the literature. In the formulas ``r`` is the requested time in
seconds, or what is predicted instead (``length_s``), ``n`` the number of cores, ``s`` the date of submission and ``w``
the time waited so far. The smallest value is served first. A number that is none of theirs gives NaN.

The *index* is a weighted sum of 13 features of a job, its user and the machine; the lowest is served first. *Additive*,
it is what the weighted features say of the job's worth, less a reward for each hour waited. As a *network*, it is the
linear one plus what 8 neurons (tanh) make of the same features. *Guarded*, it is the additive one, except that jobs
that have waited for 60 days are first, in the order of arrival. *Pausing*, it is guarded while the predicted work that
waits takes the machine at most three days: in an overload, draining it for the widest jobs delays all others.

The *gate* keeps a share of the machine free for what may come: a job is held, and then neither first of the queue nor a
candidate for backfilling, if less than that share would be left. The longer it waits, the smaller the share, and on an
empty machine nothing is held. With the guarded index, the gate is open while all jobs find room as they come: no job
needs the cores that it would keep free. Index and gate use the state at the time of the message; whether a job is held
is checked after every start.

References
----------
W. Tang, Z. Lan, N. Desai, D. Buettner, "Fault-aware, utility-based job scheduling on Blue Gene/P systems", CLUSTER 2009
(WFP3, UNICEF). D. Carastan-Santos, R. Y. de Camargo, "Obtaining Dynamic Scheduling Policies with Simulation and
Machine Learning", SC'17 (F1 to F4).
D. Zhang, D. Dai, B. Xie, "SchedInspector: A Batch Job Scheduling Inspector Using Reinforcement Learning", HPDC'22
(decisions that leave resources idle).
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.groups import SHORT_S, spread
from hdrl.settings.batch.workload.history import USER_LEVEL

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
    if key == codes.JOB_RANDOM:  # random policies draw from the list by arrival
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


N_FEATURES = 13
FIRST_OF_STARTS = 11
"""The first of the features that change when another job is started; time, ends and submissions change the others."""

AGING = N_FEATURES
FIRST_OF_GATE = N_FEATURES + 1
N_GATE = 10
N_WEIGHTS = FIRST_OF_GATE + N_GATE
"""Weights: of the features; the logarithm of what an hour waited is worth (additive); of the gate."""

N_HIDDEN = 8
N_WEIGHTS_OF_NETWORK = N_WEIGHTS + N_HIDDEN * (N_FEATURES + 2)
"""With a network, these follow, for each neuron: its weight in the index, its bias, its weights of the features."""

LARGEST_RESERVE = 0.6
SMALLEST_RESERVE = 0.004
_DAY_S = 86400.0

GUARD_S = 60.0 * _DAY_S
"""After how long a guarded index lets a job be first, in seconds."""

LARGEST_GUARDED_BACKLOG = (math.log1p(3.0 * _DAY_S) - 8.0) / 2.0
"""The `backlog_of` three days of work, above which the guard of the pausing index pauses."""

WHOLE_GATE_AT = 0.1
"""At which share of jobs that find no room the gate of a guarded index is as its weights say; below it, less."""

_LOG1P = np.array([math.log1p(n) for n in range(64)])  # two of five logarithms that describe a job

_FIRST_OF_ALL = 1e10
"""A bound above any additive index and the seconds of centuries."""


@jit
def _index(weights, features, form, fixed, waiting, waited_s):
    """Return the index, given the weighted sums of the features that waiting does not change and of those it does."""
    if form == codes.INDEX_LINEAR:
        return fixed + waiting
    if form == codes.INDEX_NETWORK:
        return fixed + waiting + _of_neurons(weights, features)
    return math.exp(min(20.0, max(-20.0, fixed))) - math.exp(weights[AGING]) * waited_s / 3600.0


@jit
def _of_neurons(weights, features):
    """Return the neurons' part of the index."""
    total, at = 0.0, N_WEIGHTS
    for _ in range(N_HIDDEN):
        z = weights[at + 1]
        for k in range(N_FEATURES):
            z += weights[at + 2 + k] * features[k]
        total += weights[at] * math.tanh(z)
        at += N_FEATURES + 2
    return total


@jit
def _sigmoid(z):
    return 1.0 / (1.0 + math.exp(-min(50.0, max(-50.0, z))))


@jit
def describe(x, row, prediction, user, waited_s, fits):
    """Write the features of a waiting job to ``x``.

    - ``x``: where to, at least 13 numbers.
    - ``row``, ``prediction``, ``user``: the job, what is predicted of it, and the sums over its user's jobs.
    - ``waited_s``: how long it has waited, in seconds.
    - ``fits``: whether it could start now.
    """
    x[0], x[1] = (prediction.log_request - 8.0) / 2.0, (prediction.log_share + 3.0) / 2.0
    x[2], x[3] = (prediction.log_length - 6.5) / 2.0, (prediction.log_harmonic - 5.0) / 2.0
    x[4] = (prediction.log_last_two - 6.0) / 2.0
    x[5] = math.log1p(waited_s / max(prediction.harmonic_s, SHORT_S))
    x[6] = (math.log1p(waited_s / 60.0) - 4.0) / 2.0
    x[7] = math.log1p(waited_s / max(row.requested_time_s, SHORT_S))
    x[8], x[9], x[10] = user.n / (user.n + 2.0), spread(user) - 1.0, _log1p_of(user.n_here)
    describe_after_start(x, user, fits)


@jit
def describe_after_start(x, user, fits):
    """Write those of the features that change when another job is started: see `describe`."""
    x[11] = _log1p_of(user.n_waiting)
    x[12] = 1.0 if fits else 0.0


@jit
def _log1p_of(n):
    """Return the logarithm of 1 plus a number of jobs."""
    return _LOG1P[n] if n < len(_LOG1P) else math.log1p(float(n))


@jit
def _guards(form, backlog):
    """Tell whether the guard puts jobs that have waited too long first, given the feature of the work that waits."""
    return form == codes.INDEX_GUARDED or (form == codes.INDEX_PAUSING and backlog <= LARGEST_GUARDED_BACKLOG)


@jit
def weigh_described(w, x, form, has_gate, prediction, n_known, waited_s, backlog, without_room):
    """Work out the index of a waiting job from its features ``x``, and which share of the machine must stay free.

    - ``w``, ``form``, ``has_gate``: the weights, what they mean, and whether there is a gate.
    - ``prediction``: where to write both.
    - ``n_known``: how many jobs of the user's have ended, faded.
    - ``waited_s``: how long the job has waited, in seconds.
    """
    if waited_s > GUARD_S and _guards(form, backlog):
        prediction.index, prediction.reserve = -_FIRST_OF_ALL - waited_s, 0.0
        return
    waiting = w[5] * x[5] + w[6] * x[6] + w[7] * x[7]
    fixed = w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3] + w[4] * x[4]
    fixed = fixed + w[8] * n_known / (n_known + 2.0) + w[9] * x[9] + w[10] * x[10] + w[11] * x[11] + w[12] * x[12]
    prediction.index = _index(w, x, form, fixed, waiting, waited_s)
    prediction.reserve = 0.0
    if has_gate == 0:
        return
    g = FIRST_OF_GATE
    z = w[g] + w[g + 1] * x[2] + w[g + 2] * x[3] + w[g + 3] * x[1] + w[g + 4] * x[5] + w[g + 5] * x[6]
    z += w[g + 6] * backlog + w[g + 7] * x[10] + w[g + 8] * x[9]
    reserve = LARGEST_RESERVE * _sigmoid(z) * max(0.0, 1.0 - waited_s / (_DAY_S * math.exp(w[g + 9])))
    if form in codes.GUARDED_FORMS:
        reserve *= min(1.0, without_room / WHOLE_GATE_AT)
    prediction.reserve = reserve if reserve >= SMALLEST_RESERVE else 0.0


@jit
def weigh(state, job, backlog, without_room):
    """Work out the index of a waiting job, and which share of the machine must stay free for it to start.

    - ``backlog``: (log(1 + the work that waits / cores of the machine in seconds) - 8) / 2.
    - ``without_room``: which share of the jobs that came lately found no room.
    """
    s, row = state.scalars[0], state.jobs[job]
    waited_s, fits = max(0.0, s.message_s - row.submit_s), row.n_requested <= s.n_free_cores
    weigh_waiting(state, job, waited_s, fits, backlog, without_room)


@jit
def weigh_waiting(state, job, waited_s, fits, backlog, without_room):
    """Weigh, as `weigh` does, a job that has waited for some seconds and ``fits`` now or not."""
    s, prediction = state.scalars[0], state.predictions[job]
    user = state.sums[state.job_groups[job, USER_LEVEL]]
    describe(state.features, state.jobs[job], prediction, user, waited_s, fits)
    form, gate = s.index_form, s.has_gate
    weigh_described(state.weights, state.features, form, gate, prediction, user.n, waited_s, backlog, without_room)


@jit
def backlog_of(work_s, n_procs):
    """Return the feature of the work that waits, in core seconds, on a machine."""
    return (math.log1p(work_s / n_procs) - 8.0) / 2.0


@jit
def holds(reserve, n_requested, n_free, n_procs):
    """Tell whether a gate holds a job; one that needs nearly the whole machine is never held."""
    if reserve == 0.0:
        return False
    return n_free - n_requested < reserve * n_procs and n_requested <= (1.0 - reserve) * n_procs

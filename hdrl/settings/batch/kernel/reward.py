"""Rewards: how much a decision has brought, seen from the next one.

Two ways to pay for an objective. By its *growth*: what the objective has grown by since the last decision, negative
where less is better, so that the rewards of an episode add up to the objective itself. Jobs that have not ended
count with what is known of them. *Instantaneous*, as HDeepRM does it: a property of the moment at which the
scheduler gets its next message.

The sums behind the growth are kept as jobs are submitted, start and end, so that a reward costs the same however many
jobs there are. Jobs that wait or run grow linearly with time: ``weight * (now - since)`` summed over jobs is
``sum(weight) * now - sum(weight * since)``.
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled.codes import CodeTable
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.cluster import contended_pstate, n_busy_cores
from hdrl.settings.batch.kernel.observe import N_SUMS
from hdrl.settings.batch.platform.pstates import FREE, IDLE

OWN = -1
"""Number of an objective that the kernel does not compute: it pays nothing here."""

SLOWDOWN, COMPLETION, UTILIZATION, MAKESPAN, ENERGY, EDP, BOUNDED_SLOWDOWN = range(7)
WAIT, MAX_WAIT, MAX_TURNAROUND, MAX_SLOWDOWN, MAX_BOUNDED_SLOWDOWN, THROUGHPUT, MEAN_POWER, N_OBJECTIVES = range(7, 15)
OBJECTIVES = CodeTable("objective", range(OWN, N_OBJECTIVES))
"""Numbers of the objectives: `objective_so_far` gives NaN for any other."""

GROWTH, PRESENT, PRESENT_0_1 = PAYMENTS = CodeTable("way to pay", range(3))
"""Numbers of the ways to pay: by growth, as HDeepRM 0.3.1, as HDeepRM 0.1.0b1."""

WAIT_SUM, LONGEST_WAIT, LONGEST_TURNAROUND, LARGEST_SLOWDOWN, LARGEST_BOUNDED_SLOWDOWN, N_ENDED = range(N_SUMS)
"""Positions in the further sums of a watch."""

BOUND_S = 10.0
"""Run times below this count as this in the bounded slowdown, in seconds."""

SHORTEST_REQUEST_S = 1.0
"""Requested times below this count as this where they stand for a run time that is not known yet, in seconds."""


@jit
def _weight(state, watch, job):
    """Return by how much a job that has not ended makes the objective grow in a second."""
    objective = watch.rows[0].objective
    if objective == COMPLETION:
        return 1.0
    if objective == SLOWDOWN:
        return 1.0 / max(state.jobs[job].requested_time_s, SHORTEST_REQUEST_S)
    if objective == BOUNDED_SLOWDOWN:
        return 1.0 / max(state.jobs[job].requested_time_s, BOUND_S)
    return 0.0


@jit
def count_submission(state, watch, job):
    """Take a job that has been submitted into the sums."""
    w = watch.rows[0]
    weight = _weight(state, watch, job)
    if w.objective == WAIT:
        weight = 1.0
    w.waiting_weight += weight
    w.waiting_since += weight * state.jobs[job].submit_s


@jit
def count_start(state, watch, job):
    """Take a job that has started into the sums; its start date is known."""
    w = watch.rows[0]
    row = state.jobs[job]
    w.n_busy_cores += row.n_cores
    w.busy_since += row.n_cores * row.start_s
    if w.objective == WAIT:
        w.waiting_weight -= 1.0
        w.waiting_since -= row.submit_s
    wait_s = row.start_s - row.submit_s
    watch.sums[WAIT_SUM] += wait_s
    watch.sums[LONGEST_WAIT] = max(watch.sums[LONGEST_WAIT], wait_s)


@jit
def count_end(state, watch, job):
    """Take a job that has ended into the sums; it started before."""
    w = watch.rows[0]
    row = state.jobs[job]
    weight = _weight(state, watch, job)
    w.waiting_weight -= weight
    w.waiting_since -= weight * row.submit_s
    w.n_busy_cores -= row.n_cores
    w.busy_since -= row.n_cores * row.start_s
    w.busy_s += row.n_cores * row.run_s
    wait_s = row.start_s - row.submit_s
    w.last_end_s = max(w.last_end_s, row.start_s + row.run_s)
    w.turnaround_s += wait_s + row.run_s
    slowdown = (wait_s + row.run_s) / row.run_s
    bounded_slowdown = max(1.0, (wait_s + row.run_s) / max(row.run_s, BOUND_S))
    w.slowdown += slowdown
    w.bounded_slowdown += bounded_slowdown
    sums = watch.sums
    sums[LONGEST_TURNAROUND] = max(sums[LONGEST_TURNAROUND], wait_s + row.run_s)
    sums[LARGEST_SLOWDOWN] = max(sums[LARGEST_SLOWDOWN], slowdown)
    sums[LARGEST_BOUNDED_SLOWDOWN] = max(sums[LARGEST_BOUNDED_SLOWDOWN], bounded_slowdown)
    sums[N_ENDED] += 1.0


@jit
def _energy_j(state, is_over):
    """Return the energy since the first submission, as a run reports it; nothing is brought up to date by that."""
    s = state.scalars[0]
    if s.energy_read < 2:
        return 0.0
    if is_over:
        return s.last_energy_j - s.first_energy_j
    return s.energy_j + s.power_w * (s.now - s.energy_time_s) - s.first_energy_j


@jit
def _elapsed_s(state, watch, is_over):
    """Return the time since the first submission, at the end until the last end of a job."""
    s = state.scalars[0]
    until_s = watch.rows[0].last_end_s if is_over else s.now
    return max(0.0, until_s - s.first_submit_s)


@jit
def _waiting(state, watch, is_over):
    """Return the contribution of the jobs that have not ended."""
    w = watch.rows[0]
    if is_over:
        return 0.0
    return w.waiting_weight * state.scalars[0].now - w.waiting_since


@jit
def _utilization(state, watch, is_over):
    w = watch.rows[0]
    elapsed_s = _elapsed_s(state, watch, is_over)
    if elapsed_s <= 0.0:
        return 0.0
    busy_s = w.busy_s
    if not is_over:
        busy_s += w.n_busy_cores * state.scalars[0].now - w.busy_since
    return busy_s / (len(state.cores) * elapsed_s)


@jit
def _mean_so_far(state, watch, objective, is_over):
    """Return an objective that is a mean over jobs, NaN for any other."""
    w = watch.rows[0]
    if objective == SLOWDOWN:
        total = w.slowdown
    elif objective == COMPLETION:
        total = w.turnaround_s
    elif objective == BOUNDED_SLOWDOWN:
        total = w.bounded_slowdown
    elif objective == WAIT:
        total = watch.sums[WAIT_SUM]
    else:
        return np.nan
    if objective == w.objective:  # of the others it is not known what jobs contribute that have not ended
        total += _waiting(state, watch, is_over)
    return total / w.n_jobs


@jit
def _largest_so_far(watch, objective):
    """Return an objective that is a maximum over jobs, NaN for any other."""
    if objective == MAX_WAIT:
        return watch.sums[LONGEST_WAIT]
    if objective == MAX_TURNAROUND:
        return watch.sums[LONGEST_TURNAROUND]
    if objective == MAX_SLOWDOWN:
        return watch.sums[LARGEST_SLOWDOWN]
    if objective == MAX_BOUNDED_SLOWDOWN:
        return watch.sums[LARGEST_BOUNDED_SLOWDOWN]
    return np.nan


@jit
def _per_elapsed(value, elapsed_s):
    return value / elapsed_s if elapsed_s > 0.0 else 0.0


@jit
def objective_so_far(state, watch, objective, is_over):
    """Return the present value of an objective.

    - ``state``, ``watch``: the arrays of one environment and what accompanies them.
    - ``objective``: its number. Of those that are means over jobs, jobs that have not ended are only known if it is the
      watch's own.
    - ``is_over``: whether all jobs have ended: it is then exactly what `hdrl.metrics` computes of the trace.
    """
    if objective == UTILIZATION:
        return _utilization(state, watch, is_over)
    if objective == MAKESPAN:
        return _elapsed_s(state, watch, is_over)
    if objective == ENERGY:
        return _energy_j(state, is_over)
    if objective == EDP:
        return _energy_j(state, is_over) * _elapsed_s(state, watch, is_over)
    if objective == MEAN_POWER:
        return _per_elapsed(_energy_j(state, is_over), _elapsed_s(state, watch, is_over))
    if objective == THROUGHPUT:
        return _per_elapsed(3600.0 * watch.sums[N_ENDED], _elapsed_s(state, watch, is_over))
    if MAX_WAIT <= objective <= MAX_BOUNDED_SLOWDOWN:
        return _largest_so_far(watch, objective)
    return _mean_so_far(state, watch, objective, is_over)


@jit
def add_growth_reward(state, watch, is_over):
    """Add the growth of the objective to the reward."""
    w = watch.rows[0]
    if w.objective == OWN:
        return
    value = objective_so_far(state, watch, w.objective, is_over)
    growth = value - w.objective_before
    w.objective_before = value
    w.reward += growth if w.objective in (UTILIZATION, THROUGHPUT) else -growth


# ------------------------------------------------------------------ HDeepRM's


@jit
def _inverse_requests(state, shortest_s):
    """Return the sum of ``1 / requested time`` over the jobs that wait or hold cores; requests of 0 s are left out."""
    s = state.scalars[0]
    total = 0.0
    for i in range(s.n_queue):
        requested_s = max(state.jobs[state.queue[i]].requested_time_s, shortest_s)
        total += 1.0 / requested_s if requested_s > 0.0 else 0.0
    for i in range(s.n_expected):
        requested_s = max(state.jobs[state.expected[i]].requested_time_s, shortest_s)
        total += 1.0 / requested_s if requested_s > 0.0 else 0.0
    return total


@jit
def _present_gflops(state, watch):
    """Return the speed of all serving cores together in Gflop/s, as the decision system sees it."""
    total = 0.0
    for p in range(len(state.processors)):
        row = state.processors[p]
        gflops = row.peak_gflops * watch.speed_share[contended_pstate(state, p)]
        for _ in range(n_busy_cores(state, p)):  # one after the other, as HDeepRM adds them up
            total += gflops
    return total


@jit
def _present_power_w(state, watch):
    """Return the power of all cores together in watts, as the decision system believes it."""
    total = 0.0
    for p in range(len(state.processors)):
        row = state.processors[p]
        n_busy = n_busy_cores(state, p)
        unused = watch.power_share[FREE if n_busy > 0 else IDLE]
        total += row.peak_power_w * (n_busy + unused * state.n_free[p])
    return total


@jit
def _mean_request_s(state):
    """Return the mean requested time of the jobs that wait or hold cores, those once for each core; 0 without any."""
    s = state.scalars[0]
    total_s, n = 0.0, 0
    for i in range(s.n_queue):
        total_s += state.jobs[state.queue[i]].requested_time_s
        n += 1
    for i in range(s.n_expected):
        row = state.jobs[state.expected[i]]
        total_s += row.requested_time_s * row.n_cores
        n += row.n_cores
    return total_s / n if n > 0 else 0.0


@jit
def add_present_reward_0_1(state, watch):
    """Add the reward of HDeepRM 0.1.0b1, which looks at the present moment, too, to the reward."""
    w = watch.rows[0]
    if w.objective == SLOWDOWN:
        w.reward += _mean_request_s(state)
    elif w.objective == COMPLETION:
        w.reward += watch.sums[N_ENDED]
    elif w.objective == UTILIZATION:
        w.reward += len(state.cores) - state.scalars[0].n_free_cores
    elif w.objective == MAKESPAN:
        w.reward += _present_gflops(state, watch)
    elif w.objective == ENERGY:
        power_w = _present_power_w(state, watch)
        w.reward += 1.0 / power_w if power_w > 0.0 else 0.0
    else:
        w.reward = np.nan


@jit
def add_present_reward(state, watch):
    """Add HDeepRM's reward, which looks at the present moment, to the reward."""
    s = state.scalars[0]
    w = watch.rows[0]
    if w.objective == SLOWDOWN:
        w.reward -= _inverse_requests(state, 0.0)
    elif w.objective == COMPLETION:
        w.reward -= s.n_queue + s.n_expected
    elif w.objective == UTILIZATION:
        w.reward += len(state.cores) - s.n_free_cores
    elif w.objective == MAKESPAN:
        w.reward += _present_gflops(state, watch)
    elif w.objective == ENERGY:
        w.reward -= _present_power_w(state, watch)
    elif w.objective == EDP:
        w.reward -= _present_power_w(state, watch) * max(0.0, s.message_s - s.first_submit_s)
    elif w.objective == BOUNDED_SLOWDOWN:
        w.reward -= _inverse_requests(state, BOUND_S)
    else:
        w.reward = np.nan


# ------------------------------------------------------------------ bookkeeping


@jit
def count_starts_of_answer(state, watch):
    """Take the jobs that the last answer started into the sums; it has been carried out."""
    for i in range(state.scalars[0].n_ops):
        op = state.ops[i]
        if op.kind == codes.EXECUTE:
            count_start(state, watch, op.subject)


@jit
def forget(watch):
    """Set all sums to the beginning of an episode."""
    w = watch.rows[0]
    w.reward = w.objective_before = 0.0
    w.waiting_weight = w.waiting_since = 0.0
    w.n_busy_cores = w.busy_since = w.busy_s = 0.0
    w.last_end_s = -np.inf
    w.turnaround_s = w.slowdown = w.bounded_slowdown = 0.0
    watch.sums[:] = 0.0

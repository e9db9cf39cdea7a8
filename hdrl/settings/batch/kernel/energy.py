"""Energy of the simulated hosts: power by P-state and load, integrated at changes; and what contention leaves of speed.

Power is *idle* without load and *epsilon + load (full - epsilon)* with it (``batsim``'s ``wattage_per_state``).

Under contention by curves each serving core has a speed of its own, which the cores beside it leave to it.

The model is IRMaSim's modelV1. On a processor on which n + 1 cores serve, and of whose memory they demand x MB/s
together, a core that demands y MB/s of it runs at the share of its peak

    1                      up to x = c,
    max(1 + b (x - c), d)  beyond, where b < 0 and
    d = (1 + 0.6 n s) / (1 + 0.6 n),
    s = 1 - t^3 (6 t^2 - 15 t + 10),  t = (y - (da - n) db) / (dc - n dd)  cut to [0, 1]:

speed falls with the sum of the demands, but not below what n others leave to a core: all of it while it demands
little, the (1 + 0.6 n)th part if it demands much. Where n is so large that dc - n dd is not positive, nothing lies
between the two. A job demands memory in proportion to the speed at which it would
run on the core: what a workload says of it is meant for a core of the platform's mean speed.

By a fit (modelV2, whose processors are nodes) n others leave to a core that demands y GB/s of x in all the share

    h + (l - h) exp(-exp(a (x - m)))

of its peak: h where all demand little, l where they demand much, falling about x = m with the steepness a; all four
are linear in n and in y (l has a term in y^2). The power of the node is a polynomial of x and of the number of its
tasks, and each of its cores draws an equal share of it. A fit says nothing of demands for which it was not made: no
core is slower than a thousandth of its peak, and no node draws less than nothing. In the compatibility mode
``irmasim`` 0.9 (l - h) is lost, as in its last version; the makespans that it published are without that.

IRMaSim rounds the shares to nine decimals, which this does not, and lets the tasks of a job go on by themselves, where
jobs proceed here on all their cores at the pace of the slowest, as in Batsim.

Source: IRMaSim, https://github.com/irmasim/IRMaSim, its platform models modelV1 and modelV2 (2021-2022).
"""

from __future__ import annotations

import math

from hdrl.compiled import bits
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.codes import STEP_COMPUTE_TOTAL


@jit
def charge(state, core, power_w):
    """Bring the energy of one host, which drew ``power_w``, up to date, if logs tell of that of single hosts."""
    s = state.scalars[0]
    if s.logging == 0 or s.energy == 0:
        return
    row = state.hosts[core]
    row.energy_j += power_w * (s.now - row.energy_time_s)
    row.energy_time_s = s.now


@jit
def total(state):
    """Return the energy of all hosts since date 0 in joules."""
    s = state.scalars[0]
    s.energy_j += s.power_w * (s.now - s.energy_time_s)
    s.energy_time_s = s.now
    return s.energy_j


@jit
def power(state, core):
    """Return the power of a host in its present P-state and at its present load in watts."""
    # Where no job runs, the core's row, which is seldom at hand, is not looked at.
    return _power_at(state, core, 0.0 if bits.has(state.idle, core) else state.jobs[state.cores[core].job].rate)


@jit
def _power_at(state, core, rate):
    """Return the power of a host in its present P-state if the computation on it proceeds at a rate."""
    if len(state.watts) > 0:
        return state.watts[core]
    rung = state.rungs[state.first_rung_of[core] + state.pstates[core]]
    if rate <= 0.0 or state.scalars[0].flat_power == 1:
        return rung.idle_w
    # Load: what the job makes of this host, as a share of what the host could do.
    load = min(1.0, flops_per_core(state, state.cores[core].job) * rate / rung.host_flops)
    if load <= 0.0:
        return rung.idle_w
    return rung.epsilon_w + load * (rung.full_w - rung.epsilon_w)


@jit
def flops_per_core(state, job):
    """Return the flop per core of the computation that a job is doing."""
    row = state.jobs[job]
    step = state.steps[row.step]
    if step.kind == STEP_COMPUTE_TOTAL:
        return step.amount / row.n_cores
    return step.amount


@jit
def set_rate(state, job, rate):
    """Let the computation of a job proceed at another rate; the power of its hosts follows."""
    s = state.scalars[0]
    row = state.jobs[job]
    if s.energy == 1 and s.flat_power == 0:
        total(state)
        for i in range(row.first_core, row.first_core + row.n_cores):
            core = state.allocated[i]
            before_w = power(state, core)
            charge(state, core, before_w)
            s.power_w += _power_at(state, core, rate) - before_w
    row.rate = rate


@jit
def look_at_hosts(state):
    """Look at all hosts for the first time: until now Batsim's energy plugin took them to be in P-state 0."""
    s = state.scalars[0]
    if s.energy_read == 0:
        total(state)
        for core in range(len(state.cores)):
            believed_w = state.rungs[state.first_rung_of[core]].idle_w
            charge(state, core, believed_w)
            s.power_w += power(state, core) - believed_w
        s.energy_read = 1


@jit
def first_reading(state):
    """Read the energy at the first submission, from which on it is counted."""
    s = state.scalars[0]
    look_at_hosts(state)
    s.first_energy_j = total(state)
    s.energy_read = 2


@jit
def energy_of(state, first, n):
    """Return the energy of the hosts of an allocation since date 0 in joules."""
    sum_j = 0.0
    for i in range(first, first + n):
        charge(state, state.allocated[i], power(state, state.allocated[i]))
        sum_j += state.hosts[state.allocated[i]].energy_j
    return sum_j


@jit
def log_energy(state, event):
    """Append a line to the energy log; ``event`` is the character code of ``s``, ``e`` or ``p``."""
    s = state.scalars[0]
    look_at_hosts(state)
    s.swept_s = s.now
    if s.logging == 0:
        return
    row = state.energy_log[s.n_energy_log]
    row.time_s = s.now
    row.energy_j = total(state)
    row.event = event
    row.epsilon_w = s.epsilon_w
    s.n_energy_log += 1


MB_PER_GB = 1000.0

LEAST_PACE = 1e-3
"""The speed of a core by a fit, as a share of its peak, is at least this."""

MAX_EXPONENT = 700.0
"""Beyond it, e to a number would be no number; e to minus that is 0 long before."""

NEIGHBOUR = 0.6
"""Slowdown by each other task of a core with a high demand, as a share of its time alone."""


@jit
def pace_on_curve(curve, total_mb_per_s, own_mb_per_s, n_others):
    """Return the speed of a core as a share of its peak; demands in MB/s."""
    if total_mb_per_s < curve.c:
        return 1.0
    start = (curve.da - n_others) * curve.db
    width = curve.dc - n_others * curve.dd
    # with so large a number of other cores that no range lies between low and high demand, a core has one or the other
    place = (own_mb_per_s - start) / width if width > 0.0 else (1.0 if own_mb_per_s > start else 0.0)
    place = min(1.0, max(0.0, place))
    light = 1.0 - place * place * place * (place * (place * 6.0 - 15.0) + 10.0)
    least = (1.0 + NEIGHBOUR * n_others * light) / (1.0 + NEIGHBOUR * n_others)
    return max(least, 1.0 + curve.b * (total_mb_per_s - curve.c))


@jit
def pace_by_fit(fit, total_gbps, own_gbps, n_others):
    """Return the speed of a core by a fit, as a share of its peak; demands in GB/s."""
    steep = fit.abb + n_others * fit.aba + own_gbps * (fit.aab + n_others * fit.aaa)
    high = fit.bbb + n_others * fit.bba + own_gbps * (fit.bab + n_others * fit.baa)
    low = fit.ccb + n_others * fit.cca + own_gbps * (fit.cbb + n_others * fit.cba)
    low += own_gbps * own_gbps * (fit.cab + n_others * fit.caa)
    middle = fit.dbb + n_others * fit.dba + own_gbps * (fit.dab + n_others * fit.daa)
    fallen = math.exp(-math.exp(min(MAX_EXPONENT, steep * (total_gbps - middle))))
    return max(LEAST_PACE, high + (low - high) * fallen * fit.lost)


@jit
def power_by_fit(fit, total_gbps, n_tasks):
    """Return the power of a node by a fit in watts; the demand of all tasks in GB/s."""
    if n_tasks == 0:
        return fit.pidle
    by_tasks = fit.p00 + n_tasks * (fit.p01 + n_tasks * fit.p02)
    return max(0.0, by_tasks + total_gbps * (fit.p10 + n_tasks * fit.p11 + total_gbps * fit.p20))


@jit
def demand_mb_per_s(state, core):
    """Return the memory demand of the job on a simulated host, in MB/s; 0 without a job."""
    job = state.cores[core].job
    if job < 0:
        return 0.0
    peak_flops = state.processors[state.processor_of[core]].peak_gflops * 1e9
    return state.jobs[job].bandwidth_gbps * MB_PER_GB * peak_flops / state.scalars[0].reference_flops


@jit
def find_paces(state, processor):
    """Note the speeds of the cores of a processor on which jobs have begun or ended, and what they draw by a fit."""
    row = state.processors[processor]
    total_mb_per_s, n_tasks = 0.0, 0
    for core in range(row.first_core, row.end_core):
        total_mb_per_s += demand_mb_per_s(state, core)
        n_tasks += state.cores[core].job >= 0
    for core in range(row.first_core, row.end_core):
        if state.cores[core].job < 0:
            state.paces[core] = 1.0
            continue
        own_mb_per_s = demand_mb_per_s(state, core)
        if len(state.fits) > 0:
            total_gbps, own_gbps = total_mb_per_s / MB_PER_GB, own_mb_per_s / MB_PER_GB
            state.paces[core] = pace_by_fit(state.fits[processor], total_gbps, own_gbps, n_tasks - 1)
        else:
            state.paces[core] = pace_on_curve(state.curves[processor], total_mb_per_s, own_mb_per_s, n_tasks - 1)
    if len(state.fits) > 0:
        node_w = power_by_fit(state.fits[processor], total_mb_per_s / MB_PER_GB, n_tasks)
        _share_power(state, processor, node_w)


@jit
def _share_power(state, processor, node_w):
    """Let the cores of a processor draw an equal share of what it draws from now on."""
    row = state.processors[processor]
    core_w = node_w / (row.end_core - row.first_core)
    total(state)
    for core in range(row.first_core, row.end_core):
        charge(state, core, state.watts[core])
        state.scalars[0].power_w += core_w - state.watts[core]
        state.watts[core] = core_w


@jit
def speed_flops(state, core, pstate):
    """Return the speed of a simulated host in a P-state, in flop/s."""
    speed = state.rungs[state.first_rung_of[core] + pstate].speed_flops
    return speed if len(state.paces) == 0 else speed * state.paces[core]

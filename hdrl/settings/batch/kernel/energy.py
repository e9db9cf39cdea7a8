"""Energy of the simulated hosts: power by P-state and load, integrated at changes.

Power is *idle* without load and *epsilon + load (full - epsilon)* with it (``batsim``'s ``wattage_per_state``).
"""

from __future__ import annotations

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
    """Look at all hosts if nobody has: until now Batsim's energy plugin took them to be in P-state 0."""
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

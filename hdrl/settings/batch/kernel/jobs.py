"""Jobs on the simulated hosts: start, steps, walltime, end.

A job is a sequence of steps. A *delay* sleeps and loads nothing; a *computation* proceeds on all its
cores at the pace of the slowest, and is re-timed when a core changes its speed. A walltime is, as in
Batsim, a sleep beside the computation, or a cut of the delay (a delay equal to it counts as reaching it).
"""

from __future__ import annotations

import numpy as np

from hdrl.compiled import bits, heap
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.codes import refuse_code
from hdrl.settings.batch.kernel.energy import (
    charge,
    energy_of,
    find_paces,
    flops_per_core,
    log_energy,
    power,
    set_rate,
    speed_flops,
    total,
)

SHORTEST_RUN_S = 1e-5
"""Run time that Batsim reports for a job that took no time."""

_START, _END = ord("s"), ord("e")


@jit
def next_seq(state):
    """Return the next serial number: actions that end together are handled in the order of their making."""
    s = state.scalars[0]
    s.seq += 1
    return s.seq


@jit
def log_machines(state):
    """Append a line to the log of machine states."""
    s = state.scalars[0]
    if s.logging == 0:
        return
    row = state.machine_log[s.n_machine_log]
    row.time_s = s.now
    row.sleeping = s.n_off
    row.switching_on = s.n_booting
    row.switching_off = s.n_shutting_down
    row.idle = s.n_idle
    row.computing = s.n_computing
    s.n_machine_log += 1


@jit
def _sleep(state, job, duration_s, kind):
    s = state.scalars[0]
    state.jobs[job].sleep_kind = kind
    s.n_sleeps = heap.push(state.sleeps, s.n_sleeps, job, s.engine_s + duration_s, next_seq(state))


@jit
def _wake(state, job):
    s = state.scalars[0]
    s.n_sleeps = heap.remove(state.sleeps, s.n_sleeps, job)
    state.sleeps[job].seq = -1


@jit
def _find_slowest(state, job):
    """Note the speed of the slowest core of a running job, and how many cores have it."""
    row = state.jobs[job]
    allocated = state.allocated
    row.slowest_flops, row.n_slowest = np.inf, 0
    for i in range(row.first_core, row.first_core + row.n_cores):
        core = allocated[i]
        _count_speed(row, speed_flops(state, core, state.pstates[core]))


@jit
def _count_speed(row, flops):
    if flops < row.slowest_flops:
        row.slowest_flops = flops
        row.n_slowest = 1
    elif flops == row.slowest_flops:
        row.n_slowest += 1


@jit
def _begin_computation(state, job):
    s = state.scalars[0]
    row = state.jobs[job]
    row.remaining = 1.0
    row.updated_s = row.step_start_s = s.now
    flops = flops_per_core(state, job)
    duration_s = 0.0
    if flops > 0.0:
        _find_slowest(state, job)
        set_rate(state, job, row.slowest_flops / flops)
        duration_s = 1.0 / row.rate
    s.n_tasks = heap.push(state.tasks, s.n_tasks, job, s.engine_s + duration_s, next_seq(state))
    if row.left_s >= 0.0:
        _sleep(state, job, row.left_s, codes.SLEEP_TIMER)


@jit
def retime(state, job):
    """Give a computation the speed that its cores have now; the work done is kept."""
    s = state.scalars[0]
    if state.tasks[job].position < 0:
        return
    row = state.jobs[job]
    flops = flops_per_core(state, job)
    if flops <= 0.0:
        return
    if row.n_slowest == 0:
        _find_slowest(state, job)
    rate = row.slowest_flops / flops
    if rate == row.rate:
        return
    row.remaining = max(0.0, row.rate * (state.tasks[job].key - s.engine_s))
    row.updated_s = s.now
    s.n_tasks = heap.push(state.tasks, s.n_tasks, job, s.engine_s + row.remaining / rate, state.tasks[job].seq)
    set_rate(state, job, rate)


@jit
def _share_memory(state, job):
    """Retime the neighbours of a job that has started or left its hosts at their new speeds."""
    if len(state.paces) == 0:
        return
    row = state.jobs[job]
    previous = -1
    for i in range(row.first_core, row.first_core + row.n_cores):
        processor = state.processor_of[state.allocated[i]]
        if processor == previous:
            continue
        previous = processor
        find_paces(state, processor)
        place = state.processors[processor]
        for core in range(place.first_core, place.end_core):
            beside = state.cores[core].job
            if beside >= 0 and beside != job:
                state.jobs[beside].n_slowest = 0
                retime(state, beside)


@jit
def _begin_delay(state, job, duration_s):
    row = state.jobs[job]
    if row.left_s < 0.0 or duration_s < row.left_s:
        _sleep(state, job, duration_s, codes.SLEEP_DELAY)
    else:
        _sleep(state, job, row.left_s, codes.SLEEP_WALLTIME)


@jit
def _run_steps(state, job):
    """Begin the job's present step; return whether the job is over instead, its code being set."""
    row = state.jobs[job]
    if row.step >= row.end_step:
        row.return_code = 0
        return True
    step = state.steps[row.step]
    if step.kind == codes.STEP_RETURN:
        row.return_code = step.return_code
        return True
    if step.kind == codes.STEP_DELAY:
        _begin_delay(state, job, step.amount)
    elif step.kind in (codes.STEP_COMPUTE, codes.STEP_COMPUTE_TOTAL):
        _begin_computation(state, job)
    else:
        refuse_code(state, step.kind)
    return False


@jit
def _occupy(state, job, first_pool):
    """Put a job on the hosts in the pool from ``first_pool`` on."""
    row = state.jobs[job]
    cores, pool, allocated = state.cores, state.pool, state.allocated
    for i in range(row.n_cores):
        core = pool[first_pool + i]
        allocated[row.first_core + i] = core
        cores[core].job = job
        bits.take_out(state.idle, core)


@jit
def _leave(state, job):
    """Make the hosts of a job idle."""
    row = state.jobs[job]
    cores, allocated = state.cores, state.allocated
    for i in range(row.first_core, row.first_core + row.n_cores):
        cores[allocated[i]].job = -1
        bits.put(state.idle, allocated[i])


@jit
def _book_time(state, job, sum_s):
    """Return a sum with the time added that each host of a job has been idle, or busy, until now."""
    row = state.jobs[job]
    for i in range(row.first_core, row.first_core + row.n_cores):
        sum_s += time_in_state_s(state, state.allocated[i])
    return sum_s


@jit
def time_in_state_s(state, core):
    """Return the time of a host in its state (idle, busy, off, or on a way) until now, where it is to change."""
    s = state.scalars[0]
    if s.logging == 0:
        return 0.0
    host = state.hosts[core]
    length_s = s.now - host.state_time_s
    host.state_time_s = s.now
    return length_s


@jit
def start(state, job, first_pool, n):
    """Start a job on the cores ``pool[first_pool:first_pool + n]``, ascending."""
    s = state.scalars[0]
    row = state.jobs[job]
    row.state = codes.RUNNING
    row.start_s = s.now
    row.left_s = row.walltime_s
    row.first_core = s.n_allocated
    row.n_cores = n
    row.step = row.first_step
    s.n_allocated += n
    s.n_running += 1
    _occupy(state, job, first_pool)
    _share_memory(state, job)
    if s.logging == 1:
        s.time_idle_s = _book_time(state, job, s.time_idle_s)
    if s.energy == 1:
        if s.logging == 1:
            row.energy_j = energy_of(state, row.first_core, n)
        log_energy(state, _START)
    s.n_idle -= n
    s.n_computing += n
    log_machines(state)
    return _run_steps(state, job)


@jit
def end(state, job):
    """End a running job: its return code is set; its cores become idle."""
    row = state.jobs[job]
    if row.return_code == 0:
        row.state = codes.SUCCEEDED
    elif row.return_code == -1:
        row.state = codes.WALLTIME_REACHED
    elif row.return_code == -2:
        row.state = codes.KILLED_BY_REQUEST
    else:
        row.state = codes.FAILED
    release_machines(state, job)


@jit
def release_machines(state, job):
    """Make the cores of a job idle and book its run time and energy."""
    s = state.scalars[0]
    row = state.jobs[job]
    set_rate(state, job, 0.0)
    _leave(state, job)
    _share_memory(state, job)
    if s.logging == 1:
        s.time_computing_s = _book_time(state, job, s.time_computing_s)
    s.n_idle += row.n_cores
    s.n_computing -= row.n_cores
    log_machines(state)
    row.run_s = s.now - row.start_s
    if row.run_s == 0.0:
        row.run_s = SHORTEST_RUN_S
    if s.energy == 1:
        if s.logging == 1:
            row.energy_j = energy_of(state, row.first_core, row.n_cores) - row.energy_j
        log_energy(state, _END)
        s.last_energy_j = total(state)


@jit
def after_computation(state, job):
    """Go on after a computation that is done; return whether the job is over."""
    s = state.scalars[0]
    row = state.jobs[job]
    _wake(state, job)
    set_rate(state, job, 0.0)
    if row.left_s >= 0.0:
        row.left_s -= s.now - row.step_start_s
    return _after_step(state, job)


@jit
def _after_step(state, job):
    row = state.jobs[job]
    code = state.steps[row.step].return_code
    if code != 0:
        row.return_code = code
        return True
    row.step += 1
    return _run_steps(state, job)


@jit
def after_sleep(state, job):
    """Go on after a delay, or at a walltime; return whether the job is over."""
    s = state.scalars[0]
    row = state.jobs[job]
    if row.sleep_kind == codes.SLEEP_DELAY:
        if row.left_s > 0.0:
            row.left_s -= state.steps[row.step].amount
        return _after_step(state, job)
    if row.sleep_kind not in (codes.SLEEP_WALLTIME, codes.SLEEP_TIMER):
        refuse_code(state, row.sleep_kind)
        return False
    s.n_tasks = heap.remove(state.tasks, s.n_tasks, job)
    row.left_s = 0.0
    row.return_code = -1
    return True


@jit
def kill(state, job):
    """Kill a running job on the spot."""
    s = state.scalars[0]
    row = state.jobs[job]
    # Batsim's code is -2 where a computation was cancelled, and stays -1 where a delay was cut.
    computing = state.tasks[job].position >= 0
    row.return_code = -2 if computing else -1
    s.n_tasks = heap.remove(state.tasks, s.n_tasks, job)
    _wake(state, job)
    row.state = codes.KILLED_BY_REQUEST
    release_machines(state, job)


@jit
def _change_speed(state, core, pstate):
    """Note in the job on a host that this is about to have the speed of another P-state."""
    job = state.jobs[state.cores[core].job]
    if speed_flops(state, core, state.pstates[core]) == job.slowest_flops:
        job.n_slowest -= 1
    _count_speed(job, speed_flops(state, core, pstate))


@jit
def _retime_jobs(state, first, n):
    """Re-time the jobs that run on the cores ``pool[first:first + n]``."""
    n_switches = state.scalars[0].n_grouped_switches
    cores, pool = state.cores, state.pool
    for i in range(first, first + n):
        job = cores[pool[i]].job
        if job >= 0 and state.jobs[job].retimed_by != n_switches:
            state.jobs[job].retimed_by = n_switches
            retime(state, job)


@jit
def set_pstate(state, core, pstate):
    """Give a host without a job another P-state."""
    s = state.scalars[0]
    total(state)
    before_w = power(state, core)
    charge(state, core, before_w)
    kind = state.first_rung_of[core]
    if s.logging == 1:
        s.epsilon_w += state.rungs[kind + pstate].epsilon_w - state.rungs[kind + state.pstates[core]].epsilon_w
    state.pstates[core] = pstate
    s.power_w += power(state, core) - before_w


@jit
def set_pstates(state, first, n, pstate):
    """Give the cores ``pool[first:first + n]`` another P-state and re-time the jobs that run on them."""
    s = state.scalars[0]
    if s.energy == 1:
        total(state)
    pstates, pool, rungs = state.pstates, state.pool, state.rungs
    change_w, n_busy = 0.0, 0
    for i in range(first, first + n):
        core = pool[i]
        before = pstates[core]
        if before == pstate:
            continue
        before_w = power(state, core)
        charge(state, core, before_w)
        if s.logging == 1:
            kind = state.first_rung_of[core]
            s.epsilon_w += rungs[kind + pstate].epsilon_w - rungs[kind + before].epsilon_w
        if not bits.has(state.idle, core):
            _change_speed(state, core, pstate)
            n_busy += 1
        pstates[core] = pstate
        change_w += power(state, core) - before_w
    s.power_w += change_w
    if n_busy > 0:
        _retime_jobs(state, first, n)

"""Contention by curves: each serving core has a speed of its own, which the cores beside it leave to it.

The model is IRMaSim's modelV1. On a processor on which n + 1 cores serve, and of whose memory they demand x MB/s
together, a core that demands y MB/s of it runs at the share of its peak

    1                      up to x = c,
    max(1 + b (x - c), d)  beyond, where b < 0 and
    d = (1 + 0.6 n s) / (1 + 0.6 n),
    s = 1 - t^3 (6 t^2 - 15 t + 10),  t = (y - (da - n) db) / (dc - n dd)  cut to [0, 1]:

speed falls with the sum of the demands, but not below what n others leave to a core: all of it while it demands
little, the (1 + 0.6 n)th part if it demands much. A job demands memory in proportion to the speed at which it would
run on the core: what a workload says of it is meant for a core of the platform's mean speed.

IRMaSim rounds the shares to nine decimals, which this does not, and lets the tasks of a job go on by themselves, where
jobs proceed here on all their cores at the pace of the slowest, as in Batsim.

Source: IRMaSim, https://github.com/irmasim/IRMaSim, its platform model modelV1 (2021-2022).
"""

from __future__ import annotations

from hdrl.compiled.jit import jit

MB_PER_GB = 1000.0

NEIGHBOUR = 0.6
"""What each other task costs a core that demands much, as a share of its time alone."""


@jit
def pace_on_curve(curve, total_mb_per_s, own_mb_per_s, n_others):
    """Return the speed of a core as a share of its peak; demands in MB/s."""
    if total_mb_per_s < curve.c:
        return 1.0
    start = (curve.da - n_others) * curve.db
    place = (own_mb_per_s - start) / (curve.dc - n_others * curve.dd)
    place = min(1.0, max(0.0, place))
    light = 1.0 - place * place * place * (place * (place * 6.0 - 15.0) + 10.0)
    least = (1.0 + NEIGHBOUR * n_others * light) / (1.0 + NEIGHBOUR * n_others)
    return max(least, 1.0 + curve.b * (total_mb_per_s - curve.c))


@jit
def demand_mb_per_s(state, core):
    """Return what the job on a simulated host demands of the memory, in MB/s; 0 without a job."""
    job = state.cores[core].job
    if job < 0:
        return 0.0
    peak_flops = state.processors[state.processor_of[core]].peak_gflops * 1e9
    return state.jobs[job].bandwidth_gbps * MB_PER_GB * peak_flops / state.scalars[0].reference_flops


@jit
def find_paces(state, processor):
    """Note the speeds of the cores of a processor on which jobs have begun or ended."""
    row = state.processors[processor]
    total_mb_per_s, n_tasks = 0.0, 0
    for core in range(row.first_core, row.end_core):
        total_mb_per_s += demand_mb_per_s(state, core)
        n_tasks += state.cores[core].job >= 0
    for core in range(row.first_core, row.end_core):
        if state.cores[core].job >= 0:
            own_mb_per_s = demand_mb_per_s(state, core)
            state.paces[core] = pace_on_curve(state.curves[processor], total_mb_per_s, own_mb_per_s, n_tasks - 1)
        else:
            state.paces[core] = 1.0


@jit
def speed_flops(state, core, pstate):
    """Return the speed of a simulated host in a P-state, in flop/s."""
    speed = state.rungs[state.first_rung_of[core] + pstate].speed_flops
    return speed if len(state.paces) == 0 else speed * state.paces[core]

"""Statistics of each host: seconds in each state, joules, and how much of them was wasted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.platform.sleep import FALLS_ASLEEP, SLEEPS, WAKES
from hdrl.settings.batch.simulation.trace import HOST_STATES

if TYPE_CHECKING:
    from hdrl.settings.batch.platform.model import Platform
    from hdrl.settings.batch.simulation.trace import BatchTrace

FloatArray = NDArray[np.float64]

WASTING_STATES = ("idle", "switching_off", "switching_on")
"""States in which energy serves no job, as batsim-py has it; a machine that sleeps is what saving energy looks like."""

HOST_COLUMNS = (
    "machine_id",
    "machine_name",
    *(f"time_{state}" for state in HOST_STATES),
    "consumed_joules",
    "energy_waste",
    "nb_switches",
)
"""Columns of out_hosts.csv; the names are Batsim's and batsim-py's."""


def format_hosts(columns: Mapping[str, NDArray[Any]]) -> str:
    """Return the text of out_hosts.csv: a row per host, times and energies with six decimals, nothing for NaN."""
    lines = [",".join(HOST_COLUMNS)]
    for k, name in enumerate(columns["host"]):
        numbers = [float(columns[column][k]) for column in (*_TIMES, "energy_j", "wasted_j")]
        texts = ["" if np.isnan(number) else f"{number:f}" for number in numbers]
        lines.append(",".join([str(k), str(name), *texts, str(int(columns["n_switches"][k]))]))
    return "\n".join([*lines, ""])


# What stands in the log of P-states for requests, and in the list of events where it is unknown.
_TO_SLEEP, _UNKNOWN = -2, -3

_TIMES = tuple(f"{state}_s" for state in HOST_STATES)


def hosts_arrays(trace: BatchTrace) -> dict[str, NDArray[Any]]:
    """Return a row per host, in the order of the ids, as an array per column.

    Returns ``host`` (its name); ``computing_s``, ``idle_s``, ``sleeping_s``, ``switching_off_s``, ``switching_on_s``,
    ``unavailable_s``, which add up to the length of the simulation; ``energy_j`` and, of it, ``wasted_j``: what was
    drawn while the host was on, or on a way, and ran no job; ``n_switches``, how many times it changed its P-state,
    ways left out. Energies are NaN where they are not known: without energy, of Batsim's own files, of hosts that still
    compute.
    """
    n = trace.platform.n_cores
    time_s, core, change, pstate = _events(trace)
    length_s, is_idle = _segments(trace, time_s, core, change)
    state = _states(trace.platform.pstate_uses[core, pstate], is_idle)
    columns: dict[str, NDArray[Any]] = {"host": np.array(trace.platform.core_names, dtype=object)}
    columns |= {name: np.zeros(n) for name in _TIMES}
    for number, name in enumerate(_TIMES):
        columns[name] = np.bincount(core[state == number], weights=length_s[state == number], minlength=n)
    columns["energy_j"] = trace.host_energy_j.copy() if len(trace.host_energy_j) else np.full(n, np.nan)
    is_wasted = np.isin(state, [HOST_STATES.index(name) for name in WASTING_STATES])
    drawn_j = length_s * power_without_jobs_w(trace.platform)[core, pstate]
    wasted_j = np.bincount(core[is_wasted], weights=drawn_j[is_wasted], minlength=n)
    columns["wasted_j"] = np.where(np.isnan(columns["energy_j"]), np.nan, wasted_j + _standby_error_j(trace))
    aims = trace.platform.pstate_uses[core, pstate] < FALLS_ASLEEP
    core, pstate = core[aims], pstate[aims]
    same_core = core[1:] == core[:-1]
    columns["n_switches"] = np.bincount(core[1:][same_core & (pstate[1:] != pstate[:-1])], minlength=n)
    return columns


def off_j(trace: BatchTrace, begin_s: float, end_s: float) -> float:
    """Return the energy of hosts between two dates while they were off, in joules."""
    if not trace.platform.n_sleep_states:
        return 0.0
    time_s, core, change, pstate = _events(trace)
    length_s, _ = _segments(trace, time_s, core, change)
    clipped_s = np.minimum(time_s + length_s, end_s) - np.maximum(time_s, begin_s)
    is_off = (trace.platform.pstate_uses[core, pstate] == SLEEPS) & (clipped_s > 0)
    return float(np.sum(clipped_s[is_off] * trace.platform.idle_w[core[is_off], pstate[is_off]]))


def _states(use: NDArray[np.int8], is_idle: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the number of the state in `HOST_STATES` of each stretch of time, by what its P-state is for."""
    number = {name: k for k, name in enumerate(HOST_STATES)}
    state = np.where(is_idle, number["idle"], number["computing"])
    for name, there in (("sleeping", SLEEPS), ("switching_off", FALLS_ASLEEP), ("switching_on", WAKES)):
        state[is_idle & (use == there)] = number[name]
    return state


def power_without_jobs_w(platform: Platform) -> FloatArray:
    """Return the power of hosts in each P-state without a job, in watts; on a way they compute one flop."""
    return np.where(platform.pstate_uses >= FALLS_ASLEEP, platform.full_w, platform.idle_w)


def _events(trace: BatchTrace) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return date, core, change of the number of jobs and P-state after it of all that happens to cores, by core."""
    n = trace.platform.n_cores
    stays = trace.stays
    held = [trace.stay_units[stay["first_unit"] : stay["first_unit"] + stay["n_units"]] for stay in stays]
    held_cores = np.concatenate(held).astype(np.int64) if held else np.zeros(0, dtype=np.int64)
    start_s = np.repeat(stays["start_s"], stays["n_units"])
    end_s = np.repeat(np.where(stays["end_s"] >= 0, stays["end_s"], trace.end_s), stays["n_units"])
    reported_s, switched_cores, pstates = reported_pstates(trace)
    n_held, n_switched = len(held_cores), len(switched_cores)
    nothing, unknown = np.zeros(n_switched, dtype=np.int64), np.full(2 * n_held, _UNKNOWN)
    time_s = np.concatenate([np.zeros(n), reported_s, start_s, end_s])
    core = np.concatenate([np.arange(n), switched_cores, held_cores, held_cores])
    ones = np.ones(n_held, dtype=np.int64)
    change = np.concatenate([np.zeros(n, dtype=np.int64), nothing, ones, -ones])
    pstate = np.concatenate([trace.platform.initial_pstate, pstates, unknown]).astype(np.int64)
    order = np.lexsort((np.arange(len(core)), time_s, core))
    time_s, core, change, pstate = time_s[order], core[order], change[order], pstate[order]
    last_known = np.maximum.accumulate(np.where(pstate >= 0, np.arange(len(pstate)), 0))
    return time_s, core, change, pstate[last_known]


def reported_pstates(trace: BatchTrace) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Return the log of P-states host by host: the date, the core, and its P-state from then on."""
    has_ways = trace.platform.n_sleep_states > 0
    is_reported = trace.pstate_changes["pstate"] >= (_TO_SLEEP if has_ways else 0)
    reported = trace.pstate_changes[is_reported & (trace.pstate_changes["time_s"] > 0)]
    cores = [trace.pstate_cores[row["first_core"] : row["first_core"] + row["n_cores"]] for row in reported]
    times_s = np.repeat(reported["time_s"], reported["n_cores"])
    pstates = np.repeat(reported["pstate"], reported["n_cores"]).astype(np.int64)
    if has_ways and cores:
        ends = np.cumsum(reported["n_cores"])[:-1]
        _find_ways(trace.platform, cores, np.split(times_s, ends), np.split(pstates, ends))
    return times_s, np.concatenate(cores).astype(np.int64) if cores else np.zeros(0, dtype=np.int64), pstates


def _find_ways(
    platform: Platform,
    cores: Sequence[NDArray[np.int32]],
    times_s: Sequence[FloatArray],
    pstates: Sequence[NDArray[np.int64]],
) -> None:
    """Tell of each host alone what the log tells of requests, which are done when the last of their hosts is there.

    Of a request, hosts that neither slept nor are to sleep have their P-state at once; the others go a way first, as
    long as theirs takes.

    ``cores``, ``times_s``, ``pstates``: of each row of the log: its cores; their dates and P-states, which are written.
    """
    kind, down, up = _ways(platform)
    back = up[kind, platform.initial_pstate]
    sleeps = {state.off for states in platform.sleep_states_of_node for state in states}
    pending: dict[bytes, tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]] = {}
    for hosts, time_s, known in zip(cores, times_s, pstates, strict=True):
        reported = int(known[0]) if len(known) else _UNKNOWN
        if reported < 0:
            pending[hosts.tobytes()] = time_s, known, back[hosts]
            back[hosts] = _UNKNOWN
            continue
        asked_s, way, slept = pending.pop(hosts.tobytes(), (time_s, known, known))
        if way is known or not (reported in sleeps or slept.max() >= 0):
            continue
        falls = down[kind[hosts], reported]
        way[:] = np.where(falls >= 0, falls, slept)
        goes = way >= 0
        there_s = np.minimum(time_s, asked_s + 1.0 / platform.speed_flops[hosts, way])
        time_s[goes] = there_s[goes]
        way[~goes], known[~goes] = reported, _UNKNOWN
        back[hosts[falls >= 0]] = up[kind[hosts[falls >= 0]], reported]
    first = np.array([states[0].down if states else _UNKNOWN for states in platform.sleep_states_of_node])
    for key, (_, way, slept) in pending.items():
        hosts = np.frombuffer(key, dtype=cores[0].dtype)
        falls = first[platform.node_of_processor[platform.processor_of_core[hosts]]]
        way[:] = np.where(way == _TO_SLEEP, falls, slept)


def _ways(platform: Platform) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the kind of each host, and of each kind the P-states of the ways to each P-state and back from it."""
    kinds = {states: k for k, states in enumerate(dict.fromkeys(platform.sleep_states_of_node))}
    down, up = np.full((2, len(kinds), platform.n_pstates), _UNKNOWN)
    for states, k in kinds.items():
        for state in states:
            down[k, state.off], up[k, state.off] = state.ways
    of_node = np.array([kinds[states] for states in platform.sleep_states_of_node])
    return of_node[platform.node_of_processor[platform.processor_of_core]], down, up


def _segments(
    trace: BatchTrace, time_s: FloatArray, core: NDArray[np.int64], change: NDArray[np.int64]
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the time from each event to the next of its core, and whether the core is idle then."""
    is_last = np.append(core[1:] != core[:-1], True) if len(core) else np.zeros(0, dtype=bool)
    next_s = np.where(is_last, max(trace.end_s, float(time_s.max(initial=0.0))), np.append(time_s[1:], 0.0))
    # every core's starts and ends even out, so that the sum over all cores before it is 0, but for jobs that still run
    return next_s - time_s, np.cumsum(change) == 0


def _standby_error_j(trace: BatchTrace) -> FloatArray:
    """Return the energy that Batsim charges wrongly: until the first job it takes all hosts to be in P-state 0."""
    platform, submit_s = trace.platform, trace.workload.jobs["submit_s"]
    until_s = float(submit_s.min()) if len(submit_s) else 0.0
    rows = np.arange(platform.n_cores)
    standby_error_j: FloatArray = until_s * (platform.idle_w[rows, 0] - platform.idle_w[rows, platform.initial_pstate])
    return standby_error_j

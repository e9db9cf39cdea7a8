"""What each host did all the while: seconds in each state, joules, and how much of them was wasted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.simulation.outputs import HOST_STATES

if TYPE_CHECKING:
    from hdrl.settings.batch.platform.model import Platform
    from hdrl.settings.batch.simulation.trace import Trace

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
    """Return the text of out_hosts.csv: a row per host, times and energies with six decimals, nothing for NaN.

    Parameters
    ----------
    columns
        What `hosts_arrays` gives.
    """
    lines = [",".join(HOST_COLUMNS)]
    for k, name in enumerate(columns["host"]):
        numbers = [float(columns[column][k]) for column in (*_TIMES, "energy_j", "wasted_j")]
        texts = ["" if np.isnan(number) else f"{number:f}" for number in numbers]
        lines.append(",".join([str(k), str(name), *texts, str(int(columns["n_switches"][k]))]))
    return "\n".join([*lines, ""])


# What stands in the log of P-states for requests, and in the list of events where nothing is told of them.
_TO_COMPUTE, _TO_SLEEP, _UNKNOWN = -1, -2, -3

_TIMES = tuple(f"{state}_s" for state in HOST_STATES)


def hosts_arrays(trace: Trace) -> dict[str, NDArray[Any]]:
    """Return a row per host, in the order of the ids, as an array per column.

    Returns
    -------
    dict[str, NDArray]
        ``host`` (its name); ``computing_s``, ``idle_s``, ``sleeping_s``, ``switching_off_s``, ``switching_on_s``,
        ``unavailable_s``, which add up to the length of the simulation; ``energy_j`` and, of it, ``wasted_j``: what
        was drawn while the host was on, or on a way, and ran no job; ``n_switches``, how many times it changed its
        P-state, ways left out. Energies are NaN where they are not known: without energy, of Batsim's own files, of
        hosts that still compute.
    """
    n = trace.platform.n_cores
    time_s, core, change, pstate = _events(trace)
    length_s, is_idle = _segments(trace, time_s, core, change)
    state = _states(trace.platform, pstate, is_idle)
    columns: dict[str, NDArray[Any]] = {"host": np.array(trace.platform.core_names, dtype=object)}
    columns |= {name: np.zeros(n) for name in _TIMES}
    for number, name in enumerate(_TIMES):
        columns[name] = np.bincount(core[state == number], weights=length_s[state == number], minlength=n)
    columns["energy_j"] = trace.host_energy_j.copy() if len(trace.host_energy_j) else np.full(n, np.nan)
    is_wasted = np.isin(state, [HOST_STATES.index(name) for name in WASTING_STATES])
    drawn_j = length_s * _power_without_jobs_w(trace.platform)[core, pstate]
    wasted_j = np.bincount(core[is_wasted], weights=drawn_j[is_wasted], minlength=n)
    columns["wasted_j"] = np.where(np.isnan(columns["energy_j"]), np.nan, wasted_j + _believed_j(trace))
    aims = ~np.isin(pstate, [way for one in trace.platform.sleep_states for way in one.ways])
    core, pstate = core[aims], pstate[aims]
    same_core = core[1:] == core[:-1]
    columns["n_switches"] = np.bincount(core[1:][same_core & (pstate[1:] != pstate[:-1])], minlength=n)
    return columns


def off_j(trace: Trace, begin_s: float, end_s: float) -> float:
    """Return what hosts drew between two dates while they were off, in joules."""
    time_s, core, change, pstate = _events(trace)
    length_s, _ = _segments(trace, time_s, core, change)
    clipped_s = np.minimum(time_s + length_s, end_s) - np.maximum(time_s, begin_s)
    is_off = np.isin(pstate, [one.off for one in trace.platform.sleep_states]) & (clipped_s > 0)
    return float(np.sum(clipped_s[is_off] * trace.platform.idle_w[core[is_off], pstate[is_off]]))


def _states(platform: Platform, pstate: NDArray[np.int64], is_idle: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the number of the state in `HOST_STATES` that each stretch of time is spent in."""
    number = {name: k for k, name in enumerate(HOST_STATES)}
    state = np.where(is_idle, number["idle"], number["computing"])
    for one in platform.sleep_states:
        for name, there in zip(("sleeping", "switching_off", "switching_on"), one, strict=True):
            state[is_idle & (pstate == there)] = number[name]
    return state


def _power_without_jobs_w(platform: Platform) -> FloatArray:
    """Return what hosts draw in each P-state while they run no job, in watts; on a way they compute one flop."""
    power_w = platform.idle_w.copy()
    for one in platform.sleep_states:
        power_w[:, one.ways] = platform.full_w[:, one.ways]
    return power_w


def _events(trace: Trace) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return date, core, change of the number of jobs and P-state after it of all that happens to cores, by core."""
    n = trace.platform.n_cores
    stays = trace.stays
    held = [trace.stay_units[stay["first_unit"] : stay["first_unit"] + stay["n_units"]] for stay in stays]
    held_cores = np.concatenate(held).astype(np.int64) if held else np.zeros(0, dtype=np.int64)
    start_s = np.repeat(stays["start_s"], stays["n_units"])
    end_s = np.repeat(np.where(stays["end_s"] >= 0, stays["end_s"], trace.end_s), stays["n_units"])
    told_s, switched_cores, pstates = _told_pstates(trace)
    n_held, n_switched = len(held_cores), len(switched_cores)
    nothing, unknown = np.zeros(n_switched, dtype=np.int64), np.full(2 * n_held, _UNKNOWN)
    time_s = np.concatenate([np.zeros(n), told_s, start_s, end_s])
    core = np.concatenate([np.arange(n), switched_cores, held_cores, held_cores])
    ones = np.ones(n_held, dtype=np.int64)
    change = np.concatenate([np.zeros(n, dtype=np.int64), nothing, ones, -ones])
    pstate = np.concatenate([trace.platform.initial_pstate, pstates, unknown]).astype(np.int64)
    order = np.lexsort((np.arange(len(core)), time_s, core))
    time_s, core, change, pstate = time_s[order], core[order], change[order], pstate[order]
    last_known = np.maximum.accumulate(np.where(pstate >= 0, np.arange(len(pstate)), 0))
    return time_s, core, change, pstate[last_known]


def _told_pstates(trace: Trace) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Return what the log of P-states tells, host by host: the date, the core, and its P-state from then on."""
    has_ways = bool(trace.platform.sleep_states)
    is_told = trace.pstate_changes["pstate"] >= (_TO_SLEEP if has_ways else 0)
    told = trace.pstate_changes[is_told & (trace.pstate_changes["time_s"] > 0)]
    cores = [trace.pstate_cores[row["first_core"] : row["first_core"] + row["n_cores"]] for row in told]
    times_s = np.repeat(told["time_s"], told["n_cores"])
    pstates = np.repeat(told["pstate"], told["n_cores"]).astype(np.int64)
    if has_ways and cores:
        ends = np.cumsum(told["n_cores"])[:-1]
        _find_ways(trace.platform, cores, np.split(times_s, ends), np.split(pstates, ends))
    return times_s, np.concatenate(cores).astype(np.int64) if cores else np.zeros(0, dtype=np.int64), pstates


@dataclass(frozen=True, slots=True)
class _Way:
    """A request that takes time: its row of the log, and which of its hosts go a way; the others are there at once."""

    times_s: FloatArray
    pstates: NDArray[np.int64]
    goes: NDArray[np.bool_]


def _find_ways(
    platform: Platform,
    cores: Sequence[NDArray[np.int32]],
    times_s: Sequence[FloatArray],
    pstates: Sequence[NDArray[np.int64]],
) -> None:
    """Tell of each host alone what the log tells of requests, which are done when the last of their hosts is there.

    Of a request, hosts that are on have their P-state at once; the others go a way first, as long as theirs takes.

    Parameters
    ----------
    platform
        The platform.
    cores, times_s, pstates
        Of each row of the log: its cores; their dates and P-states, which are written.
    """
    states = {one.off: one for one in platform.sleep_states}
    asleep = np.where(np.isin(platform.initial_pstate, list(states)), platform.initial_pstate, _UNKNOWN)
    pending: dict[bytes, _Way] = {}
    for hosts, time_s, known in zip(cores, times_s, pstates, strict=True):
        told = int(known[0]) if len(known) else _UNKNOWN
        if told == _TO_SLEEP:
            pending[hosts.tobytes()] = _Way(time_s, known, np.ones(len(known), dtype=np.bool_))
        elif told == _TO_COMPUTE and np.any(asleep[hosts] >= 0):
            goes = asleep[hosts] >= 0
            known[goes] = [states[off].up for off in asleep[hosts[goes]].tolist()]
            asleep[hosts] = _UNKNOWN
            pending[hosts.tobytes()] = _Way(time_s, known, goes)
        elif told >= 0 and hosts.tobytes() in pending:
            way = pending.pop(hosts.tobytes())
            if told in states:
                asleep[hosts] = told
                way.pstates[:] = states[told].down
            there_s = way.times_s + 1.0 / platform.speed_flops[hosts, np.maximum(way.pstates, 0)]
            time_s[way.goes] = np.minimum(time_s, there_s)[way.goes]
            way.pstates[~way.goes], known[~way.goes] = told, _UNKNOWN
    for way in pending.values():
        way.pstates[way.pstates == _TO_SLEEP] = platform.sleep_states[0].down


def _segments(
    trace: Trace, time_s: FloatArray, core: NDArray[np.int64], change: NDArray[np.int64]
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return how long it is from each event to the next of its core, and whether the core is idle then."""
    is_last = np.append(core[1:] != core[:-1], True) if len(core) else np.zeros(0, dtype=bool)
    next_s = np.where(is_last, max(trace.end_s, float(time_s.max(initial=0.0))), np.append(time_s[1:], 0.0))
    # every core's starts and ends even out, so that the sum over all cores before it is 0, but for jobs that still run
    return next_s - time_s, np.cumsum(change) == 0


def _believed_j(trace: Trace) -> FloatArray:
    """Return what Batsim charges wrongly: until the first job is submitted it takes all hosts to be in P-state 0."""
    platform, submit_s = trace.platform, trace.workload.jobs["submit_s"]
    until_s = float(submit_s.min()) if len(submit_s) else 0.0
    rows = np.arange(platform.n_cores)
    believed_j: FloatArray = until_s * (platform.idle_w[rows, 0] - platform.idle_w[rows, platform.initial_pstate])
    return believed_j

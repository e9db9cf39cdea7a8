"""What each host did all the while: seconds in each state, joules, and how much of them was wasted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.simulation.outputs import HOST_STATES

if TYPE_CHECKING:
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


_TIMES = tuple(f"{state}_s" for state in HOST_STATES)


def hosts_arrays(trace: Trace) -> dict[str, NDArray[Any]]:
    """Return a row per host, in the order of the ids, as an array per column.

    Parameters
    ----------
    trace
        What happened. Hosts of a trace compute or are idle.

    Returns
    -------
    dict[str, NDArray]
        ``host`` (its name); ``computing_s``, ``idle_s``, ``sleeping_s``, ``switching_off_s``, ``switching_on_s``,
        ``unavailable_s``, which add up to the length of the simulation; ``energy_j`` and, of it, ``wasted_j``: what
        was drawn while no job was on the host; ``n_switches``, how many times it changed its P-state. Energies are
        NaN where they are not known: without energy, of Batsim's own files, of hosts that still compute.
    """
    n = trace.platform.n_cores
    time_s, core, change, pstate = _events(trace)
    length_s, is_idle = _segments(trace, time_s, core, change)
    columns: dict[str, NDArray[Any]] = {"host": np.array(trace.platform.core_names, dtype=object)}
    columns |= {name: np.zeros(n) for name in _TIMES}
    columns["idle_s"] = np.bincount(core[is_idle], weights=length_s[is_idle], minlength=n)
    columns["computing_s"] = np.bincount(core[~is_idle], weights=length_s[~is_idle], minlength=n)
    columns["energy_j"] = trace.host_energy_j.copy() if len(trace.host_energy_j) else np.full(n, np.nan)
    idle_w = trace.platform.idle_w[core, pstate]
    wasted_j = np.bincount(core[is_idle], weights=(length_s * idle_w)[is_idle], minlength=n)
    columns["wasted_j"] = np.where(np.isnan(columns["energy_j"]), np.nan, wasted_j + _believed_j(trace))
    same_core = core[1:] == core[:-1]
    columns["n_switches"] = np.bincount(core[1:][same_core & (pstate[1:] != pstate[:-1])], minlength=n)
    return columns


def _events(trace: Trace) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return date, core, change of the number of jobs and P-state after it of all that happens to cores, by core."""
    n = trace.platform.n_cores
    stays = trace.stays
    held = [trace.stay_units[stay["first_unit"] : stay["first_unit"] + stay["n_units"]] for stay in stays]
    held_cores = np.concatenate(held).astype(np.int64) if held else np.zeros(0, dtype=np.int64)
    start_s = np.repeat(stays["start_s"], stays["n_units"])
    end_s = np.repeat(np.where(stays["end_s"] >= 0, stays["end_s"], trace.end_s), stays["n_units"])
    reached = trace.pstate_changes[(trace.pstate_changes["pstate"] >= 0) & (trace.pstate_changes["time_s"] > 0)]
    switched = [trace.pstate_cores[row["first_core"] : row["first_core"] + row["n_cores"]] for row in reached]
    switched_cores = np.concatenate(switched).astype(np.int64) if switched else np.zeros(0, dtype=np.int64)
    n_held, n_switched = len(held_cores), len(switched_cores)
    nothing, unknown = np.zeros(n_switched, dtype=np.int64), np.full(2 * n_held, -1)
    time_s = np.concatenate([np.zeros(n), np.repeat(reached["time_s"], reached["n_cores"]), start_s, end_s])
    core = np.concatenate([np.arange(n), switched_cores, held_cores, held_cores])
    ones = np.ones(n_held, dtype=np.int64)
    change = np.concatenate([np.zeros(n, dtype=np.int64), nothing, ones, -ones])
    pstates = np.repeat(reached["pstate"], reached["n_cores"])
    pstate = np.concatenate([trace.platform.initial_pstate, pstates, unknown]).astype(np.int64)
    order = np.lexsort((np.arange(len(core)), time_s, core))
    time_s, core, change, pstate = time_s[order], core[order], change[order], pstate[order]
    # what is not known is as it was before; the first row of every core is known
    known = np.maximum.accumulate(np.where(pstate >= 0, np.arange(len(pstate)), 0))
    return time_s, core, change, pstate[known]


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

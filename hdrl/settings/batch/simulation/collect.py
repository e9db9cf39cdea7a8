"""Making a Trace of the kernel's arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.kernel.state import BatchState
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.trace import (
    ENERGY_DTYPE,
    MACHINE_STATE_DTYPE,
    PSTATE_CHANGE_DTYPE,
    RECORD_DTYPE,
    BatchTrace,
    OverUtilization,
)
from hdrl.settings.batch.workload.model import Workload


def _first_rows(log: NDArray[np.void], n: int, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """Return the first rows of a log of the kernel as rows of a Trace, whose fields have the same names."""
    rows = np.zeros(n, dtype=dtype)
    for name in dtype.names or ():
        rows[name] = log[name][:n]
    return rows


def _records(state: BatchState) -> NDArray[np.void]:
    records = _first_rows(state.jobs, len(state.jobs), RECORD_DTYPE)
    # A job that still runs has its energy at the start in the books.
    records["energy_j"][records["run_s"] < 0] = -1.0
    return records


def _pstate_changes(platform: Platform, state: BatchState) -> tuple[NDArray[np.void], NDArray[np.int32]]:
    """Return the P-state log, with the lines for date 0 in front that Batsim writes (one for each P-state)."""
    if not state.scalars["energy"][0]:
        return np.zeros(0, dtype=PSTATE_CHANGE_DTYPE), np.zeros(0, dtype=np.int32)
    n, n_cores = int(state.scalars["n_pstate_log"][0]), int(state.scalars["n_pstate_cores"][0])
    pstates = sorted(set(platform.initial_pstate.tolist()))
    at_start = [(pstate, np.flatnonzero(platform.initial_pstate == pstate)) for pstate in pstates]
    rows = np.zeros(len(at_start) + n, dtype=PSTATE_CHANGE_DTYPE)
    first = 0
    for row, (pstate, cores) in zip(rows, at_start, strict=False):
        row["first_core"], row["n_cores"], row["pstate"] = first, len(cores), pstate
        first += len(cores)
    rows[len(at_start) :] = _first_rows(state.pstate_log, n, PSTATE_CHANGE_DTYPE)
    rows["first_core"][len(at_start) :] += first
    initial = [cores.astype(np.int32) for _, cores in at_start]
    return rows, np.concatenate([*initial, state.pstate_cores[:n_cores]])


def _energy(state: BatchState) -> NDArray[np.void]:
    n = int(state.scalars["n_energy_log"][0])
    rows = np.zeros(n, dtype=ENERGY_DTYPE)
    for name in ("time_s", "energy_j", "epsilon_w"):
        rows[name] = state.energy_log[name][:n]
    rows["event"] = state.energy_log["event"][:n].astype(np.uint8).view("S1")
    return rows


def _host_energy_j(platform: Platform, state: BatchState) -> NDArray[np.float64]:
    """Return the energy of each host until now, in joules; NaN for hosts that are not idle."""
    hosts, s = state.hosts, state.scalars[0]
    if not s["energy"] or not len(hosts):
        return np.zeros(0)
    idle_w = state.watts if len(state.watts) else platform.idle_w[np.arange(platform.n_cores), state.pstates]
    energy_j = hosts["energy_j"] + idle_w * (s["now"] - hosts["energy_time_s"])
    return np.where(state.cores["owner"] < 0, energy_j, np.nan)


def _time_in_state_s(state: BatchState) -> dict[str, float]:
    """Return the time that all hosts together were in each state, under Batsim's names."""
    s = state.scalars[0]
    names = {"computing": "computing", "idle": "idle"}
    if len(state.node_power):
        names |= {"sleeping": "off", "switching_off": "shutting_down", "switching_on": "booting"}
    return {name: float(s[f"time_{ours}_s"]) for name, ours in names.items()}


def overutilization(state: BatchState) -> OverUtilization:
    """Return the dates at which the platform of an environment could not give what jobs requested."""
    s = state.scalars[0]
    spans = state.spans[: int(s["n_spans"])]
    return OverUtilization(
        core_s=state.core_fails[: int(s["n_core_fails"])].copy(),
        memory_s=state.memory_fails[: int(s["n_memory_fails"])].copy(),
        bandwidth_processor=spans["processor"].copy(),
        bandwidth_start_s=spans["start_s"].copy(),
        bandwidth_duration_s=spans["duration_s"].copy(),
    )


def collect_trace(platform: Platform, workload: Workload, state: BatchState, compatibility: str | None) -> BatchTrace:
    """Return the trace of an environment so far."""
    s = state.scalars[0]
    pstate_changes, pstate_cores = _pstate_changes(platform, state)
    return BatchTrace(
        platform=platform,
        workload=workload,
        records=_records(state),
        completion_order=state.completed[: int(s["n_completed"])].copy(),
        allocated_cores=state.allocated[: int(s["n_allocated"])].copy(),
        machine_states=_first_rows(state.machine_log, int(s["n_machine_log"]), MACHINE_STATE_DTYPE),
        pstate_changes=pstate_changes,
        pstate_cores=pstate_cores,
        energy=_energy(state),
        overutilization=overutilization(state),
        consumed_j=float(s["last_energy_j"] - s["first_energy_j"]) if s["energy"] else 0.0,
        end_s=float(s["now"]),
        n_decisions=int(s["n_decisions"]),
        n_grouped_switches=int(s["n_grouped_switches"]),
        n_machine_switches=int(s["n_machine_switches"]),
        time_in_state_s=_time_in_state_s(state),
        host_energy_j=_host_energy_j(platform, state),
        info={"compatibility": compatibility, "simulator": "embedded", "engine_steps": int(s["n_engine_steps"])},
    )

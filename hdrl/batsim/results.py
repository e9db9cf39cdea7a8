"""A Trace of what a simulator outside the kernel did: as it happens in the exact engine, or from Batsim's files."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import ReadError, suggest
from hdrl.base.files import atomic_write, read_text
from hdrl.base.textnumbers import finite_of, int_of
from hdrl.batsim.decision_system import DecisionSystem
from hdrl.batsim.exact.extended import Extended
from hdrl.batsim.exact.idsets import parse_ids
from hdrl.batsim.exact.jobs import ExactJob
from hdrl.batsim.exact.machines import STATES
from hdrl.batsim.exact.outputs import Outputs
from hdrl.settings.batch.simulation.collect import overutilization
from hdrl.settings.batch.simulation.outputs import (
    ENERGY_COLUMNS,
    MACHINE_STATE_COLUMNS,
    PSTATE_CHANGE_COLUMNS,
)
from hdrl.settings.batch.simulation.readers import read_out_jobs, read_out_schedule
from hdrl.settings.batch.simulation.trace import (
    ENERGY_DTYPE,
    HOST_STATES,
    MACHINE_STATE_DTYPE,
    PSTATE_CHANGE_DTYPE,
    RECORD_DTYPE,
    BatchTrace,
    JobState,
)

WALL_CLOCK_COLUMNS = ("scheduling_time", "simulation_time")
"""Columns of out_schedule.csv that are never the same twice."""


@dataclass(slots=True)
class SimulationLog:
    """Log of a simulator, row by row."""

    # full id, state, start, run time and energy of each job that ended or was rejected, in that order
    ends: list[tuple[str, int, float, float, float]] = field(default_factory=list)
    # rows of the files of these names; of P-states the cores as a list
    machine_states: list[tuple[float, ...]] = field(default_factory=list)
    pstates: list[tuple[float, list[int], int]] = field(default_factory=list)
    energy: list[tuple[float, float, str, float]] = field(default_factory=list)
    # as in `simulation.trace.BatchTrace`
    consumed_j: float = 0.0
    end_s: float = 0.0
    n_grouped_switches: int = 0
    n_machine_switches: int = 0
    time_in_state_s: dict[str, float] = field(default_factory=dict)
    host_energy_j: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


class NotedOutputs(Outputs):
    """The outputs of the exact engine, with all digits kept besides."""

    def __init__(self, *, energy: bool) -> None:
        super().__init__(energy=energy)
        self.log = SimulationLog()

    def add_job(self, job: ExactJob) -> None:
        """Add the row of a job that has ended or was rejected."""
        super().add_job(job)
        self.log.ends.append((job.id, int(JobState[job.state]), job.start_s, job.run_s, job.energy_j))

    def add_machine_states(self, now_s: float, counts: dict[str, int]) -> None:
        """Add a line of how many machines are in which state."""
        super().add_machine_states(now_s, counts)
        self.log.machine_states.append((now_s, *(counts[state] for state in STATES[:5])))

    def add_pstate_change(self, now_s: float, machines: list[int], pstate: int) -> None:
        """Add a line of P-states; negative ones mark requests."""
        super().add_pstate_change(now_s, machines, pstate)
        self.log.pstates.append((now_s, sorted(machines), pstate))

    def add_energy(self, now_s: float, total_j: Extended, event: str, epsilon_w: Extended) -> None:
        """Add a line of the energy of the platform since date 0."""
        super().add_energy(now_s, total_j, event, epsilon_w)
        self.log.energy.append((now_s, total_j[0], event, epsilon_w[0]))


def read_log(prefix: Path, *, energy: bool, n_cores: int) -> SimulationLog:
    """Read the files that Batsim has written; raise ReadError for missing, incomplete or foreign content."""
    log = SimulationLog(ends=_read_ends(_file(prefix, "jobs")))
    schedule = read_out_schedule(_file(prefix, "schedule"))
    values = {name: value for name, value in schedule.items() if isinstance(value, float)}
    log.consumed_j = values["consumed_joules"] if energy else 0.0
    log.n_grouped_switches = int(values.get("nb_grouped_switches", 0))
    log.n_machine_switches = int(values.get("nb_machine_switches", 0))
    log.time_in_state_s = {state: values.get(f"time_{state}", 0.0) for state in HOST_STATES}
    reader = _Reader(n_cores)
    log.machine_states = reader.rows(_file(prefix, "machine_states"), MACHINE_STATE_COLUMNS, reader.machine_states)
    if energy:
        log.pstates = reader.rows(_file(prefix, "pstate_changes"), PSTATE_CHANGE_COLUMNS, reader.pstate)
        log.energy = reader.rows(_file(prefix, "consumed_energy"), ENERGY_COLUMNS, reader.energy)
    return log


def add_rejected(log: SimulationLog, system: DecisionSystem) -> None:
    """Note the jobs that were rejected, which Batsim 5 leaves out of its file of jobs."""
    noted = {row[0] for row in log.ends}
    states = system.state.jobs["state"]
    for job_id, job in system.index_of.items():
        if states[job] == JobState.REJECTED and job_id not in noted:
            log.ends.append((job_id, int(JobState.REJECTED), -1.0, -1.0, -1.0))


def trace_of(log: SimulationLog, system: DecisionSystem, info: Mapping[str, Any]) -> BatchTrace:
    """Return the trace of a finished simulation.

    The decision system has the allocations, and the waits for resources. Raise ReadError if the log holds jobs that do
    not exist, or not all.
    """
    state = system.state
    s = state.scalars[0]
    records, order = _records(log, system)
    pstates, pstate_cores = _pstates(log)
    return BatchTrace(
        platform=system.platform,
        workload=system.workload,
        records=records,
        completion_order=order,
        allocated_cores=state.allocated[: int(s["n_allocated"])].copy(),
        machine_states=np.array(log.machine_states, dtype=MACHINE_STATE_DTYPE),
        pstate_changes=pstates,
        pstate_cores=pstate_cores,
        energy=np.array(log.energy, dtype=ENERGY_DTYPE),
        overutilization=overutilization(state),
        consumed_j=log.consumed_j,
        end_s=log.end_s,
        n_decisions=int(s["n_decisions"]),
        n_grouped_switches=log.n_grouped_switches,
        n_machine_switches=log.n_machine_switches,
        metadata=dict(system.metadata),
        time_in_state_s=log.time_in_state_s,
        host_energy_j=log.host_energy_j,
        info=dict(info),
    )


def take_out_wall_clock(path: Path) -> dict[str, float]:
    """Set the wall-clock columns of out_schedule.csv to zero, so that equal runs have equal files; return them.

    Raise ReadError if it cannot be read, OutputError if it cannot be written.
    """
    found = read_out_schedule(path)
    header, row = list(csv.reader(io.StringIO(read_text(path))))[:2]
    taken = {}
    for name in WALL_CLOCK_COLUMNS:
        if name in found:
            taken[name] = float(found[name])
            row[header.index(name)] = f"{0:f}"
    with atomic_write(path) as out:
        out.write(",".join(header) + "\n" + ",".join(row) + "\n")
    return taken


def _file(prefix: Path, name: str) -> Path:
    return prefix.with_name(f"{prefix.name}_{name}.csv")


def _read_ends(path: Path) -> list[tuple[str, int, float, float, float]]:
    table = read_out_jobs(path)
    ids = [f"{w}!{i}" for w, i in zip(table["workload_name"], table["job_id"], strict=True)]
    states = [int(JobState[name]) for name in table["final_state"]]
    # What a rejected job does not have is -1 in a trace.
    start_s, run_s, energy_j = (
        np.nan_to_num(table[name], nan=-1.0).tolist() for name in ("starting_time", "execution_time", "consumed_energy")
    )
    return list(zip(ids, states, start_s, run_s, energy_j, strict=True))


class _Reader:
    """Reads the files whose lines have few kinds of fields."""

    def __init__(self, n_cores: int) -> None:
        self._n_cores = n_cores

    def rows(self, path: Path, columns: Sequence[str], row: Callable[[Sequence[str]], Any]) -> list[Any]:
        """Return the results of a function for each line of a file."""
        text = read_text(path)
        if not text.endswith("\n"):
            raise ReadError(path, "is truncated: its last line has no end")
        header, *lines = text.splitlines()
        names = [name.strip() for name in header.split(",")]
        if any(names.count(name) != 1 for name in columns):
            raise ReadError(path, f"its header is {header[:60]!r}, expected {','.join(columns)!r}", line=1)
        positions = [names.index(name) for name in columns]
        result = []
        for number, line in enumerate(lines, start=2):
            fields = line.split(",")
            try:
                if len(fields) != len(names):
                    raise ValueError(f"{len(fields)} fields, expected {len(names)}")
                result.append(row([fields[position] for position in positions]))
            except (ValueError, OverflowError) as error:
                raise ReadError(path, f"{' '.join(str(error).split())[:120]}", line=number) from None
        return result

    def machine_states(self, fields: Sequence[str]) -> tuple[float, ...]:
        return (finite_of(fields[0]), *map(_whole, fields[1:]))

    def pstate(self, fields: Sequence[str]) -> tuple[float, list[int], int]:
        return finite_of(fields[0]), parse_ids(fields[1], self._n_cores), _whole(fields[2])

    def energy(self, fields: Sequence[str]) -> tuple[float, float, str, float]:
        if fields[2] not in ("s", "e", "p"):
            raise ValueError(f"event_type is {fields[2][:20]!r}, expected s, e or p")
        return finite_of(fields[0]), finite_of(fields[1]), fields[2], finite_of(fields[3])


def _whole(text: str) -> int:
    value = int_of(text)
    if abs(value) >= 2**31:
        raise ValueError(f"{text[:20]!r} is too large")
    return value


def _records(log: SimulationLog, system: DecisionSystem) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    jobs = system.state.jobs
    records = np.zeros(len(jobs), dtype=RECORD_DTYPE)
    for name in ("state", "return_code", "first_core", "n_cores"):
        records[name] = jobs[name]
    records["start_s"] = records["run_s"] = records["energy_j"] = -1.0
    order = []
    for job_id, state, start_s, run_s, energy_j in log.ends:
        job = system.index_of.get(job_id)
        if job is None:
            raise ReadError("out_jobs.csv", f"no job {job_id!r}; {suggest(job_id, system.index_of)}")
        if state != records["state"][job]:
            state_name = JobState(int(records["state"][job])).name
            raise ReadError("out_jobs.csv", f"job {job_id!r} is {JobState(state).name}, Batsim reported {state_name}")
        row = records[job]
        row["start_s"], row["run_s"], row["energy_j"] = start_s, run_s, energy_j
        order.append(job)
    if sorted(order) != list(range(len(jobs))):
        raise ReadError("out_jobs.csv", f"has {len(order)} rows for {len(jobs)} jobs, expected one for each")
    return records, np.array(order, dtype=np.int64)


def _pstates(log: SimulationLog) -> tuple[NDArray[np.void], NDArray[np.int32]]:
    rows = np.zeros(len(log.pstates), dtype=PSTATE_CHANGE_DTYPE)
    first = 0
    for row, (time_s, cores, pstate) in zip(rows, log.pstates, strict=True):
        row["time_s"], row["first_core"], row["n_cores"], row["pstate"] = time_s, first, len(cores), pstate
        first += len(cores)
    flat = [core for _, cores, _ in log.pstates for core in cores]
    return rows, np.array(flat, dtype=np.int32)

"""The files of a run: Batsim's CSV files and HDeepRM's over-utilisations, written from a Trace.

Every file has a function that returns its text; the writers put that text into place atomically. Columns,
number formats and the order of rows are Batsim 4.2.1's, to the byte. `simulation.readers` reads these files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.csvfiles import quoted
from hdrl.base.errors import OutputError
from hdrl.base.files import atomic_write
from hdrl.settings.batch.kernel.printing import FIXED_OR_NA, GENERAL
from hdrl.settings.batch.simulation.columns import Characters, Column, Reals, Sets, Texts, TextTable, Wholes
from hdrl.settings.batch.simulation.texts import name_texts, number_texts, runs
from hdrl.settings.batch.simulation.trace import HOST_STATES, JobState
from hdrl.version import VERSION

if TYPE_CHECKING:
    from hdrl.settings.batch.simulation.trace import BatchTrace

JOB_COLUMNS = (
    "job_id",
    "workload_name",
    "profile",
    "submission_time",
    "requested_number_of_resources",
    "requested_time",
    "success",
    "final_state",
    "starting_time",
    "execution_time",
    "finish_time",
    "waiting_time",
    "turnaround_time",
    "stretch",
    "allocated_resources",
    "consumed_energy",
    "metadata",
)
"""Columns of out_jobs.csv."""

MACHINE_STATE_COLUMNS = ("time", "nb_sleeping", "nb_switching_on", "nb_switching_off", "nb_idle", "nb_computing")
PSTATE_CHANGE_COLUMNS = ("time", "machine_id", "new_pstate")
ENERGY_COLUMNS = ("time", "energy", "event_type", "wattmin", "epower")

# ---- formatting


class _EndedJobs:
    """The rows of out_jobs.csv as arrays, with the times that are derived in Batsim's order of operations."""

    def __init__(self, trace: BatchTrace) -> None:
        self.order = trace.completion_order
        self.jobs = trace.workload.jobs[self.order]
        self.records = trace.records[self.order]
        self.state = self.records["state"]
        self.is_rejected = self.state == JobState.REJECTED
        self.is_success = self.state == JobState.COMPLETED_SUCCESSFULLY
        self.start_s = self.records["start_s"]
        self.run_s = self.records["run_s"]
        self.finish_s = self.start_s + self.run_s
        self.wait_s = self.start_s - self.jobs["submit_s"]
        self.turnaround_s = self.finish_s - self.jobs["submit_s"]
        with np.errstate(all="ignore"):  # as in C, and rejected jobs divide -1 by -1
            self.stretch = self.turnaround_s / self.run_s


def format_jobs(trace: BatchTrace) -> str:
    """Return the text of out_jobs.csv: a row per job that ended or was rejected, in the order in which it happened."""
    return _jobs(trace).text()


def _jobs(trace: BatchTrace) -> TextTable:
    ended = _EndedJobs(trace)
    workload = trace.workload
    job_ids, sources, profiles = map(name_texts, (workload.job_ids, workload.sources, workload.profile_names))
    state_names = np.array([state.name for state in JobState], dtype=object)
    metadata = np.full(len(ended.order), quoted(""), dtype=object)
    for row, job in enumerate(ended.order.tolist() if trace.metadata else []):
        if job in trace.metadata:
            metadata[row] = quoted(trace.metadata[job])
    columns: list[Column] = [
        Texts(job_ids[ended.order]),
        Texts(sources[ended.jobs["source"]]),
        Texts(profiles[ended.jobs["profile"]]),
        Reals(ended.jobs["submit_s"]),
        Wholes(ended.jobs["cores"]),
        Reals(ended.jobs["walltime_s"]),
        Wholes(ended.is_success.astype(np.int8)),
        Texts(state_names[ended.state]),
        *(
            _of_the_run(values, ended)
            for values in (
                ended.start_s,
                ended.run_s,
                ended.finish_s,
                ended.wait_s,
                ended.turnaround_s,
                ended.stretch,
            )
        ),
        Sets(trace.allocated_cores, ended.records["first_core"], ended.records["n_cores"]),
        _of_the_run(ended.records["energy_j"], ended),
        Texts(metadata),
    ]
    return TextTable(JOB_COLUMNS, columns, len(ended.order))


def _of_the_run(values: NDArray[np.float64], ended: _EndedJobs) -> Column:
    """Return a column in which nothing stands for rejected jobs."""
    if not ended.is_rejected.any():
        return Reals(values)
    texts = np.array([f"{value:f}" for value in values.tolist()], dtype=object)
    texts[ended.is_rejected] = ""
    return Texts(texts)


def _sum(values: NDArray[Any]) -> float:
    """Add up one after the other, as Batsim does; `numpy.sum` adds pairwise and differs in the last digits."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def schedule_values(trace: BatchTrace) -> dict[str, str | int | float]:
    """Return the columns of out_schedule.csv, in their order.

    Means and the success rate divide by *all* jobs that ended or were rejected, rejected ones included, and are NaN
    without any. ``nb_jobs_killed`` counts every job that ended without success.
    """
    ended = _EndedJobs(trace)
    ran = ~ended.is_rejected
    n_jobs, n_finished, n_success = len(ran), int(np.sum(ran)), int(np.sum(ended.is_success))

    def largest(values: NDArray[Any]) -> float:
        return float(np.max(values[ran], initial=0.0))

    def mean(values: NDArray[Any]) -> float:
        return _sum(values[ran]) / n_jobs if n_jobs else math.nan

    return {
        "batsim_version": f"hdrl-{VERSION}",
        "consumed_joules": trace.consumed_j,
        "makespan": largest(ended.finish_s),
        "max_slowdown": largest(ended.stretch),
        "max_turnaround_time": largest(ended.turnaround_s),
        "max_waiting_time": largest(ended.wait_s),
        "mean_slowdown": mean(ended.stretch),
        "mean_turnaround_time": mean(ended.turnaround_s),
        "mean_waiting_time": mean(ended.wait_s),
        "nb_computing_machines": trace.platform.n_cores,
        "nb_grouped_switches": trace.n_grouped_switches,
        "nb_jobs": n_jobs,
        "nb_jobs_finished": n_finished,
        "nb_jobs_killed": n_finished - n_success,
        "nb_jobs_rejected": n_jobs - n_finished,
        "nb_jobs_success": n_success,
        "nb_machine_switches": trace.n_machine_switches,
        "scheduling_time": float(trace.info.get("scheduling_time_s", 0.0)),
        "simulation_time": float(trace.info.get("simulation_time_s", 0.0)),
        "success_rate": n_success / n_jobs if n_jobs else math.nan,
        **{f"time_{state}": float(trace.time_in_state_s.get(state, 0.0)) for state in HOST_STATES},
    }


def format_schedule(trace: BatchTrace) -> str:
    """Return the text of out_schedule.csv: one row about the whole run.

    ``trace``: what happened. The wall-clock columns come from ``scheduling_time_s`` and ``simulation_time_s`` of its
    ``info``.
    """

    def text(value: str | float) -> str:
        if not isinstance(value, float):
            return str(value)
        return "-nan" if math.isnan(value) else f"{value:f}"  # C prints 0 / 0 so

    values = schedule_values(trace)
    return f"{','.join(values)}\n{','.join(map(text, values.values()))}\n"


def format_machine_states(trace: BatchTrace) -> str:
    """Return the text of out_machine_states.csv: how many hosts are in which state; dates have 6 significant digits."""
    return _machine_states(trace).text()


def _machine_states(trace: BatchTrace) -> TextTable:
    states = trace.machine_states
    dates, *counts = (states[name] for name in states.dtype.names or ())

    columns: list[Column] = [Reals(dates, GENERAL), *map(Wholes, counts)]
    return TextTable(MACHINE_STATE_COLUMNS, columns, len(states))


def format_pstate_changes(trace: BatchTrace) -> str:
    """Return the text of out_pstate_changes.csv: requests and P-states reached; dates have 6 significant digits."""
    return _pstate_changes(trace).text()


def _pstate_changes(trace: BatchTrace) -> TextTable:
    changes = trace.pstate_changes

    sets = Sets(trace.pstate_cores, changes["first_core"], changes["n_cores"])
    columns: list[Column] = [Reals(changes["time_s"], GENERAL), sets, Wholes(changes["pstate"])]
    return TextTable(PSTATE_CHANGE_COLUMNS, columns, len(changes))


def format_consumed_energy(trace: BatchTrace) -> str:
    """Return the text of out_consumed_energy.csv: energy at each job start, job end and P-state request.

    ``epower`` is the mean power since the row before (the first row: since date 0), ``NA`` if no time has passed.
    """
    return _consumed_energy(trace).text()


def _consumed_energy(trace: BatchTrace) -> TextTable:
    log = trace.energy
    elapsed_s = np.diff(log["time_s"], prepend=0.0)
    energy_j = np.diff(log["energy_j"], prepend=0.0)
    power_w = np.full(len(log), -1.0)  # Batsim's mark of "no power": a real power of exactly -1 prints NA as well
    np.divide(energy_j, elapsed_s, out=power_w, where=elapsed_s > 0)

    columns: list[Column] = [
        Reals(log["time_s"]),
        Reals(log["energy_j"]),
        Characters(log["event"]),
        Reals(log["epsilon_w"]),
        Reals(power_w, FIXED_OR_NA),
    ]
    return TextTable(ENERGY_COLUMNS, columns, len(log))


def format_overutilizations(trace: BatchTrace) -> str:
    """Return the text of overutilizations.json, in HDeepRM's format.

    ``core`` and ``mem`` hold dates at which the next job found too few cores or too little memory; ``mem_bw`` the
    spans ``[start, duration]`` in which a processor's memory bandwidth was over-committed. A span that is still open
    is closed at the end of the simulation; only where ``trace.info["compatibility"]`` is ``"hdeeprm-0.3.1"`` it stays,
    as there, a bare start date and ``state`` 1.
    """
    log = trace.overutilization
    is_open = log.bandwidth_duration_s < 0
    end_s = round(trace.end_s, 6)  # dates of the decision side have six decimals
    duration_s = np.where(is_open, np.maximum(0.0, end_s - log.bandwidth_start_s), log.bandwidth_duration_s)
    stays_open = is_open & (trace.info.get("compatibility") == "hdeeprm-0.3.1")
    # A job of many processors makes as many equal spans, one after the other.
    begins, run = runs(log.bandwidth_start_s, duration_s, stays_open)
    starts, durations = number_texts(log.bandwidth_start_s[begins]), number_texts(duration_s[begins])
    spans = [
        start if bare else f"[{start}, {duration}]"
        for start, duration, bare in zip(starts, durations, stays_open[begins].tolist(), strict=True)
    ]
    found, first, n_spans = np.unique(log.bandwidth_processor, return_index=True, return_counts=True)
    of_each = np.array(spans, dtype=object)[run[np.argsort(log.bandwidth_processor, kind="stable")]]
    in_turn = np.split(of_each, np.cumsum(n_spans)[:-1])
    spans_of = {int(found[one]): in_turn[one].tolist() for one in np.argsort(first)}
    over_committed = set(log.bandwidth_processor[stays_open].tolist())
    processors = (
        f'"{processor}": {{"state": {int(processor in over_committed)}, "values": [{", ".join(values)}]}}'
        for processor, values in spans_of.items()
    )
    cores, memory = (", ".join(number_texts(dates)) for dates in (log.core_s, log.memory_s))
    return (
        f'{{"core": [{cores}], "mem": [{memory}], "mem_bw": {{"nb_procs": {trace.platform.n_processors}, '
        f'"procs": {{{", ".join(processors)}}}}}}}'
    )


# ---- writing


def write_batsim_files(trace: BatchTrace, folder: str | Path, prefix: str = "out") -> tuple[Path, ...]:
    """Write Batsim's files: jobs, schedule and machine states; with energy also P-state changes and consumed energy.

    Parameters
    ----------
    folder
        Folder to write to; it must exist.
    prefix
        Start of the file names, as Batsim's ``-e``.

    Returns
    -------
    tuple[Path, ...]
        The files written.

    Raises
    ------
    OutputError
        If the folder is missing or a file cannot be written.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise OutputError(f"{folder}: no such folder, expected one to write the output files into")
    parts: dict[str, Callable[[BatchTrace], Iterable[str]]] = {
        "jobs": lambda trace: _jobs(trace).parts(),
        "schedule": lambda trace: [format_schedule(trace)],
        "machine_states": lambda trace: _machine_states(trace).parts(),
    }
    if trace.has_energy or len(trace.pstate_changes):
        parts["pstate_changes"] = lambda trace: _pstate_changes(trace).parts()
        parts["consumed_energy"] = lambda trace: _consumed_energy(trace).parts()
    paths = []
    for name, parts_of in parts.items():
        path = folder / f"{prefix}_{name}.csv"
        with atomic_write(path) as out:
            out.writelines(parts_of(trace))
        paths.append(path)
    return tuple(paths)


def write_overutilizations(trace: BatchTrace, path: str | Path) -> None:
    """Write overutilizations.json, see `format_overutilizations`.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    text = format_overutilizations(trace)
    with atomic_write(path) as out:
        out.write(text)

"""The files of a run: Batsim's CSV files and HDeepRM's over-utilisations, written from a Trace and read back.

Every file has a function that returns its text; the writers put that text into place atomically. Columns,
number formats and the order of rows are Batsim 4.2.1's, to the byte.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hdrl.errors import OutputError, ReadError, suggest
from hdrl.files import atomic_write, read_json, read_text
from hdrl.simulation.trace import JobState, OverUtilization
from hdrl.version import VERSION

if TYPE_CHECKING:
    from hdrl.simulation.trace import Trace

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

HOST_STATES = ("computing", "idle", "sleeping", "switching_off", "switching_on", "unavailable")
"""Batsim's states of a host: the keys of `Trace.time_in_state_s` and the ends of the ``time_*`` columns."""

_ROWS_AT_ONCE = 16_384
"""Rows that are formatted together: enough for array operations to pay, and few enough to stay in the cache."""

_TEXT_COLUMNS = frozenset({"job_id", "workload_name", "profile", "final_state", "allocated_resources", "metadata"})
_INTEGER_COLUMNS = frozenset({"requested_number_of_resources", "success"})
_END_COLUMNS = (*JOB_COLUMNS[8:14], "consumed_energy")
_END_STATES = frozenset(state.name for state in JobState if state >= JobState.COMPLETED_SUCCESSFULLY)
_REQUIRED_SCHEDULE_COLUMNS = (
    "consumed_joules",
    "makespan",
    "max_slowdown",
    "max_turnaround_time",
    "max_waiting_time",
    "mean_slowdown",
    "mean_turnaround_time",
    "mean_waiting_time",
)
_SET_PATTERN = re.compile(r"\d+(-\d+)?( \d+(-\d+)?)*", re.ASCII)


# ---- interval sets


def _decimal_text(values: NDArray[Any], separators: NDArray[np.uint8]) -> str:
    """Return each value (not negative) in decimal, followed by its separator, made without Python numbers."""
    width = len(str(int(values.max())))
    characters = np.empty((len(values), width + 1), dtype=np.uint8)
    kept = np.ones((len(values), width + 1), dtype=bool)
    for column in range(width):
        power = 10 ** (width - 1 - column)
        characters[:, column] = values // power % 10 + ord("0")
        if power > 1:
            kept[:, column] = values >= power
    characters[:, width] = separators
    return characters[kept].tobytes().decode("ascii")


def interval_texts(cores: NDArray[Any], first: NDArray[Any], count: NDArray[Any]) -> list[str]:
    """Return slices of an array of core ids as interval sets in Batsim's notation, ``"0-3 8"``.

    Parameters
    ----------
    cores
        Core ids, ascending within each slice.
    first, count
        Start and length of each slice; a length of 0 gives ``""``.

    Returns
    -------
    list[str]
        One text per slice.
    """
    used = np.flatnonzero(count > 0)
    texts = [""] * len(count)
    if len(used) == 0:
        return texts
    length = count[used].astype(np.int64)
    set_end = np.cumsum(length)
    ids = cores[np.repeat(first[used] - (set_end - length), length) + np.arange(set_end[-1])]
    begins = np.ones(len(ids) + 1, dtype=bool)
    begins[1:-1] = np.diff(ids) != 1
    begins[set_end] = True
    edges = np.flatnonzero(begins)
    low, high = ids[edges[:-1]], ids[edges[1:] - 1]
    ends_set = np.zeros(len(ids) + 1, dtype=bool)
    ends_set[set_end] = True
    after = np.where(ends_set[edges[1:]], ord("\n"), ord(" ")).astype(np.uint8)
    several = low != high
    separators = np.column_stack((np.where(several, np.uint8(ord("-")), after), after))
    kept = np.column_stack((np.ones(len(low), dtype=bool), several))
    text = _decimal_text(np.column_stack((low, high))[kept], separators[kept])
    for slot, line in zip(used.tolist(), text.splitlines(), strict=True):
        texts[slot] = line
    return texts


def allocation_texts(trace: Trace, jobs: NDArray[np.int64] | None = None) -> list[str]:
    """Return the cores of jobs as interval sets, ``"0-3 8"``; ``""`` for a job that never started.

    Parameters
    ----------
    trace
        The trace.
    jobs
        Indices of the jobs; all of them, in their order, if ``None``.
    """
    records = trace.records if jobs is None else trace.records[jobs]
    return interval_texts(trace.allocated_cores, records["first_core"], records["n_cores"])


# ---- formatting


def _table(columns: Sequence[str], n_rows: int, texts: Callable[[slice], Sequence[Sequence[str]]]) -> str:
    """Return a CSV text; ``texts`` gives the columns of some of its rows."""
    parts = [",".join(columns)]
    for first in range(0, n_rows, _ROWS_AT_ONCE):
        rows = zip(*texts(slice(first, min(first + _ROWS_AT_ONCE, n_rows))), strict=True)
        parts.append("\n".join(map(",".join, rows)))
    parts.append("")
    return "\n".join(parts)


def fixed_texts(values: NDArray[np.float64]) -> list[str]:
    """Return numbers with six decimals, each exactly as ``%f`` prints it, a few times faster.

    The fraction of a double is exact, so its millionths are certain unless they are about half-way between two whole
    numbers. Those are left to ``%f``, and so is what has no millionths or too many digits.

    Parameters
    ----------
    values
        The numbers, one-dimensional.
    """
    magnitude = np.abs(values)
    is_large = ~(magnitude < 1e15)
    magnitude = np.where(is_large, 0.0, magnitude)
    whole = np.floor(magnitude)
    millionths = (magnitude - whole) * 1e6
    nearest = np.rint(millionths)
    is_exact = np.abs(np.abs(millionths - nearest) - 0.5) > 1e-8
    carries = nearest == 1e6
    low = np.where(carries, 0.0, nearest).astype(np.int64)
    high = whole.astype(np.int64) + carries
    texts = _fixed_digits(np.signbit(values), high, low)
    for index in np.flatnonzero(is_large | ~is_exact).tolist():
        texts[index] = f"{values[index]:f}"
    return texts


def _fixed_digits(is_negative: NDArray[np.bool_], high: NDArray[np.int64], low: NDArray[np.int64]) -> list[str]:
    """Return ``[-]<high>.<low with six digits>`` of each; a row of characters per place, those of a number in turn."""
    n, width = len(high), len(str(int(high.max(initial=0))))
    characters = np.empty((width + 9, n), dtype=np.uint8)
    is_kept = np.ones((width + 9, n), dtype=bool)
    characters[0], is_kept[0] = ord("-"), is_negative
    characters[width + 1], characters[width + 8] = ord("."), ord("\n")
    for left, first, last in ((high, 1, width), (low, width + 2, width + 7)):
        for place in range(last, first - 1, -1):
            rest = left // 10
            characters[place] = left - 10 * rest + ord("0")
            if place < width:
                is_kept[place] = left > 0
            left = rest
    return characters.T[is_kept.T].tobytes().decode("ascii").splitlines()


def _runs(*columns: NDArray[Any]) -> tuple[NDArray[np.bool_], list[int]]:
    """Return which rows differ from the row before, and for each row how many of those came before it."""
    begins = np.ones(len(columns[0]), dtype=bool)
    begins[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return begins, (np.cumsum(begins) - 1).tolist()


def _repeated(texts: Sequence[str], which: Iterable[int]) -> list[str]:
    return list(map(texts.__getitem__, which))


def _fixed_texts_of_runs(values: NDArray[np.float64]) -> list[str]:
    """Return what `fixed_texts` does; equal neighbours are printed once."""
    begins, run = _runs(values)
    return _repeated(fixed_texts(values[begins]), run)


def _date_texts(values: NDArray[np.float64]) -> list[str]:
    """Return dates as ``%g`` prints them, with 6 significant digits; equal neighbours are printed once."""
    begins, run = _runs(values)
    return _repeated([f"{value:g}" for value in values[begins].tolist()], run)


def _integer_texts(values: NDArray[Any]) -> list[str]:
    """Return integers in decimal; where they lie close together each of the possible ones is made once."""
    lowest, highest = int(values.min()), int(values.max())
    if highest - lowest > len(values):
        return list(map(str, values.tolist()))
    return _repeated(list(map(str, range(lowest, highest + 1))), (values - lowest).tolist())


def _number_texts(values: NDArray[np.float64]) -> list[str]:
    """Return numbers as JSON has them, with the digits that tell them from all others."""
    if not np.all(np.isfinite(values)):
        raise ValueError("JSON has finite numbers only")
    return list(map(repr, values.tolist()))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _names(names: Sequence[str]) -> NDArray[np.object_]:
    """Return names as an array of texts; one that would break a CSV row is quoted (Batsim would write a broken row)."""
    result = np.empty(len(names), dtype=object)
    result[:] = names
    if re.search(r'[,"\r\n]', "".join(names)):
        result[:] = [_quoted(name) if re.search(r'[,"\r\n]', name) else name for name in names]
    return result


class _EndedJobs:
    """The rows of out_jobs.csv as arrays, with the times that are derived in Batsim's order of operations."""

    def __init__(self, trace: Trace) -> None:
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


def format_jobs(trace: Trace) -> str:
    """Return the text of out_jobs.csv: one row per job that ended or was rejected, in the order in which that happened.

    Parameters
    ----------
    trace
        What happened.
    """
    ended = _EndedJobs(trace)
    workload = trace.workload
    job_ids, sources, profiles = map(_names, (workload.job_ids, workload.sources, workload.profile_names))
    state_names = np.array([state.name for state in JobState], dtype=object)
    nothing = _quoted("")

    def texts(part: slice) -> list[list[str]]:
        order, jobs, records = ended.order[part], ended.jobs[part], ended.records[part]
        of_the_run = [
            fixed_texts(values[part])
            for values in (
                ended.start_s,
                ended.run_s,
                ended.finish_s,
                ended.wait_s,
                ended.turnaround_s,
                ended.stretch,
                ended.records["energy_j"],
            )
        ]
        for column in of_the_run:
            for row in np.flatnonzero(ended.is_rejected[part]).tolist():
                column[row] = ""
        return [
            job_ids[order].tolist(),
            sources[jobs["source"]].tolist(),
            profiles[jobs["profile"]].tolist(),
            fixed_texts(jobs["submit_s"]),
            _integer_texts(jobs["cores"]),
            fixed_texts(jobs["walltime_s"]),
            _integer_texts(ended.is_success[part].astype(np.int8)),
            state_names[ended.state[part]].tolist(),
            *of_the_run[:-1],
            interval_texts(trace.allocated_cores, records["first_core"], records["n_cores"]),
            of_the_run[-1],
            [_quoted(trace.metadata[job]) if job in trace.metadata else nothing for job in order.tolist()],
        ]

    return _table(JOB_COLUMNS, len(ended.order), texts)


def _sum(values: NDArray[Any]) -> float:
    """Add up one after the other, as Batsim does; `numpy.sum` adds pairwise and differs in the last digits."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def schedule_values(trace: Trace) -> dict[str, str | int | float]:
    """Return the columns of out_schedule.csv, in their order.

    Means and the success rate divide by *all* jobs that ended or were rejected, rejected ones included, and are NaN
    without any. ``nb_jobs_killed`` counts every job that ended without success.

    Parameters
    ----------
    trace
        What happened.
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


def format_schedule(trace: Trace) -> str:
    """Return the text of out_schedule.csv: one row about the whole run.

    Parameters
    ----------
    trace
        What happened. The wall-clock columns come from ``scheduling_time_s`` and ``simulation_time_s`` of its ``info``.
    """

    def text(value: str | float) -> str:
        if not isinstance(value, float):
            return str(value)
        return "-nan" if math.isnan(value) else f"{value:f}"  # C prints 0 / 0 so

    values = schedule_values(trace)
    return f"{','.join(values)}\n{','.join(map(text, values.values()))}\n"


def format_machine_states(trace: Trace) -> str:
    """Return the text of out_machine_states.csv: how many hosts are in which state; dates have 6 significant digits.

    Parameters
    ----------
    trace
        What happened.
    """
    states = trace.machine_states
    dates, *counts = (states[name] for name in states.dtype.names or ())

    def texts(part: slice) -> list[list[str]]:
        return [_date_texts(dates[part]), *(_integer_texts(count[part]) for count in counts)]

    return _table(MACHINE_STATE_COLUMNS, len(states), texts)


def format_pstate_changes(trace: Trace) -> str:
    """Return the text of out_pstate_changes.csv: requests and P-states reached; dates have 6 significant digits.

    Parameters
    ----------
    trace
        What happened.
    """
    changes = trace.pstate_changes

    def texts(part: slice) -> list[list[str]]:
        rows = changes[part]
        sets = interval_texts(trace.pstate_cores, rows["first_core"], rows["n_cores"])
        return [_date_texts(rows["time_s"]), sets, _integer_texts(rows["pstate"])]

    return _table(PSTATE_CHANGE_COLUMNS, len(changes), texts)


def format_consumed_energy(trace: Trace) -> str:
    """Return the text of out_consumed_energy.csv: energy at each job start, job end and P-state request.

    ``epower`` is the mean power since the row before (the first row: since date 0), ``NA`` if no time has passed.

    Parameters
    ----------
    trace
        What happened.
    """
    log = trace.energy
    elapsed_s = np.diff(log["time_s"], prepend=0.0)
    energy_j = np.diff(log["energy_j"], prepend=0.0)
    power_w = np.full(len(log), -1.0)  # Batsim's mark of "no power": a real power of exactly -1 prints NA as well
    np.divide(energy_j, elapsed_s, out=power_w, where=elapsed_s > 0)

    def texts(part: slice) -> list[list[str]]:
        powers = fixed_texts(power_w[part])
        for row in np.flatnonzero(power_w[part] == -1.0).tolist():
            powers[row] = "NA"
        times_s, total_j, epsilon_w = (
            _fixed_texts_of_runs(log[name][part]) for name in ("time_s", "energy_j", "epsilon_w")
        )
        return [times_s, total_j, log["event"][part].astype("U1").tolist(), epsilon_w, powers]

    return _table(ENERGY_COLUMNS, len(log), texts)


def format_overutilizations(trace: Trace) -> str:
    """Return the text of overutilizations.json, in HDeepRM's format.

    ``core`` and ``mem`` hold dates at which the next job found too few cores or too little memory; ``mem_bw`` the
    spans ``[start, duration]`` in which a processor's memory bandwidth was over-committed. A span that is still open
    is closed at the end of the simulation; only where ``trace.info["compatibility"]`` is ``"hdeeprm-0.3.1"`` it stays,
    as there, a bare start date and ``state`` 1.

    Parameters
    ----------
    trace
        What happened.
    """
    log = trace.overutilization
    is_open = log.bandwidth_duration_s < 0
    end_s = round(trace.end_s, 6)  # dates of the decision side have six decimals
    duration_s = np.where(is_open, np.maximum(0.0, end_s - log.bandwidth_start_s), log.bandwidth_duration_s)
    stays_open = is_open & (trace.info.get("compatibility") == "hdeeprm-0.3.1")
    # A job of many processors makes as many equal spans, one after the other.
    begins, run = _runs(log.bandwidth_start_s, duration_s, stays_open)
    starts, durations = _number_texts(log.bandwidth_start_s[begins]), _number_texts(duration_s[begins])
    spans = [
        start if bare else f"[{start}, {duration}]"
        for start, duration, bare in zip(starts, durations, stays_open[begins].tolist(), strict=True)
    ]
    spans_of: dict[int, list[str]] = {}
    for processor, span in zip(log.bandwidth_processor.tolist(), _repeated(spans, run), strict=True):
        spans_of.setdefault(processor, []).append(span)
    over_committed = set(log.bandwidth_processor[stays_open].tolist())
    processors = (
        f'"{processor}": {{"state": {int(processor in over_committed)}, "values": [{", ".join(values)}]}}'
        for processor, values in spans_of.items()
    )
    cores, memory = (", ".join(_number_texts(dates)) for dates in (log.core_s, log.memory_s))
    return (
        f'{{"core": [{cores}], "mem": [{memory}], "mem_bw": {{"nb_procs": {trace.platform.n_processors}, '
        f'"procs": {{{", ".join(processors)}}}}}}}'
    )


# ---- writing


def write_batsim_files(trace: Trace, folder: str | Path, prefix: str = "out") -> tuple[Path, ...]:
    """Write Batsim's files: jobs, schedule and machine states; with energy also P-state changes and consumed energy.

    Parameters
    ----------
    trace
        What happened.
    folder
        Where to write; it must exist.
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
    formats = {"jobs": format_jobs, "schedule": format_schedule, "machine_states": format_machine_states}
    if trace.has_energy or len(trace.pstate_changes):
        formats |= {"pstate_changes": format_pstate_changes, "consumed_energy": format_consumed_energy}
    paths = []
    for name, format_file in formats.items():
        path = folder / f"{prefix}_{name}.csv"
        with atomic_write(path) as out:
            out.write(format_file(trace))
        paths.append(path)
    return tuple(paths)


def write_overutilizations(trace: Trace, path: str | Path) -> None:
    """Write overutilizations.json, see `format_overutilizations`.

    Parameters
    ----------
    trace
        What happened.
    path
        The file.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    text = format_overutilizations(trace)
    with atomic_write(path) as out:
        out.write(text)


# ---- reading


def _read_rows(
    path: Path, check_header: Callable[[Path, list[str]], None]
) -> tuple[list[str], list[list[str]], list[int]]:
    """Return header, rows and line numbers of a CSV file whose rows all have as many fields as the header."""
    text = read_text(path)
    if not text.strip():
        raise ReadError(path, "is empty, expected a header line")
    if not text.endswith("\n"):
        raise ReadError(path, "is truncated: its last line has no end", line=text.count("\n") + 1)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    header: list[str] = []
    try:
        header = next(reader)
        check_header(path, header)
        for row in reader:
            if len(row) != len(header):
                raise ReadError(path, f"{len(row)} fields, expected {len(header)}", line=reader.line_num)
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise ReadError(path, f"is no CSV: {error}", line=reader.line_num) from None
    return header, rows, lines


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _first_bad(column: Sequence[str], convert: Callable[[str], float]) -> int:
    """Return the index of the first text that does not convert to a number that an array can hold."""
    for index, text in enumerate(column):
        try:
            np.int64(convert(text)) if convert is int else convert(text)
        except (ValueError, OverflowError):
            return index
    raise AssertionError("called for a column that converts")


def _numbers(path: Path, name: str, column: Sequence[str], lines: Sequence[int]) -> NDArray[Any]:
    """Return a column as numbers; an empty field of a column that rejected jobs leave empty is NaN."""
    is_integer = name in _INTEGER_COLUMNS
    empty = np.zeros(len(column), dtype=bool)
    if name in _END_COLUMNS and "" in column:
        empty = np.fromiter((not text for text in column), bool, len(column))
        column = [text or "0" for text in column]
    try:
        values = np.fromiter(map(int if is_integer else float, column), np.int64 if is_integer else float, len(column))
        is_good = bool(np.all(np.isfinite(values)))
    except (ValueError, OverflowError):
        is_good = False
    if not is_good:
        index = _first_bad(column, int if is_integer else _finite)
        what = "a whole number" if is_integer else "a finite number"
        raise ReadError(path, f"{name} is {_shown(column[index])}, expected {what}", line=lines[index])
    if empty.any():
        values[empty] = np.nan
    return values


def _texts(column: Sequence[str]) -> NDArray[np.object_]:
    # Objects, not fixed-width text: one long allocation would widen every row.
    values = np.empty(len(column), dtype=object)
    values[:] = column
    return values


def _check_jobs_header(path: Path, header: list[str]) -> None:
    for position, (found, wanted) in enumerate(itertools.zip_longest(header, JOB_COLUMNS), start=1):
        if found != wanted:
            here = "missing" if found is None else _shown(found)
            there = "no more columns" if wanted is None else repr(wanted)
            raise ReadError(path, f"column {position} is {here}, expected {there}", line=1)


def _check_schedule_header(path: Path, header: list[str]) -> None:
    for name in _REQUIRED_SCHEDULE_COLUMNS:
        if name not in header:
            raise ReadError(path, f"has no column {name!r}; {suggest(name, [text[:40] for text in header])}", line=1)
    if len(set(header)) != len(header):
        raise ReadError(path, "names a column twice", line=1)


def _first(mask: NDArray[np.bool_]) -> int | None:
    return int(np.argmax(mask)) if mask.any() else None


def _check_jobs(path: Path, table: dict[str, NDArray[Any]], lines: Sequence[int]) -> None:
    """Raise `ReadError` at the first row that no run can have written."""
    states = table["final_state"].tolist()
    for state in sorted(set(states) - _END_STATES):
        problem = f"final_state is {_shown(state)}; {suggest(state[:80], _END_STATES)}"
        raise ReadError(path, problem, line=lines[states.index(state)])
    rejected = table["final_state"] == JobState.REJECTED.name
    succeeded = table["final_state"] == JobState.COMPLETED_SUCCESSFULLY.name
    checks = [
        (
            table["success"] != succeeded,
            "success must be 1 for COMPLETED_SUCCESSFULLY and 0 for every other final_state",
        ),
        (table["requested_number_of_resources"] < 1, "requested_number_of_resources must be at least 1"),
        (~rejected & (table["execution_time"] < 0), "execution_time must not be negative"),
    ]
    for name in _END_COLUMNS:
        is_empty = np.isnan(table[name])
        checks.append((is_empty & ~rejected, f"{name} is empty, expected a number (only a rejected job has none)"))
        checks.append((~is_empty & rejected, f"{name} must be empty for a rejected job"))
    is_set = np.array([_SET_PATTERN.fullmatch(text) is not None for text in table["allocated_resources"]], dtype=bool)
    checks.append((~rejected & ~is_set, "allocated_resources must be an interval set such as '0-3 8'"))
    for mask, problem in checks:
        index = _first(mask)
        if index is not None:
            raise ReadError(path, problem, line=lines[index])


def read_out_jobs(path: str | Path) -> dict[str, NDArray[Any]]:
    """Read out_jobs.csv, of this project or of Batsim.

    Parameters
    ----------
    path
        The file; a name that ends in ``.gz`` is decompressed.

    Returns
    -------
    dict[str, NDArray]
        An array per column of `JOB_COLUMNS`, rows in the order of the file. Times in seconds, energy in joules
        (-1 without energy); NaN where a rejected job has no value. Texts are arrays of `str` objects.

    Raises
    ------
    ReadError
        If the file cannot be read, is truncated, has another header, or holds something that no run can have written.
    """
    path = Path(path)
    _, rows, lines = _read_rows(path, _check_jobs_header)
    columns: Iterable[Sequence[str]] = zip(*rows, strict=True) if rows else [()] * len(JOB_COLUMNS)
    table = {
        name: _texts(column) if name in _TEXT_COLUMNS else _numbers(path, name, column, lines)
        for name, column in zip(JOB_COLUMNS, columns, strict=True)
    }
    _check_jobs(path, table, lines)
    return table


def read_out_schedule(path: str | Path) -> dict[str, str | float]:
    """Read out_schedule.csv, of this project or of any version of Batsim.

    Parameters
    ----------
    path
        The file; a name that ends in ``.gz`` is decompressed.

    Returns
    -------
    dict[str, str | float]
        ``batsim_version`` as text and every other column as a number; NaN for the means of a run without jobs.

    Raises
    ------
    ReadError
        If the file cannot be read, is truncated, lacks a column, or a value is no number.
    """
    path = Path(path)
    header, rows, lines = _read_rows(path, _check_schedule_header)
    if len(rows) != 1:
        raise ReadError(path, f"has {len(rows)} rows below its header, expected 1")
    result: dict[str, str | float] = {}
    for name, text in zip(header, rows[0], strict=True):
        if name == "batsim_version":
            result[name] = text
            continue
        try:
            result[name] = math.nan if text in {"-nan", "nan"} else _finite(text)
        except ValueError:
            raise ReadError(path, f"{name} is {_shown(text)}, expected a finite number", line=lines[0]) from None
    return result


def _is_date(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _dates(path: Path, data: dict[str, Any], key: str) -> NDArray[np.float64]:
    dates = data.get(key)
    if not isinstance(dates, list) or not all(map(_is_date, dates)):
        raise ReadError(path, f"{key!r} must be a list of dates in seconds")
    return np.array(dates, dtype=np.float64)


def _span(path: Path, processor: str, value: object) -> tuple[float, float]:
    if isinstance(value, list) and len(value) == 2 and all(map(_is_date, value)) and value[1] >= 0:
        return float(value[0]), float(value[1])
    if _is_date(value):
        return float(value), -1.0  # type: ignore[arg-type]
    raise ReadError(
        path, f"processor {_shown(processor)}: a span must be [start, duration] or the start of an open one"
    )


def read_overutilizations(path: str | Path) -> OverUtilization:
    """Read overutilizations.json, of this project or of HDeepRM.

    Parameters
    ----------
    path
        The file; a name that ends in ``.gz`` is decompressed.

    Returns
    -------
    OverUtilization
        What it holds; spans in the order in which they began, those of one date in the order of the file.

    Raises
    ------
    ReadError
        If the file cannot be read or does not have that format.
    """
    path = Path(path)
    data = read_json(path)
    if not isinstance(data, dict):
        raise ReadError(path, "must be an object with core, mem and mem_bw")
    try:
        core_s, memory_s = _dates(path, data, "core"), _dates(path, data, "mem")
        processors = data["mem_bw"]["procs"]
        spans = [
            (int(processor), *_span(path, processor, value))
            for processor, entry in processors.items()
            for value in entry["values"]
        ]
        spans.sort(key=lambda span: span[1])
        ids, starts_s, durations_s = (list(column) for column in zip(*spans, strict=True)) if spans else ([], [], [])
        processor_ids = np.array(ids, dtype=np.int32)
    except (KeyError, TypeError, AttributeError):
        raise ReadError(path, "mem_bw must hold procs: {id: {state, values: [[start, duration], ...]}}") from None
    except (ValueError, OverflowError):
        raise ReadError(path, "the processors of mem_bw must be named by their numbers") from None
    return OverUtilization(core_s, memory_s, processor_ids, np.array(starts_s, float), np.array(durations_s, float))

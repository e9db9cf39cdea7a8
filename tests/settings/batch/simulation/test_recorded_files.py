"""The files that Batsim wrote in recorded runs: read, put into a trace, and written again."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from procset import ProcSet

from hdrl.settings.batch.simulation import outputs, readers
from hdrl.settings.batch.simulation.trace import (
    ENERGY_DTYPE,
    HOST_STATES,
    MACHINE_STATE_DTYPE,
    PSTATE_CHANGE_DTYPE,
    JobState,
)

from .hand_made import make_platform, make_trace

RECORDED = Path(__file__).resolve().parents[5] / "shared" / "batsim-runs"
# Runs that Batsim finished (it writes the schedule last); six decimals lose the run times of some jobs of these.
LOST = ("tiny_ptask", "energy_row_order_sharing", "energy_rows_sleep_and_end", "mean_slowdown_last_digit")
RUNS = sorted(path.parent for path in RECORDED.glob("**/out_schedule.csv") if path.parent.name not in LOST)
needs_recordings = pytest.mark.skipif(not RUNS, reason=f"no recorded Batsim runs in {RECORDED}")


def run_name(folder):
    return str(folder.relative_to(RECORDED))


def table_of(path):
    names, *rows = (line.split(",") for line in path.read_text().splitlines())
    return names, rows


def slices(sets):
    ids = [list(ProcSet.from_str(text)) for text in sets]
    count = np.array([len(s) for s in ids], np.int32)
    return np.array([core for s in ids for core in s], np.int32), np.cumsum(count) - count, count


def recorded_trace(folder):
    """Rebuild a trace from the files of a run; times are known to six decimals only."""
    jobs = readers.read_out_jobs(folder / "out_jobs.csv")
    keys = (*outputs.JOB_COLUMNS[:3], "submission_time", "requested_number_of_resources", "requested_time")
    final = ("final_state", "starting_time", "execution_time", "allocated_resources", "consumed_energy")
    rows = [
        (*start, JobState[state], *(-1.0 if value != value else value for value in rest))
        for start, (state, *rest) in zip(
            zip(*(jobs[name].tolist() for name in keys), strict=True),
            zip(*(jobs[name].tolist() for name in final), strict=True),
            strict=True,
        )
    ]
    changes = {"metadata": {k: text for k, text in enumerate(jobs["metadata"].tolist()) if text}}
    _, states = table_of(folder / "out_machine_states.csv")
    changes["machine_states"] = np.array([(float(t), *map(int, row)) for t, *row in states], MACHINE_STATE_DTYPE)
    if (folder / "out_pstate_changes.csv").exists():
        _, pstates = table_of(folder / "out_pstate_changes.csv")
        cores, first, count = slices([row[1] for row in pstates])
        changes["pstate_cores"] = cores
        changes["pstate_changes"] = np.array(
            [(float(row[0]), f, n, int(row[2])) for row, f, n in zip(pstates, first, count, strict=True)],
            PSTATE_CHANGE_DTYPE,
        )
        _, energies = table_of(folder / "out_consumed_energy.csv")
        changes["energy"] = np.array(
            [(float(t), float(e), k.encode(), float(w)) for t, e, k, w, _ in energies], ENERGY_DTYPE
        )
    return make_trace(rows, **changes)


@needs_recordings
@pytest.mark.parametrize("folder", RUNS, ids=run_name)
def test_recorded_jobs(folder):
    """What is told is printed as recorded; what is computed differs by the rounding of what was recorded at most."""
    trace = recorded_trace(folder)
    text = (folder / "out_jobs.csv").read_text()
    mine, theirs = outputs.format_jobs(trace).splitlines(), text.splitlines()
    assert mine[0] == theirs[0]
    assert len(mine) == len(theirs)
    for my_line, line in zip(mine[1:], theirs[1:], strict=True):
        my_row, row = my_line.split(",", 16), line.split(",", 16)
        if "REJECTED" in row:
            assert my_row == row
            continue
        assert my_row[:10] + my_row[14:] == row[:10] + row[14:]
        mine_derived, derived = np.array(my_row[10:14], float), np.array(row[10:14], float)
        tolerance = 2.1e-6 + np.array([0, 0, 0, (1 + derived[3]) * 1.5e-6 / float(row[9])])
        assert np.all(np.abs(mine_derived - derived) <= tolerance), (my_line, line)


EXACT = (
    "energy_on",
    "hdeeprm_gaia200_padded",
    "kill_job",
    "metadata",
    "reject",
    "same_time",
    "sleep_wake",
    "two_workloads",
    "walltime",
)


@needs_recordings
@pytest.mark.parametrize("name", EXACT)
def test_recorded_jobs_to_the_byte(name):
    """Runs whose times six decimals hold exactly."""
    folder = RECORDED / name
    assert outputs.format_jobs(recorded_trace(folder)) == (folder / "out_jobs.csv").read_text()


@needs_recordings
@pytest.mark.parametrize("folder", RUNS, ids=run_name)
def test_recorded_machine_states_and_pstate_changes_to_the_byte(folder):
    trace = recorded_trace(folder)
    assert outputs.format_machine_states(trace) == (folder / "out_machine_states.csv").read_text()
    if len(trace.pstate_changes):
        assert outputs.format_pstate_changes(trace) == (folder / "out_pstate_changes.csv").read_text()


@needs_recordings
@pytest.mark.parametrize("folder", [run for run in RUNS if (run / "out_consumed_energy.csv").exists()], ids=run_name)
def test_recorded_energy(folder):
    """All columns but the mean power to the byte; that one where the dates are far enough apart to compute it."""
    trace = recorded_trace(folder)
    _, mine = table_of_text(outputs.format_consumed_energy(trace))
    _, theirs = table_of(folder / "out_consumed_energy.csv")
    assert [row[:4] for row in mine] == [row[:4] for row in theirs]
    elapsed_s = np.diff(trace.energy["time_s"], prepend=0.0)
    for my_row, row, step_s in zip(mine, theirs, elapsed_s.tolist(), strict=True):
        if step_s > 1:
            assert float(my_row[4]) == pytest.approx(float(row[4]), abs=2e-6 * (1 + float(row[4])) / step_s + 1e-6)


def table_of_text(text):
    names, *rows = (line.split(",") for line in text.splitlines())
    return names, rows


@needs_recordings
@pytest.mark.parametrize("folder", RUNS, ids=run_name)
def test_recorded_schedules(folder):
    names, (row,) = table_of(folder / "out_schedule.csv")
    recorded = dict(zip(names, row, strict=True))
    trace = recorded_trace(folder)
    trace = replace(
        trace,
        platform=make_platform(int(recorded["nb_computing_machines"])),
        consumed_j=float(recorded["consumed_joules"]),
        n_grouped_switches=int(recorded["nb_grouped_switches"]),
        n_machine_switches=int(recorded["nb_machine_switches"]),
        time_in_state_s={state: float(recorded[f"time_{state}"]) for state in HOST_STATES},
        info={name + "_s": float(recorded[name]) for name in ("scheduling_time", "simulation_time")},
    )
    my_names, (my_row,) = table_of_text(outputs.format_schedule(trace))
    assert my_names == names
    mine = dict(zip(my_names, my_row, strict=True))
    shortest_s = min((t for t in trace.records["run_s"].tolist() if t > 0), default=1.0)
    for name in names[1:]:
        if re.match(r"(mean|max)_|makespan", name) and recorded[name] != "-nan":
            tolerance = 2.1e-6
            if "slowdown" in name:
                tolerance += (1 + float(recorded["max_slowdown"])) * 1.5e-6 / shortest_s
            assert float(mine[name]) == pytest.approx(float(recorded[name]), abs=tolerance), name
        else:
            assert mine[name] == recorded[name], name


@needs_recordings
@pytest.mark.parametrize("path", sorted(RECORDED.glob("**/overutilizations.json")), ids=lambda path: path.parent.name)
def test_recorded_overutilizations_to_the_byte(path):
    text = path.read_text()
    n_processors = json.loads(text)["mem_bw"]["nb_procs"]
    trace = make_trace(
        [], n_cores=n_processors, n_processors=n_processors, overutilization=readers.read_overutilizations(path)
    )
    mine, recorded = outputs.format_overutilizations(trace), json.loads(text)
    assert json.loads(mine) == recorded
    assert len(mine) == len(text)


@needs_recordings
def test_recorded_schedules_are_read():
    values = readers.read_out_schedule(RECORDED / "energy_on" / "out_schedule.csv")
    assert values["batsim_version"] == "v4.2.1"
    assert values["consumed_joules"] == 11040.000003

"""The CSV files that Batsim writes, digit for digit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hdrl.base.csvfiles import name_text
from hdrl.base.errors import OutputError
from hdrl.base.files import atomic_write
from hdrl.batsim.exact.extended import (
    ZERO,
    Extended,
    difference,
    fraction,
    is_sure,
    rounded_fraction,
    six_decimals,
)
from hdrl.batsim.exact.idsets import format_ids
from hdrl.batsim.exact.jobs import REJECTED, SUCCEEDED, ExactJob
from hdrl.batsim.exact.machines import STATES, Machines

if TYPE_CHECKING:
    from fractions import Fraction

VERSION = "v4.2.1"
"""The version of Batsim whose behaviour this is."""

JOB_COLUMNS = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,"
    "starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,"
    "consumed_energy,metadata"
)
STATE_COLUMNS = "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing"
PSTATE_COLUMNS = "time,machine_id,new_pstate"
ENERGY_COLUMNS = "time,energy,event_type,wattmin,epower"

_DOUBTFUL = 8.0 * 2.0**-53
"""Largest relative difference between a few operations on doubles and the same in 80 bits."""

_EARLY = 2000.0
"""Largest ratio of two dates whose difference 64 bits hold exactly."""


class Totals:
    """The totals of the schedule file; ``n_finished`` jobs ended, ``n_successes`` of them without a problem."""

    def __init__(self) -> None:
        self.n_jobs = self.n_finished = self.n_successes = self.n_rejected = 0
        self._dates: list[tuple[float, float, float]] = []
        self._finishes_s: list[float] = []
        self._waitings_s: list[float] = []
        self._turnarounds_s: list[float] = []
        self._stretches: list[float] = []

    def add(self, job: ExactJob, times: JobTimes) -> None:
        """Count a job that has ended."""
        self.n_jobs += 1
        self.n_finished += 1
        self.n_successes += job.state == SUCCEEDED
        self._dates.append((job.submission_s, job.start_s, job.end_s))
        self._finishes_s.append(times.finish_s)
        self._waitings_s.append(times.waiting_s)
        self._turnarounds_s.append(times.turnaround_s)
        self._stretches.append(times.stretch)

    def add_rejected(self) -> None:
        """Count a job that was rejected."""
        self.n_jobs += 1
        self.n_rejected += 1

    def columns(self) -> dict[str, str]:
        """Return means, over rejected jobs as well, and largest values, as Batsim prints them."""
        return {
            "makespan": f"{max(self._finishes_s, default=0.0):f}",
            "max_slowdown": self._largest_stretch(),
            "max_turnaround_time": f"{max(self._turnarounds_s, default=0.0):f}",
            "max_waiting_time": f"{max(self._waitings_s, default=0.0):f}",
            "mean_slowdown": self._mean(self._stretches, lambda exact: exact.stretch),
            "mean_turnaround_time": self._mean(self._turnarounds_s, lambda exact: exact.turnaround_s),
            "mean_waiting_time": self._mean(self._waitings_s, lambda exact: exact.waiting_s),
            "success_rate": f"{self.n_successes / self.n_jobs:f}" if self.n_jobs else "-nan",
        }

    def _largest_stretch(self) -> str:
        largest = max(self._stretches, default=0.0)
        if not is_sure(largest * 1e6, largest * 1e6 * _DOUBTFUL):
            largest = float(max(exact.stretch for exact in self._exact()))
        return f"{max(largest, 0.0):f}"

    def _mean(self, values: list[float], of: Callable[[ExactTimes], Fraction]) -> str:
        """Return a mean over all jobs; added up in 80 bits only where that may change what is printed."""
        if not self.n_jobs:
            return "-nan"
        mean = math.fsum(values) / self.n_jobs
        error = 1e6 * math.fsum(map(abs, values)) / self.n_jobs * (_DOUBTFUL + len(values) * 2.0**-63)
        if not is_sure(mean * 1e6, error):
            first, *others = map(of, self._exact())
            total = first
            for one in others:
                total = rounded_fraction(total + one)
            mean = float(total) / self.n_jobs  # the sum is a double by then
        return f"{mean:f}"

    def _exact(self) -> Iterator[ExactTimes]:
        return (ExactTimes(*dates) for dates in self._dates)


class ExactTimes:
    """Durations of a job, in 80 bits as Batsim reckons them."""

    def __init__(self, submission_s: float, start_s: float, end_s: float) -> None:
        from fractions import Fraction

        # in 80 bits, too: the double that is nearest to 1e-5 would change the last digits of a stretch
        submission, start, shortest = Fraction(submission_s), Fraction(start_s), rounded_fraction(Fraction(1, 10**5))
        run_s = rounded_fraction(Fraction(end_s) - start) or shortest
        self.finish_s = rounded_fraction(start + run_s)
        self.waiting_s = rounded_fraction(start - submission)
        self.turnaround_s = rounded_fraction(self.finish_s - submission)
        self.stretch = rounded_fraction(self.turnaround_s / run_s)


class JobTimes:
    """Dates and durations of a job that has run: the doubles that are nearest to what Batsim reckons in 80 bits.

    Attributes
    ----------
    finish_s, waiting_s, turnaround_s
        Date of its end, its wait, and the sum of wait and run.
    stretch
        Turnaround per second of run time; it may be off by some units in the last place that are not printed.
    """

    __slots__ = ("finish_s", "stretch", "turnaround_s", "waiting_s")

    def __init__(self, job: ExactJob) -> None:
        submission_s, start_s, end_s = job.submission_s, job.start_s, job.end_s
        if start_s < end_s < _EARLY * start_s:  # then start and run time add up to the end
            submission = (submission_s, 0.0)
            self.finish_s = end_s
            self.waiting_s = difference((start_s, 0.0), submission)
            self.turnaround_s = difference((end_s, 0.0), submission)
            self.stretch = self.turnaround_s / job.run_s
            micros = self.stretch * 1e6
            if is_sure(micros, micros * _DOUBTFUL):
                return
        exact = ExactTimes(submission_s, start_s, end_s)
        self.finish_s, self.waiting_s = float(exact.finish_s), float(exact.waiting_s)
        self.turnaround_s, self.stretch = float(exact.turnaround_s), float(exact.stretch)


class Outputs:
    """Collects the lines of the output files while the simulation runs.

    Attributes
    ----------
    jobs, machine_states, pstate_changes, energy
        Lines so far, without the header.
    totals
        Sums for the schedule file.
    consumed_j
        Energy from the first submission to the last end of a job.
    """

    def __init__(self, *, energy: bool) -> None:
        self.with_energy = energy
        self.jobs: list[str] = []
        self.machine_states: list[str] = []
        self.pstate_changes: list[str] = []
        self.energy: list[str] = []
        self.totals = Totals()
        self.first_submission_j: Extended | None = None
        self.last_end_j = ZERO
        self._previous_s = 0.0
        self._previous_j = ZERO
        self._epsilon_w: Extended | None = None
        self._epsilon_text = ""

    def add_job(self, job: ExactJob) -> None:
        """Add the row of a job that has ended or was rejected."""
        if job.state == REJECTED:
            self.totals.add_rejected()
            times, energy_j = ",,,,,", ""
        else:
            at = JobTimes(job)
            self.totals.add(job, at)
            times = f"{job.start_s:f},{job.run_s:f},{at.finish_s:f},{at.waiting_s:f},{at.turnaround_s:f},{at.stretch:f}"
            energy_j = f"{job.energy_j:f}"
        names = ",".join(map(name_text, (job.name, job.workload.name, job.profile.name)))
        head = f"{names},{job.submission_s:f},{job.n_requested}"
        success = int(job.state == SUCCEEDED)
        self.jobs.append(
            f'{head},{job.walltime_s:f},{success},{job.state},{times},{job.allocation_text},{energy_j},"{job.metadata}"'
        )

    def add_machine_states(self, now_s: float, counts: dict[str, int]) -> None:
        """Add a line of how many machines are in which of `STATES`."""
        n_asleep, n_waking, n_falling_asleep, n_idle, n_computing, _ = counts.values()
        self.machine_states.append(f"{now_s:g},{n_asleep},{n_waking},{n_falling_asleep},{n_idle},{n_computing}")

    def add_pstate_change(self, now_s: float, machines: list[int], pstate: int) -> None:
        """Add a line of P-states; negative ones mark requests."""
        self.pstate_changes.append(f"{now_s:g},{format_ids(machines)},{pstate}")

    def add_energy(self, now_s: float, total_j: Extended, event: str, epsilon_w: Extended) -> None:
        """Add a line of the energy of the platform since date 0."""
        if epsilon_w is not self._epsilon_w:
            self._epsilon_w, self._epsilon_text = epsilon_w, six_decimals(epsilon_w)
        power = self._power(now_s, total_j)
        self.energy.append(f"{now_s:f},{six_decimals(total_j)},{event},{self._epsilon_text},{power}")
        self._previous_s, self._previous_j = now_s, total_j

    def _power(self, now_s: float, total_j: Extended) -> str:
        """Return the mean power since the last line."""
        before_s, (before_j, rest_before_j) = self._previous_s, self._previous_j
        if now_s <= before_s:
            return "NA"
        used_j = math.fsum((total_j[0], total_j[1], -before_j, -rest_before_j))
        power_w = used_j / (now_s - before_s)
        micros = power_w * 1e6
        if is_sure(micros, abs(micros) * _DOUBTFUL):
            return f"{power_w:f}"
        used = rounded_fraction(fraction(total_j) - fraction(self._previous_j))
        elapsed = rounded_fraction(fraction((now_s, 0.0)) - fraction((before_s, 0.0)))
        return f"{float(rounded_fraction(used / elapsed)):f}"

    def schedule_columns(self, machines: Machines, scheduling_s: float, simulation_s: float) -> dict[str, str]:
        """Return the schedule file's columns and values, in alphabetical order."""
        totals = self.totals
        consumed_j = "0.000000"
        if self.with_energy:
            # a run without any submission is measured from -1 J on
            start_j = self.first_submission_j or (-1.0, 0.0)
            consumed_j = f"{difference(self.last_end_j, start_j):f}"
        columns = {
            "batsim_version": VERSION,
            "consumed_joules": consumed_j,
            **totals.columns(),
            "nb_computing_machines": str(len(machines)),
            "nb_grouped_switches": str(machines.n_grouped_switches),
            "nb_jobs": str(totals.n_jobs),
            "nb_jobs_finished": str(totals.n_finished),
            "nb_jobs_killed": str(totals.n_finished - totals.n_successes),
            "nb_jobs_rejected": str(totals.n_rejected),
            "nb_jobs_success": str(totals.n_successes),
            "nb_machine_switches": str(machines.n_machine_switches),
            "scheduling_time": f"{scheduling_s:f}",
            "simulation_time": f"{simulation_s:f}",
        }
        spent_s = machines.time_in_states_s()
        for state in STATES:
            columns[f"time_{state}"] = f"{spent_s[state]:f}"
        return dict(sorted(columns.items()))

    def write(
        self,
        prefix: str,
        schedule: dict[str, str],
        *,
        machine_states: bool = True,
        trace: str | None = None,
        hosts: str | None = None,
    ) -> list[Path]:
        """Write the files, whose names begin with ``prefix``, and return them.

        Parameters
        ----------
        trace, hosts
            The trace of the schedule and the table of hosts, if they are to be written.
        """
        tables = {"jobs": (JOB_COLUMNS, self.jobs)}
        tables["schedule"] = (",".join(schedule), [",".join(schedule.values())])
        if machine_states:
            tables["machine_states"] = (STATE_COLUMNS, self.machine_states)
        if self.with_energy:
            tables["pstate_changes"] = (PSTATE_COLUMNS, self.pstate_changes)
            tables["consumed_energy"] = (ENERGY_COLUMNS, self.energy)
        folder = Path(prefix).parent
        if not folder.is_dir():
            raise OutputError(f"{folder}: no such folder")
        texts = {f"{name}.csv": "\n".join([header, *lines, ""]) for name, (header, lines) in tables.items()}
        if trace is not None:
            texts["schedule.trace"] = trace
        if hosts is not None:
            texts["hosts.csv"] = hosts
        paths = [Path(f"{prefix}_{name}") for name in texts]
        for path, text in zip(paths, texts.values(), strict=True):
            with atomic_write(path) as out:
                out.write(text)
        return paths

"""The CSV files that Batsim writes, digit for digit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hdrl.errors import OutputError
from hdrl.files import atomic_write
from hdrl.settings.batch.batsim.exact.idsets import format_ids
from hdrl.settings.batch.batsim.exact.jobs import REJECTED, SUCCEEDED, Job
from hdrl.settings.batch.batsim.exact.machines import STATES, Machines

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

_ZERO = np.longdouble(0.0)


class Totals:
    """What the schedule file sums up, job by job."""

    def __init__(self) -> None:
        self.n_jobs = self.n_finished = self.n_successes = self.n_rejected = 0
        self.waiting_s = self.turnaround_s = self.slowdown = np.longdouble(0.0)
        self.max_waiting_s = self.max_turnaround_s = self.max_slowdown = self.makespan_s = np.longdouble(0.0)

    def add(self, job: Job, times: JobTimes) -> None:
        """Count a job that has ended."""
        self.n_jobs += 1
        self.n_finished += 1
        self.n_successes += job.state == SUCCEEDED
        self.waiting_s += times.waiting_s
        self.turnaround_s += times.turnaround_s
        self.slowdown += times.stretch
        self.makespan_s = max(self.makespan_s, times.finish_s)
        self.max_waiting_s = max(self.max_waiting_s, times.waiting_s)
        self.max_turnaround_s = max(self.max_turnaround_s, times.turnaround_s)
        self.max_slowdown = max(self.max_slowdown, times.stretch)

    def add_rejected(self) -> None:
        """Count a job that was rejected."""
        self.n_jobs += 1
        self.n_rejected += 1

    def mean(self, total: np.longdouble | int) -> str:
        """Return a mean over all jobs, rejected ones included, as Batsim prints it."""
        return f"{float(total / self.n_jobs):f}" if self.n_jobs else "-nan"


class JobTimes:
    """Dates and durations of a job that has run, in 80 bits as Batsim reckons them.

    Parameters
    ----------
    job
        The job.

    Attributes
    ----------
    finish_s, waiting_s, turnaround_s
        When it ended, how long it waited, and both waiting and running.
    stretch
        Turnaround per second of run time.
    """

    __slots__ = ("finish_s", "stretch", "turnaround_s", "waiting_s")

    def __init__(self, job: Job) -> None:
        start_s, run_s, submission_s = _ZERO + job.start_s, job.run_s, job.submission_s
        self.finish_s = start_s + run_s
        self.waiting_s = start_s - submission_s
        self.turnaround_s = self.finish_s - submission_s
        self.stretch = self.turnaround_s / run_s


class Outputs:
    """Collects the lines of the output files while the simulation runs.

    Parameters
    ----------
    energy
        Whether energy is measured.

    Attributes
    ----------
    jobs, machine_states, pstate_changes, energy
        Lines so far, without the header.
    totals
        What the schedule file sums up.
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
        self.first_submission_j: np.longdouble | None = None
        self.last_end_j = np.longdouble(0.0)
        self._previous_s = 0.0
        self._previous_j = _ZERO
        self._epsilon_w: np.longdouble | None = None
        self._epsilon_text = ""

    def add_job(self, job: Job) -> None:
        """Add the row of a job that has ended or was rejected."""
        if job.state == REJECTED:
            self.totals.add_rejected()
            times, energy_j = ["", "", "", "", "", ""], ""
        else:
            at = JobTimes(job)
            self.totals.add(job, at)
            numbers = (job.start_s, job.run_s, at.finish_s, at.waiting_s, at.turnaround_s, at.stretch)
            times = [f"{float(number):f}" for number in numbers]
            energy_j = f"{float(job.energy_j):f}"
        head = f"{job.name},{job.workload.name},{job.profile.name},{job.submission_s:f},{job.n_requested}"
        success = int(job.state == SUCCEEDED)
        self.jobs.append(
            f"{head},{job.walltime_s:f},{success},{job.state},{','.join(times)},"
            f'{format_ids(job.allocation)},{energy_j},"{job.metadata}"'
        )

    def add_machine_states(self, now_s: float, counts: dict[str, int]) -> None:
        """Add a line of how many machines are in which state."""
        columns = ",".join([str(counts[state]) for state in STATES[:5]])
        self.machine_states.append(f"{now_s:g},{columns}")

    def add_pstate_change(self, now_s: float, machines: list[int], pstate: int) -> None:
        """Add a line of P-states; negative ones mark requests."""
        self.pstate_changes.append(f"{now_s:g},{format_ids(machines)},{pstate}")

    def add_energy(self, now_s: float, total_j: np.longdouble, event: str, epsilon_w: np.longdouble) -> None:
        """Add a line of the energy of the platform since date 0."""
        elapsed_s = _ZERO + now_s - self._previous_s
        power = f"{float((total_j - self._previous_j) / elapsed_s):f}" if elapsed_s > 0 else "NA"
        if epsilon_w is not self._epsilon_w:
            self._epsilon_w, self._epsilon_text = epsilon_w, _long_text(epsilon_w)
        self.energy.append(f"{now_s:f},{_long_text(total_j)},{event},{self._epsilon_text},{power}")
        self._previous_s, self._previous_j = now_s, total_j

    def schedule_columns(self, machines: Machines, scheduling_s: float, simulation_s: float) -> dict[str, str]:
        """Return the schedule file's columns and values, in alphabetical order.

        Parameters
        ----------
        machines
            The machines at the end.
        scheduling_s, simulation_s
            Wall-clock seconds in the scheduler, and in all.
        """
        totals = self.totals
        consumed_j = "0.000000"
        if self.with_energy:
            # a run without any submission is measured from -1 J on
            start_j = np.longdouble(-1.0) if self.first_submission_j is None else self.first_submission_j
            consumed_j = f"{float(self.last_end_j - start_j):f}"
        columns = {
            "batsim_version": VERSION,
            "consumed_joules": consumed_j,
            "makespan": f"{float(totals.makespan_s):f}",
            "max_slowdown": f"{float(totals.max_slowdown):f}",
            "max_turnaround_time": f"{float(totals.max_turnaround_s):f}",
            "max_waiting_time": f"{float(totals.max_waiting_s):f}",
            "mean_slowdown": totals.mean(totals.slowdown),
            "mean_turnaround_time": totals.mean(totals.turnaround_s),
            "mean_waiting_time": totals.mean(totals.waiting_s),
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
            "success_rate": totals.mean(totals.n_successes),
        }
        spent_s = machines.time_in_states_s()
        for state in STATES:
            columns[f"time_{state}"] = f"{float(spent_s[state]):f}"
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
        """Write the files.

        Parameters
        ----------
        prefix
            What their names begin with; its folder must exist.
        schedule
            Columns and values of the schedule file.
        machine_states
            Whether to write the machine states file.
        trace, hosts
            The trace of the schedule and the table of hosts, if they are to be written.

        Returns
        -------
        list[Path]
            The files.

        Raises
        ------
        OutputError
            If one cannot be written.
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


def _long_text(value: np.longdouble) -> str:
    """Print an 80-bit number with six decimals; a double would lose its last digits."""
    return np.format_float_positional(value, precision=6, unique=False, fractional=True, trim="k")

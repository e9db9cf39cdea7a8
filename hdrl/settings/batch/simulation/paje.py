"""The schedule as a trace in the Paje format, which ViTE and others show: which machine runs which job, and kills."""

from __future__ import annotations

import colorsys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hdrl.settings.batch.simulation.trace import BatchTrace

_EVENTS = (
    ("DefineContainerType", ("Type string", "Alias string", "Name string"), ""),
    ("CreateContainer", ("Time date ", "Type string  ", "Alias string ", "Name string   ", "Container string  "), ""),
    ("DestroyContainer", ("Time date", "Name string ", "Type string"), ""),
    ("DefineStateType", ("Alias string ", "Type string ", "Name string "), ""),
    ("DefineEntityValue", ("Alias string  ", "Type string  ", "Name string  ", "Color color "), ""),
    ("SetState", ("Time date  ", "Type string  ", "Container string  ", "Value string  "), " "),
    ("DefineEventType", ("Type string", "Alias string", "Name string"), ""),
    ("NewEvent", ("Time date", "Type string", "Container string", "Value string"), ""),
    ("DefineVariableType", ("Type string", "Alias string", "Name string", "Color string"), ""),
    ("SetVariable", ("Time date", "Type string", "Container string", "Value double"), ""),
)
"""Kinds of lines in the order of their numbers, with the spaces that Batsim leaves behind each member and the end."""

_TYPES = """\
# Container types creation
1 0 root_ct "Machines"
1 root_ct machine_ct "Machine"
1 0 scheduler_ct "Scheduler"
1 scheduler_ct killer_ct "Killer"

# Event types creation
7 killer_ct kk "Job kill"
7 machine_ct km "Job kill"

# Variable types creation
9 scheduler_ct vu_vt "Utilization" "0.0 0.5 0.0"

# Containers creation
2 0.000000 root_ct root "Machines" 0"""

_STATES = """\
2 0.000000 scheduler_ct sc "Scheduler" 0
2 0.000000 killer_ct k "Killer" sc

# States creation
4 machine_state machine_ct "Machine state"

# Creation of the different values the machine state can be
5 w machine_state "Waiting" "0.0 0.0 0.0"
5 l machine_state "Launching" "0.3 0.3 0.3"

# Begin of events"""

_GOLDEN_RATIO = 0.618033988749895


class ScheduleTrace:
    """Collects the lines of a trace while the simulation runs."""

    def __init__(self, machine_names: Sequence[str]) -> None:
        self._names = machine_names
        self._machines = [f" machine_state m{k} " for k in range(len(machine_names))]
        self._lines = [f"6 0.000000 machine_state m{k} w" for k in range(len(machine_names))]
        self._n_jobs = 0

    def begin_job(self, job_id: str, machines: Iterable[int], now_s: float) -> None:
        """Note the start of a job."""
        # Batsim shuffles its colours by chance; ours are the same in every run, and neighbours differ
        red, green, blue = colorsys.hsv_to_rgb(self._n_jobs * _GOLDEN_RATIO % 1.0, 1.0, 1.0)
        self._n_jobs += 1
        self._lines.append(f'5 j{job_id} machine_state "{job_id}" "{red:f} {green:f} {blue:f}"')
        self._enter(machines, f"j{job_id}", f"{now_s:f}")

    def end_job(self, job_id: str, machines: Sequence[int], now_s: float, *, killed: bool) -> None:
        """Note the end of a job, by itself or not."""
        date = f"{now_s:f}"
        if killed:
            self._lines.append(f'8 {date} kk k "{job_id}"')
            self._lines += [f'8 {date} km m{k} "{job_id}"' for k in machines]
        self._enter(machines, "w", date)

    def _enter(self, machines: Iterable[int], state: str, date: str) -> None:
        """Note the new state of machines, a line each."""
        positions = [self._machines[k] for k in machines]
        if positions:
            self._lines.append(f"6 {date}" + f"{state}\n6 {date}".join(positions) + state)

    def text(self, end_s: float) -> str:
        """Return the trace."""
        lines = []
        for number, (name, members, behind) in enumerate(_EVENTS, start=1):
            lines.append(f"%EventDef Paje{name} {number}")
            lines += [*(f"% {member}" for member in members), f"%EndEventDef{behind}", ""]
        lines += [_TYPES, *(f'2 0.000000 machine_ct m{k} "{name}" root' for k, name in enumerate(self._names)), _STATES]
        lines += [*self._lines, "", "# End of events, containers destruction"]
        lines += [f"3 {end_s:f} m{k} machine_ct" for k in range(len(self._names))]
        return "\n".join([*lines, f"3 {end_s:f} root root_ct", ""])


def format_schedule_trace(trace: BatchTrace) -> str:
    """Return the text of out_schedule.trace. Of what happens at one date, ends come first, then starts by job."""
    # the exact engine, which needs but the lines above, starts sooner without the Trace and NumPy
    import numpy as np

    from hdrl.settings.batch.simulation.trace import JobState

    killed_states = (JobState.COMPLETED_WALLTIME_REACHED, JobState.COMPLETED_KILLED)
    workload, records = trace.workload, trace.records
    sources = [workload.sources[index] for index in workload.jobs["source"].tolist()]
    names = [f"{source}!{job_id}" for source, job_id in zip(sources, workload.job_ids, strict=True)]
    started = np.flatnonzero(records["start_s"] >= 0)
    ended = trace.completion_order[records["run_s"][trace.completion_order] >= 0]
    end_s = records["start_s"] + records["run_s"]
    events = [(float(end_s[job]), 0, position, job) for position, job in enumerate(ended.tolist())]
    events += [(float(records["start_s"][job]), 1, position, job) for position, job in enumerate(started.tolist())]
    schedule = ScheduleTrace(trace.platform.core_names)
    for date_s, is_start, _, job in sorted(events):
        machines = trace.cores_of(job).tolist()
        if is_start:
            schedule.begin_job(names[job], machines, date_s)
        else:
            schedule.end_job(names[job], machines, date_s, killed=records["state"][job] in killed_states)
    return schedule.text(trace.end_s)

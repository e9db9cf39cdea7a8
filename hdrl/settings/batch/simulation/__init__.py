"""The simulators' face: views, decisions, traces, and the embedded simulator."""

from hdrl.settings.batch.simulation.decisions import (
    Annotate,
    AskEnergy,
    At,
    CallAt,
    Decision,
    Kill,
    Reject,
    SetPState,
    Start,
    SwitchOff,
    SwitchOn,
)
from hdrl.settings.batch.simulation.embedded import EmbeddedSimulator
from hdrl.settings.batch.simulation.frames import jobs_arrays, jobs_frame, table_arrays, trace_frame
from hdrl.settings.batch.simulation.outputs import write_batsim_files, write_overutilizations
from hdrl.settings.batch.simulation.trace import JobState, OverUtilization, Trace
from hdrl.settings.batch.simulation.view import NODE_STATUS, News, View

__all__ = [
    "Annotate",
    "AskEnergy",
    "At",
    "CallAt",
    "Decision",
    "EmbeddedSimulator",
    "JobState",
    "Kill",
    "NODE_STATUS",
    "News",
    "OverUtilization",
    "Reject",
    "SetPState",
    "Start",
    "SwitchOff",
    "SwitchOn",
    "Trace",
    "View",
    "jobs_arrays",
    "jobs_frame",
    "table_arrays",
    "trace_frame",
    "write_batsim_files",
    "write_overutilizations",
]

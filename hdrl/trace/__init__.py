"""Trace of a simulation in any setting: tasks, their stays on units, signals and counts."""

from hdrl.trace.files import STAYS_FILE, TASKS_FILE, TraceFile, read_tables, write_tables
from hdrl.trace.model import STAY_DTYPE, TASK_DTYPE, Load, Machine, Signal, TaskState, TaskTrace, Trace, never
from hdrl.trace.plain import PlainLoad, PlainMachine, trace_of_runs

__all__ = [
    "STAYS_FILE",
    "STAY_DTYPE",
    "TASKS_FILE",
    "TASK_DTYPE",
    "Load",
    "Machine",
    "PlainLoad",
    "PlainMachine",
    "Signal",
    "TaskState",
    "TaskTrace",
    "Trace",
    "TraceFile",
    "never",
    "read_tables",
    "trace_of_runs",
    "write_tables",
]

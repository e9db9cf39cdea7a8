"""The simulators' face: views, decisions, traces, and the embedded simulator.

Each name is loaded when it is first used: who needs one file of this room, as the exact engine does, does not load the
compiled kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hdrl.base.lazy import load_name

if TYPE_CHECKING:
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
    from hdrl.settings.batch.simulation.trace import BatchTrace, JobState, OverUtilization
    from hdrl.settings.batch.simulation.view import NODE_STATUS, News, View

_MODULES = {
    "hdrl.settings.batch.simulation.decisions": (
        "Annotate",
        "AskEnergy",
        "At",
        "CallAt",
        "Decision",
        "Kill",
        "Reject",
        "SetPState",
        "Start",
        "SwitchOff",
        "SwitchOn",
    ),
    "hdrl.settings.batch.simulation.embedded": ("EmbeddedSimulator",),
    "hdrl.settings.batch.simulation.frames": ("jobs_arrays", "jobs_frame", "table_arrays", "trace_frame"),
    "hdrl.settings.batch.simulation.outputs": ("write_batsim_files", "write_overutilizations"),
    "hdrl.settings.batch.simulation.trace": ("JobState", "OverUtilization", "BatchTrace"),
    "hdrl.settings.batch.simulation.view": ("NODE_STATUS", "News", "View"),
}

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
    "BatchTrace",
    "View",
    "jobs_arrays",
    "jobs_frame",
    "table_arrays",
    "trace_frame",
    "write_batsim_files",
    "write_overutilizations",
]


def __getattr__(name: str) -> Any:
    """Load a public name from where it lives."""
    return load_name(__name__, _MODULES, name)

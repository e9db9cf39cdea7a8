"""The simulators' face: views, decisions, traces, and the embedded simulator.

Each name is loaded when it is first used: who needs one file of this room, as the exact engine does, does not load the
compiled kernel.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
    from hdrl.settings.batch.simulation.trace import JobState, OverUtilization, Trace
    from hdrl.settings.batch.simulation.view import NODE_STATUS, News, View

_NAMES = {
    "decisions": (
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
    "embedded": ("EmbeddedSimulator",),
    "frames": ("jobs_arrays", "jobs_frame", "table_arrays", "trace_frame"),
    "outputs": ("write_batsim_files", "write_overutilizations"),
    "trace": ("JobState", "OverUtilization", "Trace"),
    "view": ("NODE_STATUS", "News", "View"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

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


def __getattr__(name: str) -> Any:
    """Load a public name from where it lives."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

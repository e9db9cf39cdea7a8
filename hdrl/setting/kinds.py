"""Type parameters of the parts of a setting: its options and sweeps, its machine, its load and its Trace.

A `Setting` without brackets is any setting: its methods take what all options, machines, loads and traces have.
"""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import TypeVar

from hdrl.options.file import OptionsFile
from hdrl.options.sweep import Sweep
from hdrl.trace.model import Load, Machine, Trace

OptionsT = TypeVar("OptionsT", bound=OptionsFile, default=OptionsFile)
SweepT = TypeVar("SweepT", bound=Sweep, default=Sweep)
MachineT = TypeVar("MachineT", bound=Machine, default=Machine)
LoadT = TypeVar("LoadT", bound=Load, default=Load)
TraceT = TypeVar("TraceT", bound=Trace, default=Trace)

Message = Callable[[str], None]
"""Message callback: gets a line before something takes long."""

Progress = Callable[[int, int], None]
"""Progress callback: gets the finished items and all items of a simulation, a few times a second."""

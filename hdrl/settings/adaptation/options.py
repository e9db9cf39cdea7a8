"""The options file and the sweep file of adaptation."""

from __future__ import annotations

from hdrl.options.file import ExperimentOptions
from hdrl.options.sweep import SettingSweep


class AdaptationOptions(ExperimentOptions):
    """The options of an experiment: ``platform`` the device, ``workload`` tables."""


class AdaptationSweep(SettingSweep):
    """A comparison of advisors: candidates x windows of jobs x seeds."""

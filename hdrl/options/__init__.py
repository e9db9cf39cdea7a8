"""The options of an experiment: one JSON file, validated, with every default filled in.

The file is that of HDeepRM, in its two documented versions (0.1.0b1 with ``pybatsim.agent.policy_pair``,
0.3.1 with ``pybatsim.env.actions`` and ``pybatsim.agent.type``), with keys of our own beside them.
"""

from hdrl.options.learning import EpisodeOptions, LearningOptions
from hdrl.options.model import COMPATIBILITY_MODES, Options, RealBatsimOptions, WorkloadOptions
from hdrl.options.reading import options_schema, parse_options, read_options

__all__ = [
    "RealBatsimOptions",
    "COMPATIBILITY_MODES",
    "EpisodeOptions",
    "LearningOptions",
    "Options",
    "WorkloadOptions",
    "options_schema",
    "parse_options",
    "read_options",
]

"""Options files and sweep files: what those of all settings have in common, and how their mistakes are reported."""

from hdrl.options.block import Block
from hdrl.options.file import AgentBlock, ExperimentOptions, OptionsFile, PolicyAgent
from hdrl.options.learning import EpisodeOptions, LearningOptions
from hdrl.options.sweep import SettingSweep, Sweep, Windows

__all__ = [
    "AgentBlock",
    "Block",
    "EpisodeOptions",
    "ExperimentOptions",
    "LearningOptions",
    "OptionsFile",
    "PolicyAgent",
    "SettingSweep",
    "Sweep",
    "Windows",
]

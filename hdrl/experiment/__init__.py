"""Experiments: from options to a run folder that can be repeated byte by byte."""

from hdrl.experiment.agentfile import Agent, AgentError, load_agent
from hdrl.experiment.folder import default_folder
from hdrl.experiment.progress import Progress
from hdrl.experiment.run import RunResult, SingleRun, choose_agent, resolve_options, run_experiment, run_seeds

__all__ = [
    "Agent",
    "AgentError",
    "Progress",
    "RunResult",
    "SingleRun",
    "choose_agent",
    "default_folder",
    "load_agent",
    "resolve_options",
    "run_experiment",
    "run_seeds",
]

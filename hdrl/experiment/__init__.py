"""Experiments: from options to a run folder that can be repeated byte by byte."""

from hdrl.experiment.agentfile import Agent, AgentError, load_agent
from hdrl.experiment.choice import choose_agent, resolve_options, run_seeds
from hdrl.experiment.folder import default_folder
from hdrl.experiment.modeluse import Model, evaluate_model
from hdrl.experiment.progress import Progress
from hdrl.experiment.resuming import resumed_options
from hdrl.experiment.run import RunResult, SingleRun, run_experiment

__all__ = [
    "Agent",
    "AgentError",
    "Model",
    "Progress",
    "RunResult",
    "SingleRun",
    "choose_agent",
    "default_folder",
    "evaluate_model",
    "load_agent",
    "resolve_options",
    "resumed_options",
    "run_experiment",
    "run_seeds",
]

"""Experiments: from options to a run folder that can be repeated byte by byte."""

from __future__ import annotations

from hdrl.experiment.experiment import RunResult, SingleRun, check_experiment, run_experiment
from hdrl.experiment.plan import Plan, RunPlan, plan_of, plans_of, resolve_options
from hdrl.experiment.run.agentfile import AgentChoice, AgentError, load_agent
from hdrl.experiment.run.folder import default_folder
from hdrl.experiment.run.progress import Progress
from hdrl.experiment.train.modeluse import Model, evaluate_model
from hdrl.experiment.train.resuming import resumed_options

__all__ = [
    "AgentChoice",
    "AgentError",
    "Model",
    "Plan",
    "Progress",
    "RunPlan",
    "RunResult",
    "SingleRun",
    "check_experiment",
    "default_folder",
    "evaluate_model",
    "load_agent",
    "plan_of",
    "plans_of",
    "resolve_options",
    "resumed_options",
    "run_experiment",
]

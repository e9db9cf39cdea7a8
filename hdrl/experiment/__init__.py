"""Experiments: from options to a run folder that can be repeated byte by byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hdrl.base.lazy import load_name
from hdrl.experiment.experiment import RunResult, SingleRun, check_experiment, run_experiment
from hdrl.experiment.run.agentfile import AgentChoice, AgentError, load_agent
from hdrl.experiment.run.choice import choose_agent, resolve_options, run_seeds
from hdrl.experiment.run.folder import default_folder
from hdrl.experiment.run.progress import Progress

if TYPE_CHECKING:
    from hdrl.experiment.train.modeluse import Model, evaluate_model
    from hdrl.experiment.train.resuming import resumed_options

_HOMES = {
    "hdrl.experiment.train.modeluse": (
        "Model",
        "evaluate_model",
    ),
    "hdrl.experiment.train.resuming": ("resumed_options",),
}
"""What runs without learning do not need is loaded when it is first used."""

__all__ = [
    "AgentChoice",
    "AgentError",
    "Model",
    "Progress",
    "RunResult",
    "SingleRun",
    "check_experiment",
    "choose_agent",
    "default_folder",
    "evaluate_model",
    "load_agent",
    "resolve_options",
    "resumed_options",
    "run_experiment",
    "run_seeds",
]


def __getattr__(name: str) -> Any:
    """Load a public name from where it lives."""
    return load_name(__name__, _HOMES, name)

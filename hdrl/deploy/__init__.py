"""Deployments: what won in simulation orders the queue of a real Slurm."""

from hdrl.deploy.daemon import Daemon, run, undo
from hdrl.deploy.export import DeployChoices, export
from hdrl.deploy.folder import Deployment, read_deployment
from hdrl.deploy.policy import DeployedPolicy, deployed_policy
from hdrl.deploy.slurm import Slurm, SlurmError

__all__ = [
    "Daemon",
    "DeployChoices",
    "DeployedPolicy",
    "Deployment",
    "Slurm",
    "SlurmError",
    "deployed_policy",
    "export",
    "read_deployment",
    "run",
    "undo",
]

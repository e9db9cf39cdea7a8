"""Small trainings by several workers, for the tests here and on Ray."""

import functools
import hashlib
from pathlib import Path
from typing import Any

from gymnasium.vector import AutoresetMode

from hdrl.agents import make_agent
from hdrl.distributed.training import ConfigurationTrainer, DistributedTrainer
from hdrl.learn import Agent, Trainer, checkpoint_of, save_checkpoint
from hdrl.options.distributed import DistributedOptions
from hdrl.testing.toys import ShortestRowEnvs

SETTINGS: dict[str, dict[str, Any]] = {
    "a2c": {"n_steps": 7},
    "ppo": {"n_steps": 6, "minibatch_size": 12, "n_epochs": 2},
    "d3qn": {
        "warm_up": 20,
        "updates_per_iteration": 4,
        "batch_size": 8,
        "capacity": 128,
        "n_return_steps": 2,
        "target_every": 3,
    },
}
SETTINGS["rainbow"] = SETTINGS["d3qn"]
SCHEMES: dict[str, dict[str, Any]] = {
    "sync": {},
    "sync_backup": {"backup": 1},
    "async": {"fetch_every": 2, "push_every": 2},
    "ong": {},
    "gorila": {"max_staleness": 1},
    "apex": {"push_every": 4, "fetch_every": 2},
}
make_envs = functools.partial(ShortestRowEnvs, length=5)
make_same_step = functools.partial(ShortestRowEnvs, length=5, autoreset_mode=AutoresetMode.SAME_STEP)


def agent(name: str, **settings: Any) -> Agent:
    envs = make_envs(1)
    spaces = (envs.single_observation_space, envs.single_action_space)
    return make_agent(name, *spaces, seed=1, network="mlp", hidden=[8], **{**SETTINGS[name], **settings})


def team(name: str, scheme: str, *, on: str = "local", envs: Any = make_envs, **options: Any) -> DistributedTrainer:
    given = DistributedOptions.model_validate({"scheme": scheme, **SCHEMES[scheme], **options})
    return DistributedTrainer(agent(name), envs, 4, given, seed=1, on=on)


def large_team(scheme: str, n: int, **delays: Any) -> DistributedTrainer:
    """Return n workers, each of which has one environment, and two of the transitions of a batch."""
    backup = {"backup": 1} if scheme == "sync_backup" else {}
    given = DistributedOptions.model_validate({"scheme": scheme, "workers": n, "delays": delays, **backup})
    learner = agent("d3qn", warm_up=2 * n, batch_size=2 * n, capacity=32 * n, updates_per_iteration=2)
    return DistributedTrainer(learner, make_envs, n, given, seed=1)


POINTS = [(0.0,), (5.0,), (1.0,), (6.0,)]
"""Where configurations lie."""


def make_share(n_envs: int, share: tuple[int, int] | None = None) -> ShortestRowEnvs:
    return ShortestRowEnvs(n_envs, length=5 if share is None else 4 + share[0])


def tour(name: str = "d3qn", points: Any = POINTS, on: str = "local", **options: Any) -> ConfigurationTrainer:
    """Return a training that visits configurations, with an agent for each."""
    given = DistributedOptions.model_validate({"scheme": "sync", "reliance": "none", **options})
    return ConfigurationTrainer(agent(name), make_share, 4, given, points, seed=1, on=on)


def fingerprint(trainer: DistributedTrainer | ConfigurationTrainer | Trainer, path: Path) -> str:
    """Hash everything that may be saved, byte by byte."""
    save_checkpoint(path, checkpoint_of(trainer.agent, "any", training=trainer.state_dict()))
    return hashlib.sha256(path.read_bytes()).hexdigest()

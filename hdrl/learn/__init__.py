"""The torch kit of the agents: networks, buffers, advantages, loops, checkpoints.

It depends on spaces, not on our environments.

An agent (`Agent`) acts, learns from a batch, and can be saved; a `Trainer` steps a vector environment with it;
`evaluate` plays its best actions. The agents themselves are in ``hdrl.agents``, a file for each algorithm.
"""

import importlib.util

from hdrl.base.errors import MissingExtra

if importlib.util.find_spec("torch") is None:
    raise MissingExtra("torch", "learn")

from hdrl.learn.agent import Acted, Agent
from hdrl.learn.checkpoint import Checkpoint, checkpoint_of, load_checkpoint, save_checkpoint
from hdrl.learn.config import Config, NetworkConfig, ReplayConfig, ValueConfig
from hdrl.learn.evaluate import evaluate
from hdrl.learn.interaction import Episode, Interaction
from hdrl.learn.memory import Finals, Memory, Outcome
from hdrl.learn.networks import NETWORKS, ActorCritic, build_network
from hdrl.learn.replay import Replay, Schedule, Transitions
from hdrl.learn.rollout import Episodes, Rollout, Steps
from hdrl.learn.scaling import RewardScale, scale_of
from hdrl.learn.skip_dynamo import spare_compiler
from hdrl.learn.train import Iteration, Trainer

spare_compiler()

__all__ = [
    "NETWORKS",
    "Acted",
    "ActorCritic",
    "Agent",
    "Checkpoint",
    "Config",
    "Episode",
    "Episodes",
    "Finals",
    "Interaction",
    "Iteration",
    "Memory",
    "NetworkConfig",
    "Outcome",
    "Replay",
    "ReplayConfig",
    "RewardScale",
    "Rollout",
    "Schedule",
    "Steps",
    "Trainer",
    "Transitions",
    "ValueConfig",
    "build_network",
    "checkpoint_of",
    "evaluate",
    "load_checkpoint",
    "save_checkpoint",
    "scale_of",
]

"""Whom a training imitates, as its options say: in its first iterations, and by a discriminator afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hdrl.base.errors import LearningError, OptionsError, UnknownName
from hdrl.base.seeding import stream_seed
from hdrl.options.file import OptionsFile

if TYPE_CHECKING:
    from hdrl.learn.agent import Agent
    from hdrl.learn.train import Imitation

KEY = "learning.imitation"


def imitation_of(options: OptionsFile, agent: Agent, envs: Any) -> Imitation | None:
    """Return the policy that an agent imitates, ``None`` if none is asked for.

    Parameters
    ----------
    agent
        Who imitates.
    envs
        The environments of the training; their ``guide_actions`` say what the other would do.

    Raises
    ------
    OptionsError
        If the agent cannot imitate, the training is too short for it, or no discriminator can be made.
    """
    import torch

    from hdrl.learn.adversary import Adversary
    from hdrl.learn.agent import Agent as Base
    from hdrl.learn.rollout import Rollout
    from hdrl.learn.train import Imitation

    asked = options.learning.imitation
    if asked is None:
        return None
    n_first, name = asked.iterations or 0, type(agent).__name__
    n_iterations = options.runs * options.learning.iterations
    if n_first and type(agent).imitate is Base.imitate:
        raise OptionsError(f"{options.where}: {KEY}: {name} cannot imitate, expected ppo")
    if n_first > n_iterations:
        raise OptionsError(
            f"{options.where}: {KEY}.iterations is {n_first}, expected at most the {n_iterations} of the training"
        )
    if asked.adversarial is None:
        return Imitation(n_first, envs.guide_actions)
    if not isinstance(agent.memory(1), Rollout):
        raise OptionsError(
            f"{options.where}: {KEY}.adversarial: {name} does not learn from steps in their order, expected ppo, a2c or"
            " reinforce"
        )
    generator = torch.Generator().manual_seed(stream_seed(options.seed, "adversary"))
    try:
        adversary = Adversary(agent, asked.adversarial, generator, begins_after=n_first)
    except (UnknownName, LearningError) as error:
        raise OptionsError(f"{options.where}: {KEY}.adversarial: {error}") from None
    return Imitation(n_first, envs.guide_actions, adversary)

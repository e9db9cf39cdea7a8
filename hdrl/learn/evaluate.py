"""How good an agent is: episodes played with its best actions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from hdrl.learn.agent import Agent
from hdrl.learn.interaction import Episode, Interaction
from hdrl.learn.spaces import check_same_spaces


def evaluate(
    agent: Agent,
    envs: gym.vector.VectorEnv[Any, Any, Any],
    n_episodes: int,
    *,
    seed: int | None = None,
    explore: bool = False,
) -> list[Episode]:
    """Play episodes and return what is known of each.

    Each environment plays its share, the first ones one more where it does not come out even; taking the first
    episodes to end instead would prefer short ones.

    Parameters
    ----------
    agent
        The agent; it does not learn.
    envs
        Any Gymnasium vector environment with the agent's spaces.
    n_episodes
        How many, at least 1.
    seed
        Seed of the environments; ``None``: they go on with what they have.
    explore
        Whether actions are chosen as in training; else the best ones.

    Returns
    -------
    list of dict
        ``return``, ``length``, ``env`` and what the environment told of each episode; the first episode of each
        environment comes first, then the second of each.

    Raises
    ------
    LearningError
        If agent and environments do not fit.
    """
    check_same_spaces(
        (agent.observation_space, agent.action_space),
        (envs.single_observation_space, envs.single_action_space),
        "the agent",
    )
    shares = np.array([(n_episodes + envs.num_envs - 1 - i) // envs.num_envs for i in range(envs.num_envs)])
    interaction = Interaction(envs)
    interaction.reset(seed)
    played: list[list[Episode]] = [[] for _ in shares]
    while any(len(mine) < share for mine, share in zip(played, shares.tolist(), strict=True)):
        acted = agent.act(interaction.observations, interaction.mask, explore=explore)
        interaction.step(acted.actions)
        for episode in interaction.episodes:
            played[episode["env"]].append(episode)
        interaction.episodes = []
    rounds = range(int(shares.max()))
    return [played[i][k] for k in rounds for i, share in enumerate(shares.tolist()) if k < share]

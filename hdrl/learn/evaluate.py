"""Evaluation of an agent: episodes played with its best actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from hdrl.learn.agent import Agent, notify_listener
from hdrl.learn.checks import checked_choice
from hdrl.learn.interaction import Episode, Interaction
from hdrl.learn.memory import Outcome
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
    envs
        Any Gymnasium vector environment with the agent's spaces.
    seed
        Seed of the environments; ``None``: they continue with what they have.
    explore
        True if actions are chosen as in training; else the best ones.

    Returns
    -------
    list of dict
        ``return``, ``length``, ``env`` and what the environment's info says of each episode; the first episode of each
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
    with agent.session(seed or 0):
        while any(len(mine) < share for mine, share in zip(played, shares.tolist(), strict=True)):
            acted = checked_choice(agent, interaction.observations, interaction.mask, explore=explore)
            outcome = interaction.step(acted.actions)
            notify_listener(agent, outcome, interaction.observations, interaction.mask)
            for episode in interaction.episodes:
                played[episode["env"]].append(episode)
            interaction.episodes = []
    rounds = range(int(shares.max()))
    return [played[i][k] for k in rounds for i, share in enumerate(shares.tolist()) if k < share]


def play(agent: Agent, env: gym.Env[Any, Any], *, seed: int, before: Callable[[], object] | None = None) -> None:
    """Play one episode of a single environment with the best actions, and leave the environment at its end.

    An environment that has a method ``play_actor`` plays what it can in compiled code.

    ``before``: called before each decision; ``None``: nothing is.
    """
    is_observed = agent.listener is not None or type(agent).saw is not Agent.saw
    if before is None and not is_observed and _is_played(agent, env, seed):
        return
    observation, info = env.reset(seed=seed)
    observations, mask = batch_of_one(observation, info.get("action_mask"))
    has_ended = False
    with torch.no_grad(), agent.session(seed):
        while not has_ended:
            if before is not None:
                before()
            chosen = checked_choice(agent, observations, mask, explore=False).actions[0]
            action = chosen.numpy() if agent.takes_box else int(chosen)
            observation, reward, terminated, truncated, info = env.step(action)
            has_ended = bool(terminated or truncated)
            observations, mask = batch_of_one(observation, info.get("action_mask"))
            if is_observed:
                outcome = _outcome_of_one(float(reward), terminated=bool(terminated), truncated=bool(truncated))
                notify_listener(agent, outcome, observations, mask)


def _is_played(agent: Agent, env: gym.Env[Any, Any], seed: int) -> bool:
    """Let an environment play an agent in compiled code; return whether it could."""
    play_actor = getattr(env, "play_actor", None)
    actor = None if play_actor is None else agent.plain_actor()
    if play_actor is None or actor is None or not actor.is_finite:
        return False
    play_actor(actor, seed=seed)
    return True


def batch_of_one(observation: Any, mask: Any) -> tuple[Tensor, Tensor | None]:
    """Return an observation and a mask of one environment as tensors with a first axis of 1."""
    return (
        torch.from_numpy(np.array(observation, dtype=np.float32)).unsqueeze(0),
        None if mask is None else torch.from_numpy(np.not_equal(mask, 0)).unsqueeze(0),
    )


def _outcome_of_one(reward: float, *, terminated: bool, truncated: bool) -> Outcome:
    exact = torch.tensor([reward], dtype=torch.float64)
    return Outcome(
        rewards=exact.float(),
        terminated=torch.tensor([terminated]),
        truncated=torch.tensor([truncated and not terminated]),
        valid=torch.ones(1, dtype=torch.bool),
        finals=None,
        exact_rewards=exact,
    )

"""Calls of the listener of an agent (`hdrl.learn.agent.Listener`)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from hdrl.learn.agent import Agent
    from hdrl.learn.memory import Outcome


def notify_listener(agent: Agent, outcome: Outcome, observations: Tensor, mask: Tensor | None) -> None:
    """Pass the outcome of the last choice to an agent and its listener, with the arguments of `Agent.saw`."""
    agent.saw(outcome, observations, mask)
    if agent.listener is not None:
        agent.listener.happened(outcome)


@contextlib.contextmanager
def silence_listener(agent: Agent) -> Iterator[None]:
    """Detach the listener of an agent for a while."""
    listener, agent.listener = agent.listener, None
    try:
        yield
    finally:
        agent.listener = listener

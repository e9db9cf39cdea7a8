"""Telling who listens to an agent (`hdrl.learn.agent.Listener`), or not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from hdrl.learn.agent import Agent
    from hdrl.learn.memory import Outcome


def tell(agent: Agent, outcome: Outcome, observations: Tensor, mask: Tensor | None) -> None:
    """Tell an agent, and who listens to it, what its last choice led to.

    Parameters
    ----------
    agent, outcome, observations, mask
        As in `hdrl.learn.agent.Agent.saw`.
    """
    agent.saw(outcome, observations, mask)
    if agent.listener is not None:
        agent.listener.happened(outcome)


@contextlib.contextmanager
def silence_listener(agent: Agent) -> Iterator[None]:
    """Silence the listener of an agent for a while.

    Yields
    ------
    None
        While it is silent.
    """
    listener, agent.listener = agent.listener, None
    try:
        yield
    finally:
        agent.listener = listener

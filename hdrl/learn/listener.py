"""What hears of every decision of an agent, and of what it learns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from hdrl.learn.agent import Agent
    from hdrl.learn.memory import Outcome


class Listener(Protocol):
    """What an agent's ``listener`` must be able to hear."""

    def chose(self, agent: Agent, observations: Tensor, mask: Tensor | None, actions: Tensor) -> None:
        """Hear what an agent has chosen.

        Parameters
        ----------
        observations, mask
            What it saw, as in `hdrl.learn.agent.Agent.act`.
        actions
            Shape ``(n,)``, int64.
        """

    def happened(self, outcome: Outcome) -> None:
        """Hear what the last choice led to; rows that are not valid were no decisions.

        Parameters
        ----------
        outcome
            Rewards and ends.
        """

    def learned(self, losses: Mapping[str, float]) -> None:
        """Hear what an agent has learned from a batch."""


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
def unheard(agent: Agent) -> Iterator[None]:
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

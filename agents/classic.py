"""The classic agent: one policy pair, for the whole simulation.

A pair names how the next job is chosen and on which cores it goes, for instance ``shortest-high_gflops``.
Agent files may derive from `ClassicAgent`, as they did in HDeepRM 0.1.0b1, and override `ClassicAgent.decide`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ClassicAgent:
    """An agent that follows one policy pair.

    Parameters
    ----------
    policy_pair
        ``"<job selection>-<core selection>"``; the names of all versions of HDeepRM are understood.

    Raises
    ------
    UnknownName
        If there is no such policy.
    """

    def __init__(self, policy_pair: str = "shortest-high_gflops") -> None:
        from hdrl.settings.batch.policies import normalise_policy_name

        self.policy_pair = normalise_policy_name(policy_pair)

    def decide(self, view: Any) -> Any:
        """Return decisions for a view, which is valid until the function returns; a subclass may override it."""
        raise NotImplementedError("the policy pair decides, unless a subclass overrides this")

    @property
    def policy(self) -> str | Callable[[Any], Any]:
        """The deciding policy: `decide` where a subclass overrides it, else the policy pair."""
        return self.policy_pair if type(self).decide is ClassicAgent.decide else self.decide

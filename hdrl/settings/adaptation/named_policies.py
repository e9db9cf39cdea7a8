"""The policies of adaptation, as comparisons and agents from files ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from hdrl.base.errors import OptionsError
from hdrl.base.pyfiles import check_call
from hdrl.setting import PolicyBook
from hdrl.settings.adaptation.models import Layer
from hdrl.settings.adaptation.policies import BANDITS, FIXED, LINEAR_DECAY, NAMES, SEARCHES, read_policy


@dataclass(frozen=True, slots=True)
class Situation:
    """State that a user's function sees before a decision."""

    layers: tuple[Layer, ...]  # the layers of the network now
    # training time left, and the whole budget
    time_left_s: float
    budget_s: float
    # number of the decision, from 0, and of all decisions
    step: int
    n_steps: int
    # initial number of blocks; deepening one of them is the action of its number, ``n_blocks`` is nothing
    n_blocks: int


@dataclass(frozen=True, slots=True)
class Own:
    """A user's function: from a `Situation` to an action."""

    advise: Callable[[Situation], int]


class AdaptationPolicies(PolicyBook):
    """The policies."""

    hidden = "the accuracies of all sequences"
    functions = "advise(situation)"
    default_baseline = "never"

    def names(self) -> Sequence[str]:
        """Return the names of all policies; ``fixed-010`` and its like can be read, too."""
        return NAMES

    def groups(self) -> Mapping[str, Sequence[str]]:
        """Return the policies that a word stands for.

        ``heuristics``: what tries nothing out beyond its own jobs, the bandits among it: the opponents that a learned
        policy has to beat; without the index by hand, so that records of the standing benchmark stay what they are.
        ``searches``: what trains copies. ``bandits``: what learns from job to job.
        """
        plain = [name for name in FIXED if name not in ("oracle", LINEAR_DECAY)]
        return {
            "heuristics": [*plain, "random", *BANDITS],
            "searches": [name for name in SEARCHES if name != "successive-halving"],
            "bandits": list(BANDITS),
        }

    def read(self, text: str) -> str:
        """Return the name of a policy."""
        return read_policy(text)

    def from_module(self, module: ModuleType, path: Path, suffix: str) -> Any:
        """Return the function ``advise`` of a user's file; refuse an ``advise`` that is no function."""
        advise = getattr(module, "advise", None)
        if advise is None:
            return None
        if suffix or not callable(advise):
            raise OptionsError(f"{path}: expected a function advise(situation), and nothing behind its name")
        check_call(advise, "situation", path)
        return Own(advise)

    def draws(self, policy: str) -> bool:
        """Return whether the results of a policy depend on the seed."""
        return policy in (*BANDITS, "random")

    def uses_hidden_information(self, policy: Any) -> bool:
        """Return whether a policy uses the table itself."""
        return bool(policy == "oracle")

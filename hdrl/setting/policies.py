"""The policies of a setting, as comparisons and agents from files ask for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from hdrl.base.errors import UnknownName

Policy = object
"""What decides without learning: the name of a policy, or whatever a setting makes of a user's Python file."""


class PolicyBook(ABC):
    """The policies of a setting by name."""

    @property
    @abstractmethod
    def default_baseline(self) -> str:
        """The policy that ratios refer to by default."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the names of all policies."""

    @abstractmethod
    def groups(self) -> Mapping[str, Sequence[str]]:
        """Return the policies that a word stands for.

        ``heuristics`` must be among the words: the opponents that a learned policy has to beat.
        """

    @abstractmethod
    def draws(self, policy: str) -> bool:
        """Tell whether the results of a policy depend on the seed."""

    @abstractmethod
    def knows_too_much(self, policy: Policy) -> bool:
        """Tell whether a policy sees what no scheduler sees, true run times for instance.

        Parameters
        ----------
        policy
            Its name, or what `of_module` returned.
        """

    def read(self, text: str) -> str:
        """Return today's name of a policy; usually `names` are all that there are.

        Parameters
        ----------
        text
            As a user wrote it.

        Raises
        ------
        UnknownName
            If there is no such policy.
        """
        if text not in self.names():
            raise UnknownName("policy", text, self.names())
        return text

    def additions(self) -> Mapping[str, str]:
        """Return what may follow the name of a policy, as an example (``"~off600"``), and what it does.

        Usually names stand alone.
        """
        return {}

    def of_module(self, module: ModuleType, path: Path, suffix: str) -> Policy | None:
        """Return the policy that a user's Python file defines, ``None`` if it defines none; usually all are named.

        Parameters
        ----------
        module
            What came of running the file.
        suffix
            What followed its name: ``"+easy"``; empty if nothing did.

        Raises
        ------
        HdrlError
            If what it defines is wrong.
        """
        del module, path, suffix
        return None

    def of_source(self, path: Path) -> Policy | None:
        """Return the policy of a scheduler that a C++ file defines; usually ``None``: a setting plays none.

        Parameters
        ----------
        path
            The file, which may be wrong: it is compiled when the policy is first used.
        """
        del path
        return None

    def rivals(self, knows: str | Mapping[str, object]) -> str | None:
        """Return the group of classic policies that know as much as a candidate; ``None`` if ``heuristics`` do.

        A comparison whose baseline is the best heuristic then shows the best of that group, too.

        Parameters
        ----------
        knows
            The name of a policy, or the environment of a model as its file describes it.
        """
        del knows
        return None

    def files(self, policy: str) -> Sequence[str]:
        """Return the files that a policy reads besides what its name says, so that a comparison knows their content."""
        del policy
        return ()


class Clairvoyance(ABC):
    """Books of which policies have a twin that knows how long everything takes: what is left to win by knowing it."""

    @abstractmethod
    def with_true_times(self, policy: str) -> str | None:
        """Return the name of the same policy by true run times; ``None`` if there is none, or it has them already."""

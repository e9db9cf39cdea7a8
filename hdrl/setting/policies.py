"""The policies of a setting, as comparisons and agents from files ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

Policy = Any
"""What decides without learning: the name of a policy, or whatever a setting makes of a user's Python file."""


class PolicyBook(Protocol):
    """The policies of a setting."""

    def names(self) -> Sequence[str]:
        """Return the names of all policies."""

    def groups(self) -> Mapping[str, Sequence[str]]:
        """Return the policies that a word stands for.

        ``heuristics`` must be among the words: the opponents that a learned policy has to beat.
        """

    def additions(self) -> Mapping[str, str]:
        """Return what may follow the name of a policy, as an example (``"~off600"``), and what it does."""

    @property
    def default_baseline(self) -> str:
        """The policy that ratios refer to by default."""

    def read(self, text: str) -> str:
        """Return today's name of a policy.

        Parameters
        ----------
        text
            As a user wrote it.

        Raises
        ------
        UnknownName
            If there is no such policy.
        """

    def of_module(self, module: ModuleType, path: Path, suffix: str) -> Policy | None:
        """Return the policy that a user's Python file defines, ``None`` if it defines none.

        Parameters
        ----------
        module
            What came of running the file.
        path
            The file, for messages.
        suffix
            What followed its name: ``"+easy"``; empty if nothing did.

        Raises
        ------
        HdrlError
            If what it defines is wrong.
        """

    def rivals(self, knows: str | Mapping[str, Any]) -> str | None:
        """Return the group of classic policies that know as much as a candidate; ``None`` if ``heuristics`` do.

        A comparison whose baseline is the best heuristic then shows the best of that group, too.

        Parameters
        ----------
        knows
            The name of a policy, or the environment of a model as its file describes it.
        """

    def files(self, policy: str) -> Sequence[str]:
        """Return the files that a policy reads besides what its name says, so that a comparison knows their content.

        Parameters
        ----------
        policy
            Its name.
        """

    def draws(self, policy: str) -> bool:
        """Tell whether the results of a policy depend on the seed.

        Parameters
        ----------
        policy
            Its name.
        """

    def knows_too_much(self, policy: Policy) -> bool:
        """Tell whether a policy sees what no scheduler sees, true run times for instance.

        Parameters
        ----------
        policy
            Its name, or what `of_module` returned.
        """


class PlainPolicies:
    """The answers of most `PolicyBook`s to what few have an answer of their own to: a book derives from it."""

    def additions(self) -> Mapping[str, str]:
        """Return nothing: names stand alone."""
        return {}

    def of_module(self, module: ModuleType, path: Path, suffix: str) -> Policy | None:
        """Return ``None``: all policies are named."""
        del module, path, suffix
        return None

    def rivals(self, knows: str | Mapping[str, Any]) -> str | None:
        """Return ``None``: no candidate knows more than the heuristics."""
        del knows
        return None

    def files(self, policy: str) -> Sequence[str]:
        """Return nothing: a name says all."""
        del policy
        return ()

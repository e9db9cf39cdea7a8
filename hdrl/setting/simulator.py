"""The simulator of a setting: a load on a machine under a policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Generic

from hdrl.setting.kinds import LoadT, MachineT, Message, OptionsT, Progress, SweepT, TraceT
from hdrl.setting.policies import Policy


class Simulator(ABC, Generic[OptionsT, SweepT, MachineT, LoadT, TraceT]):
    """What happens when policies decide."""

    @abstractmethod
    def simulate(
        self,
        machine: MachineT,
        load: LoadT,
        policy: Policy,
        *,
        seed: int,
        options: OptionsT | SweepT | None = None,
        progress: Progress | None = None,
        folder: Path | None = None,
    ) -> TraceT:
        """Simulate a load on a machine under a policy.

        Parameters
        ----------
        policy
            The name of a policy, or what `PolicyBook.of_module` returned.
        seed
            Seed of what is random in the policy.
        options
            Options or a sweep of this setting, for further choices about simulations; ``None``: the defaults.
        folder
            Where a simulator outside leaves its files.

        Raises
        ------
        HdrlError
            If a decision cannot be followed, or the simulation gets stuck.
        """

    def warm_up(self, policies: Iterable[Policy], message: Message) -> None:
        """Compile what simulations under some policies need, once, before many processes begin; usually nothing.

        Parameters
        ----------
        message
            Message callback, called before anything takes long.
        """
        del policies, message

    def most_at_once(self, options: OptionsT | SweepT) -> int | None:
        """Return how many simulations may run on a host at the same time; ``None``: as many as it has cores."""
        del options
        return None

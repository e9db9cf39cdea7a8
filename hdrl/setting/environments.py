"""The environments of a setting, as trainings and model files ask for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol

from hdrl.base.windows import Span
from hdrl.setting.kinds import LoadT, MachineT, Message, OptionsT, SweepT
from hdrl.trace.model import Load, Machine, Trace

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import spaces
    from numpy.typing import NDArray

LoadPart = tuple[Machine, Load, Span]
"""A load with the machine that it is for, and which of its items are meant."""

Arguments = Mapping[str, object]
"""Arguments of an environment, as JSON."""


class Player(Protocol):
    """A single environment of Gymnasium in which a model decides about a whole load.

    It may have a method ``play_actor(actor, *, seed)`` that plays an episode with a `hdrl.base.plainnet.PlainActor` in
    compiled code.
    """

    @property
    def observation_space(self) -> spaces.Space[object]:
        """Space of the observations."""

    @property
    def action_space(self) -> spaces.Space[object]:
        """Space of the actions."""

    def reset(self, *, seed: int | None = None) -> tuple[object, Mapping[str, object]]:
        """Begin an episode."""

    def step(self, action: int, /) -> tuple[object, float, bool, bool, Mapping[str, object]]:
        """Decide once."""

    def trace(self) -> Trace:
        """Return the trace of the episode that has ended."""

    def close(self) -> None:
        """Free its resources."""


class EnvironmentSpec(ABC, Generic[OptionsT, SweepT, MachineT, LoadT]):
    """A kind of environment of a setting.

    Usually all its arguments stand in ``learning.arguments``, an action is a position in a table, it runs on the
    simulator that policies run on, and its models can be played. One whose loads have configurations is
    `Configured`, too; one that recognises items, `Fingerprints`; one that learns from further files,
    `ExtraTrainingData`; one whose action is the weights of an index, `Indexed`.
    """

    given: frozenset[str] = frozenset(
        (
            *("machine", "load", "n_jobs", "start", "part"),
            *("num_envs", "autoreset_mode", "copy", "render_mode"),
        )
    )
    """Arguments that follow from options elsewhere, so that ``learning.arguments`` has no such keys."""

    physics: frozenset[str] = frozenset()
    """Arguments of `given` that choose the rules of the simulation: model files name the rules of the training."""

    @property
    @abstractmethod
    def id(self) -> str:
        """The name under which it is registered in Gymnasium, with ``entry_point`` and ``vector_entry_point``."""

    @abstractmethod
    def objective(self, arguments: Arguments) -> tuple[str, int]:
        """Return the metric that an episode is for, and 1 where more of it is better, else -1."""

    @abstractmethod
    def player(
        self, machine: MachineT, load: LoadT, arguments: Arguments, options: OptionsT | SweepT | None = None
    ) -> Player:
        """Return a single environment in which a model decides about a whole load.

        What it simulates, it simulates under the same physics as `Simulator.simulate`.

        Parameters
        ----------
        options
            Options or a sweep of this setting, for what they say of simulations.

        Raises
        ------
        HdrlError
            If that cannot be had.
        """

    def player_outside(
        self, machine: MachineT, load: LoadT, arguments: Arguments, options: OptionsT, folder: Path | None
    ) -> Player:
        """Return `player` in the simulator that options name; if it is outside, it leaves its files in a folder.

        Usually no simulator is outside, so that the folder is not used.
        """
        del folder
        return self.player(machine, load, arguments, options)

    def arguments(self, options: OptionsT) -> dict[str, object]:
        """Return its arguments as options elsewhere say them; ``learning.arguments`` go over them. Usually none."""
        del options
        return {}

    def saved_arguments(self, arguments: Arguments) -> dict[str, object]:
        """Return its arguments as a model file says them, with what files of older versions leave out.

        If the default of an argument changes that observations or actions depend on, `arguments` returns the new one,
        and this method the old one.
        """
        return dict(arguments)

    def input_arguments(self, machine: MachineT, load: LoadT, window: Arguments | None) -> dict[str, object]:
        """Return the arguments that say what is simulated; usually the machine, the load and the window.

        Parameters
        ----------
        window
            Items of an episode: ``n_jobs``, ``part`` (first, and one after the last) and ``start`` (``"random"`` or
            ``"consecutive"``); ``None``: all, in every episode.
        """
        return {"n_jobs": "all", "machine": machine, "load": load, **(window or {})}

    def action_names(self, arguments: Arguments) -> tuple[str, ...]:
        """Return the names of its actions; none where they have no lasting meaning."""
        del arguments
        return ()

    def unsupported_reason(self, machine: MachineT, load: LoadT, arguments: Arguments) -> str | None:
        """Return why it cannot simulate a load on a machine exactly; ``None`` if it can."""
        del machine, load, arguments
        return None

    def effective_arguments(self, arguments: Arguments) -> dict[str, object]:
        """Return the values of the arguments whose defaults depend on others, defaults filled in.

        It shows whether models fit.
        """
        del arguments
        return {}

    def unplayable_reason(self, arguments: Arguments, machine: MachineT | None = None) -> str | None:
        """Return why `player` can play no model of such an environment, on any machine or on this one.

        ``None`` if it can.
        """
        del arguments, machine
        return None

    def uses_hidden_information(self, arguments: Arguments) -> bool:
        """Return whether observations show what no real scheduler sees, such as run times that users do not request."""
        del arguments
        return False

    def cautions(self, arguments: Arguments) -> Sequence[tuple[str, str]]:
        """Return cautions about models of such an environment for readers of a comparison: kinds, and sentences."""
        del arguments
        return ()

    def warm_up(self, message: Message) -> None:
        """Compile the code with which `player` plays actors, once, before many processes begin; usually nothing."""
        del message


class Configured(ABC, Generic[LoadT]):
    """Environments of loads whose character changes: sets of periods, say, that follow each other.

    Workers may have some of the configurations each (``learning.distributed.allotment``).
    """

    @abstractmethod
    def configurations(self, load: LoadT) -> Sequence[int]:
        """Return the positions of the first items of the configurations of a load; the first is 0."""

    @abstractmethod
    def configuration_coordinates(self, load: LoadT) -> Sequence[tuple[float, ...]]:
        """Return the coordinates of the configurations of a load: similar configurations are near each other."""

    @abstractmethod
    def configuration_now(self, env: Player, load: LoadT) -> int:
        """Return the configuration of a load that is in force in a single environment that simulates all of it."""


class Fingerprints(ABC, Generic[MachineT, LoadT]):
    """Environments that know the items of a model's training again."""

    run_length: ClassVar[int] = 8
    """Items one after the other that are known again; 1 where a single one is enough, as few others are like it."""

    @abstractmethod
    def item_fingerprints(self, machine: MachineT, load: LoadT) -> NDArray[np.int64]:
        """Return the fingerprint of each item as one number, in the order of release.

        Items that ask for and take the same have equal marks, whatever the dates and the file that they come from.
        """


class ExtraTrainingData(ABC):
    """Environments that learn from further files besides the load of the options."""

    @property
    @abstractmethod
    def file_arguments(self) -> Sequence[str]:
        """Arguments that are lists of files, which options name from their own folder."""

    @abstractmethod
    def extra_training_data(self, arguments: Arguments, part: tuple[float, float]) -> Sequence[LoadPart]:
        """Return further training loads besides the load of the options, each with its range of items.

        The shares ``part`` of the items of the options' own load are learned from.
        """


@dataclass(frozen=True)
class Index:
    """Features and weights of an index that decides.

    Attributes
    ----------
    names
        Names of the weights; as many as there are features.
    start
        The weights by hand, of the same order: where a search begins, and what trained ones are held against.
    sigma
        Standard deviation of the first candidates around them.
    """

    names: tuple[str, ...]
    start: NDArray[np.float64]
    sigma: float


class Indexed(ABC, Generic[MachineT, LoadT]):
    """Environments whose action is by how much the weights of an index differ from those by hand.

    A step is an episode: whole loads judge the weights (`hdrl.envs.index`). A search of weights thus needs to know
    nothing of the setting.
    """

    @abstractmethod
    def index(self, arguments: Arguments) -> Index:
        """Return the names of the weights, and the start of a search."""

    @abstractmethod
    def run_index(
        self,
        machine: MachineT,
        loads: Sequence[LoadT],
        weights: NDArray[np.float64],
        arguments: Arguments,
        *,
        n_threads: int = 1,
    ) -> NDArray[np.float64]:
        """Return the objective of whole loads under candidates, shape ``(n_candidates, n_loads)``.

        Parameters
        ----------
        weights
            The weights of each candidate, shape ``(n_candidates, n_weights)``.
        arguments
            Arguments of the environment; `EnvironmentSpec.objective` says what the objective is.
        n_threads
            Number of threads that share the simulations; results do not depend on it.
        """

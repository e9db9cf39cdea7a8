"""The environments of a setting, as trainings and model files ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hdrl.base.windows import Places
from hdrl.trace.model import Load, Machine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hdrl.options.file import OptionsFile

LoadPart = tuple[Machine, Load, Places]
"""A load with the machine that it is for, and which of its items are meant."""


class EnvironmentSpec(Protocol):
    """A kind of environment of a setting; `PlainEnvironment` has the usual answers."""

    @property
    def id(self) -> str:
        """The name under which Gymnasium knows it, with ``entry_point`` and ``vector_entry_point``."""

    @property
    def given(self) -> frozenset[str]:
        """Arguments that follow from options elsewhere, so that ``learning.arguments`` has no such keys."""

    @property
    def physics(self) -> frozenset[str]:
        """Those of `given` that say by which rules is simulated: model files tell with which ones they were trained."""

    @property
    def file_arguments(self) -> Sequence[str]:
        """Arguments that are lists of files, which options name from their own folder."""

    def arguments(self, options: OptionsFile) -> dict[str, Any]:
        """Return its arguments as options elsewhere say them, as JSON; ``learning.arguments`` go over them.

        Parameters
        ----------
        options
            The options of an experiment.
        """

    def saved_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return its arguments as a model file says them, with what files of older versions leave out.

        Whoever changes the default of an argument that observations or actions depend on lets `arguments` say the new
        one, and this the old one.

        Parameters
        ----------
        arguments
            Arguments in a model file, as JSON.
        """

    def places(self, machine: Machine, load: Load, window: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the arguments that say what is simulated.

        Parameters
        ----------
        machine, load
            The machine and the load.
        window
            Which items an episode holds: ``n_items``, ``part`` (first, and one after the last) and ``start``
            (``"random"`` or ``"consecutive"``); ``None``: all, in every episode.
        """

    def action_names(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of its actions; none where they have no lasting meaning.

        Parameters
        ----------
        arguments
            Its arguments.
        """

    def goal(self, arguments: Mapping[str, Any]) -> tuple[str, int]:
        """Return the metric that an episode is for, and 1 where more of it is better, else -1.

        Parameters
        ----------
        arguments
            Its arguments.
        """

    def refuses(self, machine: Machine, load: Load, arguments: Mapping[str, Any]) -> str | None:
        """Return why it cannot simulate a load on a machine exactly; ``None`` if it can.

        Parameters
        ----------
        machine, load
            What is to be simulated.
        arguments
            Its arguments.
        """

    def meaning(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return what arguments amount to whose defaults depend on others, for telling whether models fit.

        Parameters
        ----------
        arguments
            Its arguments, with defaults filled in.
        """

    def unplayable(self, arguments: Mapping[str, Any]) -> str | None:
        """Return why no model of such an environment can be played by `player`; ``None`` if it can.

        Parameters
        ----------
        arguments
            Its arguments.
        """

    def knows_too_much(self, arguments: Mapping[str, Any]) -> bool:
        """Tell whether observations show what no real scheduler sees, such as run times that users do not request.

        Parameters
        ----------
        arguments
            Its arguments.
        """

    def cautions(self, arguments: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
        """Return what readers of a comparison must know of models of such an environment: kinds, and what models do.

        Parameters
        ----------
        arguments
            Its arguments.
        """

    def further_parts(self, arguments: Mapping[str, Any], part: tuple[float, float]) -> Sequence[LoadPart]:
        """Return what is learned from besides the load of the options, each with the items that are learned from.

        Parameters
        ----------
        arguments
            Its arguments.
        part
            The shares of items of the load of the options that are learned from.

        Raises
        ------
        HdrlError
            If something cannot be read.
        """

    def marks(self, machine: Machine, load: Load) -> NDArray[np.int64] | None:
        """Return what each item is as one number, in the order of release, so that a model's items are known again.

        Items that ask for and take the same have equal marks, whatever the dates and the file that they come from.
        ``None`` where only the hash of a whole load tells.

        Parameters
        ----------
        machine, load
            The load, and a machine that it is for.
        """

    def configurations(self, load: Load) -> Sequence[int]:
        """Return where the configurations of a load begin: places of first items, the first of which is 0.

        They follow each other, and workers may have some of them each (``learning.distributed.allotment``).

        Parameters
        ----------
        load
            The load.
        """

    def points(self, load: Load) -> Sequence[tuple[float, ...]]:
        """Return where the configurations of a load lie among one another: near are those that are much alike.

        Parameters
        ----------
        load
            The load.
        """

    def configuration_now(self, env: Any, load: Load) -> int:
        """Return which configuration of a load is in force in a single environment that simulates all of it.

        Parameters
        ----------
        env
            The environment, as `player` returns it, in an episode.
        load
            The load.
        """

    def player(self, machine: Machine, load: Load, arguments: Mapping[str, Any], options: Any = None) -> Any:
        """Return a single environment with a method ``trace``, in which a model decides about a whole load.

        What it simulates, it simulates under the same physics as `Setting.simulate`. It may have a method
        ``play_actor(actor, *, seed)`` that plays an episode with a `hdrl.base.plainnet.PlainActor` in compiled code.

        Parameters
        ----------
        machine, load
            What is simulated.
        arguments
            Arguments of the environment that the model was trained in.
        options
            Options or a sweep of this setting, for what they say of simulations.

        Raises
        ------
        HdrlError
            If that cannot be had.
        """

    def warm_up(self, message: Callable[[str], None]) -> None:
        """Compile what `player` plays actors with, once, before many processes begin.

        Parameters
        ----------
        message
            Message callback, called before anything takes long.
        """


class PlainEnvironment:
    """The usual answers to `EnvironmentSpec`: a spec derives from it and gives those that differ.

    All its arguments stand in ``learning.arguments``, an action is a place in a table, it runs on the simulator that
    policies run on, and its models can be played.
    """

    given: frozenset[str] = frozenset(
        (
            *("machine", "load", "n_jobs", "start", "part"),
            *("num_envs", "autoreset_mode", "copy", "render_mode"),
        )
    )
    physics: frozenset[str] = frozenset()
    file_arguments: Sequence[str] = ()

    def arguments(self, options: Any) -> dict[str, Any]:
        """Return nothing: all its arguments stand in ``learning.arguments``."""
        del options
        return {}

    def saved_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the file says: no default has changed."""
        return dict(arguments)

    def places(self, machine: Any, load: Any, window: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the machine, the load, and which items an episode holds, by these names."""
        return {"n_jobs": "all", "machine": machine, "load": load, **(window or {})}

    def configurations(self, load: Any) -> Sequence[int]:
        """Return one place: the load is of one piece."""
        del load
        return (0,)

    def points(self, load: Any) -> Sequence[tuple[float, ...]]:
        """Return the numbers of configurations: those that follow each other are near."""
        return [(float(number),) for number in range(len(self.configurations(load)))]

    def configuration_now(self, env: Any, load: Any) -> int:
        """Return the only one."""
        del env, load
        return 0

    def action_names(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return none: actions have no lasting meaning."""
        del arguments
        return ()

    def refuses(self, machine: Any, load: Any, arguments: Mapping[str, Any]) -> str | None:
        """Return ``None``: it runs on the simulator that policies run on."""
        del machine, load, arguments
        return None

    def meaning(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return nothing: no default depends on another argument."""
        del arguments
        return {}

    def unplayable(self, arguments: Mapping[str, Any]) -> str | None:
        """Return ``None``: all its models can be played."""
        del arguments
        return None

    def knows_too_much(self, arguments: Mapping[str, Any]) -> bool:
        """Return that they do not."""
        del arguments
        return False

    def cautions(self, arguments: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
        """Return nothing: what models do needs no warning."""
        del arguments
        return ()

    def further_parts(self, arguments: Mapping[str, Any], part: tuple[float, float]) -> Sequence[LoadPart]:
        """Return nothing: all is learned from the load of the options."""
        del arguments, part
        return ()

    def marks(self, machine: Any, load: Any) -> NDArray[np.int64] | None:
        """Return ``None``: only the hash of a whole load tells what it is."""
        del machine, load
        return None

    def warm_up(self, message: Any) -> None:
        """Do nothing: no actor is played in compiled code."""
        del message

"""Settings: the worlds that hdrl knows, and the questions that each of them answers.

An experiment is setting x machine x load x decision maker x seed. What differs between settings is behind `Setting`;
training, comparing, reporting and reproducing ask these questions and know no setting by name. A setting of a user's
own is a Python file that defines ``SETTING``; it works wherever a name does.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from hdrl.errors import OptionsError, UnknownName
from hdrl.files import expanded
from hdrl.metrics.catalogue import MetricInfo
from hdrl.pyfiles import is_policy_file, run_file
from hdrl.trace.files import TraceFile
from hdrl.trace.model import Load, Machine, Trace

if TYPE_CHECKING:
    from hdrl.figures.figure import Figure, Run
    from hdrl.options.file import OptionsFile
    from hdrl.options.sweep import Sweep

__all__ = [
    "BATCH",
    "SETTINGS",
    "EnvironmentSpec",
    "Load",
    "Machine",
    "PlainEnvironment",
    "PlainPolicies",
    "PolicyBook",
    "Setting",
    "Simulated",
    "SettingPlace",
    "Trace",
    "find_setting",
    "place_of_setting",
]

Message = Callable[[str], None]
"""Message callback: gets a line before something takes long."""

Progress = Callable[[int, int], None]
"""Progress callback: gets the finished items and all items of a simulation, a few times a second."""

Policy = Any
"""What decides without learning: the name of a policy, or whatever a setting makes of a user's Python file."""


Place = tuple[str, str]
"""Row and column of a number that is claimed."""


class Playable(Protocol):
    """A trained model."""

    @property
    def row(self) -> str:
        """The row of the claimed experiment whose options it was trained by."""

    @property
    def agent_state(self) -> Mapping[str, Any]:
        """What its agent has learned, see `hdrl.learn.agent.Agent.state_dict`."""

    @property
    def environment(self) -> Mapping[str, Any]:
        """The environment that it was trained in, as its file describes it: ``id`` and ``arguments``."""

    def agent(self, envs: Any) -> Any:
        """Return the agent, an `hdrl.learn.agent.Agent`, to decide in a batch like that of its training.

        Parameters
        ----------
        envs
            The batch.
        """

    def play(self, machine: Machine, load: Load, *, as_trained: bool = False) -> Any:
        """Simulate a load on a machine with the best actions.

        Parameters
        ----------
        machine, load
            What is simulated.
        as_trained
            Whether to simulate in the environment of the training, instead of as all candidates are simulated.
        """


ReproduceProtocol = Callable[[Mapping[str, Path], Sequence[Playable]], dict[Place, float]]
"""A claimed experiment that is more than one comparison: given the traces that it needs, by name, and the models of a
training if there was one, it returns numbers by row and column."""


class PolicyBook(Protocol):
    """The policies of a setting."""

    def names(self) -> Sequence[str]:
        """Return the names of all policies."""

    def groups(self) -> Mapping[str, Sequence[str]]:
        """Return the policies that a word stands for.

        ``heuristics`` must be among the words: the opponents that a learned policy has to beat.
        """

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

    def rivals(self, knows: str | Mapping[str, Any]) -> str | None:
        """Return ``None``: no candidate knows more than the heuristics.

        Parameters
        ----------
        knows
            Not looked at.
        """
        del knows
        return None

    def files(self, policy: str) -> Sequence[str]:
        """Return nothing: a name says all.

        Parameters
        ----------
        policy
            Not looked at.
        """
        del policy
        return ()


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
        ``play_actor(actor, *, seed)`` that plays an episode with a `hdrl.plainnet.PlainActor` in compiled code.

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

    def warm_up(self, message: Message) -> None:
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

    physics: frozenset[str] = frozenset()
    file_arguments: Sequence[str] = ()

    def arguments(self, options: Any) -> dict[str, Any]:
        """Return nothing: all its arguments stand in ``learning.arguments``.

        Parameters
        ----------
        options
            Not looked at.
        """
        del options
        return {}

    def configurations(self, load: Load) -> Sequence[int]:
        """Return one place: the load is of one piece.

        Parameters
        ----------
        load
            Not looked at.
        """
        del load
        return (0,)

    def points(self, load: Load) -> Sequence[tuple[float, ...]]:
        """Return the numbers of configurations: those that follow each other are near.

        Parameters
        ----------
        load
            The load.
        """
        return [(float(number),) for number in range(len(self.configurations(load)))]

    def configuration_now(self, env: Any, load: Load) -> int:
        """Return the only one.

        Parameters
        ----------
        env, load
            Not looked at.
        """
        del env, load
        return 0

    def warm_up(self, message: Message) -> None:
        """Do nothing: no actor is played in compiled code.

        Parameters
        ----------
        message
            Not looked at.
        """
        del message

    def action_names(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return none: actions have no lasting meaning.

        Parameters
        ----------
        arguments
            Not looked at.
        """
        del arguments
        return ()

    def refuses(self, machine: Any, load: Any, arguments: Mapping[str, Any]) -> str | None:
        """Return ``None``: it runs on the simulator that policies run on.

        Parameters
        ----------
        machine, load, arguments
            Not looked at.
        """
        del machine, load, arguments
        return None

    def meaning(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return nothing: no default depends on another argument.

        Parameters
        ----------
        arguments
            Not looked at.
        """
        del arguments
        return {}

    def unplayable(self, arguments: Mapping[str, Any]) -> str | None:
        """Return ``None``: all its models can be played.

        Parameters
        ----------
        arguments
            Not looked at.
        """
        del arguments
        return None

    def knows_too_much(self, arguments: Mapping[str, Any]) -> bool:
        """Return that they do not.

        Parameters
        ----------
        arguments
            Not looked at.
        """
        del arguments
        return False


class Simulated(Protocol):
    """Further choices about one simulation: an options file or a sweep."""

    @property
    def where(self) -> str:
        """Name of the source for messages."""


class Setting(Protocol):
    """A world in which schedulers are compared."""

    @property
    def name(self) -> str:
        """Its name, as options say it."""

    @property
    def title(self) -> str:
        """What it is about, in a few words."""

    @property
    def Options(self) -> type[OptionsFile]:
        """Its options file."""

    @property
    def Sweep(self) -> type[Sweep]:
        """Its sweep file: what a comparison compares."""

    @property
    def policies(self) -> PolicyBook:
        """Its policies."""

    @property
    def environments(self) -> Mapping[str, EnvironmentSpec]:
        """Its environments by the names that options give them; the first is the default."""

    @property
    def metrics(self) -> Mapping[str, MetricInfo]:
        """What every metric means, in the order in which `measure` gives them."""

    @property
    def default_metrics(self) -> Sequence[str]:
        """Metrics that a comparison summarises by default; the first decides."""

    @property
    def shown_metrics(self) -> Sequence[str]:
        """Metrics that are shown after a run; counts of what went wrong only where they are not zero."""

    @property
    def headline_metrics(self) -> Sequence[str]:
        """Metrics of the first table of a report, in addition to the one that decides."""

    @property
    def unrun(self) -> Sequence[str]:
        """Metrics that count items which were not brought to an end, so that means leave them out."""

    @property
    def figures(self) -> Mapping[str, Figure]:
        """What can be drawn of its runs, by name."""

    @property
    def files(self) -> Sequence[TraceFile]:
        """What a run folder holds of a Trace; without the first file a folder is no run."""

    def read(self, folder: Path, name: str | None = None) -> Run:
        """Read a run folder for pictures and reports.

        Parameters
        ----------
        folder
            The folder.
        name
            A name for the run; that of the folder by default.

        Raises
        ------
        ReadError
            If they are missing or wrong.
        """

    @property
    def protocols(self) -> Mapping[str, ReproduceProtocol]:
        """Claimed experiments that are more than one comparison, by name."""

    def machine(self, options: Any) -> Machine:
        """Read the machine of an experiment or a comparison.

        Parameters
        ----------
        options
            Options or a sweep of this setting.

        Raises
        ------
        HdrlError
            If it cannot be read, or is not as the options say.
        """

    def load(self, options: Any, machine: Machine) -> Load:
        """Read or generate the load of an experiment, and check that the machine can serve it.

        Parameters
        ----------
        options
            Options of this setting.
        machine
            The machine.

        Raises
        ------
        HdrlError
            If it cannot be read, or an item can never run.
        """

    def loads(self, sweep: Any, machine: Machine) -> list[Load]:
        """Read the loads of a comparison, each checked as in `load`.

        Parameters
        ----------
        sweep
            A sweep of this setting.
        machine
            The machine.

        Raises
        ------
        HdrlError
            As `load`.
        """

    @property
    def generator(self) -> str:
        """Name of the model by which `generate` makes loads; tables call them ``<generator>@<offered load>``."""

    def generate(self, sweep: Any, machine: Machine, n_items: int, *, offered_load: float, seed: int) -> Load:
        """Make a load by the setting's model of arrivals.

        Parameters
        ----------
        sweep
            A sweep of this setting.
        machine
            The machine that it is for.
        n_items
            How many items.
        offered_load
            Work that arrives per time, as a share of what the machine can do.
        seed
            Seed of everything in it.

        Raises
        ------
        HdrlError
            If there is no such load.
        """

    def offered_load(self, machine: Machine, load: Load) -> float | None:
        """Return the work that arrives per time as a share of what a machine can do; ``None`` where there is none.

        Parameters
        ----------
        machine, load
            The machine and the load.
        """

    def warm_up(self, policies: Iterable[Policy], message: Message) -> None:
        """Compile what simulations under some policies need, once, before many processes begin.

        Parameters
        ----------
        policies
            The policies.
        message
            Message callback, called before anything takes long.
        """

    def simulate(
        self,
        machine: Machine,
        load: Load,
        policy: Policy,
        *,
        seed: int,
        options: Any = None,
        progress: Progress | None = None,
        folder: Path | None = None,
    ) -> Trace:
        """Simulate a load on a machine under a policy.

        Parameters
        ----------
        machine, load
            What is simulated.
        policy
            The name of a policy, or what `PolicyBook.of_module` returned.
        seed
            Seed of what is random in the policy.
        options
            Options or a sweep of this setting, for further choices about simulations; ``None``: the defaults.
        progress
            Progress callback.
        folder
            Where a simulator outside leaves its files.

        Raises
        ------
        HdrlError
            If a decision cannot be followed, or the simulation gets stuck.
        """

    def measure(self, trace: Any) -> dict[str, float]:
        """Return every metric of a simulation by name, in the order of `metrics`; NaN where there is no number.

        Parameters
        ----------
        trace
            The Trace.
        """

    def counted(self, trace: Any, first: int, n_items: int) -> Any:
        """Return a Trace of the items that count: without those that warmed the machine up, and that followed.

        Parameters
        ----------
        trace
            The Trace.
        first
            The first item that counts.
        n_items
            How many count.
        """

    def exact_estimates(self, sweep: Any, loads: Sequence[Load]) -> list[str]:
        """Return the names of the loads whose requested times are the true times.

        Parameters
        ----------
        sweep
            A sweep of this setting.
        loads
            Its loads.
        """

    def cautions(self, sweep: Any, machine: Machine, loads: Sequence[Load]) -> list[tuple[str, str]]:
        """Return what readers of a comparison must know of this setting: kinds and sentences.

        Parameters
        ----------
        sweep
            A sweep of this setting.
        machine, loads
            What is compared on.
        """


BATCH = "batch"
"""The setting of options files that name none: HDeepRM's."""

# Of what several settings have under one name, the first one's is taken where nobody names a setting.
_HOMES = {
    BATCH: "hdrl.settings.batch.setting",
    "adaptation": "hdrl.settings.adaptation.setting",
    "gpu": "hdrl.settings.gpu.setting",
    "pipelines": "hdrl.settings.pipelines.setting",
}


class Settings:
    """The settings by name; each is loaded when it is first asked for."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = dict(homes)
        self._found: dict[str, Setting] = {}

    def __getitem__(self, name: str) -> Setting:
        """Return a setting; raise `UnknownName` with a suggestion if there is none of that name."""
        if name not in self._found:
            if name not in self._homes:
                raise UnknownName("setting", name, self)
            self._found[name] = importlib.import_module(self._homes[name]).SETTING
        return self._found[name]

    def add(self, setting: Setting) -> None:
        """Make a setting known for as long as the process runs.

        Parameters
        ----------
        setting
            The setting; it takes the place of another one of its name.
        """
        self._found[setting.name] = setting

    def remove(self, name: str) -> None:
        """Forget a setting that was added.

        Parameters
        ----------
        name
            Its name.
        """
        self._found.pop(name, None)

    def __iter__(self) -> Any:
        """Iterate over the names."""
        return iter({**self._homes, **self._found})

    def __len__(self) -> int:
        """Return how many there are."""
        return len({**self._homes, **self._found})

    def __contains__(self, name: object) -> bool:
        """Tell whether there is a setting of that name."""
        return name in self._homes or name in self._found


SETTINGS = Settings(_HOMES)


def find_setting(text: str, folder: Path = Path()) -> Setting:
    """Return a setting by its name, or from the Python file of a user.

    Parameters
    ----------
    text
        A name of `SETTINGS`, or the path of a file that defines ``SETTING``.
    folder
        Folder that a relative path starts from.

    Raises
    ------
    UnknownName
        If there is no such setting.
    OptionsError
        If the file defines none.
    HdrlError
        If the file cannot be read, or fails.
    """
    if not is_policy_file(text):
        return SETTINGS[text]
    path = (folder / expanded(text)).absolute()
    if not path.is_file():
        # Folders of results name the file without its place: one of that name may have been given before.
        path = next((own for own in _OWN if own.name == path.name), path)
    if path not in _OWN:
        module, _ = run_file(path)
        if not hasattr(module, "SETTING"):
            raise OptionsError(f"{path}: defines no setting, expected SETTING = ...")
        _OWN[path] = module.SETTING
    return _OWN[path]


_OWN: dict[Path, Setting] = {}
"""Settings from files, each made once in a process: what they register with Gymnasium, they register once."""


class SettingPlace(str):
    """Name or path of a setting that other processes can find: what they get after it may be of its classes."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Callable[[str], SettingPlace], tuple[str]]:
        """Load the setting where this text is unpacked, before what follows it."""
        return _loaded, (str(self),)


def place_of_setting(text: str, folder: Path = Path()) -> SettingPlace:
    """Return a setting's name, or the absolute path of its file.

    Parameters
    ----------
    text
        A name of `SETTINGS`, or the path of a file.
    folder
        Folder that a relative path starts from.
    """
    return SettingPlace((folder / expanded(text)).absolute() if is_policy_file(text) else text)


def _loaded(text: str) -> SettingPlace:
    find_setting(text)
    return SettingPlace(text)

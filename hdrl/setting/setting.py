"""A setting: its five parts (inputs, simulator, policies, measures, view), each a base class, and its environments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, ClassVar, Generic

from hdrl.base.errors import UnknownName
from hdrl.metrics.catalogue import MetricInfo, in_role
from hdrl.metrics.tasks import task_metrics
from hdrl.setting.environments import EnvironmentSpec
from hdrl.setting.kinds import LoadT, MachineT, Message, OptionsT, Progress, SweepT, TraceT
from hdrl.trace.files import STAYS_FILE, TASKS_FILE, TraceFile, write_tables

if TYPE_CHECKING:
    from hdrl.figures.figure import Figure, Run


class Inputs(ABC, Generic[OptionsT, SweepT, MachineT, LoadT]):
    """Inputs of a simulation, as options and sweeps define them.

    A setting that can make loads of its own is a `LoadGenerator`, too; one whose inputs mislead, `Cautions`.
    """

    @property
    @abstractmethod
    def Options(self) -> type[OptionsT]:
        """Its options file."""

    @property
    @abstractmethod
    def Sweep(self) -> type[SweepT]:
        """Its sweep file: what a comparison compares."""

    @abstractmethod
    def machine(self, options: OptionsT | SweepT) -> MachineT:
        """Read the machine of an experiment or a comparison."""

    @abstractmethod
    def load(self, options: OptionsT, machine: MachineT) -> LoadT:
        """Read or generate the load of an experiment, and check that the machine can serve it."""

    @abstractmethod
    def loads(self, sweep: SweepT, machine: MachineT) -> Sequence[LoadT]:
        """Read the loads of a comparison, each checked as in `load`."""

    @abstractmethod
    def offered_load(self, machine: MachineT, load: LoadT) -> float | None:
        """Return the work that arrives per time as a share of what a machine can do; ``None`` where there is none."""

    def shipped_machines(self) -> Mapping[str, str]:
        """Return the machines that it ships by the names that options give them, and what each is, if there is more.

        Usually there are none.
        """
        return {}

    def shipped_loads(self) -> Mapping[str, str]:
        """Return the loads that it ships by the names that options give them, and what each is, if there is more.

        Usually there are none.
        """
        return {}


class LoadGenerator(ABC, Generic[SweepT, MachineT, LoadT]):
    """Inputs that can be made by a model of arrivals, for any offered load."""

    @property
    @abstractmethod
    def generator(self) -> str:
        """Name of the model; tables call its loads ``<generator>@<offered load>``."""

    @abstractmethod
    def generate(self, sweep: SweepT, machine: MachineT, n_items: int, *, offered_load: float, seed: int) -> LoadT:
        """Make a load.

        Parameters
        ----------
        offered_load
            Work that arrives per time, as a share of what the machine can do.
        """


class Cautions(ABC, Generic[SweepT, MachineT, LoadT]):
    """Inputs with cautions for readers of a comparison."""

    def exact_estimates(self, sweep: SweepT, loads: Sequence[LoadT]) -> list[str]:
        """Return the names of the loads whose requested times are the true times; usually none."""
        del sweep, loads
        return []

    @abstractmethod
    def cautions(self, sweep: SweepT, machine: MachineT, loads: Sequence[LoadT]) -> list[tuple[str, str]]:
        """Return cautions for readers: kinds and sentences."""


class Simulator(ABC, Generic[OptionsT, SweepT, MachineT, LoadT, TraceT]):
    """Simulation of a load under a policy."""

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
            The name of a policy, or what `PolicyBook.from_module` returned.
        seed
            Seed of what is random in the policy.
        options
            Options or a sweep of this setting, for further choices about simulations; ``None``: the defaults.
        folder
            Folder for the files of a simulator outside.

        Raises
        ------
        HdrlError
            If a decision cannot be followed, or the simulation gets stuck.
        """

    def warm_up(self, policies: Iterable[Policy], message: Message) -> None:
        """Compile the code that some policies need, once, before many processes begin; usually nothing."""
        del policies, message

    def max_simulations_per_host(self, options: OptionsT | SweepT) -> int | None:
        """Return the largest number of simulations on a host at the same time; ``None``: as many as it has cores."""
        del options
        return None


Policy = object
"""A policy that decides without learning: its name, or whatever a setting makes of a user's Python file."""


class PolicyBook(ABC):
    """The policies of a setting by name."""

    hidden: ClassVar[str] = "true run times"
    """Information that no scheduler has, and some policies use."""

    functions: ClassVar[str] = ""
    """Functions of a Python file that `from_module` takes, with their arguments, for messages."""

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
        """Return whether the results of a policy depend on the seed."""

    @abstractmethod
    def uses_hidden_information(self, policy: Policy) -> bool:
        """Return whether a policy sees what no scheduler sees, true run times for instance."""

    def read(self, text: str) -> str:
        """Return today's name of a policy; usually `names` are all that there are.

        Raises
        ------
        UnknownName
            If there is no such policy.
        """
        if text not in self.names():
            raise UnknownName("policy", text, self.names())
        return text

    def suffixes(self) -> Mapping[str, str]:
        """Return the suffixes of a policy's name, as an example (``"~off600"``), and their effects.

        Usually names stand alone.
        """
        return {}

    def from_module(self, module: ModuleType, path: Path, suffix: str) -> Policy | None:
        """Return the policy that a user's Python file defines, ``None`` if it defines none; usually all are named.

        Parameters
        ----------
        module
            Module that running the file made.
        suffix
            Suffix of its name: ``"+easy"``; empty if there is none.

        Raises
        ------
        HdrlError
            If what it defines is wrong.
        """
        del module, path, suffix
        return None

    def of_source(self, path: Path) -> Policy | None:
        """Return the policy of a scheduler that a C++ file defines; usually ``None``: a setting plays none.

        The file may be wrong: it is compiled when the policy is first used.
        """
        del path
        return None

    def peer_group(self, decider: str | Mapping[str, object]) -> str | None:
        """Return the group of classic policies that know as much as a candidate; ``None`` if ``heuristics`` do.

        A comparison whose baseline is the best heuristic then shows the best of that group, too.

        Parameters
        ----------
        decider
            The name of a policy, or the environment of a model as its file describes it.
        """
        del decider
        return None

    def files(self, policy: str) -> Sequence[str]:
        """Return the files that a policy reads besides what its name says; comparisons record their content."""
        del policy
        return ()

    def trained_on(self, policy: str) -> Mapping[str, float]:
        """Return the names of the loads that a named policy was trained on, each with the share of its first items."""
        del policy
        return {}


class Clairvoyance(ABC):
    """Books whose policies have a twin with true run times: it shows the room for improvement."""

    @abstractmethod
    def with_true_times(self, policy: str) -> str | None:
        """Return the name of the same policy by true run times; ``None`` if there is none, or it has them already."""


class Measures(Generic[TraceT]):
    """The metrics of a setting.

    Parameters
    ----------
    metrics
        Definition and role of every metric (`hdrl.metrics.with_roles`), in the order in which they are computed. One is
        ``n_jobs``, the number of items, and at least one is compared.
    compute
        Returns every metric of a simulation by name; NaN where there is no number. By default the metrics of all
        tasks, `hdrl.metrics.TASK_METRICS`.
    """

    def __init__(
        self, metrics: Mapping[str, MetricInfo], compute: Callable[[TraceT], Mapping[str, float]] = task_metrics
    ) -> None:
        self.metrics = metrics
        self._compute = compute

    @property
    def compared(self) -> tuple[str, ...]:
        """Metrics that a comparison summarises by default; the first decides."""
        return in_role(self.metrics, "compared")

    @property
    def shown(self) -> tuple[str, ...]:
        """Metrics that are shown after a run."""
        return in_role(self.metrics, "shown")

    @property
    def headline(self) -> tuple[str, ...]:
        """Metrics of the first table of a report beside the deciding one; else those compared."""
        return in_role(self.metrics, "headline") or self.compared

    @property
    def unrun(self) -> tuple[str, ...]:
        """Metrics that count items which were not brought to an end, so that means leave them out."""
        return tuple(name for name, info in self.metrics.items() if info.counts_unrun)

    def measure(self, trace: TraceT) -> dict[str, float]:
        """Return every metric of a simulation by name, in the order of `metrics`; NaN where there is no number."""
        found = self._compute(trace)
        return {name: float(found[name]) for name in self.metrics}


TABLE_FILES: Sequence[TraceFile] = (TraceFile((TASKS_FILE, STAYS_FILE), write_tables, "tasks and their stays"),)
"""The tables that any Trace can be written as."""


class RunView:
    """Files and figures of a simulation; usually tables of tasks and stays.

    Parameters
    ----------
    unit_word
        Name of a unit of its machines in pictures, in the singular.
    files
        Files of a run folder that are written from a Trace; without the first file a folder is no run.
    figures
        Figures of its runs, by name; ``None``: the figures of all tables.
    """

    def __init__(
        self,
        unit_word: str = "unit",
        files: Sequence[TraceFile] = TABLE_FILES,
        figures: Mapping[str, Figure] | None = None,
    ) -> None:
        self.unit_word = unit_word
        self.files = files
        self._figures = figures

    @property
    def figures(self) -> Mapping[str, Figure]:
        """Figures of its runs, by name."""
        if self._figures is not None:
            return self._figures
        from hdrl.figures.tables import TABLE_FIGURES

        return TABLE_FIGURES

    def read(self, folder: Path, name: str | None = None) -> Run:
        """Read a run folder for pictures and reports."""
        from hdrl.figures.tables import read_table_run

        return read_table_run(folder, name, unit_word=self.unit_word)


@dataclass(frozen=True)
class Setting(Generic[OptionsT, SweepT, MachineT, LoadT, TraceT]):
    """A world in which schedulers are compared.

    Attributes
    ----------
    name
        Its name, as options say it.
    title
        Its subject, in a few words.
    inputs
        Its options, and the machines and loads that they ask for.
    simulator
        Simulation on a machine when policies decide.
    policies
        Its policies.
    measures
        Its metrics.
    view
        Files of its run folders, and their figures.
    environments
        Its environments by the names that options give them; the first is the default.
    """

    name: str
    title: str
    inputs: Inputs[OptionsT, SweepT, MachineT, LoadT]
    simulator: Simulator[OptionsT, SweepT, MachineT, LoadT, TraceT]
    policies: PolicyBook
    measures: Measures[TraceT]
    view: RunView = field(default_factory=RunView)
    environments: Mapping[str, EnvironmentSpec[OptionsT, SweepT, MachineT, LoadT]] = field(
        default_factory=lambda: MappingProxyType({})
    )

"""The questions that every setting answers, and the answers that most give alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hdrl.metrics import TASK_METRICS, UNRUN, task_metrics
from hdrl.metrics.catalogue import MetricInfo
from hdrl.setting.claims import ReproduceProtocol
from hdrl.setting.environments import EnvironmentSpec
from hdrl.setting.policies import Policy, PolicyBook
from hdrl.trace.files import STAYS_FILE, TASKS_FILE, TraceFile, write_tables
from hdrl.trace.model import Load, Machine, Trace

if TYPE_CHECKING:
    from hdrl.figures.figure import Figure, Run
    from hdrl.options.file import OptionsFile
    from hdrl.options.sweep import Sweep

Message = Callable[[str], None]
"""Message callback: gets a line before something takes long."""

Progress = Callable[[int, int], None]
"""Progress callback: gets the finished items and all items of a simulation, a few times a second."""


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

    def shipped_machines(self) -> Mapping[str, str]:
        """Return the machines that it ships by the names that options give them, and what each is, if there is more."""

    def shipped_loads(self) -> Mapping[str, str]:
        """Return the loads that it ships by the names that options give them, and what each is, if there is more."""

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


class PlainSetting:
    """The usual answers to `Setting`: a setting derives from it and gives those that differ, and all others.

    What happens is a `hdrl.trace.TaskTrace`, or a class derived from it; runs are tables of tasks and stays, and the
    metrics are those of all tasks.
    """

    unit_word = "unit"
    """What a unit of its machines is called in pictures, in the singular."""

    metrics: Mapping[str, MetricInfo] = TASK_METRICS
    unrun: Sequence[str] = UNRUN
    files: Sequence[TraceFile] = (TraceFile((TASKS_FILE, STAYS_FILE), write_tables, "tasks and their stays"),)
    default_metrics: Sequence[str] = ()

    @property
    def headline_metrics(self) -> Sequence[str]:
        """The metrics of a comparison."""
        return self.default_metrics

    @property
    def figures(self) -> Mapping[str, Figure]:
        """What can be drawn of all tables."""
        from hdrl.figures.tables import TABLE_FIGURES

        return TABLE_FIGURES

    @property
    def protocols(self) -> Mapping[str, ReproduceProtocol]:
        """None."""
        return {}

    def read(self, folder: Path, name: str | None = None) -> Run:
        """Read the tables."""
        from hdrl.figures.tables import read_table_run

        return read_table_run(folder, name, unit_word=self.unit_word)

    def shipped_machines(self) -> Mapping[str, str]:
        """Return none."""
        return {}

    def shipped_loads(self) -> Mapping[str, str]:
        """Return none."""
        return {}

    def warm_up(self, policies: Iterable[Policy], message: Message) -> None:
        """Do nothing: nothing is compiled."""

    def measure(self, trace: Any) -> dict[str, float]:
        """Return the metrics of all tasks."""
        return task_metrics(trace)

    def counted(self, trace: Any, first: int, n_items: int) -> Any:
        """Return the part of the Trace that these items are."""
        return trace.part(first, n_items)

    def exact_estimates(self, sweep: Any, loads: Sequence[Any]) -> list[str]:
        """Return none."""
        del sweep, loads
        return []

    def cautions(self, sweep: Any, machine: Any, loads: Sequence[Any]) -> list[tuple[str, str]]:
        """Return none."""
        del sweep, machine, loads
        return []

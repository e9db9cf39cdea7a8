"""The inputs of a setting: its options and sweeps, and the machines and loads that they ask for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic

from hdrl.setting.kinds import LoadT, MachineT, OptionsT, SweepT


class Inputs(ABC, Generic[OptionsT, SweepT, MachineT, LoadT]):
    """What is simulated, as options and sweeps say it.

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
        sweep
            The sweep that asks for it.
        offered_load
            Work that arrives per time, as a share of what the machine can do.
        """


class Cautions(ABC, Generic[SweepT, MachineT, LoadT]):
    """Inputs of which readers of a comparison must know something."""

    def exact_estimates(self, sweep: SweepT, loads: Sequence[LoadT]) -> list[str]:
        """Return the names of the loads whose requested times are the true times; usually none."""
        del sweep, loads
        return []

    @abstractmethod
    def cautions(self, sweep: SweepT, machine: MachineT, loads: Sequence[LoadT]) -> list[tuple[str, str]]:
        """Return what readers must know: kinds and sentences."""

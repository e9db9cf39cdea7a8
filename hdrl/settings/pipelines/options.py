"""The options file and the sweep file of pipelines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from hdrl.options.block import Block
from hdrl.options.file import ExperimentOptions, PathText, Seed
from hdrl.options.numbers import Few, Number, PositiveShare
from hdrl.options.sweep import SettingSweep

Milliseconds = Annotated[float, Field(ge=0.001, le=1e9)]
Utilization = Annotated[float, Field(gt=0, le=100)]

GENERATED = "generated"
"""The workload name of pipelines by a model."""

_ONE_PERIOD = "sets in files: generated pipelines have one period each; several configurations: load.sets"
_FOR_FILES = {
    "configuration": _ONE_PERIOD,
    "contexts": _ONE_PERIOD,
    "tour": _ONE_PERIOD,
    "graphs": "period files: generated pipelines need no graphs",
    "times_in": "period files: times of generated pipelines have no other unit",
}
"""Why generated pipelines know no such keys."""

_FOR_GENERATED = dict.fromkeys(("sets", "utilizations"), f"workload '{GENERATED}', not for files")
"""Why files know no such keys."""

_FOR_WORKLOADS = {
    "sets": f"workload '{GENERATED}': of loads, windows.count says how many sets there are",
    "utilizations": f"workload '{GENERATED}': loads are utilisations themselves",
    "horizon_ms": "workloads: of loads, windows.length says how long they are",
}
"""Why a comparison by utilisations alone takes no such keys."""


class ContextOptions(Block):
    """A stretch in which pipelines have their periods."""

    periods_ms: list[Milliseconds] = Field(description="The period of each pipeline.")
    length_ms: Milliseconds | None = Field(default=None, description="Duration; null: one hyperperiod.")


class ModelOptions(Block):
    """Options for generated pipelines, see `hdrl.settings.pipelines.loads.generate.PipelineModel`."""

    n_pipelines: Annotated[int, Field(ge=1, le=1000)] = Field(default=4, description="Number of pipelines.")
    utilization: Utilization = Field(
        default=0.5, description="Least unit time that they need per time, as a share of all units."
    )
    split: Literal["uunifast_discard", "drs"] = Field(
        default="uunifast_discard", description="Method that splits the utilisation among pipelines."
    )
    largest: Annotated[float, Field(gt=0, le=100)] = Field(
        default=1.0, description="Largest utilisation of one pipeline, in units."
    )
    shape: Literal["chain", "fork_join", "layered", "mixed"] = Field(default="chain", description="Shape of graphs.")
    n_kernels: Annotated[tuple[int, int], Field(strict=False)] = Field(
        default=(3, 8), description="Smallest and largest number of kernels."
    )
    periods_ms: list[Few] = Field(
        default_factory=lambda: [100, 200, 250, 400, 500, 1000], description="Values from which periods are drawn."
    )
    affinity: Annotated[float, Field(ge=1, le=1000)] = Field(
        default=3.0, description="Largest ratio of speeds between the two kinds of units."
    )
    fusion: Annotated[tuple[float, float], Field(strict=False)] = Field(
        default=(0.4, 0.9), description="Time of fused kernels as a share of the separate times: smallest and largest."
    )
    implicit_deadlines: bool = Field(default=True, description="True if deadlines are periods.")


class PipelineLoadOptions(Block):
    """Options of the conversion to instances."""

    graphs: PathText | None = Field(
        default=None, description="Folder of the graphs that a period file names; null: that of the file."
    )
    times_in: Literal["s", "ms", "us"] = Field(default="s", description="Unit of the times in graphs.")
    configuration: Number = Field(
        default=0, description="Number of the combination of periods; the last pipeline's period changes fastest."
    )
    contexts: list[ContextOptions] = Field(
        default_factory=list, description="Periods that switch during the simulation, instead of a configuration."
    )
    tour: Literal["none", "ordered", "shuffled"] = Field(
        default="none",
        description="Whether all combinations of periods are contexts, a hyperperiod each, in their order or shuffled.",
    )
    horizon_ms: Milliseconds | None = Field(
        default=None, description="Duration of the release of instances; null: one hyperperiod."
    )
    spread: Annotated[float, Field(ge=0, le=100)] = Field(
        default=0.0, description="Largest delay of the next release after a period, as a share of the period."
    )
    shortest: PositiveShare = Field(default=1.0, description="Smallest share of the worst case that a kernel takes.")
    seed: Seed = Field(default=0, description="Seed of execution times, of sporadic releases and of generated sets.")
    model: ModelOptions = Field(default_factory=ModelOptions, description="Generated pipelines.")
    sets: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=1,
        description="Number of generated sets, with consecutive seeds; a training uses them one after the other.",
    )
    utilizations: list[Utilization] = Field(
        default_factory=list, description="Utilisations that each generated set has in turn, instead of the model's."
    )

    @model_validator(mode="after")
    def _check_utilization_keys(self) -> Self:
        if self.utilizations and self.model.utilization != ModelOptions().utilization:
            raise ValueError("load.utilizations replaces load.model.utilization: give one of them")
        names = [f"{one:g}" for one in self.utilizations]
        if len(set(names)) < len(names):
            raise ValueError(f"load.utilizations holds {max(names, key=names.count)} more than once")
        return self

    @model_validator(mode="after")
    def _check_period_keys(self) -> Self:
        ways = [bool(self.contexts), self.tour != "none", bool(self.configuration) or self.horizon_ms is not None]
        if sum(ways) > 1:
            raise ValueError(
                "load.contexts, load.tour and load.configuration or load.horizon_ms exclude each other: give one"
            )
        return self

    def refused(self, reasons: Mapping[str, str]) -> None:
        """Raise ValueError for keys that would have no effect, unless they have their defaults."""
        defaults = PipelineLoadOptions()
        for key, why in reasons.items():
            if getattr(self, key) != getattr(defaults, key):
                raise ValueError(f"load.{key} is for {why}")


class PipelineOptions(ExperimentOptions):
    """The options of an experiment with pipelines: ``platform`` the units, ``workload`` the file or ``"generated"``."""

    load: PipelineLoadOptions = Field(
        default_factory=PipelineLoadOptions, description="Conversion of pipelines to instances."
    )

    path_keys: ClassVar[tuple[str, ...]] = (*ExperimentOptions.path_keys, "load.graphs")

    @model_validator(mode="after")
    def _check_ignored_keys(self) -> Self:
        self.load.refused(_FOR_FILES if self.workload == GENERATED else _FOR_GENERATED)
        return self


class PipelineSweep(SettingSweep):
    """A comparison of schedulers of pipelines: candidates x windows x seeds.

    Every configuration of a file is a load of its own.
    """

    load: PipelineLoadOptions = Field(
        default_factory=PipelineLoadOptions, description="Conversion of pipelines to instances."
    )
    configurations: Literal["all", "one"] = Field(
        default="all", description="all: compare all combinations of periods; one: load.configuration alone."
    )

    @model_validator(mode="after")
    def _check_ignored_keys(self) -> Self:
        if GENERATED in self.workloads or not self.workloads:
            self.load.refused(_FOR_FILES)
        if GENERATED not in self.workloads:
            self.load.refused(_FOR_GENERATED if self.workloads else _FOR_WORKLOADS)
        return self

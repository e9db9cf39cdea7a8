"""The options file and the sweep file of pipelines."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from hdrl.options.block import Block
from hdrl.options.file import ExperimentOptions, PathText, Seed
from hdrl.options.sweep import Sweep

Milliseconds = Annotated[float, Field(gt=0, le=1e9)]
Share = Annotated[float, Field(gt=0, le=1)]


class ContextOptions(Block):
    """A stretch in which pipelines have their periods."""

    periods_ms: list[Milliseconds] = Field(description="The period of each pipeline.")
    length_ms: Milliseconds | None = Field(default=None, description="How long it lasts; null: one hyperperiod.")


class ModelOptions(Block):
    """What generated pipelines are like, see `hdrl.settings.pipelines.generate.Model`."""

    n_pipelines: Annotated[int, Field(ge=1, le=1000)] = Field(default=4, description="How many pipelines.")
    utilization: Annotated[float, Field(gt=0, le=100)] = Field(
        default=0.5, description="Least unit time that they need per time, as a share of all units."
    )
    split: Literal["uunifast_discard", "drs"] = Field(
        default="uunifast_discard", description="How it is split among pipelines."
    )
    largest: Annotated[float, Field(gt=0, le=100)] = Field(
        default=1.0, description="Largest utilisation of one pipeline, in units."
    )
    shape: Literal["chain", "fork_join", "layered", "mixed"] = Field(default="chain", description="Shape of graphs.")
    n_kernels: tuple[int, int] = Field(default=(3, 8), description="Smallest and largest number of kernels.")
    periods_ms: list[Annotated[int, Field(ge=1, le=10**6)]] = Field(
        default_factory=lambda: [100, 200, 250, 400, 500, 1000], description="What periods are drawn from."
    )
    affinity: Annotated[float, Field(ge=1, le=1000)] = Field(
        default=3.0, description="How many times faster than the one the other kind of unit may be."
    )
    fusion: tuple[float, float] = Field(
        default=(0.4, 0.9), description="Share of the separate times that fusing leaves: smallest and largest."
    )
    implicit_deadlines: bool = Field(default=True, description="Whether deadlines are periods.")

    @model_validator(mode="before")
    @classmethod
    def _lists_are_pairs(cls, data: object) -> object:
        """Take the lists of JSON for pairs."""
        if not isinstance(data, dict):
            return data
        pairs = {key: tuple(data[key]) for key in ("n_kernels", "fusion") if isinstance(data.get(key), list)}
        return {**data, **pairs}


class LoadOptions(Block):
    """How pipelines become instances."""

    graphs: PathText | None = Field(
        default=None, description="Folder of the graphs that a period file names; null: that of the file."
    )
    times_in: Literal["s", "ms", "us"] = Field(default="s", description="Unit of the times in graphs.")
    configuration: Annotated[int, Field(ge=0, le=10**9)] = Field(
        default=0, description="Which combination of periods, the last pipeline's changing fastest."
    )
    contexts: list[ContextOptions] = Field(
        default_factory=list, description="Periods that switch while it runs, instead of a configuration."
    )
    tour: Literal["none", "ordered", "shuffled"] = Field(
        default="none",
        description="Whether all combinations of periods are contexts, a hyperperiod each, in their order or shuffled.",
    )
    horizon_ms: Milliseconds | None = Field(
        default=None, description="How long instances are released; null: one hyperperiod."
    )
    spread: Annotated[float, Field(ge=0, le=100)] = Field(
        default=0.0, description="How much later than a period the next instance may come, as a share of the period."
    )
    shortest: Share = Field(default=1.0, description="Smallest share of the worst case that a kernel takes.")
    seed: Seed = Field(default=0, description="Seed of execution times, of sporadic releases and of generated sets.")
    model: ModelOptions = Field(default_factory=ModelOptions, description="Generated pipelines.")

    @model_validator(mode="after")
    def _says_periods_once(self) -> Self:
        ways = [bool(self.contexts), self.tour != "none", bool(self.configuration) or self.horizon_ms is not None]
        if sum(ways) > 1:
            raise ValueError("load.contexts and load.tour say periods and lengths: one of them, without the others")
        return self


class PipelineOptions(ExperimentOptions):
    """The options of an experiment with pipelines: ``platform`` the units, ``workload`` the file or ``"generated"``."""

    load: LoadOptions = Field(default_factory=LoadOptions, description="How pipelines become instances.")

    path_keys: ClassVar[tuple[str, ...]] = (*ExperimentOptions.path_keys, "load.graphs")


class PipelineSweep(Sweep):
    """A comparison of schedulers of pipelines: candidates x windows x seeds.

    Every configuration of a file is a load of its own.
    """

    setting: PathText = Field(description="Name of the setting.")
    load: LoadOptions = Field(default_factory=LoadOptions, description="How pipelines become instances.")
    configurations: Literal["all", "one"] = Field(
        default="all", description="Whether all combinations of periods are compared, or load.configuration alone."
    )

    @property
    def setting_name(self) -> str:
        """Name of the setting."""
        return self.setting

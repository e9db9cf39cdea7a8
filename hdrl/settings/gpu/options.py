"""The options file and the sweep file of GPU clusters."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from hdrl.options.block import Block
from hdrl.options.file import ExperimentOptions, PathText, Seed
from hdrl.options.numbers import Few, PositiveShare
from hdrl.options.sweep import SettingSweep
from hdrl.settings.gpu.policies.rules import Rules

Positive = Annotated[float, Field(gt=0, le=1e12)]
Offered = Annotated[float, Field(gt=0, le=1000)]
Seconds = Annotated[float, Field(ge=0, le=1e12)]


class RuleOptions(Block):
    """Rules of the simulation, see `hdrl.settings.gpu.policies.rules.Rules`."""

    round_s: Seconds = Field(default=0.0, description="Decisions at multiples of it; 0: whenever something happens.")
    restart_s: Annotated[list[Seconds], Field(min_length=2, max_length=2)] = Field(
        default_factory=lambda: [0.0, 0.0],
        description="Time before a preempted job resumes, drawn uniformly between the two.",
    )
    checkpoint_s: Seconds = Field(
        default=0.0, description="Time between two checkpoints of a job; 0: preemption loses no work."
    )
    node_order: Literal["file", "largest", "smallest", "shuffled"] = Field(
        default="file", description="In which order nodes are looked at."
    )
    tie: Literal["first", "last", "random"] = Field(
        default="first", description="Choice among equally good nodes, in the order of nodes."
    )
    levels: list[Positive] = Field(
        default_factory=lambda: [3250.0, 7200.0, 18000.0],
        description="Attained service in seconds, or GPU seconds, at which las and las-2d move jobs to the next queue.",
    )
    gittins_delta: Positive = Field(default=3250.0, description="GPU seconds between the levels of gittins.")

    def rules(self) -> Rules:
        """Return the rules that these options say."""
        values = self.model_dump()
        values["restart_s"], values["levels"] = tuple(values["restart_s"]), tuple(values["levels"])
        return Rules(**values)


class PoissonOptions(Block):
    """Workload ``poisson``, see `hdrl.settings.gpu.loads.synthetic.Poisson`."""

    newer_keys: ClassVar[tuple[str, ...]] = ("n_names",)

    jobs_per_s: Positive = Field(default=2.5, description="Mean rate of arrivals.")
    runtime_mean_s: Positive = Field(default=3000.0, description="Mean of the normal distribution of run times.")
    runtime_std_s: Seconds = Field(default=2500.0, description="Its standard deviation.")
    runtime_min_s: Positive = Field(default=1.0, description="Shorter run times become this.")
    min_gpus: Few = Field(default=1, description="Fewest GPUs of a job.")
    max_gpus: Few = Field(default=8, description="Most GPUs of a job.")
    priorities: Annotated[list[Positive], Field(min_length=1)] = Field(
        default_factory=lambda: [0.5, 1.0, 2.5, 5.0], description="Values from which priorities are drawn."
    )
    n_users: Few = Field(default=3, description="Number of users.")
    n_names: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=0,
        description="Names of jobs that each user has; those of one name take much the same. 0: jobs have no names.",
    )


class GavelOptions(Block):
    """Workload ``gavel``, see `hdrl.settings.gpu.loads.gavel_jobs`."""

    jobs_per_hour: Positive = Field(default=2.0, description="Mean rate of arrivals.")
    multi_gpu: bool = Field(default=False, description="True if some jobs take 2, 4 or 8 GPUs.")
    multi_priority: bool = Field(default=False, description="True if a fifth of the jobs have a priority of 5.")


class AdaptingOptions(Block):
    """Jobs that adapt while they train, and are ended at their deadlines; see `hdrl.settings.gpu.policies.advisors`."""

    values: PathText = Field(description="Values of jobs: a JSON file of hdrl adaptation values.")
    deadline: Annotated[float, Field(gt=0, le=1e6)] = Field(
        default=2.0,
        description="Latest end of a job: this many times its budget after its arrival. Its budget is its duration at"
        " the mean speed of GPUs.",
    )


class AnyLoadOptions(Block):
    """Conversion of workloads to jobs, without their number and arrivals."""

    newer_keys: ClassVar[tuple[str, ...]] = ("adapting", "columns")

    form: str = Field(default="auto", description="Format of a trace; auto: by its first line.")
    columns: dict[str, str] = Field(
        default_factory=dict,
        description='Names of columns in a table of one\'s own, by the names of its format: {"gpus": "alloc_gpu"}.',
    )
    throughputs: PathText | None = Field(
        default=None,
        description="Throughputs in the form of Gavel's simulation_throughputs.json; gavel and its traces need them.",
    )
    speeds: Literal["flops", "equal"] | None = Field(
        default=None, description="Speeds of types of GPUs without throughputs; null: the speeds of the trace's format."
    )
    spread_speed: PositiveShare = Field(
        default=1.0, description="Speed of gangs on more nodes than they would need, without throughputs."
    )
    unrunnable: Literal["refuse", "leave out"] = Field(
        default="refuse",
        description="Treatment of jobs that the cluster can never run, for instance because they need too many GPUs.",
    )
    gpus_per_machine: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=8, description="GPUs per machine of a trace that does not list GPUs."
    )
    seed: Seed = Field(default=0, description="Seed of generated jobs.")
    poisson: PoissonOptions = Field(default_factory=PoissonOptions, description="Generated jobs: poisson.")
    gavel: GavelOptions = Field(default_factory=GavelOptions, description="Generated jobs: gavel.")
    adapting: AdaptingOptions | None = Field(
        default=None, description="Jobs that adapt: their values and deadlines; null: jobs do not adapt."
    )


class GpuLoadOptions(AnyLoadOptions):
    """Options of the conversion to jobs."""

    offered: Offered | None = Field(
        default=None, description="Offered load to which hdrl stretches the arrivals; null: no stretching."
    )


class SweepLoadOptions(AnyLoadOptions):
    """Options that turn the workloads of a comparison into jobs."""

    offered: Offered | Annotated[list[Offered], Field(min_length=1)] | None = Field(
        default=None,
        description="Offered load to which hdrl stretches the arrivals, or several: each workload at each; null: none.",
    )

    @field_validator("offered")
    @classmethod
    def _each_once(cls, offered: float | list[float] | None) -> float | list[float] | None:
        if isinstance(offered, list) and len({f"{one:g}" for one in offered}) < len(offered):
            raise ValueError("load.offered holds one load twice: the same jobs would count as several windows")
        return offered


class GpuOptions(ExperimentOptions):
    """The options of an experiment on a GPU cluster: ``platform`` the cluster, ``workload`` a trace or a generator."""

    load: GpuLoadOptions = Field(default_factory=GpuLoadOptions, description="Conversion of the workload to jobs.")
    rules: RuleOptions = Field(default_factory=RuleOptions, description="Rules of the simulation.")

    path_keys: ClassVar[tuple[str, ...]] = (*ExperimentOptions.path_keys, "load.throughputs", "load.adapting.values")


class GpuSweep(SettingSweep):
    """A comparison of schedulers of GPU clusters: candidates x windows x seeds."""

    load: SweepLoadOptions = Field(default_factory=SweepLoadOptions, description="Conversion of workloads to jobs.")
    rules: RuleOptions = Field(default_factory=RuleOptions, description="Rules of the simulation.")

"""The options file of batch jobs, HDeepRM's with keys of our own: every key with its type, range, default and meaning.

The file is that of HDeepRM in its two documented versions (0.1.0b1 with ``pybatsim.agent.policy_pair``, 0.3.1 with
``pybatsim.env.actions`` and ``pybatsim.agent.type``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from hdrl.base.errors import OptionsError
from hdrl.options.block import Block
from hdrl.options.choice import OneOf
from hdrl.options.file import AgentBlock, OptionsFile, PathText, Seed
from hdrl.options.learning import LearningOptions
from hdrl.options.numbers import Count, Few, Positive
from hdrl.settings.batch.contention import CONTENTION_MODELS
from hdrl.settings.batch.irmasim import irmasim, is_irmasim_options
from hdrl.settings.batch.node_power import NodePowerOptions
from hdrl.settings.batch.simulators import HDEEPRM, SIMULATORS

JobSelection = Literal["random", "first", "shortest", "smallest", "low_mem", "low_mem_bw", "longest", "low_mem_ops"]
CoreSelection = Literal[
    "random",
    "high_gflops",
    "high_flops",
    "high_cores",
    "high_mem",
    "high_mem_bw",
    "low_power",
    "low_energy",
    "low_cores",
    "first",
]
LogLevel = Literal["CRITICAL", "FATAL", "ERROR", "WARNING", "WARN", "INFO", "DEBUG", "NOTSET"]
ExtraFile = Literal[
    "out_schedule.trace", "out_hosts.csv", "platform.xml", "workload.json", "actions.log", "log_probs.log"
]
Objective = Literal[
    "avg_job_slowdown",
    "avg_job_completion",
    "avg_utilization",
    "makespan",
    "energy_consumption",
    "edp",
    "avg_bounded_slowdown",
    "slowdown",
    "bounded_slowdown",
    "waiting_time",
    "mean_slowdown",
    "mean_turnaround_s",
    "utilization",
    "makespan_s",
    "energy_j",
    "energy_delay_product_js",
    "mean_bounded_slowdown",
    "mean_wait_s",
    "max_wait_s",
    "max_turnaround_s",
    "max_slowdown",
    "max_bounded_slowdown",
    "throughput_jobs_per_h",
    "mean_power_w",
]

JOB_SELECTIONS: tuple[JobSelection, ...] = ("random", "first", "shortest", "smallest", "low_mem", "low_mem_bw")
CORE_SELECTIONS: tuple[CoreSelection, ...] = (
    *("random", "high_gflops", "high_cores", "high_mem", "high_mem_bw", "low_power"),
)
"""The selections of HDeepRM 0.3.1, in the order of its actions."""


class ActionOptions(Block):
    """The actions among which an agent chooses."""

    selection: list[dict[JobSelection, list[CoreSelection]]] = Field(
        default_factory=lambda: [{job: list(CORE_SELECTIONS)} for job in JOB_SELECTIONS],
        description="Job selections and, for each, core selections; by default all 36 pairs.",
    )
    void: bool = Field(default=True, description="True if 'do nothing' is an action too (the last one).")

    def pairs(self) -> list[str]:
        """Return the names of the policy pairs, in the order of the actions."""
        return [f"{job}-{core}" for entry in self.selection for job, cores in entry.items() for core in cores]


class EnvironmentOptions(Block):
    """Observation, actions and reward of an agent."""

    objective: Objective = Field(default="avg_job_slowdown", description="Objective of a learning agent.")
    actions: ActionOptions = Field(default_factory=ActionOptions, description="The actions of the agent.")
    observation: Literal["normal", "small", "minimal"] = Field(
        default="normal", description="Size of a learning agent's observation of the platform."
    )
    queue_sensitivity: Positive = Field(
        default=0.05, description="Relative change of the queue length that saturates its observation; above 0."
    )


class AgentOptions(AgentBlock):
    """Settings of the agent."""

    policy_pair: str | None = Field(
        default=None, description="The policy of a classic agent, for instance shortest-high_gflops."
    )

    @model_serializer(mode="wrap")
    def _in_order(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Keep the order that files have always had: the policy comes after the type."""
        data = handler(self)
        return {"type": data["type"], "policy_pair": data["policy_pair"], **data}


class DecisionOptions(Block):
    """The decision system (HDeepRM hands this block to PyBatsim, hence its name in the file)."""

    log_level: LogLevel = Field(default="WARNING", description="Least severity of what is logged.")
    env: EnvironmentOptions = Field(default_factory=EnvironmentOptions, description="The agent's environment.")
    agent: AgentOptions = Field(default_factory=AgentOptions, description="The agent.")
    seed: int | None = Field(default=None, description="A copy that HDeepRM leaves here; the seed at the top counts.")


class WorkloadOptions(Block):
    """Conversion of the rows of a log to jobs."""

    newer_keys: ClassVar[tuple[str, ...]] = ("think_times",)

    custom: PathText | None = Field(
        default=None, description="Workload in Batsim's JSON that is used instead of workload_file_path."
    )
    start: Annotated[int, Field(ge=0, le=10**12)] = Field(default=0, description="Jobs of the log to skip.")
    shift: bool = Field(default=True, description="True if the first submission becomes date 0.")
    run_time: str = Field(default="trace", description="Model of the true run times.")
    memory: str = Field(default="log", description="Model of the memory that jobs take.")
    bandwidth: str = Field(default="uniform", description="Model of the memory bandwidth that jobs take.")
    estimates: str = Field(default="log", description="Model of the users' run-time estimates.")
    walltime: Literal["requested"] | None = Field(
        default=None, description="After which time jobs are killed: never, or the requested time."
    )
    walltime_factor: Positive = Field(default=1.0, description="Factor on the time after which jobs are killed.")
    oversized: Literal["error", "drop"] = Field(
        default="error", description="Treatment of jobs that the platform can never run."
    )
    think_times: bool = Field(
        default=False,
        description="True if jobs are submitted after the end of the job in field 17 and the think time in field 18.",
    )


class RealBatsimOptions(Block):
    """Settings of the simulator batsim."""

    newer_keys: ClassVar[tuple[str, ...]] = ("protocol",)

    executable: Annotated[PathText, Field(min_length=1)] = Field(
        default="batsim", description="Command that starts Batsim, looked for on PATH."
    )
    arguments: list[PathText] = Field(default_factory=list, description="Further arguments of Batsim.")
    endpoint: str = Field(
        default="tcp://127.0.0.1:*", description="Address of the decision system's socket; * stands for a free port."
    )
    timeout_s: Positive = Field(default=60.0, description="Seconds without a word after which Batsim is given up.")
    wait_for: Literal["start", "connect"] = Field(
        default="start", description="Start Batsim, or wait until it connects from elsewhere."
    )
    protocol: Literal[4, 5] = Field(
        default=4, description="Version of the protocol: 4 for Batsim 3.1 to 4.2, 5 for Batsim 5."
    )
    folder: PathText | None = Field(
        default=None,
        description="Folder shared with a Batsim that connects from elsewhere: for its platform, workload and results.",
    )


class RealSlurmOptions(Block):
    """Settings of the simulator slurm."""

    conf: Annotated[PathText, Field(min_length=1)] | None = Field(
        default=None, description="An administrator's slurm.conf, whose lines about scheduling count; null: none."
    )
    speed: Annotated[float, Field(ge=1, le=1000)] = Field(
        default=40.0, description="Speed of its clock relative to real time."
    )
    daemons: Annotated[int, Field(ge=1, le=256)] = Field(
        default=8, description="Maximum number of slurmd; hdrl merges equal nodes of a larger machine."
    )
    timeout_s: Positive = Field(
        default=60.0, description="Seconds without what it should do after which Slurm is given up."
    )
    max_overhead_s: Positive = Field(
        default=10.0, description="Most simulated seconds by which launching may prolong the mean job."
    )
    max_minutes: Positive = Field(default=240.0, description="Minutes of the real clock that a run may take.")
    lua: bool = Field(
        default=True,
        description="True if a deployed policy orders jobs when they are submitted, besides the daemon.",
    )
    interval_s: Annotated[float, Field(ge=1, le=3600)] = Field(
        default=30.0, description="Pause of the daemon of a deployed policy between two looks, in simulated seconds."
    )


class BatchLearningOptions(LearningOptions):
    """Options of learning."""

    environment: Literal["policy_pair", "job_pick", "job_index"] = Field(
        default="policy_pair",
        description="Environment of the agent: choose among policy pairs, pick jobs, or search weights of an index.",
    )


class Options(OptionsFile):
    """The options of one experiment with batch jobs; the same value gives the same results, byte by byte.

    Attributes are the keys of the file. Paths are as they were written; `path_of` resolves them.
    """

    newer_keys: ClassVar[tuple[str, ...]] = ("also_write", "node_power", "slurm")
    agent_block: ClassVar[str] = "pybatsim.agent"
    policy_key: ClassVar[str] = "policy_pair"
    workload_key: ClassVar[str] = "workload_file_path"
    path_keys: ClassVar[tuple[str, ...]] = (
        *("platform_file_path", "workload_file_path", "workload.custom", "batsim.executable", "batsim.folder"),
        "slurm.conf",
        *("pybatsim.agent.file", "pybatsim.agent.input_model", "pybatsim.agent.output_model"),
    )
    program_keys: ClassVar[tuple[str, ...]] = ("batsim.executable", "batsim.arguments", "batsim.endpoint")
    other_names: ClassVar[Mapping[str, str]] = {
        "learning_rate": "lr",
        "hidden_units": "hidden",
        "discount": "gamma",
        "discount_factor": "gamma",
        "policy": "policy_pair",
        "n_jobs": "nb_jobs",
        "jobs": "nb_jobs",
        "n_resources": "nb_resources",
        "cores": "nb_resources",
        "platform": "platform_file_path",
        "platform_path": "platform_file_path",
        "workload_path": "workload_file_path",
        "environment": "env",
        "reward": "objective",
        "nbruns": "runs",
        "n_runs": "runs",
        "custom_workload": "custom",
        "runtime": "run_time",
        "timeout": "timeout_s",
        "socket": "endpoint",
        "args": "arguments",
        "num_envs": "n_envs",
        "epochs": "iterations",
        "hyperparameters": "settings",
        "length": "n_jobs",
        "window": "n_jobs",
    }

    seed: Seed = Field(default=0, description="Seed of every random stream.")
    platform_file_path: Annotated[PathText, Field(min_length=1)] = Field(
        description="Platform file, relative to the options file, or the name of a shipped platform."
    )
    workload_file_path: PathText = Field(
        default="", description="Workload file, relative to the options file, or the name of a shipped workload."
    )
    nb_resources: Count | None = Field(default=None, description="Cores of the platform; only checked against it.")
    nb_jobs: Count | None = Field(default=None, description="Number of jobs of the workload; all by default.")
    pybatsim: DecisionOptions = Field(default_factory=DecisionOptions, description="The decision system.")
    simulator: Annotated[str, OneOf(SIMULATORS)] = Field(default="embedded", description="The simulator.")
    batsim: RealBatsimOptions = Field(default_factory=RealBatsimOptions, description="Settings of Batsim.")
    slurm: RealSlurmOptions = Field(default_factory=RealSlurmOptions, description="Settings of a real Slurm.")
    compatibility: Literal["hdeeprm-0.3.1", "irmasim"] | None = Field(
        default=None, description="System whose numbers are reproduced, its errors included."
    )
    contention: Annotated[str, OneOf(CONTENTION_MODELS)] = Field(
        default="step", description="Speed of cores whose memory bandwidth is over-committed."
    )
    energy: bool = Field(default=True, description="True if energy is accounted for.")
    node_power: NodePowerOptions | None = Field(
        default=None, description="Times and powers of switching nodes off; null: they are always on."
    )
    site_rules: bool = Field(
        default=True, description="True to apply the rules of a site in the folder of the platform."
    )
    workload: WorkloadOptions = Field(default_factory=WorkloadOptions, description="Conversion of a log to jobs.")
    learning: BatchLearningOptions = Field(default_factory=BatchLearningOptions, description="Settings of a training.")
    runs: Few = Field(
        default=1, description="Number of runs, each with its own seed; a training continues from run to run."
    )
    also_write: list[ExtraFile] = Field(
        default_factory=list, description="Files of Batsim and HDeepRM to write in addition to the usual ones."
    )

    @model_validator(mode="after")
    def _has_workload(self) -> Self:
        if not self.workload_file_path and self.workload.custom is None:
            raise ValueError("workload_file_path is missing or empty, expected the path of a workload (or -cw FILE)")
        return self

    @model_validator(mode="after")
    def _check_compatibility_mode(self) -> Self:
        if self.compatibility is None:
            return self
        if self.node_power is not None:
            raise ValueError(f"node_power is given, but under compatibility {self.compatibility!r} nodes are always on")
        if self.compatibility != HDEEPRM:
            return self
        for name, field in WorkloadOptions.model_fields.items():
            if name not in ("custom", "oversized") and getattr(self.workload, name) != field.default:
                raise ValueError(f"workload.{name} cannot be chosen together with compatibility {self.compatibility!r}")
        return self

    @model_validator(mode="after")
    def _check_needed_keys(self) -> Self:
        if self.node_power is not None and not self.energy:
            raise ValueError("node_power is given, but energy is false: nodes are switched off to save energy")
        connects = self.batsim.wait_for == "connect"
        if connects != (self.batsim.folder is not None):
            missing = "is missing" if connects else "is given"
            raise ValueError(f"batsim.folder {missing}; it is for batsim.wait_for 'connect', which needs it")
        if connects and self.simulator == "batsim" and self.runs > 1:
            raise ValueError(f"runs is {self.runs}, but a Batsim that connects from elsewhere simulates once")
        return self

    @classmethod
    def translated(cls, data: dict[str, Any], folder: Path) -> dict[str, Any]:
        """Return the contents of a file in our keys; it may be IRMaSim's."""
        translated: dict[str, Any] = irmasim("options").options_of(data, folder) if is_irmasim_options(data) else data
        return translated

    @property
    def setting_name(self) -> str:
        """Name of the setting."""
        return "batch"

    @property
    def agent_options(self) -> AgentOptions:
        """The agent."""
        return self.pybatsim.agent

    @property
    def log_level(self) -> str:
        """Least severity of what is logged."""
        return self.pybatsim.log_level

    @property
    def also_write_names(self) -> tuple[str, ...]:
        """Files to write besides those that every run folder holds."""
        return tuple(self.also_write)

    @property
    def repeats_seed(self) -> bool:
        """True if all runs have the same seed, as in HDeepRM."""
        return self.compatibility == HDEEPRM

    @property
    def takes_first_agent(self) -> bool:
        """True if the alphabetically first of several agents in a file counts, as in HDeepRM."""
        return self.compatibility == HDEEPRM

    @property
    def tests_by_drawing(self) -> bool:
        """True if agents of HDeepRM's API draw their actions in tests, too, as in HDeepRM."""
        return self.compatibility == HDEEPRM

    def explicit(self) -> Self:
        """Return the options without HDeepRM's copy of the seed."""
        return self.changed(pybatsim=self.pybatsim.model_dump() | {"seed": None})

    def no_learning(self) -> str | None:
        """Return why an agent cannot learn under these options; ``None`` if it can."""
        if self.simulator == "embedded":
            return None
        return f"simulator is {self.simulator!r}, but agents learn in 'embedded' only; their models can decide here"

    def no_model(self) -> str | None:
        """Return why no model can decide under these options; ``None`` if one can."""
        environment = self.learning.environment
        supporting = [name for name in SIMULATORS if SIMULATORS[name].supports_networks]
        known = supporting if self.compatibility is None else ["embedded"]
        if self.simulator in known or environment == "job_index":
            return None
        where = " or ".join([", ".join(map(repr, known[:-1])), repr(known[-1])]) if len(known) > 1 else repr(known[0])
        return (
            f"simulator is {self.simulator!r}, but models of {environment} decide in {where} only; expected that, or a "
            "model of job_index"
        )

    def unmet(self, n_items: int) -> str | None:
        """Return in a sentence that there are other jobs than requested, ``None`` if there are as many."""
        if self.nb_jobs is None or n_items == self.nb_jobs:
            return None
        if self.workload.custom is not None:
            return f"nb_jobs is {self.nb_jobs:,}, but a custom workload is taken as it is: {n_items:,} jobs"
        if n_items > self.nb_jobs:
            return None
        return f"nb_jobs is {self.nb_jobs:,}, but the workload has {n_items:,} usable jobs"

    def policy(self) -> str:
        """Return the policy of the classic agent, as written.

        It is ``pybatsim.agent.policy_pair``, else the only pair of ``pybatsim.env.actions.selection``. Of several,
        the compatibility mode takes the first, as HDeepRM 0.3.1 does.

        Raises
        ------
        OptionsError
            If there is no pair, or several without the compatibility mode.
        """
        if self.pybatsim.agent.policy_pair is not None:
            return self.pybatsim.agent.policy_pair
        pairs = self.pybatsim.env.actions.pairs()
        if len(pairs) == 1 or (pairs and self.compatibility == HDEEPRM):
            return pairs[0]
        raise OptionsError(
            f"{self.where}: a classic agent needs exactly one policy pair, but pybatsim.env.actions.selection has "
            f"{len(pairs)}; name one before the options (hdrl-launch sjf OPTIONS), or with "
            "--set pybatsim.agent.policy_pair=shortest-high_gflops"
        )

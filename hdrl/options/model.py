"""What an options file may hold: every key with its type, range, default and meaning."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from hdrl.errors import OptionsError
from hdrl.options.block import Block
from hdrl.options.learning import LearningOptions

COMPATIBILITY_MODES = ("hdeeprm-0.3.1",)
"""Names of the systems whose numbers can be reproduced, their errors included."""

MAX_SEED = 2**32 - 1
"""Seeds must fit the 32 bits that NumPy's older generators take, which the compatibility mode uses."""

JobSelection = Literal["random", "first", "shortest", "smallest", "low_mem", "low_mem_bw"]
CoreSelection = Literal[
    "random", "high_gflops", "high_flops", "high_cores", "high_mem", "high_mem_bw", "low_power", "low_energy"
]
LogLevel = Literal["CRITICAL", "FATAL", "ERROR", "WARNING", "WARN", "INFO", "DEBUG", "NOTSET"]
Objective = Literal[
    "avg_job_slowdown",
    "avg_job_completion",
    "avg_utilization",
    "makespan",
    "energy_consumption",
    "edp",
    "avg_bounded_slowdown",
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
    "random",
    "high_gflops",
    "high_cores",
    "high_mem",
    "high_mem_bw",
    "low_power",
)
"""The selections of HDeepRM 0.3.1, in the order of its actions."""


PathText = Annotated[str, Field(pattern=r"^[^\x00]*$")]
"""A path; the one character that no system takes in a path is refused here."""


def _all_selections() -> list[dict[JobSelection, list[CoreSelection]]]:
    return [{job: list(CORE_SELECTIONS)} for job in JOB_SELECTIONS]


class ActionOptions(Block):
    """The actions among which an agent chooses."""

    selection: list[dict[JobSelection, list[CoreSelection]]] = Field(
        default_factory=_all_selections,
        description="Job selections and, for each, core selections; by default all 36 pairs.",
    )
    void: bool = Field(default=True, description="Whether 'do nothing' is an action too (the last one).")

    def pairs(self) -> list[str]:
        """Return the names of the policy pairs, in the order of the actions."""
        return [f"{job}-{core}" for entry in self.selection for job, cores in entry.items() for core in cores]


class EnvironmentOptions(Block):
    """What an agent sees, may do and is rewarded for."""

    objective: Objective = Field(default="avg_job_slowdown", description="What a learning agent is rewarded for.")
    actions: ActionOptions = Field(default_factory=ActionOptions, description="The actions of the agent.")
    observation: Literal["normal", "small", "minimal"] = Field(
        default="normal", description="How much of the platform a learning agent sees."
    )
    queue_sensitivity: Annotated[float, Field(gt=0, le=1e6)] = Field(
        default=0.05, description="Relative change of the queue length that saturates its observation; above 0."
    )


class AgentOptions(Block):
    """Who decides."""

    type: Literal["CLASSIC", "LEARNING"] | None = Field(
        default=None,
        description="Kind of agent; if absent, LEARNING when hidden, lr or gamma is given without policy_pair.",
    )
    policy_pair: str | None = Field(
        default=None, description="The policy of a classic agent, for instance shortest-high_gflops."
    )
    run: Literal["train", "test"] = Field(default="train", description="Whether a learning agent learns.")
    hidden: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="Units of each hidden layer."
    )
    lr: Annotated[float, Field(gt=0, le=1e6)] | None = Field(default=None, description="Learning rate; above 0.")
    gamma: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="Discount of later rewards, 0 to 1."
    )
    file: PathText | None = Field(default=None, description="Python file that defines the agent.")
    input_model: PathText | None = Field(default=None, description="Model file from which a learning agent starts.")
    output_model: PathText | None = Field(default=None, description="Model file that a learning agent writes.")


class DecisionOptions(Block):
    """The decision system (HDeepRM hands this block to PyBatsim, hence its name in the file)."""

    log_level: LogLevel = Field(default="WARNING", description="Least severity of what is logged.")
    env: EnvironmentOptions = Field(default_factory=EnvironmentOptions, description="The agent's environment.")
    agent: AgentOptions = Field(default_factory=AgentOptions, description="The agent.")
    seed: int | None = Field(default=None, description="A copy that HDeepRM leaves here; the seed at the top counts.")


class WorkloadOptions(Block):
    """How jobs are made from the rows of a log."""

    custom: PathText | None = Field(
        default=None, description="Workload in Batsim's JSON that is used instead of workload_file_path."
    )
    start: Annotated[int, Field(ge=0, le=10**12)] = Field(default=0, description="Jobs of the log to skip.")
    shift: bool = Field(default=True, description="Whether the first submission becomes date 0.")
    run_time: str = Field(default="trace", description="Model of the true run times.")
    memory: str = Field(default="log", description="Model of the memory that jobs take.")
    bandwidth: str = Field(default="uniform", description="Model of the memory bandwidth that jobs take.")
    estimates: str = Field(default="log", description="Model of the users' run-time estimates.")
    walltime: Literal["requested"] | None = Field(
        default=None, description="After which time jobs are killed: never, or the requested time."
    )
    walltime_factor: Annotated[float, Field(gt=0, le=1e6)] = Field(
        default=1.0, description="Factor on the time after which jobs are killed."
    )
    oversized: Literal["error", "drop"] = Field(
        default="error", description="What happens to jobs that the platform can never run."
    )


class RealBatsimOptions(Block):
    """How Batsim is run, where it simulates."""

    executable: Annotated[PathText, Field(min_length=1)] = Field(
        default="batsim", description="Command that starts Batsim, looked for on PATH."
    )
    arguments: list[PathText] = Field(default_factory=list, description="Further arguments of Batsim.")
    endpoint: str = Field(
        default="tcp://127.0.0.1:*",
        description="Where the decision system listens; * stands for a free port.",
    )
    timeout_s: Annotated[float, Field(gt=0, le=1e6)] = Field(
        default=60.0, description="Seconds without a word after which Batsim is given up."
    )
    wait_for: Literal["start", "connect"] = Field(
        default="start", description="Whether Batsim is started, or connects from elsewhere."
    )
    folder: PathText | None = Field(
        default=None,
        description="Folder shared with a Batsim that connects from elsewhere: for its platform, workload and results.",
    )


class Options(Block):
    """The options of one experiment; the same value gives the same results, byte by byte.

    Attributes are the keys of the file. Paths are as they were written; `path_of` resolves them.
    """

    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] = Field(default=0, description="Seed of every random stream.")
    platform_file_path: Annotated[PathText, Field(min_length=1)] = Field(
        description="Platform file, relative to the options file, or the name of a shipped platform."
    )
    workload_file_path: PathText = Field(
        default="", description="Workload file, relative to the options file, or the name of a shipped workload."
    )
    nb_resources: Annotated[int, Field(ge=1, le=10**9)] | None = Field(
        default=None, description="Cores of the platform; only checked against it."
    )
    nb_jobs: Annotated[int, Field(ge=1, le=10**9)] | None = Field(
        default=None, description="How many jobs of the workload are used; all by default."
    )
    pybatsim: DecisionOptions = Field(default_factory=DecisionOptions, description="The decision system.")
    simulator: Literal["embedded", "exact", "batsim"] = Field(default="embedded", description="Who simulates.")
    batsim: RealBatsimOptions = Field(default_factory=RealBatsimOptions, description="How Batsim is run.")
    compatibility: Literal["hdeeprm-0.3.1"] | None = Field(
        default=None, description="System whose numbers are reproduced, its errors included."
    )
    contention: Literal["step", "proportional", "none"] = Field(
        default="step", description="What over-committed memory bandwidth does to the speed of cores."
    )
    energy: bool = Field(default=True, description="Whether energy is accounted for.")
    workload: WorkloadOptions = Field(default_factory=WorkloadOptions, description="How jobs are made.")
    learning: LearningOptions = Field(default_factory=LearningOptions, description="How to learn.")
    runs: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=1, description="Number of runs, each with a seed of its own; a training goes on from run to run."
    )

    _folder: Path = PrivateAttr(default=Path())
    _where: str = PrivateAttr(default="options")

    @model_validator(mode="after")
    def _has_workload(self) -> Self:
        if not self.workload_file_path and self.workload.custom is None:
            raise ValueError("workload_file_path is missing or empty, expected the path of a workload")
        return self

    @model_validator(mode="after")
    def _no_choices_in_compatibility_mode(self) -> Self:
        if self.compatibility is None:
            return self
        for name, field in WorkloadOptions.model_fields.items():
            if name not in ("custom", "oversized") and getattr(self.workload, name) != field.default:
                raise ValueError(f"workload.{name} cannot be chosen together with compatibility {self.compatibility!r}")
        return self

    @model_validator(mode="after")
    def _knows_where_batsim_is(self) -> Self:
        connects = self.batsim.wait_for == "connect"
        if connects != (self.batsim.folder is not None):
            missing = "is missing" if connects else "is given"
            raise ValueError(f"batsim.folder {missing}; it is for batsim.wait_for 'connect', which needs it")
        if connects and self.simulator == "batsim" and self.runs > 1:
            raise ValueError(f"runs is {self.runs}, but a Batsim that connects from elsewhere simulates once")
        return self

    @property
    def where(self) -> str:
        """Name of the source for messages, usually the path of the options file."""
        return self._where

    @property
    def folder(self) -> Path:
        """Folder that relative paths start from."""
        return self._folder

    def placed(self, where: str, folder: Path) -> Options:
        """Return the same options as read from somewhere.

        Parameters
        ----------
        where
            Name of the source for messages.
        folder
            Folder that relative paths start from.
        """
        copy = self.model_copy()
        copy._where = where  # noqa: SLF001 (its own class)
        copy._folder = folder  # noqa: SLF001
        return copy

    def path_of(self, text: str) -> Path:
        """Return a path of the file, resolved against the folder of the options file.

        Parameters
        ----------
        text
            The path as written.
        """
        return self.folder / Path(text).expanduser()

    def changed(self, **values: object) -> Options:
        """Return the options with other values of top-level keys, checked again.

        Parameters
        ----------
        values
            New values by key.
        """
        data = self.model_dump() | values
        return type(self).model_validate(data).placed(self.where, self.folder)

    @property
    def agent_type(self) -> Literal["CLASSIC", "LEARNING"]:
        """The kind of agent: as given, else what the other keys of the agent amount to."""
        agent = self.pybatsim.agent
        if agent.type is not None:
            return agent.type
        if self.learning.algorithm is not None:
            return "LEARNING"
        learns = agent.policy_pair is None and (agent.hidden, agent.lr, agent.gamma) != (None, None, None)
        return "LEARNING" if learns else "CLASSIC"

    def policy_pair(self) -> str:
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
        if len(pairs) == 1 or (pairs and self.compatibility is not None):
            return pairs[0]
        raise OptionsError(
            f"{self.where}: a classic agent needs exactly one policy pair, pybatsim.env.actions.selection has "
            f"{len(pairs)}; choose one with --set pybatsim.agent.policy_pair=shortest-high_gflops"
        )

    def portable(self) -> dict[str, Any]:
        """Return the options as plain values without anything of this machine: absolute paths shrink to names."""
        data = self.model_dump(mode="json")
        for block, key in (
            (data, "platform_file_path"),
            (data, "workload_file_path"),
            (data["workload"], "custom"),
            (data["batsim"], "executable"),
            (data["batsim"], "folder"),
            (data["pybatsim"]["agent"], "file"),
            (data["pybatsim"]["agent"], "input_model"),
            (data["pybatsim"]["agent"], "output_model"),
        ):
            if block[key] is not None and Path(block[key]).is_absolute():
                block[key] = Path(block[key]).name
        return data

    def sha256(self) -> str:
        """Return the SHA-256 of the portable options, hexadecimal; equal options have equal hashes."""
        text = json.dumps(self.portable(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

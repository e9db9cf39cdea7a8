"""Base of all options files: their origin, their agent, their seed, their learning."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from hdrl.base.errors import OptionsError
from hdrl.base.seeding import stream_seed
from hdrl.options.block import Block, LocatedBlock
from hdrl.options.learning import LearningOptions
from hdrl.options.numbers import Count, Few, Positive, Share

MAX_SEED = 2**32 - 1
"""Seeds must fit the 32 bits that NumPy's older generators take."""

PathText = Annotated[str, Field(pattern=r"^[^\x00]*$")]
"""A path; the one character that no system takes in a path is refused here."""

Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]

AgentType = Literal["CLASSIC", "LEARNING"]


class AgentBlock(Block):
    """Options that the agents of all settings have."""

    type: AgentType | None = Field(
        default=None,
        description="Kind of agent; if absent, LEARNING when hidden, lr or gamma is given without a policy.",
    )
    run: Literal["train", "test"] = Field(default="train", description="Train a learning agent, or test it.")
    hidden: Few | None = Field(default=None, description="Units of each hidden layer.")
    lr: Positive | None = Field(default=None, description="Learning rate; above 0.")
    gamma: Share | None = Field(default=None, description="Discount of later rewards, 0 to 1.")
    file: PathText | None = Field(default=None, description="Python file that defines the agent.")
    input_model: PathText | None = Field(default=None, description="Model file from which a learning agent starts.")
    output_model: PathText | None = Field(default=None, description="Model file that a learning agent writes.")


class OptionsFile(LocatedBlock):
    """The options of one experiment; the same value gives the same results, byte by byte.

    Attributes are the keys of the file. Paths are as they were written; `path_of` resolves them. A setting derives its
    options from this class or, unless its files have a form already, from `ExperimentOptions`.
    """

    if TYPE_CHECKING:  # each setting puts these keys where its files have them
        seed: int
        runs: int
        learning: LearningOptions

    agent_block: ClassVar[str] = "agent"
    """Path of the agent's block in the file."""

    policy_key: ClassVar[str] = "policy"
    """Key of the policy of a classic agent in the agent's block."""

    workload_key: ClassVar[str] = "workload"
    """Key of the workload in the file."""

    path_keys: ClassVar[tuple[str, ...]] = ()
    """Keys whose values are paths, with dots between the names of blocks."""

    program_keys: ClassVar[tuple[str, ...]] = ()
    """Keys that say which program is started, and how: data of others may only have their defaults."""

    other_names: ClassVar[Mapping[str, str]] = {}
    """Common other names of the keys, for suggestions."""

    @classmethod
    def translated(cls, data: dict[str, Any], folder: Path) -> dict[str, Any]:
        """Return the contents of a file in the keys of this class, where it may be written for another system.

        Relative paths start from ``folder``. Refuse a file for another system that says something that means nothing
        here.
        """
        del folder
        return data

    @property
    def setting_name(self) -> str:
        """Name of the setting, or the path of the Python file that defines it."""
        raise NotImplementedError

    @property
    def agent_options(self) -> AgentBlock:
        """Options of the agent."""
        raise NotImplementedError

    @property
    def log_level(self) -> str:
        """Least severity of what is logged."""
        return "WARNING"

    @property
    def also_write_names(self) -> tuple[str, ...]:
        """Files to write besides those that every run folder holds."""
        return ()

    @property
    def repeats_seed(self) -> bool:
        """True if all runs have the same seed, as in systems whose numbers are reproduced."""
        return False

    @property
    def takes_first_agent(self) -> bool:
        """True if the alphabetically first of several agents in a file counts."""
        return False

    @property
    def tests_by_drawing(self) -> bool:
        """True if agents of HDeepRM's API draw their actions in tests, too."""
        return False

    @property
    def run_seeds(self) -> list[int]:
        """The seed of each run.

        A single run has the seed of the options. Of several, run ``i`` has the first 32 bits of the stream
        ``run/<i>``; where the seed repeats, as in HDeepRM, all have the same.
        """
        if self.runs == 1 or self.repeats_seed:
            return [self.seed] * self.runs
        return [stream_seed(self.seed, f"run/{index}") for index in range(self.runs)]

    def file_or_name(self, text: str) -> str | Path:
        """Return the path of a file, or the text itself where it can only be the name of something shipped."""
        path = self.path_of(text)
        return text if "/" not in text and "." not in text and not path.is_file() else path

    def changed(self, **values: object) -> Self:
        """Return the options with other values of top-level keys, checked again."""
        return type(self).model_validate(self.model_dump() | values).located(self.where, self.folder)

    def with_agent(self, **values: object) -> Self:
        """Return the options with other values of the agent's keys, checked again."""
        data = self.model_dump()
        block = data
        for name in self.agent_block.split("."):
            block = block[name]
        block.update(values)
        return type(self).model_validate(data).located(self.where, self.folder)

    def explicit(self) -> Self:
        """Return the options without what says the same twice, so that equal experiments have equal options."""
        return self

    def policy(self) -> str:
        """Return the policy of the classic agent, as written."""
        raise NotImplementedError

    @property
    def agent_type(self) -> AgentType:
        """The kind of agent: as given, otherwise as the other keys of the agent imply."""
        agent = self.agent_options
        if agent.type is not None:
            return agent.type
        if self.learning.algorithm is not None:
            return "LEARNING"
        learns = getattr(agent, self.policy_key) is None and (agent.hidden, agent.lr, agent.gamma) != (None, None, None)
        return "LEARNING" if learns else "CLASSIC"

    @property
    def may_learn(self) -> bool:
        """True if the agent may learn: a file decides itself."""
        return self.agent_type == "LEARNING" or self.agent_options.file is not None

    def no_learning(self) -> str | None:
        """Return why an agent cannot learn under these options; ``None`` if it can."""
        return None

    def no_model(self) -> str | None:
        """Return why no model can decide under these options; ``None`` if one can."""
        return None

    def unmet(self, n_items: int) -> str | None:
        """Return in a sentence which wish about the number of items could not be met; ``None`` if all were."""
        del n_items
        return None

    def portable(self) -> dict[str, Any]:
        """Return the options as plain values without anything of this machine: absolute paths shrink to names."""
        data = self.model_dump(mode="json")
        for key in self.path_keys:
            *blocks, name = key.split(".")
            block = data
            for inner in blocks:
                block = block.get(inner) or {}  # the block may be missing
            if block.get(name) is not None and Path(block[name]).is_absolute():
                block[name] = Path(block[name]).name
        return data

    def sha256(self) -> str:
        """Return the SHA-256 of the portable options, hexadecimal; equal options have equal hashes."""
        text = json.dumps(self.portable(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


class PolicyAgent(AgentBlock):
    """Options of an agent, with the policy of a classic one."""

    policy: str | None = Field(default=None, description="The policy of a classic agent.")


class ExperimentOptions(OptionsFile):
    """The keys that the options files of all settings but HDeepRM's have; a setting adds its own.

    Attributes are the keys of the file.
    """

    setting: PathText = Field(description="Name of the setting, or the Python file that defines it.")
    seed: Seed = Field(default=0, description="Seed of every random stream.")
    platform: Annotated[PathText, Field(min_length=1)] = Field(
        description="Platform file, relative to the options file, or the name of a shipped platform."
    )
    workload: Annotated[PathText, Field(min_length=1)] = Field(
        description="Workload file, relative to the options file, or the name of a shipped workload or a generator."
    )
    nb_jobs: Count | None = Field(default=None, description="Number of jobs of the workload; all by default.")
    agent: PolicyAgent = Field(default_factory=PolicyAgent, description="The agent.")
    learning: LearningOptions = Field(default_factory=LearningOptions, description="Settings of a training.")
    runs: Few = Field(
        default=1, description="Number of runs, each with its own seed; a training continues from run to run."
    )

    path_keys: ClassVar[tuple[str, ...]] = (
        *("setting", "platform", "workload"),
        *("agent.file", "agent.input_model", "agent.output_model"),
    )

    @property
    def setting_name(self) -> str:
        """Name of the setting, or the path of the Python file that defines it."""
        return self.setting

    @property
    def agent_options(self) -> PolicyAgent:
        """Options of the agent."""
        return self.agent

    def policy(self) -> str:
        """Return the policy of the classic agent, as written."""
        if self.agent.policy is None:
            raise OptionsError(f"{self.where}: agent.policy is missing, expected the name of a policy")
        return self.agent.policy

    def unmet(self, n_items: int) -> str | None:
        """Return in a sentence that there are fewer items than requested, ``None`` if there are as many."""
        if self.nb_jobs is None or n_items >= self.nb_jobs:
            return None
        return f"nb_jobs is {self.nb_jobs:,}, but the workload has {n_items:,} usable jobs"

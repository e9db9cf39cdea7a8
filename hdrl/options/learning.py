"""Options of learning: the algorithm, its environment, its length, and its jobs."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from hdrl.base.windows import PARTS
from hdrl.options.block import Block
from hdrl.options.distributed import DistributedOptions
from hdrl.options.numbers import Count, Few, LearningRate, Number, Share

Range = Annotated[tuple[Share, Share], Field(strict=False)]

RANGE_NAMES = ("train", "validation", "test")


class FilterOptions(Block):
    """Selection of the windows for learning."""

    priority: str = Field(description="The priority whose objective decides: sjf, fcfs, ...")
    range: Annotated[tuple[float, float], Field(strict=False)] | None = Field(
        default=None,
        description="Its least and largest value; null: from the median to twice the mean of 100 windows.",
    )

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.range is not None and not self.range[0] < self.range[1]:
            raise ValueError(f"learning.episodes.filter.range is {list(self.range)}, expected the smaller value first")
        return self


class AdversaryOptions(Block):
    """Discriminator that separates an agent from its model policy, and its reward."""

    weight: Annotated[float, Field(gt=0, le=1000)] = Field(
        default=0.01,
        description="Reward of a decision for each unit of log-odds that the expert made it, in the unit of the"
        " agent's scaled rewards.",
    )
    iterations: Count | None = Field(
        default=None, description="Iterations in which the weight falls linearly to 0; null: a constant weight."
    )
    network: str | None = Field(
        default=None,
        description="Network of the discriminator; null: attention, which looks at a job beside the others, where"
        " observations are tables with an action for each row, else the network of the agent.",
    )
    lr: LearningRate = Field(default=1e-3, description="Learning rate of the discriminator.")
    n_epochs: Annotated[int, Field(ge=1, le=10_000)] = Field(default=1, description="Number of passes over each batch.")


class ImitationOptions(Block):
    """Whom an agent imitates, before it learns by itself or meanwhile."""

    newer_keys: ClassVar[tuple[str, ...]] = ("adversarial",)

    policy: str | list[str] = Field(
        description="Name of a policy, such as saf+easy_priority@geo~gate; a list: in each episode the best of them."
    )
    iterations: Count | None = Field(
        default=None,
        description="Number of first iterations in which the policy decides and the agent imitates it; null: none.",
    )
    adversarial: AdversaryOptions | None = Field(
        default=None, description="Rewards by a discriminator afterwards, for decisions like the policy's."
    )

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if self.policy in ([], ""):
            raise ValueError("learning.imitation.policy is empty, expected the name of a policy")
        if self.iterations is None and self.adversarial is None:
            raise ValueError("learning.imitation needs iterations, or adversarial, or both")
        return self


class EpisodeOptions(Block):
    """Selection of the jobs of an episode."""

    newer_keys: ClassVar[tuple[str, ...]] = ("filter",)

    n_jobs: Count | Annotated[tuple[Count, Count], Field(strict=False)] | None = Field(
        default=None,
        description="Jobs of an episode, a window of the workload; two numbers: drawn from the first to the second;"
        " null: all jobs, in every episode.",
    )
    start: Literal["random", "consecutive"] | Number = Field(
        default="random",
        description="Windows of the training: drawn at random, consecutive, or all at this job.",
    )
    train: Range = Field(
        default=PARTS["train"], description="Part of the workload to train on, as two fractions of it."
    )
    validation: Range = Field(
        default=PARTS["validation"], description="Part of the workload to choose the best model on."
    )
    test: Range = Field(default=PARTS["test"], description="Part of the workload to test on.")
    filter: FilterOptions | None = Field(default=None, description="Selection of training windows; null: all.")

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if isinstance(self.n_jobs, tuple):
            if self.n_jobs[0] > self.n_jobs[1]:
                raise ValueError(f"learning.episodes.n_jobs is {list(self.n_jobs)}, expected the smaller number first")
            if self.start == "consecutive":
                raise ValueError("learning.episodes.start is 'consecutive', which needs one number as n_jobs")
        return self

    @property
    def most_jobs(self) -> int | None:
        """Jobs of the longest episode, ``None`` for all."""
        return self.n_jobs[1] if isinstance(self.n_jobs, tuple) else self.n_jobs

    @model_validator(mode="after")
    def _check_ranges(self) -> Self:
        for name in RANGE_NAMES:
            first, last = getattr(self, name)
            if not first < last:
                raise ValueError(
                    f"learning.episodes.{name} is [{first:g}, {last:g}], expected two fractions, the first being less"
                )
        return self


class LearningOptions(Block):
    """Options of learning."""

    newer_keys: ClassVar[tuple[str, ...]] = ("device", "distributed", "patience", "imitation")

    algorithm: str | None = Field(
        default=None, description="Built-in learning agent by name, instead of pybatsim.agent.file: ppo, reinforce, ..."
    )
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Settings of the algorithm by name, instead of its defaults."
    )
    environment: str | None = Field(
        default=None, description="Environment of the agent; by default the setting's first."
    )
    arguments: dict[str, Any] = Field(
        default_factory=dict, description="Further arguments of the environment by name, instead of its defaults."
    )
    n_envs: Annotated[int, Field(ge=1, le=65_536)] = Field(
        default=1, description="Environments that the agent learns from at the same time."
    )
    iterations: Count = Field(default=1, description="Iterations of collecting and learning in each of the runs.")
    checkpoint_every: Count = Field(default=10, description="Iterations between two checkpoints.")
    validation_every: Count | None = Field(
        default=None, description="Iterations between two validations; the best one gives the model; null: none."
    )
    n_validation_episodes: Few = Field(default=1, description="Episodes of each validation.")
    patience: Count | None = Field(
        default=None, description="Validations without a better one after which the training ends; null: any number."
    )
    device: Literal["cpu", "cuda", "mps", "auto"] = Field(
        default="cpu", description="Device of the networks; auto: a GPU if torch finds one, else the CPU."
    )
    episodes: EpisodeOptions = Field(default_factory=EpisodeOptions, description="The jobs of an episode.")
    tensorboard: bool = Field(default=True, description="True if events for TensorBoard are written, too.")
    imitation: ImitationOptions | None = Field(
        default=None, description="Policy that the agent imitates, at first or all the time; null: none."
    )
    distributed: DistributedOptions | None = Field(
        default=None, description="Training with several workers; null: one worker."
    )

    @field_validator("environment", mode="before")
    @classmethod
    def _is_no_id(cls, value: object) -> object:
        """Refuse Gymnasium's name of an environment with the name that options have for it."""
        matched = re.fullmatch(r"hdrl/(\w+)-v\d+", value) if isinstance(value, str) else None
        if matched is not None:
            name = re.sub(r"(?<!^)(?=[A-Z])", "_", matched[1]).lower()
            raise ValueError(f"learning.environment is {value!r}, which options call {name!r}")
        return value

    @model_validator(mode="after")
    def _check_imitation(self) -> Self:
        if self.imitation is not None and self.distributed is not None:
            raise ValueError("learning.imitation is for one worker, expected no learning.distributed")
        return self

    @model_validator(mode="after")
    def _check_validation(self) -> Self:
        if self.distributed is not None and self.distributed.reliance != "pooled" and self.validation_every is not None:
            raise ValueError(
                "learning.validation_every chooses one agent, but learning.distributed.reliance is"
                f" {self.distributed.reliance!r}: there is one for each configuration, expected null"
            )
        return self

    @model_validator(mode="after")
    def _check_patience(self) -> Self:
        if self.patience is not None and self.validation_every is None:
            raise ValueError("learning.patience counts validations, expected learning.validation_every, too")
        return self

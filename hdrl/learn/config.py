"""Settings of agents: typed, ranged and described once; every mistake in them is one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from hdrl.base.errors import OptionsError
from hdrl.options.block import Block
from hdrl.options.numbers import Few, Number, Share
from hdrl.options.reading import validated

Activation = Literal["relu", "tanh", "leaky_relu"]
Widths = Annotated[tuple[Few, ...], Field(strict=False, max_length=32)]
"""Units of successive layers."""


class Config(Block):
    """The base of settings: no unknown names, no conversions between types, no NaN, no change once made."""

    needs: ClassVar[Mapping[str, str]] = {}
    """Settings that say something only where another one is true, or above 1, by name: the name of that one."""

    @classmethod
    def of(cls, settings: Mapping[str, Any], where: str = "settings") -> Self:
        """Make settings from names and values, as they stand in a JSON file.

        Raise OptionsError if a name or a value is wrong.
        """
        return validated(cls, settings, where, whole="")

    def as_json(self) -> dict[str, Any]:
        """Return the settings as they would stand in a JSON file; `of` makes equal ones of it."""
        return self.model_dump(mode="json")


class NetworkConfig(Config):
    """The settings of the networks, which all algorithms share."""

    network: str = Field(
        default="mlp",
        description="Name of the network: mlp, kernel, rows, attention, sequence, hdeeprm_reinforce,"
        " hdeeprm_actor_critic, dissertation_small, dissertation_deep, dissertation_large, dissertation_attention, or,"
        " of imported models, normalized_mlp, normalized_rows.",
    )
    hidden: Widths = Field(
        default=(64, 64),
        description="Units of the hidden layers. mlp: of its layers; rows: of those that each row passes; attention: of"
        " the layers after it; hdeeprm_*: the first number is the width of all of them; kernel: refused, its layers are"
        " those of the paper.",
    )
    heads: Widths = Field(
        default=(),
        description="mlp: units of further layers, which actor and critic never share.",
    )
    is_shared: bool = Field(default=False, description="mlp: true if actor and critic share the layers of 'hidden'.")
    activation: Activation = Field(default="relu", description="Activation of mlp, rows and attention.")
    attention_width: Annotated[int, Field(ge=1, le=65536)] = Field(
        default=32, description="attention: width of queries, keys and values; usual 16 to 128."
    )
    attention_heads: Annotated[int, Field(ge=1, le=256)] = Field(
        default=4, description="attention: number of heads, must divide the width; usual 1 to 8."
    )
    visible_rows: Literal["legal", "all"] = Field(
        default="legal",
        description="kernel, rows, attention: which rows of the observation are looked at: those whose action is legal,"
        " which is right where rows are legal exactly if they hold a job, or all of them.",
    )


_FIXED = ("kernel", *(f"dissertation_{name}" for name in ("small", "deep", "large", "attention")))
"""Networks whose layers are those of a paper."""


def check_used(config: type[Config], settings: Mapping[str, Any], given: Iterable[str], where: str) -> None:
    """Raise OptionsError for settings that would have no effect, among those that the user has ``given``.

    Examples are layers of networks that have their own, and parts of what is switched off.
    """
    network, named = settings.get("network"), set(given)
    unused = [name for name in ("hidden", "heads", "activation") if network in _FIXED and name in named]
    for name, other in config.needs.items():
        value = settings.get(other, config.model_fields[other].get_default())
        if name in named and (value is False or (type(value) is int and value <= 1)):
            raise OptionsError(
                f"{where}: {name} is given, but {other} is {str(value).lower()}, so it would be ignored; leave"
                f" {name} out, or change {other}"
            )
    if unused:
        raise OptionsError(
            f"{where}: {unused[0]} is given, but the layers of the network {network!r} are fixed; "
            f"leave {unused[0]} out, or choose the network 'mlp', 'rows' or 'attention'"
        )


class ValueConfig(NetworkConfig):
    """The settings of algorithms that learn what is to be expected of an observation."""

    gamma: Share = Field(
        default=0.99, description="Discount of later rewards; usual 0.9 to 1, and 1 where the reward comes at the end."
    )
    is_scaled: bool = Field(
        default=True,
        description="True if rewards are divided by the size that returns have had so far; the other settings then do"
        " not depend on the unit of the objective.",
    )


class ReplayConfig(ValueConfig):
    """The settings of algorithms that learn from steps which they remember."""

    batch_size: Few = Field(default=64, description="Transitions in a batch; usual 32 to 512.")
    capacity: Annotated[int, Field(ge=2, le=10**9)] = Field(
        default=50_000, description="Steps that are remembered; usual 1e4 to 1e6."
    )
    warm_up: Number = Field(default=500, description="Environment steps before learning begins; usual 500 to 50,000.")
    steps_per_update: Few = Field(
        default=1, description="Steps of all environments at once between two batches; usual 1 to 4."
    )
    updates_per_iteration: Few = Field(
        default=64, description="Batches in an iteration: how often progress is reported."
    )

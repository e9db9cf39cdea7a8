"""What it takes to switch nodes, as options and descriptions of platforms give it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from hdrl.options.block import Block
from hdrl.options.numbers import Positive

Fraction = Annotated[float, Field(ge=0, le=100)]


class SuspendOptions(Block):
    """What it takes to suspend nodes to memory and to resume them; powers as in `NodePowerOptions`."""

    suspend_s: Annotated[float, Field(gt=0, le=1e6)] = Field(default=5.0, description="How long it takes.")
    resume_s: Annotated[float, Field(gt=0, le=1e6)] = Field(default=10.0, description="How long the way back takes.")
    suspend_power: Fraction = Field(default=0.5, description="What cores draw while their node is being suspended.")
    resume_power: Fraction = Field(default=0.6, description="What they draw while it is being resumed.")
    suspended_power: Fraction = Field(default=0.1, description="What they draw while it is suspended.")


class NodePowerOptions(Block):
    """What it takes to switch nodes off and on; powers are fractions of what a core draws at its peak."""

    boot_s: Positive = Field(default=150.0, description="How long a node boots.")
    shutdown_s: Positive = Field(default=30.0, description="How long it shuts down.")
    boot_power: Fraction = Field(default=0.65, description="What its cores draw while it boots.")
    shutdown_power: Fraction = Field(default=0.55, description="What they draw while it shuts down.")
    off_power: Fraction = Field(default=0.05, description="What they draw while it is off.")
    idle_power: Fraction = Field(default=0.5, description="What cores without a job draw while their node is on.")
    suspend: SuspendOptions | None = Field(
        default=None, description="What it takes to suspend nodes, the second sleep state; null: they cannot be."
    )

    @model_serializer(mode="wrap")
    def _without_a_state_that_there_is_not(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave the key out where it is empty, so that the files of a run stay as they always were."""
        told: dict[str, Any] = handler(self)
        if told.get("suspend", 0) is None:
            del told["suspend"]
        return told

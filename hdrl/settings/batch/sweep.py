"""The sweep file of batch jobs: what else comparisons of them can say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from hdrl.base.errors import OptionsError
from hdrl.options.choice import OneOf
from hdrl.options.file import PathText
from hdrl.options.sweep import Sweep
from hdrl.settings.batch.contention import CONTENTION_MODELS
from hdrl.settings.batch.metrics import ENERGY_METRICS
from hdrl.settings.batch.node_power import NodePowerOptions
from hdrl.settings.batch.options import RealSlurmOptions, WorkloadOptions

if TYPE_CHECKING:
    from hdrl.trace.model import Machine

DEFAULT_BASELINE = "fcfs+easy"


class BatchSweep(Sweep):
    """A comparison of batch schedulers: candidates x windows x seeds."""

    newer_keys: ClassVar[tuple[str, ...]] = (*Sweep.newer_keys, "node_power", "site_rules", "simulator", "slurm")
    last_keys: ClassVar[tuple[str, ...]] = ()  # the keys of all settings have always come first

    baseline: Annotated[PathText, Field(min_length=1)] = Field(
        default=DEFAULT_BASELINE,
        description="The candidate that ratios refer to; best[:FROM:TO] for the best heuristic of a training range.",
    )
    workload: WorkloadOptions = Field(default_factory=WorkloadOptions, description="Conversion of a log to jobs.")
    generated_estimates: Literal["tsafrir", "exact"] = Field(
        default="tsafrir", description="Requested times of generated workloads."
    )
    contention: Annotated[str, OneOf(CONTENTION_MODELS)] = Field(
        default="step", description="Speed of cores whose memory bandwidth is over-committed."
    )
    node_power: NodePowerOptions | None = Field(
        default=None, description="Times and powers of switching nodes off; null: they are always on."
    )
    site_rules: bool = Field(
        default=True, description="True to apply the rules of a site in the folder of the platform."
    )
    simulator: Literal["embedded", "exact", "slurm"] = Field(
        default="embedded",
        description="The simulator: the compiled ones, the exact engine, or a real Slurm on this host.",
    )
    slurm: RealSlurmOptions = Field(default_factory=RealSlurmOptions, description="Settings of a real Slurm.")
    energy: bool | None = Field(
        default=None, description="True to account for energy; by default if the platform has powers."
    )

    @model_validator(mode="after")
    def _check_job_range(self) -> Self:
        for name in ("custom", "start", "shift"):
            if getattr(self.workload, name) != WorkloadOptions.model_fields[name].default:
                raise ValueError(f"workload.{name} is no option of a comparison: use workloads, range and windows")
        return self

    @model_validator(mode="before")
    @classmethod
    def _slurm_is_the_baseline_of_a_real_slurm(cls, data: Any) -> Any:
        is_slurm = isinstance(data, dict) and data.get("simulator") == "slurm"
        return {"baseline": "slurm", **data} if is_slurm else data

    @model_validator(mode="after")
    def _has_no_energy_in_a_real_slurm(self) -> Self:
        if self.simulator == "slurm" and self.energy:
            raise ValueError("energy is true, but a real Slurm measures none")
        return self

    @property
    def setting_name(self) -> str:
        """Name of the setting."""
        return "batch"

    def completed(self, machine: Machine, *, baseline: str, metrics: Sequence[str]) -> Self:
        """Return the sweep with energy as the platform allows it, and metrics of energy only where it is known."""
        has_power = bool(getattr(machine, "has_power", False)) and getattr(machine, "site", None) is None
        has_power = has_power and self.simulator != "slurm"
        found = self.model_copy(update={"energy": has_power if self.energy is None else self.energy})
        usual = [name for name in metrics if found.energy or name not in ENERGY_METRICS]
        if not found.energy:
            wanted = [name for name in self.metrics or () if name in ENERGY_METRICS]
            if wanted:
                has_rules = getattr(machine, "site", None) is not None
                lacks = "has the rules of a site" if has_rules else "has no power figures"
                why = "energy is false" if has_power else f"{self.platform} {lacks}"
                if self.simulator == "slurm":
                    why = f"simulator {self.simulator!r} measures none"
                raise OptionsError(f"{self.where}: metrics names {wanted[0]}, but there is no energy: {why}")
        return super(BatchSweep, found).completed(machine, baseline=baseline, metrics=usual)

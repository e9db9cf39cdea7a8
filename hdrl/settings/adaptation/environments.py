"""The environment of adaptation, as trainings and model files ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hdrl.setting import EnvironmentSpec
from hdrl.settings.adaptation.load import Jobs
from hdrl.settings.adaptation.machine import Device
from hdrl.settings.adaptation.options import AdaptationOptions, AdaptationSweep


class AdaptationSpec(EnvironmentSpec[AdaptationOptions, AdaptationSweep, Device, Jobs]):
    """Deepening jobs, see `hdrl.setting.EnvironmentSpec`."""

    id = "hdrl/Adaptation-v0"

    def goal(self, arguments: Mapping[str, Any]) -> tuple[str, int]:
        """Return the validation accuracy, of which more is better."""
        del arguments
        return "mean_validation_accuracy", 1

    def player(
        self,
        machine: Device,
        load: Jobs,
        arguments: Mapping[str, Any],
        options: AdaptationOptions | AdaptationSweep | None = None,
    ) -> Any:
        """Return an environment in which a model decides about all jobs, each being one training."""
        del options
        from hdrl.settings.adaptation.env import AdaptationEnv

        return AdaptationEnv(machine=machine, load=load, n_jobs="all", **{**arguments, "outcome": "drawn"})

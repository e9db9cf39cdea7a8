"""The environment of adaptation, as trainings and model files ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hdrl.settings.adaptation.load import Jobs
from hdrl.settings.adaptation.machine import Device


class AdaptationSpec:
    """Deepening jobs, see `hdrl.setting.EnvironmentSpec`."""

    id = "hdrl/Adaptation-v0"
    given = frozenset(
        ("machine", "load", "n_jobs", "start", "part", "num_envs", "autoreset_mode", "copy", "render_mode")
    )

    def arguments(self, options: Any) -> dict[str, Any]:
        """Return nothing: all that options say elsewhere is in the load.

        Parameters
        ----------
        options
            Not looked at.
        """
        del options
        return {}

    def places(self, machine: Device, load: Jobs, window: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the arguments that say what is simulated.

        Parameters
        ----------
        machine, load, window
            See `hdrl.setting.EnvironmentSpec.places`.
        """
        return {"n_jobs": "all", "machine": machine, "load": load, **(window or {})}

    def action_names(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return none: how many blocks there are depends on the model.

        Parameters
        ----------
        arguments
            Not looked at.
        """
        del arguments
        return ()

    def goal(self, arguments: Mapping[str, Any]) -> tuple[str, int]:
        """Return the validation accuracy, of which more is better.

        Parameters
        ----------
        arguments
            Not looked at.
        """
        del arguments
        return "mean_validation_accuracy", 1

    def refuses(self, machine: Device, load: Jobs, arguments: Mapping[str, Any]) -> str | None:
        """Return ``None``: it reads the tables that policies are judged by.

        Parameters
        ----------
        machine, load, arguments
            Not looked at.
        """
        del machine, load, arguments
        return None

    def meaning(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return nothing: no default depends on another argument.

        Parameters
        ----------
        arguments
            Not looked at.
        """
        del arguments
        return {}

    def unplayable(self, arguments: Mapping[str, Any]) -> str | None:
        """Return ``None``: all models can be played.

        Parameters
        ----------
        arguments
            Not looked at.
        """
        del arguments
        return None

    def player(self, machine: Device, load: Jobs, arguments: Mapping[str, Any], options: Any = None) -> Any:
        """Return an environment in which a model decides about all jobs, each being one training.

        Parameters
        ----------
        machine, load, arguments, options
            See `hdrl.setting.EnvironmentSpec.player`.
        """
        del options
        from hdrl.settings.adaptation.env import AdaptationEnv

        return AdaptationEnv(machine=machine, load=load, n_jobs="all", **{**arguments, "outcome": "drawn"})

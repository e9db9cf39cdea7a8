"""The environments of adaptation, as trainings and model files ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.setting import EnvironmentSpec, Fingerprints, Index, Indexed
from hdrl.settings.adaptation.load import Jobs
from hdrl.settings.adaptation.machine import Device
from hdrl.settings.adaptation.options import AdaptationOptions, AdaptationSweep


class AdaptationSpec(EnvironmentSpec[AdaptationOptions, AdaptationSweep, Device, Jobs], Fingerprints[Device, Jobs]):
    """Deepening jobs, see `hdrl.setting.EnvironmentSpec`."""

    id = "hdrl/Adaptation-v0"
    run_length = 1

    def objective(self, arguments: Mapping[str, Any]) -> tuple[str, int]:
        """Return the validation accuracy, where more is better."""
        del arguments
        return "mean_validation_accuracy", 1

    def item_fingerprints(self, machine: Device, load: Jobs) -> NDArray[np.int64]:
        """Return the table and the training of each job; jobs of other parts of a load are often the same ones."""
        del machine
        tables = np.array([int(table.sha256()[:12], 16) for table in load.tables], dtype=np.int64)
        return tables[load.table] ^ (load.draw << 48)

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


class AdaptationIndexSpec(AdaptationSpec, Indexed[Device, Jobs]):
    """Weights of an index over blocks, judged by windows of jobs, see `hdrl.setting.EnvironmentSpec`."""

    id = "hdrl/AdaptationIndex-v0"

    def player(
        self,
        machine: Device,
        load: Jobs,
        arguments: Mapping[str, Any],
        options: AdaptationOptions | AdaptationSweep | None = None,
    ) -> Any:
        """Return an environment in which weights decide about all jobs, each being one training."""
        del arguments, options
        from hdrl.settings.adaptation.index_env import AdaptationIndexPlayer

        return AdaptationIndexPlayer(machine=machine, load=load)

    def index(self, arguments: Mapping[str, Any]) -> Index:
        """Return the names of the weights, and the start of evolution."""
        del arguments
        from hdrl.settings.adaptation.index import NAMES, SIGMA, start_weights

        return Index(tuple(NAMES), start_weights(), SIGMA)

    def run_index(
        self,
        machine: Device,
        loads: Sequence[Jobs],
        weights: NDArray[np.float64],
        arguments: Mapping[str, Any],
        *,
        n_threads: int = 1,
    ) -> NDArray[np.float64]:
        """Run whole loads under candidates; more threads than one bring nothing."""
        del machine, arguments, n_threads
        from hdrl.settings.adaptation.index import run_index

        return run_index(loads, weights)

"""The environment of pipelines, as trainings and model files ask for it."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import OptionsError
from hdrl.setting import Configured, EnvironmentSpec, Index, Indexed
from hdrl.settings.pipelines.loads.load import PipelineLoad
from hdrl.settings.pipelines.machine import CPU, GPU, Units
from hdrl.settings.pipelines.options import GENERATED, PipelineOptions, PipelineSweep

LATE = "late_releases"


class PipelinesSpec(EnvironmentSpec[PipelineOptions, PipelineSweep, Units, PipelineLoad], Configured[PipelineLoad]):
    """Giving ready kernels to units, see `hdrl.setting.EnvironmentSpec`."""

    id = "hdrl/Pipelines-v0"
    given = EnvironmentSpec.given | {"redraw"}

    def arguments(self, options: PipelineOptions) -> dict[str, Any]:
        """Return that of several generated sets all sizes are seen that any set of the model could have.

        So a model can be played on sets that it has not seen.
        """
        load = options.load
        is_one = options.workload != GENERATED or (load.sets == 1 and len(load.utilizations) < 2)
        return {} if is_one else {"n_depths": load.model.n_kernels[1]}

    def configurations(self, load: PipelineLoad) -> tuple[int, ...]:
        """Return the first items of successive sets, or periods."""
        found: tuple[int, ...] = load.first_items
        return found

    def configuration_coordinates(self, load: PipelineLoad) -> list[tuple[float, ...]]:
        """Return the logarithms of the periods of each configuration, and what pipelines need, by pipeline.

        What a pipeline needs is its least unit time per period: sets of the same seed differ in that alone.
        """
        from hdrl.settings.pipelines.loads.covers import demand_us

        needs_us = np.array([demand_us(one, (CPU, GPU)) for one in load.pipelines])
        found = []
        for first, end in itertools.pairwise((*load.first_items, load.n_items)):
            table = load.instances[first:end]
            pipelines, positions = np.unique(table["pipeline"], return_index=True)
            periods_us = table["period_us"][positions]
            found.append((*elementary.log(periods_us).tolist(), *(needs_us[pipelines] / periods_us).tolist()))
        return found

    def configuration_now(self, env: Any, load: PipelineLoad) -> int:
        """Return the configuration of the instance that was released last."""
        return bisect.bisect_right(load.first_items, max(0, env.batch.n_released(0) - 1)) - 1

    def action_names(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return kinds of units and depths where an action means them; else none: it is a position in a table."""
        n_depths = arguments.get("n_depths")
        if arguments.get("compatibility") is None or n_depths is None:
            return ()
        return tuple(f"{kind}+{depth}" for kind in ("cpu", "gpu") for depth in range(n_depths))

    def objective(self, arguments: Mapping[str, Any]) -> tuple[str, int]:
        """Return the objective, where less is better, whatever the rewards on the way are."""
        return str(arguments.get("objective", "miss_ratio")), -1

    def unplayable_reason(self, arguments: Mapping[str, Any], machine: Units | None = None) -> str | None:
        """Return why its models are not played beside policies: rlschedsim notices releases too late."""
        del machine
        errors = arguments.get("errors")
        if arguments.get("compatibility") is not None and (errors is None or LATE in errors):
            return (
                "rlschedsim notices releases late, so that its world is not that of the policies;"
                ' "errors": ["whole_running_times", "worst_queued_times"] leaves that out'
            )
        return None

    def player(
        self,
        machine: Units,
        load: PipelineLoad,
        arguments: Mapping[str, Any],
        options: PipelineOptions | PipelineSweep | None = None,
    ) -> Any:
        """Return an environment in which a model decides about all instances, with their true times.

        Raise OptionsError if its world is not that of the policies.
        """
        del options
        why = self.unplayable_reason(arguments)
        if why is not None:
            raise OptionsError(why)
        from hdrl.settings.pipelines.envs.env import PipelinesEnv

        return PipelinesEnv(machine=machine, load=load, n_jobs="all", redraw=False, **arguments)


class PipelinesIndexSpec(
    EnvironmentSpec[PipelineOptions, PipelineSweep, Units, PipelineLoad], Indexed[Units, PipelineLoad]
):
    """Weights of an index of kernels, judged by windows of sets, see `hdrl.setting.EnvironmentSpec`."""

    id = "hdrl/PipelinesIndex-v0"

    def objective(self, arguments: Mapping[str, Any]) -> tuple[str, int]:
        """Return the metric of its objective; less of each is better."""
        return str(arguments.get("objective", "miss_ratio")), -1

    def player(
        self,
        machine: Units,
        load: PipelineLoad,
        arguments: Mapping[str, Any],
        options: PipelineOptions | PipelineSweep | None = None,
    ) -> Any:
        """Return an environment in which weights decide about all instances."""
        del options
        from hdrl.settings.pipelines.envs.index import PipelinesIndexPlayer

        return PipelinesIndexPlayer(machine=machine, load=load, objective=self.objective(arguments)[0])

    def index(self, arguments: Mapping[str, Any]) -> Index:
        """Return the names of the weights, and the start of evolution."""
        del arguments
        from hdrl.settings.pipelines.simulation.index import NAMES, SIGMA, start_weights

        return Index(tuple(NAMES), start_weights(), SIGMA)

    def run_index(
        self,
        machine: Units,
        loads: Sequence[PipelineLoad],
        weights: NDArray[np.float64],
        arguments: Mapping[str, Any],
        *,
        n_threads: int = 1,
    ) -> NDArray[np.float64]:
        """Run whole loads under candidates, in one compiled call for each thread."""
        from hdrl.settings.pipelines.envs.options import OBJECTIVES
        from hdrl.settings.pipelines.simulation.index import run_index

        objective = OBJECTIVES[self.objective(arguments)[0]]
        return run_index(machine, loads, weights, objective=objective, n_threads=n_threads)

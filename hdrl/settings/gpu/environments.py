"""The environment of GPU clusters, as trainings and model files ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError
from hdrl.setting import EnvironmentSpec, Fingerprints, Index, Indexed
from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.loads.load import GpuLoad
from hdrl.settings.gpu.options import GpuOptions, GpuSweep

_PHYSICS = frozenset(("restart_s", "checkpoint_s", "tie", "node_order", "levels"))
"""Arguments that are rules of the world, not choices of the learner."""


def _named_rules(options: GpuOptions | GpuSweep) -> dict[str, Any]:
    """Return the rules of options or of a sweep; refuse rounds, which agents do not have."""
    rules = options.rules
    if rules.round_s > 0.0:
        raise OptionsError(f"{options.where}: rules.round_s has no effect on agents, which decide at events")
    same = {name: getattr(rules, name) for name in ("checkpoint_s", "tie", "node_order")}
    return {"restart_s": list(rules.restart_s), "levels": list(rules.levels), **same}


class GpuClusterSpec(EnvironmentSpec[GpuOptions, GpuSweep, GpuCluster, GpuLoad], Fingerprints[GpuCluster, GpuLoad]):
    """Starting and preempting jobs, see `hdrl.setting.EnvironmentSpec`."""

    id = "hdrl/GpuCluster-v0"
    physics = _PHYSICS
    given = EnvironmentSpec.given | physics | {"records", "seed_of_rules"}

    def arguments(self, options: GpuOptions) -> dict[str, Any]:
        """Return the rules by which jobs are simulated; the compatibility mode has none."""
        if not self.is_compatible(options.learning.arguments):
            return _named_rules(options)
        if options.rules != type(options.rules)():
            raise OptionsError(f"{options.where}: rules have no effect with compatibility, whose world has its own")
        return {}

    @staticmethod
    def is_compatible(arguments: Mapping[str, Any]) -> bool:
        """Return whether it is the environment of the DRL scheduler for GPU clusters."""
        return arguments.get("compatibility") is not None

    def objective(self, arguments: Mapping[str, Any]) -> tuple[str, int]:
        """Return the objective, where less is better."""
        return str(arguments.get("objective", "mean_jct_s")), -1

    def unplayable_reason(self, arguments: Mapping[str, Any], machine: GpuCluster | None = None) -> str | None:
        """Return why its models are not played beside policies: the original's rules are others."""
        del machine
        if self.is_compatible(arguments):
            return "compatibility 'drl-gpu' starts at most one job in a second, so that its world is not the policies'"
        return None

    def uses_hidden_information(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether agents see how long jobs take: traces of GPU clusters hold no requested times."""
        return bool(arguments.get("sees_durations", True))

    def item_fingerprints(self, machine: GpuCluster, load: GpuLoad) -> NDArray[np.int64]:
        """Return the GPUs, the share of a GPU and the work of each job; the machine is not looked at."""
        del machine
        jobs = load.jobs
        work = np.minimum(np.rint(jobs["work"]), 2.0**40).astype(np.int64)
        return np.asarray((((jobs["n_gpus"] << 10) + jobs["gpu_milli"]) << 40) ^ work)

    def player(
        self,
        machine: GpuCluster,
        load: GpuLoad,
        arguments: Mapping[str, Any],
        options: GpuOptions | GpuSweep | None = None,
    ) -> Any:
        """Return an environment in which a model decides about all jobs."""
        from hdrl.settings.gpu.envs.env import GpuClusterEnv

        rules = {} if options is None else _named_rules(options)
        # Rewards are not looked at, so that their unit need not be simulated.
        chosen = {**arguments, **rules, "reference": None}
        return GpuClusterEnv(machine=machine, load=load, n_jobs="all", records=True, **chosen)


class GpuIndexSpec(EnvironmentSpec[GpuOptions, GpuSweep, GpuCluster, GpuLoad], Indexed[GpuCluster, GpuLoad]):
    """Weights of an index of jobs, judged by windows of loads, see `hdrl.setting.EnvironmentSpec`."""

    id = "hdrl/GpuIndex-v0"
    physics = _PHYSICS
    given = EnvironmentSpec.given | _PHYSICS

    def arguments(self, options: GpuOptions) -> dict[str, Any]:
        """Return the rules by which jobs are simulated."""
        return _named_rules(options)

    def objective(self, arguments: Mapping[str, Any]) -> tuple[str, int]:
        """Return the metric of its objective; less of each is better."""
        return str(arguments.get("objective", "mean_jct_s")), -1

    def player(
        self,
        machine: GpuCluster,
        load: GpuLoad,
        arguments: Mapping[str, Any],
        options: GpuOptions | GpuSweep | None = None,
    ) -> Any:
        """Return an environment in which weights decide about all jobs."""
        from hdrl.settings.gpu.envs.index import GpuIndexPlayer

        rules = None if options is None else options.rules.rules()
        return GpuIndexPlayer(machine=machine, load=load, rules=rules, objective=self.objective(arguments)[0])

    def index(self, arguments: Mapping[str, Any]) -> Index:
        """Return the names of the weights, and the start of evolution."""
        del arguments
        from hdrl.settings.gpu.policies.weights import NAMES, SIGMA, start_weights

        return Index(tuple(NAMES), start_weights(), SIGMA)

    def run_index(
        self,
        machine: GpuCluster,
        loads: Sequence[GpuLoad],
        weights: NDArray[np.float64],
        arguments: Mapping[str, Any],
        *,
        n_threads: int = 1,
    ) -> NDArray[np.float64]:
        """Run whole loads under candidates, in one compiled call for each thread."""
        from hdrl.settings.gpu.policies.weights import checked_weights
        from hdrl.settings.gpu.simulation.index import INDEX, play

        found = play(machine, loads, INDEX, np.atleast_2d(checked_weights(weights)), n_threads=n_threads)
        return found.objective(self.objective(arguments)[0])

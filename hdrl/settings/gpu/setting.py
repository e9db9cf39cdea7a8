"""GPU clusters: what makes a setting of them, in its parts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from hdrl.metrics import UNRUN, with_roles
from hdrl.setting import (
    Cautions,
    Inputs,
    LoadGenerator,
    Measures,
    Message,
    Policy,
    Progress,
    Setting,
    Simulator,
)
from hdrl.settings.gpu.cluster.machine import GpuCluster, read_cluster, shipped_clusters
from hdrl.settings.gpu.environments import GpuClusterSpec, GpuIndexSpec
from hdrl.settings.gpu.figures import FIGURES, GpuView
from hdrl.settings.gpu.files import FILES
from hdrl.settings.gpu.ignored_keys import POISSON, check_load_options, check_rules, kind_of
from hdrl.settings.gpu.inputs import adapting, load_of, poisson_model
from hdrl.settings.gpu.loads.history import unknown_users_caution
from hdrl.settings.gpu.loads.load import GpuLoad, check_runs_on
from hdrl.settings.gpu.loads.synthetic import Poisson, at_offered_load
from hdrl.settings.gpu.metrics import METRICS, compute_metrics
from hdrl.settings.gpu.named_policies import GpuPolicies
from hdrl.settings.gpu.options import GpuOptions, GpuSweep
from hdrl.settings.gpu.policies.names import learns
from hdrl.trace.model import TaskTrace

_LOG = logging.getLogger(__name__)

HIGHEST_LOAD, LOWEST_LOAD = 1.0, 0.05
"""Offered loads above and below which a comparison says nothing about schedulers."""


class GpuInputs(
    Inputs[GpuOptions, GpuSweep, GpuCluster, GpuLoad],
    LoadGenerator[GpuSweep, GpuCluster, GpuLoad],
    Cautions[GpuSweep, GpuCluster, GpuLoad],
):
    """Clusters, and loads of traces and generators."""

    Options = GpuOptions
    Sweep = GpuSweep
    generator = POISSON

    def shipped_machines(self) -> Mapping[str, str]:
        """Return the shipped clusters."""
        return dict.fromkeys(shipped_clusters(), "")

    def machine(self, options: GpuOptions | GpuSweep) -> GpuCluster:
        """Read the cluster."""
        return read_cluster(options.platform, options.folder)

    def load(self, options: GpuOptions, machine: GpuCluster) -> GpuLoad:
        """Read or generate the load of an experiment."""
        check_load_options(options, [kind_of(options.workload)])
        load = load_of(options, options.workload, machine, options.load.offered)
        for fault in load.faults:
            _LOG.warning("%s: %s", load.name, fault)
        return load

    def loads(self, sweep: GpuSweep, machine: GpuCluster) -> list[GpuLoad]:
        """Read the loads of a comparison; each at several offered loads if the sweep names several."""
        offered = sweep.load.offered
        check_load_options(sweep, map(kind_of, sweep.workloads))
        if not isinstance(offered, list):
            return [load_of(sweep, text, machine, offered) for text in sweep.workloads]
        found = [(load_of(sweep, text, machine, one), one) for text in sweep.workloads for one in offered]
        return [replace(load, name=f"{load.name} at {one:g}") for load, one in found]

    def generate(
        self, sweep: GpuSweep, machine: GpuCluster, n_items: int, *, offered_load: float, seed: int
    ) -> GpuLoad:
        """Make jobs by the Poisson generator."""
        model = poisson_model(sweep.load)
        most = int(machine.gpus_of_type.max())
        if model.max_gpus > most and sweep.load.poisson.max_gpus == Poisson().max_gpus:
            model = replace(model, max_gpus=most, min_gpus=min(model.min_gpus, most))
        load = at_offered_load(model, n_items, machine, offered_load, seed)
        check_runs_on(load, machine)
        return adapting(load, sweep, machine, seed)

    def offered_load(self, machine: GpuCluster, load: GpuLoad) -> float | None:
        """Return the GPU time that arrives per time, as a share of all GPUs."""
        return load.offered(machine)

    def exact_estimates(self, sweep: GpuSweep, loads: Sequence[GpuLoad]) -> list[str]:
        """Return the loads without requested times: policies that use durations have the true ones there."""
        del sweep
        return [load.name for load in loads if np.isnan(load.jobs["requested_s"]).all()]

    def cautions(self, sweep: GpuSweep, machine: GpuCluster, loads: Sequence[GpuLoad]) -> list[tuple[str, str]]:
        """Return cautions for readers: faults of traces, loads that no scheduler can serve, or that need none."""
        found = []
        advice = "so results show little about schedulers; load.offered stretches the arrivals"
        for load in loads:
            offered = load.offered(machine)
            if offered is not None and offered > HIGHEST_LOAD:
                words = f"the offered load on {machine.name} is {offered:.3g}: queues grow until the end, {advice}"
                found.append(("overload", f"{load.name}: {words}"))
            elif offered is not None and offered < LOWEST_LOAD:
                words = f"the offered load on {machine.name} is {offered:.3g}: hardly a job waits, {advice}"
                found.append(("idle", f"{load.name}: {words}"))
            found += [("trace", f"{load.name}: {fault}") for fault in load.faults]
        groups = GpuPolicies().groups()
        if any(learns(name) for text in sweep.candidates for name in groups.get(text, [text])):
            found += [("history", f"{load.name} {words}") for load in loads if (words := unknown_users_caution(load))]
        return found


class GpuSimulator(Simulator[GpuOptions, GpuSweep, GpuCluster, GpuLoad, TaskTrace]):
    """The kernel of jobs, and Gavel's rounds."""

    def warm_up(self, policies: Iterable[Policy], message: Message) -> None:
        """Compile the simulator."""
        del policies
        from hdrl.settings.gpu.simulation.events import warm_up

        warm_up(message)

    def simulate(
        self,
        machine: GpuCluster,
        load: GpuLoad,
        policy: Policy,
        *,
        seed: int,
        options: GpuOptions | GpuSweep | None = None,
        progress: Progress | None = None,
        folder: Path | None = None,
    ) -> TaskTrace:
        """Simulate a load under a policy."""
        del folder
        from hdrl.settings.gpu.policies.names import read_policy
        from hdrl.settings.gpu.policies.shares import SHARES
        from hdrl.settings.gpu.simulation.events import simulate
        from hdrl.settings.gpu.simulation.rounds import simulate_rounds

        name = str(policy)  # all are named
        if name in SHARES:
            round_s = 0.0 if options is None else options.rules.round_s
            if options is not None:
                check_rules(options.rules, name)
            return simulate_rounds(machine, load, name, seed=seed, round_s=round_s, progress=progress)
        rules = None if options is None else options.rules.rules()
        return simulate(machine, load, read_policy(name), seed=seed, rules=rules, progress=progress)


SETTING = Setting(
    name="gpu",
    title="deep-learning jobs on clusters of GPUs of several types",
    inputs=GpuInputs(),
    simulator=GpuSimulator(),
    policies=GpuPolicies(),
    measures=Measures(
        with_roles(
            METRICS,
            compared=("mean_jct_s", "p95_jct_s", "mean_slowdown", "mean_fair_rho", "utilization"),
            shown=(
                *("n_jobs", "makespan_s", "mean_jct_s", "p95_jct_s", "p99_jct_s", "mean_queueing_s", "mean_slowdown"),
                *("mean_fair_rho", "share_unfair", "utilization", "flops_utilization", "n_preemptions", *UNRUN),
                *("mean_value", "mean_grant", "share_without_result", "grant_regret", "advice_regret"),
            ),
            headline=("n_finished", "mean_jct_s", "p95_jct_s", "mean_slowdown", "utilization"),
        ),
        compute_metrics,
    ),
    view=GpuView("GPU", FILES, FIGURES),
    environments=MappingProxyType({"gpu_cluster": GpuClusterSpec(), "gpu_index": GpuIndexSpec()}),
)
"""GPU clusters."""

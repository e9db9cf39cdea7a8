"""Machines and loads as options name them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hdrl.base.errors import OptionsError
from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.cluster.throughputs import Throughputs, read_throughputs
from hdrl.settings.gpu.ignored_keys import GAVEL, POISSON
from hdrl.settings.gpu.loads import google
from hdrl.settings.gpu.loads.gavel_jobs import gavel_load
from hdrl.settings.gpu.loads.gavel_trace import GAVEL_STEPS
from hdrl.settings.gpu.loads.load import GpuLoad, check_runs_on, without_unrunnable
from hdrl.settings.gpu.loads.readers import read_trace
from hdrl.settings.gpu.loads.synthetic import Poisson, poisson_load
from hdrl.settings.gpu.loads.values import draw_values, read_values
from hdrl.settings.gpu.options import AdaptingOptions, AnyLoadOptions

GENERATORS = (POISSON, GAVEL)
"""Workloads that are generated."""

N_GENERATED = 1000
"""Number of generated jobs unless ``nb_jobs`` is set."""


def poisson_model(options: AnyLoadOptions) -> Poisson:
    """Return the model of generated jobs."""
    values = options.poisson.model_dump()
    values["priorities"] = tuple(values["priorities"])
    return Poisson(**values, speeds=options.speeds or "flops")


def load_of(options: Any, text: str, cluster: GpuCluster, offered: float | None) -> GpuLoad:
    """Return the load that an experiment or a comparison names, and check that the cluster can run it.

    Arrivals are stretched to the offered load, if there is one.
    """
    load: AnyLoadOptions = options.load
    found = _source(options, text)
    if load.unrunnable == "leave out":
        found = without_unrunnable(found, cluster)
    if options.nb_jobs is not None and options.nb_jobs < found.n_items:
        found = found.window(0, options.nb_jobs)
    if load.spread_speed != 1.0:
        found = replace(found, spread_speed=load.spread_speed)
    if offered is not None:
        found = found.scaled(cluster, offered)
    check_runs_on(found, cluster)
    return adapting(found, options, cluster, load.seed)


def adapting(load: GpuLoad, options: Any, cluster: GpuCluster, seed: int) -> GpuLoad:
    """Return a load of jobs that adapt and end at their deadlines, if options say so; the load itself if not.

    Users say how long these jobs train, so this is public.
    """
    chosen: AdaptingOptions | None = options.load.adapting
    if chosen is None:
        return load
    jobs = load.jobs.copy()
    jobs["deadline_s"] = jobs["arrival_s"] + chosen.deadline * load.mean_s(cluster)
    jobs["requested_s"] = load.isolated_s(cluster)
    values = draw_values(read_values(options.path_of(chosen.values)), load.n_items, seed)
    return replace(load, jobs=jobs, values=values, origin={**load.origin, "deadline": chosen.deadline})


def _source(options: Any, text: str) -> GpuLoad:
    load, n = options.load, options.nb_jobs or N_GENERATED
    if text == POISSON:
        return poisson_load(poisson_model(load), n, load.seed)
    if text == GAVEL:
        model = load.gavel
        return gavel_load(
            _throughputs(options),
            n,
            jobs_per_hour=model.jobs_per_hour,
            seed=load.seed,
            multi_gpu=model.multi_gpu,
            multi_priority=model.multi_priority,
        )
    path = options.path_of(text)
    if "/" not in text and "." not in text and not path.is_file():
        raise OptionsError(
            f"{options.where}: workload {text!r} is not a file, and none of the generators {', '.join(GENERATORS)}"
        )
    throughputs = None if load.throughputs is None else read_throughputs(options.path_of(load.throughputs))
    found = read_trace(
        path,
        form=load.form,
        speeds=load.speeds,
        gpus_per_machine=load.gpus_per_machine,
        throughputs=throughputs,
        columns=load.columns,
    )
    form, usual = found.origin["format"], AnyLoadOptions().gpus_per_machine
    if throughputs is not None and form != GAVEL_STEPS:
        raise OptionsError(
            f"{options.where}: load.throughputs has no effect on {text}: its format {form} holds the durations of jobs"
        )
    if load.gpus_per_machine != usual and form not in google.FORMATS:
        raise OptionsError(
            f"{options.where}: load.gpus_per_machine has no effect on {text}, whose format {form} has GPUs"
        )
    return found


def _throughputs(options: Any) -> Throughputs:
    if options.load.throughputs is None:
        raise OptionsError(
            f"{options.where}: workload 'gavel' needs load.throughputs, the path of simulation_throughputs.json"
        )
    return read_throughputs(options.path_of(options.load.throughputs))

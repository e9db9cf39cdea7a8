"""Agents that learned in the world of the DRL scheduler for GPU clusters, beside its baselines, on its traces."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.compat.drl_gpu.env import GpuSecondsEnv
from hdrl.compat.drl_gpu.playing import BASELINES, ERRORS, play_baseline, read_cut_trace
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, Playable
from hdrl.experiments.gpu import SEED_END_S, SEED_LOADS, SEED_TRACES
from hdrl.metrics.statistics import Bootstrap
from hdrl.settings.gpu.cluster.machine import GpuCluster, read_cluster
from hdrl.settings.gpu.loads.load import GpuLoad
from hdrl.settings.gpu.loads.synthetic import Poisson, at_offered_load
from hdrl.trace.model import TaskState

N_JOBS, N_LOADS = 200, 10
"""Number of jobs of a generated load, and of loads at each offered load."""

TIME_TO_END_S = 50_000.0
"""Time allowed to jobs behind the last arrival of a generated load, in seconds."""


class DecideOnChange(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose agent decides again only when its observation has changed.

    Its observations hold no times, and an agent that takes its best action takes the same one until they change: this
    is what asking in every second comes to, without the millions of questions. Rewards in between are left out.
    """

    def __init__(self, env: GpuSecondsEnv) -> None:
        super().__init__(env)
        self._batch = env.batch
        self._seen: Any = None

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._seen, info = self.env.reset(**arguments)
        return self._seen, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action, again and again until something else is seen."""
        while True:
            before, counts = self._seen, self._batch.counts(0)
            self._seen, reward, terminated, truncated, info = self.env.step(action)
            if terminated or truncated or not np.array_equal(self._seen, before):
                return self._seen, float(reward), terminated, truncated, info
            if self._batch.counts(0) == counts:
                self._batch.skip(0)


def play_model(model: Playable, cluster: GpuCluster, load: GpuLoad, *, until_s: float) -> tuple[int, float, float]:
    """Return the number of jobs that a model finishes, and the mean completion times of these and of all that arrived.

    Parameters
    ----------
    model
        A model of ``hdrl/GpuCluster-v0`` with ``compatibility="drl-gpu"``.
    until_s
        Its end in seconds, from the first arrival on; jobs that are not done by then count up to it.
    """
    from hdrl.learn.evaluate import play
    from hdrl.learn.threads import torch_threads

    errors = model.environment["arguments"].get("errors")
    env = GpuSecondsEnv(machine=cluster, load=load, n_jobs="all", errors=errors, max_s=until_s)
    with torch_threads(1):
        play(model.agent(env.batch), DecideOnChange(env), seed=0)
    trace = env.trace()
    tasks, is_done = trace.tasks, trace.tasks["state"] == TaskState.DONE
    jct_s = np.where(is_done, tasks["end_s"], trace.end_s) - tasks["release_s"]
    has_arrived = tasks["state"] != TaskState.NOT_RELEASED
    alone_s = float(jct_s[is_done].mean()) if is_done.any() else math.nan
    return int(is_done.sum()), alone_s, float(jct_s[has_arrived].mean())


@PROTOCOLS.register("gpu-seed-agents")
def gpu_seed_agents(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return the results of agents on the DRL scheduler's traces and on generated jobs, in its world with its errors.

    Parameters
    ----------
    models
        Models of its world, one for each seed.

    References
    ----------
    HenryAJX/DRL_Scheduler, ``logs/* Workload/Trace Data/summary_eval_*.csv``.
    """
    cluster = read_cluster("drl-gpu")
    found: dict[Place, Finding] = {}
    for size in SEED_TRACES:
        load = read_cut_trace(traces[f"alibaba_{size}_workload.csv.gz"])
        until_s = SEED_END_S - float(load.origin["first_date_s"])
        played = [play_model(model, cluster, load, until_s=until_s) for model in models]
        found[size, "jobs done"] = _over_trainings([float(one[0]) for one in played])
        found[size, "mean_jct_s"] = _over_trainings([one[1] for one in played])
    for offered in SEED_LOADS:
        found |= _at_load(cluster, offered, models)
    return found


def _over_trainings(values: Sequence[float]) -> Finding:
    return Finding(float(np.mean(values)), trainings=tuple(values))


def _at_load(cluster: GpuCluster, offered: float, models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return mean completion times of all jobs, done or not, at an offered load, with intervals.

    Numbers of agents are ratios to each baseline, too.
    """
    # The two left out are errors of reports, not of the simulation: without them all jobs count, from the first one on.
    errors = [name for name in ERRORS if name not in ("finished_alone", "utilization_from_0")]
    jct_s: dict[str, list[list[float]]] = {name: [] for name in ("fcfs", "sjf", "agents")}
    done: dict[str, list[list[float]]] = {name: [] for name in jct_s}
    for seed in range(N_LOADS):
        load = at_offered_load(Poisson(speeds="equal"), N_JOBS, cluster, offered, seed)
        until_s = math.floor(float(load.jobs["arrival_s"][-1])) + TIME_TO_END_S
        for name in jct_s:
            if name in BASELINES:
                outcome = play_baseline(cluster, load, name, errors=errors, until_s=until_s)
                played = [(outcome.n_done, math.nan, outcome.mean_jct_s)]
            else:
                played = [play_model(model, cluster, load, until_s=until_s) for model in models]
            jct_s[name].append([one[2] for one in played])
            done[name].append([one[0] / N_JOBS for one in played])
    bootstrap = Bootstrap(np.zeros(N_LOADS, dtype=np.int64))
    found: dict[Place, Finding] = {}
    for name in jct_s:
        row, share, times_s = f"{name} at {offered:g}", np.array(done[name]), np.array(jct_s[name])
        found[row, "share done"] = Finding(float(share.mean()), trainings=_each(share))
        found[row, "mean_jct_s of all"] = Finding(*bootstrap.mean(times_s), trainings=_each(times_s))
    candidate_values = np.array(jct_s["agents"])
    for name in (one for one in jct_s if one in BASELINES):
        reference_values = np.array(jct_s[name])
        each = elementary.exp(elementary.log(candidate_values / reference_values).mean(axis=0))
        ratio = Finding(*bootstrap.ratio(candidate_values, reference_values), trainings=tuple(each.tolist()), null=1.0)
        found[f"agents at {offered:g}", f"mean_jct_s of all, to {name}"] = ratio
    return found


def _each(values: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the means of single trainings; baselines have none."""
    return tuple(values.mean(axis=0).tolist()) if values.shape[1] > 1 else ()

"""Protocols of the batch literature that are more than one comparison: a function each, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.envs.episodes import RLSCHEDULER_N_JOBS, RLSCHEDULER_STARTS
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, Playable, without_models
from hdrl.settings.batch.envs.job_pick import JobPickVectorEnv
from hdrl.settings.batch.metrics import compute_metrics
from hdrl.settings.batch.named_policies import BatchPolicies
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.reader import read_platform
from hdrl.settings.batch.policies import simulate
from hdrl.settings.batch.policies.choices import EASY_ORDERS
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.workload.model import Workload
from hdrl.settings.batch.workload.read import read_workload

LUBLIN = "lublin_256.swf.gz"


def _sequences(traces: Mapping[str, Path]) -> tuple[Platform, list[Workload]]:
    """Return a machine of 256 processors and RLScheduler's ten sequences, with the dates of the log."""
    platform = read_platform("homogeneous:256")
    log = read_workload(traces[LUBLIN], platform, memory="none", bandwidth="none")
    return platform, [log.window(start, RLSCHEDULER_N_JOBS, shift=False) for start in RLSCHEDULER_STARTS]


def _mean_bounded_slowdown(played: Iterable[BatchTrace]) -> float:
    """Return the mean over simulations of their mean bounded slowdown."""
    return float(np.mean([compute_metrics(trace)["mean_bounded_slowdown"] for trace in played]))


@PROTOCOLS.register("rlscheduler-lublin1")
@without_models
def rlscheduler_lublin1(traces: Mapping[str, Path]) -> dict[Place, float]:
    """Return the mean bounded slowdown of priorities on the ten sequences, as RLScheduler measures it.

    The picked job is committed; with "its backfilling" others may overtake in the order of submission if they end, by
    their requested times, before the committed one starts. WFP3 and UNICEF are inverted, as in its program.

    References
    ----------
    D. Zhang et al., "RLScheduler: An Automated HPC Batch Job Scheduler Using Reinforcement Learning", SC'20.
    """
    world = {"compatibility": "rlscheduler"}
    return _of_priorities(
        traces[LUBLIN],
        {
            "no backfilling": world | {"backfilling": "none"},
            "its backfilling": world | {"backfilling": "rlscheduler"},
        },
    )


def _of_priorities(log: Path, worlds: Mapping[str, Mapping[str, Any]]) -> dict[Place, float]:
    """Return the mean bounded slowdown of RLScheduler's priorities on its sequences, in each of some JobPicks."""
    titles = {"fcfs": "FCFS", "wfp3": "WFP3", "unicef": "UNICEF", "sjf": "SJF", "f1": "F1"}
    results: dict[Place, float] = {}
    for column, arguments in worlds.items():
        env = JobPickVectorEnv.of(
            1, workload=log, n_jobs=RLSCHEDULER_N_JOBS, start=list(RLSCHEDULER_STARTS), **arguments
        )
        found = env.run_priorities(list(titles))
        for name, title in titles.items():
            results[title, column] = float(np.mean(found[name]["mean_bounded_slowdown"]))
        env.close()
    return results


@PROTOCOLS.register("rlscheduler-corrected")
@without_models
def rlscheduler_corrected(traces: Mapping[str, Path]) -> dict[Place, float]:
    """Return the same as `rlscheduler_lublin1` beside the priorities as they were published, and under proper EASY.

    Its WFP3 and UNICEF serve first who should come last; the published ones are Tang and others', CLUSTER 2009. Under
    EASY the queue is sorted again at every event, and spare processors are used.
    """
    return _of_priorities(
        traces[LUBLIN],
        {
            "as in RLScheduler": {"compatibility": "rlscheduler", "backfilling": "rlscheduler"},
            "as published": {"commitment": "block", "backfilling": "rlscheduler", "shift": False},
            "as published, EASY": {"commitment": "repick", "backfilling": "easy", "shift": False},
        },
    )


@PROTOCOLS.register("lublin1-easy")
@without_models
def lublin1_easy(traces: Mapping[str, Path]) -> dict[Place, float]:
    """Return the mean bounded slowdown of heuristics on RLScheduler's ten sequences under proper EASY.

    The queue is sorted again at every event, its head has a reservation, and the others are tried in three orders. The
    sequences keep the dates of the log, which F1 to F4 depend on.
    """
    platform, sequences = _sequences(traces)
    results: dict[Place, float] = {}
    for priority in BatchPolicies().groups()["priorities"]:
        for order in EASY_ORDERS:
            policy = f"{priority}+{order}"
            played = (simulate(platform, sequence, policy, energy=False) for sequence in sequences)
            results[priority, order] = _mean_bounded_slowdown(played)
    results["best", "of all"] = min(results.values())
    return results


@PROTOCOLS.register("lublin1-models")
def lublin1_models(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return the mean bounded slowdown of models on RLScheduler's ten sequences, in the environments of their training.

    Models take their best actions. Every sequence begins with an empty machine.

    Parameters
    ----------
    traces
        Holds ``lublin_256.swf.gz``.
    models
        Models of JobPick, one for each seed.
    """
    platform, sequences = _sequences(traces)
    each = []
    for model in models:
        played = (model.play(platform, sequence, as_trained=True) for sequence in sequences)
        each.append(_mean_bounded_slowdown(played))
    return {("all trainings", "mean of ten sequences"): Finding(float(np.mean(each)), trainings=tuple(each))}

"""Protocols of the literature that are more than one comparison: a function each, by name.

A protocol is given the traces that its experiment found and, after a training, the model files; it returns numbers by
row and column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from hdrl.experiment.resulttable import Place
from hdrl.registry import Registry

Protocol = Callable[[Mapping[str, Path], Sequence[Path]], dict[Place, float]]

PROTOCOLS: Registry[Protocol] = Registry("protocol")

RLSCHEDULER_STARTS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
"""First jobs of the ten sequences on which RLScheduler's policies are judged (seed 1 of its program)."""

RLSCHEDULER_JOBS = 1024
"""Jobs of each of them."""


@PROTOCOLS.register("rlscheduler-lublin1")
def rlscheduler_lublin1(traces: Mapping[str, Path], models: Sequence[Path]) -> dict[Place, float]:
    """Return the mean bounded slowdown of priorities on the ten sequences, as RLScheduler measures it.

    The picked job is committed; with "its backfilling" others may overtake in the order of submission if they end, by
    their requested times, before the committed one starts. WFP3 and UNICEF are inverted, as in its program.

    Parameters
    ----------
    traces
        Holds ``lublin_256.swf.gz``.
    models
        Not used: a protocol of fixed priorities.

    References
    ----------
    D. Zhang et al., "RLScheduler: An Automated HPC Batch Job Scheduler Using Reinforcement Learning", SC'20.
    """
    del models
    from hdrl.envs.job_pick import JobPickVectorEnv

    names = {"fcfs": "FCFS", "wfp3": "WFP3", "unicef": "UNICEF", "sjf": "SJF", "f1": "F1"}
    results: dict[Place, float] = {}
    for backfilling, column in (("none", "no backfilling"), ("rlscheduler", "its backfilling")):
        env = JobPickVectorEnv(
            1,
            workload=traces["lublin_256.swf.gz"],
            n_jobs=RLSCHEDULER_JOBS,
            start=list(RLSCHEDULER_STARTS),
            backfilling=backfilling,
            compatibility="rlscheduler",
        )
        found = env.run_priorities(list(names))
        for name, title in names.items():
            results[title, column] = float(np.mean(found[name]["mean_bounded_slowdown"]))
        env.close()
    return results


@PROTOCOLS.register("lublin1-easy")
def lublin1_easy(traces: Mapping[str, Path], models: Sequence[Path]) -> dict[Place, float]:
    """Return the mean bounded slowdown of heuristics on RLScheduler's ten sequences under proper EASY.

    The queue is sorted again at every event, its head has a reservation, and the others are tried in three orders. The
    sequences keep the dates of the log, which F1 to F4 depend on.

    Parameters
    ----------
    traces
        Holds ``lublin_256.swf.gz``.
    models
        Not used: a protocol of fixed priorities.
    """
    del models
    from hdrl.experiment.candidates import BACKFILL_ORDERS, groups
    from hdrl.metrics import compute_metrics
    from hdrl.platform.reader import read_platform
    from hdrl.policies import simulate
    from hdrl.workload.read import read_workload

    platform = read_platform("homogeneous:256")
    log = read_workload(traces["lublin_256.swf.gz"], platform, memory="none", bandwidth="none")
    sequences = [log.window(start, RLSCHEDULER_JOBS, shift=False) for start in RLSCHEDULER_STARTS]
    results: dict[Place, float] = {}
    for priority in groups()["priorities"]:
        for order in BACKFILL_ORDERS:
            policy = f"{priority}+{order}"
            traces_of = (simulate(platform, sequence, policy, energy=False) for sequence in sequences)
            values = [compute_metrics(trace)["mean_bounded_slowdown"] for trace in traces_of]
            results[priority, order] = float(np.mean(values))
    results["best", "of all"] = min(results.values())
    return results


@PROTOCOLS.register("lublin1-models")
def lublin1_models(traces: Mapping[str, Path], models: Sequence[Path]) -> dict[Place, float]:
    """Return the mean bounded slowdown of models on RLScheduler's ten sequences, in the environments of their training.

    Models take their best actions. Every sequence begins with an empty machine.

    Parameters
    ----------
    traces
        Holds ``lublin_256.swf.gz``.
    models
        Model files of JobPick, one for each seed.
    """
    from hdrl.experiment.modeluse import Model
    from hdrl.metrics import compute_metrics
    from hdrl.platform.reader import read_platform
    from hdrl.workload.read import read_workload

    platform = read_platform("homogeneous:256")
    log = read_workload(traces["lublin_256.swf.gz"], platform, memory="none", bandwidth="none")
    sequences = [log.window(start, RLSCHEDULER_JOBS, shift=False) for start in RLSCHEDULER_STARTS]
    results: dict[Place, float] = {}
    for number, path in enumerate(models, start=1):
        model = Model(path)
        played = (compute_metrics(model.play(platform, sequence)) for sequence in sequences)
        results[f"training {number}", "mean of ten sequences"] = float(
            np.mean([metrics["mean_bounded_slowdown"] for metrics in played])
        )
    results["all trainings", "mean of ten sequences"] = float(np.mean(list(results.values())))
    return results

"""Models of JobPick on the last 30 % of three real logs, beside the generalist: by the protocol of `es_held_out`.

Each model decides in its own environment, with the history that a window has for policies of the kernel; all windows of
a log are played at once. Several trainings are reported by their mean, not by that of a model with mean weights, which
for networks would be another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hdrl.setting import Place, Playable
from hdrl.settings.batch.evolution_protocols import (
    FOLLOW_UP,
    JUDGED_FROM,
    LENGTH,
    LOGS,
    WARM_UP,
    Table,
    judged_log,
    outcomes_of,
    pooled,
)
from hdrl.settings.batch.protocols import PROTOCOLS
from hdrl.windows import side_by_side

if TYPE_CHECKING:
    from hdrl.settings.batch.envs.window_judge import JudgedLog

T = TypeVar("T")

GENERALIST = "es-generalist"
_UNGUARDED = "es-unguarded"
"""The generalist as it is judged beside PPO: the same weights without the guard, which windows hardly show."""

_TRAINED_ALONE = ("more_logs", "reward", "reference")
"""Arguments that concern trainings alone."""


@PROTOCOLS.register("ppo-held-out-logs")
def ppo_held_out_logs(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, float]:
    """Return how models of JobPick do on the last parts of three logs, beside the generalist that evolution found.

    Parameters
    ----------
    traces
        Holds the logs of `LOGS`.
    models
        Models of JobPick, one for each seed.
    """
    from hdrl.settings.batch.policies.pairs import read_pair

    results: dict[Place, float] = {}
    names = ("requests", "predictions", "es-generalist")
    tables: dict[tuple[str, str], Table] = {(protocol, name): {} for protocol in _PROTOCOLS for name in names}
    rivals: dict[str, Table] = {name: {} for name in names[:2]}
    for name, (file, n_procs) in LOGS.items():
        log, opponents = judged_log(traces[file], n_procs)
        for protocol, (warm_up, follow_up) in _PROTOCOLS.items():
            kernel = outcomes_of(log, protocol, [*opponents, read_pair(_UNGUARDED)])
            others = np.log([[one.value for one in row] for row in kernel])
            starts = side_by_side((round(JUDGED_FROM * log.workload.n_jobs), log.workload.n_jobs - follow_up), LENGTH)
            own = np.log([values_of(model, log, starts, warm_up, follow_up) for model in models]).T
            for column, opponent in enumerate(names):
                ratios = own - others[:, column : column + 1]
                # In front the mean of the trainings, as the protocol of evolution has its mean model.
                tables[protocol, opponent][name] = np.column_stack([ratios.mean(axis=1), ratios])
                place = name, f"{protocol}, to {opponent}"
                results[place] = float(np.exp(ratios.mean()))
            if protocol == "windows":
                for column, opponent in enumerate(names[:2]):
                    rivals[opponent][name] = others[:, 2:] - others[:, column : column + 1]
    for (protocol, opponent), table in tables.items():
        results |= pooled(table, f"{protocol}, to {opponent}")
    for opponent, table in rivals.items():
        found = pooled(table, f"windows, to {opponent}")
        results |= {(row.replace("all logs", GENERALIST), column): value for (row, column), value in found.items()}
    each = np.mean([table.mean(axis=0) for table in tables["windows", "requests"].values()], axis=0)
    for number, value in enumerate(np.exp(each[1:]), start=1):
        results[f"training {number}", "windows, to requests"] = float(value)
    return results


_PROTOCOLS = {"windows": (0, 0), "padded": (WARM_UP, FOLLOW_UP)}
"""Jobs before and after those that count."""


def values_of(model: Playable, log: JudgedLog, starts: Sequence[int], warm_up: int, follow_up: int) -> list[float]:
    """Return the mean bounded slowdown of windows in which a model of JobPick takes its best actions.

    Parameters
    ----------
    model
        The model.
    log
        The log.
    starts
        Places of the first jobs that count, `LENGTH` each.
    warm_up, follow_up
        Jobs before and after these that are simulated, too.
    """
    from hdrl.learn.threads import torch_threads
    from hdrl.settings.batch.envs.job_pick import JobPickVectorEnv
    from hdrl.settings.batch.envs.window_judge import OBJECTIVES

    arguments: dict[str, Any] = dict(model.environment["arguments"])
    known = {name: value for name, value in arguments.items() if name not in _TRAINED_ALONE}
    n_jobs = warm_up + LENGTH + follow_up
    envs = JobPickVectorEnv(
        len(starts), platform=log.platform, workload=log.workload, n_jobs=n_jobs, start="random", **known
    )
    try:
        with torch_threads(1):  # products this small are slower with more
            started_s = first_episodes(
                model,
                envs,
                {"start": np.array(starts) - warm_up},
                lambda row, _info: envs.trace(row).records["start_s"].copy(),
            )
    finally:
        envs.close()
    values, columns = [], envs.inputs.columns
    for start, dates_s in zip(starts, started_s, strict=True):
        places = slice(start, start + LENGTH)
        wait_s = dates_s[warm_up : warm_up + LENGTH] - columns.submit_s[places]
        values.append(OBJECTIVES["mean_bounded_slowdown"](wait_s, columns.run_s[places]))
    return values


def first_episodes(
    model: Playable, envs: Any, options: Mapping[str, Any], told: Callable[[int, Mapping[str, Any]], T]
) -> list[T]:
    """Return what is reported of the first episode of each row; a row that is done plays others until all are.

    Parameters
    ----------
    model
        Who decides, by its best actions.
    envs
        A batch of environments like that of its training.
    options
        What the first episodes are: options of the reset.
    told
        Gives what is reported of an episode that has just ended: of its row, with the info of that step.
    """
    import torch

    agent = model.agent(envs)
    found: dict[int, T] = {}
    observations, info = envs.reset(seed=0, options=dict(options))
    while len(found) < envs.num_envs:
        mask = torch.from_numpy(info["action_mask"] != 0)
        actions = agent.act(torch.from_numpy(observations), mask, explore=False).actions.numpy()
        observations, _, ended, _, info = envs.step(actions)
        for row in np.flatnonzero(ended).tolist():
            if row not in found:
                found[row] = told(row, info)
    return [found[row] for row in range(envs.num_envs)]

"""Learned policies on the last 30 % of three real logs, beside the generalist: by the protocol of `es_held_out`.

A model of JobPick decides in its own environment, with the history that a window has for policies of the kernel; all
windows of a log are played at once. What has been evolved is a policy of the kernel. Several trainings are reported by
their mean, not by that of a model with mean weights, which for networks would be another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.windows import side_by_side
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.batch_evolution import (
    BY_HAND,
    JUDGED_FROM,
    LENGTH,
    LOGS,
    OPPONENTS,
    PADDING,
    PROTOCOL_NAMES,
    TAILS,
    Table,
    evolved_policy,
    judged_log,
    outcomes_of,
    pooled,
    ratio_of,
)
from hdrl.experiments.findings import Finding, Place, Playable

if TYPE_CHECKING:
    from hdrl.settings.batch.envs.window_judge import JudgedLog, WindowOutcome
    from hdrl.settings.batch.policies.choices import PolicyPair

T = TypeVar("T")

GENERALIST = "es-generalist"
_UNGUARDED = "es-unguarded"
"""The generalist as it is judged beside PPO: the same weights without the guard, which windows hardly show."""

_TRAINED_ALONE = ("more_logs", "reward", "reference")
"""Arguments that concern trainings alone."""


@PROTOCOLS.register("ppo-held-out-logs")
def ppo_held_out_logs(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return the results of trainings on the last parts of three logs, beside the generalist that evolution found.

    Parameters
    ----------
    traces
        Holds the logs of `LOGS`.
    models
        Models of JobPick or JobIndex, of each row one for each seed.

    Returns
    -------
    dict
        Of each row geometric means over its trainings, as ratios to the opponents, the generalist and the index by
        hand, and of the first row also to the means of the others; then the generalist, and the index by hand.
    """
    rows: dict[str, list[Playable]] = {}
    for model in models:
        rows.setdefault(model.row, []).append(model)
    found: dict[Place, Finding] = {}
    tables: dict[Place, Table] = {}
    for name, (file, n_procs) in LOGS.items():
        log, opponents = judged_log(traces[file], n_procs)
        for protocol in PROTOCOL_NAMES:
            outcomes = _all_outcomes(rows, log, opponents, protocol)
            for (row, reference), ratios in _all_ratios(outcomes, list(rows)).items():
                # In front the mean of the trainings, as the protocol of evolution has its mean model.
                each = [ratios] if row in rows else []
                stacked = np.column_stack([ratios.mean(axis=1), *each])
                column = f"{protocol}, to {reference}"
                tables.setdefault((row, column), {})[name] = stacked
                found[f"{row}, {name}", column] = pooled({name: stacked}, column)
            if protocol == "continuous":
                found |= {(f"{row}, {name}", column): one for (row, column), one in _tails(outcomes, rows).items()}
    return found | {(f"{row}, all logs", column): pooled(table, column) for (row, column), table in tables.items()}


Outcomes = Mapping[str, Sequence[Sequence["WindowOutcome"]]]
"""By row or opponent: what came of each window, of each model or of the one policy."""


def _all_outcomes(
    rows: Mapping[str, Sequence[Playable]], log: JudgedLog, opponents: Sequence[PolicyPair], protocol: str
) -> Outcomes:
    """Return the outcomes of a protocol for all: opponents, the two that need no training, all models."""
    from hdrl.settings.batch.policies.indexed import IndexKind
    from hdrl.settings.batch.policies.pairs import read_pair

    by_hand = IndexKind(form="additive")
    policies = [*opponents, read_pair(_UNGUARDED), by_hand.policy(np.zeros(by_hand.n_weights))]
    played = zip(*outcomes_of(log, protocol, policies), strict=True)
    found = {name: [of_policy] for name, of_policy in zip((*OPPONENTS, GENERALIST, BY_HAND), played, strict=True)}
    return found | {row: _outcomes_of_row(models, log, protocol) for row, models in rows.items()}


def _all_ratios(outcomes: Outcomes, rows: Sequence[str]) -> dict[tuple[str, str], NDArray[np.float64]]:
    """Return logarithms of ratios by row and opponent, of shape ``(n_windows, n_models)``.

    The mean of an opponent's trainings counts. The first row is compared with all others.
    """
    values = {name: _logs(of_models, "value") for name, of_models in outcomes.items()}
    references = {name: list(OPPONENTS) for name in (*rows, GENERALIST, BY_HAND)}
    for row in rows:
        references[row] += [GENERALIST, BY_HAND]
    references[rows[0]] += rows[1:]
    return {
        (name, reference): values[name] - values[reference].mean(axis=1, keepdims=True)
        for name, of_name in references.items()
        for reference in of_name
    }


def _tails(outcomes: Outcomes, rows: Iterable[str]) -> dict[Place, Finding]:
    """Return the waits of whole runs, as ratios to the best by requested times: geometric means over trainings."""
    found: dict[Place, Finding] = {}
    for column, what in TAILS.items():
        opponent = _logs(outcomes[OPPONENTS[0]], what)
        for row in rows:
            logs = (_logs(outcomes[row], what) - opponent)[0]
            found[row, f"{column}, to {OPPONENTS[0]}"] = ratio_of(elementary.exp([logs.mean(), *logs]).tolist())
    return found


def _logs(of_models: Sequence[Sequence[WindowOutcome]], what: str) -> NDArray[np.float64]:
    """Return the logarithms of one number of windows, of shape ``(n_windows, n_models)``."""
    return elementary.log([[getattr(one, what) for one in outcomes] for outcomes in of_models]).T


def _outcomes_of_row(models: Sequence[Playable], log: JudgedLog, protocol: str) -> Sequence[Sequence[WindowOutcome]]:
    """Return the outcomes of a protocol under each of a row's models, window by window."""
    from hdrl.settings.batch.environments import JobIndexSpec
    from hdrl.settings.batch.envs.window_judge import WindowOutcome

    if models[0].environment["id"] == JobIndexSpec.id:
        return list(zip(*outcomes_of(log, protocol, [evolved_policy([one]) for one in models]), strict=True))
    jobs, first = log.workload.jobs, round(JUDGED_FROM * log.workload.n_jobs)
    if protocol == "continuous":
        runs = [model.play(log.platform, log.workload).records for model in models]
        waits_s = [run["start_s"] - jobs["submit_s"] for run in runs]
        return [
            [WindowOutcome.of(log.objective, wait_s[first:], run["run_s"][first:])]
            for wait_s, run in zip(waits_s, runs, strict=True)
        ]
    warm_up, follow_up = PADDING[protocol]
    starts = side_by_side((first, len(jobs) - follow_up), LENGTH)
    return [windows_of_model(model, log, starts, warm_up, follow_up) for model in models]


def windows_of_model(
    model: Playable, log: JudgedLog, starts: Sequence[int], warm_up: int, follow_up: int
) -> list[WindowOutcome]:
    """Return the outcomes of windows in which a model of JobPick takes its best actions.

    Parameters
    ----------
    starts
        Positions of the first jobs that count, `LENGTH` each.
    warm_up, follow_up
        Jobs before and after these that are simulated, too.
    """
    from hdrl.learn.threads import torch_threads
    from hdrl.settings.batch.envs.job_pick import JobPickVectorEnv
    from hdrl.settings.batch.envs.window_judge import WindowOutcome

    arguments: dict[str, Any] = dict(model.environment["arguments"])
    known = {name: value for name, value in arguments.items() if name not in _TRAINED_ALONE}
    n_jobs = warm_up + LENGTH + follow_up
    envs = JobPickVectorEnv.of(
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
    found, columns = [], envs.inputs.columns
    for start, dates_s in zip(starts, started_s, strict=True):
        positions = slice(start, start + LENGTH)
        wait_s = dates_s[warm_up : warm_up + LENGTH] - columns.submit_s[positions]
        found.append(WindowOutcome.of(log.objective, wait_s, columns.run_s[positions]))
    return found


def first_episodes(
    model: Playable, envs: Any, options: Mapping[str, Any], read: Callable[[int, Mapping[str, Any]], T]
) -> list[T]:
    """Return the report on the first episode of each row; a row that is done plays others until all are.

    Parameters
    ----------
    model
        Model that decides, by its best actions.
    envs
        A batch of environments like that of its training.
    options
        Options of the reset, which define the first episodes.
    read
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
                found[row] = read(row, info)
    return [found[row] for row in range(envs.num_envs)]

"""Evolved policies on the last 30 % of real logs: windows, padded windows, whole runs, and both opponents.

The opponents are chosen by windows of the first 60 % of each log, which is also what policies are trained on: the best
priority x order of EASY by requested times, and the best of the same by the predictions that the policy sees. Ratios
are geometric means over windows; logs weigh the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.cores import usable_cores
from hdrl.base.seeding import stream
from hdrl.base.windows import side_by_side
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, Playable, evolved_weights

if TYPE_CHECKING:
    from hdrl.settings.batch.envs.window_judge import JudgedLog, WindowOutcome
    from hdrl.settings.batch.policies.choices import PolicyPair
    from hdrl.settings.batch.policies.indexed import IndexKind
    from hdrl.settings.batch.workload.model import Workload

LOGS = {
    "KTH-SP2": ("KTH-SP2-1996-2.1-cln.swf.gz", 100),
    "CTC-SP2": ("CTC-SP2-1996-3.1-cln.swf.gz", 338),
    "SDSC-BLUE": ("SDSC-BLUE-2000-4.2-cln.swf.gz", 1152),
}
"""The logs, and how many processors their machines have."""

OTHER_LOADED = {
    "LANL-CM5": ("LANL-CM5-1994-4.1-cln.swf.gz", 1024),
    "Lublin-1": ("lublin_256.swf.gz", 256),
}
"""Loaded logs that no weight was evolved on, and no rule chosen."""

LOADED = LOGS | OTHER_LOADED
"""All logs whose best classic policy has a mean bounded slowdown of 2 or more on the first 60 %."""

UNSEEN = {"LLNL-Atlas": ("LLNL-Atlas-2006-2.1-cln.swf.gz", 9216)}
"""The same of a machine on which jobs hardly ever wait, and which nothing was evolved on."""

SHIPPED = ("es-generalist", "es-pausing", "es-unguarded")

N_CHANGED, CHANGE = 4, 0.02
"""Number of repetitions of whole runs with other weights, and the standard deviation of the added numbers."""

LENGTH, WARM_UP, FOLLOW_UP = 1024, 384, 640
TRAINED_UNTIL, JUDGED_FROM = 0.6, 0.7
N_RESAMPLES = 10_000

PADDING = {"windows": (0, 0), "padded": (WARM_UP, FOLLOW_UP)}
"""Jobs before and after those of a window that count."""

PROTOCOL_NAMES = (*PADDING, "continuous")
OPPONENTS = ("requests", "predictions")

BY_HAND = "index by hand"
"""Start of evolution: the index and the gate with their weights by hand."""

REFERENCES = (*OPPONENTS, BY_HAND)
"""References for evolved policies: the opponents, and the same structure untrained."""

FIRST_PART = "mean bounded slowdown of the best by requests, first 60 %"
"""Measure of the load of a log: the geometric mean over windows of the part that chooses the opponents."""

TAILS = {"longest wait": "longest_s", "99th percentile of waits": "tail_s"}
"""Further reported numbers of whole runs."""

Table = dict[str, NDArray[np.float64]]
"""By log: logarithms of ratios, shape ``(n_windows, 1 + n_trainings)``."""


@PROTOCOLS.register("es-held-out")
def es_held_out(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return the results of evolved policies on the last parts of three logs, whichever of the first parts they know.

    They are held against both opponents, and against the same structure untrained.

    Parameters
    ----------
    traces
        Holds the logs of `LOGS`.
    models
        Models of JobIndex, one for each seed; their mean is judged, and each of them for the spread.
    """
    found: dict[Place, Finding] = {}
    tables: dict[str, Table] = {}
    policies = [evolved_policy(models), *(evolved_policy([one]) for one in models)]
    untrained = untrained_policy(models)
    for name, (file, n_procs) in LOGS.items():
        log, opponents = judged_log(traces[file], n_procs)
        for protocol in PROTOCOL_NAMES:
            outcomes = outcomes_of(log, protocol, [*opponents, untrained, *policies])
            found |= _by_log(name, _tables_of(outcomes, protocol), tables)
            if protocol == "continuous":
                found |= {(name, column): one for column, one in tails(outcomes[0][0], outcomes[0][3:]).items()}
    return found | _over_windows(tables, "all logs")


@PROTOCOLS.register("es-generalist")
def es_generalist(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return the results of the shipped weights on the last parts of six logs, under three guards.

    A whole run is one number, and a few wide jobs that wait for months make it. So it is repeated with weights that are
    changed a little: geometric means over all of these, the least and the largest are reported, too.

    Parameters
    ----------
    traces
        Holds the logs of `LOGS`, whose first parts the weights know, the others of `LOADED`, which they do not, and
        those of `UNSEEN`, which are in no mean over logs.
    models
        Not used: a protocol of shipped policies.

    Returns
    -------
    dict
        Of each policy and log; then over the known logs and over the others, with intervals over windows; then over
        all that are loaded, with intervals over logs.
    """
    from hdrl.settings.batch.policies.indexed import IndexKind, changed_index
    from hdrl.settings.batch.policies.pairs import read_pair

    del models
    found: dict[Place, Finding] = {}
    tables: dict[str, dict[str, Table]] = {policy: {} for policy in SHIPPED}
    by_hand = IndexKind(form="additive")
    untrained = by_hand.policy(np.zeros(by_hand.n_weights))
    for name, (file, n_procs) in (LOADED | UNSEEN).items():
        log, opponents = judged_log(traces[file], n_procs)
        found[name, FIRST_PART] = _slowdown_on_first_part(log, opponents[0])
        for policy, table in tables.items():
            changed = [changed_index(policy, CHANGE, number) for number in range(N_CHANGED)]
            for protocol in PROTOCOL_NAMES:
                chosen = [read_pair(policy), *(changed if protocol == "continuous" else [])]
                outcomes = outcomes_of(log, protocol, [*opponents, untrained, *chosen])
                alone = [row[: len(REFERENCES) + 1] for row in outcomes]
                numbers = _by_log(name, _tables_of(alone, protocol), table if name in LOADED else {})
                if protocol == "continuous":
                    more = tails(alone[0][0], alone[0][3:]) | _over_changes(outcomes[0])
                    numbers |= {(name, column): one for column, one in more.items()}
                found |= {(f"{policy}, {row}", column): one for (row, column), one in numbers.items()}
    for policy, table in tables.items():
        known, others = (
            {column: _only(of_logs, logs) for column, of_logs in table.items()} for logs in (LOGS, OTHER_LOADED)
        )
        numbers = _over_windows(known, "known logs") | _over_windows(others, "other logs")
        for column in (f"{protocol}, to {reference}" for protocol in PADDING for reference in REFERENCES):
            means = np.array([ratios.mean() for ratios in table[column].values()])
            numbers["loaded logs", column] = over_logs(means, f"loaded logs, {column}")
        found |= {(f"{policy}, {row}", column): one for (row, column), one in numbers.items()}
    return found


def _only(of_logs: Table, logs: Iterable[str]) -> Table:
    return {name: of_logs[name] for name in logs}


def _slowdown_on_first_part(log: JudgedLog, policy: PolicyPair) -> Finding:
    """Return the geometric mean over windows of the first part of a log."""
    values = log.selection_values([policy], usable_cores())
    return Finding(float(elementary.exp(elementary.log(values).mean())))


def _tables_of(outcomes: Sequence[Sequence[WindowOutcome]], protocol: str) -> dict[str, NDArray[np.float64]]:
    """Return the logarithms of the ratios to each rival by column, shape ``(n_windows, n_policies)``.

    Parameters
    ----------
    outcomes
        Of each window: of `REFERENCES`, then of the policy, then of its trainings.
    """
    values = elementary.log([[one.value for one in row] for row in outcomes])
    candidate_values = values[:, len(REFERENCES) :]
    return {
        f"{protocol}, to {reference}": candidate_values - values[:, [position]]
        for position, reference in enumerate(REFERENCES)
    }


def _by_log(log: str, found: Mapping[str, NDArray[np.float64]], tables: dict[str, Table]) -> dict[Place, Finding]:
    """Return the ratios on a log, and add them to the tables of all logs."""
    for column, ratios in found.items():
        tables.setdefault(column, {})[log] = ratios
    return {(log, column): pooled({log: ratios}, column) for column, ratios in found.items()}


def tails(opponent: WindowOutcome, played: Sequence[WindowOutcome]) -> dict[str, Finding]:
    """Return the waits of a whole run, as ratios to the best by requested times.

    Parameters
    ----------
    opponent
        Its outcome under that opponent.
    played
        The same of the policy, then of its trainings.
    """
    return {
        f"{column}, to {OPPONENTS[0]}": ratio_of([getattr(one, what) / getattr(opponent, what) for one in played])
        for column, what in TAILS.items()
    }


def ratio_of(values: Sequence[float]) -> Finding:
    """Return a ratio without an interval of its own, and that of each training behind it."""
    return Finding(float(values[0]), trainings=tuple(float(one) for one in values[1:]), null=1.0)


def _over_changes(run: Sequence[WindowOutcome]) -> dict[str, Finding]:
    """Return the results of a whole run over several policies that hardly differ, after the rivals."""
    found: dict[str, Finding] = {}
    played = run[len(REFERENCES) :]
    for position, opponent in enumerate(OPPONENTS):
        ratios = np.array([one.value / run[position].value for one in played])
        column = f"continuous, to {opponent}, weights changed"
        mean = float(elementary.exp(elementary.log(ratios).mean()))
        # The least and the largest are the ends of what such changes do.
        found[column] = Finding(mean, float(ratios.min()), float(ratios.max()), null=1.0)
        longest = elementary.log([one.longest_s / run[position].longest_s for one in played])
        found[f"longest wait, to {opponent}, weights changed"] = ratio_of([float(elementary.exp(longest.mean()))])
    return found


def _over_windows(tables: Mapping[str, Table], row: str) -> dict[Place, Finding]:
    """Return the pooled ratios of all tables."""
    columns = [f"{protocol}, to {reference}" for reference in REFERENCES for protocol in PROTOCOL_NAMES]
    return {(row, column): pooled(tables[column], column) for column in columns}


def judged_log(path: Path, n_procs: int, *, speedup: float = 1.0) -> tuple[JudgedLog, list[PolicyPair]]:
    """Return a log with its opponents: the best by requests, and the best by predictions.

    Parameters
    ----------
    n_procs
        Processors of its machine.
    speedup
        Speed-up of the arrivals relative to the log; run times stay.
    """
    from hdrl.settings.batch.envs.machines import pool_inputs
    from hdrl.settings.batch.envs.window_judge import JudgedLog
    from hdrl.settings.batch.policies.pairs import read_pair

    # Memory never runs short where windows are judged, so it must not in whole runs on the kernel.
    inputs = pool_inputs(path, None, n_procs, memory="none", bandwidth="none")
    workload = inputs.workloads[0] if speedup == 1.0 else _sped_up(inputs.workloads[0], speedup)
    log = JudgedLog.of(
        inputs.platform,
        workload,
        n_jobs=LENGTH,
        part=(0.0, TRAINED_UNTIL),
        first_n_jobs=workload.n_jobs,
        objective="mean_bounded_slowdown",
        reference="best",
        n_threads=usable_cores(),
    )
    return log, [read_pair(log.reference), read_pair(log.best_classic(usable_cores(), suffix="@geo"))]


def _sped_up(workload: Workload, speedup: float) -> Workload:
    """Return a workload whose jobs arrive some times as fast."""
    jobs, history = workload.jobs.copy(), workload.history
    jobs["submit_s"] /= speedup
    if history is not None:
        submit_s = history.submit_s / speedup
        history = replace(history, submit_s=submit_s, ended_s=submit_s + (history.ended_s - history.submit_s))
    return replace(workload, jobs=jobs, history=history)


def evolved_policy(models: Sequence[Playable]) -> PolicyPair:
    """Return the policy with the mean weights of some models.

    Parameters
    ----------
    models
        Models of JobIndex, trained by the same options.
    """
    return _kind_of(models[0]).policy(evolved_weights(models)[0])


def untrained_policy(models: Sequence[Playable]) -> PolicyPair:
    """Return the policy that evolution starts from: the same structure with its weights by hand.

    Parameters
    ----------
    models
        Models of JobIndex, trained by the same options.
    """
    kind = _kind_of(models[0])
    return kind.policy(np.zeros(kind.n_weights))


def _kind_of(model: Playable) -> IndexKind:
    from hdrl.settings.batch.policies.indexed import IndexKind

    return IndexKind.of(model.environment["arguments"])


def outcomes_of(log: JudgedLog, protocol: str, policies: Sequence[PolicyPair]) -> list[list[WindowOutcome]]:
    """Simulate the windows that judge policies by a protocol; return the outcome of each.

    Parameters
    ----------
    protocol
        ``"windows"``, ``"padded"`` or ``"continuous"``.
    """
    from hdrl.settings.batch.envs.window_judge import in_threads

    n_jobs = log.workload.n_jobs
    first = round(JUDGED_FROM * n_jobs)
    if protocol == "continuous":
        alone = in_threads(
            lambda policy: log.outcomes(first, [policy], n_jobs=n_jobs - first, warm_up=first)[0],
            list(policies),
            usable_cores(),
        )
        return [alone]
    warm_up, follow_up = PADDING[protocol]
    starts = side_by_side((first, n_jobs - follow_up), LENGTH)
    return in_threads(
        lambda start: log.outcomes(start, policies, warm_up=warm_up, follow_up=follow_up), starts, usable_cores()
    )


def pooled(table: Table, column: str) -> Finding:
    """Return the ratio over all logs, with an interval (95 %) from windows drawn again within each log, and trainings.

    What other trainings would change is the difference between trainings that are drawn again and all of them: for a
    model with mean weights to first order, as the spread of its ratio is.

    Parameters
    ----------
    table
        Logarithms of ratios, shape ``(n_windows, 1 + n_trainings)``: the first column counts.
    """
    random, of_trainings = (stream(0, f"{what} of {column}") for what in ("bootstrap", "trainings"))
    n_trainings = next(iter(table.values())).shape[1] - 1
    chosen = of_trainings.integers(0, max(n_trainings, 1), (N_RESAMPLES, n_trainings))
    draws = np.zeros(N_RESAMPLES)
    for values in table.values():
        positions = random.integers(0, len(values), (N_RESAMPLES, len(values)))
        first, *each = (one[positions].mean(axis=1) for one in values.T)
        draws += first / len(table)
        if n_trainings > 1:
            drawn = np.column_stack(each)
            moved = np.take_along_axis(drawn, chosen, axis=1).mean(axis=1) - drawn.mean(axis=1)
            draws += moved / len(table)
    value, *each = elementary.exp(np.mean([values.mean(axis=0) for values in table.values()], axis=0)).tolist()
    low, high = math.nan, math.nan
    if min(len(values) for values in table.values()) > 1:
        low, high = elementary.exp(np.percentile(draws, (2.5, 97.5))).tolist()
    return Finding(value, low, high, trainings=tuple(each), null=1.0)


def over_logs(ratios: NDArray[np.float64], what: str) -> Finding:
    """Return the geometric mean of some logs' ratios, with an interval (95 %) over logs drawn again.

    Parameters
    ----------
    ratios
        Logarithms, one for each log.
    what
        Name of the stream of draws.
    """
    draws = stream(0, f"bootstrap of {what}").integers(0, len(ratios), (N_RESAMPLES, len(ratios)))
    low, high = elementary.exp(np.percentile(ratios[draws].mean(axis=1), (2.5, 97.5))).tolist()
    return Finding(float(elementary.exp(ratios.mean())), low, high, null=1.0)

"""Evolved policies on the last 30 % of real logs: windows, padded windows, whole runs, and both opponents.

The opponents are chosen by windows of the first 60 % of each log, which is also what policies are trained on: the best
priority x order of EASY by requested times, and the best of the same by the predictions that the policy sees. Ratios
are geometric means over windows; logs weigh the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hdrl import elementary
from hdrl.cores import usable_cores
from hdrl.seeding import stream
from hdrl.setting import Place, Playable
from hdrl.settings.batch.protocols import PROTOCOLS
from hdrl.windows import side_by_side

if TYPE_CHECKING:
    from hdrl.settings.batch.envs.window_judge import JudgedLog, WindowOutcome
    from hdrl.settings.batch.policies.choices import PolicyPair

LOGS = {
    "KTH-SP2": ("KTH-SP2-1996-2.1-cln.swf.gz", 100),
    "CTC-SP2": ("CTC-SP2-1996-3.1-cln.swf.gz", 338),
    "SDSC-BLUE": ("SDSC-BLUE-2000-4.2-cln.swf.gz", 1152),
}
"""The logs, and how many processors their machines have."""

UNSEEN = {"LLNL-Atlas": ("LLNL-Atlas-2006-2.1-cln.swf.gz", 9216)}
"""The same of a machine on which jobs hardly ever wait, and which nothing was evolved on."""

SHIPPED = ("es-generalist", "es-unguarded")

N_CHANGED, CHANGE = 4, 0.02
"""How often whole runs are repeated with other weights, and the standard deviation of what is added to each."""

LENGTH, WARM_UP, FOLLOW_UP = 1024, 384, 640
TRAINED_UNTIL, JUDGED_FROM = 0.6, 0.7
N_RESAMPLES = 10_000

PADDING = {"windows": (0, 0), "padded": (WARM_UP, FOLLOW_UP)}
"""Jobs before and after those of a window that count."""

PROTOCOL_NAMES = (*PADDING, "continuous")
OPPONENTS = ("requests", "predictions")

Table = dict[str, NDArray[np.float64]]
"""By log: logarithms of ratios, shape ``(n_windows, n_policies)``."""


@PROTOCOLS.register("es-held-out")
def es_held_out(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, float]:
    """Return how evolved policies do on the last parts of three logs, whichever of the first parts they know.

    Parameters
    ----------
    traces
        Holds the logs of `LOGS`.
    models
        Models of JobIndex, one for each seed; their mean is judged, and each of them by windows.
    """
    results: dict[Place, float] = {}
    tables: dict[str, Table] = {}
    policies = [evolved_policy(models), *(evolved_policy([one]) for one in models)]
    for name, (file, n_procs) in LOGS.items():
        log, opponents = judged_log(traces[file], n_procs)
        for protocol in PROTOCOL_NAMES:
            # Whole runs take long: of the mean of all trainings alone.
            chosen = policies if protocol == "windows" else policies[:1]
            outcomes = outcomes_of(log, protocol, [*opponents, *chosen])
            results |= {(name, column): value for column, value in _compared(outcomes, protocol, tables, name).items()}
    results |= _all_logs(tables)
    each = np.mean([table.mean(axis=0) for table in tables["windows, to requests"].values()], axis=0)
    for number, value in enumerate(elementary.exp(each[1:]), start=1):
        results[f"training {number}", "windows, to requests"] = float(value)
    return results


@PROTOCOLS.register("es-generalist")
def es_generalist(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, float]:
    """Return how the shipped generalist does on the last parts of four logs, and the same weights without its guard.

    A whole run is one number, and a few wide jobs that wait for months make it. So it is repeated with weights that are
    changed a little: geometric means over all of these, the least and the largest are reported, too.

    Parameters
    ----------
    traces
        Holds the logs of `LOGS`, whose first parts it knows, and of `UNSEEN`, which are in no mean over logs.
    models
        Not used: a protocol of shipped policies.
    """
    from hdrl.settings.batch.policies.indexed import changed_index
    from hdrl.settings.batch.policies.pairs import read_pair

    del models
    results: dict[Place, float] = {}
    tables: dict[str, dict[str, Table]] = {policy: {} for policy in SHIPPED}
    for name, (file, n_procs) in (LOGS | UNSEEN).items():
        log, opponents = judged_log(traces[file], n_procs)
        for policy, table in tables.items():
            known = table if name in LOGS else {}
            changed = [changed_index(policy, CHANGE, number) for number in range(N_CHANGED)]
            for protocol in PROTOCOL_NAMES:
                chosen = [read_pair(policy), *changed] if protocol == "continuous" else [read_pair(policy)]
                found = _compared(outcomes_of(log, protocol, [*opponents, *chosen]), protocol, known, name)
                results |= {(f"{policy}, {name}", column): value for column, value in found.items()}
    for policy, table in tables.items():
        results |= {(f"{policy}, {row}", column): value for (row, column), value in _all_logs(table).items()}
    return results


def _compared(
    outcomes: Sequence[Sequence[WindowOutcome]], protocol: str, tables: dict[str, Table], log: str
) -> dict[str, float]:
    """Return what a policy comes to on a log by a protocol; add all ratios to the tables.

    Parameters
    ----------
    outcomes
        Of each window: of the two opponents, of the policy, and of others that are in the tables alone.
    protocol, log
        The two.
    tables
        By protocol and opponent.
    """
    found: dict[str, float] = {}
    values = elementary.log([[one.value for one in row] for row in outcomes])
    for place, opponent in enumerate(OPPONENTS):
        column = f"{protocol}, to {opponent}"
        ratios = values[:, 2:] - values[:, place : place + 1]
        tables.setdefault(column, {})[log] = ratios
        found[column] = math.exp(ratios[:, 0].mean())
    if protocol == "continuous":
        to_requests, _, policy, *others = outcomes[0]
        found["longest wait, to requests"] = policy.longest_s / to_requests.longest_s
        found["99th percentile of waits, to requests"] = policy.tail_s / to_requests.tail_s
        if others:
            found |= _over_changes(outcomes[0])
    return found


def _over_changes(run: Sequence[WindowOutcome]) -> dict[str, float]:
    """Return what a whole run comes to over several policies that hardly differ, after the two opponents."""
    found: dict[str, float] = {}
    for place, opponent in enumerate(OPPONENTS):
        ratios = np.array([one.value / run[place].value for one in run[2:]])
        column = f"continuous, to {opponent}, weights changed"
        mean = math.exp(elementary.log(ratios).mean())
        found |= {column: mean, f"{column}, least": float(ratios.min()), f"{column}, largest": float(ratios.max())}
        longest = elementary.log([one.longest_s / run[place].longest_s for one in run[2:]])
        found[f"longest wait, to {opponent}, weights changed"] = math.exp(longest.mean())
    return found


def _all_logs(tables: Mapping[str, Table]) -> dict[Place, float]:
    """Return the pooled ratios of all tables."""
    results: dict[Place, float] = {}
    for opponent in OPPONENTS:
        for protocol in PROTOCOL_NAMES:
            column = f"{protocol}, to {opponent}"
            results |= pooled(tables[column], column)
    return results


def judged_log(path: Path, n_procs: int) -> tuple[JudgedLog, list[PolicyPair]]:
    """Return a log with its opponents: the best by requests, and the best by predictions.

    Parameters
    ----------
    path
        The log.
    n_procs
        Processors of its machine.
    """
    from hdrl.settings.batch.envs.machines import pool_inputs
    from hdrl.settings.batch.envs.window_judge import JudgedLog
    from hdrl.settings.batch.policies.pairs import read_pair

    inputs = pool_inputs(path, None, n_procs)
    log = JudgedLog.of(
        inputs.platform,
        inputs.workloads[0],
        n_jobs=LENGTH,
        part=(0.0, TRAINED_UNTIL),
        first_n_jobs=inputs.workloads[0].n_jobs,
        objective="mean_bounded_slowdown",
        reference="best",
        n_threads=usable_cores(),
    )
    return log, [read_pair(log.reference), read_pair(log.best_classic(usable_cores(), suffix="@geo"))]


def evolved_policy(models: Sequence[Playable]) -> PolicyPair:
    """Return the policy with the mean weights of some models.

    Parameters
    ----------
    models
        Models of JobIndex, trained by the same options.
    """
    from hdrl.settings.batch.policies.indexed import IndexKind

    known = IndexKind.__dataclass_fields__
    arguments = models[0].environment["arguments"]
    kind = IndexKind(**{name: value for name, value in arguments.items() if name in known})
    return kind.policy(np.mean([np.asarray(one.agent_state["weights"], dtype=np.float64) for one in models], axis=0))


def outcomes_of(log: JudgedLog, protocol: str, policies: Sequence[PolicyPair]) -> list[list[WindowOutcome]]:
    """Simulate what judges policies by a protocol; return what came of each window.

    Parameters
    ----------
    log
        The log.
    protocol
        ``"windows"``, ``"padded"`` or ``"continuous"``.
    policies
        The policies.
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


def pooled(table: Table, column: str) -> dict[Place, float]:
    """Return the ratio over all logs, with an interval (95 %) from windows drawn again within each log.

    Parameters
    ----------
    table
        Logarithms of ratios; the first column counts.
    column
        What they are called.
    """
    random = stream(0, f"bootstrap of {column}")
    draws = np.zeros(N_RESAMPLES)
    for values in table.values():
        of_mean = values[:, 0]
        places = random.integers(0, len(of_mean), (N_RESAMPLES, len(of_mean)))
        draws += of_mean[places].mean(axis=1) / len(table)
    found = {("all logs", column): math.exp(np.mean([values[:, 0].mean() for values in table.values()]))}
    if min(len(values) for values in table.values()) > 1:
        low, high = elementary.exp(np.percentile(draws, (2.5, 97.5)))
        found |= {("all logs, lower end", column): float(low), ("all logs, upper end", column): float(high)}
    return found

"""Evolved policies on the last 30 % of three real logs: windows, padded windows, whole runs, and both opponents.

The opponents are chosen by windows of the first 60 % of each log, which is also what policies are trained on: the best
priority x order of EASY by requested times, and the best of the same by the predictions that the policy sees. Ratios
are geometric means over windows; logs weigh the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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

LENGTH, WARM_UP, FOLLOW_UP = 1024, 384, 640
TRAINED_UNTIL, JUDGED_FROM = 0.6, 0.7
N_RESAMPLES = 10_000

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
    to_requests: dict[str, Table] = {"windows": {}, "padded": {}, "continuous": {}}
    to_predictions: dict[str, Table] = {"windows": {}, "padded": {}, "continuous": {}}
    for name, (file, n_procs) in LOGS.items():
        log, opponents = judged_log(traces[file], n_procs)
        policies = _policies(models)
        for protocol in to_requests:
            # Whole runs take long: of the mean of all trainings alone.
            chosen = policies if protocol == "windows" else policies[:1]
            outcomes = outcomes_of(log, protocol, [*opponents, *chosen])
            values = np.log([[one.value for one in row] for row in outcomes])
            to_requests[protocol][name] = values[:, 2:] - values[:, :1]
            to_predictions[protocol][name] = values[:, 2:] - values[:, 1:2]
            results[name, f"{protocol}, to requests"] = float(np.exp(to_requests[protocol][name][:, 0].mean()))
            results[name, f"{protocol}, to predictions"] = float(np.exp(to_predictions[protocol][name][:, 0].mean()))
            if protocol == "continuous":
                longest = [one.longest_s for one in outcomes[0]]
                results[name, "longest wait, to requests"] = longest[2] / longest[0]
                results[name, "99th percentile of waits, to requests"] = outcomes[0][2].tail_s / outcomes[0][0].tail_s
    for words, tables in (("requests", to_requests), ("predictions", to_predictions)):
        for protocol, table in tables.items():
            results |= pooled(table, f"{protocol}, to {words}")
    each = np.mean([table.mean(axis=0) for table in to_requests["windows"].values()], axis=0)
    for number, value in enumerate(np.exp(each[1:]), start=1):
        results[f"training {number}", "windows, to requests"] = float(value)
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


def _policies(models: Sequence[Playable]) -> list[PolicyPair]:
    """Return the policy with the mean weights of models, then that of each."""
    from hdrl.settings.batch.policies.indexed import IndexKind

    known = IndexKind.__dataclass_fields__
    arguments = models[0].environment["arguments"]
    kind = IndexKind(**{name: value for name, value in arguments.items() if name in known})
    weights = [np.asarray(model.agent_state["weights"], dtype=np.float64) for model in models]
    return [kind.policy(np.mean(weights, axis=0)), *(kind.policy(one) for one in weights)]


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
    warm_up, follow_up = (WARM_UP, FOLLOW_UP) if protocol == "padded" else (0, 0)
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
    found = {("all logs", column): float(np.exp(np.mean([values[:, 0].mean() for values in table.values()])))}
    if min(len(values) for values in table.values()) > 1:
        low, high = np.exp(np.percentile(draws, (2.5, 97.5)))
        found |= {("all logs, lower end", column): float(low), ("all logs, upper end", column): float(high)}
    return found

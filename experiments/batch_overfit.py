"""Selection of a policy from many on visible windows: whether it is better on others, too.

Each round has windows that everybody sees and windows that follow from a secret that is revealed afterwards. In each,
200 candidates are drawn: the shipped index with a random number added to each weight. They differ little on average;
the best of them on the visible windows looks better than it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.commitments import revealed_seed
from hdrl.base.cores import usable_cores
from hdrl.base.seeding import stream_seed
from hdrl.experiments import PROTOCOLS
from hdrl.experiments.findings import Finding, Place, Playable
from hdrl.metrics.statistics import Bootstrap, ladder

if TYPE_CHECKING:
    from hdrl.settings.batch.policies.choices import PolicyPair

Floats = NDArray[np.float64]

POLICY = "es-generalist"
N_CANDIDATES, CHANGE = 200, 0.3
"""Candidates of a round, and the standard deviation of what is added to each weight."""

N_ROUNDS = 8
N_WINDOWS, LENGTH = 16, 256
N_CORES, LOAD = 256, 0.85
"""The windows, and the machine and the load of the task ``batch-lublin-85``."""

SECRET = "the secret of bench-overfit"
"""Known to readers of this file, but not used in the choice among the candidates."""

PROMISED = 0.99
"""A pick gains at most 1 % on the board."""


@PROTOCOLS.register("bench-overfit")
def bench_overfit(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, Finding]:
    """Return the gain of the best of many candidates on the windows that chose it, on hidden ones, and on the board.

    Parameters
    ----------
    traces, models
        Not used: all loads are generated, and nothing is trained.
    """
    from hdrl.settings.batch.policies.indexed import changed_index
    from hdrl.settings.batch.policies.pairs import read_pair

    del traces, models
    policy = read_pair(POLICY)
    seen, hidden, board, judged = [], [], [], []
    for number in range(N_ROUNDS):
        first = stream_seed(number, "bench-overfit/candidates") % 2**30
        candidates = [changed_index(POLICY, CHANGE, first + one) for one in range(N_CANDIDATES)]
        visible = _scores(stream_seed(number, "bench-overfit/visible") >> 1, [policy, *candidates])
        changes = (visible[1:] - visible[0]).mean(axis=1)
        best = int(np.argmin(changes))
        seen.append(float(changes[best]))
        fresh = _scores(revealed_seed(SECRET, "", f"round {number}"), [policy, candidates[best]])
        hidden.append(float((fresh[1] - fresh[0]).mean()))
        # On the board stand the policy itself, and what improves on it by more than a step.
        board.append(_published(fresh))
        judged.append(_published(visible))
    return {
        ("best of 200", "visible windows"): _ratio(seen, 1.0),
        ("best of 200", "hidden windows"): _ratio(hidden, 1.0),
        ("best of 200", "hidden windows, on the board"): _ratio(board, PROMISED),
        ("best of 200", "visible windows, published by the ladder"): _ratio(judged, 1.0),
    }


def _scores(seed: int, policies: Sequence[PolicyPair]) -> Floats:
    """Return the logarithm of the mean bounded slowdown of each policy on each window of a generated load."""
    from hdrl.batch import lublin_log, read_platform, workload_from_swf
    from hdrl.settings.batch.envs.window_judge import run_policies

    platform = read_platform(f"homogeneous:{N_CORES}")
    log = lublin_log(N_WINDOWS * LENGTH, N_CORES, seed=seed, load=LOAD, estimates="tsafrir", n_users=40)
    whole = workload_from_swf(log, platform, bandwidth="none", memory="none")
    windows = [whole.window(number * LENGTH, LENGTH) for number in range(N_WINDOWS)]
    values = run_policies(platform, windows, policies, "mean_bounded_slowdown", n_threads=usable_cores())
    return elementary.log(values)


def _published(scores: Floats) -> float:
    """Return the gain of the last published attempt over the first, as a logarithm."""
    rungs = ladder(scores)
    last = max(number for number, rung in enumerate(rungs) if rung.is_published)
    return float((scores[last] - scores[0]).mean())


def _ratio(logs: Sequence[float], null: float) -> Finding:
    """Return the geometric mean over rounds, with its interval."""
    values = elementary.exp(logs)
    if np.ptp(values) == 0:
        return Finding(float(values[0]), float(values[0]), float(values[0]), null=null)
    ratio = Bootstrap(np.zeros(len(values), dtype=np.int64)).ratio(values[:, np.newaxis], np.ones((len(values), 1)))
    return Finding(*ratio, null=null)

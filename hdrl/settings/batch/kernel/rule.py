"""What orders jobs beyond a job key: a predictor of run times, an index, a gate; and what they begin with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.codes import CodeTable
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.groups import N_LEVELS, SUMS_DTYPE, end_in
from hdrl.settings.batch.kernel.history import PREDICTION_DTYPE
from hdrl.settings.batch.kernel.index import N_WEIGHTS, N_WEIGHTS_OF_NETWORK
from hdrl.settings.batch.kernel.jit import entry
from hdrl.settings.batch.kernel.network import N_NUMBERS
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.workload.history import Past, past_of
from hdrl.settings.batch.workload.model import Workload


def n_weights_of(form: int) -> int:
    """Return how many weights an index and its gate have."""
    return N_WEIGHTS_OF_NETWORK if form == codes.INDEX_NETWORK else N_WEIGHTS


@dataclass(frozen=True, slots=True)
class Rule:
    """What a policy adds to its job key and its backfilling.

    Attributes
    ----------
    predictor
        ``PREDICT_*`` of `kernel.codes`.
    predicts_ends
        Whether reservations go by predictions, too.
    weights
        Of the index and the gate, see `kernel.index`; empty: neither.
    index_form
        ``INDEX_*`` of `kernel.codes`.
    has_gate
        Whether the gate may hold jobs.
    network
        Of ``PREDICT_LEARNED``: the numbers of `kernel.network`; else empty.
    node_rule
        ``NODES_*`` of `kernel.codes`: who switches nodes off and on.
    sleep_state
        To which of the platform's sleep states nodes are switched: its place among them.
    off_after_s
        Of ``NODES_BY_TIMEOUT``: after how long without a job a node is switched off, in seconds.
    share_on
        Of ``NODES_BY_NUMBER``: which share of the nodes is to be on.
    run_times
        Of a predictor outside the kernel: the function from a platform and a workload to what it says of each job, in
        seconds.
    """

    predictor: int = codes.PREDICT_NOTHING
    predicts_ends: bool = False
    weights: tuple[float, ...] = ()
    index_form: int = codes.INDEX_LINEAR
    has_gate: bool = False
    network: tuple[float, ...] = ()
    node_rule: int = codes.NODES_LEFT_ALONE
    sleep_state: int = 0
    off_after_s: float = math.inf
    share_on: float = 1.0
    run_times: Callable[[Platform, Workload], NDArray[np.float64]] | None = None

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises
        ------
        SimulationError
            If one is in no table.
        """
        codes.PREDICTORS.check(self.predictor)
        codes.NODE_RULES.check(self.node_rule)
        codes.INDEX_FORMS.check(self.index_form)
        CodeTable("number of weights", (0, n_weights_of(self.index_form))).check(len(self.weights))
        needed = N_NUMBERS if self.predictor == codes.PREDICT_LEARNED else 0
        CodeTable("number of weights of the network", (needed,)).check(len(self.network))


NO_RULE = Rule()


@entry
def _learn(sums, groups, run_s, requested_s):
    _learn_all(sums, groups, run_s, requested_s)


@jit
def _learn_all(sums, groups, run_s, requested_s):
    for job in range(len(run_s)):
        end_in(sums, groups[job], run_s[job], requested_s[job])


def first_sums(past: Past) -> NDArray[np.void]:
    """Return the sums of the groups of a workload before its first job, an array of `kernel.history.SUMS_DTYPE`."""
    sums = np.zeros(past.n_groups, dtype=SUMS_DTYPE)
    _learn(sums, past.ended_groups, past.run_s, past.requested_time_s)
    return sums


def arrays_of(rule: Rule, platform: Platform, workload: Workload) -> dict[str, NDArray[Any]]:
    """Return the arrays of a state that a rule needs; they are empty where it needs none."""
    weights = np.array(rule.weights, dtype=np.float64)
    if rule.predictor == codes.PREDICT_NOTHING:
        nothing = np.zeros((0, N_LEVELS), dtype=np.int32)
        no_sums, no_predictions = np.zeros(0, dtype=SUMS_DTYPE), np.zeros(0, dtype=PREDICTION_DTYPE)
        known = {"job_groups": nothing, "sums": no_sums, "predictions": no_predictions}
        return {**known, "weights": weights, "network": np.zeros(0)}
    past = past_of(workload)
    predictions = np.zeros(workload.n_jobs, dtype=PREDICTION_DTYPE)
    if rule.run_times is not None:
        predictions["given_s"] = rule.run_times(platform, workload)
    known = {"job_groups": past.groups, "sums": first_sums(past), "predictions": predictions}
    return {**known, "weights": weights, "network": np.array(rule.network, dtype=np.float64)}

"""Predictors of run times in Python files: a classic policy that uses the predictions of a user's class.

.. code-block:: python

    class Predictor:
        def __init__(self):
            self.last_s = {}

        def predict(self, job):
            return min(job.requested_time_s, self.last_s.get(job.user, job.requested_time_s))

        def ended(self, job, run_s):
            self.last_s[job.user] = run_s

``my.py@sjf+easy`` orders jobs by it. Each simulation makes a new object. It gets every job that ends (in a
window of a log first those that had ended before), and predicts every waiting job before each decision. It never
gets the run time of a job that has not ended. Only the kernel simulates it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError, UnknownName
from hdrl.base.pyfiles import AgentError
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.policies.choices import PolicyPair
from hdrl.settings.batch.policies.pairs import read_pair
from hdrl.settings.batch.policies.priorities import WaitingJob
from hdrl.settings.batch.simulation.answer import job_name
from hdrl.settings.batch.simulation.embedded import EmbeddedSimulator
from hdrl.settings.batch.simulation.view import News, View
from hdrl.settings.batch.workload.model import NO_WALLTIME, Workload

_COLUMNS = WaitingJob._fields[1:-1]


@dataclass(frozen=True)
class OwnPrediction:
    """A classic policy that uses a predictor in Python: a policy for `simulate`.

    Attributes
    ----------
    pair
        The policy; its rule says that predictions come from outside the kernel.
    make
        Makes a new predictor: an object with ``predict(job)``, which returns seconds on cores of the platform's mean
        speed, and ``ended(job, run_s)``. Both get a `WaitingJob`; ``job.job`` is -1 where it is not of the workload.
    name
        Its name in messages.
    clairvoyant
        True if it uses information that no scheduler can have.
    """

    pair: PolicyPair
    make: Callable[[], Any]
    name: str = "predictor"
    clairvoyant: bool = False


def own_prediction(make: Callable[[], Any], policy: str, name: str, *, clairvoyant: bool = False) -> OwnPrediction:
    """Return a policy that uses a predictor in Python.

    Parameters
    ----------
    policy
        Name of the policy without a predictor: ``"sjf+easy"``, ``"sjf+easy/all~gate"``.

    Raises
    ------
    AgentError
        If what is made has no ``predict(job)`` and ``ended(job, run_s)``, there is no such policy, or it names a
        predictor, too.
    DecisionError
        If a gate or predicted reservations are requested without EASY.
    """
    missing = [word for word in ("predict", "ended") if not callable(getattr(make, word, None))]
    if missing:
        raise AgentError(f"{name}: Predictor has no {missing[0]}, expected predict(job) and ended(job, run_s)")
    if "@" in policy:
        raise AgentError(f"{name}: {policy!r} names a predictor, too; expected for instance 'sjf+easy'")
    end = min((policy.find(mark) for mark in "/~-" if mark in policy), default=len(policy))
    try:
        pair = read_pair(f"{policy[:end]}@clairvoyant{policy[end:]}")
    except UnknownName as error:
        raise AgentError(f"{name}: {str(error).replace('@clairvoyant', '')}") from None
    rule = replace(pair.rule, run_times=_requested)
    return OwnPrediction(replace(pair, name=name, rule=rule, is_clairvoyant=False), make, name, clairvoyant)


def _requested(platform: Platform, workload: Workload) -> NDArray[np.float64]:
    """Return the predictions that hold until the predictor has been called."""
    del platform
    return workload.jobs["requested_time_s"].astype(np.float64)


class PredictorAdapter:
    """Tells a predictor of ended jobs, and asks it for the waiting ones, in one simulation."""

    def __init__(self, simulator: EmbeddedSimulator, own: OwnPrediction) -> None:
        self._simulator, self._own = simulator, own
        self._predictor = own.make()
        for job, run_s in _ended_before(simulator.workload):
            self._predictor.ended(job, run_s)

    def decide(self, view: View) -> list[Any]:
        """Let the kernel start jobs by what is predicted now; there are no further decisions.

        Raises
        ------
        DecisionError
            If a prediction is no number of seconds.
        """
        jobs = view.workload.jobs
        for news, job in view.news:
            if news == News.JOB_COMPLETED:
                self._predictor.ended(_waiting(jobs, job), self._simulator.run_s(job))
        if self._simulator.is_due:
            waiting = view.waiting
            lengths_s = [self._length_s(view, job) for job in waiting.tolist()]
            self._simulator.start_predicted(waiting, np.array(lengths_s), *self._own.pair.numbers)
        return []

    def _length_s(self, view: View, job: int) -> float:
        row = _waiting(view.workload.jobs, job)
        found = self._predictor.predict(row)
        try:
            length_s = float(found)
        except (TypeError, ValueError):
            length_s = np.nan
        if not 0 <= length_s < np.inf:
            where = f"{self._own.name}: t={view.now_s:g} s: the prediction of job {job_name(view.workload, job)!r}"
            raise DecisionError(f"{where} is {found!r:.60}, expected a number of seconds")
        return min(length_s, row.requested_time_s)


def _waiting(jobs: NDArray[np.void], job: int) -> WaitingJob:
    return WaitingJob(job, *(jobs[job][column].item() for column in _COLUMNS))


def _ended_before(workload: Workload) -> list[tuple[WaitingJob, float]]:
    """Return the jobs of the log that had ended when the first job of a window was submitted, and their run times."""
    history, positions = workload.history, workload.positions
    if history is None or positions is None:
        return []
    ended = history.ended_before(float(history.submit_s[positions].min())).tolist()
    name = np.full(len(history.user), -1, dtype=np.int32) if history.name is None else history.name
    columns = (history.submit_s, history.cores, history.requested_time_s, history.user, name, history.run_s)
    return [
        (WaitingJob(-1, submit_s, cores, requested_s, NO_WALLTIME, 0.0, 0.0, user, -1, name, -1), run_s)
        for submit_s, cores, requested_s, user, name, run_s in zip(
            *(column[ended].tolist() for column in columns), strict=True
        )
    ]

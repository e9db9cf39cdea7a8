"""Simulation of jobs on a device: the chosen actions, their costs and their outcomes."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError, OptionsError, WorkloadError, quoted, readable
from hdrl.compiled.records import of
from hdrl.settings.adaptation.load import Jobs, check_device
from hdrl.settings.adaptation.machine import Device
from hdrl.settings.adaptation.table import Table, mean_accuracy
from hdrl.trace.model import STAY_DTYPE, TASK_DTYPE, OutcomeTrace, TaskState

OTHER = -1
"""The sequence of a job that never adapts and trains under another rule."""

OUTCOME_DTYPE = np.dtype(
    [
        ("sequence", np.int64),
        *of(np.float64, "validation", "test", "expected", "best"),
        *of(np.int64, "rank", "n_ties"),
        ("search_s", np.float64),
        ("n_deepened", np.int64),
    ]
)
"""Outcome of one job: the sequence, `OTHER` without; accuracies at its end; the mean test accuracy of its sequence and
of the best one; its rank among all sequences by these means, and how many others share it; device seconds that were
spent on other sequences; how often it was deepened."""


@dataclass
class AdaptingJob:
    """A job as a policy sees it: what it is, and what training it further shows.

    Attributes
    ----------
    table
        Its table; policies that are not clairvoyant look at what it says of the job before a decision alone.
    draw
        Index of the training.
    kind
        A number that jobs of one table share: a scheduler can see model, data and start of a job.
    """

    table: Table
    draw: int
    kind: int
    _trained: set[tuple[int, ...]] = field(default_factory=set)
    _spent_s: float = 0.0

    @property
    def spent_s(self) -> float:
        """Device seconds since the first decision; snapshots are kept, so that what is shared is trained once."""
        return self._spent_s

    def train(self, sequence: int, rung: int | None = None) -> float:
        """Train a copy of the job under a sequence, up to a rung of its table, and return its validation accuracy."""
        table = self.table
        actions = table.actions(sequence)
        states = [table.state(actions[:step]) for step in range(table.n_steps)]
        for step in range(table.n_steps - 1):
            cost_s = table.time_left_s[states[step]] - table.time_left_s[states[step + 1]]
            self._pay(actions[: step + 1], cost_s)
        last_s = table.time_left_s[states[-1]]
        begin = 0.0
        for position, share in enumerate((*table.rungs, 1.0)):
            self._pay((*actions, position), (share - begin) * last_s)
            begin = share
            if position == rung:
                return float(table.curves[sequence, self.draw, position])
        return float(table.validation[sequence, self.draw])

    def _pay(self, part: tuple[int, ...], cost_s: float) -> None:
        if part not in self._trained:
            self._trained.add(part)
            self._spent_s += float(cost_s)


class Advisor(Protocol):
    """Decides for one job after the other."""

    def choose(self, job: AdaptingJob) -> int | str:
        """Return the sequence of a job, or the name of a training rule without adaptation."""

    def observe(self, job: AdaptingJob, chosen: int | str, validation: float) -> None:
        """Take in the validation accuracy at the end of a job, before the next job is chosen for."""


def simulate(
    device: Device, load: Jobs, advisor: Advisor, progress: Callable[[int, int], None] | None = None
) -> OutcomeTrace:
    """Run jobs one after the other as an advisor says.

    Raises
    ------
    WorkloadError
        If a job was not measured on the device, or has no such outcome.
    DecisionError
        If the advisor chooses what there is not.
    OptionsError
        If an argument has a wrong type.
    """
    check_device(load, device)
    if not hasattr(advisor, "choose"):
        raise OptionsError(f"advisor is {quoted(advisor)}, expected what hdrl.adaptation.make_advisor returns")
    observe = _observer_of(advisor)
    outcomes = np.zeros(load.n_items, OUTCOME_DTYPE)
    for number in range(load.n_items):
        table, draw = load.tables[load.table[number]], int(load.draw[number])
        job = AdaptingJob(table, draw, int(load.table[number]))
        chosen = advisor.choose(job)
        if isinstance(chosen, str):
            outcomes[number] = _without_adaptation(table, draw, chosen, job.spent_s)
        else:
            outcomes[number] = outcome(job, chosen)
        observe(job, chosen, float(outcomes["validation"][number]))
        if progress is not None and number % 256 == 0:
            progress(number, load.n_items)
    return trace_of(device, load, outcomes, load.n_items * load.n_steps)


_FORMER_NAME = "told"


def _observer_of(advisor: Advisor) -> Callable[[AdaptingJob, int | str, float], None]:
    former: Callable[[AdaptingJob, int | str, float], None] | None = getattr(advisor, _FORMER_NAME, None)
    inherited = getattr(type(advisor), "observe", Advisor.observe)
    if former is None or inherited is not Advisor.observe:
        return advisor.observe
    warnings.warn(f"Advisor.{_FORMER_NAME} is now Advisor.observe", DeprecationWarning, stacklevel=3)
    return former


def outcome(job: AdaptingJob, sequence: int) -> tuple[Any, ...]:
    """Return the outcome of a job under a sequence, a row of `OUTCOME_DTYPE`; refuse unknown sequences."""
    table = job.table
    sequence = _number("sequence", sequence, table.n_sequences, table.name)
    validation = job.train(sequence)
    expected = float(table.expected[sequence])
    n_ties = int(np.count_nonzero(table.expected == expected)) - 1
    actions = table.actions(sequence)
    n_deepened = sum(action < table.n_actions - 1 for action in actions)
    search_s = max(0.0, job.spent_s - _plain_s(table, sequence))
    test = float(table.test[sequence, job.draw])
    return sequence, validation, test, expected, table.best, table.rank(expected), n_ties, search_s, n_deepened


def _plain_s(table: Table, sequence: int) -> float:
    job = AdaptingJob(table, 0, 0)
    job.train(sequence)
    return job.spent_s


def _without_adaptation(table: Table, draw: int, rule: str, spent_s: float) -> tuple[Any, ...]:
    if rule not in table.others:
        raise WorkloadError(f"{table.name}: has no training by {rule}, which tables of hdrl adaptation table have")
    validation, test = table.others[rule]
    expected = float(mean_accuracy(test))
    n_ties = int(np.count_nonzero(table.expected == expected))
    found = (OTHER, validation[draw], test[draw], expected, table.best, table.rank(expected), n_ties, spent_s, 0)
    return tuple(found)


def trace_of(device: Device, load: Jobs, outcomes: NDArray[np.void], n_decisions: int) -> OutcomeTrace:
    """Return the Trace of jobs whose outcomes are given; the device serves them in the order of release."""
    tasks, stays = np.zeros(load.n_items, TASK_DTYPE), np.zeros(load.n_items, STAY_DTYPE)
    now_s = 0.0
    budgets_s = load.budgets_s
    took_s = budgets_s + outcomes["search_s"]
    for number, (release_s, length_s) in enumerate(zip(load.release_s.tolist(), took_s.tolist(), strict=True)):
        start_s = max(now_s, release_s)
        now_s = start_s + length_s
        tasks["start_s"][number], tasks["end_s"][number] = start_s, now_s
    tasks["release_s"], tasks["requested_s"] = load.release_s, budgets_s
    tasks["deadline_s"], tasks["state"], tasks["user"], tasks["kind"] = math.inf, TaskState.DONE, -1, load.table
    stays["task"], stays["first_unit"], stays["n_units"], stays["pace"] = (np.arange(load.n_items),) * 2 + (1, 1.0)
    stays["start_s"], stays["end_s"] = tasks["start_s"], tasks["end_s"]
    units = np.zeros(load.n_items, np.int32)
    return OutcomeTrace(device, load, tasks, now_s, n_decisions, stays, units, outcomes=outcomes)


def decide_step_by_step(table: Table, decide: Callable[[int, Sequence[int]], int]) -> int:
    """Return the sequence of decisions that are made one after the other, from the state and the actions so far."""
    actions: list[int] = []
    for _ in range(table.n_steps):
        action = decide(table.state(actions), actions)
        actions.append(_number("action", action, table.n_actions, table.name))
    return table.sequence(actions)


def _number(what: str, value: Any, n: int, where: str) -> int:
    """Return a number below ``n``; refuse what is none."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < n:
        raise DecisionError(f"{where}: no {what} {readable(repr(value))}, expected 0 to {n - 1}")
    return number

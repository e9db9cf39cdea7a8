"""Advisors of jobs that adapt: what is done to each job while it runs, and what it is worth when it ends.

A job trains until its budget is used up, or its deadline comes. What it was granted by then follows from the schedule
alone; an advisor decides on the way, when the job has used up given shares of its budget, and has no more information
than a scheduler would: what other trainings of the job's table were worth, its deadline, and the GPUs that it has now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, UnknownName
from hdrl.base.sequences import EXAMPLE, fixed_actions, is_fixed
from hdrl.compiled.records import of
from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.loads.load import GpuLoad
from hdrl.settings.gpu.loads.values import JobValues, ValueTable
from hdrl.trace.model import OutcomeTrace, TaskState, TaskTrace

Floats = NDArray[np.float64]

NEVER = "never"
"""The advisor of policies that name none."""

OUTCOME_DTYPE = np.dtype(
    [
        ("granted", np.float64),
        *of(np.int64, "sequence", "n_decisions"),
        *of(np.float64, "value", "expected", "best", "best_whole"),
    ]
)
"""Outcome of a job that adapts.

``granted`` is the share of its budget that it got; ``sequence`` what was done to it, and ``n_decisions`` how many
actions of that it came to; ``value`` what it is worth; ``expected`` what its sequence is worth there in the mean,
``best`` the best one, and ``best_whole`` the best one had it got its whole budget. A job that never ran is worth 0.
"""


@dataclass(frozen=True, slots=True)
class Question:
    """A decision about a job."""

    # values of all jobs, and number of the job
    values: JobValues
    job: int
    step: int  # number of the decision, from 0
    sequences: slice  # the sequences that can still be followed
    # share of its budget that it gets if it keeps its GPUs until its budget is used up or its deadline comes
    promised: float
    granted: float  # share that it will really get, which is not known yet

    @property
    def table(self) -> ValueTable:
        """The job's table."""
        return self.values.tables[int(self.values.table[self.job])]

    @property
    def n_following(self) -> int:
        """Number of sequences that begin with each action."""
        return int(self.sequences.stop - self.sequences.start) // self.table.n_actions


def _best_fixed(question: Question) -> Floats:
    return np.asarray(
        np.sum([table.visible_value(1.0, question.sequences) for table in question.values.tables], axis=0)
    )


INFORMED: Mapping[str, Callable[[Question], Floats]] = MappingProxyType(
    {
        "best-fixed": _best_fixed,
        "exact": lambda question: question.table.visible_value(1.0, question.sequences),
        "promise": lambda question: question.table.visible_value(question.promised, question.sequences),
        "oracle": lambda question: question.table.worth(question.granted, question.sequences),
    }
)
"""Advisors that know tables, by what they prefer sequences: ``best-fixed`` by what they are worth over all tables with
the whole budget, ``exact`` by what they are worth in the job's table with the whole budget, ``promise`` with the share
that is promised, ``oracle`` with the share that the job will get, and in trainings that are not known yet."""

FIXED: Mapping[str, Callable[[ValueTable], int]] = MappingProxyType(
    {
        NEVER: lambda table: table.n_actions - 1,
        "always-first": lambda _: 0,
        "always-last": lambda table: table.n_actions - 2,
    }
)
"""Advisors that do the same at every decision: to do nothing, or to deepen one block."""

NAMES = (*FIXED, *INFORMED)


def is_advisor(text: str) -> bool:
    """Return whether a text is the name of an advisor: one of `NAMES`, or ``fixed-`` and a sequence."""
    return text in NAMES or is_fixed(text)


def advise(trace: TaskTrace, overheads_s: Floats, advisor: str) -> OutcomeTrace:
    """Return a Trace with the outcomes of jobs under an advisor; ``overheads_s`` is the lost time before each stay.

    Raises
    ------
    UnknownName
        If there is no such advisor.
    OptionsError
        If a table has no such sequence, or tables differ where one sequence is to serve all.
    """
    load: Any = trace.load
    values: JobValues = load.values
    decide = _decider(values.tables, advisor)
    progress = _progress_of(trace, load, trace.machine, overheads_s)  # type: ignore[arg-type]
    outcomes = np.zeros(load.n_items, OUTCOME_DTYPE)

    @cache
    def best(table: int, share: float) -> float:
        return float(values.tables[table].worth(share).max())

    for job in range(load.n_items):
        number = int(values.table[job])
        table, granted = values.tables[number], progress[job].granted
        sequence, n_decisions = _follow(values, job, progress[job], decide)
        outcome = outcomes[job]
        outcome["granted"], outcome["sequence"], outcome["n_decisions"] = granted, sequence, n_decisions
        outcome["best_whole"] = best(number, 1.0)
        if granted > 0.0:
            only = slice(sequence, sequence + 1)
            outcome["value"] = table.worth(granted, only, int(values.draw[job]))[0]
            outcome["expected"], outcome["best"] = table.worth(granted, only)[0], best(number, granted)
    return OutcomeTrace(**{name: getattr(trace, name) for name in TaskTrace.__dataclass_fields__}, outcomes=outcomes)


def _decider(tables: Sequence[ValueTable], advisor: str) -> Callable[[Question], int]:
    """Return a function that chooses actions."""
    if advisor in INFORMED:
        if advisor == "best-fixed" and len({(table.n_actions, table.n_steps) for table in tables}) > 1:
            raise OptionsError(f"advisor {advisor}: tables have different decisions, so that no sequence serves all")
        prefer = INFORMED[advisor]
        return lambda question: int(np.argmax(prefer(question))) // question.n_following
    if advisor in FIXED:
        return lambda question: FIXED[advisor](question.table)
    if not is_fixed(advisor):
        raise UnknownName("advisor", advisor, (*NAMES, EXAMPLE))
    actions = [fixed_actions(advisor, table.n_steps, table.n_actions, table.name) for table in tables]
    return lambda question: actions[0][question.step]


def _follow(values: JobValues, job: int, progress: JobProgress, decide: Callable[[Question], int]) -> tuple[int, int]:
    """Return the sequence that a job follows, and how many of its decisions were made before the job ended."""
    table = values.tables[values.table[job]]
    first, size = 0, table.n_sequences
    for step in range(table.n_steps):
        share = float(table.decisions[first, step])
        if share >= progress.granted:
            return first, step
        question = Question(values, job, step, slice(first, first + size), progress.promised(share), progress.granted)
        action = decide(question)
        size //= table.n_actions
        first += action * size
    return first, table.n_steps


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Progress of a job, stay by stay."""

    granted: float  # share of its budget that it got
    deadline_s: float  # latest end of the job, in seconds
    # when it began to work on each stay, what share of its budget it had used up then, and how much it used up in a
    # second; shape ``(n_stays,)``
    begin_s: Floats
    done: Floats
    rate: Floats

    def promised(self, share: float) -> float:
        """Return the share of its budget that a job gets if it keeps the GPUs that it has at a share before that."""
        stay = int(np.searchsorted(self.done, share, side="right")) - 1
        now_s = self.begin_s[stay] + (share - self.done[stay]) / self.rate[stay]
        return float(min(1.0, share + max(0.0, self.deadline_s - now_s) * self.rate[stay]))


def _progress_of(trace: TaskTrace, load: GpuLoad, cluster: GpuCluster, overheads_s: Floats) -> list[JobProgress]:
    """Return the progress of each job; nothing that was done is ever lost."""
    stays, jobs = trace.stays, trace.stays["task"]
    rates = stays["pace"] * (load.best_rates(cluster) / load.jobs["work"])[jobs]
    begin_s = stays["start_s"] + overheads_s
    gained = np.maximum(0.0, stays["end_s"] - begin_s) * rates
    by_job = np.argsort(jobs, kind="stable")  # stays are in the order of their starts
    ends = np.searchsorted(jobs[by_job], np.arange(load.n_items + 1))
    found = []
    for job in range(load.n_items):
        mine = by_job[ends[job] : ends[job + 1]]
        done = np.cumsum(gained[mine])
        is_done = trace.tasks["state"][job] == TaskState.DONE
        granted = 1.0 if is_done else min(1.0, float(done[-1])) if len(done) else 0.0
        deadline_s = float(trace.tasks["deadline_s"][job])
        found.append(JobProgress(granted, deadline_s, begin_s[mine], done - gained[mine], rates[mine]))
    return found

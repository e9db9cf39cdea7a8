"""Custom priorities: a function of a waiting job and the date, as a policy.

.. code-block:: python

    def priority(job, now_s):
        return job.requested_time_s * job.cores - 100 * (now_s - job.submit_s)

The job with the lowest value is served first; ties go to the job that came first. With a long queue, a function of
all waiting jobs at once is much faster: ``priorities(jobs, now_s)`` gets their rows (`workload.model.JOB_DTYPE`)
and returns an array.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError
from hdrl.options.problems import shown
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.policies.choices import DEFAULT_CORE_SELECTION, read_choices
from hdrl.settings.batch.simulation.answer import job_name
from hdrl.settings.batch.simulation.view import View

if TYPE_CHECKING:
    from hdrl.settings.batch.site_rules.view import SiteRequest


class WaitingJob(NamedTuple):
    """Data of a waiting job that a priority may use.

    Attributes
    ----------
    job
        Its index in the workload.
    submit_s
        Submission, in seconds.
    cores
        Number of requested cores.
    requested_time_s
        Run time that its user requests, in seconds on cores of the platform's mean speed.
    walltime_s
        Time limit after its start, in seconds; -1: none.
    memory_mib, bandwidth_gbps
        Memory in MiB and memory bandwidth in GB/s that each of its cores takes.
    user, group, executable, queue
        Numbers of the log, -1 if it has none.
    site
        Its request to the site: partitions, account, QOS, ...; ``None`` on a machine without rules.
    """

    job: int
    submit_s: float
    cores: int
    requested_time_s: float
    walltime_s: float
    memory_mib: float
    bandwidth_gbps: float
    user: int
    group: int
    executable: int
    queue: int
    site: SiteRequest | None = None


PriorityFunction: TypeAlias = Callable[[WaitingJob, float], float]
"""``priority(job, now_s)``; the lowest is served first."""

PrioritiesFunction: TypeAlias = Callable[[NDArray[np.void], float], NDArray[np.float64]]
"""``priorities(jobs, now_s)``: the priorities of many jobs at once, given by their rows."""


@dataclass(frozen=True)
class OwnPriority:
    """A custom priority, with or without backfilling: a policy for `simulate`.

    Attributes
    ----------
    priority
        ``priority(job, now_s)``, see `WaitingJob`; ``None`` if ``priorities`` is given.
    backfilling
        ``None``, or one of ``easy``, ``easy_sjbf``, ``easy_priority`` and ``conservative``.
    core_selection
        Core selection of the jobs.
    priorities
        The same for all waiting jobs at once; used instead of ``priority`` where both are given.
    name
        Its name in messages.
    clairvoyant
        True if it uses information that no scheduler can have, such as true run times.
    """

    priority: PriorityFunction | None = None
    backfilling: str | None = None
    core_selection: str = DEFAULT_CORE_SELECTION
    priorities: PrioritiesFunction | None = None
    name: str = "priority"
    clairvoyant: bool = False

    def __post_init__(self) -> None:
        """Check that the choices are known, and that there is a function."""
        self.numbers  # noqa: B018 (looking is what checks)
        if self.priority is None and self.priorities is None:
            raise DecisionError(f"{self.name}: neither priority(job, now_s) nor priorities(jobs, now_s) is given")

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Numbers of the job key, the core key and the backfilling in the kernel."""
        core_key, backfilling = read_choices(self.backfilling, self.core_selection)
        return codes.JOB_GIVEN, core_key, backfilling

    def of(self, view: View) -> NDArray[np.float64]:
        """Return the priorities of the waiting jobs, in the order in which they came, shape ``(n_waiting,)``.

        Raises
        ------
        DecisionError
            If a priority is no number, or they are not as many as the jobs.
        """
        waiting = view.waiting
        if self.priorities is not None:
            values: Any = self.priorities(view.rows(waiting), view.now_s)
            return _checked(values, view, waiting, self.name)
        return priorities_of(cast("PriorityFunction", self.priority), view, waiting, self.name)


def priorities_of(
    priority: PriorityFunction, view: View, jobs: NDArray[np.int64], name: str = "priority"
) -> NDArray[np.float64]:
    """Return the priorities of some jobs now."""
    now_s = view.now_s
    fields = WaitingJob._fields[1:-1]
    rows = view.workload.jobs[jobs]
    columns = [rows[field].tolist() for field in fields]
    values = [
        priority(WaitingJob(job, *row, view.request(job)), now_s)  # type: ignore[call-arg]  # rows have all fields
        for job, row in zip(jobs.tolist(), zip(*columns, strict=True), strict=True)
    ]
    return _checked(values, view, jobs, name)


def _checked(values: Any, view: View, jobs: NDArray[np.int64], name: str) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(values, dtype=np.float64)
        if isinstance(values, list) and None in values:  # numpy takes None for NaN
            raise TypeError
    except (OverflowError, TypeError, ValueError):
        raise DecisionError(
            f"{name}: t={view.now_s:g} s: {_first_odd(values, view, jobs)}, expected a number"
        ) from None
    if numbers.shape != (len(jobs),):
        raise DecisionError(f"{name}: got priorities of shape {numbers.shape} for {len(jobs)} waiting jobs")
    if np.any(np.isnan(numbers)):
        bad = int(np.flatnonzero(np.isnan(numbers))[0])
        job = job_name(view.workload, int(jobs[bad]))
        raise DecisionError(f"{name}: t={view.now_s:g} s: the priority of job {job!r} is nan, expected a number")
    return numbers


def _first_odd(values: Any, view: View, jobs: NDArray[np.int64]) -> str:
    """Describe the first value that is no number."""
    if not isinstance(values, list):
        return f"the priorities are {values!r}"
    bad = next((position for position, value in enumerate(values) if not _is_number(value)), 0)
    found = shown(values[bad]) if isinstance(values[bad], int) else repr(values[bad])
    return f"the priority of job {job_name(view.workload, int(jobs[bad]))!r} is {found}"


def _is_number(value: object) -> bool:
    return isinstance(value, float | np.number) or (isinstance(value, int) and abs(value) <= sys.float_info.max)

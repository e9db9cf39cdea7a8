"""The arrays behind a batch of policy-pair environments, and how a row of them begins an episode.

Episodes begin often, so that little may happen then: the machine at date 0 is kept once and copied, and the rows of
all jobs are made once and picked from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.envs.episodes import EpisodePlan, Window
from hdrl.errors import WorkloadError
from hdrl.kernel import episodes, observe
from hdrl.kernel.batch import SCRATCH, SHARED, for_another_thread, repeated
from hdrl.kernel.lend import Lent
from hdrl.kernel.observe import new_watches
from hdrl.kernel.state import State, new_state
from hdrl.kernel.twister import python_twister_state, twister_state
from hdrl.platform.model import Platform
from hdrl.workload.model import Workload

CHANGING = (
    "scalars",
    "cores",
    "pstates",
    "idle",
    "free",
    "was_free",
    "changed",
    "n_free",
    "free_bandwidth_gbps",
    "due_pstates",
    "n_free_on",
    "free_memory_mib",
    "touched",
    "unseen",
)
"""Arrays of `State`, but for those of jobs, that are as they were at date 0 when an episode begins."""


def window_workload(workloads: Sequence[Workload], window: Window) -> Workload:
    """Return the jobs of an episode as a workload.

    A window that is all of a workload is the workload itself; the first job of any other is submitted at date 0.

    Parameters
    ----------
    workloads
        All workloads.
    window
        Which jobs of which.
    """
    workload = workloads[window.workload]
    if window.start == 0 and window.n_jobs == workload.n_jobs:
        return workload
    return workload.window(window.start, window.n_jobs)


@dataclass(frozen=True)
class _Jobs:
    """Jobs at date 0: their rows, their ranks in Batsim's order of submission, and the numbers of their sources."""

    rows: NDArray[np.void]
    ranks: NDArray[np.int64]
    sources: NDArray[np.int64]

    @classmethod
    def of(cls, workload: Workload, rows: NDArray[np.void]) -> _Jobs:
        """Return all jobs of a workload."""
        # By date, then by id as text. Within a window the order is the same.
        return cls(rows, np.argsort(workload.submission_order()), workload.jobs["source"])

    def taken(self, which: slice | NDArray[np.int64]) -> _Jobs:
        """Return some of the jobs; of a slice nothing is copied."""
        return _Jobs(self.rows[which], self.ranks[which], self.sources[which])


def _copy(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy a contiguous array as bytes: NumPy copies rows field by field, which takes much longer."""
    target.view(np.uint8)[...] = source.view(np.uint8)


class JobTable:
    """The jobs of some workloads at date 0, as the kernel keeps them.

    Parameters
    ----------
    platform
        The platform.
    workloads
        The workloads; they have the same number of sources.

    Attributes
    ----------
    steps
        The steps of all profiles, one workload's after the other's.

    Raises
    ------
    WorkloadError
        If the numbers of sources differ.
    """

    def __init__(self, platform: Platform, workloads: Sequence[Workload]) -> None:
        for one in workloads:
            if len(one.sources) != len(workloads[0].sources):
                raise WorkloadError(
                    f"{one.name} has {len(one.sources)} sources and {workloads[0].name} {len(workloads[0].sources)};"
                    " workloads of one environment must have the same number"
                )
        states = [new_state(platform, one, twister=np.zeros(625, dtype=np.uint32), logging=False) for one in workloads]
        self.steps = np.concatenate([state.steps for state in states])
        tables = [state.jobs for state in states]
        for jobs, offset in zip(tables, np.cumsum([0, *(len(state.steps) for state in states[:-1])]), strict=True):
            jobs["first_step"] += offset
            jobs["end_step"] += offset
        self._n_sources = len(workloads[0].sources)
        self._whole = [_Jobs.of(one, jobs) for one, jobs in zip(workloads, tables, strict=True)]
        self._by_date = [jobs.taken(np.argsort(jobs.rows["submit_s"], kind="stable")) for jobs in self._whole]

    def _jobs_of(self, window: Window) -> tuple[_Jobs, bool]:
        """Return the jobs of a window, in the order of its workload, and whether its dates are shifted to 0."""
        whole = self._whole[window.workload]
        if window.n_jobs == len(whole.rows):
            return whole, False
        return self._by_date[window.workload].taken(slice(window.start, window.start + window.n_jobs)), True

    def n_allocated(self, plan: EpisodePlan) -> int:
        """Return how many cores the jobs of a window ask for altogether, at most.

        Parameters
        ----------
        plan
            Which windows there may be.
        """
        most = 0
        for jobs in self._whole:
            cores = np.sort(jobs.rows["n_requested"].astype(np.int64))
            most = max(most, int(cores[-plan.max_jobs :].sum()))
        return most

    def fill(self, batch: State, row: int, window: Window) -> None:
        """Write the jobs of a window, and who submits them when, into a row of a batch.

        Parameters
        ----------
        batch
            The arrays with a leading axis.
        row
            Which row.
        window
            Which jobs.
        """
        chosen, is_shifted = self._jobs_of(window)
        n_jobs = len(chosen.rows)
        jobs = batch.jobs[row, :n_jobs]
        _copy(chosen.rows, jobs)
        if is_shifted:
            jobs["submit_s"] -= jobs["submit_s"].min()
        order = np.argsort(chosen.ranks, kind="stable")
        batch.order[row, :n_jobs] = order[np.argsort(chosen.sources[order], kind="stable")]
        counts = np.bincount(chosen.sources, minlength=self._n_sources)
        submitters = batch.submitters[row]
        submitters["end"] = np.cumsum(counts)
        submitters["next"] = submitters["batch"] = submitters["end"] - counts
        submitters["woke_s"] = 0.0
        submitters["phase"] = 0
        batch.scalars["first_submit_s"][row, 0] = jobs["submit_s"].min()


class PairRows:
    """The arrays of a batch.

    Parameters
    ----------
    platform, workloads
        What is simulated.
    plan
        Which jobs each episode holds.
    n_rows
        Number of environments.
    n_threads
        Number of threads that step them.
    energy, compatible
        As in `hdrl.kernel.state.new_state`.
    watch
        Scalars of `WATCH_DTYPE` that never change, by name.
    pairs, limits, shares
        ``pairs``, ``limits``, and ``speed_share`` with ``power_share`` of `hdrl.kernel.observe.Watch`.

    Attributes
    ----------
    batch, watches
        The arrays of the environments, and what accompanies them, with a leading axis.
    lent
        The same for compiled code, and for each thread.
    lent_watches
        What accompanies them, for compiled code.
    """

    def __init__(
        self,
        platform: Platform,
        workloads: Sequence[Workload],
        plan: EpisodePlan,
        n_rows: int,
        n_threads: int,
        *,
        energy: bool,
        compatible: bool,
        watch: dict[str, float],
        pairs: NDArray[np.int64],
        limits: NDArray[np.float64],
        shares: tuple[NDArray[np.float64], NDArray[np.float64]],
    ) -> None:
        self._jobs = JobTable(platform, workloads)
        self._compatible = compatible
        longest = max(workloads, key=lambda one: one.n_jobs)
        sample = longest if longest.n_jobs == plan.max_jobs else longest.window(0, plan.max_jobs)
        twister = np.zeros(625, dtype=np.uint32)
        birth = new_state(
            platform, sample, twister=twister, energy=energy, compatible=compatible, logging=False
        )._replace(
            steps=self._jobs.steps,
            allocated=np.zeros(self._jobs.n_allocated(plan), dtype=np.int32),
        )
        # Following what is left of each job is a tenth of all work, and one observation alone shows it.
        birth.scalars["follows_progress"] = watch["detail"] == observe.NORMAL and not compatible
        self._birth = birth
        self.batch = repeated(birth, n_rows)
        n_kept = 2 * plan.max_jobs + 2 + (episodes.MAX_VOIDS if compatible else 0)
        self.watches = new_watches(n_rows, plan.max_jobs, n_kept, len(pairs))._replace(
            pairs=np.ascontiguousarray(pairs),
            limits=limits,
            speed_share=shares[0],
            power_share=shares[1],
        )
        for name, value in watch.items():
            self.watches.rows[name] = value
        others = (for_another_thread(self.batch) for _ in range(n_threads - 1))
        self.lent = [Lent(self.batch), *map(Lent, others)]
        self.lent_watches = Lent(self.watches)

    def begin(self, row: int, window: Window, seed: int, *, has_random: bool) -> None:
        """Bring a row back to date 0 with the jobs of a window.

        Parameters
        ----------
        row
            Which row.
        window
            Which jobs.
        seed
            Seed of what is random in the policies.
        has_random
            Whether anything is; without, no random numbers are seeded.
        """
        batch, birth = self.batch, self._birth
        for name in CHANGING:
            _copy(getattr(birth, name), getattr(batch, name)[row])
        batch.sleeps["position"][row] = -1
        batch.tasks["position"][row] = -1
        self._jobs.fill(batch, row, window)
        self.watches.rows["n_jobs"][row] = window.n_jobs
        if has_random:
            batch.twister[row] = twister_of(seed, compatible=self._compatible)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all arrays that change, by name; the structured ones as bytes."""
        left_out = {*SCRATCH, *SHARED}
        arrays = {name: array for name, array in self.batch._asdict().items() if name not in left_out and array.size}
        arrays |= {f"watch_{name}": getattr(self.watches, name) for name in ("rows", "ordered", "history")}
        return {
            name: array.view(np.uint8).reshape(len(array), -1) if array.dtype.names else array
            for name, array in arrays.items()
        }


def twister_of(seed: int, *, compatible: bool) -> NDArray[np.uint32]:
    """Return the random stream of policies, as `hdrl.simulate` seeds it.

    Parameters
    ----------
    seed
        The seed.
    compatible
        Whether it is Python's, as in HDeepRM.
    """
    return python_twister_state(seed) if compatible else twister_state(seed, "policy")

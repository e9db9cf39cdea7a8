"""View of a policy in Python on a machine with the rules of a site."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.lib import recfunctions
from numpy.typing import NDArray

from hdrl.base.errors import SimulationError
from hdrl.compiled.borrowed import Borrowed
from hdrl.settings.batch.kernel.state import BatchState
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.trace import JobState
from hdrl.settings.batch.simulation.view import News, View
from hdrl.settings.batch.site_rules import codes
from hdrl.settings.batch.site_rules.kernel import events
from hdrl.settings.batch.site_rules.kernel.state import SiteState, waiting_jobs
from hdrl.settings.batch.site_rules.model import SiteJobs, SiteRules
from hdrl.settings.batch.workload.model import Workload

REQUEST_COLUMNS = ("partitions", "nodes", "is_exclusive", "features", "gpus", "nice", "qos", "account", "array")
"""Columns of `SITE_JOB_DTYPE` that `View.rows` adds to those of the workload, beside ``eligible_s``."""


class SiteRequest(NamedTuple):
    """Requests of a job to a site, by the names of the site.

    Attributes
    ----------
    eligible_s
        Date from which it could start, in seconds; -1: not yet.
    partitions
        Partitions in which it may run, in the order of the site.
    account, qos
        Its account and its QOS; empty if it has none.
    features
        Features of which each of its nodes must have all.
    gpus
        Number of GPUs on each node.
    nodes
        The least number of nodes; -1: as many as its cores need.
    is_exclusive
        True if it gets whole nodes, wherever it runs.
    nice
        Number subtracted from its multifactor priority.
    """

    eligible_s: float
    partitions: tuple[str, ...]
    account: str
    qos: str
    features: tuple[str, ...]
    gpus: int
    nodes: int
    is_exclusive: bool
    nice: int


@dataclass(frozen=True, slots=True)
class SiteWorld:
    """Inputs of the simulation of a site, which do not change."""

    platform: Platform
    workload: Workload
    rules: SiteRules
    site_requests: SiteJobs

    def workload_at(self, state: SiteState) -> Workload:
        """Return the workload with the dates at which jobs have been submitted, where these follow ends of jobs."""
        if not self.site_requests.has_think_times:
            return self.workload
        jobs = self.workload.jobs.copy()
        is_known = np.isfinite(state.jobs["submit_s"])
        jobs["submit_s"][is_known] = state.jobs["submit_s"][is_known]
        jobs.flags.writeable = False
        return replace(self.workload, jobs=jobs)


@dataclass(frozen=True, slots=True)
class SiteView(View):
    """The state of a site as a scheduler sees it; valid until the next step.

    Jobs wait from the date when they are eligible: those whose begin date, hold, dependency, array or QOS keeps them
    from starting are not seen.
    """

    _site: SiteWorld
    _arrays: Borrowed[SiteState]
    _news: tuple[tuple[News, int], ...]
    _is_over: bool

    @classmethod
    def of(
        cls, world: SiteWorld, arrays: Borrowed[SiteState], news: list[tuple[News, int]], *, is_over: bool
    ) -> SiteView:
        """Return the view of the present state."""
        nothing: Borrowed[BatchState] = arrays  # type: ignore[assignment]  # all that would look at it is overridden
        return cls(world.platform, world.workload_at(arrays.arrays), nothing, world, arrays, tuple(news), is_over)

    @property
    def _here(self) -> SiteState:
        return self._arrays.arrays

    @property
    def now_s(self) -> float:
        """The date, in seconds."""
        return float(self._here.scalars["message_s"][0])

    @property
    def news(self) -> list[tuple[News, int]]:
        """Events since the last message: jobs that ended, in order, then those that have become eligible."""
        return list(self._news)

    @property
    def news_s(self) -> NDArray[np.float64]:
        """Dates in seconds at which the scheduler got each event: all events of a date come with one message."""
        return np.full(len(self._news), self.now_s)

    @property
    def is_over(self) -> bool:
        """True if the simulation has ended."""
        return self._is_over

    @property
    def waiting(self) -> NDArray[np.int64]:
        """Indices of the eligible jobs that wait, in the order in which they were submitted."""
        return waiting_jobs(self._here)

    @property
    def running(self) -> NDArray[np.int64]:
        """Indices of the running and suspended jobs, ascending."""
        return np.flatnonzero(self._here.jobs["state"] == codes.RUNNING)

    @property
    def started_s(self) -> NDArray[np.float64]:
        """Start date of every job, -1 if it has not started, shape ``(n_jobs,)``."""
        return self._here.jobs["start_s"].copy()

    def outcome(self, job: int) -> tuple[JobState, int]:
        """Return the state of a job and, once it has ended, its return code (-1 before)."""
        row = self._here.jobs[job]
        return JobState(int(row["state"])), int(row["return_code"]) if row["ended_s"] >= 0 else -1

    def progress(self, job: int) -> float:
        """Raise an error: no decision kills jobs on a machine with the rules of a site."""
        raise SimulationError(
            f"progress({job}) is not known on a machine with the rules of a site: policies kill no job"
        )

    def remaining(self, job: int) -> float:
        """Return the part of its *requested* time that a running job has left, 0 to 1."""
        row = self._here.jobs[job]
        if row["requested_time_s"] <= 0:
            return 0.0
        suspended_s = row["suspended_s"]
        if row["suspended_since_s"] >= 0:
            suspended_s += self.now_s - row["suspended_since_s"]
        ran_s = self.now_s - row["start_s"] - suspended_s
        return float(max(0.0, 1.0 - ran_s / row["requested_time_s"]))

    @property
    def free_cores(self) -> NDArray[np.int64]:
        """Ids of the free cores, ascending; those of nodes that have failed or are drained are not free."""
        state = self._here
        is_open = np.repeat(state.nodes["n_closed"] == 0, state.nodes["cores"])
        return np.flatnonzero((state.core_owner < 0) & is_open)

    @property
    def n_free_cores(self) -> int:
        """Number of free cores."""
        return len(self.free_cores)

    @property
    def free_gpus(self) -> NDArray[np.int64]:
        """Free GPUs of each node, shape ``(n_nodes,)``."""
        return self._here.free_gpus.astype(np.int64)

    @property
    def free_memory_mib(self) -> NDArray[np.float64]:
        """Free memory of each node in MiB, shape ``(n_nodes,)``; all of it where the site does not count memory."""
        return self._here.free_mib.copy()

    @property
    def free_bandwidth_gbps(self) -> NDArray[np.float64]:
        """Memory bandwidth of each processor in GB/s: jobs take none of it here, shape ``(n_processors,)``."""
        return self.platform.bandwidth_gbps.copy()

    @property
    def node_status(self) -> NDArray[np.int64]:
        """State of each node: 0 on, 2 off, as it has failed or is drained (`NODE_STATUS`), shape ``(n_nodes,)``."""
        return np.where(self._here.nodes["n_closed"] > 0, 2, 0).astype(np.int64)

    @property
    def sleep_state(self) -> NDArray[np.int64]:
        """-1 for each node: none sleeps."""
        return np.full(len(self._here.nodes), -1, dtype=np.int64)

    @property
    def pstate(self) -> NDArray[np.int32]:
        """P-state of each core: always the first."""
        return np.zeros(self.platform.n_cores, dtype=np.int32)

    @property
    def power_w(self) -> float:
        """Raise an error: no energy is computed."""
        raise SimulationError("power_w is not known: simulator 'site' computes no energy")

    @property
    def energy_j(self) -> float:
        """Raise an error: no energy is computed."""
        raise SimulationError("energy_j is not known: simulator 'site' computes no energy")

    @property
    def no_more_jobs(self) -> bool:
        """True if all jobs have been submitted."""
        return not bool(np.any(self._here.jobs["state"] == codes.NOT_SUBMITTED))

    def fits(self, job: int) -> bool:
        """Tell whether a waiting job may start now by the rules of the site."""
        return len(self.cores_for(job)) > 0

    def cores_for(self, job: int) -> list[int]:
        """Return the cores that the site would give a waiting job now, ascending; none if it may not start now.

        It is tried in its partitions, in the order of the site; nodes are chosen as Slurm does. Two jobs may be offered
        the same cores: start one, and the next message of the same date shows what is left.
        """
        state = self._here
        row = state.jobs[job]
        if row["is_queued"] == 0 or row["state"] != codes.WAITING:
            return []
        for entry in range(row["first_entry"], row["first_entry"] + row["n_entries"]):
            if events.decide(self._arrays, codes.LOOK, entry) == codes.FITS:
                chosen = state.selected[: int(state.scalars["n_selected"][0])]
                return sorted(core for node, n in chosen.tolist() for core in self._lowest_free(node)[:n])
        return []

    def request(self, job: int) -> SiteRequest:
        """Return the requests of a job to the site, by name."""
        requested, rules, state = self._site.site_requests.jobs[job], self._site.rules, self._here
        row = state.jobs[job]
        entries = state.entries[row["first_entry"] : row["first_entry"] + row["n_entries"]]
        return SiteRequest(
            eligible_s=float(row["eligible_s"]),
            partitions=tuple(rules.partition_names[number] for number in entries["partition"]),
            account=rules.account_names[requested["account"]] if requested["account"] >= 0 else "",
            qos=rules.qos_names[requested["qos"]] if requested["qos"] >= 0 else "",
            features=tuple(
                name for bit, name in enumerate(rules.feature_names) if int(requested["features"]) >> bit & 1
            ),
            gpus=int(requested["gpus"]),
            nodes=int(requested["nodes"]),
            is_exclusive=bool(requested["is_exclusive"]),
            nice=int(requested["nice"]),
        )

    def rows(self, jobs: NDArray[np.int64]) -> NDArray[np.void]:
        """Return the requests of some jobs: the rows of the workload, ``eligible_s`` and `REQUEST_COLUMNS`."""
        requested = self._site.site_requests.jobs[jobs][list(REQUEST_COLUMNS)]
        columns = {name: requested[name] for name in REQUEST_COLUMNS}
        columns["eligible_s"] = self._here.jobs["eligible_s"][jobs]
        rows = self.workload.jobs[jobs]
        merged: NDArray[np.void] = recfunctions.append_fields(
            rows, list(columns), list(columns.values()), usemask=False
        )
        return merged

    def _lowest_free(self, node: int) -> list[int]:
        """Return the free cores of a node, ascending."""
        first, n = (int(self._here.nodes[node][name]) for name in ("first_core", "cores"))
        found: list[int] = (first + np.flatnonzero(self._here.core_owner[first : first + n] < 0)).tolist()
        return found

"""Jobs on a machine with the rules of a site, in plain Python: slow, simple, and written apart from the simulator.

Sources: Slurm's slurm.conf, sbatch and scheduling guides, and the docstrings of `site_rules.model`. Sets of node
numbers stand for nodes, dictionaries for what is free on them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hdrl.batch import Platform, Workload
from hdrl.settings.batch.site_rules.model import DependencyKind, SiteJobs, SiteRules

NEVER = math.inf
YEAR_S = 365 * 86400.0
OF_A_DATE = ("end", "back", "gone", "cancel", "submit", "eligible", "reservation")
"""The events of one date, in the order in which they happen."""


@dataclass
class Job:
    """A job and where it stands."""

    number: int
    submit_s: float
    run_s: float
    limit_s: float
    cores: int
    asked: Any
    partitions: list[int]
    eligible_s: float = NEVER
    state: str = "to come"
    start_s: float = NEVER
    end_s: float = NEVER
    nodes: dict[int, int] = field(default_factory=dict)
    """Cores on each node while it runs."""
    partition: int = -1

    @property
    def has_ended(self) -> bool:
        return self.state in ("done", "cancelled", "never")


class Oracle:
    """One simulation.

    Parameters
    ----------
    policy
        ``"fcfs"``, ``"fcfs+easy"`` or ``"fcfs+conservative"``.
    """

    def __init__(self, platform: Platform, workload: Workload, policy: str) -> None:
        assert platform.site is not None
        assert workload.site is not None
        self.rules: SiteRules = platform.site
        self.site: SiteJobs = workload.site
        self.policy = policy
        self.now_s = 0.0
        run_s = workload.steps["amount"][workload.first_step[workload.jobs["profile"]]] / (
            platform.reference_gflops * 1e9
        )
        self.jobs = [
            self._job(number, row, float(run_s[number]), self.site.jobs[number])
            for number, row in enumerate(workload.jobs)
        ]
        self.free = {node: int(row["cores"]) for node, row in enumerate(self.rules.nodes)}
        self.free_gpus = {node: int(row["gpus"]) for node, row in enumerate(self.rules.nodes)}
        self.gone: dict[int, int] = dict.fromkeys(self.free, 0)
        self.queue: list[Job] = []
        self.events: list[tuple[float, int, int]] = []
        self.is_changed = False
        self.has_new = False

    def _job(self, number: int, row: Any, run_s: float, asked: Any) -> Job:
        limit_s = min(float(row["requested_time_s"]), YEAR_S) if row["requested_time_s"] > 0 else YEAR_S
        bits = int(asked["partitions"]) or 1 << self.rules.default_partition
        partitions = [place for place in range(len(self.rules.partitions)) if bits >> place & 1]
        return Job(number, float(row["submit_s"]), run_s, limit_s, int(row["cores"]), asked, partitions)

    # ------------------------------------------------------------ events

    def note(self, date_s: float, kind: str, thing: int) -> None:
        self.events.append((date_s, OF_A_DATE.index(kind), thing))

    def run(self) -> list[float]:
        """Return when each job starts, infinity if never."""
        origin_s = self.site.origin_s
        for job in self.jobs:
            self.note(job.submit_s, "submit", job.number)
            self.note(float(job.asked["cancelled_s"]), "cancel", job.number)
        for row in self.rules.reservations:
            self.note(row["start_s"] - origin_s, "reservation", 0)
            self.note(row["end_s"] - origin_s, "reservation", 0)
        for place, row in enumerate(self.rules.outages):
            self.note(row["start_s"] - origin_s, "gone", place)
            self.note(row["end_s"] - origin_s, "back", place)
        self.events = [event for event in self.events if event[0] < NEVER]
        while self.events and not all(job.has_ended for job in self.jobs):
            date_s = min(self.events)[0]
            batch = sorted(event for event in self.events if event[0] == date_s)
            self.events = [event for event in self.events if event[0] != date_s]
            self.now_s = max(self.now_s, date_s)
            for _, kind, thing in batch:
                self._happens(OF_A_DATE[kind], thing)
            self._schedule()
        return [job.start_s for job in self.jobs]

    def _happens(self, kind: str, thing: int) -> None:
        if kind == "end":
            if self.jobs[thing].state == "running" and self.jobs[thing].end_s == self.now_s:
                self._ends(self.jobs[thing], "done")
        elif kind == "cancel":
            self._is_cancelled(self.jobs[thing])
        elif kind == "submit":
            if self.jobs[thing].state == "to come":
                self.jobs[thing].state = "waiting"
                self._looks_at(self.jobs[thing])
        elif kind == "eligible":
            self._looks_at(self.jobs[thing])
        elif kind in ("gone", "back"):
            self.gone[int(self.rules.outages[thing]["node"])] += 1 if kind == "gone" else -1
            self.is_changed = True
        elif kind == "reservation":
            self.is_changed = True

    def _is_cancelled(self, job: Job) -> None:
        if job.state == "running":
            self._ends(job, "cancelled")
        elif job.state == "waiting":
            was_queued = job in self.queue
            if was_queued:
                self.queue.remove(job)
            job.state, job.end_s = "never", self.now_s
            if was_queued:
                self._next_task(job)
            self._dependents(job)
        elif job.state == "to come":
            # Cancelled before it came: Slurm does not know it yet, and nothing happens.
            pass

    def _ends(self, job: Job, state: str) -> None:
        for node, cores in job.nodes.items():
            self.free[node] += cores
            self.free_gpus[node] += int(job.asked["gpus"])
        job.nodes, job.state, job.end_s = {}, state, self.now_s
        self._next_task(job)
        self._dependents(job)

    def _eligible_s(self, job: Job) -> float:
        """Return from when on a job may start; infinity: not yet known, NaN: never."""
        date_s = max(job.submit_s, float(job.asked["begin_s"]), float(job.asked["held_until_s"]))
        for row in self.site.dependencies:
            if row["job"] != job.number:
                continue
            other, kind = self.jobs[row["on"]], row["kind"]
            if kind == DependencyKind.AFTER:
                since_s = other.start_s if other.start_s < NEVER else other.end_s if other.has_ended else NEVER
            else:
                since_s = other.end_s if other.has_ended else NEVER
                if other.has_ended and (
                    (kind == DependencyKind.AFTER_OK and other.state != "done")
                    or (kind == DependencyKind.AFTER_NOT_OK and other.state == "done")
                ):
                    return math.nan
            date_s = max(date_s, since_s + float(row["delay_s"]))
        return date_s

    def _looks_at(self, job: Job) -> None:
        """Queue a job if it may start from now on."""
        if job.state != "waiting" or job in self.queue:
            return
        date_s = self._eligible_s(job)
        if math.isnan(date_s):
            job.state, job.end_s = "never", self.now_s
            self._dependents(job)
        elif date_s > self.now_s:
            if date_s < NEVER:
                self.note(date_s, "eligible", job.number)
        elif not self._is_throttled(job):
            job.eligible_s = self.now_s if self._limit_of_array(job) >= 0 else date_s
            self.queue.append(job)
            self.is_changed = self.has_new = True

    def _limit_of_array(self, job: Job) -> int:
        """Return how many tasks of an array may be queued or run: --array=0-9%3; -1: all."""
        return int(job.asked["array_limit"]) if job.asked["array"] >= 0 else -1

    def _is_throttled(self, job: Job) -> bool:
        limit = self._limit_of_array(job)
        active = [
            other
            for other in self.jobs
            if other.asked["array"] == job.asked["array"] and (other.state == "running" or other in self.queue)
        ]
        return limit >= 0 and len(active) >= limit

    def _next_task(self, job: Job) -> None:
        if job.asked["array"] < 0:
            return
        for other in self.jobs:
            if other.asked["array"] == job.asked["array"] and other.state == "waiting" and other not in self.queue:
                self._looks_at(other)
                if other in self.queue:
                    return

    def _dependents(self, job: Job) -> None:
        for row in self.site.dependencies:
            if row["on"] == job.number:
                self._looks_at(self.jobs[row["job"]])
        self.is_changed = True

    # ------------------------------------------------------------ nodes

    def _reserved(self, start_s: float, end_s: float) -> set[int]:
        """Return the nodes of reservations that overlap a time."""
        origin_s = self.site.origin_s
        return {
            node
            for row, mask in zip(self.rules.reservations, self.rules.reservation_nodes, strict=True)
            if row["start_s"] - origin_s < end_s and row["end_s"] - origin_s > start_s
            for node in np.flatnonzero(mask).tolist()
        }

    def _nodes_for(self, job: Job, partition: int) -> set[int]:
        """Return the nodes of a partition that are up and have the features that a job wants."""
        wanted = int(job.asked["features"])
        return {
            node
            for node in np.flatnonzero(self.rules.partition_nodes[partition]).tolist()
            if not self.gone[node] and int(self.rules.nodes["features"][node]) & wanted == wanted
        }

    def _choose(
        self, job: Job, partition: int, usable: set[int], free: dict[int, int], free_gpus: dict[int, int]
    ) -> dict[int, int] | None:
        """Return the cores of a job on each node: best fit on sets of consecutive nodes of one weight.

        One node that is enough is the one with the fewest free cores.
        """
        row = self.rules.partitions[partition]
        is_whole = bool(job.asked["is_exclusive"] or row["is_exclusive"])
        offers = {}
        for node in sorted(usable):
            cores = free[node]
            if (is_whole and cores < self.rules.nodes["cores"][node]) or free_gpus[node] < job.asked["gpus"]:
                cores = 0
            if cores > 0:
                offers[node] = cores
        least_nodes = max(int(job.asked["nodes"]), int(row["min_nodes"]), 1)
        most_nodes = len(self.free) if row["max_nodes"] < 0 else int(row["max_nodes"])
        while offers:
            found = self._take(job, self._sets(offers), offers, least_nodes, most_nodes, is_whole=is_whole)
            if found is not None:
                return found
            if most_nodes >= len(self.free):
                return None
            smallest = min(offers.values())  # few nodes suffice only if they are large
            offers = {node: cores for node, cores in offers.items() if cores > smallest}
        return None

    def _sets(self, offers: dict[int, int]) -> list[list[int]]:
        sets: list[list[int]] = []
        for node in sorted(offers):
            same = sets and sets[-1][-1] == node - 1
            if same and self.rules.nodes["weight"][node] == self.rules.nodes["weight"][node - 1]:
                sets[-1].append(node)
            else:
                sets.append([node])
        return sets

    def _take(
        self,
        job: Job,
        sets: list[list[int]],
        offers: dict[int, int],
        least_nodes: int,
        most_nodes: int,
        *,
        is_whole: bool,
    ) -> dict[int, int] | None:
        found: dict[int, int] = {}
        missing = job.cores
        while sets and len(found) < most_nodes:
            nodes_missing = least_nodes - len(found)
            lightest = min(int(self.rules.nodes["weight"][one[0]]) for one in sets)
            light = [one for one in sets if self.rules.nodes["weight"][one[0]] == lightest]
            size = {one[0]: sum(offers[node] for node in one) for one in light}
            enough = [one for one in light if size[one[0]] >= missing and len(one) >= nodes_missing]
            best = min(enough, key=lambda one: size[one[0]]) if enough else max(light, key=lambda one: size[one[0]])
            alone = [node for node in best if offers[node] >= missing] if nodes_missing <= 1 else []
            for node in [min(alone, key=offers.__getitem__)] if alone else best:
                nodes_missing = least_nodes - len(found)
                if len(found) == most_nodes or (missing <= 0 and nodes_missing <= 0):
                    break
                cores = offers[node] if is_whole else min(offers[node], max(missing - max(nodes_missing - 1, 0), 1))
                found[node] = cores
                missing -= cores
            if missing <= 0 and len(found) >= least_nodes:
                return found
            sets.remove(best)
        return None

    def _limit_in(self, job: Job, partition: int) -> float:
        return min(job.limit_s, float(self.rules.partitions[partition]["max_time_s"]))

    def _starts(self, job: Job, partition: int, nodes: dict[int, int]) -> None:
        self.queue.remove(job)
        for node, cores in nodes.items():
            self.free[node] -= cores
            self.free_gpus[node] -= int(job.asked["gpus"])
        job.nodes, job.partition, job.state, job.start_s = nodes, partition, "running", self.now_s
        job.end_s = self.now_s + self.rules.scheduler.launch_s + job.run_s
        self.note(job.end_s, "end", job.number)
        self._dependents(job)

    # ------------------------------------------------------------ scheduling

    def _order(self) -> list[tuple[Job, int]]:
        """Return the queue in the order of service: tier, then submission; a job once for each of its partitions."""
        entries = [(job, partition) for job in self.queue for partition in job.partitions]
        return sorted(
            entries,
            key=lambda one: (-int(self.rules.partitions[one[1]]["tier"]), one[0].submit_s, one[0].number, one[1]),
        )

    def _main(self) -> None:
        """Go down the queue; a job that has to wait stops its partition and all its nodes."""
        stopped: set[int] = set()
        blocked: set[int] = set()
        for job, partition in self._order():
            if job not in self.queue or partition in stopped:
                continue
            every = self._nodes_for(job, partition)
            left = every - blocked - self._reserved(self.now_s, self.now_s + self._limit_in(job, partition))
            chosen = self._choose(job, partition, left, self.free, self.free_gpus)
            if chosen is not None:
                self._starts(job, partition, chosen)
                continue
            whole = {node: int(row["cores"]) for node, row in enumerate(self.rules.nodes)}
            gpus = {node: int(row["gpus"]) for node, row in enumerate(self.rules.nodes)}
            if left != every and self._choose(job, partition, left, whole, gpus) is None:
                continue  # idle nodes would not do either: those that are left to it are not what it waits for
            stopped.add(partition)
            blocked |= set(np.flatnonzero(self.rules.partition_nodes[partition]).tolist())

    def _schedule(self) -> None:
        has_new = self.is_changed
        while has_new:
            self.has_new = False
            self._main()
            if self.policy != "fcfs":
                self._plan_all()
            has_new = self.has_new  # a job that waited for the start of another one
        self.is_changed = False

    def _plan_all(self) -> None:
        """Plan anew: EASY the first job of each partition, conservative all; start what delays none of them."""
        entries = self._order()
        if self.policy == "fcfs+easy":
            seen: set[int] = set()
            first = []
            for one in entries:
                if one[1] not in seen:
                    seen.add(one[1])
                    first.append(one)
            others = [one for one in entries if one not in first]
            others.sort(key=lambda one: (one[0].submit_s, one[0].number, one[1]))
            entries = [*first, *others]
        planned: list[tuple[float, float, set[int]]] = []
        has_plan: set[int] = set()
        for job, partition in entries:
            if job not in self.queue:
                continue
            may_wait = self.policy != "fcfs+easy" or partition not in has_plan
            found = self._earliest(job, partition, planned, may_wait=may_wait)
            if found is None:
                continue
            start_s, nodes = found
            if start_s <= self.now_s:
                self._starts(job, partition, nodes)
            elif may_wait:
                planned.append((start_s, start_s + self._limit_in(job, partition), set(nodes)))
                has_plan.add(partition)

    def _earliest(
        self, job: Job, partition: int, planned: list[tuple[float, float, set[int]]], *, may_wait: bool
    ) -> tuple[float, dict[int, int]] | None:
        """Return the first date at which a job fits, and its nodes: those that nothing has reserved until its limit."""
        limit_s = self._limit_in(job, partition)
        running = [one for one in self.jobs if one.state == "running"]
        ends = {one.number: max(one.start_s + self._limit_in(one, one.partition), self.now_s) for one in running}
        origin_s = self.site.origin_s
        dates = {self.now_s, *ends.values(), *(end_s for _, end_s, _ in planned)}
        dates |= {float(row["end_s"]) - origin_s for row in self.rules.reservations}
        for date_s in sorted(one for one in dates if one >= self.now_s) if may_wait else [self.now_s]:
            usable = self._nodes_for(job, partition) - self._reserved(date_s, date_s + limit_s)
            for start_s, end_s, nodes in planned:
                if start_s < date_s + limit_s and end_s > date_s:
                    usable -= nodes
            free, gpus = dict(self.free), dict(self.free_gpus)
            for one in running:
                if date_s > self.now_s and ends[one.number] <= date_s:
                    for node, cores in one.nodes.items():
                        free[node] += cores
                        gpus[node] += int(one.asked["gpus"])
            chosen = self._choose(job, partition, usable, free, gpus)
            if chosen is not None:
                return date_s, chosen
        return None

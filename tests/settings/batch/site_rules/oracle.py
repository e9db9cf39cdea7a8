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
from hdrl.settings.batch.site_rules.model import DependencyKind, PreemptBy, PreemptMode, SiteJobs, SiteRules

NEVER = math.inf
YEAR_S = 365 * 86400.0
Plans = list[tuple[float, float, set[int]]]
"""From when until when which nodes are kept for a job."""

OF_A_DATE = ("end", "back", "gone", "cancel", "submit", "eligible", "reservation")
"""The events of one date, in the order in which they happen."""


def planned_in(planned: Plans, start_s: float, end_s: float) -> set[int]:
    """Return the nodes that are kept for jobs within a time."""
    return {node for from_s, until_s, nodes in planned if from_s < end_s and until_s > start_s for node in nodes}


@dataclass
class Job:
    """A job and where it stands."""

    number: int
    submit_s: float
    run_s: float
    limit_s: float
    cores: int
    site_requests: Any
    partitions: list[int]
    eligible_s: float = NEVER
    state: str = "to come"
    start_s: float = NEVER
    end_s: float = NEVER
    nodes: dict[int, int] = field(default_factory=dict)
    """Cores on each node while it runs."""
    partition: int = -1
    begin_s: float = -NEVER
    """Earliest date after it was requeued."""
    killed_s: float = NEVER
    """When it is killed, after its grace."""
    suspended_since_s: float = NEVER
    left_s: float = 0.0
    is_restarted: bool = False
    limit_end_s: float = NEVER
    rank: int = -1
    """The how many-th job it was that was submitted."""
    parts: list[Job] = field(default_factory=list)
    """The components of its het job, itself among them; empty: it is no component."""
    last_nodes: dict[int, int] = field(default_factory=dict)
    """The nodes of its last start, and how many of their cores it got."""

    @property
    def is_suspended(self) -> bool:
        return self.suspended_since_s < NEVER

    @property
    def has_ended(self) -> bool:
        return self.state in ("done", "cancelled", "never")


Placed = list[tuple[Job, int]]
"""Jobs, each in a partition."""

TO_START = ("cores", "gpus", "jobs")
"""What limits on running jobs count."""


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
        for job in self.jobs:
            group = int(job.site_requests["het_group"])
            parts = [one for one in self.jobs if group >= 0 and one.site_requests["het_group"] == group]
            job.parts = parts if len(parts) > 1 else []
        self.free = {node: int(row["cores"]) for node, row in enumerate(self.rules.nodes)}
        self.free_gpus = {node: int(row["gpus"]) for node, row in enumerate(self.rules.nodes)}
        self.gone: dict[int, int] = dict.fromkeys(self.free, 0)
        self.queue: list[Job] = []
        self.events: list[tuple[float, int, int]] = []
        self.is_changed = False
        self.has_new = False
        self.has_preempted = False
        self.n_submitted = 0

    def _job(self, number: int, row: Any, run_s: float, asked: Any) -> Job:
        limit_s = min(float(row["requested_time_s"]), YEAR_S) if row["requested_time_s"] > 0 else YEAR_S
        bits = int(asked["partitions"]) or 1 << self.rules.default_partition
        partitions = [position for position in range(len(self.rules.partitions)) if bits >> position & 1]
        return Job(number, float(row["submit_s"]), run_s, limit_s, int(row["cores"]), asked, partitions)

    # ------------------------------------------------------------ events

    def note(self, date_s: float, kind: str, thing: int) -> None:
        self.events.append((date_s, OF_A_DATE.index(kind), thing))

    def run(self) -> list[float]:
        """Return when each job starts, infinity if never."""
        origin_s = self.site.origin_s
        for row in self.site.dependencies:
            if row["kind"] == DependencyKind.THINK:
                self.jobs[row["job"]].submit_s = NEVER
        for job in self.jobs:
            self.note(job.submit_s, "submit", job.number)
            self.note(float(job.site_requests["cancelled_s"]), "cancel", job.number)
        for row in self.rules.reservations:
            self.note(row["start_s"] - origin_s, "reservation", 0)
            self.note(row["end_s"] - origin_s, "reservation", 0)
        for position, row in enumerate(self.rules.outages):
            self.note(row["start_s"] - origin_s, "gone", position)
            self.note(row["end_s"] - origin_s, "back", position)
        self.events = [event for event in self.events if event[0] < NEVER]
        while not all(job.has_ended for job in self.jobs):
            if not self.events:
                if not self._unties():
                    break
                self._schedule()
                continue
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
                self._ends(self.jobs[thing], "cancelled" if self.jobs[thing].killed_s == self.now_s else "done")
        elif kind == "cancel":
            self._is_cancelled(self.jobs[thing])
        elif kind == "submit":
            self.jobs[thing].rank = self.n_submitted
            self.n_submitted += 1
            if self.jobs[thing].state == "to come":
                if self._is_rejected(self.jobs[thing]):
                    self._never_starts(self.jobs[thing])
                    return
                self.jobs[thing].state = "waiting"
                self._looks_at(self.jobs[thing])
        elif kind == "eligible":
            self._looks_at(self.jobs[thing])
        elif kind in ("gone", "back"):
            self._goes_or_comes(thing, 1 if kind == "gone" else -1)
        elif kind == "reservation":
            self.is_changed = True

    def _goes_or_comes(self, outage: int, change: int) -> None:
        """Let a node go (1), from which its jobs are requeued unless it is drained, or come back (-1)."""
        node = int(self.rules.outages[outage]["node"])
        self.gone[node] += change
        if change > 0 and not self.rules.outages[outage]["is_drain"]:
            for job in sorted(self._running(), key=lambda one: one.limit_end_s):
                if node in job.nodes:
                    for one in job.parts or [job]:
                        if one.state == "running":
                            self._requeue(one)
        self.is_changed = True

    def _is_cancelled(self, job: Job) -> None:
        if job.submit_s > self.now_s:  # Slurm does not know it yet, and nothing happens
            return
        parts = job.parts or [job]
        queued = [one for one in parts if one in self.queue]
        self._never_starts(job)
        for one in parts:
            if one.state == "running":
                self._ends(one, "cancelled")
        for one in queued:
            self._next_task(one)

    def _never_starts(self, job: Job) -> None:
        """Let a job that has not started end, with the rest of its het job."""
        waiting = [one for one in job.parts or [job] if one.state in ("to come", "waiting")]
        for one in waiting:
            one.state, one.end_s = "never", self.now_s
            self.queue = [other for other in self.queue if other is not one]
        for one in waiting:
            self._dependents(one)

    def _running(self) -> list[Job]:
        return [job for job in self.jobs if job.state == "running"]

    def _leaves(self, job: Job) -> None:
        """Take a job off its nodes."""
        for node, cores in job.nodes.items():
            self.free[node] += cores
            self.free_gpus[node] += int(job.site_requests["gpus"])
        job.nodes, job.suspended_since_s = {}, NEVER

    def _requeue(self, job: Job) -> None:
        """Let a job begin anew: eligible again after 121 s."""
        self._leaves(job)
        job.state, job.start_s, job.begin_s, job.is_restarted = "waiting", NEVER, self.now_s + 121, True
        self.is_changed = True
        self._next_task(job)
        self._looks_at(job)

    def _ends(self, job: Job, state: str) -> None:
        self._leaves(job)
        job.state, job.end_s = state, self.now_s
        self._next_task(job)
        self._dependents(job)

    def _eligible_s(self, job: Job) -> float:
        """Return from when on a job and the rest of its het job may start; infinity: not yet known, NaN: never."""
        dates_s = [self._own_eligible_s(one) for one in job.parts or [job] if one.state in ("to come", "waiting")]
        return math.nan if any(map(math.isnan, dates_s)) else max(dates_s)

    def _own_eligible_s(self, job: Job) -> float:
        date_s = max(
            job.submit_s, float(job.site_requests["begin_s"]), float(job.site_requests["held_until_s"]), job.begin_s
        )
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
            self._never_starts(job)
        elif date_s > self.now_s:
            if date_s < NEVER:
                self.note(date_s, "eligible", job.number)
        elif not self._is_throttled(job):
            job.eligible_s = self.now_s if self._limit_of_array(job) >= 0 else date_s
            self.queue.append(job)
            self.is_changed = self.has_new = True
            for one in job.parts:
                self._looks_at(one)

    def _limit_of_array(self, job: Job) -> int:
        """Return how many tasks of an array may be queued or run: --array=0-9%3; -1: all."""
        return int(job.site_requests["array_limit"]) if job.site_requests["array"] >= 0 else -1

    def _is_throttled(self, job: Job) -> bool:
        limit = self._limit_of_array(job)
        active = [
            other
            for other in self.jobs
            if other.site_requests["array"] == job.site_requests["array"]
            and (other.state == "running" or other in self.queue)
        ]
        return limit >= 0 and len(active) >= limit

    def _next_task(self, job: Job) -> None:
        if job.site_requests["array"] < 0:
            return
        for other in self.jobs:
            if (
                other.site_requests["array"] == job.site_requests["array"]
                and other.state == "waiting"
                and other not in self.queue
            ):
                self._looks_at(other)
                if other in self.queue:
                    return

    def _dependents(self, job: Job) -> None:
        for row in self.site.dependencies:
            other = self.jobs[row["job"]]
            if row["on"] != job.number:
                continue
            if row["kind"] == DependencyKind.THINK and job.has_ended:
                other.submit_s = job.end_s + float(row["delay_s"])
                self.note(other.submit_s, "submit", other.number)
            self._looks_at(other)
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

    def _nodes_for(self, job: Job, partition: int, *, is_any: bool = False) -> set[int]:
        """Return the nodes of a partition that are up (``is_any``: or not) and have the features that a job wants."""
        wanted = int(job.site_requests["features"])
        return {
            node
            for node in np.flatnonzero(self.rules.partition_nodes[partition]).tolist()
            if (is_any or not self.gone[node]) and int(self.rules.nodes["features"][node]) & wanted == wanted
        }

    def _choose(
        self, job: Job, partition: int, usable: set[int], free: dict[int, int], free_gpus: dict[int, int]
    ) -> dict[int, int] | None:
        """Return the cores of a job on each node: best fit on sets of consecutive nodes of one weight.

        One node that is enough is the one with the fewest free cores.
        """
        row = self.rules.partitions[partition]
        is_whole = bool(job.site_requests["is_exclusive"] or row["is_exclusive"])
        offers = {}
        for node in sorted(usable):
            cores = free[node]
            if (is_whole and cores < self.rules.nodes["cores"][node]) or free_gpus[node] < job.site_requests["gpus"]:
                cores = 0
            if cores > 0:
                offers[node] = cores
        least_nodes = max(int(job.site_requests["nodes"]), int(row["min_nodes"]), 1)
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
            self.free_gpus[node] -= int(job.site_requests["gpus"])
        job.nodes, job.partition, job.state, job.start_s = nodes, partition, "running", self.now_s
        job.last_nodes = nodes
        active = [one for one in self._running() if not one.is_suspended]
        assert all(
            sum(one.nodes.get(node, 0) for one in active) <= int(self.rules.nodes["cores"][node]) for node in nodes
        )
        job.end_s = self.now_s + self.rules.scheduler.launch_s + job.run_s
        job.end_s += self.rules.preemption.restart_s if job.is_restarted else 0
        job.limit_end_s, job.killed_s = self.now_s + self._limit_in(job, partition), NEVER
        self.note(job.end_s, "end", job.number)
        self._dependents(job)

    # ------------------------------------------------------------ limits

    def _qos_in_turn(self, job: Job, partition: int) -> list[int]:
        """Return the QOS that limit a job in a partition, the one that decides first."""
        own, of_partition = int(job.site_requests["qos"]), int(self.rules.partitions[partition]["qos"])
        found = [of_partition, own]
        if own >= 0 and self.rules.qos[own]["is_over_partition"]:
            found.reverse()
        return [one for one in dict.fromkeys(found) if one >= 0]

    def _line(self, job: Job) -> list[Any]:
        """Return the associations of a job: its user in its account if that has one, its account, and those above."""
        found, account = [], int(job.site_requests["account"])
        if job.site_requests["association"] >= 0:
            found.append(self.rules.associations[job.site_requests["association"]])
        while account >= 0:
            found.append(self.rules.accounts[account])
            account = int(found[-1]["parent"])
        return found

    def _accounts_of(self, job: Job) -> set[int]:
        found, account = set(), int(job.site_requests["account"])
        while account >= 0:
            found.add(account)
            account = int(self.rules.accounts[account]["parent"])
        return found

    def _is_too_much(self, job: Job, partition: int) -> bool:
        """Tell whether limits keep a job from ever starting in a partition."""
        if self._exceeds(job, partition, [], TO_START):
            return True
        rows = [*(self.rules.qos[one] for one in self._qos_in_turn(job, partition)), *self._line(job)]
        wants = {"job_cores": job.cores, "job_gpus": self._gpus(job), "max_time_s": job.limit_s}
        return any(
            wanted > next((float(row[name]) for row in rows if row[name] >= 0 and row[name] < NEVER), NEVER)
            for name, wanted in wants.items()
        )

    def _gpus(self, job: Job) -> int:
        return int(job.site_requests["gpus"]) * max(int(job.site_requests["nodes"]), 1)

    def _exceeds(self, job: Job, partition: int, others: Placed, kinds: tuple[str, ...]) -> bool:
        """Tell whether a job would be too much beside others, each in a partition."""
        for kind in kinds:
            wanted = {"cores": job.cores, "gpus": self._gpus(job)}.get(kind, 1)
            for limit, group in self._limits_on(kind, job, partition, others):
                if limit >= 0 and sum(self._size(kind, one) for one, _ in group) + wanted > limit:
                    return True
        return False

    def _size(self, kind: str, job: Job) -> int:
        sizes = {"cores": sum(job.nodes.values()) or job.cores, "gpus": self._gpus(job)}
        return sizes.get(kind, 1)

    def _limits_on(self, kind: str, job: Job, partition: int, others: Placed) -> list[tuple[int, Placed]]:
        """Return the limits of a kind that hold for a job, each with the others that count for it as well."""
        user, account = job.site_requests["user"], job.site_requests["account"]
        same_user = [one for one in others if one[0].site_requests["user"] == user]
        in_account = [one for one in same_user if one[0].site_requests["account"] == account]
        turn = self._qos_in_turn(job, partition)
        found = []
        for whose, some in (("group", others), ("user", same_user)):
            deciding = [one for one in turn if self.rules.qos[one][f"{whose}_{kind}"] >= 0][:1]
            found += [
                (int(self.rules.qos[qos][f"{whose}_{kind}"]), [one for one in some if qos in self._qos_in_turn(*one)])
                for qos in deciding
            ]
            if deciding:
                continue
            if whose == "user" and kind in ("jobs", "submitted"):
                own = [int(row[f"user_{kind}"]) for row in self._line(job) if row[f"user_{kind}"] >= 0]
                found += [(limit, in_account) for limit in own[:1]]
            if whose == "group":
                number = int(job.site_requests["association"])
                own_rows = [self.rules.associations[number]] if number >= 0 else []
                found += [(int(row[f"group_{kind}"]), in_account) for row in own_rows]
                found += [
                    (
                        int(self.rules.accounts[one][f"group_{kind}"]),
                        [other for other in others if one in self._accounts_of(other[0])],
                    )
                    for one in self._accounts_of(job)
                ]
        return found

    def _is_rejected(self, job: Job) -> bool:
        """Tell whether limits keep the user of a job from submitting it."""
        left = [partition for partition in job.partitions if not self._is_too_much(job, partition)]
        cores, gpus = (
            {node: int(row[name]) for node, row in enumerate(self.rules.nodes)} for name in ("cores", "gpus")
        )
        if len(left) < len(job.partitions) and not any(
            self._choose(job, one, self._nodes_for(job, one, is_any=True), cores, gpus) for one in left
        ):
            return True
        there = [(one, one.partitions[0]) for one in self.jobs if one.state in ("waiting", "running")]
        return self._exceeds(job, job.partitions[0], there, ("submitted",))

    def _is_admitted(self, job: Job, partition: int, beside: tuple[tuple[Job, int], ...] = ()) -> bool:
        """Tell whether limits let a job start in a partition, beside others that start at once."""
        running = [(one, one.partition) for one in self._running()]
        is_over = self._exceeds(job, partition, [*running, *beside], TO_START)
        return not is_over and not self._is_too_much(job, partition)

    # ------------------------------------------------------------ scheduling

    def _order(self) -> list[tuple[Job, int]]:
        """Return the queue in the order of service: tier, then submission; a job once for each of its partitions."""
        entries = [(job, partition) for job in self.queue for partition in job.partitions]
        return sorted(
            entries,
            key=lambda one: (-int(self.rules.partitions[one[1]]["tier"]), one[0].submit_s, one[0].rank, one[1]),
        )

    def _main(self) -> None:
        """Go down the queue; a job that has to wait stops its partition and all its nodes."""
        stopped: set[int] = set()
        blocked: set[int] = set()
        for job, partition in self._order():
            if job not in self.queue or partition in stopped:
                continue
            if not job.parts and not self._is_admitted(job, partition):  # this stops nothing
                continue
            if job.parts:  # only backfilling starts it
                stopped.add(partition)
                blocked |= set(np.flatnonzero(self.rules.partition_nodes[partition]).tolist())
                continue
            every = self._nodes_for(job, partition)
            left = every - blocked - self._reserved(self.now_s, self.now_s + self._limit_in(job, partition))
            chosen = self._choose(job, partition, left, self.free, self.free_gpus)
            if chosen is not None:
                self._starts(job, partition, chosen)
                continue
            result = self._preempts(job, partition, left)
            if result == "started":
                continue
            whole = {node: int(row["cores"]) for node, row in enumerate(self.rules.nodes)}
            gpus = {node: int(row["gpus"]) for node, row in enumerate(self.rules.nodes)}
            if result == "no" and left != every and self._choose(job, partition, left, whole, gpus) is None:
                continue  # idle nodes would not do either: those that are left to it are not what it waits for
            stopped.add(partition)
            blocked |= set(np.flatnonzero(self.rules.partition_nodes[partition]).tolist())

    def _schedule(self) -> None:
        self._resume_all()
        has_new = self.is_changed
        while has_new and self.queue:
            self.has_new = self.has_preempted = False
            self._main()
            if self.policy != "fcfs" and self.queue:
                self._plan_all()
            # a job that waited for the start of another one, or what preempted jobs have left
            has_new = self.has_new or self.has_preempted
        self.is_changed = False

    # ------------------------------------------------------------ preemption

    def _mode(self, job: Job) -> int:
        if self.rules.preemption.by == PreemptBy.PARTITION:
            return int(self.rules.partitions[job.partition]["preempt_mode"])
        return int(self.rules.qos[job.site_requests["qos"]]["preempt_mode"]) if job.site_requests["qos"] >= 0 else 0

    def _importance(self, job: Job) -> int:
        if self.rules.preemption.by == PreemptBy.PARTITION:
            return int(self.rules.partitions[job.partition]["tier"])
        return int(self.rules.qos[job.site_requests["qos"]]["priority"]) if job.site_requests["qos"] >= 0 else -1

    def _may_preempt(self, job: Job, partition: int, other: Job) -> bool:
        """Tell whether a job may take the nodes of another one, which has not started at this very date."""
        mode, rules = self._mode(other), self.rules
        if mode == PreemptMode.OFF or other.start_s == self.now_s:
            return False
        if rules.preemption.by == PreemptBy.PARTITION:
            if rules.partitions["tier"][partition] <= rules.partitions["tier"][other.partition]:
                return False
        elif (
            job.site_requests["qos"] < 0
            or not int(rules.qos[job.site_requests["qos"]]["preempts"]) >> int(other.site_requests["qos"]) & 1
        ):
            return False
        exempt_s = rules.preemption.exempt_s
        if other.site_requests["qos"] >= 0 and not math.isnan(rules.qos[other.site_requests["qos"]]["exempt_s"]):
            exempt_s = float(rules.qos[other.site_requests["qos"]]["exempt_s"])
        return mode == PreemptMode.SUSPEND or self.now_s - other.start_s >= exempt_s

    def _grace_s(self, job: Job) -> float:
        if self._mode(job) != PreemptMode.CANCEL:
            return 0.0
        by_partition = self.rules.preemption.by == PreemptBy.PARTITION
        row = self.rules.partitions[job.partition] if by_partition else self.rules.qos[job.site_requests["qos"]]
        return float(row["grace_s"])

    def _is_given_up(self, job: Job) -> bool:
        return job.killed_s < NEVER

    def _without(self, others: list[Job]) -> tuple[dict[int, int], dict[int, int]]:
        """Return the cores and GPUs that are free once some jobs are preempted."""
        free, gpus = dict(self.free), dict(self.free_gpus)
        for other in others:
            for node, cores in other.nodes.items():
                free[node] += cores
                gpus[node] += 0 if self._mode(other) == PreemptMode.SUSPEND else int(other.site_requests["gpus"])
        return free, gpus

    def _fewest(
        self, job: Job, partition: int, usable: set[int], others: list[Job]
    ) -> tuple[list[Job], dict[int, int]] | None:
        """Return the first of some jobs without which a job fits, and its nodes."""
        for n in range(1, len(others) + 1):
            chosen = self._choose(job, partition, usable, *self._without(others[:n]))
            if chosen is not None:
                return others[:n], chosen
        return None

    def _victims(self, job: Job, partition: int, usable: set[int]) -> tuple[list[Job], dict[int, int]] | None:
        """Return which jobs a job preempts to start now, and its nodes."""
        if self.rules.preemption.by == PreemptBy.NOTHING:
            return None
        others = [one for one in self._running() if usable & set(one.nodes) and self._may_preempt(job, partition, one)]
        young = self.rules.preemption.is_youngest_first
        others.sort(
            key=lambda one: (
                not (self._is_given_up(one) or one.is_suspended),
                self._importance(one),
                -one.start_s if young else len(one.nodes),
                one.submit_s,
                one.rank,
            )
        )
        found = self._fewest(job, partition, usable, others)
        if found is None:
            return None
        others, chosen = found
        first, rest = others[-1], others[:-1]
        rest.sort(key=lambda one: -len(set(one.nodes) & set(chosen)))
        found = self._fewest(job, partition, usable, [first, *rest])
        assert found is not None
        others, chosen = found
        return [one for one in others if set(one.nodes) & set(chosen)], chosen

    def _preempts(self, job: Job, partition: int, usable: set[int]) -> str:
        """Let a job that does not fit take the nodes of others.

        Returns
        -------
        str
            ``"no"``, ``"grace"`` if it has to wait for the grace of some, or ``"started"``.
        """
        found = self._victims(job, partition, usable)
        if found is None:
            return "no"
        others, chosen = found
        self.is_changed = True
        ways = [(self._mode(one), self._grace_s(one)) for one in others]
        for one, (mode, grace_s) in zip(others, ways, strict=True):
            for part in one.parts or [one]:  # with a component goes its whole het job
                if part.state == "running":
                    self._is_preempted(part, mode, grace_s)
        if any(grace_s > 0 for _, grace_s in ways):
            return "grace"
        self._starts(job, partition, chosen)
        return "started"

    def _is_preempted(self, job: Job, mode: int, grace_s: float) -> None:
        if grace_s > 0:
            if not self._is_given_up(job):
                self.has_preempted = True
                job.killed_s = self.now_s + grace_s
                job.limit_end_s = min(job.limit_end_s, job.killed_s)
                if job.killed_s < job.end_s:
                    job.end_s = job.killed_s
                    self.note(job.end_s, "end", job.number)
        elif mode == PreemptMode.SUSPEND:
            if not job.is_suspended:
                self.has_preempted = True
                job.suspended_since_s, job.left_s = self.now_s, job.end_s - self.now_s
                job.end_s = NEVER
        else:
            self.has_preempted = True
            if mode == PreemptMode.REQUEUE:
                self._requeue(job)
            else:
                self._ends(job, "cancelled")

    def _resume_all(self) -> None:
        """Let suspended jobs go on where enough cores are idle on all of their nodes."""
        waiting = [job for job in self._running() if job.is_suspended]
        waiting.sort(key=lambda one: (-self._importance(one), one.suspended_since_s, one.submit_s, one.rank))
        for job in waiting:
            busy: dict[int, int] = dict.fromkeys(self.free, 0)
            for other in self._running():
                for node, cores in other.nodes.items():
                    busy[node] += 0 if other.is_suspended else cores
            cores_of = self.rules.nodes["cores"]
            if all(int(cores_of[node]) - busy[node] >= cores for node, cores in job.nodes.items()):
                job.limit_end_s += self.now_s - job.suspended_since_s
                job.end_s, job.suspended_since_s = self.now_s + job.left_s, NEVER
                self.note(job.end_s, "end", job.number)

    def _order_of_easy(self) -> list[tuple[Job, int]]:
        """Return the queue with the first job of each partition before all others."""
        entries = self._order()
        first = self._first_of_partitions()
        kept = [
            one
            for one in entries
            if self._is_admitted(*one) and (one == first.get(one[1]) or self._is_first(one[0], first))
        ]
        others = [one for one in entries if one not in kept]
        return [*kept, *sorted(others, key=lambda one: (one[0].submit_s, one[0].rank, one[1]))]

    def _first_of_partitions(self) -> dict[int, tuple[Job, int]]:
        """Return the first job of each partition that limits let start."""
        return {one[1]: one for one in reversed(self._order()) if self._is_admitted(*one)}

    def _order_of_conservative(self) -> list[tuple[Job, int]]:
        """Return the queue with the components of a het job one after the other."""
        found: list[tuple[Job, int]] = []
        for job, partition in self._order():
            if not job.parts:
                found.append((job, partition))
            elif (job, partition) not in found:
                found += [one for one in self._order() if any(one[0] is part for part in job.parts)]
        return found

    def _is_first(self, job: Job, first: dict[int, tuple[Job, int]]) -> bool:
        """Tell whether a component of the het job of a job is the first job of a partition."""
        return any(part is head for part in job.parts for head, _ in first.values())

    def _usable_now(self, job: Job, partition: int, planned: Plans) -> set[int]:
        """Return the nodes that nothing has reserved from now until the limit of a job."""
        end_s = self.now_s + self._limit_in(job, partition)
        usable = self._nodes_for(job, partition) - self._reserved(self.now_s, end_s)
        return usable - planned_in(planned, self.now_s, end_s)

    def _plan_all(self) -> None:
        """Plan anew: EASY the first job of each partition, conservative all; start what delays none of them.

        Components of het jobs keep nodes from now on, and start at the end if all of their het job could start now.
        """
        planned: Plans = []
        has_plan: set[int] = set()
        parts: dict[int, tuple[float, int]] = {}  # earliest plan and partition of each component, by its number
        first = self._first_of_partitions()
        for job, partition in self._order_of_easy() if self.policy == "fcfs+easy" else self._order_of_conservative():
            if job not in self.queue or self._is_left_out(job, partition, parts):
                continue
            may_wait = self.policy != "fcfs+easy" or partition not in has_plan or self._is_first(job, first)
            if job.parts:
                is_planned = self._is_planned(job, partition, planned, parts, may_wait=may_wait)
                has_plan |= {partition} if is_planned else set()
                continue
            usable, result = self._usable_now(job, partition, planned), "no"
            if self._choose(job, partition, usable, self.free, self.free_gpus) is None:
                result = self._preempts(job, partition, usable)
            found = None
            if result != "started":
                found = self._earliest(job, partition, planned, may_wait=may_wait, preempts=result == "no")
            if found is None:
                continue
            start_s, nodes = found
            if start_s <= self.now_s and self._starts_as_planned(job, partition, set(nodes)):
                continue
            if may_wait:
                planned.append((start_s, start_s + self._limit_in(job, partition), set(nodes)))
                has_plan.add(partition)
        self._start_het_jobs(parts)

    def _is_left_out(self, job: Job, partition: int, parts: dict[int, tuple[float, int]]) -> bool:
        """Tell whether limits keep a job from being planned; a component then has no plan."""
        if self._is_admitted(job, partition):
            return False
        if job.parts:
            parts.setdefault(job.number, (NEVER, partition))
        return True

    def _starts_as_planned(self, job: Job, partition: int, nodes: set[int]) -> bool:
        """Start a job on its planned nodes now; where others hold them, as in Slurm, it preempts those there."""
        chosen = self._choose(job, partition, nodes, self.free, self.free_gpus)
        if chosen is None:
            return self._preempts(job, partition, nodes) == "started"
        self._starts(job, partition, chosen)
        return True

    def _start_het_jobs(self, parts: dict[int, tuple[float, int]]) -> None:
        """Start the het jobs all components of which could start now."""
        for number in parts:
            together = [one for one in self.jobs[number].parts if one in self.queue]
            if together and all(parts.get(one.number, (NEVER,))[0] <= self.now_s for one in together):
                self._starts_together([(self.jobs[one], parts[one][1]) for one in parts if self.jobs[one] in together])

    def _is_planned(
        self,
        job: Job,
        partition: int,
        planned: Plans,
        parts: dict[int, tuple[float, int]],
        *,
        may_wait: bool,
    ) -> bool:
        """Plan a component of a het job, not before those that have a plan; tell whether it has one, too."""
        others = [parts[one.number][0] for one in job.parts if one is not job and one.number in parts]
        parts.setdefault(job.number, (NEVER, partition))
        from_s = max([self.now_s, *others])
        found = self._earliest(job, partition, planned, may_wait=may_wait, preempts=False, from_s=from_s)
        if found is None:
            return False
        start_s, nodes = found
        if start_s < parts[job.number][0]:
            parts[job.number] = (start_s, partition)
        planned.append((start_s, start_s + self._limit_in(job, partition), set(nodes)))
        return True

    def _starts_together(self, parts: list[tuple[Job, int]]) -> bool:
        """Start components on free nodes, no two of them on one node, if that is possible."""
        found: list[dict[int, int]] = []
        for job, partition in parts:
            usable = self._usable_now(job, partition, []) - {node for one in found for node in one}
            nodes = self._choose(job, partition, usable, self.free, self.free_gpus)
            beside = tuple(parts[: len(found)])
            if nodes is None or not self._is_admitted(job, partition, beside):
                return False
            found.append(nodes)
        for (job, partition), nodes in zip(parts, found, strict=True):
            self._starts(job, partition, nodes)
        return True

    def _unties(self) -> bool:
        """Start a het job where nothing will happen any more, else end the last one; tell whether there was one."""
        waiting = [job for job, _ in self._order() if job.parts]
        for job in waiting:
            parts = [(one, one.partitions[0]) for one in job.parts if one in self.queue]
            if self._starts_together(parts) or self._starts_together(parts[::-1]):
                return True
        for job in waiting[-1:]:
            self._is_cancelled(job)
        return bool(waiting)

    def _expected_end_s(self, job: Job) -> float:
        """Return when a running job ends at the latest; one that is suspended beyond its limit, in a second."""
        return job.limit_end_s if job.limit_end_s > self.now_s else self.now_s + 1

    def _earliest(
        self,
        job: Job,
        partition: int,
        planned: Plans,
        *,
        may_wait: bool,
        preempts: bool,
        from_s: float = 0.0,
    ) -> tuple[float, dict[int, int]] | None:
        """Return the first date at which a job fits, and its nodes: those that nothing has reserved until its limit.

        As in Slurm, a search with the nodes that are unreserved from one date on goes before one with those of the
        next date at which nodes become unreserved, even where both find the same date.

        Parameters
        ----------
        from_s
            The date is not before it.
        """
        limit_s, every = self._limit_in(job, partition), self._nodes_for(job, partition)
        date_s = max(self.now_s, from_s)
        while date_s < NEVER:
            usable = every - self._reserved(date_s, date_s + limit_s) - planned_in(planned, date_s, date_s + limit_s)
            until_s = self._next_unreserved_s(every, planned, date_s)
            found = self._fits_by(job, partition, usable, until_s, may_wait=may_wait, preempts=preempts)
            found_s, nodes = found if found is not None else (until_s, {})
            found_s = max(found_s, date_s)
            if found_s > self.now_s and not may_wait:
                return None
            later = self._reserved(found_s, found_s + limit_s) | planned_in(planned, found_s, found_s + limit_s)
            if nodes and not later & set(nodes):
                return found_s, nodes
            date_s = found_s
        return None

    def _next_unreserved_s(self, nodes: set[int], planned: Plans, after_s: float) -> float:
        """Return the next date at which the reservation of some nodes, or what is planned on one of them, ends."""
        origin_s = self.site.origin_s
        dates = {float(row["end_s"]) - origin_s for row in self.rules.reservations}
        for end_s in {end_s for _, end_s, _ in planned}:
            still = {node for from_s, until_s, on in planned if from_s <= end_s < until_s for node in on}
            if planned_in(planned, after_s, end_s) & nodes - still:
                dates.add(end_s)
        return min((date_s for date_s in dates if date_s > after_s), default=NEVER)

    def _fits_by(
        self, job: Job, partition: int, usable: set[int], until_s: float, *, may_wait: bool, preempts: bool
    ) -> tuple[float, dict[int, int]] | None:
        """Return the first date until another one at which a job fits on some nodes, and those that it gets.

        First it gets what is free now; then, if that is not enough, what it may take from others as well.
        """
        running = self._running() if may_wait else []
        taken = [
            one for one in running if preempts and not self._is_given_up(one) and self._may_preempt(job, partition, one)
        ]
        kept = [one for one in running if one not in taken]
        tries: list[tuple[float, list[Job], float]] = [(self.now_s, [], -NEVER), (self.now_s, taken, -NEVER)]
        tries += [(self._expected_end_s(one), taken, one.limit_end_s) for one in kept]
        for date_s, gone, ended_s in sorted(tries, key=lambda one: one[2]):
            if date_s > until_s:
                return None
            free, gpus = self._without(gone)
            for one in kept:
                if one.limit_end_s <= ended_s:
                    for node, cores in one.nodes.items():
                        free[node] += cores
                        gpus[node] += int(one.site_requests["gpus"])
            nodes = self._choose(job, partition, usable, free, gpus)
            if nodes is not None:
                return date_s, nodes
        return None

"""GPU clusters once more, in plain Python and as simply as possible: what the compiled simulator is checked against."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hdrl.settings.gpu.cluster.machine import GpuCluster
from hdrl.settings.gpu.loads.load import GpuLoad
from hdrl.settings.gpu.policies.names import ORDERS, Policy
from hdrl.settings.gpu.policies.rules import Rules


@dataclass
class Job:
    """A job and what became of it."""

    number: int
    arrival: float
    work: float
    gpus: int
    milli: int
    cpu: int
    rates: list[list[float]]  # by type: together, spread; 0 where it must not run
    estimate: float
    priority: float
    restart: float
    limit: float = math.inf
    done: float = 0.0
    service: float = 0.0
    level: int = 0
    starts: int = 0
    since: float = 0.0
    overhead: float = 0.0
    rate: float = 0.0
    held: list[tuple[int, int]] = field(default_factory=list)  # node, GPU
    first_start: float = -1.0
    end: float = -1.0

    @property
    def width(self) -> float:
        """GPUs that it takes."""
        return self.gpus * self.milli / 1000

    @property
    def best(self) -> float:
        """Its largest rate."""
        return max(together for together, _ in self.rates)

    def ends(self) -> float:
        """When it ends if it goes on."""
        return min(self.limit, self.ends_done())

    def ends_done(self) -> float:
        """When it has done its work."""
        return self.since + self.overhead + (self.work - self.done) / self.rate

    def worked(self, now: float) -> float:
        """Work done by now."""
        return self.done + (max(0.0, now - self.since - self.overhead) * self.rate if self.held else 0.0)


class Oracle:
    """A simulation: first-fit or consolidated placement in the order of the file."""

    def __init__(self, cluster: GpuCluster, load: GpuLoad, policy: Policy, rules: Rules) -> None:
        self.policy, self.rules, self.now, self.stays = policy, rules, 0.0, []
        self.types = cluster.nodes["gpu_type"].tolist()
        self.free = [[1000] * n for n in cluster.nodes["n_gpus"].tolist()]
        self.cpu = cluster.nodes["cpu_milli"].tolist()
        self.most = cluster.largest_node.tolist()
        numbers, rates = load.profiles(cluster)
        allowed = load.allowed(cluster)
        self.bounds = list(rules.levels) if policy.order in ("las", "las-2d") else []
        self.jobs = []
        for number, one in enumerate(load.jobs):
            table = [
                list(pair) if allowed[number] >> kind & 1 else [0.0, 0.0]
                for kind, pair in enumerate(rates[numbers[number]].tolist())
            ]
            job = Job(
                number, *(one[name].item() for name in ("arrival_s", "work", "n_gpus", "gpu_milli", "cpu_milli")),
                table, one["work"].item(), one["priority"].item(), rules.restart_s[0],
            )  # fmt: skip
            if math.isfinite(one["requested_s"]):
                job.estimate = one["requested_s"].item() * job.best
            if load.values is not None:
                job.limit = one["deadline_s"].item()
            self.jobs.append(job)
        self.waiting: list[Job] = []
        self.running: list[Job] = []

    def key(self, job: Job) -> tuple[float, int]:
        """The place of a job in the order."""
        left = max(0.0, job.estimate - job.worked(self.now)) / job.best
        return {
            "fifo": 0.0,
            "sjf": job.estimate / job.best,
            "ljf": -job.estimate / job.best,
            "smallest": job.width,
            "priority": -job.priority,
            "srtf": left,
            "srsf": left * job.width,
            "las": float(job.level),
            "las-2d": float(job.level),
        }[self.policy.order], job.number

    # ------------------------------------------------------------------ places

    def part(self, job: Job, taken: int) -> int:
        """Cores of a job that a node gives for some of its GPUs."""
        return job.cpu if taken >= job.gpus else -(-job.cpu * taken // job.gpus)

    def take(self, job: Job, sign: int) -> None:
        """Take what a job holds (-1), or give it back (1)."""
        for node, gpu in job.held:
            if gpu >= 0:
                self.free[node][gpu] += sign * job.milli
        for node in {node for node, _ in job.held}:
            n = sum(other == node for other, _ in job.held)
            self.cpu[node] += sign * self.part(job, n if job.gpus else 0)

    def on_node(self, job: Job, node: int) -> list[tuple[int, int]] | None:
        """The GPUs of a job on one node."""
        if job.rates[self.types[node]][0] <= 0 or self.cpu[node] < job.cpu:
            return None
        if job.gpus == 0:
            return [(node, -1)]
        fitting = [gpu for gpu, free in enumerate(self.free[node]) if free >= job.milli]
        if len(fitting) < job.gpus:
            return None
        fitting.sort(key=lambda gpu: (self.free[node][gpu], gpu))
        return [(node, gpu) for gpu in fitting[: job.gpus]]

    def find(self, job: Job) -> list[tuple[int, int]] | None:
        """The GPUs that a job would get now."""
        speeds = sorted({together for together, _ in job.rates if together > 0}, reverse=True)
        for speed in speeds:
            nodes = [n for n, kind in enumerate(self.types) if job.rates[kind][0] == speed]
            options = [(node, found) for node in nodes if (found := self.on_node(job, node)) is not None]
            if options:
                if self.policy.placement == "first-fit":
                    return options[0][1]
                return min(options, key=lambda option: (sum(self.free[option[0]]), option[0]))[1]
            if job.gpus > 1:
                for kind in range(len(job.rates)):
                    found = self.spread(job, [n for n in nodes if self.types[n] == kind])
                    if found:
                        return found
        return None

    def spread(self, job: Job, nodes: list[int]) -> list[tuple[int, int]] | None:
        """A gang on several nodes."""
        held: list[tuple[int, int]] = []
        nodes = list(nodes)
        while len(held) < job.gpus:
            wanted = job.gpus - len(held)
            rooms = {}
            for node in nodes:
                idle = self.free[node].count(1000)
                room = min(idle, wanted)
                while room and self.part(job, room) > self.cpu[node]:
                    room -= 1
                if room:
                    rooms[node] = (room, idle)
            if not rooms:
                return None
            if self.policy.placement == "first-fit":
                node = next(iter(rooms))
                nodes = [other for other in nodes if other > node]
            else:
                full = [node for node in rooms if rooms[node][0] == wanted]
                node = max(rooms, key=lambda n: (rooms[n][0], -n))
                if full:
                    node = min(full, key=lambda n: (rooms[n][1], n))
                nodes.remove(node)
            gpus = [gpu for gpu, free in enumerate(self.free[node]) if free == 1000][: rooms[node][0]]
            held += [(node, gpu) for gpu in gpus]
        return held

    # ------------------------------------------------------------------ starting and stopping

    def start(self, job: Job, held: list[tuple[int, int]]) -> None:
        """Start a job."""
        self.waiting.remove(job)
        self.running.append(job)
        job.held = held
        self.take(job, -1)
        kind = self.types[held[0][0]]
        nodes = len({node for node, _ in held})
        job.rate = job.rates[kind][nodes > -(-max(1, job.gpus) // max(1, self.most[kind]))]
        job.since, job.overhead = self.now, job.restart if job.starts else 0.0
        job.starts += 1
        if job.first_start < 0:
            job.first_start = self.now

    def stop(self, job: Job) -> None:
        """End a stay; what it held has been given back."""
        job.service += self.now - job.since
        if self.now > job.since:
            self.stays.append((job.number, job.since, self.now, tuple(sorted(job.held)), job.rate))
        self.running.remove(job)
        job.held = []

    def preempt(self, job: Job) -> None:
        """Make a job wait, unless nothing but a rounding error is left of it."""
        if job.ends_done() <= self.now * (1 + 1e-12):
            self.stop(job)
            job.done, job.end = job.work, self.now
            return
        useful = max(0.0, self.now - job.since - job.overhead)
        if self.rules.checkpoint_s:
            useful = useful // self.rules.checkpoint_s * self.rules.checkpoint_s
        done = min(job.work, job.done + useful * job.rate)
        self.stop(job)
        job.done = done
        self.waiting.append(job)

    # ------------------------------------------------------------------ deciding

    def decide(self) -> None:
        """Start and preempt jobs."""
        while self.decide_once():
            pass

    def decide_once(self) -> bool:
        """Start the first job that may start; tell whether there was one."""
        self.waiting.sort(key=self.key)
        for position, job in enumerate(self.waiting):
            held = self.find(job)
            if held is not None:
                self.start(job, held)
                return True
            if self.policy.preempts and self.by_preempting(job):
                return True
            if self.policy.rule == "strict":
                return False
            if self.policy.rule == "easy":
                self.backfill(position)
                return False
        return False

    def by_preempting(self, job: Job) -> bool:
        """Start a job in the place of others."""
        behind = sorted((one for one in self.running if self.key(one)[0] > self.key(job)[0]), key=self.key)[::-1]
        released: list[Job] = []
        held = None
        for one in behind:
            self.take(one, 1)
            released.append(one)
            held = self.find(job)
            if held is not None:
                break
        if held is None:
            for one in released:
                self.take(one, -1)
            return False
        self.start(job, held)
        for one in reversed(released):
            self.take(one, -1)
            if min(min(gpus, default=0) for gpus in self.free) < 0 or min(self.cpu) < 0:
                self.take(one, 1)
                self.preempt(one)
        return True

    def backfill(self, position: int) -> None:
        """Start jobs behind the head that do not delay it."""
        head = self.waiting[position]
        wanted = max(1, head.gpus)
        idle = [0] * len(head.rates)
        for node, kind in enumerate(self.types):
            idle[kind] += self.free[node].count(1000)
        total = [0] * len(head.rates)
        for node, kind in enumerate(self.types):
            total[kind] += len(self.free[node])
        shadow, kind, extra = math.inf, -1, 0
        dates = [(self.now, 0, None)]
        for one in self.running:
            left = max(0.0, one.estimate - one.done) / one.rate
            dates.append((min(one.limit, max(self.now, one.since + one.overhead + left)), one.number, one))
        for date, _, one in sorted(dates, key=lambda entry: (entry[0], entry[2] is not None, entry[1])):
            kinds = range(len(idle))
            if one is not None:
                kinds = [self.types[one.held[0][0]]]
                idle[kinds[0]] += one.gpus
            ready = [k for k in kinds if head.rates[k][0] > 0 and idle[k] >= wanted]
            if ready:
                shadow, kind = date, ready[0]
                extra = min(idle[kind], total[kind]) - wanted
                break
        for job in self.waiting[position + 1 :]:
            held = self.find(job)
            if held is None:
                continue
            at = self.types[held[0][0]]
            nodes = len({node for node, _ in held})
            rate = job.rates[at][nodes > -(-max(1, job.gpus) // max(1, self.most[at]))]
            delays = min(job.limit, self.now + job.estimate / rate) > shadow and at == kind
            if delays and job.gpus > extra:
                continue
            extra -= job.gpus if delays else 0
            self.start(job, held)

    # ------------------------------------------------------------------ time

    def next_level(self, job: Job) -> float:
        """When a running job comes to its next level."""
        if job.level >= len(self.bounds):
            return math.inf
        pace = 1.0 if self.policy.order == "las" else job.width
        return math.inf if pace == 0 else job.since + self.bounds[job.level] / pace - job.service

    def run(self) -> None:
        """Simulate until all jobs are done."""
        coming = list(self.jobs)
        asked = False
        while coming or self.waiting or self.running:
            dates = [coming[0].arrival] if coming else []
            dates += [min(one.ends(), self.next_level(one)) for one in self.running]
            dates += [one.limit for one in self.waiting if one.limit < math.inf]
            length = self.rules.round_s
            if asked:
                dates.append(max(self.now, math.ceil(self.now / length - 1e-9) * length) if length else self.now)
            assert dates, "stuck"
            self.now = min(dates)
            while True:
                due = [one for one in self.running if min(one.ends(), self.next_level(one)) <= self.now]
                if not due:
                    break
                asked = True
                one = due[0]
                if one.ends() <= self.now:
                    done = min(one.work, one.worked(self.now))
                    self.take(one, 1)
                    self.stop(one)
                    one.done, one.end = done, self.now
                else:
                    one.level += 1
            for one in [one for one in self.waiting if one.limit <= self.now]:
                self.waiting.remove(one)
                one.end, asked = self.now if one.starts else -1.0, True
            while coming and coming[0].arrival <= self.now:
                self.waiting.append(coming.pop(0))
                asked = True
            if asked and (not length or max(self.now, math.ceil(self.now / length - 1e-9) * length) <= self.now):
                asked = False
                self.decide()


def play(cluster: GpuCluster, load: GpuLoad, policy: Policy, rules: Rules) -> Oracle:
    """Simulate, and return the simulation."""
    assert ORDERS[policy.order]
    oracle = Oracle(cluster, load, policy, rules)
    oracle.run()
    return oracle

"""HDeepRM on Batsim in plain Python: one file, no numba, nothing shared with the simulators under test.

It states, as simply as it can, what happens to jobs that compute or sleep on a platform without link latencies:

* `_Batsim` is the simulated world. Everything in it is an *action* with an amount left and a rate; a step goes to
  the first end, and actions that end together wake in the order in which they were created. Actors (submitter,
  reply, job) talk to the server through one mailbox: one byte at a time, first come first served. The
  server tells the scheduler what it has heard when the last reply is applied and the mailbox is empty.
* `_Scheduler` is the decision side: a waiting list, free cores, memory and bandwidth, and P-states.

Between the two go dates with six decimals, as in Batsim's protocol: a date printed upwards is slept up to.
"""

from __future__ import annotations

import heapq
import random  # noqa: TID251 - HDeepRM draws with Python's own generator
from bisect import insort
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.pstates import contention_model
from hdrl.settings.batch.workload.model import StepKind, Workload

TIME_PRECISION_S = 1e-9
WORK_PRECISION = 1e-14
SHORTEST_RUN_S = 1e-5
SERVING, CONTENDED, FREE, IDLE = 0, 1, 2, 3
JOB_KEYS = ("random", "first", "shortest", "smallest", "low_mem", "low_mem_bw")
CORE_KEYS = ("random", "high_gflops", "high_cores", "high_mem", "high_mem_bw", "low_power", "low_cores")


# ------------------------------------------------------------------ what goes in


@dataclass(frozen=True)
class OraclePlatform:
    """A platform as plain lists, indexed as in `hdrl.Platform`; ``bandwidth_gbps`` in GB/s."""

    node_of_processor: list[int]
    processor_of_core: list[int]
    memory_mib: list[float]
    bandwidth_gbps: list[float]
    peak_flops: list[float]
    peak_power_w: list[float]
    speed_flops: list[list[float]]
    idle_w: list[list[float]]
    epsilon_w: list[list[float]]
    full_w: list[list[float]]
    message_s: list[float]
    loopback_s: float = 1e-10

    @classmethod
    def from_arrays(cls, platform: Platform) -> OraclePlatform:
        """Take over a `Platform`.

        Raises
        ------
        ValueError
            If it has latencies, hosts of several cores or cores that do not begin in P3.
        """
        if platform.message_latency_s.any() or platform.loopback_latency_s:
            raise ValueError("the oracle knows no link latencies")
        if (platform.host_cores != 1).any() or (platform.initial_pstate != IDLE).any():
            raise ValueError("the oracle wants one core per host, all in P3 at first")
        names = [name for name in cls.__dataclass_fields__ if name != "loopback_s"]
        return cls(**{name: getattr(platform, name).tolist() for name in names}, loopback_s=platform.loopback_s)


@dataclass(frozen=True)
class OracleJob:
    """A job: ``flops`` per core, or ``delay_s``; memory and bandwidth per core; ``walltime_s`` -1 if it has none."""

    id: str
    submit_s: float
    cores: int
    flops: float = 0.0
    delay_s: float | None = None
    walltime_s: float = -1.0
    requested_time_s: float = 0.0
    memory_mib: float = 0.0
    bandwidth_gbps: float = 0.0
    return_code: int = 0


def jobs_from(workload: Workload) -> list[OracleJob]:
    """Take over a `Workload` of one source whose profiles have one step each.

    Raises
    ------
    ValueError
        If it has several sources, or a profile of several steps.
    """
    if len(workload.sources) != 1:
        raise ValueError("the oracle knows one source of jobs")
    jobs = []
    for job_id, row in zip(workload.job_ids, workload.jobs, strict=True):
        first, end = workload.first_step[row["profile"]], workload.first_step[row["profile"] + 1]
        step = workload.steps[first]
        if end - first != 1 or step["kind"] == StepKind.RETURN:
            raise ValueError("the oracle knows profiles of one step")
        amount = float(step["amount"])
        is_delay = step["kind"] == StepKind.DELAY
        share = int(row["cores"]) if step["kind"] == StepKind.COMPUTE_TOTAL else 1
        jobs.append(
            OracleJob(
                id=job_id,
                submit_s=float(row["submit_s"]),
                cores=int(row["cores"]),
                flops=0.0 if is_delay else amount / share,
                delay_s=amount if is_delay else None,
                walltime_s=float(row["walltime_s"]),
                requested_time_s=float(row["requested_time_s"]),
                memory_mib=float(row["memory_mib"]),
                bandwidth_gbps=float(row["bandwidth_gbps"]),
                return_code=int(step["return_code"]),
            )
        )
    return jobs


# ------------------------------------------------------------------ what comes out


@dataclass
class OracleRecord:
    """What became of a job: ``start_s`` and ``run_s`` -1 if not (yet), ``energy_j`` -1 without energy."""

    state: str = "NOT_SUBMITTED"
    start_s: float = -1.0
    run_s: float = -1.0
    cores: list[int] = field(default_factory=list)
    energy_j: float = -1.0

    @property
    def end_s(self) -> float:
        """Date of its end."""
        return self.start_s + self.run_s


@dataclass(frozen=True)
class OracleReply:
    """A reply of the scheduler that asks for something: jobs with their cores, then P-states with theirs."""

    now_s: float
    starts: list[tuple[int, list[int]]]
    requests: list[tuple[int, list[int]]]


@dataclass
class OracleResult:
    """All that happened; jobs are indices into the list of jobs, in the order given.

    ``bandwidth_spans`` are (processor, start, duration), duration -1 if still open; ``pstate_requests`` are
    (date, P-state, cores); ``machine_states`` are (date, idle, computing).
    """

    records: list[OracleRecord]
    completion_order: list[int] = field(default_factory=list)
    replies: list[OracleReply] = field(default_factory=list)
    n_exchanges: int = 0
    n_decisions: int = 0
    pstate_requests: list[tuple[float, int, list[int]]] = field(default_factory=list)
    machine_states: list[tuple[float, int, int]] = field(default_factory=list)
    consumed_j: float = 0.0
    end_s: float = 0.0
    core_s: list[float] = field(default_factory=list)
    memory_s: list[float] = field(default_factory=list)
    bandwidth_spans: list[tuple[int, float, float]] = field(default_factory=list)


def simulate(
    platform: OraclePlatform,
    jobs: Sequence[OracleJob],
    job_key: str,
    core_key: str,
    *,
    compatibility: bool = False,
    contention: str = "step",
    seed: int = 0,
    energy: bool = True,
    choose: Callable[[int], int] | None = None,
) -> OracleResult:
    """Simulate a policy pair.

    Parameters
    ----------
    platform, jobs
        What is simulated.
    job_key, core_key
        The policy pair, of `JOB_KEYS` and `CORE_KEYS`.
    compatibility
        Decide, request and record as HDeepRM 0.3.1 does, errors included.
    contention
        Name of a contention model; in compatibility mode only ``"step"`` makes sense.
    seed
        Seed of the random choices.
    energy
        Whether energy is accounted for.
    choose
        Draws an index below its argument, in place of ``random.Random(seed).choice``.
    """
    if choose is None:
        generator = random.Random(seed)
        choose = lambda n: generator.choice(range(n))  # noqa: E731
    scheduler = _Scheduler(platform, jobs, (job_key, core_key), contention, choose, compatibility=compatibility)
    world = _Batsim(platform, jobs, scheduler, energy=energy)
    world.run()
    result = world.result
    result.n_decisions = scheduler.n_decisions
    result.core_s, result.memory_s = scheduler.core_s, scheduler.memory_s
    result.bandwidth_spans = scheduler.spans
    return result


# ------------------------------------------------------------------ the decision side


class _Scheduler:
    """Chooses jobs and cores, and keeps the books on cores, memory, bandwidth and P-states."""

    def __init__(
        self,
        platform: OraclePlatform,
        jobs: Sequence[OracleJob],
        keys: tuple[str, str],
        contention: str,
        choose: Callable[[int], int],
        *,
        compatibility: bool,
    ) -> None:
        self.platform, self.jobs, self.choose, self.compatibility = platform, jobs, choose, compatibility
        self.factors = contention_model(contention).speed_factors
        self.cores_of: list[list[int]] = [[] for _ in platform.bandwidth_gbps]
        for core, processor in enumerate(platform.processor_of_core):
            self.cores_of[processor].append(core)
        self.free = [list(cores) for cores in self.cores_of]
        self.n_free = len(platform.processor_of_core)
        self.free_mib = list(platform.memory_mib)
        self.free_gbps = list(platform.bandwidth_gbps)
        self.pstate = [IDLE] * self.n_free
        self.told = [IDLE] * self.n_free
        self.cores_of_job: dict[int, list[int]] = {}
        self.job_key, self.core_key = self._job_key(keys[0]), self._core_key(keys[1])
        self.waiting: list[int] = []  # random choices index this list
        self.heap: list[tuple[float, int, int]] = []  # any other key orders this one: key, arrival, job
        self.n_arrived = self.n_decisions = 0
        self.core_s: list[float] = []
        self.memory_s: list[float] = []
        self.spans: list[tuple[int, float, float]] = []
        self.open_span: dict[int, int] = {}  # processor to the place of its span

    def _job_key(self, name: str) -> Callable[[OracleJob], float] | None:
        keys: dict[str, Callable[[OracleJob], float] | None] = {
            "random": None,
            "first": lambda job: job.submit_s,
            "shortest": lambda job: job.requested_time_s,
            "smallest": lambda job: job.cores,
            "low_mem": lambda job: job.memory_mib,
            "low_mem_bw": lambda job: job.bandwidth_gbps,
        }
        return keys[name]

    def _core_key(self, name: str) -> Callable[[int], float] | None:
        """Return a key of *processors*: no key tells the cores of one processor apart."""
        platform = self.platform
        keys: dict[str, Callable[[int], float] | None] = {
            "random": None,
            "high_gflops": lambda p: -platform.peak_flops[p],
            "high_cores": self._minus_busy if self.compatibility else lambda p: -len(self.free[p]),
            "low_cores": lambda p: len(self.free[p]),
            "high_mem": lambda p: -self.free_mib[platform.node_of_processor[p]],
            "high_mem_bw": lambda p: -self.free_gbps[p],
            "low_power": lambda p: platform.peak_power_w[p],
        }
        return keys[name]

    def _minus_busy(self, processor: int) -> int:
        return len(self.free[processor]) - len(self.cores_of[processor])

    def handle(self, now: float, submitted: list[int], completed: list[int]) -> OracleReply:
        """Answer one message: what ended is freed, what waits is started, P-states follow."""
        touched: set[int] = set()
        for job in completed:
            self._give_back(job, now, touched)
        for job in submitted:
            self._enqueue(job)
        starts: list[tuple[int, list[int]]] = []
        if (submitted or completed) and (self.waiting or self.heap):
            self.n_decisions += 1
            starts = self._start_jobs(now, touched)
        if not self.compatibility:
            self._record_spans(now, touched)
            touched = {core for core in touched if self.pstate[core] != self.told[core]}
        for core in touched:
            self.told[core] = self.pstate[core]
        pstates = sorted({self.told[core] for core in touched})
        requests = [(pstate, sorted(core for core in touched if self.told[core] == pstate)) for pstate in pstates]
        return OracleReply(now, starts, requests)

    # ---- the waiting list

    def _enqueue(self, job: int) -> None:
        if self.job_key is None:
            self.waiting.append(job)
        else:
            heapq.heappush(self.heap, (self.job_key(self.jobs[job]), self.n_arrived, job))
        self.n_arrived += 1

    def _start_jobs(self, now: float, touched: set[int]) -> list[tuple[int, list[int]]]:
        """Start jobs until the one chosen does not fit: nothing overtakes it."""
        starts = []
        while self.waiting or self.heap:
            position = self.choose(len(self.waiting)) if self.waiting else 0
            job = self.waiting[position] if self.waiting else self.heap[0][2]
            cores = self._allocate(job, now, touched)
            if cores is None:
                break
            if self.waiting:
                self.waiting.remove(job)
            else:
                heapq.heappop(self.heap)
            self.cores_of_job[job] = sorted(cores)
            starts.append((job, self.cores_of_job[job]))
        return starts

    # ---- cores, memory and bandwidth

    def _allocate(self, job: int, now: float, touched: set[int]) -> list[int] | None:
        """Take cores one after the other, each time the best one; ``None`` if they do not suffice."""
        wanted = self.jobs[job]
        if self.n_free < wanted.cores:
            self.core_s.append(now)
            return None
        taken: list[int] = []
        changed: set[int] = set()
        crowded: set[int] = set()
        while len(taken) < wanted.cores:
            core = self._best_core(wanted.memory_mib)
            if core is None:
                for core in taken:
                    self._release(core, wanted)
                self.memory_s.append(now)
                return None
            taken.append(core)
            changed |= self._lock(core, wanted)
            processor = self.platform.processor_of_core[core]
            if self.free_gbps[processor] < 0:
                crowded.add(processor)
        touched |= changed
        if self.compatibility:
            for processor in sorted(crowded - self.open_span.keys()):
                self._open_span(processor, now)
        return taken

    def _best_core(self, memory_mib: float) -> int | None:
        node_of = self.platform.node_of_processor
        fitting = [p for p, free in enumerate(self.free) if free and self.free_mib[node_of[p]] >= memory_mib]
        if not fitting:
            return None
        if self.core_key is not None:
            return self.free[min(fitting, key=self.core_key)][0]
        position = self.choose(sum(len(self.free[p]) for p in fitting))
        for p in fitting:
            if position < len(self.free[p]):
                return self.free[p][position]
            position -= len(self.free[p])
        return None

    def _lock(self, core: int, job: OracleJob) -> set[int]:
        processor = self.platform.processor_of_core[core]
        self.free[processor].remove(core)
        self.n_free -= 1
        self.free_gbps[processor] -= job.bandwidth_gbps
        self.free_mib[self.platform.node_of_processor[processor]] -= job.memory_mib
        return self._set_pstates(processor)

    def _release(self, core: int, job: OracleJob) -> set[int]:
        processor = self.platform.processor_of_core[core]
        insort(self.free[processor], core)
        self.n_free += 1
        self.free_gbps[processor] += job.bandwidth_gbps
        self.free_mib[self.platform.node_of_processor[processor]] += job.memory_mib
        return self._set_pstates(processor)

    def _give_back(self, job: int, now: float, touched: set[int]) -> None:
        for core in self.cores_of_job.pop(job):
            processor = self.platform.processor_of_core[core]
            changed = self._release(core, self.jobs[job])
            touched |= changed
            # HDeepRM ends a span only when it sees another core go from P1 to P0
            if self.compatibility and any(self.pstate[other] == SERVING for other in changed):
                self._close_span(processor, now)

    # ---- P-states and over-commitment

    def _serving_pstate(self, processor: int) -> int:
        """P-state of the serving cores of a processor."""
        free, capacity = self.free_gbps[processor], self.platform.bandwidth_gbps[processor]
        if free >= 0 or not self.factors:
            return SERVING
        share = capacity / (capacity - free)
        level = next((i for i, factor in enumerate(self.factors) if factor <= share), len(self.factors) - 1)
        return CONTENDED if level == 0 else IDLE + level

    def _set_pstates(self, processor: int) -> set[int]:
        """Set the P-states of a processor's cores; return those that changed."""
        free = self.free[processor]
        serving = self._serving_pstate(processor)
        resting = IDLE if len(free) == len(self.cores_of[processor]) else FREE
        changed = set()
        for core in self.cores_of[processor]:
            pstate = resting if core in free else serving
            if self.pstate[core] != pstate:
                self.pstate[core] = pstate
                changed.add(core)
        return changed

    def _open_span(self, processor: int, now: float) -> None:
        self.open_span[processor] = len(self.spans)
        self.spans.append((processor, now, -1.0))

    def _close_span(self, processor: int, now: float) -> None:
        position = self.open_span.pop(processor, None)
        if position is not None:
            start = self.spans[position][1]
            self.spans[position] = (processor, start, now - start)

    def _record_spans(self, now: float, touched: Iterable[int]) -> None:
        for processor in sorted({self.platform.processor_of_core[core] for core in touched}):
            is_crowded = self.free_gbps[processor] < 0
            if is_crowded and processor not in self.open_span:
                self._open_span(processor, now)
            elif not is_crowded:
                self._close_span(processor, now)


# ------------------------------------------------------------------ the simulated world


@dataclass(eq=False, slots=True)
class _Action:
    """Something that ends: a sleep (seconds, rate 1) or a transfer or computation (1.0 at some rate).

    The energy of its cores is brought up to date when it ends.
    """

    left: float
    rate: float
    precision: float
    wake: Callable[[], None]
    cores: Sequence[int] = ()
    flops: float = 0.0


@dataclass(frozen=True, slots=True)
class _Sleep:
    """An actor sleeps (jobs: on their first core)."""

    seconds: float
    cores: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class _Put:
    """An actor sends the server a byte, which then calls ``receive``; it goes on when it has arrived.

    Puts of one step queue by ``rank``: who has to look at other hosts' energy first comes later.
    """

    receive: Callable[[], None]
    seconds: float
    rank: int = 0
    cores: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class _Compute:
    """A job computes; it is told whether its time ran out first."""

    cores: list[int]
    flops: float
    limit_s: float


_Actor = Generator[_Sleep | _Put | _Compute, bool, None]
_AT_ONCE, _AFTER_REPLY, _AFTER_ENERGY = 0, 1, 2


def _nothing() -> None:
    """Wake nobody."""


class _Batsim:
    """Clock, actions, mailbox, machines and energy."""

    def __init__(
        self, platform: OraclePlatform, jobs: Sequence[OracleJob], scheduler: _Scheduler, *, energy: bool
    ) -> None:
        self.platform, self.jobs, self.scheduler, self.energy = platform, jobs, scheduler, energy
        n_cores = len(platform.processor_of_core)
        self.result = OracleResult([OracleRecord() for _ in jobs])
        self.now = 0.0
        self.actions: list[_Action] = []
        self.posts: tuple[list[tuple[_Put, _Actor]], ...] = ([], [], [])
        self.mailbox: list[tuple[_Put, _Actor]] = []
        self.is_receiving = False
        self.n_steps = 0
        # the server
        self.submitted: list[int] = []
        self.completed: list[int] = []
        self.something_to_tell = self.is_ready = self.said_goodbye = self.is_over = False
        self.n_open = len(jobs)
        # the machines
        self.pstate = [IDLE] * n_cores
        self.task: list[_Action | None] = [None] * n_cores
        self.n_computing = 0
        # SimGrid's energy plugin believes P0 until it first looks
        self.watts = [watts[0] for watts in platform.idle_w]
        self.joules = [0.0] * n_cores
        self.since = [0.0] * n_cores
        self.all_watts, self.all_joules, self.all_since = sum(self.watts), 0.0, 0.0
        self.swept_at, self.swept_in_step, self.sweep_rank = 0.0, -1, _AT_ONCE
        self.joules_at_first = 0.0

    def run(self) -> None:
        """Run until the server is done, or nothing can happen any more."""
        self._resume(self._submitter())
        self._send(is_first=True)
        self._deliver_posts()
        while self.actions and not self.is_over:
            self._step()
        self.result.end_s = self.now

    # ---- engine

    def _step(self) -> None:
        delta = min(action.left / action.rate for action in self.actions)
        self.now += delta
        self.n_steps += 1
        ended = []
        for action in self.actions:
            left = action.left - action.rate * delta
            action.left = left = 0.0 if left < action.precision else left
            if left == 0.0:
                ended.append(action)
        for action in ended:
            self.actions.remove(action)
            self._leave_cores(action)
        for action in ended:
            action.wake()
        self._deliver_posts()

    def _deliver_posts(self) -> None:
        for posts in self.posts:
            self.mailbox.extend(posts)
            posts.clear()
        if self.mailbox and not self.is_receiving:
            put, actor = self.mailbox.pop(0)
            self.is_receiving = True
            wake = partial(self._receive, put, actor)
            self.actions.append(_Action(1.0, 1.0 / put.seconds, WORK_PRECISION, wake, put.cores))

    def _resume(self, actor: _Actor, value: bool | None = None) -> None:  # noqa: FBT001
        try:
            request = actor.send(value)  # type: ignore[arg-type]
        except StopIteration:
            return
        if isinstance(request, _Sleep):
            self._sleep(request, partial(self._resume, actor))
        elif isinstance(request, _Put):
            self.posts[request.rank].append((request, actor))
        else:
            self._compute(request, actor)

    def _sleep(self, sleep: _Sleep, wake: Callable[[], None]) -> _Action:
        action = _Action(sleep.seconds, 1.0, TIME_PRECISION_S, wake, sleep.cores)
        self.actions.append(action)
        return action

    def _compute(self, request: _Compute, actor: _Actor) -> None:
        timers: list[_Action] = []

        def done() -> None:
            for timer in timers:
                timer.wake = _nothing
                if timer in self.actions:
                    self.actions.remove(timer)
            self._resume(actor, False)  # noqa: FBT003

        def time_over() -> None:
            task.wake = _nothing  # it goes on until the job says that it has ended
            self._resume(actor, True)  # noqa: FBT003

        task = _Action(1.0 if request.flops > 0 else 0.0, 1.0, WORK_PRECISION, done, request.cores, request.flops)
        self.actions.append(task)
        for core in request.cores:
            self.task[core] = task
        self._set_rate(task)
        if request.limit_s >= 0:
            timers.append(self._sleep(_Sleep(request.limit_s, request.cores[:1]), time_over))

    # ---- actors

    def _submitter(self) -> _Actor:
        """Submit the jobs: by date, then as they are given; what is of one date together."""
        loopback_s = self.platform.loopback_s
        yield _Put(_nothing, loopback_s)
        woken_at = self.now
        rank = _AT_ONCE
        batch: list[int] = []
        for job in sorted(range(len(self.jobs)), key=lambda j: self.jobs[j].submit_s):
            if self.jobs[job].submit_s > woken_at:
                if batch:
                    yield _Put(partial(self._on_submitted, batch), loopback_s, rank)
                    batch, rank = [], _AT_ONCE
                yield _Sleep(self.jobs[job].submit_s - woken_at)
                woken_at = self.now
            if self.energy and not batch and self.swept_at == 0.0:
                self._first_look()
                rank = _AFTER_ENERGY
            batch.append(job)
        if batch:
            yield _Put(partial(self._on_submitted, batch), loopback_s, rank)
        yield _Put(self._on_goodbye, loopback_s)

    def _reply(self, reply: OracleReply) -> _Actor:
        """Inject the events of a reply one after the other, each when its date has come."""
        loopback_s = self.platform.loopback_s
        messages: list[Callable[[], None]] = [partial(self._on_execute, job, cores) for job, cores in reply.starts]
        messages += [partial(self._on_set_pstate, cores, pstate) for pstate, cores in reply.requests]
        rank = _AFTER_REPLY
        for message in [*messages, self._on_ready]:
            if reply.now_s > self.now:
                yield _Sleep(reply.now_s - self.now)
                rank = _AT_ONCE
            yield _Put(message, loopback_s, rank)
            rank = _AT_ONCE

    def _job(self, index: int, cores: list[int]) -> _Actor:
        job, record = self.jobs[index], self.result.records[index]
        record.start_s, record.cores, record.state = self.now, cores, "RUNNING"
        energy_before = self._consumed(cores)
        self._sweep()
        self._count_computing(len(cores))
        if job.delay_s is None:
            ran_out = yield _Compute(cores, job.flops, job.walltime_s)
        else:
            ran_out = 0 <= job.walltime_s <= job.delay_s
            yield _Sleep(job.walltime_s if ran_out else job.delay_s, cores[:1])
        if ran_out:
            record.state = "COMPLETED_WALLTIME_REACHED"
        else:
            record.state = "COMPLETED_FAILED" if job.return_code else "COMPLETED_SUCCESSFULLY"
        self._count_computing(-len(cores))
        record.run_s = self.now - record.start_s or SHORTEST_RUN_S
        rank = _AT_ONCE
        if self.energy:
            rank = self._sweep()
            record.energy_j = self._consumed(cores) - energy_before
            self.result.consumed_j = self.all_joules - self.joules_at_first
        yield _Put(partial(self._on_completed, index), self.platform.message_s[cores[0]], rank, cores[:1])

    # ---- server

    def _receive(self, put: _Put, actor: _Actor) -> None:
        """A byte has arrived; its sender goes on first, but the server does not see that in its mailbox yet."""
        self.is_receiving = False
        self._resume(actor)
        put.receive()
        if self.is_ready and not self.mailbox:
            if self.something_to_tell:
                self._send()
            elif self.said_goodbye and self.n_open == 0:
                self.is_over = True

    def _send(self, *, is_first: bool = False) -> None:
        """Tell the scheduler what is new, with dates as they are printed."""
        now = float(f"{self.now:.6f}")
        reply = OracleReply(now, [], []) if is_first else self.scheduler.handle(now, self.submitted, self.completed)
        self.submitted, self.completed = [], []
        self.something_to_tell = self.is_ready = False
        self.result.n_exchanges += 1
        if reply.starts or reply.requests:
            self.result.replies.append(reply)
        self._resume(self._reply(reply))

    def _on_ready(self) -> None:
        self.is_ready = True

    def _on_goodbye(self) -> None:
        self.said_goodbye = self.something_to_tell = True

    def _on_submitted(self, jobs: list[int]) -> None:
        for job in jobs:
            self.result.records[job].state = "SUBMITTED"
        self.submitted += jobs
        self.something_to_tell = True

    def _on_completed(self, job: int) -> None:
        self.result.completion_order.append(job)
        self.completed.append(job)
        self.something_to_tell = True
        self.n_open -= 1
        ghost = self.task[self.result.records[job].cores[0]]
        if ghost is not None:
            self.actions.remove(ghost)
            self._leave_cores(ghost)

    def _on_execute(self, job: int, cores: list[int]) -> None:
        self._resume(self._job(job, cores))

    def _on_set_pstate(self, cores: list[int], pstate: int) -> None:
        self.result.pstate_requests.append((self.now, pstate, cores))
        self._sweep()
        tasks = set()
        for core in cores:
            self.pstate[core] = pstate
            task = self.task[core]
            if task is None:
                self._set_watts(core)
            else:
                tasks.add(task)
        for task in tasks:
            self._set_rate(task)
        self._count_computing(0)
        self.something_to_tell = True

    # ---- machines and energy

    def _count_computing(self, change: int) -> None:
        self.n_computing += change
        self.result.machine_states.append((self.now, len(self.pstate) - self.n_computing, self.n_computing))

    def _set_rate(self, task: _Action) -> None:
        """Let the slowest core set the pace of a task."""
        if task.flops > 0:
            slowest = min(self.platform.speed_flops[core][self.pstate[core]] for core in task.cores)
            task.rate = slowest / task.flops
        for core in task.cores:
            self._set_watts(core)

    def _leave_cores(self, action: _Action) -> None:
        for core in action.cores:
            if self.task[core] is action:
                self.task[core] = None
            self._set_watts(core)

    def _set_watts(self, core: int) -> None:
        """Charge a core up to now at its old power, then set its power."""
        if not self.energy:
            return
        self._charge(core)
        pstate, task = self.pstate[core], self.task[core]
        watts = self.platform.idle_w[core][pstate]
        if task is not None and task.flops > 0:
            epsilon, full = self.platform.epsilon_w[core][pstate], self.platform.full_w[core][pstate]
            load = min(1.0, task.flops * task.rate / self.platform.speed_flops[core][pstate])
            watts = epsilon + load * (full - epsilon)
        if watts != self.watts[core]:
            self._charge_all()
            self.all_watts += watts - self.watts[core]
            self.watts[core] = watts

    def _charge(self, core: int) -> None:
        self.joules[core] += self.watts[core] * (self.now - self.since[core])
        self.since[core] = self.now

    def _charge_all(self) -> None:
        self.all_joules += self.all_watts * (self.now - self.all_since)
        self.all_since = self.now

    def _consumed(self, cores: list[int]) -> float:
        """Joules of some cores since date 0; 0 without energy."""
        if self.energy:
            for core in cores:
                self._charge(core)
        return sum(self.joules[core] for core in cores)

    def _sweep(self) -> int:
        """Read the energy of all cores; return the rank of a put after that: each core out of date takes a round.

        Those who do so in one step do it side by side: the answer is the same for all.
        """
        if self.energy and self.swept_in_step != self.n_steps:
            stale = (since for since in self.since if since < self.now) if self.swept_at < self.now else ()
            self.sweep_rank = sum(1 for _ in islice(stale, _AFTER_ENERGY))
            self.swept_at, self.swept_in_step = self.now, self.n_steps
            self._charge_all()
        return self.sweep_rank

    def _first_look(self) -> None:
        self._sweep()
        for core in range(len(self.pstate)):
            self._set_watts(core)
        self.joules_at_first = self.all_joules

"""A setting in one file: jobs with exponential gaps and service times on c equal servers, the M/M/c queue."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, UnknownName, WorkloadError
from hdrl.base.hashing import sha256_of
from hdrl.base.seeding import stream
from hdrl.metrics import TASK_METRICS, UNRUN, task_metrics, with_roles
from hdrl.options import ExperimentOptions
from hdrl.options.sweep import SettingSweep
from hdrl.setting import EnvironmentSpec, Inputs, LoadGenerator, Measures, PolicyBook, Setting, Simulator, View
from hdrl.trace import STAY_DTYPE, TASK_DTYPE, TaskState, TaskTrace

MAX_ROWS = 8
"""How many waiting jobs an agent sees."""


@dataclass(frozen=True)
class Servers:
    """A machine: ``servers:3``."""

    n_units: int

    @property
    def name(self) -> str:
        return f"servers:{self.n_units}"

    @property
    def unit_kinds(self) -> dict[str, int]:
        return {"server": self.n_units}

    def sha256(self) -> str:
        return sha256_of([], [self.n_units])

    def facts(self) -> dict[str, Any]:
        return {"name": self.name, "n_servers": self.n_units}


@dataclass(frozen=True)
class Queue:
    """A load: dates of release and service times in seconds."""

    name: str
    release_s: NDArray[np.float64]
    service_s: NDArray[np.float64]
    origin: Mapping[str, Any] = field(default_factory=dict)
    n_dropped: Mapping[str, int] = field(default_factory=dict)

    @property
    def n_items(self) -> int:
        return len(self.release_s)

    def window(self, start: int, n_items: int, /) -> Queue:
        if start < 0 or n_items < 1 or start + n_items > self.n_items:
            raise WorkloadError(f"{self.name}: no window of {n_items} jobs from job {start} on")
        part = slice(start, start + n_items)
        release_s = self.release_s[part] - self.release_s[start]
        return dataclasses.replace(self, release_s=release_s, service_s=self.service_s[part])

    def sha256(self) -> str:
        return sha256_of([("release_s", self.release_s), ("service_s", self.service_s)])


def poisson(servers: Servers, n: int, load: float, seed: int) -> Queue:
    """Return a Poisson stream of jobs of 1 s in the mean that keeps a share ``load`` of the servers busy."""
    random = stream(seed, "mmc")
    release_s = np.cumsum(random.exponential(1 / (load * servers.n_units), n))
    return Queue(f"poisson:{load:g}", release_s, random.exponential(1.0, n), {"load": load})


POLICIES: dict[str, Callable[[Queue, list[int]], int]] = {
    "fcfs": lambda queue, waiting: 0,
    "lcfs": lambda queue, waiting: len(waiting) - 1,
    "shortest": lambda queue, waiting: int(np.argmin(queue.service_s[waiting])),
}


def decisions(servers: Servers, queue: Queue) -> Generator[list[int], int, TaskTrace]:
    """Yield the waiting jobs whenever one of them can start, take the place of one, return what happened."""
    busy = [(0.0, unit) for unit in range(servers.n_units)]
    waiting: list[int] = []
    next_job, n_decisions = 0, 0
    tasks, stays = np.zeros(queue.n_items, TASK_DTYPE), np.zeros(queue.n_items, STAY_DTYPE)
    units = np.zeros(queue.n_items, np.int32)
    tasks["release_s"], tasks["requested_s"] = queue.release_s, queue.service_s
    tasks["deadline_s"], tasks["state"], tasks["user"], tasks["kind"] = np.inf, TaskState.DONE, -1, -1
    for number in range(queue.n_items):
        free_s, unit = heapq.heappop(busy)
        now_s = free_s if waiting else max(free_s, queue.release_s[next_job])
        while next_job < queue.n_items and queue.release_s[next_job] <= now_s:
            waiting.append(next_job)
            next_job += 1
        if len(waiting) > 1:
            n_decisions += 1
            job = waiting.pop((yield waiting))
        else:
            job = waiting.pop()
        end_s = now_s + queue.service_s[job]
        tasks["start_s"][job], tasks["end_s"][job], units[number] = now_s, end_s, unit
        stays[number] = (job, now_s, end_s, number, 1, 1.0)
        heapq.heappush(busy, (end_s, unit))
    return TaskTrace(servers, queue, tasks, float(tasks["end_s"].max()), n_decisions, stays, units)


class Picks(gymnasium.Env[Any, Any]):
    """Pick one of the first eight waiting jobs; the return is minus the mean wait."""

    def __init__(self, servers: Servers, queue: Queue, n_jobs: int | None = None, part: Any = None) -> None:
        self._servers, self._queue, self._n_jobs = servers, queue, n_jobs
        self._part = part or (0, queue.n_items)
        self.observation_space = spaces.Box(0.0, np.inf, (MAX_ROWS, 2), np.float32)
        self.action_space = spaces.Discrete(MAX_ROWS)
        self._trace: TaskTrace | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        n = self._n_jobs or self._part[1] - self._part[0]
        start = int(self.np_random.integers(self._part[0], self._part[1] - n + 1))
        self._window = self._queue.window(start, n)
        self._play, self._length, self._waiting = decisions(self._servers, self._window), 0, []
        self._trace = None
        self._advance(None)
        return self._seen()

    def step(self, action: Any) -> Any:
        self._length += 1
        self._advance(int(action))
        observation, info = self._seen()
        if self._trace is None:
            return observation, 0.0, False, False, info
        wait_s = task_metrics(self._trace)["mean_wait_s"]
        info["episode"] = {"r": -wait_s, "l": self._length, "objective": wait_s, "mean_wait_s": wait_s}
        return observation, -wait_s, True, False, info

    def trace(self) -> TaskTrace:
        assert self._trace is not None
        return self._trace

    def _advance(self, action: int | None) -> None:
        try:
            self._waiting = self._play.send(action)
        except StopIteration as end:
            self._trace, self._waiting = end.value, []

    def _seen(self) -> tuple[NDArray[np.float32], dict[str, Any]]:
        rows, mask = np.zeros((MAX_ROWS, 2), np.float32), np.zeros(MAX_ROWS, np.int8)
        shown = self._waiting[:MAX_ROWS]
        rows[: len(shown), 0], rows[: len(shown), 1] = 1.0, self._window.service_s[shown]
        mask[: max(1, len(shown))] = 1
        return rows, {"action_mask": mask}


def batch_of_picks(num_envs: int, **arguments: Any) -> Any:
    return gymnasium.vector.SyncVectorEnv([lambda: Picks(**arguments)] * num_envs)


gymnasium.register("toy/Mmc-v0", entry_point=Picks, vector_entry_point=batch_of_picks)


class PicksSpec(EnvironmentSpec):
    """Picking among the waiting jobs."""

    id = "toy/Mmc-v0"
    given = frozenset(("servers", "queue", "n_jobs", "part", "num_envs"))

    def places(self, machine: Any, load: Any, window: Mapping[str, Any] | None) -> dict[str, Any]:
        chosen = {name: value for name, value in (window or {}).items() if name != "start"}
        return {"servers": machine, "queue": load, **chosen}

    def goal(self, arguments: Any) -> tuple[str, int]:
        return "mean_wait_s", -1

    def player(self, machine: Any, load: Any, arguments: Any, options: Any = None) -> Picks:
        return Picks(machine, load)


class Policies(PolicyBook):
    """Three disciplines."""

    default_baseline = "fcfs"

    def names(self) -> Sequence[str]:
        return tuple(POLICIES)

    def groups(self) -> Mapping[str, Sequence[str]]:
        return {"heuristics": ("fcfs", "lcfs")}

    def additions(self) -> Mapping[str, str]:
        return {"!": "said aloud"}

    def read(self, text: str) -> str:
        name = text.removesuffix("!")
        if name not in POLICIES:
            raise UnknownName("policy", text, POLICIES)
        return name

    def of_module(self, module: Any, path: Any, suffix: str) -> Any:
        return getattr(module, "pick", None)

    def draws(self, policy: str) -> bool:
        return False

    def knows_too_much(self, policy: Any) -> bool:
        return policy == "shortest"


class MmcOptions(ExperimentOptions):
    """Nothing besides what all have."""


class MmcSweep(SettingSweep):
    """Nothing besides what all have."""


class QueueInputs(Inputs, LoadGenerator):
    """Servers, and Poisson streams for them."""

    Options, Sweep, generator = MmcOptions, MmcSweep, "poisson"

    def machine(self, options: Any) -> Servers:
        kind, _, number = options.platform.partition(":")
        if kind != "servers" or not number.isdigit() or int(number) < 1:
            raise OptionsError(f"{options.where}: platform is {options.platform!r}, expected servers:<number>")
        return Servers(int(number))

    def shipped_machines(self) -> Mapping[str, str]:
        return {"servers:2": "two of them"}

    def load(self, options: Any, machine: Any) -> Queue:
        return _queue(options, options.workload, machine)

    def loads(self, sweep: Any, machine: Any) -> list[Queue]:
        return [_queue(sweep, text, machine) for text in sweep.workloads]

    def generate(self, sweep: Any, machine: Any, n_items: int, *, offered_load: float, seed: int) -> Queue:
        return poisson(machine, n_items, offered_load, seed)

    def offered_load(self, machine: Any, load: Queue) -> float | None:
        span_s = float(load.release_s[-1] - load.release_s[0])
        return float(load.service_s.sum()) / (span_s * machine.n_units) if span_s else None


class QueueSimulator(Simulator):
    """The queue under a discipline."""

    def simulate(self, machine: Any, load: Any, policy: Any, *, seed: int, **more: Any) -> TaskTrace:
        choose, play = POLICIES.get(policy, policy) if isinstance(policy, str) else policy, decisions(machine, load)
        try:
            waiting = next(play)
            while True:
                waiting = play.send(choose(load, waiting))
        except StopIteration as end:
            trace: TaskTrace = end.value
            return trace


def _queue(options: Any, text: str, machine: Servers) -> Queue:
    kind, _, number = text.partition(":")
    try:
        load = float(number)
    except ValueError:
        load = 0.0
    if kind != "poisson" or not load > 0:
        raise OptionsError(f"{options.where}: workload is {text!r}, expected poisson:<offered load>")
    return poisson(machine, options.nb_jobs or 1000, load, options.seed)


SETTING = Setting(
    name="mmc",
    title="an M/M/c queue",
    inputs=QueueInputs(),
    simulator=QueueSimulator(),
    policies=Policies(),
    measures=Measures(
        with_roles(
            TASK_METRICS,
            compared=("mean_wait_s", "max_wait_s", "utilization"),
            shown=("n_jobs", "mean_wait_s", "utilization", *UNRUN),
        )
    ),
    view=View("server"),
    environments={"picks": PicksSpec()},
)

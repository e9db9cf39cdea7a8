"""Workers of a training, and their state: the base of all schemes."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hdrl.base.errors import LearningError
from hdrl.distributed.training.clock import Clock
from hdrl.distributed.training.pool import Handle, WorkerPool
from hdrl.distributed.training.server import ParameterServer, ServerPart, weights_of
from hdrl.distributed.training.worker import Report, Worker, WorkerPlan
from hdrl.learn.config import ReplayConfig
from hdrl.learn.interaction import Episode
from hdrl.options.distributed import DistributedOptions


@dataclass(slots=True)
class Record:
    """Counts of events since an iteration began."""

    n_steps: int = 0  # environment steps
    # steps of the servers, batches that were learned from, and gradients that came too late
    n_updates: int = 0
    n_batches: int = 0
    n_dropped: int = 0
    episodes: list[Episode] = field(default_factory=list)  # episodes that ended
    # of each gradient that was used: how many updates there were after its weights had been fetched
    staleness: list[int] = field(default_factory=list)
    # apex: of each message of an actor, how many updates its weights were old
    lags: list[int] = field(default_factory=list)
    losses: dict[str, list[float]] = field(default_factory=dict)

    def take(self, report: Report) -> None:
        """Add the report of a worker; raise LearningError if a loss is not finite."""
        self.n_steps += report.n_steps
        self.episodes += report.episodes
        for name, value in (report.losses or {}).items():
            if (name == "loss" or name.endswith("_loss")) and not math.isfinite(value):
                raise LearningError(f"{name} of a worker is {value}, expected a finite number")
            self.losses.setdefault(name, []).append(float(value))

    def columns(self) -> dict[str, float]:
        """Return the columns of the log: means over reports, and counts of what the servers did."""
        columns = {name: sum(values) / len(values) for name, values in self.losses.items()}
        columns |= {"n_server_updates": float(self.n_updates), "n_dropped_gradients": float(self.n_dropped)}
        for name, values in (("staleness", self.staleness), ("actor_lag", self.lags)):
            if values:
                columns |= {f"mean_{name}": sum(values) / len(values), f"max_{name}": float(max(values))}
        return columns


class WorkerGroup(abc.ABC):
    """Workers of any scheme, and their state."""

    def __init__(self, pool: WorkerPool, clock: Clock, options: DistributedOptions, plan: WorkerPlan) -> None:
        self.pool, self.clock, self.options = pool, clock, options
        self.n_workers = options.workers + options.backup
        self.lives = [0] * self.n_workers
        self.version = 0
        self.record = Record()
        self._plan = plan
        self.workers: list[Any] = []

    def plan(self, number: int) -> WorkerPlan:
        """Return the plan of a worker."""
        return dataclasses.replace(self._plan, number=number, life=self.lives[number])

    @abc.abstractmethod
    def _started(self, number: int) -> Any:
        """Hire a worker."""

    @abc.abstractmethod
    def weights(self) -> list[Handle]:
        """Fetch all weights that workers use."""

    @abc.abstractmethod
    def model(self) -> Any:
        """Return the role that has the networks which are not among the weights."""

    @abc.abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, from which `load_state_dict` continues."""

    @abc.abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned; raise `LearningError` if it is of another number of workers."""

    def take(self, handle: Handle) -> Report:
        """Wait for the report of a worker, and add it to the record."""
        report: Report = self.pool.result_of(handle)
        self.record.take(report)
        return report

    def replace(self, number: int) -> None:
        """Replace a worker that has died; its memory is lost."""
        self.lives[number] += 1
        self.pool.stop_role(self.workers[number])
        self.workers[number] = self._started(number)

    def replay_ratio(self) -> dict[str, float]:
        """Return how often a step was learned from in this iteration; nothing where steps are used once."""
        config = self._plan.config
        if not isinstance(config, ReplayConfig) or not self.record.n_steps:
            return {}
        return {"replay_ratio": self.record.n_batches * config.batch_size / self.record.n_steps}

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            self.pool.stop_role(worker)
        self.workers = []


class TrainingGroup(WorkerGroup):
    """Workers that compute gradients, and servers that use them."""

    def __init__(
        self, pool: WorkerPool, clock: Clock, options: DistributedOptions, plan: WorkerPlan, parts: list[ServerPart]
    ) -> None:
        super().__init__(pool, clock, options, plan)
        first = [one.detach().clone() for one in weights_of(plan.agent())]
        self.servers = [pool.start_role(ParameterServer, part, first) for part in parts]
        self.workers = [self._started(number) for number in range(self.n_workers)]

    def _started(self, number: int) -> Any:
        return self.pool.start_role(Worker, self.plan(number))

    def weights(self) -> list[Handle]:
        """Fetch the weights of all servers."""
        return [self.pool.call(server, "weights") for server in self.servers]

    def update(self, gradients: list[Handle], max_norm: float | None) -> None:
        """Let the servers make a step with the mean of gradients, summed up in the given order, of at most a norm."""
        norms = [self.pool.call(server, "take", gradients) for server in self.servers]
        for server in self.servers:
            self.pool.call(server, "step", norms, max_norm)
        self.version += 1
        self.record.n_updates += 1

    def model(self) -> Any:
        """Return the role that has the networks that servers do not have: target networks."""
        return self.workers[0]

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, from which `load_state_dict` continues."""
        pool = self.pool
        saved = {
            "servers": [pool.call(server, "state_dict") for server in self.servers],
            "workers": [pool.call(worker, "state_dict") for worker in self.workers],
        }
        return {
            **{name: [pool.content(handle) for handle in handles] for name, handles in saved.items()},
            "clock": self.clock.state_dict(),
            "lives": list(self.lives),
            "version": self.version,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state; raise LearningError if it is of another number of workers or servers."""
        for name, now in (("workers", self.workers), ("servers", self.servers)):
            if len(state[name]) != len(now):
                raise LearningError(f"the saved state is of {len(state[name])} {name}, not of {len(now)}")
        handles = [
            self.pool.call(member, "load_state_dict", saved)
            for name, members in (("servers", self.servers), ("workers", self.workers))
            for member, saved in zip(members, state[name], strict=True)
        ]
        for handle in handles:
            self.pool.result_of(handle)
        self.clock.load_state_dict(state["clock"])
        self.lives = [int(n) for n in state["lives"]]
        self.version = int(state["version"])

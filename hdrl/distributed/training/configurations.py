"""One agent for each configuration of a load, which begins with the weights of a neighbour.

A *visit* is some iterations on one configuration. Either all workers learn together on one configuration after the
other (allotment ``simulations``: its simulations are split), or each worker goes through configurations of its own
(``configurations``). A team of workers that goes through configurations is a *lane* here: there is one, or one for each
worker. Virtual time passes in all lanes at once; what they have done counts in its order.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch

from hdrl.base.errors import OptionsError
from hdrl.base.seeding import seed_sequence
from hdrl.distributed.training.pool import open_pool
from hdrl.distributed.training.sharing import shared_config, shared_envs
from hdrl.distributed.training.trainer import DistributedTrainer
from hdrl.distributed.training.worker import MakeEnvs
from hdrl.learn.agent import Agent
from hdrl.learn.config import Config
from hdrl.learn.interaction import Interaction
from hdrl.learn.library import Point, Specialist, nearest
from hdrl.learn.train import Iteration, TrainingLoop
from hdrl.options.distributed import DistributedOptions

NO_JOB = -1


@dataclass(slots=True)
class _Lane:
    """Workers that go through configurations, one after the other, and again."""

    number: int  # number of the lane
    # its configurations: from this one to the one before that
    first: int
    end: int
    # visits that have ended, and iterations of the one that goes on
    n_visits: int = 0
    n_done: int = 0
    n_explored: int = 0  # steps in which it has explored, in all visits
    last: int = NO_JOB  # configuration of its last visit
    # virtual time: now, and when the visit began
    now_s: float = 0.0
    began_s: float = 0.0
    pending: dict[str, Any] | None = None  # an iteration that is done already, but counts only when its time has come
    trainer: DistributedTrainer | None = None  # trains during a visit

    @property
    def configuration(self) -> int:
        """Whose turn it is."""
        return self.first + self.n_visits % (self.end - self.first)

    @property
    def n_visits_here(self) -> int:
        """Number of earlier visits to that configuration."""
        return self.n_visits // (self.end - self.first)


_SAVED = tuple(one.name for one in fields(_Lane) if one.name not in ("number", "first", "end", "trainer"))


class ConfigurationTrainer(TrainingLoop):
    """Trains an agent for each configuration of a load; its interface is that of `DistributedTrainer`.

    Parameters
    ----------
    agent
        Initial agent of all workers. After each iteration it has the weights that were learned last.
    make_envs
        Makes a number of environments, of the k-th of n configurations if these are given.
    n_envs
        Environments of all workers together.
    options
        Whose weights an agent begins with, how long visits are, and how the work is shared.
    points
        Coordinates of the configurations.
    where
        Source of the options, for messages.

    Attributes
    ----------
    n_iterations, n_steps
        Done so far, also before an interruption. An iteration is one of all workers together, or one for each of them.
    interaction
        An environment to look at; no agent learns in it.

    Raises
    ------
    OptionsError
        If there are too few configurations, or environments or batches cannot be shared.
    LearningError
        If the agent cannot learn together with others.
    """

    def __init__(
        self,
        agent: Agent,
        make_envs: MakeEnvs,
        n_envs: int,
        options: DistributedOptions,
        points: Sequence[Point],
        *,
        seed: int = 0,
        on: str = "local",
        where: str = "options",
    ) -> None:
        self.agent, self.seed = agent, seed
        self._make_envs, self._points = make_envs, list(points)
        self._options, self._on, self._where = options, on, where
        self._is_alone = options.allotment == "configurations"
        self._check(n_envs)
        self._n_envs = shared_envs(n_envs, options.workers, where) if self._is_alone else n_envs
        self._config = self._config_of_lanes()
        self._first: dict[str, Any] | None = None
        n_lanes = options.workers if self._is_alone else 1
        cuts = [len(points) * number // n_lanes for number in range(n_lanes + 1)]
        self._lanes = [_Lane(number, cuts[number], cuts[number + 1]) for number in range(n_lanes)]
        self._learned: dict[int, dict[str, Any]] = {}
        self._place: contextlib.ExitStack | None = None
        self._trainer_of(self._lanes[0]).close()  # impossible trainings are refused before anything is written
        self.interaction = Interaction(make_envs(self._n_envs))

    def _check(self, n_envs: int) -> None:
        """Refuse options that do not fit together."""
        options, where = self._options, self._where
        least = max(2, options.workers) if self._is_alone else 2
        if len(self._points) < least:
            n = len(self._points)
            raise OptionsError(
                f"{where}: learning.distributed.reliance is {options.reliance!r}, but there"
                f" {'is one configuration' if n == 1 else f'are {n} configurations'} to train on, expected at least"
                f" {least}, or reliance 'pooled'"
            )
        if self._is_alone and self._on != "local":
            raise OptionsError(
                f"{where}: --on {self._on} is for workers that learn together, expected --on local with"
                f" learning.distributed.reliance {options.reliance!r} and allotment 'configurations'"
            )
        if options.epsilon != "visit" and not hasattr(self.agent, "n_explored"):
            raise OptionsError(
                f"{where}: learning.distributed.epsilon is {options.epsilon!r}, but {type(self.agent).__name__} has"
                " no share of random actions, expected 'visit'"
            )
        shared_envs(n_envs, options.workers, where)

    def _config_of_lanes(self) -> Config:
        """Return the settings of a lane; a worker alone has its share of each batch, and all steps of a visit."""
        given = self.agent.config
        if not self._is_alone:
            return given
        shared = shared_config(given, self._options, self._where)
        names = ["batch_size", "minibatch_size"] + (["epsilon_steps"] if self._options.epsilon == "all" else [])
        return given.model_copy(update={name: getattr(shared, name) for name in names if hasattr(given, name)})

    # ------------------------------------------------------------------ the interface of a training loop

    def _begin(self) -> None:
        if self._first is None:  # until now the agent may have been given weights
            self._first = _modules(self.agent)
        if self._place is None:  # a cluster is started once, not anew for each visit
            self._place = contextlib.ExitStack()
            self._place.enter_context(open_pool(self._on, self._options.workers))

    def close(self) -> None:
        """End all workers and servers."""
        for lane in self._lanes:
            if lane.trainer is not None:
                lane.trainer.close()
                lane.trainer = None
        if self._place is not None:
            self._place.close()
            self._place = None
        self.interaction.envs.close()

    @property
    def specialists(self) -> list[Specialist]:
        """Weights learned for each configuration that has been visited."""
        return [Specialist(self._points[number], one["modules"]) for number, one in sorted(self._learned.items())]

    def _own_state(self) -> dict[str, Any]:
        return {
            "first": self._first,
            "learned": dict(self._learned),
            "lanes": [
                {name: getattr(lane, name) for name in _SAVED}
                | {"trainer": None if lane.trainer is None else lane.trainer.state_dict()}
                for lane in self._lanes
            ],
        }

    def _load_own_state(self, state: Mapping[str, Any]) -> None:
        self._first = None if state["first"] is None else dict(state["first"])
        self._learned = {int(number): dict(one) for number, one in state["learned"].items()}
        for lane, saved in zip(self._lanes, state["lanes"], strict=True):
            for name in _SAVED:
                setattr(lane, name, saved[name])
            if saved["trainer"] is not None:
                lane.trainer = self._trainer_of(lane)
                lane.trainer.load_state_dict(saved["trainer"])

    # ------------------------------------------------------------------ one iteration

    def _iterate(self) -> Iteration:
        self._begin()
        done = [self._next() for _ in self._lanes]
        self.n_iterations += 1
        self.n_steps += sum(one["n_steps"] for one in done)
        losses = _merged_logs([one["losses"] for one in done])
        losses |= {"virtual_time_s": done[-1]["time_s"], "n_configurations": float(len(self._learned))}
        self.agent.load_weights({"modules": done[-1]["modules"]})
        return Iteration(self.n_iterations, self.n_steps, [one for part in done for one in part["episodes"]], losses)

    def _next(self) -> dict[str, Any]:
        """Return the next iteration of any lane, in the order of virtual time."""
        for lane in self._lanes:
            if lane.pending is None:
                lane.pending = self._worked(lane)
        lane = min(self._lanes, key=lambda one: (one.pending or {})["time_s"])
        done, lane.pending = lane.pending, None
        if done is None:
            raise TypeError("a worker returned no iteration")
        self._learned[lane.configuration] = {"modules": done["modules"], "n_explored": done["n_explored"]}
        lane.now_s = done["time_s"]
        lane.n_done += 1
        if lane.n_done == self._iterations_of_a_visit:
            self._end_visit(lane)
        return done

    @property
    def _iterations_of_a_visit(self) -> int:
        """Of a lane: each worker alone makes a share of the steps that all make together."""
        return self._options.visit_iterations * (self._options.workers if self._is_alone else 1)

    def _worked(self, lane: _Lane) -> dict[str, Any]:
        """Let a lane go on for an iteration."""
        if lane.trainer is None:
            lane.trainer = self._trainer_of(lane)
            # A worker alone fetches its weights once, and gives them once.
            lane.began_s = lane.now_s + (2.0 * self._options.delays.network_s if self._is_alone else 0.0)
        trainer = lane.trainer
        before = trainer.n_steps
        done: list[Iteration] = []
        trainer.run(trainer.n_iterations + 1, on_iteration=done.append)
        iteration = done[0]
        losses = dict(iteration.losses)
        return {
            "time_s": lane.began_s + losses.pop("virtual_time_s"),
            "modules": _modules(trainer.agent),
            "n_explored": int(getattr(trainer.agent, "n_explored", 0)),
            "n_steps": trainer.n_steps - before,
            "episodes": [dict(episode) for episode in iteration.episodes],
            "losses": losses,
        }

    def _end_visit(self, lane: _Lane) -> None:
        if lane.trainer is not None:
            lane.trainer.close()
            lane.trainer = None
        lane.last, lane.n_done = lane.configuration, 0
        lane.n_explored = self._learned[lane.last]["n_explored"]
        lane.n_visits += 1

    # ------------------------------------------------------------------ first weights

    def _trainer_of(self, lane: _Lane) -> DistributedTrainer:
        """Return the trainer of a lane's configuration for a visit."""
        options, number = self._options, lane.configuration
        seeds = seed_sequence(self.seed, f"visit {lane.n_visits_here} to configuration {number}").generate_state(2)
        generator = torch.Generator().manual_seed(int(seeds[0]))
        agent = type(self.agent)(self.agent.observation_space, self.agent.action_space, self._config, generator)
        agent.load_weights({"modules": self._start(lane)})
        if hasattr(agent, "n_explored"):
            agent.n_explored = self._n_explored(lane)
        changes: dict[str, Any] = {"reliance": "pooled", "visit_iterations": 1, "epsilon": "visit"}
        if self._is_alone:
            is_slow = lane.number >= options.workers - options.delays.stragglers
            delays = options.delays.model_copy(update={"network_s": 0.0, "stragglers": int(is_slow)})
            changes |= {"workers": 1, "allotment": "simulations", "delays": delays}
        return DistributedTrainer(
            agent,
            functools.partial(self._make_envs, share=(number, len(self._points))),
            self._n_envs,
            options.model_copy(update=changes),
            seed=int(seeds[1]),
            on=self._on,
            where=self._where,
        )

    def _start(self, lane: _Lane) -> Mapping[str, Any]:
        """Return the weights that an agent begins a visit with."""
        reliance, number = self._options.reliance, lane.configuration
        if reliance == "carried":
            source = lane.last
        elif reliance == "nearest" and self._learned:
            known = sorted(self._learned)
            source = known[nearest(self._points[number], [self._points[one] for one in known])]
        else:
            source = number
        if source in self._learned:
            found: Mapping[str, Any] = self._learned[source]["modules"]
            return found
        return _modules(self.agent) if self._first is None else self._first

    def _n_explored(self, lane: _Lane) -> int:
        """Return with how many steps the share of random actions has fallen already when a visit begins."""
        epsilon = self._options.epsilon
        if epsilon == "all":
            return lane.n_explored
        before = self._learned.get(lane.configuration)
        return 0 if epsilon == "visit" or before is None else int(before["n_explored"])


def _modules(agent: Agent) -> dict[str, Any]:
    """Return copies of an agent's weights."""
    found = agent.state_dict()["modules"].items()
    return {name: {key: one.detach().clone() for key, one in part.items()} for name, part in found}


def _merged_logs(losses: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the logs of several iterations as one: counts in all, the largest of maxima, means of the rest."""
    found = {}
    for name in losses[0]:
        values = [one[name] for one in losses if name in one]
        if name.startswith("n_"):
            found[name] = sum(values)
        else:
            found[name] = max(values) if name.startswith("max_") else sum(values) / len(values)
    return found

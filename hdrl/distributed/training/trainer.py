"""The trainer of several workers, with the interface of `hdrl.learn.train.Trainer`."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hdrl.base.errors import LearningError, OptionsError
from hdrl.distributed.tasks import check_executor
from hdrl.distributed.training.apex import Apex, ApexGroup
from hdrl.distributed.training.clock import ArrivalClock, Clock, VirtualClock
from hdrl.distributed.training.group import Record, TrainingGroup, WorkerGroup
from hdrl.distributed.training.pool import RoleDied, WorkerPool, open_pool
from hdrl.distributed.training.schemes import RULES_OF, SCHEMES, STALENESS_OF, Scheme
from hdrl.distributed.training.server import parts_of, weights_of
from hdrl.distributed.training.sharing import check_room, shared_config, shared_envs
from hdrl.distributed.training.worker import MakeEnvs, WorkerPlan, put_weights
from hdrl.learn.agent import Agent
from hdrl.learn.checks import checked_memory
from hdrl.learn.interaction import Interaction
from hdrl.learn.train import Iteration, TrainingLoop
from hdrl.options.distributed import DistributedOptions

MAX_DEATHS = 3
"""Number of deaths of roles in one iteration before the training is given up."""


@dataclass(frozen=True, slots=True)
class _Team:
    """The workers and their scheme."""

    group: WorkerGroup
    scheme: Scheme

    def state_dict(self) -> dict[str, Any]:
        return {"company": self.group.state_dict(), "scheme": self.scheme.state_dict()}


class DistributedTrainer(TrainingLoop):
    """Trains an agent by several workers.

    Nothing is started before the first iteration: until then the agent may be given weights.

    Parameters
    ----------
    agent
        The agent; after each iteration it has the weights of the servers.
    make_envs
        Makes a number of environments. On Ray it is sent to the workers.
    n_envs
        Environments of all workers together; each batch is shared likewise.
    on
        ``"local"``: all in this process; ``"ray"`` or ``"ray:<address>"``: each in its own. The results are the same.

    Attributes
    ----------
    n_iterations, n_steps
        Done so far, also before an interruption.
    interaction
        An environment to look at; no agent learns in it.

    Raises
    ------
    OptionsError
        If the environments or batches cannot be shared.
    LearningError
        If the agent cannot learn together with others.
    """

    n_threads = 1

    def __init__(
        self,
        agent: Agent,
        make_envs: MakeEnvs,
        n_envs: int,
        options: DistributedOptions,
        *,
        seed: int = 0,
        on: str = "local",
        where: str = "options",
    ) -> None:
        check_executor(on)
        if options.order == "arrival" and on == "local":
            raise OptionsError(
                f"{where}: learning.distributed.order is 'arrival', but nothing runs at the same time here, expected "
                "'virtual', or --on ray"
            )
        _check_agent(agent, options)
        self.agent, self.seed = agent, seed
        self.options = _with_defaults(options)
        self._on = on
        self._make_envs = make_envs
        self._n_each = shared_envs(n_envs, options.workers, where)
        self._config = shared_config(agent.config, options, where)
        check_room(agent.config, options, n_envs, where)
        self._rule = self.options.rule or "agent"
        self._parts = parts_of(agent, options.servers, self._rule, where)
        self._n_batches = checked_memory(agent, n_envs).learns_per_iteration
        self.interaction = Interaction(make_envs(self._n_each))
        self._first: Mapping[str, Any] | None = None
        self._saved: Mapping[str, Any] | None = None
        self._team: _Team | None = None
        self._place = contextlib.ExitStack()

    def close(self) -> None:
        """End all workers and servers."""
        self._release()
        self.interaction.envs.close()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was called, with new workers and servers."""
        super().load_state_dict(state)
        self._release()

    def _own_state(self) -> dict[str, Any]:
        if self._team is not None:
            self._saved = {**self._team.state_dict(), "n_iterations": self.n_iterations}
        return {"distributed": self._saved, "first": self._first}

    def _load_own_state(self, state: Mapping[str, Any]) -> None:
        self._saved, self._first = state["distributed"], state["first"]

    # ------------------------------------------------------------------ one iteration

    def _iterate(self) -> Iteration:
        self._is_within = True
        record, losses = self._survived()
        self.n_iterations += 1
        self.n_steps += record.n_steps
        self._is_within = False
        return Iteration(self.n_iterations, self.n_steps, record.episodes, losses)

    def _survived(self) -> tuple[Record, dict[str, float]]:
        """Make an iteration; if a role dies, restore the last save and begin anew with new roles, a few times."""
        for _ in range(MAX_DEATHS):
            try:
                team, since = self._started()
                for _ in range(self.n_iterations - since):  # in virtual order they give what they gave before
                    self._directed(team)
                return self._directed(team)
            except RoleDied as error:
                died = error
                self._release()
        raise LearningError(f"workers or servers died {MAX_DEATHS} times ({died}); what was saved before still holds")

    def _directed(self, team: _Team) -> tuple[Record, dict[str, float]]:
        group = team.group
        group.record = Record()
        team.scheme.iterate(self._n_batches)
        losses = group.record.columns() | group.replay_ratio()
        if self.options.order == "virtual":  # logs hold nothing of the wall clock
            losses |= {"virtual_time_s": group.clock.now_s}
        self._take_over(group)
        return group.record, losses

    def _take_over(self, group: WorkerGroup) -> None:
        """Give the agent what has been learned."""
        own = self.agent.state_dict()
        pool = group.pool
        learned = pool.content(pool.call(group.model(), "modules"))
        self.agent.load_state_dict({**own, **learned})
        if isinstance(group, TrainingGroup):
            put_weights(weights_of(self.agent), [pool.content(handle) for handle in group.weights()])

    # ------------------------------------------------------------------ workers and their scheme

    def _started(self) -> tuple[_Team, int]:
        """Return the team, started if there is none, and the iteration of its state."""
        if self._team is not None:
            return self._team, self.n_iterations
        if self._first is None:
            self._first = copy.deepcopy(self.agent.state_dict())
        pool = self._place.enter_context(open_pool(self._on, self.options.workers))
        clock = self._clock(pool)
        plan = WorkerPlan(
            type(self.agent),
            self._config,
            (self.agent.observation_space, self.agent.action_space),
            self._make_envs,
            self._n_each,
            self.seed,
            self._first,
            number=0,
            n_shares=self.options.workers if self.options.allotment == "configurations" else 1,
        )
        if self.options.scheme == "apex":
            actors = ApexGroup(pool, clock, self.options, plan)
            team = _Team(actors, Apex(actors))
        else:
            group = TrainingGroup(pool, clock, self.options, plan, self._parts)
            team = _Team(group, SCHEMES[self.options.scheme](group))
        self._team = team
        if self._saved is None:
            return team, 0
        team.group.load_state_dict(self._saved["company"])
        team.scheme.load_state_dict(self._saved["scheme"])
        return team, int(self._saved["n_iterations"])

    def _clock(self, pool: WorkerPool) -> Clock:
        options = self.options
        if options.order == "arrival":
            return ArrivalClock(pool.wait)
        return VirtualClock(options.delays, options.workers + options.backup, self.seed)

    def _release(self) -> None:
        if self._team is not None:
            self._team.group.close()
        self._team = None
        self._place.close()


def _with_defaults(options: DistributedOptions) -> DistributedOptions:
    """Fill in what the scheme decides where nothing else is said."""
    rule = options.rule or RULES_OF.get(options.scheme, "agent")
    staleness = STALENESS_OF.get(options.scheme) if options.max_staleness is None else options.max_staleness
    return options.model_copy(update={"rule": rule, "max_staleness": staleness})


def _check_agent(agent: Agent, options: DistributedOptions) -> None:
    """Refuse an agent that cannot learn by a scheme."""
    name, scheme = type(agent).__name__, options.scheme
    if agent.n_gradients == "none":
        raise LearningError(
            f"{name} cannot learn by several workers, expected dqn, d3qn, rainbow, a2c, ppo, cma_es or openai_es"
        )
    if scheme == "apex" and not hasattr(agent, "errors"):
        raise OptionsError(
            f"learning.distributed.scheme is 'apex', which needs a replay, expected dqn, d3qn or rainbow, not {name}"
        )
    if agent.n_gradients == "many" and scheme != "sync":
        raise OptionsError(
            f"learning.distributed.scheme is {scheme!r}, but {name} makes several steps with each batch, "
            "expected 'sync'"
        )

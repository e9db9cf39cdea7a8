"""The trainer of several workers, with the interface of `hdrl.learn.train.Trainer`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from hdrl.distributed.tasks import check_place
from hdrl.distributed.training.apex import Apex, ApexCompany
from hdrl.distributed.training.clock import ArrivalClock, Clock, VirtualClock
from hdrl.distributed.training.company import Company, Record
from hdrl.distributed.training.crew import Crew, RoleDied, check_order, crew_on, now_s
from hdrl.distributed.training.schemes import RULES_OF, SCHEMES, STALENESS_OF, Scheme
from hdrl.distributed.training.server import parts_of, weights_of
from hdrl.distributed.training.sharing import check_room, shared_config, shared_envs
from hdrl.distributed.training.worker import MakeEnvs, Plan, put_weights
from hdrl.errors import LearningError, OptionsError
from hdrl.learn.agent import Agent
from hdrl.learn.checks import checked_memory
from hdrl.learn.interaction import Interaction
from hdrl.learn.train import Iteration, TrainingLoop
from hdrl.options.distributed import DistributedOptions

MAX_DEATHS = 3
"""How often roles may die in one iteration before the training is given up."""


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
    options
        The scheme, and how many workers there are.
    seed
        Seed of the environments.
    on
        ``"local"``: all in this process; ``"ray"`` or ``"ray:<address>"``: each in its own. The results are the same.
    where
        Where the options come from, for messages.

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
        check_place(on)
        check_order(options.order, on, where)
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
        self._company: Company | ApexCompany | None = None
        self._scheme: Scheme | Apex | None = None
        self._open: Any = None

    def close(self) -> None:
        """End all workers and servers."""
        self._release()
        self.interaction.envs.close()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was called; workers and servers are hired anew."""
        super().load_state_dict(state)
        self._release()

    def _own_state(self) -> dict[str, Any]:
        if self._company is not None:
            self._saved = self._snapshot()
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
        """Make an iteration; if somebody dies, begin it anew from what was saved last, with new roles.

        In virtual order the iterations since then give what they gave before, so results stay the same.

        Raises
        ------
        LearningError
            If somebody dies again and again.
        """
        for _ in range(MAX_DEATHS):
            try:
                behind = self.n_iterations - self._start()
                for _ in range(behind):
                    self._directed()
                return self._directed()
            except RoleDied as error:
                died = error
                self._release()
        raise LearningError(f"workers or servers died {MAX_DEATHS} times ({died}); what was saved before still holds")

    def _directed(self) -> tuple[Record, dict[str, float]]:
        company, scheme = self._company, self._scheme
        if company is None or scheme is None:
            raise TypeError("nobody has been hired")
        company.record = Record()
        scheme.iterate(self._n_batches)
        losses = company.record.columns() | company.replay_ratio()
        if self.options.order == "virtual":  # logs hold nothing of the wall clock
            losses |= {"virtual_time_s": company.clock.now_s}
        self._take_over()
        return company.record, losses

    def _take_over(self) -> None:
        """Give the agent what has been learned."""
        company = self._company
        if company is None:
            raise TypeError("nobody has been hired")
        own = self.agent.state_dict()
        crew = company.crew
        learned = crew.content(crew.call(company.model(), "modules"))
        self.agent.load_state_dict({**own, **learned})
        if isinstance(company, Company):
            put_weights(weights_of(self.agent), [crew.content(handle) for handle in company.weights()])

    # ------------------------------------------------------------------ who works

    def _start(self) -> int:
        """Hire everybody, if nobody is there, and return of which iteration their state is."""
        if self._company is not None:
            return self.n_iterations
        if self._first is None:
            self._first = copy.deepcopy(self.agent.state_dict())
        self._open = crew_on(self._on, self.options.workers)
        crew: Crew = self._open.__enter__()
        clock = self._clock(crew)
        plan = Plan(
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
            company: Any = ApexCompany(crew, clock, self.options, plan)
            scheme: Any = Apex(company)
        else:
            company = Company(crew, clock, self.options, plan, self._parts)
            scheme = SCHEMES[self.options.scheme](company)
        self._company, self._scheme = company, scheme
        if self._saved is None:
            return 0
        company.load_state_dict(self._saved["company"])
        scheme.load_state_dict(self._saved["scheme"])
        return int(self._saved["n_iterations"])

    def _clock(self, crew: Crew) -> Clock:
        options = self.options
        if options.order == "arrival":
            return ArrivalClock(crew.wait, now_s)
        return VirtualClock(options.delays, options.workers + options.backup, self.seed)

    def _snapshot(self) -> dict[str, Any]:
        if self._company is None or self._scheme is None:
            raise TypeError("nobody has been hired")
        return {
            "company": self._company.state_dict(),
            "scheme": self._scheme.state_dict(),
            "n_iterations": self.n_iterations,
        }

    def _release(self) -> None:
        if self._company is not None:
            self._company.close()
        self._company = self._scheme = None
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None


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

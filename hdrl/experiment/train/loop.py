"""The loop of a training: iterate, log, validate, save; it stops and resumes between two iterations."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.base.errors import LearningError
from hdrl.base.pyfiles import blamed
from hdrl.experiment.run.progress import Progress
from hdrl.experiment.train.decisions import DecisionLog
from hdrl.experiment.train.log import PROBABILITY, Events, TrainingLog

if TYPE_CHECKING:
    import gymnasium

    from hdrl.distributed.training import ConfigurationTrainer, DistributedTrainer
    from hdrl.learn.interaction import Episode
    from hdrl.learn.train import Iteration, Trainer

EVENTS_FOLDER = "tensorboard"

EpisodeRow = dict[str, float]
"""A finished episode: ``return``, ``length`` and its results by name."""

NOT_RESULTS = ("r", "l", "t", "env")
"""What environments say of an episode apart from its results: copies of return and length, wall clock, environment."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a training takes, and what happens on the way."""

    n_iterations: int  # iterations in all
    checkpoint_every: int = 10  # iterations between two checkpoints
    validation_every: int | None = None  # iterations between two validations; ``None``: there are none
    n_validation_episodes: int = 1  # episodes of a validation
    patience: int | None = None  # validations without a better one after which there is no hope; ``None``: any number
    validation_seed: int = 0  # seed of the validations, the same for all
    actions: tuple[str, ...] = ()  # names of the actions whose probabilities are logged; empty: none are
    has_events: bool = False  # whether events for TensorBoard are written


@dataclass(slots=True)
class Reached:
    """How far a training is."""

    # iterations, decisions and finished episodes so far
    n_iterations: int = 0
    n_steps: int = 0
    n_episodes: int = 0
    best_score: float | None = None  # best validation, ``None`` before the first
    best_iteration: int = 0  # after which iteration it was, 0 before the first

    def as_json(self) -> dict[str, Any]:
        """Return it by name."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Training:
    """A training in a folder."""

    folder: Path
    trainer: Trainer | DistributedTrainer | ConfigurationTrainer  # the agent and the environments that it learns in
    plan: Plan  # how long, and what happens on the way
    save_checkpoint: Callable[[Mapping[str, Any]], None]  # writes what resuming needs
    save_best: Callable[[], None]  # writes the model that has done best so far
    score: Callable[[list[EpisodeRow]], float]  # gives a number to the episodes of a validation, the more the better
    validation_envs: gymnasium.vector.VectorEnv[Any, Any, Any] | None = None  # the environments to validate in, if any
    agent_file: Path | None = None  # the file of a user's own agent, for messages
    progress: Progress = field(default_factory=Progress)
    reached: Reached = field(default_factory=Reached)  # how far it is
    decisions: DecisionLog | None = None  # what listens to the agent, if anything does
    _log: TrainingLog | None = None
    _first: Any = None

    def __post_init__(self) -> None:
        if self.plan.actions:
            self._first = self._first_seen()

    def resume(self, model: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.reached = Reached(**state["reached"])
        self.trainer.load_state_dict({**self._trainer_state(state["learner"]), "agent": model})
        self._log = self._new_log(state["log"])

    def run(self) -> bool:
        """Iterate until the plan is fulfilled or the user stops it, then save; return whether it is fulfilled."""
        log = self._log = self._log or self._new_log()
        saved = self.reached.n_iterations
        with self.progress.stoppable() as is_stopped, self._events() as events:
            while not self.is_done and not is_stopped():
                self._iterate(log, events)
                if self._is_due(self.plan.checkpoint_every):
                    self._save(log)
                    saved = self.reached.n_iterations
        if saved < self.reached.n_iterations:
            self._save(log)
        log.write_hdeeprm_files()
        return self.is_done

    @property
    def is_done(self) -> bool:
        """Whether all iterations were made, or too many validations were no better."""
        reached, plan = self.reached, self.plan
        if reached.n_iterations >= plan.n_iterations:
            return True
        if plan.patience is None or plan.validation_every is None:
            return False
        n_validations = [n // plan.validation_every for n in (reached.n_iterations, reached.best_iteration)]
        return n_validations[0] - n_validations[1] >= plan.patience

    def _new_log(self, state: Mapping[str, int] | None = None) -> TrainingLog:
        return TrainingLog(self.folder, state, () if self.decisions is None else tuple(self.decisions.lines))

    def _iterate(self, log: TrainingLog, events: Events | None) -> None:
        began_s = time.perf_counter()
        n_steps = self.reached.n_steps
        row, episodes = self._count(self._trained())
        if self._is_due(self.plan.validation_every):
            row |= self._validate()
        log.add(row, [{"iteration": self.reached.n_iterations, **episode} for episode in episodes])
        if self.decisions is not None:
            log.add_lines(self.decisions.take())
        n_steps = self.reached.n_steps - n_steps
        shown = row | {"steps_per_s": n_steps / max(time.perf_counter() - began_s, 1e-9)}
        if events is not None:
            events.add(self.reached.n_steps, shown)
        self.progress.training(self.reached.n_iterations, self.plan.n_iterations, shown)

    @contextlib.contextmanager
    def _events(self) -> Iterator[Events | None]:
        if not self.plan.has_events:
            yield None
            return
        events = Events(self.folder / EVENTS_FOLDER, self.reached.n_steps)
        try:
            yield events
        finally:
            events.close()

    def _is_due(self, every: int | None) -> bool:
        reached = self.reached.n_iterations
        return every is not None and (reached % every == 0 or reached == self.plan.n_iterations)

    def _trained(self) -> Iteration:
        done: list[Iteration] = []
        with blamed(self.agent_file):
            self.trainer.run(self.trainer.n_iterations + 1, on_iteration=done.append)
        return done[0]

    def _count(self, iteration: Iteration) -> tuple[dict[str, float], list[EpisodeRow]]:
        """Take notice of an iteration and return its row, and those of its episodes."""
        episodes = [_row(episode) for episode in iteration.episodes]
        self.reached.n_iterations += 1
        self.reached.n_steps = iteration.n_steps
        self.reached.n_episodes += len(episodes)
        row: dict[str, float] = {
            "iteration": self.reached.n_iterations,
            "n_steps": self.reached.n_steps,
            "n_episodes": self.reached.n_episodes,
        }
        row |= _means(episodes, "episode_") | _with_loss(iteration.losses)
        chances = zip(self.plan.actions, self._probabilities(), strict=False)
        return row | {f"{PROBABILITY}{name}": value for name, value in chances}, episodes

    def _first_seen(self) -> Any:
        """Return what the first environment shows at the first decision."""
        from hdrl.learn.evaluate import batch_of_one

        observations, info = self.trainer.interaction.envs.reset(seed=self.trainer.seed)
        mask = info.get("action_mask")
        return batch_of_one(observations[0], None if mask is None else mask[0])

    def _probabilities(self) -> list[float]:
        """Return how likely each action is at the first decision, nothing if the agent does not know."""
        from hdrl.learn.checks import checked_probabilities

        if self._first is None:
            return []
        with blamed(self.agent_file):
            try:
                return checked_probabilities(self.trainer.agent, *self._first)
            except LearningError:
                return []

    def _validate(self) -> dict[str, float]:
        from hdrl.learn.agent import silence_listener
        from hdrl.learn.checks import check_weights
        from hdrl.learn.evaluate import evaluate

        check_weights(self.trainer.agent)
        if self.validation_envs is None:
            raise TypeError("there are no environments to validate in")
        plan = self.plan
        with blamed(self.agent_file), silence_listener(self.trainer.agent):
            played = evaluate(
                self.trainer.agent, self.validation_envs, plan.n_validation_episodes, seed=plan.validation_seed
            )
        episodes = [_row(episode) for episode in played]
        score = self.score(episodes)
        if self.reached.best_score is None or score > self.reached.best_score:
            self.reached.best_score, self.reached.best_iteration = score, self.reached.n_iterations
            self.save_best()
        return _means(episodes, "validation_")

    def _save(self, log: TrainingLog) -> None:
        from hdrl.learn.checks import check_weights

        check_weights(self.trainer.agent)
        state = {name: part for name, part in self.trainer.state_dict().items() if name != "agent"}
        self.save_checkpoint({"learner": state, "reached": self.reached.as_json(), "log": log.state_dict()})

    def _trainer_state(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state of the trainer; agents of HDeepRM had a loop of their own, which saved another one."""
        if "n_iterations" in state:
            return state
        done, interaction = self.reached.n_iterations, self.trainer.interaction
        interaction.envs.reset(seed=self.trainer.seed, options={"episode": done - 1})
        return {
            "memory": {"random": state["random"]},
            "interaction": interaction.state_dict(),
            "n_iterations": done,
            "n_steps": self.reached.n_steps,
        }


def _row(episode: Episode) -> EpisodeRow:
    return {name: float(value) for name, value in episode.items() if name not in NOT_RESULTS}


def _with_loss(logged: Mapping[str, float]) -> dict[str, float]:
    """Return what learning logged, with the sum of its losses if it logged no total."""
    losses = [value for name, value in logged.items() if name.endswith("_loss")]
    return {**({"loss": sum(losses)} if losses and "loss" not in logged else {}), **logged}


def _means(episodes: list[EpisodeRow], prefix: str) -> dict[str, float]:
    """Return the mean of each column over episodes."""
    if not episodes:
        return {}
    return {f"{prefix}{name}": sum(row[name] for row in episodes) / len(episodes) for name in episodes[0]}

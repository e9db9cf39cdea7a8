"""The loop of a training: iterate, log, validate, save; it stops and resumes between two iterations."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hdrl.base.errors import LearningError
from hdrl.base.pyfiles import located_errors
from hdrl.base.seeding import stream_seed
from hdrl.experiment.plan import RunPlan
from hdrl.experiment.run.progress import Progress
from hdrl.experiment.train.decisions import DecisionLog
from hdrl.experiment.train.log import PROBABILITY, Events, TrainingLog
from hdrl.experiment.train.world import TrainingWorld

if TYPE_CHECKING:
    import gymnasium

    from hdrl.distributed.training import ConfigurationTrainer, DistributedTrainer
    from hdrl.learn.interaction import Episode
    from hdrl.learn.train import Iteration, Trainer

EVENTS_FOLDER = "tensorboard"

EpisodeRow = dict[str, float]
"""A finished episode: ``return``, ``length`` and its results by name."""

NOT_RESULTS = ("r", "l", "t", "env")
"""Keys of an episode that are no results: copies of return and length, wall clock, environment."""


@dataclass(slots=True)
class Reached:
    """Progress of a training."""

    # iterations, decisions and finished episodes so far
    n_iterations: int = 0
    n_steps: int = 0
    n_episodes: int = 0
    best_score: float | None = None  # best validation, ``None`` before the first
    best_iteration: int = 0  # after which iteration it was, 0 before the first


class LoggedTraining:
    """A training that is logged, validated and saved in the folder of its plan.

    ``save_checkpoint`` writes what resuming needs, ``save_best`` the model that has done best so far in
    ``validation_envs``. ``reached`` is how far it is.
    """

    def __init__(
        self,
        plan: RunPlan,
        world: TrainingWorld,
        trainer: Trainer | DistributedTrainer | ConfigurationTrainer,
        *,
        save_checkpoint: Callable[[Mapping[str, Any]], None],
        save_best: Callable[[], None],
        validation_envs: gymnasium.vector.VectorEnv[Any, Any, Any] | None,
        progress: Progress,
        decisions: DecisionLog | None,
    ) -> None:
        self.reached = Reached()
        self.n_iterations = plan.request.runs * plan.request.learning.iterations
        self._options, self._learning = plan.request, plan.request.learning
        self._folder, self._agent_file, self._trainer = plan.out, plan.agent.path, trainer
        self._save_checkpoint, self._save_best, self._validation_envs = save_checkpoint, save_best, validation_envs
        self._progress, self._decisions = progress, decisions
        self._score, self._actions = world.score, world.spec.action_names()
        self._first = self._first_seen() if self._actions else None
        self._log: TrainingLog | None = None

    def resume(self, model: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.reached = Reached(**state["reached"])
        self._trainer.load_state_dict({**self._trainer_state(state["learner"]), "agent": model})
        self._log = self._new_log(state["log"])

    def run(self) -> bool:
        """Iterate until the plan is fulfilled or the user stops it, then save; return whether it is fulfilled."""
        log = self._log = self._log or self._new_log()
        saved = self.reached.n_iterations
        opened: Any = contextlib.nullcontext()
        if self._learning.tensorboard:
            opened = contextlib.closing(Events(self._folder / EVENTS_FOLDER, self.reached.n_steps))
        with self._progress.stoppable() as is_stopped, opened as events:
            while not self.is_done and not is_stopped():
                self._iterate(log, events)
                if self._is_due(self._learning.checkpoint_every):
                    self._save(log)
                    saved = self.reached.n_iterations
        if saved < self.reached.n_iterations:
            self._save(log)
        log.write_hdeeprm_files()
        return self.is_done

    @property
    def is_done(self) -> bool:
        """True if all iterations were made, or too many validations were no better."""
        reached, patience, every = self.reached, self._learning.patience, self._learning.validation_every
        if reached.n_iterations >= self.n_iterations:
            return True
        if patience is None or every is None:
            return False
        return reached.n_iterations // every - reached.best_iteration // every >= patience

    def _new_log(self, state: Mapping[str, int] | None = None) -> TrainingLog:
        return TrainingLog(self._folder, state, () if self._decisions is None else tuple(self._decisions.lines))

    def _iterate(self, log: TrainingLog, events: Events | None) -> None:
        began_s = time.perf_counter()
        n_steps = self.reached.n_steps
        row, episodes = self._count(self._trained())
        if self._validation_envs is not None and self._is_due(self._learning.validation_every):
            row |= self._validate(self._validation_envs)
        log.add(row, [{"iteration": self.reached.n_iterations, **episode} for episode in episodes])
        if self._decisions is not None:
            log.add_lines(self._decisions.take())
        n_steps = self.reached.n_steps - n_steps
        shown = row | {"steps_per_s": n_steps / max(time.perf_counter() - began_s, 1e-9)}
        if events is not None:
            events.add(self.reached.n_steps, shown)
        self._progress.training(self.reached.n_iterations, self.n_iterations, shown)

    def _is_due(self, every: int | None) -> bool:
        reached = self.reached.n_iterations
        return every is not None and (reached % every == 0 or reached == self.n_iterations)

    def _trained(self) -> Iteration:
        done: list[Iteration] = []
        with located_errors(self._agent_file):
            self._trainer.run(self._trainer.n_iterations + 1, on_iteration=done.append)
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
        chances = zip(self._actions, self._probabilities(), strict=False)
        return row | {f"{PROBABILITY}{name}": value for name, value in chances}, episodes

    def _first_seen(self) -> Any:
        """Return the first environment's observation at the first decision."""
        from hdrl.learn.evaluate import batch_of_one

        observations, info = self._trainer.interaction.envs.reset(seed=self._trainer.seed)
        mask = info.get("action_mask")
        return batch_of_one(observations[0], None if mask is None else mask[0])

    def _probabilities(self) -> list[float]:
        """Return the probability of each action at the first decision, nothing if the agent does not know."""
        from hdrl.learn.checks import checked_probabilities

        if self._first is None:
            return []
        with located_errors(self._agent_file):
            try:
                return checked_probabilities(self._trainer.agent, *self._first)
            except LearningError:
                return []

    def _validate(self, envs: gymnasium.vector.VectorEnv[Any, Any, Any]) -> dict[str, float]:
        from hdrl.learn.agent import silence_listener
        from hdrl.learn.checks import check_weights
        from hdrl.learn.evaluate import evaluate

        check_weights(self._trainer.agent)
        n_episodes, seed = self._learning.n_validation_episodes, stream_seed(self._options.seed, "validation")
        with located_errors(self._agent_file), silence_listener(self._trainer.agent):
            episodes = [_row(episode) for episode in evaluate(self._trainer.agent, envs, n_episodes, seed=seed)]
        score = self._score(episodes)
        if self.reached.best_score is None or score > self.reached.best_score:
            self.reached.best_score, self.reached.best_iteration = score, self.reached.n_iterations
            self._save_best()
        return _means(episodes, "validation_")

    def _save(self, log: TrainingLog) -> None:
        from hdrl.learn.checks import check_weights

        check_weights(self._trainer.agent)
        state = {name: part for name, part in self._trainer.state_dict().items() if name != "agent"}
        self._save_checkpoint({"learner": state, "reached": asdict(self.reached), "log": log.state_dict()})

    def _trainer_state(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state of the trainer; agents of HDeepRM had a loop of their own, which saved another one."""
        if "n_iterations" in state:
            return state
        done, interaction = self.reached.n_iterations, self._trainer.interaction
        interaction.envs.reset(seed=self._trainer.seed, options={"episode": done - 1})
        return {
            "memory": {"random": state["random"]},
            "interaction": interaction.state_dict(),
            "n_iterations": done,
            "n_steps": self.reached.n_steps,
        }


def _row(episode: Episode) -> EpisodeRow:
    return {name: float(value) for name, value in episode.items() if name not in NOT_RESULTS}


def _with_loss(logged: Mapping[str, float]) -> dict[str, float]:
    """Return the logged numbers of learning, with the sum of its losses if it logged no total."""
    losses = [value for name, value in logged.items() if name.endswith("_loss")]
    return {**({"loss": sum(losses)} if losses and "loss" not in logged else {}), **logged}


def _means(episodes: list[EpisodeRow], prefix: str) -> dict[str, float]:
    """Return the mean of each column over episodes."""
    if not episodes:
        return {}
    return {f"{prefix}{name}": sum(row[name] for row in episodes) / len(episodes) for name in episodes[0]}

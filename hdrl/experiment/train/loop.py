"""The loop of a training: iterate, log, validate, save; it stops and goes on between two iterations."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.experiment.train.learner import EpisodeRow, Iteration, Learner
from hdrl.experiment.train.log import PROBABILITY, Events, TrainingLog

if TYPE_CHECKING:
    from hdrl.experiment.run.progress import Progress

EVENTS_FOLDER = "tensorboard"

Save = Callable[[str, Mapping[str, Any]], None]
"""Writes a file of the training: its name, and what it holds."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a training takes, and what happens on the way.

    Attributes
    ----------
    n_iterations
        Iterations in all.
    checkpoint_every
        Iterations between two checkpoints.
    validation_every
        Iterations between two validations; ``None``: there are none.
    n_validation_episodes
        Episodes of a validation.
    validation_seed
        Seed of the validations, the same for all.
    actions
        Names of the actions whose probabilities are logged; empty: none are.
    has_events
        Whether events for TensorBoard are written.
    """

    n_iterations: int
    checkpoint_every: int = 10
    validation_every: int | None = None
    n_validation_episodes: int = 1
    validation_seed: int = 0
    actions: tuple[str, ...] = ()
    has_events: bool = False


@dataclass(slots=True)
class Reached:
    """How far a training is.

    Attributes
    ----------
    n_iterations, n_steps, n_episodes
        Iterations, decisions and finished episodes so far.
    best_score
        Best validation, ``None`` before the first.
    best_iteration
        After which iteration it was, 0 before the first.
    """

    n_iterations: int = 0
    n_steps: int = 0
    n_episodes: int = 0
    best_score: float | None = None
    best_iteration: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return it by name."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Training:
    """A training in a folder.

    Attributes
    ----------
    folder
        Its folder.
    learner
        Who learns.
    plan
        How long, and what happens on the way.
    save_checkpoint
        Writes what going on needs.
    save_best
        Writes the model that has done best so far.
    score
        Gives a number to the episodes of a validation, the more the better.
    progress
        Whom to tell how far it is.
    reached
        How far it is.
    """

    folder: Path
    learner: Learner
    plan: Plan
    save_checkpoint: Callable[[Mapping[str, Any]], None]
    save_best: Callable[[], None]
    score: Callable[[list[EpisodeRow]], float]
    progress: Progress | None = None
    reached: Reached = field(default_factory=Reached)
    _log: TrainingLog | None = None

    def resume(self, model: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint.

        Parameters
        ----------
        model
            What the learner's ``model`` returned then.
        state
            What was given to ``save_checkpoint``.
        """
        self.learner.load_state_dict(model, state["learner"])
        self.reached = Reached(**state["reached"])
        self._log = TrainingLog(self.folder, state["log"])

    def run(self) -> bool:
        """Iterate until the plan is fulfilled, or the user has had enough; then save.

        Returns
        -------
        bool
            Whether the plan is fulfilled.
        """
        log = self._log = self._log or TrainingLog(self.folder)
        saved = self.reached.n_iterations
        with self._stoppable() as is_stopped, self._events() as events:
            while self.reached.n_iterations < self.plan.n_iterations and not is_stopped():
                self._iterate(log, events)
                if self._is_due(self.plan.checkpoint_every):
                    self._save(log)
                    saved = self.reached.n_iterations
        if saved < self.reached.n_iterations:
            self._save(log)
        log.write_hdeeprm_files()
        return self.reached.n_iterations >= self.plan.n_iterations

    def _iterate(self, log: TrainingLog, events: Events | None) -> None:
        began_s = time.perf_counter()
        iteration = self.learner.iterate()
        row = self._count(iteration)
        if self._is_due(self.plan.validation_every):
            row |= self._validate()
        log.add(row, [self._episode(episode) for episode in iteration.episodes])
        shown = row | {"steps_per_s": iteration.n_steps / max(time.perf_counter() - began_s, 1e-9)}
        if events is not None:
            events.add(self.reached.n_iterations, shown)
        if self.progress is not None:
            self.progress.training(self.reached.n_iterations, self.plan.n_iterations, shown)

    @contextlib.contextmanager
    def _events(self) -> Iterator[Events | None]:
        if not self.plan.has_events:
            yield None
            return
        events = Events(self.folder / EVENTS_FOLDER, self.reached.n_iterations)
        try:
            yield events
        finally:
            events.close()

    @contextlib.contextmanager
    def _stoppable(self) -> Iterator[Callable[[], bool]]:
        if self.progress is None:
            yield lambda: False
            return
        with self.progress.stoppable() as is_stopped:
            yield is_stopped

    def _is_due(self, every: int | None) -> bool:
        reached = self.reached.n_iterations
        return every is not None and (reached % every == 0 or reached == self.plan.n_iterations)

    def _count(self, iteration: Iteration) -> dict[str, float]:
        """Take notice of an iteration and return its row."""
        self.reached.n_iterations += 1
        self.reached.n_steps += iteration.n_steps
        self.reached.n_episodes += len(iteration.episodes)
        row: dict[str, float] = {
            "iteration": self.reached.n_iterations,
            "n_steps": self.reached.n_steps,
            "n_episodes": self.reached.n_episodes,
        }
        row |= _means(iteration.episodes, "episode_") | iteration.values
        return row | {
            f"{PROBABILITY}{name}": value
            for name, value in zip(self.plan.actions, iteration.probabilities, strict=False)
        }

    def _episode(self, episode: EpisodeRow) -> dict[str, float]:
        return {"iteration": self.reached.n_iterations, **episode}

    def _validate(self) -> dict[str, float]:
        episodes = self.learner.score(self.plan.validation_seed, self.plan.n_validation_episodes)
        score = self.score(episodes)
        if self.reached.best_score is None or score > self.reached.best_score:
            self.reached.best_score, self.reached.best_iteration = score, self.reached.n_iterations
            self.save_best()
        return _means(episodes, "validation_")

    def _save(self, log: TrainingLog) -> None:
        self.save_checkpoint(
            {"learner": self.learner.state_dict(), "reached": self.reached.as_json(), "log": log.state_dict()}
        )


def _means(episodes: list[EpisodeRow], prefix: str) -> dict[str, float]:
    """Return the mean of each column over episodes."""
    if not episodes:
        return {}
    return {f"{prefix}{name}": sum(row[name] for row in episodes) / len(episodes) for name in episodes[0]}

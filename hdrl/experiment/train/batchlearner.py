"""Training of agents with our API: the trainer of `hdrl.learn` on a batch of environments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.errors import HdrlError, LearningError
from hdrl.experiment.run.agentfile import AgentError, blame
from hdrl.experiment.train.learner import EpisodeEnv, EpisodeRow, Iteration
from hdrl.setting import Trace

if TYPE_CHECKING:
    from hdrl.learn.agent import Agent
    from hdrl.learn.train import Iteration as Trained

NOT_RESULTS = ("r", "l", "t", "env")
"""What environments tell of an episode besides its results: copies of return and length, the wall clock, who it was."""


class BatchLearner:
    """An agent of our API and the batch of environments that it learns in.

    Parameters
    ----------
    agent
        The agent.
    envs
        The environments to learn in; ``None`` for an agent that only plays.
    validation_envs
        The environments to validate in, if any.
    seed
        Seed of the environments.
    path
        The agent file of a user's own class, for messages.

    Raises
    ------
    LearningError
        If agent and environments do not fit.
    """

    def __init__(
        self,
        agent: Agent,
        envs: Any | None,
        *,
        validation_envs: Any | None = None,
        seed: int = 0,
        path: Path | None = None,
    ) -> None:
        from hdrl.learn.train import Trainer

        self.agent = agent
        self._envs, self._validation_envs = envs, validation_envs
        self._path = path
        self._trainer: Trainer | None = None
        if envs is not None:
            self._first = self._first_seen(envs, seed)
            with self._blamed():
                self._trainer = Trainer(agent, envs, seed=seed)

    def iterate(self) -> Iteration:
        """Collect experience in all environments and learn from it once.

        Raises
        ------
        AgentError
            If the agent of a user fails.
        """
        trainer = self._trainer
        if trainer is None:
            raise TypeError("there are no environments to learn in")
        before = trainer.n_steps
        done: list[Trained] = []
        with self._blamed():
            trainer.run(trainer.n_iterations + 1, on_iteration=done.append)
        (iteration,) = done
        episodes = [_row(episode) for episode in iteration.episodes]
        return Iteration(iteration.n_steps - before, episodes, _with_loss(iteration.losses), self._probabilities())

    def play(self, env: EpisodeEnv, seed: int) -> Trace:
        """Simulate an episode with the best actions.

        Parameters
        ----------
        env
            A single environment.
        seed
            Its seed.

        Raises
        ------
        AgentError
            If the agent of a user fails.
        """
        import torch

        observation, info = env.reset(seed=seed)
        has_ended = False
        with torch.no_grad(), self._blamed():
            while not has_ended:
                observations, mask = _one(observation, info)
                action = int(self.agent.act(observations, mask, explore=False).actions[0])
                observation, _, terminated, truncated, info = env.step(action)
                has_ended = bool(terminated or truncated)
        trace: Trace = env.trace()
        return trace

    def score(self, seed: int, n_episodes: int) -> list[EpisodeRow]:
        """Return the episodes of a validation.

        Parameters
        ----------
        seed
            Seed of the environments.
        n_episodes
            How many.
        """
        from hdrl.learn.evaluate import evaluate

        if self._validation_envs is None:
            raise TypeError("there are no environments to validate in")
        with self._blamed():
            return [_row(episode) for episode in evaluate(self.agent, self._validation_envs, n_episodes, seed=seed)]

    def description(self) -> tuple[Any, Any, dict[str, Any]]:
        """Return the observation space, the action space, and the settings as JSON."""
        return self.agent.observation_space, self.agent.action_space, self.agent.config.as_json()

    def model(self) -> dict[str, Any]:
        """Return the state of the agent."""
        return self.agent.state_dict()

    def load_model(self, model: Mapping[str, Any], where: str) -> None:
        """Start from the weights of a model file.

        Parameters
        ----------
        model
            What `model` returned.
        where
            Name of the file, for messages.

        Raises
        ------
        LearningError
            If they do not fit.
        """
        try:
            with self._blamed():
                self.agent.load_weights(model)
        except LearningError as error:
            raise LearningError(f"{where}: {error}") from None

    def state_dict(self) -> dict[str, Any]:
        """Return all that going on needs besides `model`."""
        if self._trainer is None:
            raise TypeError("there is no training to go on with")
        return {name: part for name, part in self._trainer.state_dict().items() if name != "agent"}

    def load_state_dict(self, model: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Go on from where `model` and `state_dict` were called.

        Parameters
        ----------
        model, state
            What they returned.
        """
        if self._trainer is None:
            raise TypeError("there is no training to go on with")
        self._trainer.load_state_dict({**state, "agent": model})

    def close(self) -> None:
        """Close the environments."""
        for envs in (self._envs, self._validation_envs):
            if envs is not None:
                envs.close()

    def _first_seen(self, envs: Any, seed: int) -> tuple[Any, Any]:
        """Return what the first environment shows at the first decision."""
        observations, info = envs.reset(seed=seed)
        mask = info.get("action_mask")
        return _one(observations[0], {} if mask is None else {"action_mask": mask[0]})

    def _probabilities(self) -> list[float]:
        """Return how likely each action is at the first decision, nothing if the agent cannot tell."""
        import torch

        try:
            with torch.no_grad():
                return [float(value) for value in self.agent.probabilities(*self._first)[0]]
        except (LearningError, AttributeError):
            return []

    @contextlib.contextmanager
    def _blamed(self) -> Iterator[None]:
        """Say in which line of an agent file a mistake is."""
        try:
            yield
        except HdrlError:
            raise
        except Exception as error:
            blamed = blame(error, self._path) if self._path is not None else None
            if blamed is None:
                raise
            raise AgentError(str(blamed)) from error


def _with_loss(told: Mapping[str, float]) -> dict[str, float]:
    """Return what learning told, with the sum of its losses where it told none in all."""
    losses = [value for name, value in told.items() if name.endswith("_loss")]
    return {**({"loss": sum(losses)} if losses and "loss" not in told else {}), **told}


def _row(episode: Mapping[str, Any]) -> EpisodeRow:
    return {name: float(value) for name, value in episode.items() if name not in NOT_RESULTS}


def _one(observation: Any, info: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return an observation and its mask as batches of one."""
    import numpy as np
    import torch

    mask = info.get("action_mask")
    return (
        torch.from_numpy(np.array(observation, dtype=np.float32)).unsqueeze(0),
        None if mask is None else torch.from_numpy(np.not_equal(mask, 0)).unsqueeze(0),
    )

"""What a training is made of: a learner that goes on by one iteration, whatever API its agent has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from hdrl.setting import Trace

EpisodeRow = dict[str, float]
"""A finished episode: ``return``, ``length`` and its results by name."""

EpisodeEnv = Any
"""A single environment of `hdrl.envs`, with a ``trace`` method besides those of Gymnasium."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """What one iteration of a training brought.

    Attributes
    ----------
    n_steps
        Decisions that were made.
    episodes
        The episodes that ended.
    values
        What the algorithm tells, by name; ``loss`` is what it made smaller.
    probabilities
        Probability of each action at the first decision of an episode; empty if the agent tells none.
    """

    n_steps: int
    episodes: list[EpisodeRow]
    values: dict[str, float] = field(default_factory=dict)
    probabilities: list[float] = field(default_factory=list)


class Learner(Protocol):
    """An agent together with the environments that it learns in."""

    def iterate(self) -> Iteration:
        """Collect experience and learn from it once."""

    def play(self, env: EpisodeEnv, seed: int) -> Trace:
        """Simulate an episode with the best actions, without learning.

        Parameters
        ----------
        env
            A single environment.
        seed
            Its seed.
        """

    def score(self, seed: int, n_episodes: int) -> list[EpisodeRow]:
        """Return the episodes of a validation, with the best actions, without learning.

        Parameters
        ----------
        seed
            Seed of the environment; equal seeds mean equal episodes.
        n_episodes
            How many.
        """

    def model(self) -> dict[str, Any]:
        """Return what a model file holds of it: all that deciding needs."""

    def state_dict(self) -> dict[str, Any]:
        """Return all that going on needs besides `model`: tensors, arrays, numbers, texts, lists, dictionaries."""

    def load_state_dict(self, model: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Go on from where `model` and `state_dict` were called.

        Parameters
        ----------
        model, state
            What they returned.
        """

    def close(self) -> None:
        """Close the environments."""


def episode_row(episode: Mapping[str, float]) -> EpisodeRow:
    """Return the row of an episode from what its environment tells at the end.

    Parameters
    ----------
    episode
        ``info["episode"]``: the return ``r``, the length ``l``, and results by name.
    """
    row = {"return": float(episode["r"]), "length": float(episode["l"])}
    return row | {name: float(value) for name, value in episode.items() if name not in ("r", "l")}

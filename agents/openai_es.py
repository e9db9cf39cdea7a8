"""OpenAI's evolution strategy: a gradient from the ranks of mirrored candidates, for many weights.

Source: Salimans, Ho, Chen, Sidor, Sutskever, "Evolution Strategies as a Scalable Alternative to Reinforcement
Learning", arXiv:1703.03864, 2017, with Adam as there.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from hdrl.learn.evolution import EvolutionAgent, EvolutionConfig, Floats, Strategy


class OpenAIESConfig(EvolutionConfig):
    """Settings of OpenAI's evolution strategy."""

    lr: Annotated[float, Field(gt=0, le=10)] = Field(default=0.05, description="Step of Adam; usual 0.01 to 0.1.")


class Mirrored(Strategy):
    """Draws pairs on both sides of the mean, and follows the gradient that their ranks estimate."""

    def __init__(self, start: Floats, seed: int, sigma: float, population: int, lr: float) -> None:
        self.mean = start
        self._random = np.random.default_rng(seed)
        self._sigma, self._population, self._lr = sigma, population, lr
        self._first, self._second = np.zeros_like(start), np.zeros_like(start)
        self._n_updates = 0

    def ask(self) -> Floats:
        """Draw the candidates."""
        noise = self._random.standard_normal((self._population // 2, len(self.mean)))
        return self.mean + self._sigma * np.concatenate([noise, -noise])

    def tell(self, candidates: Floats, losses: Floats) -> None:
        """Take one step of Adam; equal losses have the same rank."""
        ordered = np.sort(losses)
        ranks = (np.searchsorted(ordered, losses, "left") + np.searchsorted(ordered, losses, "right") - 1) / 2
        utilities = ranks / (len(losses) - 1) - 0.5
        noise = (candidates - self.mean) / self._sigma
        gradient = np.add.reduce(utilities[:, np.newaxis] * noise, axis=0) / (len(losses) * self._sigma)
        self._n_updates += 1
        self._first = 0.9 * self._first + 0.1 * gradient
        self._second = 0.999 * self._second + 0.001 * gradient**2
        first = self._first / (1 - 0.9**self._n_updates)
        second = self._second / (1 - 0.999**self._n_updates)
        self.mean = self.mean - self._lr * first / (np.sqrt(second) + 1e-8)


class OpenAIES(EvolutionAgent):
    """Evolves by OpenAI's strategy."""

    Config = OpenAIESConfig
    is_portable = True
    config: OpenAIESConfig

    def strategy(self, start: Floats, seed: int, population: int) -> Strategy:
        """Return a new strategy."""
        return Mirrored(start, seed, self.config.sigma, population, self.config.lr)

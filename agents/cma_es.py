"""CMA-ES: evolution with a full covariance matrix, for up to some hundred weights.

Source: Hansen, "The CMA Evolution Strategy: A Tutorial", 2016; the library is ``cmaes``.
"""

from __future__ import annotations

import numpy as np

from hdrl.errors import MissingExtra
from hdrl.learn.evolution import EvolutionAgent, Floats, Strategy


class Covariance(Strategy):
    """Draws from a normal distribution whose covariance follows what was good.

    Parameters
    ----------
    start
        The first mean.
    seed, sigma, population
        What it draws by, how widely at first, how many.

    Raises
    ------
    MissingExtra
        If the library is not installed.
    """

    def __init__(self, start: Floats, seed: int, sigma: float, population: int) -> None:
        try:
            from cmaes import CMA
        except ImportError:
            raise MissingExtra("cmaes", "evolution") from None
        self._library = CMA(mean=start, sigma=sigma, population_size=population, seed=seed)
        self.mean = start

    def ask(self) -> Floats:
        """Draw the candidates."""
        return np.array([self._library.ask() for _ in range(self._library.population_size)])

    def tell(self, candidates: Floats, losses: Floats) -> None:
        """Move the mean and learn the covariance."""
        self._library.tell([(one, float(loss)) for one, loss in zip(candidates, losses, strict=True)])
        self.mean = self._library.mean.copy()


class CMAES(EvolutionAgent):
    """Evolves by CMA-ES."""

    def strategy(self, start: Floats, seed: int, population: int) -> Strategy:
        """Return a new CMA-ES."""
        return Covariance(start, seed, self.config.sigma, population)

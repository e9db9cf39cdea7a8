"""CMA-ES: evolution with a full covariance matrix, for up to some hundred weights.

Source: Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv:1604.00772, 2016, with the weights, learning rates and
negative weights of its table 1; numbers of equations are those of the paper. All sums have a fixed order, so that
equal seeds and losses give equal weights on every processor.
"""

from __future__ import annotations

import math

import numpy as np

from hdrl.learn.eigen import eigh
from hdrl.learn.evolution import EvolutionAgent, Floats, Strategy

_SMALL = 1e-8
"""In place of eigenvalues below 0, and added to squared lengths that are divided by."""


class Covariance(Strategy):
    """Draw from a normal distribution whose covariance follows the best candidates."""

    def __init__(self, start: Floats, seed: int, sigma: float, population: int) -> None:
        n, half = len(start), population // 2
        raw = np.array([math.log((population + 1) / 2) - math.log(i + 1) for i in range(population)])  # (49)
        mu, mu_minus = (float(part.sum() ** 2 / (part * part).sum()) for part in (raw[:half], raw[half:]))
        c1 = 2 / ((n + 1.3) ** 2 + mu)
        c_mu = min(1 - c1 - 1e-8, 2 * (mu - 2 + 1 / mu) / ((n + 2) ** 2 + mu))
        least = min(1 + c1 / c_mu, 1 + 2 * mu_minus / (mu + 2), (1 - c1 - c_mu) / (n * c_mu))  # (50) to (52)
        positive, negative = raw[raw > 0].sum(), -raw[raw < 0].sum()
        self._weights = np.where(raw >= 0, raw / positive, least / negative * raw)  # (53)
        self._n, self._half, self._population, self._mu = n, half, population, mu
        self._c1, self._c_mu = c1, c_mu
        self._c_sigma = (mu + 2) / (n + mu + 5)  # (55)
        self._d_sigma = 1 + 2 * max(0.0, math.sqrt((mu - 1) / (n + 1)) - 1) + self._c_sigma
        self._c_path = (4 + mu / n) / (n + 4 + 2 * mu / n)  # (56)
        self._usual_length = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        self._random = np.random.RandomState(seed)
        self.mean, self._sigma, self._covariance = start.copy(), sigma, np.eye(n)
        self._step_path, self._path, self._n_generations = np.zeros(n), np.zeros(n), 0
        self._axes()

    def ask(self) -> Floats:
        """Draw the candidates."""
        drawn = self._random.randn(self._population, self._n) * self._lengths  # along the axes
        return self.mean + self._sigma * _product(drawn, self._vectors.T)

    def tell(self, candidates: Floats, losses: Floats) -> None:
        """Move the mean and learn the covariance; of equal losses, the earlier candidate ranks first."""
        self._n_generations += 1
        order = np.argsort(losses, kind="stable")
        steps = (candidates[order] - self.mean) / self._sigma
        step = np.add.reduce(self._weights[: self._half, None] * steps[: self._half], axis=0)  # (41)
        self.mean = self.mean + self._sigma * step
        whitened = _product(_product(steps, self._vectors) / self._lengths, self._vectors.T)  # C^(-1/2) times each
        kept = 1 - self._c_sigma
        white_step = np.add.reduce(self._weights[: self._half, None] * whitened[: self._half], axis=0)
        self._step_path = (
            kept * self._step_path + math.sqrt(self._c_sigma * (2 - self._c_sigma) * self._mu) * white_step
        )
        length = math.sqrt(np.add.reduce(self._step_path * self._step_path))
        self._sigma *= math.exp((self._c_sigma / self._d_sigma) * (length / self._usual_length - 1))
        expected = math.sqrt(1 - kept ** (2 * (self._n_generations + 1))) * self._usual_length
        is_short = float(length < (1.4 + 2 / (self._n + 1)) * expected)
        gained = self._c_path * (2 - self._c_path)
        self._path = (1 - self._c_path) * self._path + is_short * math.sqrt(gained * self._mu) * step  # (45)
        squares = np.add.reduce(whitened * whitened, axis=1)
        weights = self._weights * np.where(self._weights >= 0, 1.0, self._n / (squares + _SMALL))  # (46)
        of_steps = np.add.reduce(weights[:, None, None] * _squares(steps), axis=0)
        kept = 1 + self._c1 * (1 - is_short) * gained - self._c1 - self._c_mu * self._weights.sum()
        self._covariance = kept * self._covariance + self._c1 * _squares(self._path) + self._c_mu * of_steps  # (47)
        self._axes()

    def _axes(self) -> None:
        """Find the axes of the distribution, one in each column, and its standard deviations along them."""
        squares, rows = eigh(self._covariance)
        self._vectors, self._lengths = rows.T, np.sqrt(np.where(squares < 0, _SMALL, squares))


def _product(rows: Floats, matrix: Floats) -> Floats:
    """Return ``rows @ matrix`` by sums in a fixed order."""
    return np.asarray(np.add.reduce(rows[:, :, None] * matrix[None], axis=1))


def _squares(vectors: Floats) -> Floats:
    """Return the product of each vector with itself, shape ``(..., n, n)``."""
    return np.asarray(vectors[..., :, None] * vectors[..., None, :])


class CMAES(EvolutionAgent):
    """Evolves by CMA-ES."""

    is_portable = True

    def strategy(self, start: Floats, seed: int, population: int) -> Strategy:
        """Return a new CMA-ES."""
        return Covariance(start, seed, self.config.sigma, population)

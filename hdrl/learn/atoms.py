"""Distributions of returns over fixed atoms: what C51 learns instead of mean returns.

Bellemare et al., "A Distributional Perspective on Reinforcement Learning", ICML 2017.
"""

from __future__ import annotations

import torch
from torch import Tensor


def atoms_of(value_range: tuple[float, float], n_atoms: int) -> Tensor:
    """Return the evenly spaced returns that a distribution is over, shape ``(n_atoms,)``."""
    low, high = value_range
    return torch.tensor([low + (high - low) * i / (n_atoms - 1) for i in range(n_atoms)])


def project(chances: Tensor, returns: Tensor, discounts: Tensor, atoms: Tensor) -> Tensor:
    """Return the distribution of ``return + discount * later`` over the same atoms (algorithm 1 of the paper).

    A return between two atoms is shared by them, more to the nearer one, so that the mean stays as it is; one beyond
    the last atom counts as the last one. ``chances`` and the result have shape ``(n, n_atoms)``, ``returns`` and
    ``discounts`` shape ``(n,)``.
    """
    first, last = atoms[0], atoms[-1]
    n_gaps = len(atoms) - 1
    moved = (returns.unsqueeze(-1) + discounts.unsqueeze(-1) * atoms).clamp(first, last)
    positions = ((moved - first) * (n_gaps / (last - first))).clamp(max=n_gaps)
    # The last atom is wholly above its gap, so that there is always an atom on either side.
    below = positions.floor().clamp(max=n_gaps - 1)
    above_share = positions - below
    index = below.long()
    found = torch.zeros_like(chances).scatter_add_(1, index, chances * (1.0 - above_share))
    return found.scatter_add_(1, index + 1, chances * above_share)

"""Choosing among legal actions: log-probabilities, samples and entropies that illegal actions do not touch."""

from __future__ import annotations

import torch
from torch import Tensor

from hdrl.learn import portable
from hdrl.learn.draws import draw, draw_by_all

ILLEGAL = -1e30
"""The logit of an illegal action: its probability is exactly 0, so are products with it, and no gradient is NaN."""


def mask_logits(logits: Tensor, mask: Tensor | None) -> Tensor:
    """Return logits, ``(..., n_actions)`` or ``(..., n_actions, n_atoms)``, in which illegal actions are impossible."""
    if mask is None:
        return logits
    return logits.masked_fill(~mask if mask.ndim == logits.ndim else ~mask.unsqueeze(-1), ILLEGAL)


def sample(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Draw an action for each row, with probabilities ``softmax(logits)``.

    The smallest of exponential times with these rates is the draw (the "Gumbel trick"): one pass, no cumulated sums.
    """
    probabilities = portable.softmax(logits)
    drawn = draw(probabilities, generator)
    return draw_by_all(probabilities, generator) if drawn is None else drawn


def random_legal(mask: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one of the legal actions (int64) of each row, uniformly; each row has at least one."""
    draws = torch.rand(mask.shape, generator=generator).to(mask.device)
    return draws.masked_fill_(~mask, -1.0).argmax(-1)


def log_prob_of(log_probs: Tensor, actions: Tensor) -> Tensor:
    """Return the log-probability of each row's action, or another number of it, shape ``(n,)``."""
    return log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def entropy_of(log_probs: Tensor) -> Tensor:
    """Return the entropy of each row in nats, shape ``(n,)``; at most the logarithm of the number of legal actions."""
    return -portable.sum(portable.exp(log_probs) * log_probs, -1)

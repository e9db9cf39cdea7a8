"""Random numbers from a generator of torch, whose uniform numbers alone are the same on every processor."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from hdrl.compiled.backends import JIT_DISABLED
from hdrl.learn.portable import kernels

_HALF_STEP = 2.0**-54
"""Half of the distance between two uniform numbers, so that none is 0."""


def normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw numbers of the standard normal distribution."""
    shares = torch.rand(shape, dtype=torch.float64, generator=generator) + _HALF_STEP
    if JIT_DISABLED:
        return torch.as_tensor(torch.special.ndtri(shares).float())
    out = torch.empty(shape)
    kernels.normal_each(shares.numpy().reshape(-1), out.numpy().reshape(-1))
    return out


def exponential(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw exponential times of mean 1."""
    uniforms = torch.rand(shape, dtype=torch.float64, generator=generator)
    if JIT_DISABLED:
        return -torch.log1p(-uniforms).float()
    out = torch.empty(shape)
    kernels.time_each(uniforms.numpy().reshape(-1), out.numpy().reshape(-1))
    return out


def uniform(shape: tuple[int, ...], low: float, high: float, generator: torch.Generator) -> Tensor:
    """Draw numbers between two bounds."""
    return torch.rand(shape, generator=generator) * (high - low) + low


def orthogonal(n_out: int, n_in: int, gain: float, generator: torch.Generator) -> Tensor:
    """Draw a matrix whose rows, or columns if there are fewer of them, are orthogonal, of a length."""
    numbers = normal((n_out, n_in), generator)
    if JIT_DISABLED:
        weight = torch.empty((n_out, n_in))
        return nn.init.orthogonal_(weight, gain, generator=generator)
    is_wide = n_out < n_in
    vectors = np.ascontiguousarray((numbers if is_wide else numbers.T).double().numpy())
    kernels.orthogonalise(vectors)
    found = torch.from_numpy(vectors).float() * gain
    return found if is_wide else found.T.contiguous()

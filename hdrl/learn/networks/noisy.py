"""Layers whose weights are noisy while an agent explores and learns, by as much as it learns to be good.

Fortunato et al., "Noisy Networks for Exploration", ICLR 2018, with factorised Gaussian noise. What differs from the
paper: the means of the weights begin as the weights of a network without noise do.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from hdrl.learn import portable


class NoisyLinear(nn.Module):
    """A linear layer whose weights are ``mean + spread * noise``.

    The noise of a weight is the product of one number for its input and one for its output, that of a bias the number
    of its output. There is none unless `noise_in` draws it.

    ``first_spread``: the spread of all weights at first, times the root of the number of inputs.
    """

    def __init__(self, layer: nn.Linear, first_spread: float) -> None:
        super().__init__()
        spread = first_spread / math.sqrt(layer.in_features)
        self.mean_weight = nn.Parameter(layer.weight.detach())
        self.mean_bias = nn.Parameter(layer.bias.detach())
        self.spread_weight = nn.Parameter(torch.full_like(layer.weight, spread))
        self.spread_bias = nn.Parameter(torch.full_like(layer.bias, spread))
        self._noise: tuple[Tensor, Tensor] | None = None

    @property
    def weight(self) -> Tensor:
        """The weights now, shape ``(n_out, n_in)``."""
        if self._noise is None:
            return self.mean_weight
        of_inputs, of_outputs = self._noise
        return self.mean_weight + self.spread_weight * torch.outer(of_outputs, of_inputs)

    @property
    def bias(self) -> Tensor:
        """The biases now, shape ``(n_out,)``."""
        if self._noise is None:
            return self.mean_bias
        return self.mean_bias + self.spread_bias * self._noise[1]

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs with the present weights."""
        return portable.linear(inputs, self.weight, self.bias)

    def draw(self, generator: torch.Generator) -> None:
        """Draw new noise."""
        n_out, n_in = self.mean_weight.shape
        drawn = portable.normal((n_in + n_out,), generator)
        flattened = (drawn.sign() * portable.sqrt(drawn.abs())).to(self.mean_weight.device)
        self._noise = flattened[:n_in], flattened[n_in:]

    def be_quiet(self) -> None:
        """Go back to the means."""
        self._noise = None


def make_noisy(module: nn.Module, first_spread: float) -> None:
    """Put a `NoisyLinear` in the place of every linear layer of a network; recurrent layers stay as they are."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, NoisyLinear(child, first_spread))
        else:
            make_noisy(child, first_spread)


@contextlib.contextmanager
def noise_in(module: nn.Module, generator: torch.Generator) -> Iterator[None]:
    """Draw noise for the weights of a network, and use it for all computations meanwhile.

    Without a `NoisyLinear` nothing happens, and nothing is drawn.
    """
    layers = [one for one in module.modules() if isinstance(one, NoisyLinear)]
    for layer in layers:
        layer.draw(generator)
    try:
        yield
    finally:
        for layer in layers:
            layer.be_quiet()

"""Layers whose first weights come from a given generator, never from the global one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from hdrl.learn.config import Activation
from hdrl.learn.threads import torch_threads
from hdrl.plainnet import PlainLayers

ACTIVATIONS: dict[Activation, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "leaky_relu": nn.LeakyReLU,
}
"""Activations by name."""

HIDDEN_GAIN = math.sqrt(2.0)
POLICY_GAIN = 0.01
"""A first policy that is nearly uniform explores; Andrychowicz et al., "What Matters In On-Policy RL", 2020."""
VALUE_GAIN = 1.0


class _Linear(nn.Linear):
    """A layer that draws nothing by itself; for ``torch.nn.utils.skip_init``, torch loads half a second of algebra."""

    def reset_parameters(self) -> None:
        """Leave the weights to whoever makes the layer."""


def linear(n_in: int, n_out: int, generator: torch.Generator, gain: float | None) -> nn.Linear:
    """Return a linear layer.

    Parameters
    ----------
    n_in, n_out
        Its sizes.
    generator
        Source of the first weights.
    gain
        Orthogonal weights of this gain and zero biases; ``None``: torch's own choice, uniform within
        ``1 / sqrt(n_in)``.
    """
    layer = _Linear(n_in, n_out)
    with torch.no_grad():
        if gain is None:
            bound = 1.0 / math.sqrt(n_in)
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
        else:
            with torch_threads(1):  # more of them find other last bits, and the same seed would give other trainings
                nn.init.orthogonal_(layer.weight, gain, generator=generator)
            nn.init.zeros_(layer.bias)
    return layer


def mlp(
    sizes: Sequence[int],
    generator: torch.Generator,
    activation: Activation = "relu",
    *,
    last_gain: float | None = None,
    is_open: bool = False,
    has_plain_init: bool = False,
) -> nn.Sequential:
    """Return fully connected layers.

    Parameters
    ----------
    sizes
        Width of the input and of each layer; one number alone means no layer.
    generator
        Source of the first weights.
    activation
        What follows each layer.
    last_gain
        Gain of the last layer; ``None``: that of the others.
    is_open
        Whether an activation follows the last layer too.
    has_plain_init
        Whether all layers begin with torch's own choice of weights instead of orthogonal ones.
    """
    layers: list[nn.Module] = []
    n_layers = len(sizes) - 1
    for i in range(n_layers):
        is_last = i == n_layers - 1
        gain = HIDDEN_GAIN if last_gain is None or not is_last else last_gain
        layers.append(linear(sizes[i], sizes[i + 1], generator, None if has_plain_init else gain))
        if is_open or not is_last:
            layers.append(ACTIVATIONS[activation]())
    return nn.Sequential(*layers)


def plain_layers(modules: Sequence[nn.Module]) -> PlainLayers | None:
    """Return layers as plain numbers; ``None`` if they are others than linear ones with ReLU in between.

    Parameters
    ----------
    modules
        The layers of `mlp`, and what follows each.
    """
    linears = modules[::2]
    if not all(type(one) is _Linear for one in linears) or not all(type(one) is nn.ReLU for one in modules[1::2]):
        return None
    if len(modules) != 2 * len(linears) - 1:
        return None
    widths = [linears[0].in_features, *(one.out_features for one in linears)]
    weights = torch.cat([part.detach().flatten() for one in linears for part in one.parameters()])
    return PlainLayers(np.array(widths, dtype=np.int64), weights.cpu().numpy())

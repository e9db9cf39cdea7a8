"""Layers whose first weights come from a given generator, never from the global one, and whose bits are portable.

On the CPU in single precision a stack of layers is one step of torch's graph, in compiled code
(`hdrl.learn.portable`); elsewhere torch's own layers do the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hdrl.base.plainnet import PlainLayers
from hdrl.learn import portable
from hdrl.learn.config import Activation
from hdrl.learn.networks.rows import Rows
from hdrl.learn.portable import Among, Stack


class Tanh(nn.Tanh):
    """The hyperbolic tangent with portable bits."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return it of each number."""
        return portable.tanh(inputs)


ACTIVATIONS: dict[Activation, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": Tanh,
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
        """Leave the weights to the caller."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Return the output of the layer."""
        return portable.linear(input, self.weight, self.bias)


def linear(n_in: int, n_out: int, generator: torch.Generator, gain: float | None) -> nn.Linear:
    """Return a linear layer with orthogonal weights of a gain and zero biases.

    Without a gain it keeps torch's own weights, uniform within ``1 / sqrt(n_in)``.
    """
    layer = _Linear(n_in, n_out)
    with torch.no_grad():
        if gain is None:
            bound = 1.0 / math.sqrt(n_in)
            for part in layer.parameters():
                part.copy_(portable.uniform(part.shape, -bound, bound, generator))
        else:
            layer.weight.copy_(portable.orthogonal(n_out, n_in, gain, generator))
            nn.init.zeros_(layer.bias)
    return layer


class Layers(nn.Sequential):
    """Fully connected layers with the same activation in between.

    Parameters
    ----------
    modules
        Linear layers, and activations between them.
    sizes
        Width of the input and of each layer.
    is_open
        True if it follows the last layer, too.
    """

    def __init__(self, modules: Sequence[nn.Module], sizes: Sequence[int], activation: Activation, *, is_open: bool):
        super().__init__(*modules)
        self.stack = Stack(np.array(sizes, dtype=np.int64), activation, is_open)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs of the last layer, shape ``(..., width)``."""
        weights = self.linear_weights()
        if not weights or not portable.is_own(inputs, *weights):
            found: Tensor = super().forward(inputs)  # type: ignore[no-untyped-call]
            return found
        out = portable.pass_layers(inputs.reshape(-1, inputs.shape[-1]), weights, self.stack)
        return out.view(*inputs.shape[:-1], out.shape[1])

    def through(self, rows: Rows, fill: float, head: Layers | None = None) -> Tensor:
        """Return the outputs at the positions of the rows, shape ``(*rows.shape, width)``, and ``fill`` in all others.

        Layers of ``head`` follow these, which are open then.
        """
        assert head is None or self.stack.is_open  # noqa: S101 - nothing else is ever followed
        weights = self.linear_weights() + ([] if head is None else head.linear_weights())
        if not portable.is_own(rows.table, *weights):
            numbers: Tensor = super().forward(rows.features)  # type: ignore[no-untyped-call]
            return rows.spread(numbers if head is None else head(numbers), fill)
        stack = self.stack if head is None else _joined(self.stack, head.stack)
        return _passed(rows, weights, stack, fill)

    def linear_weights(self) -> list[Tensor]:
        """Return the weight of each layer and its bias, in turn."""
        linears: list[Any] = [self[i] for i in range(0, len(self), 2)]
        return [weight for one in linears for weight in (one.weight, one.bias)]


def through(layer: nn.Linear, rows: Rows, fill: float) -> Tensor:
    """Return the output of a single layer at the positions of rows, shape ``(*rows.shape, width)``."""
    if not portable.is_own(rows.table, layer.weight):
        return rows.spread(layer(rows.features), fill)
    widths = np.array([layer.weight.shape[1], layer.weight.shape[0]], dtype=np.int64)
    return _passed(rows, [layer.weight, layer.bias], Stack(widths), fill)


def _passed(rows: Rows, weights: list[Tensor], stack: Stack, fill: float) -> Tensor:
    among = Among(rows.sources, rows.positions, rows.shape[0] * rows.shape[1], fill)
    out = portable.pass_layers(rows.table, weights, stack, among)
    return out.view(*rows.shape, out.shape[1])


def _joined(first: Stack, second: Stack) -> Stack:
    return second._replace(widths=np.concatenate([first.widths, second.widths[1:]]))


def mlp(
    sizes: Sequence[int],
    generator: torch.Generator,
    activation: Activation = "relu",
    *,
    last_gain: float | None = None,
    is_open: bool = False,
    has_plain_init: bool = False,
) -> Layers:
    """Return fully connected layers.

    - ``sizes``: width of the input and of each layer; one number alone means no layer.
    - ``has_plain_init``: whether all layers begin with torch's own choice of weights instead of orthogonal ones.
    """
    layers: list[nn.Module] = []
    n_layers = len(sizes) - 1
    for i in range(n_layers):
        is_last = i == n_layers - 1
        gain = HIDDEN_GAIN if last_gain is None or not is_last else last_gain
        layers.append(linear(sizes[i], sizes[i + 1], generator, None if has_plain_init else gain))
        if is_open or not is_last:
            layers.append(ACTIVATIONS[activation]())
    return Layers(layers, sizes, activation, is_open=is_open)


def plain_layers(modules: Sequence[nn.Module]) -> PlainLayers | None:
    """Return the layers of `mlp` as plain numbers; ``None`` if others than linear ones with ReLU are among them."""
    linears = modules[::2]
    if not all(type(one) is _Linear for one in linears) or not all(type(one) is nn.ReLU for one in modules[1::2]):
        return None
    if len(modules) != 2 * len(linears) - 1:
        return None
    widths = [linears[0].in_features, *(one.out_features for one in linears)]
    weights = torch.cat([part.detach().flatten() for one in linears for part in one.parameters()])
    return PlainLayers(np.array(widths, dtype=np.int64), weights.cpu().numpy())

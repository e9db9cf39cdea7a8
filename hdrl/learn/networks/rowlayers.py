"""Small layers over very many rows, faster than one module after the other, with the same numbers.

Where hundreds of thousands of rows pass layers of 8 to 32 units, three things take time that need not: a pass over
memory for each activation and its derivative (done in place here), the gradient of a widening layer's weights, for
which the product ``inputs^T gradients`` is some four times as fast as its transpose, and the gradient of the rows,
which nobody needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from hdrl.learn.networks.layers import mlp


class RowLayers(nn.Sequential):
    """Fully connected layers with ReLU in between, applied to each row alike.

    Parameters
    ----------
    sizes
        Width of the input and of each layer.
    generator
        Source of the first weights.
    last_gain
        Gain of the last layer's first weights; ``None``: that of the others.
    is_open
        Whether a ReLU follows the last layer too.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        generator: torch.Generator,
        *,
        last_gain: float | None = None,
        is_open: bool = False,
    ) -> None:
        super().__init__(*mlp(sizes, generator, "relu", last_gain=last_gain, is_open=is_open))
        self.is_open = is_open

    def forward(self, rows: Tensor) -> Tensor:
        """Return what comes out of the last layer, shape ``(k, sizes[-1])``.

        Parameters
        ----------
        rows
            Shape ``(k, sizes[0])``.
        """
        weights = [one for layer in self if not isinstance(layer, nn.ReLU) for one in (layer.weight, layer.bias)]
        result: Tensor = _Layers.apply(rows, self.is_open, *weights)  # type: ignore[no-untyped-call]
        return result


class _Layers(torch.autograd.Function):
    """All layers as one step of the graph: weights and biases of each layer in turn."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, is_open: bool, *weights: Tensor) -> Tensor:  # noqa: FBT001 - called by torch
        n_layers = len(weights) // 2
        layers = [rows]
        for i in range(n_layers):
            out = torch.addmm(weights[2 * i + 1], layers[-1], weights[2 * i].t())
            layers.append(out.relu_() if is_open or i < n_layers - 1 else out)
        ctx.save_for_backward(*layers, *weights[::2])
        ctx.is_open = is_open
        return layers[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        n_layers = len(ctx.saved_tensors) // 2
        layers, weights = ctx.saved_tensors[: n_layers + 1], ctx.saved_tensors[n_layers + 1 :]
        if ctx.is_open:
            gradient = torch.ops.aten.threshold_backward(gradient, layers[-1], 0)
        found: list[Tensor] = []
        for i in range(n_layers - 1, -1, -1):
            inputs, weight = layers[i], weights[i]
            is_widening = weight.shape[0] > weight.shape[1]
            product = (inputs.t() @ gradient).t() if is_widening else gradient.t() @ inputs
            found = [product, gradient.sum(0), *found]
            if i > 0:
                gradient = gradient @ weight
                torch.ops.aten.threshold_backward.grad_input(gradient, inputs, 0, grad_input=gradient)
        rows = gradient @ weights[0] if ctx.needs_input_grad[0] else None
        return rows, None, *found

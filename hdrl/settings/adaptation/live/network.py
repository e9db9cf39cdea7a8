"""Networks of torch from lists of layers, which can be made deeper and wider without changing what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hdrl.settings.adaptation.models import DnnModel, Layer, split_block

Norm = Literal["preserving", "fresh"]
"""Initial state of an inserted normalisation: ``preserving`` computes nothing at first, ``fresh`` normalises at once,
as in ChamiLamelas' advisor, which changes the outputs while training by as much as the logits."""


class GrownNorm(nn.Module):
    """Normalisation that begins as nothing: ``x + share * (batchnorm(x) - x)`` with a learned share that is 0 at first.

    So outputs, and the gradients of all that was there before, are the same in train and in eval mode.
    """

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        self.share = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the layer."""
        normalised: Tensor = self.norm(x)
        return x + self.share * (normalised - x)


class Network(nn.Module):
    """A network in blocks.

    Attributes
    ----------
    blocks
        A sequence of layers for each block of the model.
    added
        Blocks that were not there at first.
    """

    def __init__(self, model: DnnModel) -> None:
        super().__init__()
        self.model = model
        self.n_dims = _n_dims(model)
        self.blocks = nn.ModuleList(
            nn.Sequential(*(_made(layer, self._dims_at(block, position)) for position, layer in enumerate(layers)))
            for block, layers in enumerate(model.blocks)
        )
        self.added = [False] * len(model.blocks)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        for block in self.blocks:
            x = block(x)
        return x

    def deepen(self, target: int, norm: Norm = "preserving") -> list[nn.Parameter]:
        """Insert an identity behind an original block, and return its weights."""
        at = self.model.targets[target]
        before, fresh, rest = split_block(self.model.blocks[at])
        old = list(self.blocks[at])  # type: ignore[call-overload]
        new = [self._identity(layer, norm, self._dims_at(at, len(before) - 1)) for layer in fresh]
        self.model = self.model.deepened(target)
        here = nn.Sequential(*old[: len(before)])
        there = nn.Sequential(*new, *old[len(before) :])
        self.blocks = nn.ModuleList([*self.blocks[:at], here, there, *self.blocks[at + 1 :]])
        self.added.insert(at + 1, True)
        del rest
        return [weight for layer in new for weight in layer.parameters()]

    def _dims_at(self, block: int, position: int) -> int:
        """Return over how many dimensions a layer works: 0 behind a flattening."""
        layers = [layer for one in self.model.blocks[:block] for layer in one] + list(
            self.model.blocks[block][:position]
        )
        return 0 if any(layer.kind in ("flatten", "linear") for layer in layers) else self.n_dims

    def _identity(self, layer: Layer, norm: Norm, n_dims: int) -> nn.Module:
        made = _made(layer, n_dims)
        with torch.no_grad():
            if isinstance(made, nn.Linear):
                made.weight.copy_(torch.eye(made.out_features))
                made.bias.zero_()
            elif isinstance(made, (nn.Conv1d, nn.Conv2d)):
                nn.init.dirac_(made.weight)
                if made.bias is not None:
                    made.bias.zero_()
        if layer.kind == "batchnorm" and norm == "preserving":
            return GrownNorm(made)
        return made


def build(model: DnnModel, seed: int) -> Network:
    """Return a network with first weights that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Network(model)


def _n_dims(model: DnnModel) -> int:
    kinds = {layer.kind for layer in model.layers}
    return 2 if "conv" in kinds else 1 if "conv1d" in kinds else 0


_MADE: dict[str, Callable[[int, tuple[Any, ...]], nn.Module]] = {
    "conv": lambda _, sizes: nn.Conv2d(sizes[0], sizes[1], sizes[2], padding=sizes[2] // 2),
    "conv1d": lambda _, sizes: nn.Conv1d(sizes[0], sizes[1], sizes[2], padding=sizes[2] // 2),
    "linear": lambda _, sizes: nn.Linear(*sizes),
    "batchnorm": lambda n_dims, sizes: (nn.BatchNorm2d if n_dims == 2 else nn.BatchNorm1d)(*sizes),
    "relu": lambda _, __: nn.ReLU(),
    "avgpool": lambda n_dims, sizes: (nn.AvgPool2d if n_dims == 2 else nn.AvgPool1d)(*sizes),
    "adaptive_avgpool": lambda n_dims, _: (nn.AdaptiveAvgPool2d if n_dims == 2 else nn.AdaptiveAvgPool1d)(1),
    "flatten": lambda _, __: nn.Flatten(),
}


def _made(layer: Layer, n_dims: int) -> nn.Module:
    return _MADE[layer.kind](n_dims, layer.sizes)


def accuracy(network: nn.Module, examples: Tensor, labels: Tensor) -> float:
    """Return the share of examples that a network classifies right, in eval mode."""
    was_training = network.training
    network.eval()
    with torch.inference_mode():
        right = (network(examples).argmax(-1) == labels).float().mean()
    network.train(was_training)
    return float(right)


def carried(optimizer: torch.optim.Optimizer, fresh: list[Any]) -> None:
    """Let an optimiser learn inserted weights, whose moments begin at 0; those of other weights stay."""
    optimizer.param_groups[0]["params"].extend(fresh)

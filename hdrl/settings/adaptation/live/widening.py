"""Net2WiderNet: more channels or units in a block without changing what the network computes.

T. Chen, I. Goodfellow and J. Shlens, "Net2Net: Accelerating Learning via Knowledge Transfer", ICLR 2016.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from hdrl.base.errors import OptionsError
from hdrl.settings.adaptation.live.network import Network
from hdrl.settings.adaptation.models import BLOCK_KINDS, DnnModel, Layer


def widen(
    network: Network,
    block: int,
    width: int,
    generator: torch.Generator,
    optimizer: torch.optim.Optimizer | None = None,
) -> None:
    """Copy channels or units of a block until it is wide enough, and divide their outputs by the number of copies.

    Adam's moments follow: the gradient of a unit that is there ``n`` times is an ``n``-th of what it was.

    Parameters
    ----------
    block
        Index of its block now; not the last one, whose outputs are the classes.
    width
        New number of channels or units, at least as many as now.
    generator
        Chooses which are copied.

    Raises
    ------
    OptionsError
        If there is no such block, or the width is less.
    """
    if not 0 <= block < len(network.blocks) - 1:
        raise OptionsError(f"no block {block} to widen, expected 0 to {len(network.blocks) - 2}")
    main, after = _main_layer(network.blocks[block]), _main_layer(network.blocks[block + 1])
    before = main.weight.shape[0]
    if width < before:
        raise OptionsError(f"block {block} has {before} outputs, expected a width of at least that, not {width}")
    extra = torch.randint(before, (width - before,), generator=generator)
    chosen = torch.cat([torch.arange(before), extra])
    copies = torch.bincount(chosen, minlength=before)[chosen].float()
    put = _Replacer(optimizer)

    def outputs(old: Tensor, power: int) -> Tensor:
        shares = copies.reshape(-1, *[1] * (old.dim() - 1)) ** power
        return old[chosen] / shares

    for layer in network.blocks[block].modules():
        if layer is main or isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)):
            put.all_of(layer, lambda old: old[chosen], outputs)
            _resize(layer, width)
    n_each = after.weight.shape[1] // before  # places of each channel, where pictures are flattened

    def inputs(old: Tensor, *, is_weight: bool) -> Tensor:
        parts = old.reshape(old.shape[0], before, n_each, *old.shape[2:])[:, chosen]
        if is_weight:
            parts = parts / copies.reshape(1, -1, *[1] * (parts.dim() - 2))
        return parts.reshape(old.shape[0], width * n_each, *old.shape[2:])

    put.one(after, "weight", lambda old: inputs(old, is_weight=True), lambda old, _: inputs(old, is_weight=False))
    if isinstance(after, nn.Linear):
        after.in_features = width * n_each
    else:
        after.in_channels = width
    network.model = _wider(network.model, block, width, n_each)


class _Replacer:
    """Puts new weights in the place of old ones, in a layer and in the optimiser that learns them."""

    def __init__(self, optimizer: torch.optim.Optimizer | None) -> None:
        self._optimizer = optimizer

    def all_of(
        self, layer: nn.Module, change: Callable[[Tensor], Tensor], moments: Callable[[Tensor, int], Tensor]
    ) -> None:
        for name, _ in list(layer.named_parameters(recurse=False)):
            self.one(layer, name, change, moments)
        for name, buffer in list(layer.named_buffers(recurse=False)):
            if buffer.dim():
                setattr(layer, name, change(buffer))

    def one(
        self, layer: nn.Module, name: str, change: Callable[[Tensor], Tensor], moments: Callable[[Tensor, int], Tensor]
    ) -> None:
        old: nn.Parameter = getattr(layer, name)
        new = nn.Parameter(change(old.detach()).clone())
        setattr(layer, name, new)
        if self._optimizer is None:
            return
        for group in self._optimizer.param_groups:
            group["params"] = [new if one is old else one for one in group["params"]]
        state = self._optimizer.state.pop(old, None)
        if state is not None:
            powers = {"exp_avg": 1, "exp_avg_sq": 2}
            self._optimizer.state[new] = {
                key: moments(value, powers[key]).clone() if key in powers else value for key, value in state.items()
            }


def _main_layer(block: nn.Module) -> nn.Conv1d | nn.Conv2d | nn.Linear:
    """Return the convolution or linear layer that a block is about."""
    found = [layer for layer in block.modules() if isinstance(layer, (nn.Conv1d, nn.Conv2d, nn.Linear))]
    if len(found) != 1:
        raise OptionsError(f"a block has {len(found)} convolutions and linear layers, expected one to widen it")
    return found[0]


def _resize(layer: nn.Module, width: int) -> None:
    """Bring the sizes that layers print up to date."""
    for name in ("out_channels", "out_features", "num_features"):
        if hasattr(layer, name):
            setattr(layer, name, width)


def _wider(model: DnnModel, block: int, width: int, n_each: int) -> DnnModel:
    """Return the model in words, with the new width."""

    def changed(layer: Layer, *, is_here: bool) -> Layer:
        if is_here and layer.kind == "batchnorm":
            return replace(layer, sizes=(width,))
        if layer.kind not in BLOCK_KINDS:
            return layer
        sizes = list(layer.sizes)
        if is_here:
            sizes[1] = width
        else:
            sizes[0] = width * n_each
        return replace(layer, sizes=tuple(sizes))

    blocks = list(model.blocks)
    blocks[block] = tuple(changed(layer, is_here=True) for layer in blocks[block])
    blocks[block + 1] = tuple(changed(layer, is_here=False) for layer in blocks[block + 1])
    return replace(model, blocks=tuple(blocks))

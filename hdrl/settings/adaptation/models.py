"""Networks as lists of layers, in words: what an advisor sees of a job, and what live jobs are built from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from hdrl.base.errors import OptionsError, UnknownName, quoted

LAYERS: Mapping[str, int] = MappingProxyType(
    {
        "conv": 3,
        "conv1d": 3,
        "linear": 2,
        "batchnorm": 1,
        "relu": 0,
        "avgpool": 1,
        "adaptive_avgpool": 0,
        "flatten": 0,
    }
)
"""Kinds of layers, and how many numbers follow each.

``conv`` (two dimensions) and ``conv1d`` have channels in, channels out and the width of the kernel, which is odd;
``linear`` inputs and outputs; ``batchnorm`` channels; ``avgpool`` its width.
"""

BLOCK_KINDS = ("conv", "conv1d", "linear")
"""Layers that a block begins with."""

N_IDS = 64
"""Number of ids that layers can have; 0 is no layer."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: a name of `LAYERS` and the sizes that follow it."""

    kind: str
    sizes: tuple[int, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.kind, *map(str, self.sizes)])


@dataclass(frozen=True, slots=True)
class DnnModel:
    """A network, cut into blocks.

    Attributes
    ----------
    blocks
        Its blocks, each with a convolution or a linear layer, as a rule one; what stands before the first of these
        belongs to the first block.
    targets
        For each original block the position in ``blocks`` at which a layer behind it is inserted.
    """

    name: str
    blocks: tuple[tuple[Layer, ...], ...]
    targets: tuple[int, ...]

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers."""
        return tuple(layer for block in self.blocks for layer in block)

    @property
    def n_outputs(self) -> int:
        """Number of classes: the outputs of the last convolution or linear layer."""
        return next(layer.sizes[1] for layer in reversed(self.layers) if layer.kind in BLOCK_KINDS)

    def deepened(self, target: int) -> DnnModel:
        """Return the network with one more block behind an original one; refuse blocks that do not exist."""
        if not 0 <= target < len(self.targets):
            raise OptionsError(f"{self.name}: no block {target} to deepen, expected 0 to {len(self.targets) - 1}")
        at = self.targets[target]
        block, fresh, rest = split_block(self.blocks[at])
        blocks = (*self.blocks[:at], block, (*fresh, *rest), *self.blocks[at + 1 :])
        targets = tuple(position + 1 if position > at else position for position in self.targets)
        return replace(self, blocks=blocks, targets=targets)


def reachable(model: DnnModel, n_steps: int) -> list[DnnModel]:
    """Return all networks after up to ``n_steps`` deepenings, the one at the beginning first; each once."""
    found: dict[tuple[tuple[Layer, ...], ...], DnnModel] = {}
    for n_deepened in range(n_steps + 1):
        for targets in itertools.combinations_with_replacement(range(len(model.targets)), n_deepened):
            deep = model
            for target in targets:
                deep = deep.deepened(target)
            found.setdefault(deep.blocks, deep)
    return list(found.values())


def split_block(block: Sequence[Layer]) -> tuple[tuple[Layer, ...], tuple[Layer, ...], tuple[Layer, ...]]:
    """Return a block up to where another one is inserted, the new one, and what follows: pooling, for instance.

    The new block is an identity: a convolution or a linear layer with as many outputs as inputs, then normalisation
    and ReLU where the block has them. A block of several such layers gets one like its last.
    """
    main = max(i for i, layer in enumerate(block) if layer.kind in BLOCK_KINDS)
    end = main + 1
    while end < len(block) and block[end].kind in ("batchnorm", "relu"):
        end += 1
    width = block[main].sizes[1]
    new = replace(block[main], sizes=(width, width, *block[main].sizes[2:]))
    return tuple(block[:end]), (new, *block[main + 1 : end]), tuple(block[end:])


def _is_size(text: str) -> bool:
    return text.isdecimal() and len(text) <= 5 and 0 < int(text) <= 65536


def _read_layer(text: str, where: str) -> Layer:
    """Read a layer: ``conv 3 32 3``."""
    kind, *sizes = text.split() or [""]
    if kind not in LAYERS:
        raise OptionsError(f"{where}: {UnknownName('layer', kind, LAYERS)}")
    if len(sizes) != LAYERS[kind] or not all(map(_is_size, sizes)):
        raise OptionsError(f"{where}: layer {quoted(text)}, expected {kind} and {LAYERS[kind]} whole numbers above 0")
    if kind.startswith("conv") and int(sizes[2]) % 2 == 0:
        raise OptionsError(f"{where}: layer {quoted(text)} has an even kernel, which cannot be an identity")
    return Layer(kind, tuple(map(int, sizes)))


def model_of(name: str, texts: Sequence[str], where: str = "layers") -> DnnModel:
    """Cut a list of layers into blocks.

    Raises
    ------
    OptionsError
        If a layer is wrong, or there is nothing to deepen.
    """
    blocks: list[list[Layer]] = [[]]
    for text in texts:
        layer = _read_layer(text, where)
        if layer.kind in BLOCK_KINDS and any(one.kind in BLOCK_KINDS for one in blocks[-1]):
            # What flattens belongs to the block that needs it flat.
            blocks.append([blocks[-1].pop()] if blocks[-1][-1].kind == "flatten" else [])
        blocks[-1].append(layer)
    if not any(layer.kind in BLOCK_KINDS for layer in blocks[-1]):
        raise OptionsError(f"{where}: {name} has no convolution and no linear layer")
    return DnnModel(name, tuple(map(tuple, blocks)), tuple(range(len(blocks))))


def model_of_blocks(name: str, blocks: Sequence[Sequence[str]], where: str = "layers") -> DnnModel:
    """Return a network from the layers of each block, see `read_layer`.

    Raises
    ------
    OptionsError
        If a layer is wrong, or a block has nothing that can be deepened.
    """
    read = tuple(tuple(_read_layer(text, where) for text in block) for block in blocks)
    for number, block in enumerate(read):
        if not any(layer.kind in BLOCK_KINDS for layer in block):
            raise OptionsError(f"{where}: block {number} of {name} has no convolution and no linear layer")
    if not read:
        raise OptionsError(f"{where}: {name} has no blocks")
    return DnnModel(name, read, tuple(range(len(read))))


def _conv(n_in: int, widths: Sequence[int], n_classes: int, kernel: str = "conv") -> list[str]:
    """Return convolutions with normalisation and ReLU, pooling behind all of them, and a linear layer."""
    texts: list[str] = []
    for position, (before, after) in enumerate(zip((n_in, *widths), widths, strict=False)):
        texts += [f"{kernel} {before} {after} 3", f"batchnorm {after}", "relu"]
        texts.append("adaptive_avgpool" if position == len(widths) - 1 else "avgpool 2")
    return [*texts, "flatten", f"linear {widths[-1]} {n_classes}", "relu"]


def _forward(widths: Sequence[int]) -> list[str]:
    texts = ["flatten"]
    for position, (before, after) in enumerate(itertools.pairwise(widths)):
        texts.append(f"linear {before} {after}")
        texts += ["relu"] if position < len(widths) - 2 else []
    return texts


Builder = Callable[[tuple[int, ...], int], list[str]]
"""From the shape of an example (channels first) and the number of classes to layers."""


def _sized(shape: tuple[int, ...], widths: Sequence[int], n_classes: int) -> list[str]:
    return _conv(shape[0], widths, n_classes, "conv" if len(shape) == 3 else "conv1d")


def _n_numbers(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


MODELS: Mapping[str, Builder] = MappingProxyType(
    {
        "convnet2": lambda shape, n: _sized(shape, (32, 32), n),
        "convnet3": lambda shape, n: _sized(shape, (64, 32), n),
        "large_convnet": lambda shape, n: _sized(shape, (64, 64, 64), n),
        "small_convnet": lambda shape, n: _sized(shape, (8, 8), n)[:-1],
        "narrow_convnet": lambda shape, n: _sized(shape, (12, 6), n)[:-1],
        "wide_convnet": lambda shape, n: _sized(shape, (16, 16), n)[:-1],
        "feedforward1": lambda shape, n: _forward((_n_numbers(shape), 64, n)),
        "feedforward2": lambda shape, n: _forward((_n_numbers(shape), 64, 64, n)),
        "feedforward3": lambda shape, n: _forward((_n_numbers(shape), 64, 64, 64, n)),
        "narrow_feedforward": lambda shape, n: _forward((_n_numbers(shape), 16, 16, n)),
        "slim_feedforward": lambda shape, n: _forward((_n_numbers(shape), 32, 32, n)),
        "tapered_feedforward": lambda shape, n: _forward((_n_numbers(shape), 48, 24, n)),
        "wide_feedforward": lambda shape, n: _forward((_n_numbers(shape), 128, 128, n)),
    }
)
"""Networks by name.

``convnet2`` and ``convnet3`` are those of ChamiLamelas' advisor for CIFAR-10; the large one and the feed-forward ones
with a number, of which only names are published, have sizes of our own. The others are ours.
"""

CIFAR10_SHAPE, CIFAR10_CLASSES = (3, 32, 32), 10


def find_model(name: str, shape: tuple[int, ...] = CIFAR10_SHAPE, n_classes: int = CIFAR10_CLASSES) -> DnnModel:
    """Return a network by name, sized to examples of a shape (channels first); raise UnknownName for others."""
    if name not in MODELS:
        raise UnknownName("model", name, MODELS)
    return model_of(name, MODELS[name](shape, n_classes), name)


def layer_ids(layers: Sequence[Layer]) -> list[int]:
    """Return the id of each layer, from 1 up to less than `N_IDS`.

    An id stands for the kind of a layer and, roughly, its width: it doubles from one id to the next. So layers that no
    training has seen have ids, and no two kinds share one.
    """
    return [_id(layer) for layer in layers]


_PLAIN = ("relu", "adaptive_avgpool", "flatten", "avgpool")
_WIDE = (*BLOCK_KINDS, "batchnorm")
_N_WIDTHS = 14


def _id(layer: Layer) -> int:
    if layer.kind in _PLAIN:
        return 1 + _PLAIN.index(layer.kind)
    width = layer.sizes[1] if len(layer.sizes) > 1 else layer.sizes[0]
    step = min(_N_WIDTHS - 1, max(0, width.bit_length() - 1))
    return 1 + len(_PLAIN) + _WIDE.index(layer.kind) * _N_WIDTHS + step


def describe(model: DnnModel) -> list[str]:
    """Return the layers in words, as `model_of` takes them."""
    return [str(layer) for layer in model.layers]


def describe_blocks(model: DnnModel) -> list[list[str]]:
    """Return the layers of each block in words, as `model_of_blocks` takes them."""
    return [[str(layer) for layer in block] for block in model.blocks]

"""Networks of users: a Python file that names the blocks, and whether its layers fit the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hdrl.base.errors import OptionsError
from hdrl.base.pyfiles import SUFFIX, check_call, located_errors, run_file
from hdrl.settings.adaptation.models import BLOCK_KINDS, DnnModel, Layer, find_model, model_of_blocks

FUNCTION = "blocks"
"""The function of a user's file: from the shape of an example and the number of classes to blocks."""


def is_own_model(text: str) -> bool:
    """Return whether a network is given by a Python file."""
    return text.endswith(SUFFIX)


def read_model(text: str, shape: tuple[int, ...], n_classes: int) -> DnnModel:
    """Return a network by name, or that of a user's file.

    Parameters
    ----------
    text
        A name of `hdrl.settings.adaptation.models.MODELS`, or the path of a Python file.
    shape
        Shape of one example, channels first.

    Raises
    ------
    HdrlError
        If there is no such network or file, or it does not fit the data.
    """
    if is_own_model(text):
        return read_own_model(Path(text), shape, n_classes)
    return find_model(text, shape, n_classes)


def read_own_model(path: Path, shape: tuple[int, ...], n_classes: int) -> DnnModel:
    """Return the network that a user's file names.

    The file has a function ``blocks(shape, n_classes)``. It returns a list of blocks, each a list of layers in words,
    see `hdrl.settings.adaptation.models.read_layer`. Each block can be deepened, and is counted from 0.

    Raises
    ------
    OptionsError
        If it has no such function, or that returns something else, or the layers do not fit the data.
    AgentError
        If the file fails.
    """
    module, _ = run_file(path, trust=True)
    function = getattr(module, FUNCTION, None)
    if not callable(function):
        raise OptionsError(f"{path}: has no function {FUNCTION}(shape, n_classes)")
    check_call(function, "shape, n_classes", path)
    with located_errors(path):
        found: Any = function(shape, n_classes)
    are_texts = isinstance(found, Sequence) and all(
        isinstance(block, Sequence) and not isinstance(block, str) and all(isinstance(one, str) for one in block)
        for block in found
    )
    if not are_texts:
        raise OptionsError(f"{path}: {FUNCTION} returns no list of lists of layers in words, such as 'linear 40 64'")
    model = model_of_blocks(path.stem, found, str(path))
    check_fits(model, shape, n_classes, str(path))
    return model


def check_fits(model: DnnModel, shape: tuple[int, ...], n_classes: int, where: str) -> None:
    """Refuse a network whose layers do not fit one another, the data, or the number of classes."""
    now = shape
    for number, layer in enumerate(model.layers):
        now = _passed(layer, now, f"{where}: layer {number}, {str(layer)!r}, is given {_words(now)}")
    if now != (n_classes,):
        raise OptionsError(
            f"{where}: the network gives {_words(now)}, expected {n_classes} numbers, one for each class"
        )


def _passed(layer: Layer, now: tuple[int, ...], here: str) -> tuple[int, ...]:
    """Return the shape of what a layer makes of something."""
    n_dims = len(now) - 1
    wanted = {"conv": 2, "conv1d": 1, "linear": 0}.get(layer.kind, n_dims)
    if n_dims != wanted:
        raise OptionsError(
            f"{here}, expected {_KINDS[wanted]}{', so flatten before it' if layer.kind == 'linear' else ''}"
        )
    if layer.kind in (*BLOCK_KINDS, "batchnorm") and layer.sizes[0] != now[0]:
        raise OptionsError(f"{here}, expected {now[0]} instead of {layer.sizes[0]}")
    if layer.kind in BLOCK_KINDS:
        return (layer.sizes[1], *now[1:])
    if layer.kind == "flatten":
        return (math.prod(now),)
    return _pooled(layer, now, here) if "avgpool" in layer.kind else now


def _pooled(layer: Layer, now: tuple[int, ...], here: str) -> tuple[int, ...]:
    if len(now) == 1:
        raise OptionsError(f"{here}, expected a signal or a picture")
    if layer.kind == "adaptive_avgpool":
        return (now[0], *(1 for _ in now[1:]))
    if min(now[1:]) < layer.sizes[0]:
        raise OptionsError(f"{here}, which is smaller than that")
    return (now[0], *(size // layer.sizes[0] for size in now[1:]))


_KINDS = ("numbers in a row", "channels of a signal", "channels of a picture")


def _words(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"{shape[0]} numbers"
    return f"{shape[0]} channels of {'x'.join(map(str, shape[1:]))}"

"""Training data of live jobs: digits, synthetic signals, shapes and clusters, and a user's CIFAR-10."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hdrl.base import elementary
from hdrl.base.errors import MissingExtra, OptionsError, ReadError, UnknownName
from hdrl.base.seeding import stream

Floats = NDArray[np.float64]
Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]

SHARES = (0.6, 0.2, 0.2)
"""Shares of examples to train on, to validate on and to test on."""

N_EXAMPLES = 1000
"""Examples of generated data."""


@dataclass(frozen=True, slots=True)
class Data:
    """Labelled examples in three parts."""

    name: str
    n_classes: int
    # examples (float32, channels first) and labels (int64) of each part
    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example."""
        return tuple(self.train[0].shape[1:])


def signals(random: np.random.Generator, n: int, difficulty: float) -> Labelled:
    """Return one-dimensional signals of ten classes, shape ``(n, 1, 40)``.

    A template of 12 points for each class is stretched, scaled, put somewhere into 40 points, sheared, and covered by
    correlated and white noise.

    Parameters
    ----------
    difficulty
        Factor on the noise; 1: as in MNIST-1D.

    References
    ----------
    S. Greydanus and D. Kobak, "Scaling Down Deep Learning with MNIST-1D", ICML 2024; the templates are drawn here.
    """
    length, n_points, n_classes = 40, 12, 10
    templates = np.random.default_rng(1).normal(0.0, 1.0, (n_classes, n_points)).cumsum(axis=1)
    templates -= templates.mean(axis=1, keepdims=True)
    templates /= templates.std(axis=1, keepdims=True)
    labels = np.arange(n) % n_classes
    found = np.zeros((n, length))
    grid = np.linspace(0.0, 1.0, n_points)
    for number, label in enumerate(labels):
        width = int(random.integers(n_points, 2 * n_points))
        shape = np.interp(np.linspace(0.0, 1.0, width), grid, templates[label]) * random.uniform(0.8, 1.3)
        at = int(random.integers(length - width))
        found[number, at : at + width] = shape
        found[number] += random.uniform(-0.75, 0.75) * np.linspace(-0.5, 0.5, length)
    smooth = elementary.exp(-0.5 * (np.arange(-6, 7) / 2.0) ** 2)
    rough = random.normal(0.0, 1.0, (n, length + 12))
    smooth /= smooth.sum()
    correlated = sum(weight * rough[:, i : i + length] for i, weight in enumerate(smooth))
    found += difficulty * (0.25 * correlated / correlated.std() + 0.1 * random.normal(0.0, 1.0, found.shape))
    return found[:, np.newaxis].astype(np.float32), labels.astype(np.int64)


def shapes(random: np.random.Generator, n: int, difficulty: float) -> Labelled:
    """Return pictures of six kinds of shapes somewhere on noise, shape ``(n, 1, 12, 12)``.

    Parameters
    ----------
    difficulty
        Factor on the noise; at 1 its standard deviation is half of what the shapes stand out.
    """
    size, n_classes = 12, 6
    y, x = np.mgrid[0:size, 0:size]
    labels = np.arange(n) % n_classes
    found = np.zeros((n, size, size))
    for number, label in enumerate(labels):
        centre = random.uniform(4.0, size - 5.0, 2)
        radius = random.uniform(2.2, 3.6)
        dx, dy = x - centre[0], y - centre[1]
        far, wide = np.hypot(dx, dy), np.maximum(abs(dx), abs(dy))
        kinds = (
            far <= radius,
            (far <= radius) & (far > radius - 1.3),
            wide <= radius * 0.85,
            (wide <= radius * 0.85) & (wide > radius * 0.85 - 1.2),
            (abs(dx) < 0.8) & (abs(dy) <= radius) | (abs(dy) < 0.8) & (abs(dx) <= radius),
            (abs(dx - dy) < 1.0) & (wide <= radius) | (abs(dx + dy) < 1.0) & (wide <= radius),
        )
        found[number] = kinds[label]
    found += difficulty * 0.5 * random.normal(0.0, 1.0, found.shape)
    return found[:, np.newaxis].astype(np.float32), labels.astype(np.int64)


def clusters(random: np.random.Generator, n: int, difficulty: float) -> Labelled:
    """Return points of five classes, each of them four clusters somewhere in ten dimensions, shape ``(n, 1, 10)``.

    Parameters
    ----------
    difficulty
        Standard deviation of a cluster as a multiple of half of that of the clusters' centres.

    References
    ----------
    After I. Guyon's design of MADELON, NIPS 2003 feature selection challenge.
    """
    n_classes, n_each, n_dims = 5, 4, 10
    centres = np.random.default_rng(2).normal(0.0, 1.0, (n_classes, n_each, n_dims))
    labels = np.arange(n) % n_classes
    found = centres[labels, random.integers(n_each, size=n)]
    found += 0.5 * difficulty * random.normal(0.0, 1.0, found.shape)
    return found[:, np.newaxis].astype(np.float32), labels.astype(np.int64)


def digits(random: np.random.Generator, n: int, difficulty: float) -> Labelled:
    """Return handwritten digits of scikit-learn, shape ``(n, 1, 8, 8)``, with noise.

    Parameters
    ----------
    difficulty
        Standard deviation of the noise as a multiple of that of the pictures, less 1: at 1 there is none.

    Raises
    ------
    MissingExtra
        If scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingExtra("scikit-learn", "adaptation") from None
    pictures, labels = load_digits(return_X_y=True)
    order = random.permutation(len(labels))[:n]
    found = pictures[order].reshape(-1, 1, 8, 8) / 16.0
    found = found + max(0.0, difficulty - 1.0) * found.std() * random.normal(0.0, 1.0, found.shape)
    return found.astype(np.float32), labels[order].astype(np.int64)


GENERATORS: Mapping[str, Callable[[np.random.Generator, int, float], Labelled]] = MappingProxyType(
    {"signals": signals, "shapes": shapes, "clusters": clusters, "digits": digits}
)
"""Data by name, from random numbers, how many examples, and a difficulty."""


def read_data(text: str, seed: int) -> Data:
    """Return data: ``signals``, ``shapes:1.5`` with a difficulty, ``digits``, or ``cifar10:FOLDER``.

    Parameters
    ----------
    seed
        Seed of what is made up, and of the parts.

    Raises
    ------
    OptionsError
        If the difficulty is none, or the folder is missing.
    UnknownName
        If there is no such data.
    ReadError
        If a file of CIFAR-10 is missing or damaged.
    """
    name, _, rest = text.partition(":")
    random = stream(seed, "data")
    if name == "cifar10":
        if not rest:
            raise OptionsError("data is 'cifar10', expected cifar10:FOLDER with its binary version")
        return _parts(text, *_cifar10(Path(rest)), random)
    if name not in GENERATORS:
        raise UnknownName("data", name, (*GENERATORS, "cifar10"))
    try:
        difficulty = float(rest or 1.0)
    except ValueError:
        difficulty = math.nan
    if not 0.0 <= difficulty <= 100.0:
        raise OptionsError(f"data is {text!r}, expected {name}:DIFFICULTY with a number from 0 to 100")
    return _parts(text, *GENERATORS[name](random, N_EXAMPLES, difficulty), random)


def _parts(name: str, examples: NDArray[np.float32], labels: NDArray[np.int64], random: np.random.Generator) -> Data:
    order = random.permutation(len(labels))
    borders = np.cumsum([round(share * len(labels)) for share in SHARES[:-1]])
    parts = [
        (torch.from_numpy(examples[part].copy()), torch.from_numpy(labels[part].copy()))
        for part in np.split(order, borders)
    ]
    mean, std = parts[0][0].mean(), parts[0][0].std()
    train, validation, test = (((x - mean) / std, y) for x, y in parts)
    return Data(name, int(labels.max()) + 1, train, validation, test)


_CIFAR10_FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
_CIFAR10_ROW = 1 + 3 * 32 * 32


def _cifar10(folder: Path) -> Labelled:
    """Return CIFAR-10 of its binary version, which holds a byte for the label and 3,072 of each picture."""
    rows = []
    for name in _CIFAR10_FILES:
        path = folder / name
        try:
            content = np.fromfile(path, dtype=np.uint8)
        except OSError as error:
            raise ReadError(path, f"cannot be read ({error.strerror}), expected CIFAR-10's binary version") from None
        if not len(content) or len(content) % _CIFAR10_ROW:
            raise ReadError(path, f"is not a file of CIFAR-10: {len(content)} bytes, expected {_CIFAR10_ROW} a picture")
        rows.append(content.reshape(-1, _CIFAR10_ROW))
    whole = np.concatenate(rows)
    if whole[:, 0].max() > 9:
        raise ReadError(folder, "holds a label above 9, expected those of CIFAR-10")
    return whole[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255.0, whole[:, 0].astype(np.int64)

"""Networks that predict run times: the one that is shipped, and files of others (`hdrl predict train`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from hdrl.base import elementary
from hdrl.base.errors import ReadError
from hdrl.base.files import atomic_write, check_new, read_json
from hdrl.options.reading import checked
from hdrl.settings.batch.kernel.groups import LAYERS, N_NUMBERS

Floats = NDArray[np.float64]

FORMAT = "hdrl run-time network"
SHIPPED = Path(__file__).parent / "data" / "learned.json"
LARGEST = 1e6
"""Larger weights say nothing more, and products of several would overflow."""


@dataclass(frozen=True, slots=True)
class RunTimeNetwork:
    """The numbers of a network."""

    numbers: tuple[float, ...]  # weights and biases in the order of `kernel.groups`
    trained_on: Mapping[str, float]  # name of each log that it was trained on, and up to which share of its jobs
    by_name: bool = False  # True if it sees groups by the names of jobs, see `workload.history`


class _File(BaseModel):
    """A file that holds a network."""

    model_config = ConfigDict(strict=True, extra="forbid", defer_build=True)

    format: str
    layers: list[int]
    trained_on: dict[str, float]
    by_name: bool = False
    numbers: list[float] = Field(min_length=N_NUMBERS, max_length=N_NUMBERS)


def read_network(path: str | Path) -> RunTimeNetwork:
    """Read a network; raise ReadError if the file cannot be read, or holds something else."""
    data = read_json(path)
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("layers") != list(LAYERS):
        raise ReadError(path, f"is not a network of hdrl predict train, expected format {FORMAT!r} and layers {LAYERS}")
    known = checked(_File, data, path, whole="its content")
    if not all(abs(number) <= LARGEST for number in known.numbers):
        raise ReadError(path, f"has a number that is not finite, or beyond {LARGEST:g}")
    return RunTimeNetwork(tuple(known.numbers), known.trained_on, known.by_name)


def write_network(path: str | Path, network: RunTimeNetwork, *, force: bool = False) -> None:
    """Write a network; raise OutputError if the file is there already, or cannot be written."""
    check_new(Path(path), force=force)
    with atomic_write(path) as out:
        json.dump({"format": FORMAT, "layers": LAYERS, **asdict(network)}, out)
        out.write("\n")


@cache
def shipped_network() -> RunTimeNetwork:
    """Return the network that is shipped."""
    return read_network(SHIPPED)


def answers(numbers: Sequence[float], seen: Floats) -> Floats:
    """Return the output of a network for several jobs: the same as `kernel.groups.answer`, in NumPy.

    These are the logarithms of run / request and of 10 / max(run, 10), shape ``(n_jobs, 2)``.
    """
    layers = unpacked(numbers)
    for position, layer in enumerate(layers):
        total = np.tile(layer[:, -1], (len(seen), 1))
        for weights, column in zip(layer[:, :-1].T, seen.T, strict=True):  # the kernel's order of sums
            total += weights * column[:, np.newaxis]
        seen = total if position == len(layers) - 1 else elementary.tanh(total)
    return seen


def unpacked(numbers: Sequence[float]) -> list[Floats]:
    """Return a matrix for each layer: a row for each neuron, its weights and then its bias."""
    sizes = [(n_in + 1) * n_out for n_in, n_out in pairwise(LAYERS)]
    parts = np.split(np.asarray(numbers, dtype=np.float64), np.cumsum(sizes)[:-1])
    return [part.reshape(n_out, -1) for part, n_out in zip(parts, LAYERS[1:], strict=True)]

"""Clocks of live jobs: work that is counted, times that were measured once, and the clock on the wall."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from hdrl.base.errors import OptionsError, ReadError
from hdrl.base.files import read_json
from hdrl.base.hashing import sha256_of
from hdrl.settings.adaptation.machine import COUNTED, FLOPS_PER_S, Device
from hdrl.settings.adaptation.models import BLOCK_KINDS, DnnModel, describe
from hdrl.settings.adaptation.table import LONGEST_S

BACKWARD = 2.0
"""Floating-point operations of a backward pass, as a multiple of those of the forward pass."""


def flops(model: DnnModel, shape: tuple[int, ...]) -> float:
    """Return the floating-point operations of training on one example: forward and backward."""
    n_positions, n_channels, total = 1.0, shape[0], 0.0
    n_dims = len(shape) - 1
    for size in shape[1:]:
        n_positions *= size
    for layer in model.layers:
        if layer.kind in BLOCK_KINDS:
            kernel = layer.sizes[2] ** n_dims if layer.kind != "linear" else 1
            n_channels = layer.sizes[1]
            total += 2.0 * kernel * layer.sizes[0] * n_channels * (n_positions if layer.kind != "linear" else 1.0)
        elif layer.kind == "avgpool":
            total += n_positions * n_channels
            n_positions /= layer.sizes[0] ** n_dims
        elif layer.kind == "adaptive_avgpool":
            total += n_positions * n_channels
            n_positions = 1.0
        elif layer.kind == "batchnorm":
            total += 4.0 * n_positions * n_channels
        elif layer.kind == "relu":
            total += n_positions * n_channels
    return (1.0 + BACKWARD) * total


class JobClock(Protocol):
    """Measures the time of training."""

    name: str

    def took_s(self, model: DnnModel, shape: tuple[int, ...], n_examples: int, run: Callable[[], None]) -> float:
        """Train, and return how many seconds that counts for."""


class CountedClock:
    """Counts work: the same on every machine."""

    name = "counted"

    def __init__(self, flops_per_s: float) -> None:
        self.flops_per_s = flops_per_s

    def took_s(self, model: DnnModel, shape: tuple[int, ...], n_examples: int, run: Callable[[], None]) -> float:
        """Train, and return the time that its work counts for."""
        run()
        return flops(model, shape) * n_examples / self.flops_per_s


class MeasuredClock:
    """Reads seconds that were measured once: the same wherever the file is read.

    Raises
    ------
    ReadError
        If it is none.
    """

    name = "table"

    def __init__(self, path: Path) -> None:
        data = read_json(path)
        known = data.get("example_s") if isinstance(data, Mapping) else None
        machine = data.get("machine") if isinstance(data, Mapping) else None
        if not isinstance(known, Mapping) or not isinstance(machine, str) or not all(map(_is_time, known.values())):
            raise ReadError(
                path, "is not a table of times, expected an object with machine and example_s (seconds above 0)"
            )
        self.path, self.machine = path, machine
        self._example_s: Mapping[str, float] = known

    def sha256(self) -> str:
        """Return the SHA-256 of all times."""
        return sha256_of([], sorted(self._example_s.items()))

    def check(self, models: Iterable[DnnModel], shape: tuple[int, ...]) -> None:
        """Refuse networks that were not measured.

        Raises
        ------
        OptionsError
            If one was not.
        """
        for model in models:
            if network_key(model, shape) not in self._example_s:
                raise OptionsError(f"{self.path}: holds no time for {network_key(model, shape)}")

    def took_s(self, model: DnnModel, shape: tuple[int, ...], n_examples: int, run: Callable[[], None]) -> float:
        """Train, and return how long that took where the times were measured; see `JobClock.took_s`."""
        self.check([model], shape)
        run()
        return float(self._example_s[network_key(model, shape)] * n_examples)


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= LONGEST_S


class Wall:
    """Looks at the clock: a demonstration, never a claim."""

    name = "wall"

    def took_s(self, model: DnnModel, shape: tuple[int, ...], n_examples: int, run: Callable[[], None]) -> float:
        """Train, and return how long it took."""
        del model, shape, n_examples
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin


def network_key(model: DnnModel, shape: tuple[int, ...]) -> str:
    """Return the name of a network, for examples of a shape, in a table of times."""
    return f"{'x'.join(map(str, shape))}: {', '.join(describe(model))}"


def device_of(clock: str, device: str | None) -> str:
    """Return the name of the device whose time a clock measures.

    Parameters
    ----------
    device
        A user's name of it; ``None``: ``counted``, or the device on which the times were measured, or ``wall``.

    Raises
    ------
    OptionsError
        If the clock measures the time of another device.
    """
    name, _, rest = clock.partition(":")
    own = {"counted": COUNTED, "wall": clock}.get(clock)
    if name == "table" and rest:
        own = MeasuredClock(Path(rest)).machine
        if device not in (None, own):
            raise OptionsError(f"device is {device!r}, but {rest} was measured on {own!r}, expected that or none")
    elif device == COUNTED != own:
        raise OptionsError(f"device {COUNTED!r} is one where work is counted, clock {clock!r} is of another")
    return device or own or COUNTED


def find_clock(text: str, device: Device) -> Any:
    """Return a clock: ``counted``, ``table:FILE`` or ``wall``.

    Parameters
    ----------
    device
        Device of the jobs; ``counted`` needs one whose operations per second are known.

    Raises
    ------
    OptionsError
        If there is no such clock.
    """
    name, _, rest = text.partition(":")
    if text == "counted":
        if device.name not in FLOPS_PER_S:
            raise OptionsError(
                f"device is {device.name!r}, but clock 'counted' counts work on {', '.join(FLOPS_PER_S)},"
                " expected that or none, or another clock"
            )
        return CountedClock(FLOPS_PER_S[device.name])
    if name == "table" and rest:
        return MeasuredClock(Path(rest))
    if text == "wall":
        return Wall()
    raise OptionsError(f"clock is {text!r}, expected counted, table:FILE or wall")

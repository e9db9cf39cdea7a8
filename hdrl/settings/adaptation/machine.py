"""Devices: what jobs train on, and for how long."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from hdrl.errors import OptionsError, quoted, suggest
from hdrl.hashing import sha256_of

DEVICES: Mapping[str, float] = MappingProxyType({"gv100": 400.0, "counted": 10.0})
"""Devices by name, with the budget of a job in seconds: the NVIDIA GV100 of the published tables, and one that exists
on paper alone, where time is counted work."""

FLOPS_PER_S: Mapping[str, float] = MappingProxyType({"counted": 1e9})
"""Floating-point operations per second of devices on which time is counted."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device that trains a job at a time.

    Attributes
    ----------
    name
        Its name, with the budget where it is not the usual one.
    device
        Its name alone.
    budget_s
        How long a job may train.
    """

    name: str
    device: str
    budget_s: float

    @property
    def n_units(self) -> int:
        """One."""
        return 1

    @property
    def unit_kinds(self) -> dict[str, int]:
        """One device of its kind."""
        return {self.device: 1}

    def sha256(self) -> str:
        """Return the SHA-256 of device and budget."""
        return sha256_of([], [self.device, self.budget_s])

    def facts(self) -> dict[str, Any]:
        """Return name, size and budget."""
        return {"name": self.name, "n_devices": 1, "budget_s": self.budget_s}


def read_device(text: str, where: str = "platform") -> Device:
    """Read a device: ``gv100``, or ``counted:20`` with a budget in seconds.

    Parameters
    ----------
    text
        As options name it; a name of `DEVICES`, or any other one with a budget, as own tables name the machine that
        they were measured on.
    where
        Name of the source for messages.

    Raises
    ------
    OptionsError
        If there is no such device, or the budget is none.
    """
    name, colon, rest = text.partition(":")
    if not colon:
        if name not in DEVICES:
            hint = suggest(name, DEVICES)
            raise OptionsError(f"{where}: no device {quoted(name)}; {hint} (others need a budget: {name}:<seconds>)")
        return Device(name, name, DEVICES[name])
    try:
        budget_s = float(rest)
    except ValueError:
        budget_s = math.nan
    if not name or not 0 < budget_s < math.inf:
        raise OptionsError(f"{where}: device {quoted(text)}, expected a name, a colon and a budget above 0 in seconds")
    return Device(text, name, budget_s)

"""Devices: what jobs train on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from hdrl.base.errors import OptionsError, quoted
from hdrl.base.hashing import sha256_of

COUNTED = "counted"
"""A device that exists on paper alone, where time is counted work."""

FLOPS_PER_S: Mapping[str, float] = MappingProxyType({COUNTED: 1e9})
"""Floating-point operations per second of devices on which time is counted."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device that trains a job at a time.

    Attributes
    ----------
    name
        Its name, as tables say what they were measured on.
    """

    name: str

    @property
    def n_units(self) -> int:
        """One."""
        return 1

    @property
    def unit_kinds(self) -> dict[str, int]:
        """One device of its kind."""
        return {self.name: 1}

    def sha256(self) -> str:
        """Return the SHA-256 of its name: all that is known of it is in the tables."""
        return sha256_of([], [self.name])

    def facts(self) -> dict[str, Any]:
        """Return name and size."""
        return {"name": self.name, "n_devices": 1}


EXPECTED = "the name of a device such as 'counted', or what hdrl.adaptation.read_device returns"


def read_device(text: str, where: str = "platform") -> Device:
    """Return a device by its name.

    Parameters
    ----------
    text
        Its name: ``gv100`` for the published tables, ``counted`` for those that are shipped.

    Raises
    ------
    OptionsError
        If it is no name.
    """
    if not is_device_name(text):
        raise OptionsError(
            f"{where}: {quoted(text)} is not a device, expected the name that tables say: gv100, counted"
        )
    return Device(text.strip())


def is_device_name(text: str) -> bool:
    """Return whether a text can name a device."""
    return bool(text.strip()) and text.isprintable() and "/" not in text

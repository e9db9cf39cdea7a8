"""Devices for networks: their names, and moving training data to them.

Random numbers come from the generators of the CPU wherever the networks are, so that a seed means the same everywhere.
Environments, memories and model files stay on the CPU, too.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import torch
from torch import Tensor

from hdrl.base.errors import OptionsError

T = TypeVar("T")

DEVICES = ("cpu", "cuda", "mps")
"""Kinds of devices."""

CPU = torch.device("cpu")


def available_devices() -> list[str]:
    """Return the kinds of devices that torch finds here."""
    found = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return [name for name in DEVICES if found[name]]


def find_device(name: str, where: str = "device") -> torch.device:
    """Return a device by its name.

    Raise OptionsError if there is no such device here.

    ``name``: one of `DEVICES`, or ``"auto"``: CUDA's if there is one, else Apple's, else the CPU.
    """
    found = available_devices()
    if name == "auto":
        return torch.device(next(one for one in ("cuda", "mps", "cpu") if one in found))
    if name not in DEVICES:
        raise OptionsError(f"{where} is {name!r}, expected one of {', '.join(DEVICES)} or auto")
    if name not in found:
        raise OptionsError(f"{where} is {name!r}, but torch finds {', '.join(found)} here")
    return torch.device(name)


def name_of(device: torch.device) -> str:
    """Return the name of a device: its kind, and for CUDA the model."""
    return f"cuda ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else device.type


def moved(value: T, device: torch.device) -> T:
    """Return a value with all of its tensors on a device; itself if they may stay on the CPU.

    The value may be a tensor, or a data class, list, tuple or dictionary with some.
    """
    return value if device == CPU else put(value, device)


def put(value: Any, device: torch.device) -> Any:
    """Return a value with all of its tensors on a device, wherever they were."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: put(one, device) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(put(one, device) for one in value))
    if isinstance(value, (list, tuple)):
        return type(value)(put(one, device) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {one.name: put(getattr(value, one.name), device) for one in dataclasses.fields(value)}
        return dataclasses.replace(value, **parts)
    return value

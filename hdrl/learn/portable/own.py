"""Choice of the tensors that our own compiled code processes."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from hdrl.compiled.backends import JIT_DISABLED


def is_own(*tensors: Tensor) -> bool:
    """Return True if tensors are in single precision on the CPU, and there is a compiler."""
    return not JIT_DISABLED and all(one.dtype == torch.float32 and one.device.type == "cpu" for one in tensors)


def array_of(tensor: Tensor) -> NDArray[Any]:
    """Return the numbers of a contiguous tensor on the CPU, in the same memory, without its gradient."""
    return tensor.detach().numpy()

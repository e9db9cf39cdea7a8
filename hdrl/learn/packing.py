"""States as what ``torch.load(weights_only=True)`` reads.

Arrays of NumPy become bytes with a description, and come back as they were.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hdrl.base.errors import LearningError

_ARRAY = "numpy array"


def pack(value: Any) -> Any:
    """Return a value in which every array of NumPy is replaced by plain parts.

    It may hold tensors, arrays (structured ones too), numbers, texts, ``None``, and dictionaries, lists and tuples of
    them. Raise LearningError for anything else.
    """
    if isinstance(value, np.ndarray):
        return _pack_array(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {pack(key): pack(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [pack(item) for item in value]
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True).contiguous()
    if isinstance(value, str):
        # Equal texts as one object: torch.save writes two equal objects twice, which gives other bytes.
        return sys.intern(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise LearningError(f"a saved state may not hold a {type(value).__name__}")


def unpack(value: Any) -> Any:
    """Return the argument of `pack`, with lists for tuples; raise LearningError if an array is described wrongly."""
    if isinstance(value, dict):
        return _unpack_array(value) if _ARRAY in value else {key: unpack(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unpack(item) for item in value]
    return value


def _pack_array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    if array.dtype.hasobject:
        raise LearningError("a saved state may not hold an array of objects")
    data = np.frombuffer(np.ascontiguousarray(array).tobytes(), dtype=np.uint8).copy()
    return {
        _ARRAY: _plain(np.lib.format.dtype_to_descr(array.dtype)),
        "shape": list(array.shape),
        "data": torch.from_numpy(data),
    }


def _unpack_array(parts: dict[str, Any]) -> np.ndarray[Any, Any]:
    try:
        dtype = np.lib.format.descr_to_dtype(_descr(parts[_ARRAY]))
        shape = tuple(int(n) for n in parts["shape"])
        data = parts["data"].numpy()
        if dtype.hasobject or data.nbytes != math.prod(shape) * dtype.itemsize:
            raise ValueError("its size does not fit its description")
        return np.frombuffer(data.tobytes(), dtype=dtype).reshape(shape).copy()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise LearningError(f"an array of the saved state is damaged: {error}") from None


def _plain(descr: Any) -> Any:
    return [_plain(part) for part in descr] if isinstance(descr, (list, tuple)) else descr


def _descr(plain: Any) -> Any:
    """Return a description as NumPy wants it: fields are tuples."""
    if isinstance(plain, str):
        return plain
    if len(plain) == 2 and isinstance(plain[0], str) and isinstance(plain[1], list) and _is_shape(plain[1]):
        return plain[0], tuple(plain[1])
    return [(field[0], _descr(field[1]), *(tuple(part) for part in field[2:])) for field in plain]


def _is_shape(plain: list[Any]) -> bool:
    return bool(plain) and all(isinstance(n, int) for n in plain)

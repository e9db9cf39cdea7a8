"""Hashes of arrays and files: equal content gives equal hashes, wherever it came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def sha256_of(arrays: Iterable[tuple[str, NDArray[Any]]], rest: object = None) -> str:
    """Return the SHA-256 of named arrays in a fixed order and of something that JSON can hold, hexadecimal."""
    digest = hashlib.sha256()
    for name, array in arrays:
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    if rest is not None:
        digest.update(json.dumps(rest).encode())
    return digest.hexdigest()


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of what a file holds, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def columns(table: NDArray[np.void]) -> list[tuple[str, NDArray[Any]]]:
    """Return the columns of a structured array with their names."""
    return [(column, table[column]) for column in table.dtype.names or ()]

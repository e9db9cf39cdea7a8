"""Structured types whose rows are read alike in compiled code and in plain Python."""

from __future__ import annotations

import numpy as np


def record_dtype(fields: list[tuple[str, type]] | np.dtype[np.void]) -> np.dtype[np.void]:
    """Return a structured type whose rows have attributes in plain Python, too (without compilation)."""
    return np.dtype((np.record, fields))


def of(kind: type, *names: str) -> list[tuple[str, type]]:
    """Return fields of one type, one for each name."""
    return [(name, kind) for name in names]
